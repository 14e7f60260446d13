//! The rules of the RFCs, an acknowledgement at a time.

use super::*;
use crate::id::tests::{HOSTS, RECEIVER, SOCKETS};
use crate::id::{FlowId, MessageId};
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
    bench_with(algorithm, segments, |_| ())
}

fn bench_with(algorithm: Algorithm, segments: u32, change: fn(&mut TcpSetup)) -> Bench {
    let mut setup = TcpSetup {
        algorithm,
        mss_bytes: MSS,
        initial_window_packets: 10,
        rto_min_ps: 50 * MS,
        rack: false,
        hystart: false,
        prr: false,
        delayed_ack: false,
        send_buffer_bytes: 1 << 30,
        burst_bytes: 1,
    };
    change(&mut setup);
    let ports = Ports::new(2, std::iter::empty(), 0);
    let (route, _) = routes(&ports, HOSTS, SOCKETS, FlowId(0));
    let mut sender = Sender::new(route, &setup, algorithm, 10_000_000);
    for message in 0..segments {
        let name = Payload { flow: FlowId(0), message: MessageId(message) };
        sender.post(Time::ZERO, Message { name, bytes: MSS, dst: RECEIVER });
    }
    Bench { sender, ports, now: Time::from_us(100) }
}

impl Bench {
    /// Sends what the window allows.
    fn send(&mut self) -> Vec<u32> {
        let mut scratch = [0; HEADER_MAX];
        let mut sent = Vec::new();
        while let Some((_, body)) = self.sender.poll_transmit(self.now, &self.ports, &mut scratch) {
            let Body::Tcp(Segment::Data { seq, .. }) = body else { panic!("data") };
            sent.push(seq);
        }
        sent
    }

    fn ack(&mut self, next: u32, sacks: &[(u32, u32)]) {
        self.mark_ack(next, sacks, false);
    }

    /// Hands over an acknowledgement at some time, with the time stamp of what it acknowledges.
    fn ack_at(&mut self, next: u32, echo: Time, at: Time) {
        self.now = at;
        let packet = self.sender.route.packet(70, None);
        let (sacks, marked, duplicate) = (Sacks::of(&[]), false, false);
        let ack = Body::Tcp(Segment::Ack { next, sacks, echo, marked, duplicate });
        self.sender.receive(self.now, &packet, ack);
    }

    fn mark_ack(&mut self, next: u32, sacks: &[(u32, u32)], marked: bool) {
        self.now = self.now.plus_ps(1_000_000);
        let echo = Time::from_ps(self.now.as_ps() - 10_000_000);
        let sacks = Sacks::of(sacks);
        let packet = self.sender.route.packet(70, None);
        let ack = Segment::Ack { next, sacks, echo, marked, duplicate: false };
        let ack = Body::Tcp(ack);
        self.sender.receive(self.now, &packet, ack);
    }

    /// Advances the clock to the next timer, and handles it.
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
    let message = Payload { flow: FlowId(0), message: MessageId(1) };
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
    assert_eq!(bench.window(), 5000, "half of the 12 in flight but for 10 and 11");
    assert_eq!(bench.send(), [0], "at once, though 8 are in the network");
    bench.ack(0, &[(1, 9)]);
    assert_eq!(bench.send(), [12], "3 and the repetition, in a window of 5");
    bench.ack(12, &[]);
    assert_eq!((bench.sender.mode, bench.window()), (Mode::Open, 5000));
    assert_eq!(bench.sender.counts().repeated_packets, 1);
}

/// Limited transmit was once counted, so that a window of 10 shrank to 6 (RFC 5681, 3.2, step 2).
#[test]
fn what_limited_transmit_sent_makes_no_window_larger() {
    for (algorithm, window) in [(Algorithm::NewReno, 5000), (Algorithm::Cubic, 7000)] {
        let mut bench = bench(algorithm, 100);
        bench.send();
        for (end, sent) in [(2, 10), (3, 11)] {
            bench.ack(0, &[(1, end)]);
            assert_eq!(bench.send(), [sent]);
        }
        bench.ack(0, &[(1, 4)]);
        assert_eq!(bench.window(), window, "{algorithm:?}");
    }
}

