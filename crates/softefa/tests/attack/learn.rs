//! What a process of another user can find out.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// What must stay between a process and its user.
const PRIVATE: [&str; 10] =
    ["environ", "maps", "mem", "fd", "auxv", "syscall", "stack", "io", "smaps", "map_files"];

/// The ports of UDP sockets that are bound to an address, in any order.
pub(crate) fn ports_of(addr: Ipv4Addr) -> Vec<u16> {
    let table = fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let is_at = format!("{:08X}", u32::from_ne_bytes(addr.octets()));
    let port = |line: &str| {
        let (ip, port) = line.split_whitespace().nth(1)?.split_once(':')?;
        (ip == is_at).then(|| u16::from_str_radix(port, 16).ok()).flatten()
    };
    table.lines().skip(1).filter_map(port).collect()
}

/// Private things of a process that can be read all the same.
pub(crate) fn open_secrets(pid: u32) -> Vec<PathBuf> {
    let path = |name| Path::new("/proc").join(pid.to_string()).join(name);
    let can_read = |path: &PathBuf| match fs::read_dir(path) {
        Ok(_) => true,
        Err(_) => fs::read(path).is_ok_and(|bytes| !bytes.is_empty()),
    };
    PRIVATE.into_iter().map(path).filter(can_read).collect()
}

/// Files below `dir` that can be read and hold one of `secrets`, and those that can be written.
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
