//! A connection before its first acknowledgement, and the other answers that its receiver may send.

use super::answer::{AnswerSignals, Settled};
use super::ring::State;
use super::{SendHalf, cost};
use crate::context::Context;
use crate::loss::LossShare;
use crate::path::PathTable;
use crate::wire::DropRange;
use crate::{Config, congestion};

/// After this many challenges on one connection, its packets are not repeated at once (SRD-3.10).
const CHALLENGES_MAX: u8 = 4;

impl SendHalf {
    /// Opens a connection with a new token (SRD-3.1).
    pub(super) fn open(&mut self, cx: &mut Context<'_>) {
        self.conn = cx.secret.token(cx.rng);
        self.established = false;
        self.challenges = 0;
        assert_eq!(self.ring.sent(), 0, "a connection starts with nothing in flight");
    }

    /// Marks the connection as established: from now on the token proves that we opened it.
    #[inline]
    pub(super) fn establish(&mut self) {
        self.established = true;
        self.answered_ever = true;
        self.cookie = self.conn;
    }

    /// Ends the connection.
    pub(super) fn disconnect(&mut self) {
        if !self.established {
            // The receiver may not know this connection.
            self.cookie = 0;
        }
        self.conn = 0;
        (self.established, self.takes_frames) = (false, false);
        (self.fits_frames, self.has_carried_frame) = (true, false);
    }

    /// Ends the connection and forgets what was learnt about losses, paths and the window: the next
    /// peer at that address may be another one. Nothing is in flight.
    pub(super) fn start_over(&mut self, config: &Config) {
        self.disconnect();
        self.paths = PathTable::default();
        self.burst.packets_left = 0;
        self.recovery.loss_share = LossShare::default();
        self.cc = congestion::controller(config);
        self.window_bytes = self.cc.window_bytes();
    }

    /// Handles a challenge: the receiver wants proof that the opening comes from this address
    /// (SRD-3.10). False when that was answered already.
    pub(crate) fn on_challenge(&mut self, cookie: u64, cx: &mut Context<'_>) -> bool {
        if self.established || cookie == 0 || cookie == self.cookie {
            return false;
        }
        self.cookie = cookie;
        if self.challenges < CHALLENGES_MAX {
            self.challenges += 1;
            self.repeat_flight(cx.config);
        }
        cx.stats.rx_challenges += 1;
        true
    }

    /// Makes everything in flight due again. Nothing was lost, so neither paths nor the window are
    /// penalised.
    fn repeat_flight(&mut self, config: &Config) {
        let base = self.ring.base();
        for i in 0..self.ring.sent() as u32 {
            let psn = base.plus(i);
            let Some(slot) = self.ring.sent_slot(psn) else { continue };
            if slot.state == State::InFlight {
                slot.state = State::Due;
                self.inflight_bytes -= cost(slot.msg.len, config);
                self.due.push_back(psn);
            }
        }
    }

    /// Ends messages that were refused before the connection was opened (SRD-3.9); nothing is
    /// acknowledged. False when there are none.
    pub(crate) fn on_refused(&mut self, range: &DropRange, cx: &mut Context<'_>) -> bool {
        if self.established {
            // The connection has been opened since, and is answered by acknowledgements.
            return false;
        }
        let app_limited = self.is_app_limited();
        let delay_ns = self.measure_refused(range, cx);
        let mut settled = Settled::default();
        self.for_sent(range, |this, psn| this.settle(psn, range.status, &mut settled, cx));
        self.ring.pop_done();
        if settled.packets == 0 {
            return false;
        }
        // A peer that refuses is not silent (SRD-7.5), and the network has carried what is refused.
        self.recovery.note_answer(cx.now);
        let signals = AnswerSignals { delay_ns, app_limited, rcvd_bytes: None, hint: 0 };
        self.update_window(&settled, signals, cx);
        cx.stats.rx_refused += 1;
        true
    }
}
