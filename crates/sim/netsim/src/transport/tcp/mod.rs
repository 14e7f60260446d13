//! TCP as the kernel of a current host implements it: NewReno or CUBIC with selective
//! acknowledgements, and DCTCP.
//!
//! RFC 5681 (congestion control), 6298 (timeout), 2018 and 6675 (selective acknowledgements and the
//! recovery that goes with them), 8985 (loss detection by time, tail loss probe), 9406 (HyStart++),
//! 9937 (proportional rate reduction), 7323 (time stamps), 9438 (CUBIC), 8257 (DCTCP). A segment is
//! a message of the flow and always full but the last, so sequence numbers count segments.
//! Connections are open before the run begins, and what their handshakes measured is the round-trip
//! time of the empty network. The receiver reads at once, so its window is never what limits; the
//! sender's buffer is. There is no pacing, and a connection never gives up.

mod congestion;
mod reassembly;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;

pub(crate) use congestion::Algorithm;
pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;

use crate::id::{Ends, FlowId, HostId, SocketId};
use crate::packet::FRAME_BYTES;
use crate::socket::Ports;
use crate::time::Time;
use crate::transport::Posting;
use crate::transport::route::Route;
use reassembly::Sacks;

/// Length of TCP's header with time stamps.
const HEADER_BYTES: u32 = 32;
/// Bytes of a data packet that are no payload.
pub(super) const OVERHEAD_BYTES: u32 = FRAME_BYTES + HEADER_BYTES;
const PROTOCOL: u64 = 6;
const FIRST_PORT: u32 = 32_768;
const PORTS: u32 = 28_232;
const SERVER_PORT: u64 = 5001;

/// The content of a TCP packet besides data. Time stamps count picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Segment {
    Data {
        seq: u32,
        sent_at: Time,
    },
    Ack {
        /// First segment that is missing.
        next: u32,
        sacks: Sacks,
        /// Time stamp of the segment that made the receiver send this.
        echo: Time,
        /// Whether a switch had marked that segment.
        marked: bool,
        /// Whether that segment had arrived before (RFC 2883).
        duplicate: bool,
    },
}

/// Configuration of all connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpSetup {
    /// Congestion control of connections that are not DCTCP.
    pub(crate) algorithm: Algorithm,
    pub(crate) mss_bytes: u32,
    pub(crate) initial_window_packets: u32,
    pub(crate) rto_min_ps: u64,
    /// Whether losses are found by time, and a probe checks the last segments (RFC 8985).
    pub(crate) rack: bool,
    /// Whether slow start ends when round-trip times rise (RFC 9406).
    pub(crate) hystart: bool,
    /// Whether recoveries send in proportion to what arrives (RFC 9937).
    pub(crate) prr: bool,
    /// Whether only every second segment is acknowledged, or after 40 ms (RFC 5681, 4.2).
    pub(crate) delayed_ack: bool,
    pub(crate) send_buffer_bytes: u32,
    /// Bytes that the adapter cuts into segments and sends in one go (segmentation offload).
    pub(crate) burst_bytes: u32,
}

impl TcpSetup {
    /// Returns the posting of an application whose writes go to the send buffer while it has room.
    pub(super) fn posting(&self) -> Posting {
        let depth = (self.send_buffer_bytes / self.mss_bytes).max(1);
        Posting { message_bytes: self.mss_bytes, depth }
    }
}

/// Returns the routes of data and of acknowledgements for the connection of a flow.
pub(crate) fn routes(
    ports: &Ports,
    hosts: Ends<HostId>,
    sockets: Ends<SocketId>,
    flow: FlowId,
) -> (Route, Route) {
    let client = u64::from(FIRST_PORT + flow.0 % PORTS);
    let tuple = |from: u64, to: u64| PROTOCOL << 32 | from << 16 | to;
    let tuples = Ends { src: tuple(client, SERVER_PORT), dst: tuple(SERVER_PORT, client) };
    Route::both(ports, hosts, sockets, tuples)
}
