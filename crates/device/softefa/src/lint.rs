//! Lines about what programs get wrong, on request (`softefa run --lint`).
//!
//! A verb answers `EINVAL`, a completion has a number: both are correct, and neither gives the
//! reason. On request, the adapter prints one line for each mistake that it saw, with the value and
//! what to do. Nothing else changes: the same work is refused with and without these lines.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};

use crate::generation::PerProcess;
use crate::say::say;
use crate::status::Status;

/// The most lines of one process.
const LINES_MAX: usize = 200;

static IS_WANTED: AtomicBool = AtomicBool::new(false);
static PRINTED: PerProcess<Mutex<HashSet<String>>> = PerProcess::new();

/// A mistake of a program, or an effect that its author may not expect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Pitfall {
    /// A verb answered with an error number.
    #[error("{call} was refused: {why}")]
    Refused {
        /// Name of the verb.
        call: &'static str,
        /// The reason.
        why: String,
    },
    /// The program posted more sends in a row without the signaled flag than the send queue holds.
    #[error(
        "queue pair {qpn:#x}: more sends in a row without IBV_SEND_SIGNALED than the {depth} that its queue holds; on hardware \
         only a completion gives places back, and posting fails with ENOMEM: signal one of each {} at least, and poll it",
        depth.div_ceil(2)
    )]
    Unsignaled {
        /// Number of the queue pair.
        qpn: u32,
        /// The depth of its send queue.
        depth: u32,
    },
    /// A completion queue grew where that of hardware would overrun.
    #[error(
        "a completion queue of {depth} entries holds {held} that were not polled; on hardware it overruns and its queue pairs \
         fail: make it as deep as all their send and receive queues together, or poll it sooner"
    )]
    Overrun {
        /// The number of entries of the queue.
        depth: u32,
        /// The number of completions in it.
        held: usize,
    },
    /// A message found no receive.
    #[error(
        "queue pair {qpn:#x}: a message of {from} found no receive and must come again (RNR); post receives before the peer \
         may send, and post them again as fast as they are used"
    )]
    NoReceive {
        /// Number of the queue pair.
        qpn: u32,
        /// The peer's address.
        from: IpAddr,
    },
    /// A request of an XRC initiator names a shared receive queue that the target's domain does not
    /// have.
    #[error(
        "queue pair {qpn:#x}: a request of {from} is for shared receive queue {srq:#x}, which its XRC domain does not have; tell \
         the peer the number that ibv_get_srq_num gives, of a queue that was made with this domain and is not destroyed"
    )]
    NoQueue {
        /// Number of the queue pair.
        qpn: u32,
        /// The peer's address.
        from: IpAddr,
        /// The queue's number.
        srq: u32,
    },
    /// A datagram was lost here.
    #[error("queue pair {qpn:#x}: a datagram of {from} was dropped: {why}")]
    Dropped {
        /// Number of the queue pair.
        qpn: u32,
        /// The peer's address.
        from: IpAddr,
        /// The reason.
        why: &'static str,
    },
    /// The ends of a connection have different path MTUs.
    #[error(
        "queue pair {qpn:#x}: the peer fills packets with {theirs} bytes, and path_mtu here is {ours}; give both the same"
    )]
    PathMtu {
        /// Number of the queue pair.
        qpn: u32,
        /// The payload bytes of a full packet of this side.
        ours: u32,
        /// The payload bytes of the packet that came.
        theirs: u32,
    },
    /// A peer named memory that it may not use.
    #[error(
        "queue pair {qpn:#x}: the peer may not {what} {len} bytes at {addr:#x} with rkey {rkey:#x}: that needs a region of the \
         queue pair's domain with this key, the whole range in it, and access flags of the region that permit it"
    )]
    Access {
        /// Number of the queue pair.
        qpn: u32,
        /// `read`, `write` or `change`.
        what: &'static str,
        /// The address of the first byte.
        addr: u64,
        /// The number of bytes.
        len: u32,
        /// The key that the peer used.
        rkey: u32,
    },
    /// A peer asked for an operation that the queue pair does not permit.
    #[error(
        "queue pair {qpn:#x}: the peer asked for something that its access flags do not permit; set IBV_ACCESS_REMOTE_READ, \
         _WRITE or _ATOMIC in qp_access_flags, too: those of the region are not enough"
    )]
    QpAccess {
        /// Number of the queue pair.
        qpn: u32,
    },
    /// An attribute does not mean what it seems to mean.
    #[error("queue pair {qpn:#x}: {attribute} = {value} {meaning}")]
    Attribute {
        /// Number of the queue pair.
        qpn: u32,
        /// The name of the attribute.
        attribute: &'static str,
        /// The value of the attribute.
        value: u8,
        /// The meaning of the value, and what to do.
        meaning: &'static str,
    },
    /// A work request failed.
    #[error(
        "queue pair {qpn:#x}: work request {wr_id:#x} ended with {status:?} (vendor_err {}): {}",
        status.code(), advice(*status)
    )]
    Failed {
        /// Number of the queue pair.
        qpn: u32,
        /// The number of the work request, as the program chose it.
        wr_id: u64,
        /// The status with which it ended.
        status: Status,
    },
}

