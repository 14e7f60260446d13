//! The contract between a queue pair and its transport.

use std::net::IpAddr;

use srd::Instant;

use super::receive::receive;
use super::send::is_burst;
use super::{Carried, Shell};
use crate::counters::{Counter, Gauge};
use crate::datagram::Datagram;
use crate::progress::held;
use crate::qp_state::QpState;
use crate::request::{SendOp, SendWr};
use crate::seal::Notice;
use crate::sq::Ended;
use crate::status::Status;

/// When a turn of the service thread acknowledges what it has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckTiming {
    /// In the same turn.
    AtOnce,
    /// Later, if the turn completes a receive: the completion wakes a program, whose answer may
    /// carry the acknowledgement.
    WithAnswer,
}

/// A transport. What it must say comes first; what follows from that is the same for all of them
/// and is compiled for each, so that only the call from outside is indirect.
pub(crate) trait Side: Send {
    fn shell(&self) -> &Shell;

    fn shell_mut(&mut self) -> &mut Shell;

    /// The program has changed attributes, and the state from `from` to `to`; they are in the
    /// shell. Neither error nor reset: these have calls of their own.
    fn changed(&mut self, _now: Instant, _from: QpState, _to: QpState) {}

    /// From now on only messages with this queue key are taken.
    fn set_qkey(&mut self, qkey: u32);

    /// It has READs and WRITEs.
    fn has_rdma(&self) -> bool;

    /// Takes in the work request in slot `index` of the send queue.
    fn start(&mut self, now: Instant, index: u32);

    /// Nothing is on its way whose completion would bring a poll. `unpolled` sends were posted
    /// before and their completions not polled; `op` is the last one posted.
    fn is_idle(&self, unpolled: u32, op: SendOp) -> bool;

    /// A peer owes answers to what was sent.
    fn awaits_answers(&self) -> bool {
        false
    }

    /// Something waits for acknowledgements: what was posted and has not left, or the program that
    /// drains its queue.
    fn has_waiting(&self) -> bool {
        false
    }

    /// What is received next may have come long ago: how long it took says nothing of the way.
    fn distrust_times(&mut self) {}

    /// Nothing more should be received in this turn.
    fn has_enough(&self) -> bool;

    /// More is expected than what one look at the wire brings.
    fn is_streaming(&self) -> bool;

    /// A datagram through memory that is no longer comes in front of what matters.
    fn preface_bytes(&self) -> usize {
        0
    }

    /// Before anything is received in a turn of the program.
    fn begin_turn(&mut self, now: Instant);

    /// Acknowledgements must not wait any longer.
    fn flush_acks(&mut self, now: Instant);

