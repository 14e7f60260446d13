//! Parameters of connections: queue pairs and paths.

use crate::mad::{IpHeader, Rep, Req};

/// Kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable.
    Rc,
    /// Unreliable.
    Uc,
}

impl Transport {
    /// Returns the number in a REQ.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Rc => 0,
            Self::Uc => 1,
        }
    }

    /// `None` for datagrams and extended reliable connections, which are not supported.
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Rc),
            1 => Some(Self::Uc),
            _ => None,
        }
    }
}

/// One side's queue pair and what it offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Node GUID of the adapter.
    pub ca_guid: u64,
    /// Queue pair number, 24 bits.
    pub qpn: u32,
    /// READs and atomics that the side answers at a time.
    pub responder_resources: u8,
    /// READs and atomics that the side has outstanding at a time.
    pub initiator_depth: u8,
    /// The side keeps end-to-end credits.
    pub flow_control: bool,
    /// Repetitions of a packet, 0..=7. For a responder 0, because the requester's number is used.
    pub retry_count: u8,
    /// Repetitions when the other side is not ready, 0..=7; 7 is for ever.
    pub rnr_retry_count: u8,
    /// The queue pair has a shared receive queue.
    pub srq: bool,
}

/// The path between two ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// GID of this side's port.
    pub local_gid: [u8; 16],
    /// GID of the other side's port.
    pub remote_gid: [u8; 16],
    /// Partition key.
    pub pkey: u16,
    /// Code of the path MTU (1: 256 to 5: 4096 bytes).
    pub mtu: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit; above 1 the ports are in different subnets, as all are on Ethernet.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Code of the highest packet rate.
    pub rate: u8,
}

/// The parameters of a connection request (CM-4.1).
#[derive(Clone, Copy, Debug)]
pub struct ConnectParams<'a> {
    /// The service.
    pub service_id: u64,
    /// Addresses to lead the private data, in the port spaces.
    pub addresses: Option<IpHeader>,
    /// Kind of the connection.
    pub transport: Transport,
    /// This side's queue pair.
    pub offer: Offer,
    /// The path to the other side.
    pub path: Path,
    /// Bytes for the other program: at most 92, with addresses 56.
    pub private_data: &'a [u8],
}

/// The queue pair that serves a datagram service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceQp {
    /// Its number.
    pub qpn: u32,
    /// The key that its datagrams carry.
    pub qkey: u32,
}

impl ServiceQp {
    /// The queue pair in a refusal.
    pub(crate) const NONE: Self = Self { qpn: 0, qkey: 0 };
}

/// The parameters of a SIDR query for the queue pair of a datagram service (CM-7.1).
#[derive(Clone, Copy, Debug)]
pub struct ResolveParams<'a> {
    /// The service.
    pub service_id: u64,
    /// Addresses to lead the private data, in the port spaces.
    pub addresses: Option<IpHeader>,
    /// Partition key.
    pub pkey: u16,
    /// Bytes for the other program: at most 216, with addresses 180.
    pub private_data: &'a [u8],
}

/// The parameters of a connection's local queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpParams {
    /// Kind of the connection.
    pub transport: Transport,
    /// The other queue pair; 0 before the responder has answered.
    pub remote_qpn: u32,
    /// First packet sequence number to expect.
    pub rq_psn: u32,
    /// First packet sequence number to send.
    pub sq_psn: u32,
    /// READs and atomics to answer at a time.
    pub responder_resources: u8,
    /// READs and atomics to have outstanding at a time.
    pub initiator_depth: u8,
    /// Repetitions of a packet.
    pub retry_count: u8,
    /// Repetitions when the other side is not ready.
    pub rnr_retry_count: u8,
    /// Exponent of the time to wait for an acknowledgement.
    pub ack_timeout: u8,
    /// The other side's queue pair is known: the fields contain everything that a queue pair needs
    /// to send.
    pub is_answered: bool,
    /// The path, seen from this side: `local_gid` is this side's.
    pub path: Path,
}

impl Offer {
    /// Returns the offer in a REQ.
    pub(crate) fn of_req(req: &Req) -> Self {
        Self {
            ca_guid: req.local_ca_guid,
            qpn: req.local_qpn,
            responder_resources: req.responder_resources,
            initiator_depth: req.initiator_depth,
            flow_control: req.flow_control,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            srq: req.srq,
        }
    }

    /// Returns the offer in a REP.
    pub(crate) fn of_rep(rep: &Rep) -> Self {
        Self {
            ca_guid: rep.local_ca_guid,
            qpn: rep.local_qpn,
            responder_resources: rep.responder_resources,
            initiator_depth: rep.initiator_depth,
            flow_control: rep.flow_control,
            retry_count: 0,
            rnr_retry_count: rep.rnr_retry_count,
            srq: rep.srq,
        }
    }
}

impl Path {
    /// Returns the path of a REQ, seen by its receiver.
    pub(crate) fn back_from(req: &Req) -> Self {
        Self {
            local_gid: req.primary_remote_gid,
            remote_gid: req.primary_local_gid,
            pkey: req.pkey,
            mtu: req.mtu,
            flow_label: req.primary_flow_label,
            traffic_class: req.primary_traffic_class,
            hop_limit: req.primary_hop_limit,
            sl: req.primary_sl,
            rate: req.primary_packet_rate,
        }
    }
}

/// Returns the exponent of a timeout that covers the round trip and the peer's delay before it
/// acknowledges (Linux's rule): the larger of the two, plus one where they are close.
pub(crate) fn ack_timeout(ack_delay: u8, life_time: u8) -> u8 {
    let way = life_time + 1;
    let sum = if way >= ack_delay {
        way + u8::from(ack_delay + 1 >= way)
    } else {
        ack_delay + u8::from(way + 1 >= ack_delay)
    };
    sum.min(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_timeout_covers_both_parts() {
        assert_eq!(ack_timeout(15, 16), 17, "the delay is a quarter of the way");
        assert_eq!(ack_timeout(16, 16), 18);
        assert_eq!(ack_timeout(18, 16), 19);
        assert_eq!(ack_timeout(25, 16), 25);
        assert_eq!(ack_timeout(31, 31), 31);
    }
}
