//! Converts captured packets to the lines that a trace would have had.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use softefa::capture::{Fate, Protocol, Record};
use softefa::trace::{PeerName, TraceEvent, TraceLine, trace_lines};

use super::flows::{Flows, Owner};
use super::line::{number, value};
use crate::pcap::{Direction, Packet, Reader};

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const UDP: u8 = 17;
/// The port of RoCE packets.
const ROCE_PORT: u16 = 4791;
/// The suffix that `softefa pcap` gives to the interface of packets that were dropped on purpose.
const DROPPED: &str = "-dropped";
/// The most lines that wait for the name of their queue pair.
const WAITING_MAX: usize = 100_000;

/// A line whose queue pair is not known yet.
#[derive(Debug)]
struct Waiting {
    device: String,
    peer: SocketAddr,
    peer_qpn: u32,
    time_ns: u64,
    said: TraceLine,
}

/// Reads a capture as lines.
#[derive(Debug)]
pub(super) struct Packets<R> {
    reader: Reader<R>,
    lines: VecDeque<String>,
    waiting: Vec<Waiting>,
    /// The connections of each device, as far as they are identified.
    flows: BTreeMap<String, Flows>,
    /// Number of packets that are sealed, or belong to no queue pair.
    silent: u64,
}

impl<R: Read> Packets<R> {
    pub(super) fn new(input: R) -> Self {
        let (lines, waiting, flows) = (VecDeque::new(), Vec::new(), BTreeMap::new());
        Self { reader: Reader::new(input), lines, waiting, flows, silent: 0 }
    }

    /// Returns true if the file did not end at the end of a block.
    pub(super) fn is_cut(&self) -> bool {
        self.reader.is_cut()
    }

    /// Returns the number of packets without a line.
    pub(super) fn silent(&self) -> u64 {
        self.silent
    }

    /// Returns the next line; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(line));
            }
            match self.reader.next()? {
                Some(packet) => self.take(&packet),
                None if self.waiting.is_empty() => return Ok(None),
                None => self.release(true),
            }
        }
    }

    fn take(&mut self, packet: &Packet) {
        let before = self.lines.len() + self.waiting.len();
        for record in records(packet) {
            self.record(device(&packet.interface), &record);
        }
        self.silent += u64::from(before == self.lines.len() + self.waiting.len());
        if self.waiting.len() > WAITING_MAX {
            self.release(true);
        }
    }

    fn record(&mut self, device: &str, record: &Record) {
        let Some(qpns) = record.qpns() else { return };
        let is_received = record.fate == Fate::Received;
        let peer = if is_received { record.src } else { record.dst };
        let flows = self.flows.entry(device.to_owned()).or_default();
        let mut has_news = false;
        for mut said in trace_lines(record) {
            let psn = number(&said.text, "psn").and_then(|psn| psn.try_into().ok());
            let is_roce = record.protocol == Protocol::Roce;
            let is_answer = is_answer(&said.text);
            if let (true, Some(psn)) = (is_roce, psn) {
                if is_received {
                    has_news |= flows.received(peer.ip(), qpns.dst, psn, is_answer);
                } else if said.event == TraceEvent::Transmit {
                    let (is_again, news) = flows.sent(peer.ip(), qpns.dst, psn, is_answer);
                    has_news |= news;
                    if is_again {
                        said.event = TraceEvent::Retransmit;
                    }
                }
            }
            let owner = match (is_received, qpns.src) {
                (true, _) => Owner::Known(qpns.dst),
                (false, Some(src)) => Owner::Known(src),
                (false, None) => flows.owner(peer.ip(), qpns.dst),
            };
            let peer_qpn = if is_received { qpns.src } else { Some(qpns.dst) };
            let peer_qpn = peer_qpn.or_else(|| flows.peer(qpns.dst));
            match owner {
                Owner::Known(qpn) => {
                    let peer = peer_qpn.map(|qpn| PeerName { addr: peer.ip(), qpn }.to_string());
                    let peer = peer.unwrap_or_else(|| "-".to_owned());
                    let (time_ns, event) = (record.time_ns, said.event.name());
                    self.lines.push_back(format!(
                        "{time_ns} {event} {device}:{qpn} {peer} {}",
                        said.text
                    ));
                }
                Owner::Unknown => self.waiting.push(Waiting {
                    device: device.to_owned(),
                    peer,
                    peer_qpn: qpns.dst,
                    time_ns: record.time_ns,
                    said,
                }),
            }
        }
        if has_news {
            self.release(false);
        }
    }

    /// Releases the lines whose queue pair is known by now; with `all`, the others as well, under
    /// the name of their peer.
    fn release(&mut self, all: bool) {
        for waiting in std::mem::take(&mut self.waiting) {
            let Waiting { device, peer, peer_qpn, time_ns, said } = &waiting;
            let owner = self.flows.get(device).map(|flows| flows.owner(peer.ip(), *peer_qpn));
            let local = match owner {
                Some(Owner::Known(qpn)) => qpn.to_string(),
                _ if all => format!("to-{peer_qpn}"),
                _ => {
                    self.waiting.push(waiting);
                    continue;
                }
            };
            let (event, text) = (said.event.name(), &said.text);
            let peer = PeerName { addr: peer.ip(), qpn: *peer_qpn };
            self.lines.push_back(format!("{time_ns} {event} {device}:{local} {peer} {text}"));
        }
    }
}

