//! The UDP port of RoCEv2, which one process has for all programs of a network namespace (RC-1.9 to
//! RC-1.12).
//!
//! ```text
//! network -> Listener -> judge: whole? ICRC right? whose? -> envelope -> the program's own UDP socket -> Seat
//! program -> Gateway, a Unix socket -> Door -> a thread of its own -> Table: sockets, ids of connections
//! program --------------------------------------------------------------> network
//! ```
//! What programs send does not come by here: an ICRC covers the source port, and each sends from
//! its own. What they receive does: one port cannot be theirs all. Programs and gateway know each
//! other by their users, packets by a key of 128 bits that the gateway draws for each socket.

mod claims;
mod client;
mod counts;
mod door;
mod envelope;
mod judge;
mod listener;
mod mad;
mod message;
mod programs;
mod server;
mod stand_in;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use client::KEPT;
pub use client::{Gateway, GatewayError, Seat};
pub use counts::Counts;
pub use message::SeatKind;
pub use server::{OpenGatewayError, Server};

pub use envelope::LEN as ENVELOPE_LEN;

/// The UDP port of RoCEv2.
pub const PORT: u16 = rc::wire::UDP_PORT;