#[test]
fn limited_transmit_is_in_the_window_once_that_has_moved() {
    let mut bench = bench(Algorithm::NewReno, 100);
    bench.send();
    bench.ack(0, &[(1, 2)]);
    assert_eq!(bench.send(), [10]);
    bench.ack(2, &[]);
    assert_eq!(bench.send(), [11, 12, 13], "0 was only late: a window of 12, all of it in use");
    for (end, sent) in [(4, 14), (5, 15)] {
        bench.ack(2, &[(3, end)]);
        assert_eq!(bench.send(), [sent]);
    }
    bench.ack(2, &[(3, 6)]);
    assert_eq!(bench.window(), 6000, "half of 2 to 13");
}

#[test]
fn a_proportional_recovery_sends_while_the_window_shrinks() {
    let mut bench = bench_with(Algorithm::NewReno, 100, |setup| setup.prr = true);
    bench.send();
    for (end, sent) in [(2, vec![10]), (3, vec![11]), (4, vec![0])] {
        bench.ack(0, &[(1, end)]);
        assert_eq!(bench.send(), sent);
    }
    // 10 that have not arrived are to become 5: one goes out for two that arrive, from the start.
    let sent: Vec<usize> = (5..=10)
        .map(|end| {
            bench.ack(0, &[(1, end)]);
            bench.send().len()
        })
        .collect();
    // Without it 0, 0, 0, 0, 1, 1.
    assert_eq!(sent, [0, 1, 0, 1, 0, 0]);
    assert_eq!(bench.sender.board.pipe_bytes(), 5000);
    let next = bench.sender.board.next();
    bench.ack(12, &[]);
    assert_eq!((bench.sender.mode, bench.window()), (Mode::Open, 5000));
    bench.ack(next, &[]);
    assert_eq!(bench.sender.counts().repeated_packets, 1);
}

#[test]
fn a_window_that_fills_a_queue_stops_doubling() {
    // A link that carries a segment in 0.3 ms, 10 ms away; what is too much waits in a queue.
    let window_after = |change: fn(&mut TcpSetup)| {
        let mut bench = bench_with(Algorithm::Cubic, 5000, change);
        let mut under_way: VecDeque<(Time, Time)> = VecDeque::new();
        let mut arrives = Time::ZERO;
        for acked in 1..=2000 {
            for _ in bench.send() {
                arrives = arrives.plus_ps(MS * 3 / 10).max(bench.now.plus_ps(10 * MS));
                under_way.push_back((bench.now, arrives));
            }
            let (sent_at, at) = under_way.pop_front().unwrap();
            bench.ack_at(acked, sent_at, at);
        }
        bench.window()
    };
    let plain = window_after(|_| ());
    let careful = window_after(|setup| setup.hystart = true);
    assert!(careful < plain / 4, "{careful} of {plain}");
    assert!(careful > 32_000, "and the link is full: {careful}");
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
fn after_a_timeout_marks_neither_open_the_window_nor_end_slow_start() {
    let mut bench = bench(Algorithm::Dctcp, 1000);
    bench.send();
    bench.time_out();
    assert_eq!(bench.send(), [0]);
    bench.mark_ack(1, &[], true);
    assert_eq!(bench.window(), 1000, "RFC 3168, 6.1.2: no growth, and nothing to halve");
    assert_eq!(bench.send(), [1]);
    bench.ack(2, &[]);
    assert_eq!(bench.send(), [2, 3], "slow start goes on");
}

#[test]
fn a_loss_and_marks_of_the_same_window_shrink_it_once() {
    let mut bench = bench(Algorithm::Dctcp, 1000);
    bench.send();
    bench.ack(0, &[(1, 4)]);
    assert_eq!(bench.window(), 5000, "half of what was in flight");
    bench.mark_ack(0, &[(1, 5)], true);
    bench.send();
    bench.mark_ack(10, &[], true);
    assert_eq!(bench.window(), 5000, "RFC 3168, 6.1.2");
    let next = bench.sender.board.next();
    bench.send();
    bench.mark_ack(next, &[], true);
    assert!(bench.window() < 5000, "another window, another reduction");
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
        let name = Payload { flow: FlowId(0), message: MessageId(message) };
        bench.sender.post(bench.now, Message { name, bytes: MSS, dst: RECEIVER });
    }
    assert_eq!(bench.send().len(), 10);
}