    /// Takes an intact datagram that came from `from`.
    fn take(&mut self, now: Instant, from: IpAddr, datagram: &Datagram<'_>);

    /// Takes an intact datagram that came from `from` to a multicast group.
    fn take_in_group(&mut self, _from: IpAddr, _group: IpAddr, _datagram: &Datagram<'_>) {}

    /// Takes a notice that came from `from`; what it says may be false. Datagrams that nobody waits
    /// for are lost either way.
    fn take_notice(&mut self, _now: Instant, _from: IpAddr, _notice: &Notice) {}

    /// Whether a peer has changed memory of this side since the last call, which its program need
    /// not poll for.
    fn take_written(&mut self) -> bool {
        false
    }

    /// Something was received in this turn of the program, or nothing.
    fn note_turn(&mut self, has_received: bool);

    /// After receiving: timers, and what they and the peers' answers lead to.
    fn advance(&mut self, now: Instant);

    /// Sends what may be sent now.
    fn send_out(&mut self, now: Instant);

    /// The send queue was stopped, and what was begun before has not ended yet.
    fn is_draining(&self) -> bool {
        false
    }

    /// When [`Side::advance`] is needed even if nothing arrives.
    fn next_due(&self) -> Option<Instant>;

    /// Ends whatever is on its way to or from peers, without completions.
    fn cancel(&mut self, now: Instant);

    /// As [`Side::cancel`], without asking an engine that may be broken.
    fn abandon(&mut self);

    /// Completes as flushed what is on its way to `addr`.
    fn cancel_toward(&mut self, now: Instant, addr: IpAddr);

    /// From now on only what was accepted is acknowledged.
    fn begin_close(&mut self, now: Instant);

    /// Repeats the last acknowledgements.
    fn final_acks(&mut self, now: Instant);

    /// When the latest message was accepted, whose acknowledgement may have to be repeated; `None`
    /// when there was none.
    fn last_accepted(&self) -> Option<Instant>;

    /// Region `key` is gone: nobody may copy its bytes, and no copy into it goes on.
    fn retire(&mut self, key: u32);

    /// Moves what the engine counted since last time to the device's counters.
    fn sync_counters(&mut self);

    /// Returns the figures of this queue pair that the counters file shows.
    fn gauge(&self) -> Gauge {
        let Carried { sent_bytes, received_bytes } = self.shell().carried;
        Gauge { sent_bytes, received_bytes, ..Gauge::default() }
    }

    /// Writes the gauges to the counters file, unless they were written a moment ago.
    #[inline]
    fn publish_gauge(&mut self, now: Instant) {
        if self.shell().slot.is_due(now) {
            let gauge = self.gauge();
            self.shell_mut().slot.set(now, &gauge);
        }
    }

    /// Takes a send whose shape was checked; `false` when the queue is full.
    fn post_send(&mut self, wr: &SendWr<'_>, signaled: bool) -> bool {
        let has_rdma = self.has_rdma();
        let shell = self.shell_mut();
        // Nothing in taking a message depends on the time since the last turn.
        let (now, len) = (shell.last_turn, wr.data.len_bytes());
        if let Some(status) = shell.check_send(wr, len, has_rdma) {
            if shell.is_traced() {
                shell.trace_post(len, wr, signaled);
            }
            let (wr_id, op) = (wr.wr_id, wr.op);
            let ended = Ended { wr_id, op, len, signaled, fault: None, is_gone: false };
            shell.complete_send(ended, status);
            return true;
        }
        let Some(index) = shell.insert(wr, signaled, len) else { return false };
        if shell.is_traced() {
            shell.trace_post(len, wr, signaled);
        }
        self.start(now, index);
        true
    }

    /// What was posted is to leave at once: nothing else will bring a poll soon, or it fills a
    /// burst.
    fn should_transmit(&self, unpolled: u32, op: SendOp) -> bool {
        let shell = self.shell();
        !shell.may_wait() || is_burst(shell) || self.is_idle(unpolled, op)
    }

    /// Sends what may be sent now.
    fn transmit(&mut self, now: Instant) {
        self.shell_mut().begin_transmitting();
        self.send_out(now);
    }

    /// Takes one turn while the program polls.
    fn turn(&mut self, now: Instant) {
        self.shell_mut().begin_turn(now, true);
        self.begin_turn(now);
        let has_received = receive(self, now);
        self.note_turn(has_received);
        self.work(now);
        if has_received {
            held::note();
            self.sync_counters();
            self.publish_gauge(now);
        }
    }

    /// Takes one turn while the program does not poll.
    fn service_turn(&mut self, now: Instant, acks: AckTiming) {
        self.shell_mut().begin_turn(now, false);
        receive(self, now);
        if acks == AckTiming::AtOnce || self.shell().recvs_done.is_empty() {
            self.flush_acks(now);
        }
        self.work(now);
        self.sync_counters();
        self.publish_gauge(now);
        self.shell().device.counters.add(Counter::ServiceTurns, 1);
    }

    /// What a turn does after it has received.
    fn work(&mut self, now: Instant) {
        self.shell_mut().release(now);
        self.advance(now);
        self.transmit(now);
    }

    /// When a turn is needed even if nothing arrives.
    fn next_timeout(&self) -> Option<Instant> {
        let release = self.shell().wire.next_release();
        [self.next_due(), release].into_iter().flatten().min()
    }

    /// As [`Side::next_timeout`], but at once while posts wait to be transmitted.
    fn next_turn(&self) -> Option<Instant> {
        if self.shell().unsent_messages > 0 { Some(Instant::ZERO) } else { self.next_timeout() }
    }

    /// Error state: everything posted completes as flushed.
    fn flush(&mut self, now: Instant) {
        self.cancel(now);
        self.shell_mut().end_all(Status::Flushed);
    }

    /// The adapter broke in a turn: everything posted ends without asking the engine, whose state
    /// may be the reason.
    fn fail(&mut self) {
        self.shell_mut().attrs.state = QpState::Error;
        // The program may use its memory once it hears of the end.
        self.abandon();
        self.shell_mut().end_all(Status::LocalQpInternalError);
    }

    /// Reset state: everything posted is forgotten.
    fn reset(&mut self, now: Instant) {
        self.cancel(now);
        self.shell_mut().forget_all();
    }

    /// The queue pair is destroyed: only acknowledgements go on.
    fn close(&mut self, now: Instant) {
        let from = self.shell().attrs.state;
        self.shell_mut().trace_state(from, None);
        // What is left is for those who ask whether this is still here: the kernel takes it to
        // them.
        self.shell_mut().leave_rings();
        self.begin_close(now);
        self.reset(now);
        self.final_acks(now);
        let shell = self.shell_mut();
        shell.count_sends();
        shell.attrs.state = QpState::Error;
    }
}
