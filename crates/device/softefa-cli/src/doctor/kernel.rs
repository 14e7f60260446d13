//! Checks of what the kernel and the container permit.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::thread;

use rustix::net::sockopt;
use rustix::thread::UnshareFlags;
#[expect(deprecated, reason = "see `make_namespaces`")]
use rustix::thread::unshare;
use softefa::{SOCKET_BUFFER_BYTES, local_copy};

use super::{Finding, device};
use crate::failure::Failure;

/// The name of the trial of a copy, which an address of this process follows.
const COPY: &str = "copy:";
/// The name of the trial of namespaces.
const NAMESPACES: &str = "namespaces";

/// The bytes that a child copies from this process.
static WORD: [u8; 8] = *b"a word..";

pub(super) fn findings() -> Vec<Finding> {
    vec![ptrace_scope(), socket_buffers(), user_namespaces(), container(), seccomp(), cores()]
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    read(path)?.parse().ok()
}

/// Returns the value behind `key:` in /proc/self/status.
fn status_of(key: &str) -> Option<String> {
    value_of(&read("/proc/self/status")?, key)
}

fn value_of(status: &str, key: &str) -> Option<String> {
    let found = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    found.map(|value| value.trim().to_owned())
}

/// Runs the trial `part` in the child, and returns the error; `None` when there is no such trial.
pub(super) fn attempt(part: &str) -> Option<Result<u8, Failure>> {
    let tried = match (part, part.strip_prefix(COPY)) {
        (NAMESPACES, _) => make_namespaces(),
        (_, Some(addr)) => copy_from_parent(addr),
        _ => return None,
    };
    Some(tried.map(|()| 0).map_err(|error| Failure::new(error.to_string())))
}

fn copy_from_parent(addr: &str) -> io::Result<()> {
    let addr = addr.parse().map_err(io::Error::other)?;
    let copied = local_copy::peek(std::os::unix::process::parent_id(), addr)?;
    if copied == WORD { Ok(()) } else { Err(io::Error::other("other bytes came")) }
}

/// The child has one thread, which a user namespace requires.
#[expect(deprecated, reason = "the other needs unsafe code, for what is not asked for here")]
fn make_namespaces() -> io::Result<()> {
    Ok(unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?)
}

/// Lets a child run the trial `part`.
///
/// # Errors
/// The error of the trial.
fn try_in_child(part: &str) -> Result<(), String> {
    let output = device::start_attempt(part).map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(device::why(&output)) }
}

/// Checks `process_vm_readv`, which copies long RDMA between programs. A child copies from its
/// parent, like unrelated programs: Yama always lets a parent copy from its child.
fn ptrace_scope() -> Finding {
    let name = "ptrace_scope";
    let scope = number("/proc/sys/kernel/yama/ptrace_scope");
    let shown = scope.map_or_else(|| "no Yama".to_owned(), |scope| scope.to_string());
    let Err(why) = try_in_child(&format!("{COPY}{}", WORD.as_ptr() as usize)) else {
        let found = format!("{shown}: long RDMA between programs of one user is copied");
        return Finding::good(name, found);
    };
    let found = format!("{shown}: long RDMA takes the wire instead of being copied ({why})");
    let help = match scope {
        Some(3) => "set kernel.yama.ptrace_scope = 0 in /etc/sysctl.d and boot",
        Some(1..) => "sudo sysctl kernel.yama.ptrace_scope=0",
        _ => "leave the sandbox that forbids process_vm_readv (docker run --cap-add SYS_PTRACE)",
    };
    Finding::limited(name, found, help)
}

/// Checks the buffer size that a socket gets with the options of a device.
fn socket_buffers() -> Finding {
    let name = "socket buffers";
    let wanted = usize::try_from(SOCKET_BUFFER_BYTES).unwrap_or(usize::MAX);
    match receive_buffer(wanted) {
        Err(error) => Finding::note(name, format!("not tried: {error}")),
        Ok(bytes) if bytes >= wanted => Finding::good(name, format!("{bytes} bytes")),
        Ok(bytes) => Finding::limited(
            name,
            format!("{bytes} bytes instead of {wanted}: bursts over UDP are lost and repeated"),
            format!("sudo sysctl net.core.rmem_max={wanted}"),
        ),
    }
}

fn receive_buffer(wanted: usize) -> io::Result<usize> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, wanted).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, wanted)?;
    }
    // The kernel doubles the requested size, to account for its own data.
    Ok(sockopt::socket_recv_buffer_size(&socket)? / 2)
}

/// Devices do not need them, but tests with several hosts do.
fn user_namespaces() -> Finding {
    let name = "user namespaces";
    match try_in_child(NAMESPACES) {
        Ok(()) => Finding::good(name, "can be made"),
        Err(why) => Finding::note(
            name,
            format!("cannot be made ({why}): several hosts on one machine (ip netns) need root"),
        ),
    }
}

fn container() -> Finding {
    let name = "container";
    let marks = [("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")];
    if let Some((_, which)) = marks.iter().find(|(path, _)| Path::new(path).exists()) {
        return Finding::note(name, format!("{which}: programs of one container share memory"));
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Finding::note(name, "Kubernetes: programs of one container share memory");
    }
    if read("/proc/version").is_some_and(|text| text.contains("gVisor")) {
        return Finding::note(name, "gVisor: sockets are slow, and some calls are missing");
    }
    Finding::good(name, "no signs of one")
}

fn seccomp() -> Finding {
    let name = "seccomp";
    match status_of("Seccomp").as_deref() {
        Some("0") => Finding::good(name, "no filter"),
        Some("2") => Finding::note(name, "a filter"),
        Some(mode) => Finding::note(name, format!("mode {mode}")),
        None => Finding::note(name, "unknown: /proc/self/status does not say"),
    }
}

fn cores() -> Finding {
    let name = "cores";
    match thread::available_parallelism().map(usize::from) {
        Ok(1) => Finding::limited(
            name,
            "1: two programs that poll take turns of some milliseconds",
            "taskset -p $$ (which processors may be used), or give the machine two",
        ),
        Ok(count) => Finding::good(name, format!("{count}")),
        Err(error) => Finding::note(name, format!("unknown: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_by_key() {
        let status = "Name:\tx\nCapEff:\t0000000000001000\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(value_of(status, "Seccomp").as_deref(), Some("2"));
        assert_eq!(value_of(status, "CapEff").as_deref(), Some("0000000000001000"));
        assert_eq!(value_of(status, "Cap"), None);
    }
}
