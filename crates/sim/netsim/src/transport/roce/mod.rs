//! RoCEv2: reliable connections of InfiniBand over UDP, as adapters implement it in lossless
//! networks.
//!
//! Both ends of a connection are `rc` engines, unchanged. Their window is fixed, as adapters have
//! it; rates are left to the network's pauses, or to DCQCN, or to the engine's own window. A packet
//! is a SEND of the flow and always full but the last: one that is missing is asked for once, and
//! sent again with all after it. A queue pair serves one flow, on one path. Queue pairs are
//! connected before the run begins.

mod dcqcn;
mod notifier;
mod queue_pair;

pub(crate) use dcqcn::DcqcnSetup;
pub(crate) use queue_pair::QueuePair;

use super::Posting;
use super::route::Route;
use crate::id::{Ends, FlowId, HostId, SocketId};
use crate::packet::{FRAME_BYTES, UDP_BYTES};
use crate::socket::Ports;
use queue_pair::End;
use rc::wire::{Aeth, Bth, icrc, pad_of};
use rc::{Config, Mtu};
use std::sync::Arc;

/// Bytes of a data packet that are no payload: frame, base transport header, check sum.
pub(super) const OVERHEAD_BYTES: u32 = FRAME_BYTES + UDP_BYTES + (Bth::LEN + icrc::LEN) as u32;
/// Bytes of an acknowledgement of either kind, with its extended header.
pub(super) const ACK_BYTES: u32 = OVERHEAD_BYTES + Aeth::LEN as u32;
/// Path MTU: the largest payload of a packet.
const MTU: Mtu = Mtu::B4096;
const UDP: u64 = 17;
/// First source port; source ports of RoCEv2 serve hashing only.
const FIRST_SOURCE_PORT: u32 = 49_152;
const SOURCE_PORTS: u32 = 16_384;

/// Returns the payload of a full packet that has room for `most` bytes: no pad follows it.
pub(super) const fn payload_bytes(most: u32) -> u32 {
    let most = if most < MTU.bytes() { most } else { MTU.bytes() };
    most / 4 * 4
}

/// Returns the number of bytes behind a payload that make the packet's length a multiple of 4.
pub(super) const fn pad_bytes(payload_bytes: u32) -> u32 {
    pad_of(payload_bytes) as u32
}

/// Configuration of all queue pairs.
#[derive(Clone, Debug)]
pub(crate) struct RoceSetup {
    pub(crate) config: Arc<Config>,
    pub(crate) posting: Posting,
    /// Number of timeouts and gaps without progress before a requester gives up.
    pub(crate) retries: u8,
    pub(crate) dcqcn: Option<DcqcnSetup>,
}

impl RoceSetup {
    /// Creates both ends of a flow's connection between two hosts: the sender and the receiver.
    pub(crate) fn connect(
        &self,
        ports: &Ports,
        hosts: Ends<HostId>,
        sockets: Ends<SocketId>,
        flow: FlowId,
    ) -> (QueuePair, QueuePair) {
        let source = u64::from(FIRST_SOURCE_PORT + flow.0 % SOURCE_PORTS);
        let tuple = UDP << 32 | source << 16 | u64::from(rc::wire::UDP_PORT);
        let (there, back) = Route::both(ports, hosts, sockets, Ends { src: tuple, dst: tuple });
        (
            QueuePair::new(self, End::Sender, there, sockets),
            QueuePair::new(self, End::Receiver, back, sockets.reversed()),
        )
    }
}
