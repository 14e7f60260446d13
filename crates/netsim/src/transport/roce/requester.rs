//! The sending end of a queue pair.

use super::dcqcn::Limiter;
use super::{Frame, OVERHEAD_BYTES, RoceSetup};
use crate::packet::{Body, Packet, Payload};
use crate::socket::Ports;
use crate::time::Time;
use crate::transport::route::Route;
use crate::transport::{Counts, Machine, Message, Notice};
use srd::HEADER_MAX;
use std::collections::VecDeque;

/// Codes of completions (`ibv_wc_status`): the peer does not answer,
const RETRY_EXCEEDED: u8 = 12;
/// the queue pair had failed before.
const FLUSHED: u8 = 5;

#[derive(Debug)]
pub(crate) struct Requester {
    route: Route,
    ack_every_packets: u32,
    timeout_ps: u64,
    retries: u32,
    /// All that is not acknowledged, from `first` on.
    window: VecDeque<(Payload, u32)>,
    /// Number of the first packet that is not acknowledged,
    first: u32,
    /// of the next to send,
    next: u32,
    /// and of the first that was never sent.
    unsent: u32,
    /// When the requester goes back.
    timer: Option<Time>,
    /// Timeouts since something was acknowledged.
    silences: u32,
    failed: bool,
    limiter: Option<Limiter>,
    /// The limiter let a packet wait until then.
    held_until: Option<Time>,
    ended: VecDeque<(Payload, u8)>,
    counts: Counts,
}

