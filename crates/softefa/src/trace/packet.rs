//! What a trace says of a packet, for packets that were captured.

use rc::wire::Headers;
use srd::wire::ud::UdRepr;
use srd::wire::{self, Flags, Header, Kind};

use super::TraceEvent;
use super::words::{AckText, FlagNames, op_name};
use crate::capture::{Fate, Protocol, Record};

/// One line of a trace without its first columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The event.
    pub event: TraceEvent,
    /// Its keys and values.
    pub text: String,
}

impl Said {
    fn new(event: TraceEvent, text: String) -> Self {
        Self { event, text }
    }
}

/// What the trace of the device that recorded this packet says of it, as far as the packet tells.
/// Whether a packet of RoCE was sent before stands in its number only, so that it is a transmission
/// here.
#[must_use]
pub fn said_of(record: &Record) -> Vec<Said> {
    let mut said = match record.protocol {
        Protocol::Srd => of_srd(record),
        Protocol::Roce => of_roce(record).into_iter().collect(),
    };
    if record.fate == Fate::LostOnPurpose {
        let what = said.first().map(|said| format!(" {}", said.text)).unwrap_or_default();
        said.push(Said::new(TraceEvent::Fault, format!("is=dealt fault_lost=1{what}")));
    }
    said
}

fn of_srd(record: &Record) -> Vec<Said> {
    let Ok(common) = Header::parse(&record.bytes) else { return Vec::new() };
    let (path, is_sent) = (common.path.0, record.fate != Fate::Received);
    match common.kind {
        Kind::Srd => {}
        Kind::Ud => return of_ud(record, is_sent).into_iter().collect(),
        kind => {
            let event = if is_sent { TraceEvent::Transmit } else { TraceEvent::Receive };
            let name = format!("{kind:?}").to_uppercase();
            return vec![Said::new(event, format!("op={name} path={path}"))];
        }
    }
    let Ok(datagram) = wire::Datagram::parse(common, &record.bytes, record.len.into()) else {
        return Vec::new();
    };
    let mut said = Vec::new();
    if let Some(data) = datagram.data {
        let event = match (is_sent, common.flags.has(Flags::RTX)) {
            (false, _) => TraceEvent::Receive,
            (true, false) => TraceEvent::Transmit,
            (true, true) => TraceEvent::Retransmit,
        };
        let (op, psn, len, flags) =
            (op_name(data.op), data.psn.0, data.len, FlagNames(common.flags));
        said.push(Said::new(
            event,
            format!("op={op} psn={psn} path={path} len={len} flags={flags}"),
        ));
    }
    if let Some(ack) = datagram.ack {
        let dir = if is_sent { "out" } else { "in" };
        said.push(Said::new(TraceEvent::Ack, format!("dir={dir} path={path} {}", AckText(ack))));
    }
    said
}

fn of_ud(record: &Record, is_sent: bool) -> Option<Said> {
    let UdRepr { path, len, .. } = UdRepr::parse(&record.bytes, record.len.into()).ok()?;
    let event = if is_sent { TraceEvent::Transmit } else { TraceEvent::Receive };
    Some(Said::new(event, format!("op=UD_SEND path={} len={len}", path.0)))
}

fn of_roce(record: &Record) -> Option<Said> {
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
    Some(Said::new(event, text))
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
        let said = said_of(&record(bytes.to_vec(), Fate::LostOnPurpose, Protocol::Srd));
        let text = "op=UD_SEND path=3 len=0";
        let sent = Said::new(TraceEvent::Transmit, text.to_owned());
        let lost = Said::new(TraceEvent::Fault, format!("is=dealt fault_lost=1 {text}"));
        assert_eq!(said, [sent, lost]);
    }

    #[test]
    fn bytes_of_others_say_nothing() {
        for protocol in [Protocol::Srd, Protocol::Roce] {
            for bytes in [vec![], vec![0xff; 80], vec![0x10; 5]] {
                assert_eq!(said_of(&record(bytes, Fate::Sent, protocol)), []);
            }
        }
    }
}
