//! Layouts of the C ABI, written by hand from the public headers `infiniband/verbs.h` and
//! `infiniband/efadv.h` of rdma-core 44 plus what newer ones added at the end.
//!
//! Only what this library fills or reads is here. `layout` checks sizes and offsets when the crate
//! is compiled; `tests/c/layout.c` checks the same numbers against the system's headers.
//! `verbs_context` grows at its *front*: old programs reach its members from the end, so the newest
//! layout serves all of them.
#![expect(clippy::use_self, reason = "signatures with the names the headers give them")]

mod attr;
mod consts;
mod context;
mod cq;
mod device;
mod efadv;
mod event;
mod kern;
mod layout;
mod object;
mod qp;
mod wr;

pub(crate) use attr::*;
pub(crate) use consts::*;
pub(crate) use context::*;
pub(crate) use cq::*;
pub(crate) use device::*;
pub(crate) use efadv::*;
pub(crate) use event::*;
pub(crate) use kern::*;
pub(crate) use object::*;
pub(crate) use qp::*;
pub(crate) use wr::*;

/// A function pointer this library leaves null: programs test it or never call it.
pub(crate) type Unused = Option<unsafe extern "C" fn()>;
