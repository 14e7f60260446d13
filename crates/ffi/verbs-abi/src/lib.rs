//! Layouts of the C ABI, written by hand from the public headers `infiniband/verbs.h` and
//! `infiniband/efadv.h` of rdma-core 44 plus what newer ones added at the end.
//!
//! It is for both sides of that ABI: `softefa-verbs` provides it, `verbs` calls it. Only what one
//! of them fills or reads is here, and no function. `layout` checks sizes and offsets when the
//! crate is compiled; `tests/c/layout.c` of `softefa-verbs` checks the same numbers against the
//! system's headers. `verbs_context` grows at its *front*: old programs reach its members from the
//! end, so the newest layout serves all of them.
#![allow(missing_docs, non_camel_case_types, reason = "names and meanings are rdma-core's own")]
#![expect(clippy::use_self, reason = "signatures with the names the headers give them")]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
mod srq;
mod wr;

pub use attr::*;
pub use consts::*;
pub use context::*;
pub use cq::*;
pub use device::*;
pub use efadv::*;
pub use event::*;
pub use kern::*;
pub use object::*;
pub use qp::*;
pub use srq::*;
pub use wr::*;

/// A function pointer that neither side sets or calls: programs test it.
pub type Unused = Option<unsafe extern "C" fn()>;
