//! The EFA adapter in software: protection domains, memory regions, address handles, queue pairs
//! and completion queues that speak SRD over UDP.
//!
//! The caller drives: posting transmits, polling a completion queue runs one turn of the adapter
//! ([`Cq::poll`]). One service thread per process takes over for queue pairs nobody polls, and one
//! helps when much is to be copied.
//! `softefa-verbs` puts the libibverbs ABI over this crate; it can also be used directly.
#![deny(unsafe_code)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod capture;
pub mod config;
pub mod counters;
pub mod fault;
pub mod gateway;
pub mod hw_counters;
pub mod local_copy;
pub mod seal;
pub mod sysfs;
pub mod trace;

mod address;
mod ah;
mod ahn;
mod async_event;
mod completion;
mod cq;
mod datagram;
mod descriptor;
mod device;
mod event_queue;
mod failure;
mod filter;
mod fork_release;
mod framing;
mod generation;
mod gid;
mod groups;
mod host;
mod identity;
mod ids;
mod interface;
mod keys;
mod lease;
mod lifecycle;
mod limits;
mod lint;
pub mod mad;
mod management;
mod mapped;
mod memory;
mod mr;
mod numbering;
mod own_memory;
mod pd;
mod poll_set;
mod process;
mod progress;
mod qp;
mod qp_state;
mod request;
mod rq;
mod say;
mod scheduling;
mod sealing;
mod service;
mod shell;
mod side;
mod sq;
mod srq;
mod status;
mod sync;
mod uncancelled;
mod wire;

pub use ah::{Ah, CreateAhError};
pub use async_event::{AsyncEvent, AsyncEventKind, AsyncEvents, EventSource, TakeEventError};
pub use completion::{Completion, CompletionOp, CompletionTime};
pub use config::{
    Adapter, Config, ConfigError, DeviceSpec, GidCount, Integrity, Mtu, PortSpec, Profile, Rate,
    WireChoice,
};
pub use cq::{ArmError, Channel, ChannelClosed, Cq, CreateCqError, ResizeCqError};
pub use descriptor::with_descriptor;
pub use device::{Device, OpenError, roce_attr};
pub use generation::{Generation, PerProcess};
pub use gid::Gid;
pub use identity::Identity;
pub use interface::Interface;
pub use lifecycle::spawn;
pub use limits::{DeviceAttr, DeviceCaps, RoceAttr};
pub use lint::{Pitfall, lint};
pub use management::{
    ManagementPacket, Verdict, has_unseen_success, on_first_data, take_what_has_come,
};
pub use memory::signals::sigaction;
pub use mr::{
    Access, AllocMwError, LocalError, Mr, MrOptions, Mw, MwBind, MwError, MwKind, RegMrError, Sge,
    StillBound,
};
pub use pd::{AllocPdError, Pd, Rereg, ReregMrError};
pub use progress::held::release_held;
pub use qp::{
    CreateQpError, GroupError, ModifyError, ModifyQp, OpenTargetError, OpenXrcd, OpenXrcdError,
    PostError, Qp, QpInit, Xrcd,
};
pub use qp_state::{Path, QpKind, QpQuery, QpState};
pub use request::{FlushExtent, Remote, SendData, SendOp, SendWr, Target};
pub use say::say;
pub use srq::{ModifySrq, PostSrqError, Srq, SrqAttr, SrqError};
pub use status::Status;
pub use uncancelled::Uncancelled;
pub use wire::{
    SOCKET_BUFFER_BYTES, SocketName, check_memory as check_shared_memory, is_icmp, ring_socket_name,
};

/// Functions that the fuzz targets call and nobody else needs.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// Plays `input` as what a hostile writer does to its rings while they are read.
    ///
    /// # Panics
    /// The reader was led astray.
    pub fn ring(input: &[u8]) {
        crate::wire::fuzz_ring(input);
    }
}

/// Value of [`Completion::ahn`] when the receiver owns no address handle for the sender.
pub const AHN_UNKNOWN: u16 = 0xffff;
/// Bytes reserved at the head of each UD receive buffer for the global routing header.
pub const UD_GRH_BYTES: usize = 40;