/// Turns the lines on for the rest of the process.
pub(crate) fn enable() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// Returns true if the lines are turned on.
#[inline]
pub(crate) fn is_wanted() -> bool {
    IS_WANTED.load(Ordering::Relaxed)
}

/// Prints what `pitfall` returns, once, if the lines are turned on.
#[inline]
pub fn lint(pitfall: impl FnOnce() -> Pitfall) {
    if is_wanted() {
        print_once(&pitfall());
    }
}

#[cold]
fn print_once(pitfall: &Pitfall) {
    let line = pitfall.to_string();
    let mut printed = match PRINTED.get_or_init(Mutex::default).try_lock() {
        Ok(printed) => printed,
        Err(TryLockError::Poisoned(printed)) => printed.into_inner(),
        // Another thread is printing, and this line is not worth waiting for it.
        Err(TryLockError::WouldBlock) => return,
    };
    if printed.len() >= LINES_MAX || !printed.insert(line.clone()) {
        return;
    }
    let is_last = printed.len() == LINES_MAX;
    drop(printed);
    say(&format!("softefa: lint: {line}"));
    if is_last {
        say(&format!("softefa: lint: these were {LINES_MAX} lines, and are the last ones"));
    }
}

/// Returns the most frequent cause of a completion with `status`.
fn advice(status: Status) -> &'static str {
    match status {
        Status::Ok => "all is well",
        Status::Flushed => "it was not tried; look for the first work request that failed",
        Status::LocalQpInternalError => "the adapter failed, or a fault on purpose did it",
        Status::LocalUnsupportedOp => "this queue pair cannot do that operation",
        Status::LocalInvalidAh => {
            "the address handle is destroyed, or of another protection domain"
        }
        Status::LocalInvalidLkey => {
            "an lkey is unknown in this protection domain, does not cover the entry, or lacks IBV_ACCESS_LOCAL_WRITE for what \
             is received or read into it"
        }
        Status::LocalBadLength => "the message is longer than the device takes",
        Status::RemoteBadAddress => {
            "the peer's region, address, rkey or access flags do not permit it; run the peer with --lint, which names which"
        }
        Status::RemoteAbort => "the peer's end was reset",
        Status::RemoteBadDestQpn => {
            "the peer has no queue pair with that number, or another queue key"
        }
        Status::RemoteRnr => {
            "the peer had no receive posted, as often as rnr_retry allows; post receives first, or set rnr_retry to 7"
        }
        Status::RemoteBadLength => "the peer's receive is too short for the message",
        Status::RemoteBadStatus => "the peer answered something unexpected",
        Status::LocalUnrespRemote => {
            "the peer answered before and is silent now: has its program ended?"
        }
        Status::RemoteUnknownPeer => {
            "the peer has no address handle for this device, which it needs for RDMA"
        }
        Status::LocalUnreachRemote => {
            "nobody ever answered there: are the address, the queue pair's number and a firewall as they should be?"
        }
        Status::RemoteFeatureMismatch => "only one side wants unsolicited receiving of WRITEs",
        Status::BindError => "the memory window could not be bound, or the key not be invalidated",
        Status::RemoteInvalidRequest => {
            "the peer cannot do what was asked: a path_mtu that differs, a receive that is too short, or an operation that \
             its queue pair does not take"
        }
        Status::RemoteInvalidQueue => {
            "the peer has no shared receive queue of that number in the XRC domain of its queue pair"
        }
        Status::RemoteOperation => "the peer failed, for a reason of its own; run it with --lint",
        Status::RetryExceeded => {
            "nobody acknowledged: is the peer in RTR, with this dest_qp_num and GID, and is its rq_psn this sq_psn?"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_tell_values_and_what_to_do() {
        let line = Pitfall::Unsignaled { qpn: 0x1101, depth: 5 }.to_string();
        assert!(
            line.contains("0x1101") && line.contains("the 5 that") && line.contains("each 3"),
            "{line}"
        );
        let failed = Pitfall::Failed { qpn: 7, wr_id: 9, status: Status::RemoteRnr }.to_string();
        assert!(failed.contains("0x9") && failed.contains("vendor_err 10"), "{failed}");
        assert!(failed.contains("rnr_retry to 7"), "{failed}");
    }
}