impl Requester {
    pub(super) fn new(route: Route, setup: &RoceSetup) -> Self {
        Self {
            route,
            ack_every_packets: setup.ack_every_packets,
            timeout_ps: setup.timeout_ps,
            retries: setup.retries,
            window: VecDeque::new(),
            first: 0,
            next: 0,
            unsent: 0,
            timer: None,
            silences: 0,
            failed: false,
            limiter: setup.dcqcn.map(Limiter::new),
            held_until: None,
            ended: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// All before `next` has arrived.
    fn acknowledge(&mut self, now: Time, next: u32) {
        if next <= self.first {
            return;
        }
        while self.first < next
            && let Some((name, _)) = self.window.pop_front()
        {
            self.ended.push_back((name, 0));
            self.first += 1;
        }
        self.next = self.next.max(self.first);
        self.silences = 0;
        self.timer = (self.next > self.first).then(|| now.plus_ps(self.timeout_ps));
    }

    /// Sends again from the first packet that is not acknowledged.
    fn go_back(&mut self) {
        self.next = self.first;
        self.timer = None;
    }

    /// The peer does not answer: everything ends.
    fn fail(&mut self) {
        self.failed = true;
        self.timer = None;
        let mut code = RETRY_EXCEEDED;
        for (name, _) in self.window.drain(..) {
            self.ended.push_back((name, code));
            code = FLUSHED;
        }
    }

    fn end(&self) -> u32 {
        self.first + self.window.len() as u32
    }
}

impl Machine for Requester {
    fn post(&mut self, _now: Time, message: Message) {
        if self.failed {
            self.ended.push_back((message.name, FLUSHED));
        } else {
            self.window.push_back((message.name, message.bytes));
        }
    }

    fn receive(&mut self, now: Time, _packet: &Packet, body: Body<'_>) {
        let Body::Roce(frame) = body else { return };
        match frame {
            _ if self.failed => {}
            Frame::Ack { next } => self.acknowledge(now, next),
            Frame::Nak { next } if next >= self.first && next < self.unsent => {
                self.acknowledge(now, next);
                self.go_back();
            }
            Frame::Cnp => {
                if let Some(limiter) = &mut self.limiter {
                    limiter.cut(now);
                }
            }
            Frame::Nak { .. } | Frame::Data { .. } => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.held_until = self.held_until.filter(|&at| at > now);
        if let Some(limiter) = &mut self.limiter {
            limiter.handle_timeout(now);
        }
        if self.timer.is_some_and(|at| at <= now) {
            self.silences += 1;
            if self.silences > self.retries {
                self.fail();
            } else {
                self.go_back();
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let increase = self.limiter.and_then(|limiter| limiter.timeout());
        // A rate that nobody uses need not grow in time.
        let increase = increase.filter(|_| !self.window.is_empty());
        [self.timer, increase, self.held_until].into_iter().flatten().min()
    }

    fn has_backlog(&self) -> bool {
        self.next < self.end() && self.held_until.is_none()
    }

    fn poll_transmit<'a>(
        &mut self,
        now: Time,
        _ports: &Ports,
        _scratch: &'a mut [u8; HEADER_MAX],
    ) -> Option<(Packet, Body<'a>)> {
        let psn = self.next;
        let &(name, bytes) = self.window.get((psn - self.first) as usize)?;
        let wire_bytes = bytes + OVERHEAD_BYTES;
        if let Some(limiter) = &mut self.limiter {
            if limiter.next_at() > now {
                self.held_until = Some(limiter.next_at());
                return None;
            }
            limiter.sent(now, wire_bytes);
        }
        self.next += 1;
        self.counts.data_packets += 1;
        self.counts.repeated_packets += u64::from(psn < self.unsent);
        self.unsent = self.unsent.max(self.next);
        self.timer = self.timer.or_else(|| Some(now.plus_ps(self.timeout_ps)));
        let ack_wanted =
            self.next.is_multiple_of(self.ack_every_packets) || self.next == self.end();
        let packet = self.route.packet(wire_bytes, Some(name));
        Some((packet, Body::Roce(Frame::Data { psn, ack_wanted })))
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.ended.pop_front().map(|(message, code)| Notice::Ended { message, code })
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::roce::DcqcnSetup;

    const TIMEOUT_PS: u64 = 1_000_000_000;

    struct Bench {
        requester: Requester,
        ports: Ports,
        now: Time,
    }

    fn bench(packets: u32, setup: RoceSetup) -> Bench {
        let ports = Ports::new(2, std::iter::empty(), 0);
        let (mut requester, _) = setup.connect(&ports, (0, 1), (0, 1), 0);
        for message in 0..packets {
            let name = Payload { flow: 0, message };
            let message = Message { name, bytes: 938, dst_host: 1, dst_process: 0 };
            requester.post(Time::ZERO, message);
        }
        Bench { requester, ports, now: Time::from_us(1) }
    }

    const SETUP: RoceSetup = RoceSetup {
        mtu_bytes: 938,
        window_packets: 100,
        ack_every_packets: 4,
        timeout_ps: TIMEOUT_PS,
        retries: 2,
        dcqcn: None,
    };

    impl Bench {
        /// Sends what may be sent: numbers, and whether an acknowledgement is wanted.
        fn send(&mut self, most: usize) -> Vec<(u32, bool)> {
            let mut scratch = [0; HEADER_MAX];
            let mut sent = Vec::new();
            while sent.len() < most
                && let Some((_, Body::Roce(Frame::Data { psn, ack_wanted }))) =
                    self.requester.poll_transmit(self.now, &self.ports, &mut scratch)
            {
                sent.push((psn, ack_wanted));
            }
            sent
        }

        fn numbers(&mut self, most: usize) -> Vec<u32> {
            self.send(most).into_iter().map(|(psn, _)| psn).collect()
        }

        fn receive(&mut self, frame: Frame) {
            self.now = self.now.plus_ps(1_000_000);
            let packet = self.requester.route.packet(66, None);
            self.requester.receive(self.now, &packet, Body::Roce(frame));
        }

        fn time_out(&mut self) {
            self.now = self.requester.poll_timeout().unwrap();
            self.requester.handle_timeout(self.now);
        }

        fn codes(&mut self) -> Vec<(u32, u8)> {
            std::iter::from_fn(|| self.requester.poll_notice())
                .map(|notice| match notice {
                    Notice::Ended { message, code } => (message.message, code),
                    Notice::Delivered(_) => panic!("{notice:?}"),
                })
                .collect()
        }
    }

    #[test]
    fn sends_all_and_asks_for_acknowledgements_of_some_and_of_the_last() {
        let mut bench = bench(6, SETUP);
        let wanted: Vec<bool> = bench.send(9).into_iter().map(|sent| sent.1).collect();
        assert_eq!(wanted, [false, false, false, true, false, true]);
        bench.receive(Frame::Ack { next: 4 });
        assert_eq!(bench.codes(), [(0, 0), (1, 0), (2, 0), (3, 0)]);
        bench.receive(Frame::Ack { next: 6 });
        assert_eq!(bench.codes(), [(4, 0), (5, 0)]);
        assert_eq!((bench.requester.poll_timeout(), bench.requester.has_backlog()), (None, false));
    }

    #[test]
    fn goes_back_to_what_is_missing() {
        let mut bench = bench(8, SETUP);
        bench.send(6);
        bench.receive(Frame::Nak { next: 2 });
        assert_eq!(bench.codes(), [(0, 0), (1, 0)]);
        assert_eq!(bench.numbers(9), [2, 3, 4, 5, 6, 7], "all of them again");
        assert_eq!(bench.requester.counts().repeated_packets, 4);
        // Late acknowledgements of the first time, and one that overtakes what is sent again.
        bench.receive(Frame::Nak { next: 1 });
        bench.receive(Frame::Ack { next: 2 });
        assert_eq!(bench.numbers(9), []);
        bench.receive(Frame::Nak { next: 4 });
        bench.receive(Frame::Ack { next: 6 });
        assert_eq!(bench.numbers(9), [6, 7]);
    }

    #[test]
    fn silence_goes_back_and_in_the_end_fails() {
        let mut bench = bench(3, SETUP);
        assert_eq!(bench.numbers(9), [0, 1, 2]);
        bench.receive(Frame::Ack { next: 1 });
        let acknowledged_at = bench.now;
        for _ in 0..2 {
            bench.time_out();
            assert_eq!(bench.numbers(9), [1, 2]);
        }
        assert_eq!(bench.now, acknowledged_at.plus_ps(2 * TIMEOUT_PS));
        bench.time_out();
        assert_eq!(bench.codes(), [(0, 0), (1, RETRY_EXCEEDED), (2, FLUSHED)]);
        let name = Payload { flow: 0, message: 3 };
        bench.requester.post(bench.now, Message { name, bytes: 1, dst_host: 1, dst_process: 0 });
        bench.receive(Frame::Ack { next: 3 });
        assert_eq!((bench.codes(), bench.numbers(9)), (vec![(3, FLUSHED)], vec![]));
        assert!(!bench.requester.has_backlog() && bench.requester.poll_timeout().is_none());
    }

    #[test]
    fn an_acknowledgement_ends_the_silence() {
        let mut bench = bench(3, SETUP);
        for next in 1..=3 {
            for _ in 0..2 {
                bench.send(9);
                bench.time_out();
            }
            bench.send(9);
            bench.receive(Frame::Ack { next });
        }
        assert_eq!(bench.codes(), [(0, 0), (1, 0), (2, 0)]);
    }

    #[test]
    fn notifications_put_a_distance_between_packets() {
        let dcqcn =
            DcqcnSetup { cnp_interval_ps: 1, line_bps: 100e9, additive_bps: 1e9, hyper_bps: 1e9 };
        let mut bench = bench(9, RoceSetup { dcqcn: Some(dcqcn), ..SETUP });
        assert_eq!(bench.numbers(3), [0, 1, 2], "as fast as the link");
        bench.receive(Frame::Cnp);
        assert_eq!(bench.numbers(9), [3], "50 Gbit/s");
        assert!(!bench.requester.has_backlog());
        assert_eq!(bench.requester.poll_timeout(), Some(bench.now.plus_ps(160_000)));
        bench.time_out();
        assert!(bench.requester.has_backlog());
        assert_eq!(bench.numbers(9), [4]);
    }
}