fn rack_bench(segments: u32) -> Bench {
    let mut bench = bench(Algorithm::Cubic, segments);
    bench.sender.rack = true;
    bench
}

#[test]
fn with_time_stamps_a_lost_repetition_is_found_by_what_was_sent_after_it() {
    let mut bench = rack_bench(20);
    bench.send();
    bench.ack(0, &[(1, 10)]);
    assert_eq!(bench.send(), [0, 10, 11, 12, 13, 14, 15], "a window of 7");
    bench.now = bench.now.plus_ps(20_000_000);
    bench.ack(0, &[(1, 11)]);
    assert_eq!(bench.send(), [0, 16], "10 arrived, which was sent after the repetition");
    bench.ack(17, &[]);
    assert_eq!(bench.sender.mode, Mode::Open);
    assert_eq!(bench.sender.counts().repeated_packets, 2);
}

/// The whole window of 7 once went out in a burst.
#[test]
fn a_proportional_recovery_that_time_begins_repeats_one_segment() {
    let mut bench = bench_with(Algorithm::Cubic, 10, |setup| {
        (setup.rack, setup.prr) = (true, true);
    });
    bench.send();
    bench.ack(0, &[(9, 10)]);
    assert_eq!((bench.sender.mode, bench.send()), (Mode::Open, vec![]), "it may be reordering");
    bench.time_out();
    assert_eq!(bench.send(), [0]);
    bench.ack(1, &[]);
    assert_eq!(bench.send(), [1, 2], "one for the one that arrived, and one more");
}

#[test]
fn a_lost_tail_is_probed_after_two_round_trips() {
    let mut bench = rack_bench(10);
    bench.send();
    bench.ack(7, &[]);
    let waited_ps = bench.time_out();
    assert_eq!(waited_ps, 2 * bench.sender.rtt.smoothed_ps());
    assert_eq!(bench.send(), [9], "the last again");
    assert_eq!(bench.sender.poll_timeout(), Some(bench.sender.rtt.deadline(bench.now)));
    bench.now = bench.now.plus_ps(20_000_000);
    bench.ack(7, &[(9, 10)]);
    assert_eq!(bench.send(), [7, 8], "sent long before the probe, which arrived");
}

#[test]
fn a_probe_that_repaired_a_loss_shrinks_the_window() {
    let mut bench = rack_bench(40);
    bench.sender.board = Scoreboard::default();
    let post = |bench: &mut Bench, from: u32, to: u32| {
        for message in from..to {
            let name = Payload { flow: FlowId(0), message: MessageId(message) };
            let message = Message { name, bytes: MSS, dst: RECEIVER };
            bench.sender.post(bench.now, message);
        }
    };
    post(&mut bench, 0, 10);
    bench.send();
    bench.ack(9, &[]);
    let before = bench.window();
    bench.time_out();
    assert_eq!(bench.send(), [9]);
    bench.ack(10, &[]);
    assert_eq!(bench.window(), before, "not known yet: it may have been a duplicate");
    post(&mut bench, 10, 20);
    bench.send();
    bench.ack(11, &[]);
    assert!(bench.window() < before, "{} of {before}", bench.window());
}
