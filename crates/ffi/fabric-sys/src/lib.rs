//! Raw bindings to libfabric 1.17 (API 1.17): only what the `fabric` crate needs.
//!
//! Written by hand against `<rdma/fabric.h>` and its companions. libfabric's API is mostly
//! `static inline` functions that call through tables of function pointers inside each object, so
//! the binary contract is the *layout* of those tables. [`layout`] asserts every size and offset
//! at compile time, and `tests/abi.c` asserts the same numbers against the installed headers.
//!
//! The layout of slots that this workspace never calls is kept with the opaque type [`Slot`].
//!
//! bindgen 0.60 writes 2,360 lines for the same types alone; by hand they are 1,350 with all calls.
//!
//! The library is opened on request ([`open`]), so that a program that could use libfabric also
//! starts where there is none.

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod attr;
pub mod call;
mod consts;
mod exported;
pub mod layout;
mod library;
mod msg;
mod object;
mod remote;

pub use attr::*;
pub use consts::*;
pub use exported::*;
pub use library::{NoLibrary, open};
pub use msg::*;
pub use object::*;
pub use remote::*;
