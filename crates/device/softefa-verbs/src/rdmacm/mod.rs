//! `/dev/infiniband/rdma_cm` for an unmodified librdmacm.
//!
//! librdmacm writes commands to that device and asks for nothing else. Here they are taken from the
//! C library's `write` and obeyed by the connection manager of the `cm` crate, whose messages
//! travel in UDP datagrams (chapter 13 of `docs/PROTOCOL.md`). The descriptor that a program gets
//! is an eventfd, which polls readable while events wait.
//!
//! | file | what happens there |
//! |---|---|
//! | `calls` | functions of the C library that get a descriptor |
//! | `marks` | which descriptors are ours, found without a lock |
//! | `channels` | descriptors of programs, and what they may do |
//! | `command` | one `write`: in, obeyed, out; waiting for events |
//! | `user` | memory of the program, which may not be there |
//! | `manager` | what one process has of the connection manager |
//! | `adapters` | devices, as ids see them |
//! | `arrived` | queue pairs whose first data has come |
//! | `ports` | ports of ids, and the sockets that stand for them |
//! | `socket` | UDP |
//! | `sealing` | messages of processes that share a key |
//! | `watch`, `thread` | who waits for datagrams and timers |
//! | `ending` | the end of a process, and forked children |
//!
//! A process that was forked off begins anew: what it inherited answers `ENODEV`.

mod adapters;
mod arrived;
mod calls;
mod channels;
mod command;
mod ending;
mod manager;
mod marks;
mod ports;
mod sealing;
mod socket;
mod thread;
mod user;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use channels::open;

static IS_THERE: AtomicBool = AtomicBool::new(false);

/// From now on programs find the device, if one of their adapters has connections to manage.
pub(crate) fn publish(has_roce: bool) {
    IS_THERE.store(has_roce, Ordering::Relaxed);
}

/// Whether programs find the device.
pub(crate) fn is_there() -> bool {
    IS_THERE.load(Ordering::Relaxed)
}
