//! The sending end of a connection.

mod prr;
#[cfg(test)]
mod tests;

use super::congestion::{Acked, Congestion, Flight};
use super::receiver::HOLD_PS;
use super::rtt::Rtt;
use super::scoreboard::{DUP_THRESH, Pick, Scoreboard};
use super::{Algorithm, OVERHEAD_BYTES, Segment, TcpSetup};
use crate::packet::{Body, Packet, Payload};
use crate::socket::Ports;
use crate::time::Time;
use crate::transport::route::Route;
use crate::transport::{Counts, Machine, Message, Notice};
use prr::{Arrived, Prr};
use srd::HEADER_MAX;
use std::collections::VecDeque;

/// An acknowledgement.
struct Ack<'a> {
    next: u32,
    sacks: &'a [(u32, u32)],
    echo: Time,
    marked: bool,
    duplicate: bool,
}

/// The sender's reaction to losses, until all that was sent before is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Open,
    /// Fast recovery (RFC 6675).
    Recovery {
        until: u32,
    },
    /// Slow start after a timeout.
    Loss {
        until: u32,
    },
}

/// A tail loss probe (`TLP`): a segment sent to provoke an acknowledgement, until it is known what
/// it found.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// One past the last segment that had been sent then, the probe included.
    end: u32,
    /// Whether it repeated the last segment.
    repeats: bool,
}

#[derive(Debug)]
pub(crate) struct Sender {
    route: Route,
    burst_packets: u32,
    board: Scoreboard,
    congestion: Congestion,
    /// Bytes in flight that limited transmit sent (RFC 3042): the window had no room for them.
    limited_bytes: u64,
    rtt: Rtt,
    mode: Mode,
    /// Pacing of this recovery, with RFC 9937.
    prr: Option<Prr>,
    wants_prr: bool,
    /// Whether the first segment of a recovery still has to go out, whatever the window says.
    must_repeat: bool,
    /// Whether RFC 8985 is followed.
    rack: bool,
    /// Round-trip time of the segment that was sent last of those that arrived.
    rack_rtt_ps: u64,
    /// Time at which to look for late segments again.
    look_at: Option<Time>,
    /// Time at which to send a probe.
    probe_at: Option<Time>,
    probe: Option<Probe>,
    /// Whether a probe has to go out, whatever the window says.
    must_probe: bool,
    /// Maximum time for which the receiver holds an acknowledgement back.
    hold_ps: u64,
    /// Time at which the oldest segment is given up.
    timer: Option<Time>,
    last_sent_at: Time,
    /// Segments that were acknowledged, for the application.
    ended: VecDeque<Payload>,
    counts: Counts,
}

