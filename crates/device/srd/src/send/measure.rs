//! Round-trip samples from acknowledgements and refusals.

use super::SendHalf;
use super::ring::State;
use crate::context::Context;
use crate::wire::{AckView, DropRange, EchoRepr};
use crate::{PathId, Psn};

/// Anything longer is not taken for a round-trip time.
const RTT_MAX_NS: u64 = 10_000_000_000;

impl SendHalf {
    /// Takes the samples of an acknowledgement. Returns the queueing delay of the connection, or
    /// `None` when there was no new sample.
    pub(super) fn measure(&mut self, ack: &AckView<'_>, cx: &mut Context<'_>) -> Option<u64> {
        let last = ack.echo();
        let key = (ack.ref_psn(), last.echo_ts);
        if self.recovery.last_echo.replace(key) == Some(key) {
            return None;
        }
        let mut delay_ns = None;
        if !ack.is_plain() {
            for echo in ack.echoes() {
                delay_ns = self.sample(&echo, None, cx).or(delay_ns);
            }
        }
        self.sample(&last, Some(ack.ref_psn()), cx).or(delay_ns)
    }

    /// Takes the sample of an echo, which names its packet if it is the last echo of its block.
    fn sample(&mut self, echo: &EchoRepr, psn: Option<Psn>, cx: &mut Context<'_>) -> Option<u64> {
        let sent_at = cx.now.expand_ticks(echo.echo_ts);
        self.recovery.note_arrival(sent_at, psn);
        let rtt_ns = cx.now.ns_since(sent_at).saturating_sub(echo.rx_delay_ns()?).max(1);
        self.take_rtt(rtt_ns, echo.path, cx)
    }

    /// Takes the sample of a refusal, which echoes no time: the latest transmission that it may
    /// answer. A packet that was sent again is not measured, because either transmission may have
    /// been refused.
    pub(super) fn measure_refused(
        &mut self,
        range: &DropRange,
        cx: &mut Context<'_>,
    ) -> Option<u64> {
        let mut latest = None;
        self.for_sent(range, |this, psn| {
            let Some(slot) = this.ring.sent_slot(psn) else { return };
            if slot.state == State::InFlight {
                this.recovery.note_arrival(slot.tx, Some(psn));
                latest = (slot.transmissions == 1).then_some((slot.tx, slot.path)).or(latest);
            }
        });
        let (sent_at, path) = latest?;
        self.take_rtt(cx.now.ns_since(sent_at).max(1), path, cx)
    }

    fn take_rtt(&mut self, rtt_ns: u64, path: PathId, cx: &mut Context<'_>) -> Option<u64> {
        if rtt_ns > RTT_MAX_NS {
            return None;
        }
        self.rtt.sample(cx.now, rtt_ns);
        let base_ns = self.rtt.base_ns();
        let scale_ns = base_ns.max(cx.config.target_floor_ns);
        Some(self.paths.sample(cx.now, path, rtt_ns, base_ns, scale_ns, cx.rng))
    }
}
