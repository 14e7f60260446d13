//! Whether a datagram from the network is a packet, and whose. Nothing is forwarded that is not
//! intact (RC-1.9).

use std::net::SocketAddr;

use cm::mad::Mad;
use rc::wire::icrc::{self, Addresses, Route};
use rc::wire::{Cnp, Packet};

use super::counts::Counts;
use super::table::{Seat, Table};
use crate::mad;

/// Bytes of the longest packet: payload of the largest path MTU, and more than all headers have.
pub(super) const PACKET_MAX: usize = 4096 + 128;

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
}

/// Whom an intact packet is for.
#[derive(Debug)]
pub(super) enum Whose {
    /// A program, at this socket.
    Program(SocketAddr, Seat),
    /// No program: a message of the connection manager.
    Nobody(Box<Mad>),
}

impl Dropped {
    pub(super) fn count(self, counts: &mut Counts) {
        *match self {
            Self::Malformed => &mut counts.malformed,
            Self::Icrc => &mut counts.icrc,
            Self::NoQueuePair => &mut counts.no_queue_pair,
        } += 1;
    }
}

/// Decides where a packet goes. What is cheap to find out is asked first; the tables are changed by
/// what is intact only.
pub(super) fn judge(table: &mut Table, arrived: &Arrived<'_>) -> Result<Whose, Dropped> {
    let Arrived { from, to, packet, .. } = *arrived;
    let dest_qpn = dest_qpn_of(packet).ok_or(Dropped::Malformed)?;
    if dest_qpn == mad::QPN {
        let bytes = mad::unpack(None, packet).map_err(|_| Dropped::Malformed)?;
        let mad = Mad::parse(bytes).map_err(|_| Dropped::Malformed)?;
        check(arrived)?;
        let found = table.connections(from.ip(), to.ip(), &mad.message);
        return Ok(found
            .map_or_else(|| Whose::Nobody(Box::new(mad)), |(at, seat)| Whose::Program(at, seat)));
    }
    let port = u16::try_from(dest_qpn >> 8).map_err(|_| Dropped::NoQueuePair)?;
    let at = SocketAddr::new(to.ip(), port);
    let seat = *table.queue_pair(at).ok_or(Dropped::NoQueuePair)?;
    check(arrived)?;
    Ok(Whose::Program(at, seat))
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

fn check(arrived: &Arrived<'_>) -> Result<(), Dropped> {
    let Arrived { from, to, addresses, packet } = *arrived;
    let route = Route { addresses, src_port: from.port(), dst_port: to.port() };
    if icrc::is_right(&route, packet) { Ok(()) } else { Err(Dropped::Icrc) }
}
