//! Whether a datagram from the network is a packet, and whose. Nothing is forwarded that is not
//! intact (RC-1.9).

use std::net::SocketAddr;

use rc::wire::icrc::{self, Addresses, Route};
use rc::wire::{Cnp, DEFAULT_PKEY, Packet};
use rc::{Mtu, ud};

use super::counts::Counts;
use super::mad;
use super::table::{Seat, Table};

/// Bytes of the longest packet: payload of the largest path MTU, and more than all headers have.
pub(super) const PACKET_MAX: usize = 4096 + 128;
/// The queue pair of the connection manager, and its queue key.
const MANAGER_QPN: u32 = 1;
const MANAGER_QKEY: u32 = 0x8001_0000;

/// A datagram, with what its check covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// What its IP header says, as far as it is covered.
    pub(super) addresses: Addresses,
    pub(super) packet: &'a [u8],
}

/// The reason why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    Malformed,
    Icrc,
    NoQueuePair,
    NoConnection,
}

impl Dropped {
    pub(super) fn count(self, counts: &mut Counts) {
        *match self {
            Self::Malformed => &mut counts.malformed,
            Self::Icrc => &mut counts.icrc,
            Self::NoQueuePair => &mut counts.no_queue_pair,
            Self::NoConnection => &mut counts.no_connection,
        } += 1;
    }
}

/// Decides where a packet goes. What is cheap to find out is asked first; the tables are changed by
/// what is intact only.
pub(super) fn judge(
    table: &mut Table,
    arrived: &Arrived<'_>,
) -> Result<(SocketAddr, Seat), Dropped> {
    let Arrived { from, to, packet, .. } = *arrived;
    let dest_qpn = dest_qpn_of(packet).ok_or(Dropped::Malformed)?;
    if dest_qpn == MANAGER_QPN {
        let destination = mad_of(packet).and_then(mad::destination_of).ok_or(Dropped::Malformed)?;
        check(arrived)?;
        return table.connections(from.ip(), to.ip(), destination).ok_or(Dropped::NoConnection);
    }
    let port = u16::try_from(dest_qpn >> 8).map_err(|_| Dropped::NoQueuePair)?;
    let at = SocketAddr::new(to.ip(), port);
    let seat = *table.queue_pair(at).ok_or(Dropped::NoQueuePair)?;
    check(arrived)?;
    Ok((at, seat))
}

/// The queue pair that a packet names, if its lengths and opcode fit each other.
fn dest_qpn_of(packet: &[u8]) -> Option<u32> {
    if packet.len() > PACKET_MAX {
        return None;
    }
    if packet.first() == Some(&Cnp::OPCODE) {
        let is_whole = packet.len() == Cnp::LEN + icrc::LEN;
        return Cnp::parse(packet).ok().filter(|_| is_whole).map(|cnp| cnp.dest_qpn);
    }
    Packet::parse(packet, packet.len()).ok().map(|packet| packet.headers.bth.dest_qpn)
}

/// The message in a packet to the connection manager.
fn mad_of(packet: &[u8]) -> Option<&[u8]> {
    let manager =
        ud::Receiver { qpn: MANAGER_QPN, pkey: DEFAULT_PKEY, qkey: MANAGER_QKEY, mtu: Mtu::B256 };
    let found = ud::receive(&manager, packet, packet.len()).ok().filter(|it| it.imm.is_none())?;
    packet.get(found.payload_at..)?.get(..found.payload_len as usize)
}

fn check(arrived: &Arrived<'_>) -> Result<(), Dropped> {
    let Arrived { from, to, addresses, packet } = *arrived;
    let route = Route { addresses, src_port: from.port(), dst_port: to.port() };
    if icrc::is_right(&route, packet) { Ok(()) } else { Err(Dropped::Icrc) }
}
