//! What a trace says of a packet, for packets that were captured.

use rc::wire::Headers;
use srd::wire::ud::UdRepr;
use srd::wire::{self, Flags, Header, Kind};

use super::TraceEvent;
use super::words::{AckText, DataText};
use crate::capture::{Fate, Protocol, Record};

/// A line of a trace without its first columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceLine {
    /// The event.
    pub event: TraceEvent,
    /// Its keys and values.
    pub text: String,
}

impl TraceLine {
    fn new(event: TraceEvent, text: String) -> Self {
        Self { event, text }
    }
}

/// Returns the lines that the trace of the device would have of this packet, as far as the packet
/// tells. Whether a packet of RoCE was sent before stands in its number only, so that it is a
/// transmission here.
#[must_use]
pub fn trace_lines(record: &Record) -> Vec<TraceLine> {
    let mut lines = match record.protocol {
        Protocol::Srd => of_srd(record),
        Protocol::Roce => of_roce(record).into_iter().collect(),
    };
    if record.fate == Fate::LostOnPurpose {
        let what = lines.first().map(|line| format!(" {}", line.text)).unwrap_or_default();
        lines.push(TraceLine::new(TraceEvent::Fault, format!("is=dealt fault_lost=1{what}")));
    }
    lines
}

fn of_srd(record: &Record) -> Vec<TraceLine> {
    let Ok(common) = Header::parse(&record.bytes) else { return Vec::new() };
    let (path, is_sent) = (common.path.0, record.fate != Fate::Received);
    match common.kind {
        Kind::Srd | Kind::Frame => {}
        Kind::Ud => return of_ud(record, is_sent).into_iter().collect(),
        kind => {
            let event = if is_sent { TraceEvent::Transmit } else { TraceEvent::Receive };
            let name = format!("{kind:?}").to_uppercase();
            return vec![TraceLine::new(event, format!("op={name} path={path}"))];
        }
    }
    let Ok(datagram) = wire::Datagram::parse(common, &record.bytes, record.len.into()) else {
        return Vec::new();
    };
    let mut said = Vec::new();
    for (data, _) in datagram.messages(&record.bytes) {
        let first = datagram.data.map_or(data.psn, |first| first.psn);
        let event = match (is_sent, common.flags.has(Flags::RTX)) {
            (false, _) => TraceEvent::Receive,
            (true, false) => TraceEvent::Transmit,
            (true, true) => TraceEvent::Retransmit,
        };
        said.push(TraceLine::new(event, DataText { common, data, first }.to_string()));
    }
    if let Some(ack) = datagram.ack {
        let dir = if is_sent { "out" } else { "in" };
        said.push(TraceLine::new(
            TraceEvent::Ack,
            format!("dir={dir} path={path} {}", AckText(ack)),
        ));
    }
    said
}

fn of_ud(record: &Record, is_sent: bool) -> Option<TraceLine> {
    let UdRepr { path, len, .. } = UdRepr::parse(&record.bytes, record.len.into()).ok()?;
    let event = if is_sent { TraceEvent::Transmit } else { TraceEvent::Receive };
    Some(TraceLine::new(event, format!("op=UD_SEND path={} len={len}", path.0)))
}

fn of_roce(record: &Record) -> Option<TraceLine> {
    let headers = Headers::parse(&record.bytes).ok()?;
    let is_sent = record.fate != Fate::Received;
    let event = if is_sent { TraceEvent::Transmit } else { TraceEvent::Receive };
    let (kind, psn) = (headers.bth.opcode.kind, headers.bth.psn.get());
    let mut text = format!("op={kind:?} psn={psn}");
    if kind.has_aeth() {
        text += &format!(" syndrome={:?}", headers.aeth.syndrome);
    }
    if is_sent {
        let around = headers.len() + usize::from(headers.bth.pad) + rc::wire::icrc::LEN;
        text += &format!(" len={}", usize::from(record.len).saturating_sub(around));
    }
    Some(TraceLine::new(event, text))
}

#[cfg(test)]
mod tests {
    use srd::PathId;

    use super::*;

    fn record(bytes: Vec<u8>, fate: Fate, protocol: Protocol) -> Record {
        let [src, dst] = ["127.0.0.1:10240", "127.0.0.1:8"].map(|at| at.parse().unwrap());
        let len = u16::try_from(bytes.len()).unwrap();
        Record { time_ns: 1, fate, protocol, src, dst, len, bytes }
    }

    #[test]
    fn what_was_dropped_on_purpose_was_sent_as_far_as_a_trace_can_see() {
        let repr = UdRepr {
            path: PathId(3),
            src_qpn: 7,
            dst_qpn: 8,
            qkey: 1,
            imm: 0,
            op: 0,
            flags: 0,
            len: 0,
        };
        let mut bytes = [0; UdRepr::LEN];
        repr.emit(&mut bytes);
        let said = trace_lines(&record(bytes.to_vec(), Fate::LostOnPurpose, Protocol::Srd));
        let text = "op=UD_SEND path=3 len=0";
        let sent = TraceLine::new(TraceEvent::Transmit, text.to_owned());
        let lost = TraceLine::new(TraceEvent::Fault, format!("is=dealt fault_lost=1 {text}"));
        assert_eq!(said, [sent, lost]);
    }

    #[test]
    fn bytes_of_others_say_nothing() {
        for protocol in [Protocol::Srd, Protocol::Roce] {
            for bytes in [vec![], vec![0xff; 80], vec![0x10; 5]] {
                assert_eq!(trace_lines(&record(bytes, Fate::Sent, protocol)), []);
            }
        }
    }
}
