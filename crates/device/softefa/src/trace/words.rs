//! Words for what stands in the headers of a datagram, in traces of devices and of captured packets
//! alike.

use std::fmt::{self, Display};

use srd::Psn;
use srd::wire::{AckView, DataRepr, Flags, Header, Kind};

/// Operations on the wire, by their numbers (docs/PROTOCOL.md, chapter 10).
const OPS: [(u8, &str); 10] = [
    (0, "SEND"),
    (1, "WRITE"),
    (2, "READ"),
    (3, "READ_DATA"),
    (4, "READ_FAIL"),
    (5, "READ_PROBE"),
    (16, "WRITE_LOCAL"),
    (17, "READ_GRANT"),
    (18, "READ_CONFIRM"),
    (19, "GONE"),
];

/// Name of an operation on the wire.
pub(crate) fn op_name(op: u8) -> &'static str {
    OPS.iter().find(|(number, _)| *number == op).map_or("UNKNOWN", |(_, name)| name)
}

/// What a data block says.
pub(crate) struct DataText {
    pub(crate) common: Header,
    pub(crate) data: DataRepr,
    /// The number of the first message of its datagram.
    pub(crate) first: Psn,
}

impl Display for DataText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Header { kind, flags, path, .. }, data) = (self.common, self.data);
        let (op, psn, len) = (op_name(data.op), data.psn.0, data.len);
        let (path, flags) = (path.0, FlagNames(flags));
        write!(f, "op={op} psn={psn} path={path} len={len} flags={flags}")?;
        if kind == Kind::Frame { write!(f, " frame={}", self.first.0) } else { Ok(()) }
    }
}

/// Names of the flags that say something by themselves.
pub(crate) struct FlagNames(pub(crate) Flags);

impl Display for FlagNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Flags::INIT, "INIT"),
            (Flags::RTX, "RTX"),
            (Flags::ACK_REQ, "ACK_REQ"),
            (Flags::FINAL_TRY, "FINAL_TRY"),
            (Flags::PROBE, "PROBE"),
        ];
        let mut separator = "";
        for (_, name) in names.iter().filter(|(flag, _)| self.0.has(*flag)) {
            write!(f, "{separator}{name}")?;
            separator = "|";
        }
        if separator.is_empty() { f.write_str("-") } else { Ok(()) }
    }
}

/// The contents of an acknowledgement as text.
pub(crate) struct AckText<'a>(pub(crate) AckView<'a>);

impl Display for AckText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ack = &self.0;
        let above: u32 = ack.words().map(|(_, bits)| bits.count_ones()).sum();
        write!(f, "cum={} last={} above={above}", ack.cum().0, ack.ref_psn().0)?;
        for range in ack.ranges() {
            let (psn, count, status) = (range.psn.0, range.count, range.status.code());
            let again = if range.retry { ":again" } else { "" };
            write!(f, " refused={psn}+{count}:{status}{again}")?;
        }
        Ok(())
    }
}
