//! What the kernel and the box around this process permit.

use std::fs;
use std::path::Path;
use std::thread;

use softefa::SOCKET_BUFFER_BYTES;

use super::Finding;

/// Bits of `CapEff`.
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_PTRACE: u32 = 19;
pub(super) fn findings() -> Vec<Finding> {
    vec![ptrace_scope(), socket_buffers(), user_namespaces(), container(), seccomp(), cores()]
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    read(path)?.parse().ok()
}

/// The value behind `key:` in /proc/self/status.
fn status_of(key: &str) -> Option<String> {
    value_of(&read("/proc/self/status")?, key)
}

fn value_of(status: &str, key: &str) -> Option<String> {
    let found = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    found.map(|value| value.trim().to_owned())
}

fn has_capability(bit: u32) -> bool {
    let all = status_of("CapEff").and_then(|text| u64::from_str_radix(&text, 16).ok());
    all.is_some_and(|all| all & 1 << bit != 0)
}

/// Long RDMA between programs is copied with `process_vm_readv`, which Yama may forbid.
fn ptrace_scope() -> Finding {
    let name = "ptrace_scope";
    match number("/proc/sys/kernel/yama/ptrace_scope") {
        None => Finding::good(name, "no Yama: long RDMA between programs of one user is copied"),
        Some(0) => Finding::good(name, "0: long RDMA between programs of one user is copied"),
        Some(scope) if scope < 3 && has_capability(CAP_SYS_PTRACE) => {
            Finding::good(name, format!("{scope}, with CAP_SYS_PTRACE: long RDMA is copied"))
        }
        Some(3) => Finding::limited(
            name,
            "3 until the next boot: long RDMA takes the wire instead of being copied",
            "set kernel.yama.ptrace_scope = 0 in /etc/sysctl.d and boot",
        ),
        Some(scope) => Finding::limited(
            name,
            format!("{scope}: long RDMA takes the wire instead of being copied"),
            "sudo sysctl kernel.yama.ptrace_scope=0",
        ),
    }
}

fn socket_buffers() -> Finding {
    let name = "socket buffers";
    let wanted = u64::try_from(SOCKET_BUFFER_BYTES).unwrap_or(u64::MAX);
    let most = number("/proc/sys/net/core/rmem_max");
    match most {
        _ if has_capability(CAP_NET_ADMIN) => {
            Finding::good(name, format!("{wanted} bytes, as asked for (CAP_NET_ADMIN)"))
        }
        None => Finding::note(name, "net.core.rmem_max cannot be read here"),
        Some(most) if most >= wanted => Finding::good(name, format!("net.core.rmem_max is {most}")),
        Some(most) => Finding::limited(
            name,
            format!(
                "net.core.rmem_max is {most}, below {wanted}: bursts over UDP are lost and repeated"
            ),
            format!("sudo sysctl net.core.rmem_max={wanted}"),
        ),
    }
}

/// Not for devices, but for tests with several hosts.
fn user_namespaces() -> Finding {
    let name = "user namespaces";
    let is_off = |path: &str, off: u64| number(path) == Some(off);
    if is_off("/proc/sys/user/max_user_namespaces", 0)
        || is_off("/proc/sys/kernel/unprivileged_userns_clone", 0)
    {
        return Finding::note(name, "off: several hosts on one machine (ip netns) need root");
    }
    if is_off("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1) {
        return Finding::note(
            name,
            "restricted by AppArmor: several hosts on one machine need root",
        );
    }
    Finding::good(name, "can be made")
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
        Some("2") => Finding::note(
            name,
            "a filter: where it forbids process_vm_readv, long RDMA takes the wire",
        ),
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
