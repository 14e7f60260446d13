//! Safe libfabric: endpoints with messages, RMA and atomics, completion queues, address vectors.
//!
//! [`Node`] is what most programs need: one endpoint and one peer, set up in the phases of the
//! thesis that introduced EFA benchmarks (its figure 3.1): `get_fabric_info`, `open_fabric_res`,
//! `enable_endpoint`, out-of-band address exchange, `init_address_vector`, `sync`.
//!
//! # Who owns a buffer
//! libfabric reads and writes application memory long after the call that named it returned. Here
//! no call takes a borrowed buffer. Every [`Endpoint`] owns one registered [`Buffers`] pool that is
//! cut into slots; operations name a slot. While an operation is in flight its slot cannot be
//! borrowed or used again (`Error::SlotBusy`), and the pool is released only after the endpoint
//! was closed. Should the provider refuse to close, the pool is leaked rather than freed.
//!
//! Memory that peers use on their own is a [`Window`]: it is never borrowed, only copied from and
//! to.
//!
//! # The library
//! `libfabric.so.1` is opened by the first search for a fabric. Where there is none, or one that is
//! too old, the search says so ([`Error::NoLibrary`]), and nothing else can be called.
//!
//! # Threads
//! Objects are single-threaded (`!Send`): libfabric is asked for `FI_THREAD_DOMAIN` and manual
//! progress, so a thread that wants to communicate opens its own [`Domain`]. Nothing happens
//! between calls: poll [`Endpoint::poll`] until every expected completion came.
//!
//! # Example
//! Each side writes a greeting into the other's memory; the second channel tells the keys.
//!
//! ```no_run
//! # use fabric::*;
//! # fn greet(
//! #     oob: &mut dyn OutOfBand,
//! #     exchange: impl Fn([u8; RemoteMemory::BYTES]) -> [u8; RemoteMemory::BYTES],
//! # ) -> Result<(), Error> {
//! let hints = Hints {
//!     provider: Some("efa".to_owned()),
//!     features: Features::RMA,
//!     ..Hints::default()
//! };
//! let config =
//!     NodeConfig { hints, tx_slots: 1, rx_slots: 1, payload_bytes: 64, ..NodeConfig::default() };
//! let mut node = Node::set_up(&config, oob)?;
//! let window = node.open_window(5)?;
//! let theirs = RemoteMemory::from_bytes(&exchange(window.remote().to_bytes()));
//!
//! node.buffers_mut().payload_mut(0)?[..5].copy_from_slice(b"hello");
//! let options =
//!     PostOptions { data: Some(7), delivery_complete: true, ..PostOptions::default() };
//! let peer = node.peer();
//! while node.endpoint_mut().write_with(0, peer, theirs, options)? == Post::Again {
//!     node.poll(&mut [Completion::NONE])?;
//! }
//! // Until ours has arrived there, and theirs here.
//! let (mut done, mut found) = (0, [Completion::NONE; 2]);
//! while done < 2 {
//!     done += node.poll(&mut found)?;
//! }
//! let mut greeting = [0; 5];
//! window.read(0, &mut greeting)?;
//! # Ok(())
//! # }
//! ```

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod address;
mod atomic;
mod buffers;
mod cq;
mod domain;
mod endpoint;
mod error;
mod fabric_root;
mod hints;
mod info;
mod memory;
mod message;
mod node;
mod object;
mod post;
mod rma;
mod window;

pub use address::{AddressVector, Peer};
pub use atomic::{AtomicOp, AtomicType, CompareOp};
pub use buffers::{Buffers, Geometry};
pub use cq::{Completion, CompletionKind, NO_SLOT};
pub use domain::Domain;
pub use endpoint::{Endpoint, EndpointConfig};
pub use error::Error;
pub use fabric_root::Fabric;
pub use hints::{EndpointType, Features, Hints, MessageKind};
pub use info::Info;
pub use node::{Node, NodeConfig, OutOfBand, PhaseTime, Prepared};
pub use post::{Post, PostOptions};
pub use window::{RemoteMemory, Window};

/// Returns the version of this machine's libfabric as (major, minor).
///
/// # Errors
/// Returns [`Error::NoLibrary`] where there is none.
pub fn library_version() -> Result<(u32, u32), Error> {
    fabric_sys::open()?;
    // SAFETY: takes no argument and reads a constant of the library.
    let version = unsafe { fabric_sys::fi_version() };
    Ok((version >> 16, version & 0xffff))
}