impl Sender {
    /// Creates a sender; `rtt_ps` is the round-trip time that the handshake measured.
    pub(crate) fn new(route: Route, setup: &TcpSetup, algorithm: Algorithm, rtt_ps: u64) -> Self {
        Self {
            route,
            burst_packets: (setup.burst_bytes / setup.mss_bytes).max(1),
            board: Scoreboard::default(),
            congestion: Congestion::new(algorithm, setup.mss_bytes, setup.initial_window_packets)
                .with_hystart(setup.hystart),
            limited_bytes: 0,
            rtt: Rtt::new(rtt_ps, setup.rto_min_ps),
            mode: Mode::Open,
            prr: None,
            wants_prr: setup.prr,
            must_repeat: false,
            rack: setup.rack,
            rack_rtt_ps: rtt_ps,
            look_at: None,
            probe_at: None,
            probe: None,
            must_probe: false,
            hold_ps: if setup.delayed_ack { HOLD_PS } else { 0 },
            timer: None,
            last_sent_at: Time::ZERO,
            ended: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    fn take_ack(&mut self, now: Time, ack: &Ack<'_>) {
        let marked = ack.marked && self.congestion.reacts_to_marks();
        let pipe_before = self.board.pipe_bytes();
        let missing_before = self.board.missing_bytes();
        let newest_before = self.board.newest_sent_at();
        let ended = &mut self.ended;
        let bytes = self.board.acknowledge(ack.next, ack.echo, |name| ended.push_back(name));
        ack.sacks.iter().for_each(|&(start, end)| self.board.sack(start, end, ack.echo));
        // Acknowledged segments make room for those that went out without any.
        self.limited_bytes = self.limited_bytes.saturating_sub(bytes);
        if bytes > 0 {
            self.rtt.sample(now.ps_since(ack.echo));
            self.rtt.reset_backoff();
            let in_flight = self.board.flight_bytes() > 0;
            self.timer = in_flight.then(|| self.rtt.deadline(now));
        }
        if self.board.newest_sent_at() > newest_before {
            self.rack_rtt_ps = now.ps_since(self.board.newest_sent_at());
        }
        let lost_before = self.board.lost_waiting();
        self.find_lost(now);
        let safe = bytes > 0 && self.board.lost_waiting() <= lost_before;
        self.end_probe(ack.next, ack.duplicate);
        let mode_before = self.mode;
        let flight = Flight { una: self.board.una(), next: self.board.next() };
        self.congestion.note_marks(bytes, marked, flight, mode_before == Mode::Open);
        self.end_recovery();
        if bytes > 0 && !marked && !matches!(mode_before, Mode::Recovery { .. }) {
            let slow_start_limit_packets = if mode_before == Mode::Open { 2 } else { 1 };
            let rtt_ps = self.rtt.smoothed_ps();
            let sample_ps = now.ps_since(ack.echo);
            let acked = Acked {
                now,
                bytes,
                rtt_ps,
                sample_ps,
                flight,
                pipe_before,
                slow_start_limit_packets,
            };
            self.congestion.grow(&acked);
        }
        self.react_to_loss(missing_before);
        let arrived_bytes = missing_before - self.board.missing_bytes();
        self.pace_recovery(Arrived { bytes: arrived_bytes, safe });
        self.plan_probe(now);
    }

    /// Ends a recovery once all that was sent before the loss was noticed is acknowledged.
    fn end_recovery(&mut self) {
        let (Mode::Recovery { until } | Mode::Loss { until }) = self.mode else { return };
        if self.board.una() < until {
            return;
        }
        self.mode = Mode::Open;
        self.must_repeat = false;
        if self.prr.take().is_some() {
            self.congestion.set_window_bytes(self.congestion.threshold_bytes());
        }
    }

    /// Sets the window to what is in the network and what this acknowledgement allows besides.
    fn pace_recovery(&mut self, arrived: Arrived) {
        let Some(prr) = &mut self.prr else { return };
        let (pipe, mss) = (self.board.pipe_bytes(), self.congestion.mss_bytes());
        let more = prr.allowance(arrived, pipe, self.congestion.threshold_bytes(), mss);
        self.congestion.set_window_bytes(pipe + more);
    }

    fn find_lost(&mut self, now: Time) {
        if !self.rack {
            self.board.find_lost();
            return;
        }
        // Only a repaired route reorders, but RFC 8985 waits until it is sure.
        let sure = self.board.sacked() >= DUP_THRESH || self.mode != Mode::Open;
        let slack_ps = if sure { 0 } else { self.rtt.least_ps() / 4 };
        self.look_at = self.board.find_late(now, self.rack_rtt_ps, slack_ps);
    }

    /// Begins a recovery if a loss is known and none is under way. `missing_bytes` were in flight
    /// before what shows the loss came. Returns whether it began.
    fn react_to_loss(&mut self, missing_bytes: u64) -> bool {
        let begins = self.mode == Mode::Open && self.board.has_lost();
        if begins {
            self.mode = Mode::Recovery { until: self.board.next() };
            self.must_repeat = true;
            self.board.begin_recovery();
            self.prr = self.wants_prr.then(|| Prr::new(missing_bytes));
            self.reduce_for_loss();
            self.limited_bytes = 0;
        }
        begins
    }

    /// Shrinks the window by what was in it: limited transmit sent beyond it (RFC 5681, 3.2, step
    /// 2; RFC 6675, 5, step 4.2).
    fn reduce_for_loss(&mut self) {
        let in_window_bytes = self.board.flight_bytes() - self.limited_bytes;
        self.congestion.reduce_for_loss(in_window_bytes, self.board.next());
    }

    /// Decides whether a probe has found something (RFC 8985, 7.4): what it repeated was lost when
    /// later data is acknowledged and it never was a duplicate.
    fn end_probe(&mut self, next: u32, duplicate: bool) {
        let Some(Probe { end, repeats }) = self.probe.filter(|probe| next >= probe.end) else {
            return;
        };
        if !repeats || duplicate || next > end {
            self.probe = None;
        }
        if repeats && !duplicate && next > end && self.mode == Mode::Open {
            self.reduce_for_loss();
        }
    }

    /// Schedules a probe for when no acknowledgement comes for two round trips (RFC 8985, 7.2).
    fn plan_probe(&mut self, now: Time) {
        self.probe_at = None;
        let in_flight = self.board.flight_bytes();
        let waits = self.rack && self.mode == Mode::Open && self.probe.is_none();
        if waits && in_flight > 0 && self.board.sacked() == 0 {
            let alone = in_flight <= self.congestion.mss_bytes();
            let hold_ps = if alone { self.hold_ps } else { 0 };
            let at = now.plus_ps(2 * self.rtt.smoothed_ps() + hold_ps);
            self.probe_at = self.timer.map(|timer| timer.min(at));
        }
    }

    /// Returns whether the window is open for a full segment.
    fn has_room(&self) -> bool {
        self.board.pipe_bytes() + self.congestion.mss_bytes() <= self.congestion.window_bytes()
    }

    fn pick(&mut self, now: Time) -> Option<Pick> {
        if std::mem::take(&mut self.must_probe) {
            return self.pick_probe(now);
        }
        if !(self.must_repeat || self.has_room()) {
            return None;
        }
        match self.mode {
            Mode::Open => self.pick_new(now),
            Mode::Recovery { .. } if !self.rack => self.board.take_in_recovery(now),
            Mode::Recovery { .. } | Mode::Loss { .. } => self.board.take_lost_or_new(now),
        }
    }

    /// Picks a new segment. While later ones than a missing one arrive, it may be more than the
    /// window has room for.
    fn pick_new(&mut self, now: Time) -> Option<Pick> {
        let room_bytes = self.congestion.window_bytes().saturating_sub(self.board.flight_bytes());
        let pick = self.board.take_new(now)?;
        if room_bytes < self.congestion.mss_bytes() {
            self.limited_bytes += u64::from(pick.bytes);
        }
        Some(pick)
    }

    /// Picks a new segment, else the last one again.
    fn pick_probe(&mut self, now: Time) -> Option<Pick> {
        let repeats = !self.board.has_new();
        let pick = if repeats { self.board.take_last(now) } else { self.board.take_new(now) }?;
        self.probe = Some(Probe { end: self.board.next(), repeats });
        self.timer = Some(self.rtt.deadline(now));
        Some(pick)
    }

    fn time_out(&mut self, now: Time) {
        if self.rtt.has_no_backoff() {
            self.congestion.reduce_for_timeout(self.board.flight_bytes(), self.board.next());
        } else {
            self.congestion.restart_from_one();
        }
        self.rtt.timed_out();
        self.board.lose_all();
        self.mode = Mode::Loss { until: self.board.next() };
        self.prr = None;
        self.limited_bytes = 0;
        self.must_repeat = true;
        self.timer = Some(self.rtt.deadline(now));
        (self.probe, self.probe_at, self.look_at) = (None, None, None);
    }
}

impl Machine for Sender {
    fn post(&mut self, _now: Time, message: Message) {
        self.board.push(message.name, message.bytes);
    }

    fn receive(&mut self, now: Time, _packet: &Packet, body: Body<'_>) {
        if let Body::Tcp(Segment::Ack { next, sacks, echo, marked, duplicate }) = body {
            self.take_ack(now, &Ack { next, sacks: sacks.ranges(), echo, marked, duplicate });
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.look_at) {
            self.find_lost(now);
            // Nothing arrived: only the first segment goes out, whatever was lost. What time shows
            // later leaves the window as the last acknowledgement set it (RFC 9937, 6.2).
            if self.react_to_loss(self.board.missing_bytes()) {
                self.pace_recovery(Arrived { bytes: 0, safe: false });
            }
        }
        if is_due(self.timer) {
            self.time_out(now);
        } else if is_due(self.probe_at) {
            self.probe_at = None;
            self.must_probe = true;
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        [self.timer, self.look_at, self.probe_at].into_iter().flatten().min()
    }

    fn has_backlog(&self) -> bool {
        let has_some = self.mode != Mode::Open || self.board.has_new();
        self.must_probe || has_some && (self.must_repeat || self.has_room())
    }

    fn poll_transmit<'a>(
        &mut self,
        now: Time,
        _ports: &Ports,
        _scratch: &'a mut [u8; HEADER_MAX],
    ) -> Option<(Packet, Body<'a>)> {
        let idle = self.board.flight_bytes() == 0;
        if idle && now.ps_since(self.last_sent_at) > self.rtt.rto_ps() {
            self.congestion.restart_after_idle();
        }
        let first_new = self.board.next();
        let Pick { seq, name, bytes } = self.pick(now)?;
        self.must_repeat = false;
        self.last_sent_at = now;
        self.timer = self.timer.or_else(|| Some(self.rtt.deadline(now)));
        if self.mode == Mode::Open && seq >= first_new {
            self.plan_probe(now);
        }
        self.prr.iter_mut().for_each(|prr| prr.sent(bytes));
        self.counts.data_packets += 1;
        self.counts.repeated_packets += u64::from(seq < first_new);
        let packet = self.route.packet(bytes + OVERHEAD_BYTES, Some(name));
        Some((packet, Body::Tcp(Segment::Data { seq, sent_at: now })))
    }

    fn turn_packets(&self) -> u32 {
        self.burst_packets
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.ended.pop_front().map(|message| Notice::Ended { message, code: 0 })
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
