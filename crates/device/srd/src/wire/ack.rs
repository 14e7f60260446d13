//! The acknowledgement block (SRD-2.7).
//!
//! ```text
//!  0               4               8
//! +-------------------------------+
//! |             conn              |   token of the direction it acknowledges
//! +---------------+---------------+
//! |    cum_psn    |    ref_psn    |   all below cum resolved; the packet that is echoed
//! +---------------+---------------+
//! |    echo_ts    |     rx_ts     |   its tx_ts; receiver's clock at its arrival
//! +---------------+---------------+
//! |          rcvd_bytes           |   accepted payload and overhead so far
//! +-------+-------+-------+-------+
//! |refpath|rxdelay| hint  |sackoff|   16 ns ticks from arrival to here; sack base - cum
//! +-+-+---+-------+-------+-------+
//! |w|r|e|f|  w x 64 sack bits  |  r x { psn u32, count u16, status u8, 0 u8 }
//! +-+-+-+-+--------------------+  e x { path u16, rxdelay u16, echo_ts u32 }
//! ```

mod view;

use crate::{PathId, Psn, Status};

pub use view::AckView;

mod field {
    pub(super) const CONN: usize = 0;
    pub(super) const CUM: usize = 8;
    pub(super) const REF_PSN: usize = 12;
    pub(super) const ECHO: usize = 16;
    pub(super) const RX_TS: usize = 20;
    pub(super) const RCVD: usize = 24;
    pub(super) const REF_PATH: usize = 32;
    pub(super) const RX_DELAY: usize = 34;
    pub(super) const HINT: usize = 36;
    pub(super) const SACK_OFF: usize = 38;
    pub(super) const WORDS: usize = 40;
    pub(super) const RANGES: usize = 41;
    pub(super) const ECHOES: usize = 42;
    pub(super) const FEATURES: usize = 43;
    pub(super) const END: usize = 44;
}

/// Most 64-bit SACK words in one block.
pub const SACK_WORDS_MAX: usize = 16;
/// Most drop ranges in one block.
pub const RANGES_MAX: usize = 12;
/// Most earlier echoes in one block; with the ranges at most [`RANGES_MAX`].
pub const ECHOES_MAX: usize = 3;
/// The value of `rx_delay` for an echo that is no round-trip sample.
pub const RX_DELAY_UNKNOWN: u16 = u16::MAX;
/// The feature bit of a receiver that takes frames (SRD-14).
pub const TAKES_FRAMES: u8 = 0x01;
/// Bit of a range's status byte: not consumed, try again (SRD-6.2).
const RETRY_BIT: u8 = 0x80;

/// Consecutive messages the receiver refused for the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropRange {
    /// The first of them.
    pub psn: Psn,
    /// The number of them, at least 1.
    pub count: u16,
    /// The status that says why.
    pub status: Status,
    /// The messages were not consumed: the sender may try again.
    pub retry: bool,
}

impl DropRange {
    /// Length in bytes on the wire.
    pub const LEN: usize = 8;

    /// The first number after the range.
    #[must_use]
    pub const fn end(&self) -> Psn {
        self.psn.plus(self.count as u32)
    }
}

/// A packet that another path brought before the one that [`AckRepr::ref_psn`] names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EchoRepr {
    /// The path that brought it.
    pub path: PathId,
    /// Ticks of 16 ns from its arrival to this block, or [`RX_DELAY_UNKNOWN`].
    pub rx_delay: u16,
    /// Its `tx_ts`.
    pub echo_ts: u32,
}

impl EchoRepr {
    /// Length in bytes on the wire.
    pub const LEN: usize = 8;

    /// Returns the nanoseconds from its arrival to the block; `None` when the receiver marked it as
    /// no sample.
    #[must_use]
    pub fn rx_delay_ns(&self) -> Option<u64> {
        (self.rx_delay != RX_DELAY_UNKNOWN).then_some(u64::from(self.rx_delay) << 4)
    }
}

