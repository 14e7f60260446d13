//! Messages that end without an acknowledgement.

use super::SendHalf;
use super::ring::{Ring, State};
use crate::context::Context;
use crate::{Event, Status};

impl SendHalf {
    /// Ends everything toward a dead peer.
    pub(super) fn give_up(&mut self, cx: &mut Context<'_>) {
        let status = if self.answered_ever { Status::UnrespRemote } else { Status::UnreachRemote };
        cx.stats.unresponsive_remote_events += 1;
        cx.events.push_back(Event::PeerUnresponsive { peer: cx.peer });
        self.fail_all(status, cx);
        self.start_over(cx.config);
    }

    /// The peer lost its state: what is in flight ends, what is queued starts a new connection.
    pub(crate) fn on_reset(&mut self, cx: &mut Context<'_>) {
        cx.stats.rx_resets += 1;
        cx.events.push_back(Event::PeerReset { peer: cx.peer });
        self.fail_sent(Status::RemoteAbort, cx);
        self.start_over(cx.config);
    }

    /// Nobody is at the peer's address.
    pub(crate) fn on_unreachable(&mut self, cx: &mut Context<'_>) {
        self.fail_all(Status::BadDestQpn, cx);
        self.start_over(cx.config);
    }

    /// The host gave all messages up. The connection goes on.
    pub(crate) fn cancel(&mut self, cx: &mut Context<'_>) {
        self.fail_all(Status::Flushed, cx);
    }

    /// Drops all messages without events; returns how many had not ended.
    pub(crate) fn abandon(&mut self) -> usize {
        let count = self.ring.open();
        self.ring = Ring::new(self.ring.base().plus(self.ring.sent() as u32));
        self.queued_bytes = 0;
        self.settle_flight();
        count
    }

    fn fail_sent(&mut self, status: Status, cx: &mut Context<'_>) {
        while let Some(slot) = self.ring.pop_sent() {
            if slot.state != State::Done {
                cx.complete(slot.msg.id, status);
            }
        }
        self.settle_flight();
    }

    fn fail_all(&mut self, status: Status, cx: &mut Context<'_>) {
        self.fail_sent(status, cx);
        while let Some(id) = self.ring.pop_queued() {
            cx.complete(id, status);
        }
        self.queued_bytes = 0;
    }

    /// Empties the record of what is in flight.
    fn settle_flight(&mut self) {
        assert_eq!(self.ring.sent(), 0, "called when everything sent has ended");
        self.due.clear();
        self.rnr.waiting.clear();
        self.rnr.until = None;
        self.ring.restore_aside();
        self.inflight_bytes = 0;
        self.probes = 0;
        self.recovery.clear();
    }
}
