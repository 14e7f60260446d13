//! The gateway: one process that owns the UDP port of RoCEv2 for all programs of a network
//! namespace (RC-1.9 to RC-1.12).
//!
//! ```text
//! network -> Listener -> classify: whole? ICRC right? whose? -> envelope -> the program's own UDP socket -> RegisteredSocket
//! program -> Gateway, a Unix socket -> ProgramListener -> a thread of its own -> Table: sockets, ids of connections
//! program --------------------------------------------------------------> network
//! ```
//! Packets that programs send do not pass the gateway: an ICRC covers the source port, and each
//! program sends from its own. Packets that programs receive do pass it, because they share one
//! port. Programs and the gateway verify each other's users; a packet from the gateway carries a
//! key of 128 bits that it draws for each socket.

mod claims;
mod classify;
mod client;
mod counts;
mod envelope;
mod fallback_agent;
mod listener;
mod mad;
mod message;
mod program_socket;
mod programs;
mod server;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use client::GATEWAY_SOCKETS;
pub use client::{Gateway, GatewayError, RegisteredSocket};
pub use counts::Counts;
pub use message::SocketKind;
pub use server::{OpenGatewayError, Server};

pub use envelope::LEN as ENVELOPE_LEN;

/// The UDP port of RoCEv2.
pub const PORT: u16 = rc::wire::UDP_PORT;