/// An acknowledgement to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckRepr {
    /// Token of the direction it acknowledges.
    pub conn: u64,
    /// Every number below is resolved: accepted, or in a drop range of this block.
    pub cum: Psn,
    /// The packet that is echoed.
    pub ref_psn: Psn,
    /// The path that brought it.
    pub ref_path: PathId,
    /// Its `tx_ts`.
    pub echo_ts: u32,
    /// Receiver's clock at its arrival, ticks of 16 ns.
    pub rx_ts: u32,
    /// Ticks of 16 ns from its arrival to this block, or [`RX_DELAY_UNKNOWN`].
    pub rx_delay: u16,
    /// Bytes accepted on this connection so far.
    pub rcvd_bytes: u64,
    /// Log-coded fair rate in bytes per microsecond, 0 for none.
    pub hint: u16,
    /// The features of the receiver (SRD-2.8): [`TAKES_FRAMES`], and bits that have no meaning yet.
    pub features: u8,
    /// Number of the first SACK bit minus `cum`, below [`crate::PSN_WINDOW`].
    pub sack_offset: u16,
    /// SACK bits; the lowest bit of the first word is `cum + sack_offset`.
    pub words: [u64; SACK_WORDS_MAX],
    /// Words in use.
    pub words_len: usize,
    /// Refused messages. The ranges of either kind (`retry`) are in the order of their numbers, and
    /// no number is listed twice.
    pub ranges: [DropRange; RANGES_MAX],
    /// Ranges in use.
    pub ranges_len: usize,
    /// Packets of other paths since the last acknowledgement, as they arrived.
    pub echoes: [EchoRepr; ECHOES_MAX],
    /// Echoes in use; with the ranges at most [`RANGES_MAX`].
    pub echoes_len: usize,
}

/// The fields that every block has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainAck {
    pub(crate) conn: u64,
    pub(crate) cum: Psn,
    pub(crate) ref_psn: Psn,
    pub(crate) echo: EchoRepr,
    pub(crate) rx_ts: u32,
    pub(crate) rcvd_bytes: u64,
    pub(crate) hint: u16,
    pub(crate) features: u8,
}

impl PlainAck {
    /// Writes a block without lists to the start of `out`, which has room; returns its length.
    #[inline]
    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..field::END];
        out[field::CONN..field::CUM].copy_from_slice(&self.conn.to_be_bytes());
        out[field::CUM..field::REF_PSN].copy_from_slice(&self.cum.0.to_be_bytes());
        out[field::REF_PSN..field::ECHO].copy_from_slice(&self.ref_psn.0.to_be_bytes());
        out[field::ECHO..field::RX_TS].copy_from_slice(&self.echo.echo_ts.to_be_bytes());
        out[field::RX_TS..field::RCVD].copy_from_slice(&self.rx_ts.to_be_bytes());
        out[field::RCVD..field::REF_PATH].copy_from_slice(&self.rcvd_bytes.to_be_bytes());
        out[field::REF_PATH..field::RX_DELAY].copy_from_slice(&self.echo.path.0.to_be_bytes());
        out[field::RX_DELAY..field::HINT].copy_from_slice(&self.echo.rx_delay.to_be_bytes());
        out[field::HINT..field::SACK_OFF].copy_from_slice(&self.hint.to_be_bytes());
        out[field::SACK_OFF..field::END].fill(0);
        out[field::FEATURES] = self.features;
        field::END
    }
}

