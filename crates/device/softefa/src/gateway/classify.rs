//! Checks whether a datagram from the network is an intact packet, and finds its recipient. Only
//! intact packets are forwarded (RC-1.9).

use std::net::SocketAddr;

use cm::mad::Mad;
use rc::wire::icrc::{self, Addresses, Route};
use rc::wire::{Cnp, Packet};

use super::counts::Counts;
use super::table::{Registration, Table};
use crate::mad;

/// The length of the longest packet: the largest path MTU, plus more than all headers need.
pub(super) const PACKET_MAX: usize = 4096 + 128;

/// A datagram, with the header fields that its ICRC covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Datagram<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// The fields of the IP header that the ICRC covers.
    pub(super) addresses: Addresses,
    pub(super) packet: &'a [u8],
}

/// The reason why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DropReason {
    Malformed,
    Icrc,
    NoQueuePair,
}

/// The recipient of an intact packet.
#[derive(Debug)]
pub(super) enum Recipient {
    /// The socket of a program.
    Program(SocketAddr, Registration),
    /// No program; the packet is a message of the connection manager.
    None(Box<Mad>),
}

impl DropReason {
    pub(super) fn count(self, counts: &mut Counts) {
        *match self {
            Self::Malformed => &mut counts.malformed,
            Self::Icrc => &mut counts.icrc,
            Self::NoQueuePair => &mut counts.no_queue_pair,
        } += 1;
    }
}

/// Finds the recipient of a packet. Cheap checks come first, and only an intact packet changes the
/// tables.
pub(super) fn classify(
    table: &mut Table,
    datagram: &Datagram<'_>,
) -> Result<Recipient, DropReason> {
    let Datagram { from, to, packet, .. } = *datagram;
    let dest_qpn = dest_qpn_of(packet).ok_or(DropReason::Malformed)?;
    if dest_qpn == mad::QPN {
        let bytes = mad::unpack(None, packet).map_err(|_| DropReason::Malformed)?;
        let mad = Mad::parse(bytes).map_err(|_| DropReason::Malformed)?;
        check_icrc(datagram)?;
        let found = table.route_message(from.ip(), to.ip(), &mad.message);
        return Ok(found.map_or_else(
            || Recipient::None(Box::new(mad)),
            |(at, registration)| Recipient::Program(at, registration),
        ));
    }
    let port = u16::try_from(dest_qpn >> 8).map_err(|_| DropReason::NoQueuePair)?;
    let at = SocketAddr::new(to.ip(), port);
    let registration = *table.queue_pair_socket(at).ok_or(DropReason::NoQueuePair)?;
    check_icrc(datagram)?;
    Ok(Recipient::Program(at, registration))
}

/// Returns the queue pair that a packet names, if its length fits its opcode.
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

fn check_icrc(datagram: &Datagram<'_>) -> Result<(), DropReason> {
    let Datagram { from, to, addresses, packet } = *datagram;
    let route = Route { addresses, src_port: from.port(), dst_port: to.port() };
    if icrc::is_right(&route, packet) { Ok(()) } else { Err(DropReason::Icrc) }
}
