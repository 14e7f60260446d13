//! The open descriptors of this process.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Returns open descriptors by kind: `socket`, `anon_inode:[eventfd]`, `/memfd:NAME`, paths.
pub(super) fn open() -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return kinds };
    for link in entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()) {
        let text = link.to_string_lossy();
        // This listing has the directory itself open, and the pipes are those of the experiment.
        if text.starts_with("/proc/") || text.starts_with("pipe:") {
            continue;
        }
        let is_numbered = text.starts_with("socket:");
        let kind = if is_numbered { "socket".to_owned() } else { text.into_owned() };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

/// Returns the descriptors that `after` has more of than `before`.
pub(super) fn more(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let surplus = |(kind, count): (&String, &u64)| {
        let surplus = count.saturating_sub(before.get(kind).copied().unwrap_or_default());
        (surplus > 0).then(|| (kind.clone(), surplus))
    };
    after.iter().filter_map(surplus).collect()
}

/// Removes the open door of queue pair `qpn` from the surplus: it belongs to the queue pair as long
/// as that exists.
pub(super) fn leave_out_door(more: &mut BTreeMap<String, u64>, addr: IpAddr, qpn: u16) {
    let name = format!("@{}", softefa::ring_socket_name(SocketAddr::new(addr, qpn)));
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let is_open = sockets.lines().any(|line| line.split_whitespace().last() == Some(name.as_str()));
    if let Some(count) = more.get_mut("socket").filter(|_| is_open) {
        *count -= 1;
    }
    more.retain(|_, count| *count > 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_is_seen() {
        let before = open();
        let _file = fs::File::open("/dev/null").expect("a file");
        assert!(more(&before, &open()).contains_key("/dev/null"));
    }
}
