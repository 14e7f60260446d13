//! Limits of this process, and the memory that programs share.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};

use super::Finding;

/// Number of descriptors of a program with a few dozen queue pairs, each of which has a socket.
const DESCRIPTORS: u64 = 1024;
/// Number of threads of a program: its own, ours, and those of its libraries.
const PROCESSES: u64 = 256;
/// The shared memory that MPI and libfabric map in /dev/shm for a few ranks.
const SHM_BYTES: u64 = 256 << 20;
const MIB: u64 = 1 << 20;
/// The mode bits with which everyone may write, but remove only their own files.
const MODE_SHARED: u32 = 0o1777;

pub(super) fn findings() -> Vec<Finding> {
    vec![descriptors(), processes(), memlock(), shared_memory()]
}

/// Returns the soft limit and the hard one; `None` for unlimited.
fn limits(of: Resource) -> (Option<u64>, Option<u64>) {
    let limit = getrlimit(of);
    (limit.current, limit.maximum)
}

fn text(limit: Option<u64>) -> String {
    limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string())
}

fn descriptors() -> Finding {
    let name = "nofile";
    let (soft, hard) = limits(Resource::Nofile);
    let found = format!("{} descriptors", text(soft));
    match soft {
        Some(soft) if soft < DESCRIPTORS => {
            let most = hard.map_or(DESCRIPTORS, |hard| hard.min(DESCRIPTORS).max(soft));
            let found = format!("{found}: a queue pair takes one, and each device some");
            Finding::limited(name, found, format!("ulimit -n {most}"))
        }
        _ => Finding::good(name, found),
    }
}

fn processes() -> Finding {
    let name = "nproc";
    let (soft, _) = limits(Resource::Nproc);
    let found = format!("{} processes and threads", text(soft));
    match soft {
        Some(soft) if soft < PROCESSES => Finding::limited(
            name,
            format!("{found}: without its service thread a device only works while it is polled"),
            "ulimit -u unlimited",
        ),
        _ => Finding::good(name, found),
    }
}

/// Checks the limit of pinned memory. The adapter pins nothing, but programs check the limit.
fn memlock() -> Finding {
    let name = "memlock";
    match limits(Resource::Memlock) {
        (None, _) => Finding::good(name, "no limit"),
        (Some(soft), _) => Finding::note(
            name,
            format!(
                "{soft} bytes: enough here, where nothing is pinned; some programs complain, and hardware pins"
            ),
        ),
    }
}

/// Devices do not need it, because their rings have no names, but the libraries above do.
fn shared_memory() -> Finding {
    let name = "/dev/shm";
    let (Ok(meta), Ok(space)) = (std::fs::metadata(name), statvfs(name)) else {
        return Finding::limited(
            name,
            "is not there: MPI and libfabric's shm need it, devices do not",
            "sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
        );
    };
    let mode = meta.permissions().mode() & 0o7777;
    let is_own = meta.uid() == rustix::process::geteuid().as_raw();
    let bytes = space.f_blocks * space.f_frsize;
    let free = space.f_bavail * space.f_frsize;
    let found = format!("{} MiB, {} free, mode {mode:o}", bytes / MIB, free / MIB);
    if mode != MODE_SHARED && !is_own {
        return Finding::limited(
            name,
            format!("{found}: other users' programs may not write there"),
            "sudo chmod 1777 /dev/shm",
        );
    }
    if free < SHM_BYTES {
        return Finding::limited(
            name,
            format!("{found}: little for MPI and libfabric's shm; devices do not use it"),
            "sudo mount -o remount,size=1G /dev/shm (or docker run --shm-size=1g)",
        );
    }
    Finding::good(name, found)
}
