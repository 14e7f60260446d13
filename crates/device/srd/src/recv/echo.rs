//! The timing information in an acknowledgement (SRD-2.7).

use crate::wire::ack::{ECHOES_MAX, RANGES_MAX, RX_DELAY_UNKNOWN};
use crate::wire::{AckRepr, EchoRepr};
use crate::{Instant, PathId, Psn};

/// Entries older than this are useless as round-trip samples.
const RX_DELAY_MAX_NS: u64 = (RX_DELAY_UNKNOWN as u64) << 4;

/// The timing of one data packet that arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    pub(super) path: PathId,
    pub(super) tx_ts: u32,
    pub(super) at: Instant,
}

impl Echo {
    fn repr(&self, now: Instant) -> EchoRepr {
        let delay_ns = now.ns_since(self.at).min(RX_DELAY_MAX_NS);
        EchoRepr { path: self.path, rx_delay: (delay_ns >> 4) as u16, echo_ts: self.tx_ts }
    }
}

/// The latest packet, and the last one of each earlier run of packets on one path since the last
/// acknowledgement, at most [`ECHOES_MAX`]. The sender stops using a path that is never echoed
/// (SRD-8.1).
#[derive(Debug, Default)]
pub(super) struct Echoes {
    last: Echo,
    last_psn: Psn,
    earlier: [Echo; ECHOES_MAX],
    earlier_len: u8,
    /// `last` has not been echoed yet.
    is_unsent: bool,
}

impl Echoes {
    /// Returns the path of the latest packet.
    pub(super) fn path(&self) -> PathId {
        self.last.path
    }

    /// Returns when the latest packet arrived, [`Instant::ZERO`] before the first.
    pub(super) fn last_at(&self) -> Instant {
        self.last.at
    }

    /// Records a packet.
    #[inline]
    pub(super) fn note(&mut self, psn: Psn, echo: Echo) {
        if self.is_unsent && self.last.path != echo.path {
            let len = usize::from(self.earlier_len);
            if len < ECHOES_MAX {
                self.earlier[len] = self.last;
                self.earlier_len += 1;
            } else {
                self.earlier.rotate_left(1);
                self.earlier[ECHOES_MAX - 1] = self.last;
            }
        }
        self.last = echo;
        self.last_psn = psn;
        self.is_unsent = true;
    }

    /// Returns the latest packet's part of an acknowledgement: its number, its echo and its arrival
    /// time.
    #[inline]
    pub(super) fn last(&self, now: Instant) -> (Psn, EchoRepr, u32) {
        (self.last_psn, self.last.repr(now), self.last.at.as_ticks())
    }

    /// Returns whether all packets since the last acknowledgement came over one path.
    #[inline]
    pub(super) fn has_last_only(&self) -> bool {
        self.earlier_len == 0
    }

    /// Marks the latest packet as echoed.
    #[inline]
    pub(super) fn mark_echoed(&mut self) {
        self.earlier_len = 0;
        self.is_unsent = false;
    }

    /// Moves the earlier echoes to an acknowledgement, as many as its ranges leave room for.
    pub(super) fn take_earlier(&mut self, ack: &mut AckRepr, now: Instant) {
        let len = usize::from(self.earlier_len).min(RANGES_MAX - ack.ranges_len);
        for (repr, echo) in ack.echoes.iter_mut().zip(&self.earlier[..len]) {
            *repr = echo.repr(now);
        }
        ack.echoes_len = len;
        self.mark_echoed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recv::{AckExtras, RecvHalf};

    fn packet(path: u16, at_ns: u64) -> Echo {
        Echo { path: PathId(path), tx_ts: u32::from(path) * 10, at: Instant::from_ns(at_ns) }
    }

    fn taken(echoes: &mut Echoes, at_ns: u64, ranges_len: usize) -> Vec<(u16, u16)> {
        let now = Instant::from_ns(at_ns);
        let mut ack =
            AckRepr { ranges_len, ..RecvHalf::new().blank_ack(now, AckExtras::default()) };
        let (_, last, _) = echoes.last(now);
        echoes.take_earlier(&mut ack, now);
        let all = ack.echoes[..ack.echoes_len].iter().chain([&last]);
        all.map(|e| (e.path.0, e.rx_delay)).collect()
    }

    #[test]
    fn names_the_last_packet_of_each_run_on_a_path() {
        let mut echoes = Echoes::default();
        for (path, at_ns) in [(1, 0), (1, 160), (2, 320), (3, 480), (3, 640)] {
            echoes.note(Psn(0), packet(path, at_ns));
        }
        assert_eq!(taken(&mut echoes, 800, 0), [(1, 40), (2, 30), (3, 10)]);
        // An echo is sent only once.
        echoes.note(Psn(0), packet(4, 1600));
        assert_eq!(taken(&mut echoes, 1600, 0), [(4, 0)]);
        // The oldest echoes give way to later ones, and to refusals.
        (5..=9).for_each(|path| echoes.note(Psn(0), packet(path, 1600)));
        assert_eq!(taken(&mut echoes, 1600, 0), [(6, 0), (7, 0), (8, 0), (9, 0)]);
        (5..=9).for_each(|path| echoes.note(Psn(0), packet(path, 1600)));
        assert_eq!(taken(&mut echoes, 1600, RANGES_MAX), [(9, 0)]);
    }
}
