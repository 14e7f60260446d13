//! The knowledge that a process of another user can gain.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// Files that must stay between a process and its user.
const PRIVATE: [&str; 10] =
    ["environ", "maps", "mem", "fd", "auxv", "syscall", "stack", "io", "smaps", "map_files"];

/// The first port of queue pairs. Those below are of paths.
pub(crate) const QPN_FIRST: u16 = 16_384;

/// Returns the lines of the UDP sockets that are bound to an address, split into fields.
fn sockets_of(addr: IpAddr) -> Vec<Vec<String>> {
    let IpAddr::V4(addr) = addr else { panic!("{addr}: victims have IPv4 addresses") };
    let table = fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let is_at = format!("{:08X}:", u32::from_ne_bytes(addr.octets()));
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_of = |fields: &Vec<String>| fields.get(1).is_some_and(|at| at.starts_with(&is_at));
    table.lines().skip(1).map(fields).filter(is_of).collect()
}

fn port(fields: &[String]) -> Option<u16> {
    u16::from_str_radix(fields.get(1)?.split_once(':')?.1, 16).ok()
}

/// Returns the ports of UDP sockets that are bound to an address, in any order.
pub(crate) fn ports_of(addr: Ipv4Addr) -> Vec<u16> {
    sockets_of(addr.into()).iter().filter_map(|fields| port(fields)).collect()
}

/// Returns the number of datagrams for queue pairs of an address that found the queue of their
/// socket full.
pub(crate) fn lost_at(addr: IpAddr) -> u64 {
    let lost = |fields: &Vec<String>| fields.last().and_then(|drops| drops.parse::<u64>().ok());
    // Sockets of paths do not receive, and count such datagrams in the same field.
    let is_path = |fields: &Vec<String>| port(fields).is_some_and(|port| port < QPN_FIRST);
    sockets_of(addr).iter().filter(|fields| !is_path(fields)).filter_map(lost).sum()
}

/// Returns the private files of a process that can be read all the same.
pub(crate) fn open_secrets(pid: u32) -> Vec<PathBuf> {
    let path = |name| Path::new("/proc").join(pid.to_string()).join(name);
    let can_read = |path: &PathBuf| match fs::read_dir(path) {
        Ok(_) => true,
        Err(_) => fs::read(path).is_ok_and(|bytes| !bytes.is_empty()),
    };
    PRIVATE.into_iter().map(path).filter(can_read).collect()
}

/// Returns the files below `dir` that can be read and hold one of `secrets`, and those that can be
/// written.
pub(crate) fn leaks(dir: &Path, secrets: &[Vec<u8>]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![dir.to_path_buf()];
    while let Some(path) = waiting.pop() {
        if let Ok(entries) = fs::read_dir(&path) {
            waiting.extend(entries.flatten().map(|entry| entry.path()));
            continue;
        }
        let bytes = fs::read(&path).unwrap_or_default();
        let holds = |secret: &Vec<u8>| bytes.windows(secret.len()).any(|window| window == secret);
        if secrets.iter().any(holds) || fs::OpenOptions::new().write(true).open(&path).is_ok() {
            found.push(path);
        }
    }
    found
}
