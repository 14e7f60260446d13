//! Writes a capture file: converts the records of devices to packets on interfaces.

use std::io::{self, BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use softefa::capture::{Fate, Record};

use super::collector::{Collector, Filter, Scope};
use super::packet;
use super::pcapng::{self, Direction, InterfaceId, Packet};
use super::unseal::{Unsealed, Unsealer};
use crate::process;

const BUFFER_BYTES: usize = 1 << 20;
/// The comment that Wireshark shows for a packet that was never sent.
const LOST_COMMENT: &str = "dropped on purpose (--fault), never sent";

/// The destination of a capture.
pub(super) type Output = Box<dyn Write + Send>;

/// The interfaces of one device in the file: one for packets sent and received, one for packets
/// that faults dropped.
#[derive(Debug, Clone, Copy, Default)]
struct Interfaces {
    wire: Option<InterfaceId>,
    faults: Option<InterfaceId>,
}

/// The result of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) packets: u64,
    /// The number of records that came too fast and were missed.
    pub(super) lost: u64,
    /// The number of packets that were written sealed, because they cannot be opened.
    pub(super) closed: u64,
    /// The number of packets that were written sealed, because they were captured in part.
    pub(super) cut: u64,
}

/// A capture that is being written.
pub(super) struct Capture {
    collector: Collector,
    file: pcapng::Writer<BufWriter<Output>>,
    /// The interfaces, in the order of the collector's sources.
    interfaces: Vec<Interfaces>,
    /// The numbers of packets sent and received, in the same order.
    packets: Vec<u64>,
    dropped: u64,
    unsealer: Unsealer,
    /// The number of packets that may still be written.
    left: u64,
}

impl Capture {
    pub(super) fn new(
        scope: Scope,
        filter: Filter,
        output: Output,
        limit: Option<u64>,
    ) -> io::Result<Self> {
        let mut file = pcapng::Writer::new(BufWriter::with_capacity(BUFFER_BYTES, output))?;
        // A reader at the other end of a pipe waits for the header.
        file.flush()?;
        let collector = Collector::new(scope, filter);
        let left = limit.unwrap_or(u64::MAX);
        let (interfaces, packets) = (Vec::new(), Vec::new());
        let unsealer = Unsealer::default();
        Ok(Self { collector, file, interfaces, packets, dropped: 0, unsealer, left })
    }

    /// Opens sealed packets from now on.
    pub(super) fn unseal(&mut self, unsealer: Unsealer) {
        self.unsealer = unsealer;
    }

    /// Writes the packets that have arrived and are in order; with `all`, all that are left.
    pub(super) fn advance(&mut self, all: bool) -> io::Result<()> {
        let records = self.collector.collect(all)?;
        let sources = self.collector.sources().len();
        self.interfaces.resize(sources, Interfaces::default());
        self.packets.resize(sources, 0);
        for (place, record) in records {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            self.write(place, record)?;
        }
        self.file.flush()
    }

    /// Returns whether the requested number of packets has been written.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    fn write(&mut self, place: usize, mut record: Record) -> io::Result<()> {
        let unsealed = self.unsealer.open(&mut record);
        let is_lost = record.fate == Fate::LostOnPurpose;
        let direction = if record.fate == Fate::Received { Direction::In } else { Direction::Out };
        let interface = self.interface(place, is_lost)?;
        if is_lost {
            self.dropped += 1;
        } else {
            self.packets[place] += 1;
        }
        let headers = packet::headers(&record);
        self.file.packet(&Packet {
            interface,
            time_ns: record.time_ns,
            direction,
            parts: [&headers, &record.bytes],
            len: u32::from(record.len) + headers.len() as u32,
            comment: comment(is_lost, unsealed),
        })
    }

    /// Returns the interface of a source, and announces it if this is its first packet.
    fn interface(&mut self, place: usize, is_lost: bool) -> io::Result<InterfaceId> {
        let known = &mut self.interfaces[place];
        let slot = if is_lost { &mut known.faults } else { &mut known.wire };
        if let Some(interface) = slot {
            return Ok(*interface);
        }
        let device = &self.collector.sources()[place].device;
        let what = if is_lost { "-dropped" } else { "" };
        let name = format!("{}.{}{what}", device.device, device.pid);
        let description = format!("{} at {}", process::name(device.pid), device.addr);
        let interface = self.file.interface(&name, &description)?;
        *slot = Some(interface);
        Ok(interface)
    }

    /// Writes the remaining packets, and the statistics of the interfaces for packets sent and
    /// received.
    pub(super) fn finish(&mut self) -> io::Result<Summary> {
        self.advance(true)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let mut lost = 0;
        for (place, source) in self.collector.sources().iter().enumerate() {
            lost += source.lost();
            if let Some(interface) = self.interfaces[place].wire {
                let all = self.packets[place] + source.lost();
                self.file.statistics(interface, now_ns, [all, source.lost()])?;
            }
        }
        self.file.flush()?;
        let packets = self.packets.iter().sum::<u64>() + self.dropped;
        let Unsealer { closed, cut, .. } = self.unsealer;
        Ok(Summary { packets, lost, closed, cut })
    }
}

/// Returns the comment for a packet.
fn comment(is_lost: bool, unsealed: Unsealed) -> Option<&'static str> {
    match (is_lost, unsealed) {
        (true, _) => Some(LOST_COMMENT),
        (false, Unsealed::Closed) => Some("sealed, and does not open with this key"),
        (false, Unsealed::Cut) => Some("sealed, and cut by --snaplen: it cannot be verified"),
        (false, Unsealed::Clear) => None,
    }
}
