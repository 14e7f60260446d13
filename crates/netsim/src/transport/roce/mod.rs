//! RoCEv2: reliable connections of InfiniBand over UDP, as adapters speak it in lossless networks.
//!
//! A queue pair numbers its packets and the responder takes them in order only. One that is
//! missing is asked for once (NAK, sequence error), and the requester sends it and all after it
//! again (go back N); when an acknowledgement does not come in time it does the same (InfiniBand
//! Architecture Specification 1.4, chapter 9.7). Rates are left to the network's pauses, or to
//! DCQCN. A packet is a message of the flow and always full but the last; a queue pair serves one
//! flow, on one path. Queue pairs are connected before the run begins.

mod dcqcn;
mod requester;
mod responder;

pub(crate) use dcqcn::DcqcnSetup;
pub(crate) use requester::Requester;
pub(crate) use responder::Responder;

use super::Posting;
use super::route::Route;
use crate::packet::{FRAME_BYTES, UDP_BYTES};
use crate::socket::Ports;

/// Base transport header (12) and check sum (4).
const TRANSPORT_BYTES: u32 = 16;
/// Bytes of a data packet that are no payload.
pub(super) const OVERHEAD_BYTES: u32 = FRAME_BYTES + UDP_BYTES + TRANSPORT_BYTES;
/// An acknowledgement of either kind, with its extended header (4);
pub(super) const ACK_BYTES: u32 = OVERHEAD_BYTES + 4;
/// and a congestion notification, with 16 reserved bytes.
const CNP_BYTES: u32 = OVERHEAD_BYTES + 16;
const UDP: u64 = 17;
const PORT: u64 = 4791;
/// Source ports of RoCEv2 are for hashing only.
const FIRST_SOURCE_PORT: u32 = 49_152;
const SOURCE_PORTS: u32 = 16_384;

/// What is in a RoCEv2 packet besides data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Data {
        psn: u32,
        /// The requester asks for an acknowledgement.
        ack_wanted: bool,
    },
    /// All before `next` has arrived.
    Ack { next: u32 },
    /// The same, and something after `next`: go back.
    Nak { next: u32 },
    /// Congestion notification: a switch has marked packets.
    Cnp,
}

/// How all queue pairs are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoceSetup {
    pub(crate) mtu_bytes: u32,
    /// Packets of a queue pair that are sent and not acknowledged, at most.
    pub(crate) window_packets: u32,
    /// The requester asks for an acknowledgement of each so many packets, and of the last.
    pub(crate) ack_every_packets: u32,
    /// Silence after which the requester goes back.
    pub(crate) timeout_ps: u64,
    /// Times it does so before it gives up.
    pub(crate) retries: u32,
    pub(crate) dcqcn: Option<DcqcnSetup>,
}

impl RoceSetup {
    pub(super) fn posting(&self) -> Posting {
        Posting { message_bytes: self.mtu_bytes, depth: self.window_packets }
    }

    /// Both ends of a queue pair of this number between two hosts, whose sockets are `sockets`.
    pub(crate) fn connect(
        &self,
        ports: &Ports,
        hosts: (u32, u32),
        sockets: (u32, u32),
        number: u32,
    ) -> (Requester, Responder) {
        let source = u64::from(FIRST_SOURCE_PORT + number % SOURCE_PORTS);
        let tuple = UDP << 32 | source << 16 | PORT;
        let (there, back) = Route::both(ports, hosts, sockets, (tuple, tuple));
        let cnp_interval_ps = self.dcqcn.map(|dcqcn| dcqcn.cnp_interval_ps);
        (Requester::new(there, self), Responder::new(back, cnp_interval_ps))
    }
}