impl AckRepr {
    /// Writes the block to the start of `out`, which has room; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let &Self { conn, cum, ref_psn, rx_ts, rcvd_bytes, hint, features, .. } = self;
        let echo = EchoRepr { path: self.ref_path, rx_delay: self.rx_delay, echo_ts: self.echo_ts };
        PlainAck { conn, cum, ref_psn, echo, rx_ts, rcvd_bytes, hint, features }.emit(out);
        out[field::SACK_OFF..field::WORDS].copy_from_slice(&self.sack_offset.to_be_bytes());
        out[field::WORDS] = self.words_len as u8;
        out[field::RANGES] = self.ranges_len as u8;
        out[field::ECHOES] = self.echoes_len as u8;
        let mut at = field::END;
        for word in &self.words[..self.words_len] {
            out[at..at + 8].copy_from_slice(&word.to_be_bytes());
            at += 8;
        }
        for range in &self.ranges[..self.ranges_len] {
            let retry = if range.retry { RETRY_BIT } else { 0 };
            out[at..at + 4].copy_from_slice(&range.psn.0.to_be_bytes());
            out[at + 4..at + 6].copy_from_slice(&range.count.to_be_bytes());
            out[at + 6] = range.status.code() | retry;
            out[at + 7] = 0;
            at += DropRange::LEN;
        }
        for echo in &self.echoes[..self.echoes_len] {
            out[at..at + 2].copy_from_slice(&echo.path.0.to_be_bytes());
            out[at + 2..at + 4].copy_from_slice(&echo.rx_delay.to_be_bytes());
            out[at + 4..at + 8].copy_from_slice(&echo.echo_ts.to_be_bytes());
            at += EchoRepr::LEN;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DropReason;

    const RANGE: DropRange = DropRange { psn: Psn(41), count: 3, status: Status::Rnr, retry: true };

    const ECHO: EchoRepr = EchoRepr { path: PathId(9), rx_delay: 5, echo_ts: 77 };

    const NEXT: DropRange = DropRange { psn: Psn(44), ..RANGE };

    fn sample() -> AckRepr {
        let mut repr = AckRepr {
            conn: 99,
            cum: Psn(40),
            ref_psn: Psn(50),
            ref_path: PathId(3),
            echo_ts: 1,
            rx_ts: 2,
            rx_delay: 4,
            rcvd_bytes: 1 << 40,
            hint: 6,
            features: 7,
            sack_offset: 64,
            words: [0; SACK_WORDS_MAX],
            words_len: 2,
            ranges: [RANGE; RANGES_MAX],
            ranges_len: 2,
            echoes: [ECHO; ECHOES_MAX],
            echoes_len: 3,
        };
        repr.ranges[1] = NEXT;
        repr.words[1] = 0xF0;
        repr
    }

    #[test]
    fn survives_a_round_trip() {
        let repr = sample();
        let mut out = [0; 320];
        let len = repr.emit(&mut out);
        let view = AckView::parse(&out[..len]).unwrap();
        assert_eq!(view.len(), len);
        assert_eq!((view.conn(), view.cum(), view.ref_psn()), (99, Psn(40), Psn(50)));
        assert_eq!((view.echo_ts(), view.rx_ts(), view.rcvd_bytes()), (1, 2, 1 << 40));
        assert_eq!((view.ref_path(), view.hint(), view.features()), (PathId(3), 6, 7));
        assert_eq!(view.echo(), EchoRepr { path: PathId(3), rx_delay: 4, echo_ts: 1 });
        assert_eq!(view.echo().rx_delay_ns(), Some(64));
        assert_eq!(view.words().collect::<Vec<_>>(), [(Psn(104), 0), (Psn(168), 0xF0)]);
        assert_eq!(view.ranges().collect::<Vec<_>>(), [RANGE, NEXT]);
        assert_eq!(view.echoes().collect::<Vec<_>>(), [ECHO; 3]);
        assert!((0..len).all(|n| AckView::parse(&out[..n]).is_err()));
    }

    #[test]
    fn refuses_impossible_counts() {
        let mut out = [0; 512];
        let len = AckRepr { sack_offset: 8192, ..sample() }.emit(&mut out);
        assert!(matches!(AckView::parse(&out[..len]), Err(DropReason::Malformed)));
        sample().emit(&mut out);
        out[field::WORDS] = 17;
        assert!(matches!(AckView::parse(&out), Err(DropReason::Malformed)));
        sample().emit(&mut out);
        out[field::RANGES] = 10;
        assert!(matches!(AckView::parse(&out), Err(DropReason::Malformed)));
        sample().emit(&mut out);
        out[field::ECHOES] = 4;
        assert!(matches!(AckView::parse(&out), Err(DropReason::Malformed)));
    }

    /// Twelve ranges of 8,192 numbers each would cost 98,304 lookups for one datagram.
    #[test]
    fn refuses_ranges_that_name_a_number_twice() {
        let with = |second: DropRange| {
            let mut repr = sample();
            repr.ranges[1] = second;
            let mut out = [0; 320];
            let len = repr.emit(&mut out);
            AckView::parse(&out[..len]).is_ok()
        };
        assert!(with(NEXT) && with(DropRange { psn: Psn(50), ..RANGE }));
        assert!(with(DropRange { retry: false, ..RANGE }), "the lists are of their own");
        assert!(!with(RANGE) && !with(DropRange { psn: Psn(43), ..RANGE }));
        assert!(!with(DropRange { psn: Psn(30), ..RANGE }));
    }
}
