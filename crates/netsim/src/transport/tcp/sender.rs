//! The sending end of a connection.

use super::congestion::{Acked, Congestion};
use super::rtt::Rtt;
use super::scoreboard::{Pick, Scoreboard};
use super::{Algorithm, OVERHEAD_BYTES, Segment, TcpSetup};
use crate::packet::{Body, Packet, Payload};
use crate::socket::Ports;
use crate::time::Time;
use crate::transport::route::Route;
use crate::transport::{Counts, Machine, Message, Notice};
use srd::HEADER_MAX;
use std::collections::VecDeque;

/// What the sender is doing about losses, until all that was sent before is acknowledged.
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

#[derive(Debug)]
pub(crate) struct Sender {
    route: Route,
    burst_packets: u32,
    board: Scoreboard,
    congestion: Congestion,
    rtt: Rtt,
    mode: Mode,
    /// The first segment of a recovery goes out whatever the window says.
    must_repeat: bool,
    /// When the oldest segment is given up.
    timer: Option<Time>,
    last_sent_at: Time,
    /// Acknowledged, for the application.
    ended: VecDeque<Payload>,
    counts: Counts,
}

impl Sender {
    /// `rtt_ps` is the round-trip time that the handshake measured.
    pub(crate) fn new(route: Route, setup: &TcpSetup, algorithm: Algorithm, rtt_ps: u64) -> Self {
        Self {
            route,
            burst_packets: (setup.burst_bytes / setup.mss_bytes).max(1),
            board: Scoreboard::default(),
            congestion: Congestion::new(algorithm, setup.mss_bytes, setup.initial_window_packets),
            rtt: Rtt::new(rtt_ps, setup.rto_min_ps),
            mode: Mode::Open,
            must_repeat: false,
            timer: None,
            last_sent_at: Time::ZERO,
            ended: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    fn take_ack(&mut self, now: Time, next: u32, sacks: &[(u32, u32)], echo: Time, marked: bool) {
        let marked = marked && self.congestion.heeds_marks();
        let pipe_before = self.board.pipe_bytes();
        let ended = &mut self.ended;
        let bytes = self.board.acknowledge(next, |name| ended.push_back(name));
        sacks.iter().for_each(|&(start, end)| self.board.sack(start, end));
        self.board.find_lost();
        if bytes > 0 {
            self.rtt.sample(now.ps_since(echo));
            self.rtt.heard();
            let in_flight = self.board.flight_bytes() > 0;
            self.timer = in_flight.then(|| self.rtt.deadline(now));
        }
        self.congestion.note_marks(bytes, marked, self.board.una(), self.board.next());
        let mode_before = self.mode;
        if let Mode::Recovery { until } | Mode::Loss { until } = self.mode
            && self.board.una() >= until
        {
            self.mode = Mode::Open;
            self.must_repeat = false;
        }
        if bytes > 0 && !marked && !matches!(mode_before, Mode::Recovery { .. }) {
            let slow_start_limit_packets = if mode_before == Mode::Open { 2 } else { 1 };
            let rtt_ps = self.rtt.smoothed_ps();
            let acked = Acked { now, bytes, rtt_ps, pipe_before, slow_start_limit_packets };
            self.congestion.grow(&acked);
        }
        if self.mode == Mode::Open && self.board.has_lost() {
            self.mode = Mode::Recovery { until: self.board.next() };
            self.must_repeat = true;
            self.board.begin_recovery();
            self.congestion.reduce_for_loss(self.board.flight_bytes());
        }
    }

    /// The window is open for a full segment.
    fn has_room(&self) -> bool {
        self.board.pipe_bytes() + self.congestion.mss_bytes() <= self.congestion.window_bytes()
    }

    fn pick(&mut self) -> Option<Pick> {
        if !(self.must_repeat || self.has_room()) {
            return None;
        }
        match self.mode {
            Mode::Open => self.board.take_new(),
            Mode::Recovery { .. } => self.board.take_in_recovery(),
            Mode::Loss { .. } => self.board.take_lost_or_new(),
        }
    }
}

impl Machine for Sender {
    fn post(&mut self, _now: Time, message: Message) {
        self.board.push(message.name, message.bytes);
    }

    fn receive(&mut self, now: Time, _packet: &Packet, body: Body<'_>) {
        if let Body::Tcp(Segment::Ack { next, sacks, echo, marked }) = body {
            self.take_ack(now, next, sacks.ranges(), echo, marked);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        if self.rtt.is_calm() {
            self.congestion.reduce_for_timeout(self.board.flight_bytes());
        } else {
            self.congestion.restart_from_one();
        }
        self.rtt.timed_out();
        self.board.lose_all();
        self.mode = Mode::Loss { until: self.board.next() };
        self.must_repeat = true;
        self.timer = Some(self.rtt.deadline(now));
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timer
    }

    fn has_backlog(&self) -> bool {
        let has_some = self.mode != Mode::Open || self.board.has_new();
        has_some && (self.must_repeat || self.has_room())
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
        let Pick { seq, name, bytes } = self.pick()?;
        self.must_repeat = false;
        self.last_sent_at = now;
        self.timer = self.timer.or_else(|| Some(self.rtt.deadline(now)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tcp::{Sacks, routes};

    const MSS: u32 = 1000;
    const MS: u64 = 1_000_000_000;

    /// A sender with `segments` to send, and its clock.
    struct Bench {
        sender: Sender,
        ports: Ports,
        now: Time,
    }

    fn bench(algorithm: Algorithm, segments: u32) -> Bench {
        let setup = TcpSetup {
            algorithm,
            mss_bytes: MSS,
            initial_window_packets: 10,
            rto_min_ps: 50 * MS,
            delayed_ack: false,
            send_buffer_bytes: 1 << 30,
            burst_bytes: 1,
        };
        let ports = Ports::new(2, 0);
        let (route, _) = routes(&ports, (0, 1), (0, 1), 0);
        let mut sender = Sender::new(route, &setup, algorithm, 10_000_000);
        for message in 0..segments {
            let name = Payload { flow: 0, message };
            sender.post(Time::ZERO, Message { name, bytes: MSS, dst_host: 1, dst_process: 0 });
        }
        Bench { sender, ports, now: Time::from_us(100) }
    }

    impl Bench {
        /// Sends what the window allows.
        fn send(&mut self) -> Vec<u32> {
            let mut scratch = [0; HEADER_MAX];
            let mut sent = Vec::new();
            while let Some((_, body)) =
                self.sender.poll_transmit(self.now, &self.ports, &mut scratch)
            {
                let Body::Tcp(Segment::Data { seq, .. }) = body else { panic!("data") };
                sent.push(seq);
            }
            sent
        }

        fn ack(&mut self, next: u32, sacks: &[(u32, u32)]) {
            self.mark_ack(next, sacks, false);
        }

        fn mark_ack(&mut self, next: u32, sacks: &[(u32, u32)], marked: bool) {
            self.now = self.now.plus_ps(1_000_000);
            let echo = Time::from_ps(self.now.as_ps() - 10_000_000);
            let sacks = Sacks::of(sacks);
            let packet = self.sender.route.packet(70, None);
            let ack = Body::Tcp(Segment::Ack { next, sacks, echo, marked });
            self.sender.receive(self.now, &packet, ack);
        }

        /// Lets the time of the next timer come.
        fn time_out(&mut self) -> u64 {
            let at = self.sender.poll_timeout().unwrap();
            let waited_ps = at.ps_since(self.now);
            self.now = at;
            self.sender.handle_timeout(at);
            waited_ps
        }

        fn window(&self) -> u64 {
            self.sender.congestion.window_bytes()
        }
    }

    #[test]
    fn each_acknowledgement_in_slow_start_sends_two() {
        let mut bench = bench(Algorithm::Cubic, 100);
        assert_eq!(bench.send(), (0..10).collect::<Vec<_>>());
        bench.ack(1, &[]);
        assert_eq!(bench.send(), [10, 11]);
        bench.ack(2, &[]);
        assert_eq!(bench.send(), [12, 13]);
        let ended: Vec<_> = std::iter::from_fn(|| bench.sender.poll_notice()).collect();
        let message = Payload { flow: 0, message: 1 };
        assert_eq!(ended.len(), 2);
        assert_eq!(ended[1], Notice::Ended { message, code: 0 });
    }

    #[test]
    fn three_segments_above_a_hole_start_fast_recovery_once() {
        let mut bench = bench(Algorithm::NewReno, 100);
        bench.send();
        bench.ack(0, &[(1, 2)]);
        assert_eq!(bench.send(), [10], "limited transmit (RFC 3042)");
        bench.ack(0, &[(1, 3)]);
        assert_eq!(bench.send(), [11]);
        bench.ack(0, &[(1, 4)]);
        assert_eq!(bench.window(), 6000, "half of the 12 in flight");
        assert_eq!(bench.send(), [0], "at once, though 8 are in the network");
        bench.ack(0, &[(1, 8)]);
        assert_eq!(bench.send(), [12], "12 - 7 + the repetition, in a window of 6");
        bench.ack(12, &[]);
        assert_eq!((bench.sender.mode, bench.window()), (Mode::Open, 6000));
        assert_eq!(bench.sender.counts().repeated_packets, 1);
    }

    #[test]
    fn silence_leaves_one_segment_and_doubles_the_timeout() {
        let mut bench = bench(Algorithm::NewReno, 100);
        bench.send();
        assert_eq!(bench.time_out(), 50 * MS);
        assert_eq!((bench.window(), bench.send()), (1000, vec![0]));
        assert_eq!(bench.time_out(), 100 * MS);
        assert_eq!(bench.send(), [0]);
        assert_eq!(bench.time_out(), 200 * MS);
        bench.send();
        bench.ack(1, &[]);
        assert_eq!(bench.send(), [1, 2], "slow start repeats the rest");
        bench.ack(3, &[]);
        assert_eq!(bench.send(), [3, 4, 5]);
        bench.ack(10, &[]);
        assert_eq!(bench.window(), 4000, "never more than one for an acknowledgement");
        assert_eq!(bench.sender.rtt.rto_ps(), 50 * MS, "no more backoff");
        assert_eq!(bench.send(), [10, 11, 12, 13]);
    }

    #[test]
    fn a_lost_repetition_waits_for_the_timeout() {
        let mut bench = bench(Algorithm::Cubic, 10);
        bench.send();
        bench.ack(0, &[(1, 10)]);
        assert_eq!(bench.send(), [0]);
        assert_eq!(bench.window(), 7000, "CUBIC keeps 0.7");
        bench.ack(0, &[(1, 10)]);
        assert_eq!(bench.send(), []);
        assert_eq!(bench.time_out(), 50 * MS - 2_000_000);
        assert_eq!(bench.send(), [0]);
        bench.ack(10, &[]);
        assert_eq!(bench.sender.poll_timeout(), None, "nothing is in flight");
    }

    #[test]
    fn dctcp_shrinks_by_marks_and_stops_doubling() {
        let mut bench = bench(Algorithm::Dctcp, 1000);
        bench.send();
        bench.mark_ack(1, &[], true);
        assert_eq!(bench.window(), 5000, "alpha is 1 at first");
        bench.mark_ack(2, &[], true);
        assert_eq!(bench.window(), 5000, "once per window");
    }

    #[test]
    fn others_ignore_marks() {
        for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
            let mut bench = bench(algorithm, 1000);
            bench.send();
            bench.mark_ack(1, &[], true);
            assert_eq!(bench.window(), 11_000);
        }
    }

    #[test]
    fn an_idle_connection_starts_again() {
        let mut bench = bench(Algorithm::Cubic, 40);
        for next in 1..=40 {
            bench.send();
            bench.ack(next, &[]);
        }
        assert!(bench.window() > 20_000, "{}", bench.window());
        bench.now = bench.now.plus_ps(51 * MS);
        for message in 40..80 {
            let name = Payload { flow: 0, message };
            bench.sender.post(bench.now, Message { name, bytes: MSS, dst_host: 1, dst_process: 0 });
        }
        assert_eq!(bench.send().len(), 10);
    }
}