/// Returns true for a packet of RoCE that answers requests.
pub(super) fn is_answer(what: &str) -> bool {
    let op = value(what, "op").unwrap_or_default();
    op.ends_with("Acknowledge") || op.starts_with("ReadResponse")
}

/// Returns the device in the name of an interface, to which `softefa pcap` adds a process id.
fn device(interface: &str) -> &str {
    let name = interface.strip_suffix(DROPPED).unwrap_or(interface);
    let of_process = |(_, pid): &(&str, &str)| pid.bytes().all(|byte| byte.is_ascii_digit());
    let name = name.rsplit_once('.').filter(of_process).map_or(name, |(device, _)| device);
    // In a trace the name stands between blanks.
    let is_word = !name.contains(|c: char| c == ' ' || c == ':' || c.is_control());
    if name.is_empty() || !is_word { "device" } else { name }
}

/// Returns the records of the device at the interface. A packet of a capture without directions was
/// sent by one device and received by another.
fn records(packet: &Packet) -> Vec<Record> {
    let fates = match packet.direction {
        _ if packet.interface.ends_with(DROPPED) => vec![Fate::LostOnPurpose],
        Some(Direction::Out) => vec![Fate::Sent],
        Some(Direction::In) => vec![Fate::Received],
        None => vec![Fate::Sent, Fate::Received],
    };
    let of = |fate| record(packet, fate).filter(|record| !trace_lines(record).is_empty());
    fates.into_iter().filter_map(of).collect()
}

fn record(packet: &Packet, fate: Fate) -> Option<Record> {
    let (src, dst, headers_len) = addresses(&packet.bytes)?;
    let udp = packet.bytes.get(headers_len..headers_len + UDP_LEN)?;
    let word = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
    let dst = SocketAddr::new(dst, word(2));
    Some(Record {
        time_ns: packet.time_ns,
        fate,
        protocol: if dst.port() == ROCE_PORT { Protocol::Roce } else { Protocol::Srd },
        src: SocketAddr::new(src, word(0)),
        dst,
        len: word(4).checked_sub(8)?,
        bytes: packet.bytes[headers_len + UDP_LEN..].to_vec(),
    })
}

/// Returns source and destination of a packet of UDP, and the length of its IP header.
fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr, usize)> {
    match packet.first()? >> 4 {
        4 => {
            let ip = packet.first_chunk::<IPV4_LEN>()?;
            let len = usize::from(ip[0] & 15) * 4;
            let at = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
            let is_udp = len >= IPV4_LEN && ip[9] == UDP;
            is_udp.then_some((at(12).into(), at(16).into(), len))
        }
        6 => {
            let ip = packet.first_chunk::<IPV6_LEN>()?;
            let (_, addresses) = ip.split_at(8);
            let at = |octets: &[u8; 16]| IpAddr::from(Ipv6Addr::from(*octets));
            let (src, dst) = (addresses.first_chunk()?, addresses.last_chunk()?);
            // A packet with extension headers is not from an adapter of ours.
            (ip[6] == UDP).then_some((at(src), at(dst), IPV6_LEN))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_names_its_device() {
        for (interface, name) in [
            ("rdmap0s6.1234", "rdmap0s6"),
            ("rdmap0s6.1234-dropped", "rdmap0s6"),
            ("eth0", "eth0"),
            ("eth0.vlan", "eth0.vlan"),
            ("", "device"),
            ("a b", "device"),
        ] {
            assert_eq!(device(interface), name);
        }
    }

    #[test]
    fn packets_of_others_say_nothing() {
        let bytes = [0x45; 60].to_vec();
        for interface in ["a.1", "a.1-dropped"] {
            let interface = interface.to_owned();
            let packet = Packet { interface, time_ns: 1, direction: None, bytes: bytes.clone() };
            assert_eq!(records(&packet), []);
        }
    }
}
