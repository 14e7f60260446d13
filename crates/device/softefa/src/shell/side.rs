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

/// A transport. The required methods come first; the others follow from them and are compiled for
/// each transport, so that only the call from outside is indirect.
pub(crate) trait Side: Send {
    fn shell(&self) -> &Shell;

    fn shell_mut(&mut self) -> &mut Shell;

    /// Notes that the program has changed attributes, and the state from `from` to `to`; both are
    /// in the shell. The states error and reset have calls of their own.
    fn changed(&mut self, _now: Instant, _from: QpState, _to: QpState) {}

    /// Accepts only messages with this queue key from now on.
    fn set_qkey(&mut self, qkey: u32);

    /// Returns true if it has READs and WRITEs.
    fn has_rdma(&self) -> bool;

    /// Starts the work request in slot `index` of the send queue.
    fn start(&mut self, now: Instant, index: u32);

    /// Returns true if nothing is in flight whose completion would bring a poll. `unpolled` sends
    /// were posted before and not polled; `op` is the last one posted.
    fn is_idle(&self, unpolled: u32, op: SendOp) -> bool;

    /// Returns true if a peer owes answers.
    fn awaits_answers(&self) -> bool {
        false
    }

    /// Returns true if something waits for acknowledgements: posts that have not left, or a program
    /// that drains its queue.
    fn has_waiting(&self) -> bool {
        false
    }

    /// Marks what is received next as possibly old, so that round trips are not measured by it.
    fn distrust_times(&mut self) {}

    /// Returns true if this turn should not receive more.
    fn has_enough(&self) -> bool;

    /// Returns true if one read of the wire is not expected to bring everything.
    fn is_streaming(&self) -> bool;

    /// Returns the length up to which a datagram through memory only precedes more important ones.
    fn preface_bytes(&self) -> usize {
        0
    }

    /// Runs before a turn of the program receives.
    fn begin_turn(&mut self, now: Instant);

    /// Makes all waiting acknowledgements due.
    fn flush_acks(&mut self, now: Instant);

    /// Handles an intact datagram from `from`.
    fn take(&mut self, now: Instant, from: IpAddr, datagram: &Datagram<'_>);

    /// Handles an intact datagram from `from` to a multicast group.
    fn take_in_group(&mut self, _from: IpAddr, _group: IpAddr, _datagram: &Datagram<'_>) {}

    /// Handles a notice from `from`, which may be forged. Datagrams that nobody waits for are lost
    /// either way.
    fn take_notice(&mut self, _now: Instant, _from: IpAddr, _notice: &Notice) {}

    /// Returns true if a peer has changed memory of this side since the last call, without a
    /// completion that the program polls for.
    fn take_written(&mut self) -> bool {
        false
    }

    /// Notes whether a turn of the program received something.
    fn note_turn(&mut self, has_received: bool);

    /// Runs after receiving: timers, and the consequences of answers.
    fn advance(&mut self, now: Instant);

    /// Sends what may be sent now.
    fn send_out(&mut self, now: Instant);

    /// Returns true if the send queue was stopped and work requests before that have not ended.
    fn is_draining(&self) -> bool {
        false
    }

    /// Returns when [`Side::advance`] is needed even if nothing arrives.
    fn next_due(&self) -> Option<Instant>;

    /// Ends everything that is in flight to or from peers, without completions.
    fn cancel(&mut self, now: Instant);

    /// Does the same as [`Side::cancel`], without the engine, which may be broken.
    fn abandon(&mut self);

    /// Flushes what is in flight to `addr`.
    fn cancel_toward(&mut self, now: Instant, addr: IpAddr);

    /// Stops everything but acknowledgements of accepted messages.
    fn begin_close(&mut self, now: Instant);

    /// Repeats the last acknowledgements.
    fn final_acks(&mut self, now: Instant);

    /// Returns when the latest message was accepted, whose acknowledgement may have to be repeated;
    /// `None` if there was none.
    fn last_accepted(&self) -> Option<Instant>;

    /// Retires region `key`: its bytes are not copied any more, and copies into it stop.
    fn retire(&mut self, key: u32);

    /// Adds what the engine has counted since last time to the device's counters.
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

    /// Posts a send whose shape was checked; returns false if the queue is full.
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

    /// Returns true if posts are to leave at once: nothing else will bring a poll soon, or they
    /// fill a burst.
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

    /// Does the work of a turn after receiving.
    fn work(&mut self, now: Instant) {
        self.shell_mut().release(now);
        self.advance(now);
        self.transmit(now);
    }

    /// Returns when a turn is needed even if nothing arrives.
    fn next_timeout(&self) -> Option<Instant> {
        let release = self.shell().wire.next_release();
        [self.next_due(), release].into_iter().flatten().min()
    }

    /// Returns the same as [`Side::next_timeout`], but at once while posts wait to be transmitted.
    fn next_turn(&self) -> Option<Instant> {
        if self.shell().unsent_messages > 0 { Some(Instant::ZERO) } else { self.next_timeout() }
    }

    /// Enters the error state: all posted work requests are flushed.
    fn flush(&mut self, now: Instant) {
        self.cancel(now);
        self.shell_mut().end_all(Status::Flushed);
    }

    /// Ends all posted work requests after a panic in a turn, without the engine, whose state may
    /// be the reason.
    fn fail(&mut self) {
        self.shell_mut().attrs.state = QpState::Error;
        // The program may use its memory once it hears of the end.
        self.abandon();
        self.shell_mut().end_all(Status::LocalQpInternalError);
    }

    /// Enters the reset state: all posted work requests are forgotten.
    fn reset(&mut self, now: Instant) {
        self.cancel(now);
        self.shell_mut().forget_all();
    }

    /// Handles the destruction of the queue pair: only acknowledgements go on.
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
