//! The receiving end of a queue pair.

use super::{ACK_BYTES, CNP_BYTES, Frame};
use crate::packet::{Body, Packet, Payload};
use crate::socket::Ports;
use crate::time::Time;
use crate::transport::route::Route;
use crate::transport::{Counts, Machine, Message, Notice};
use srd::HEADER_MAX;

#[derive(Debug)]
pub(crate) struct Responder {
    route: Route,
    /// The only packet that it takes.
    expected: u32,
    /// It has asked for that packet.
    asked: bool,
    /// What waits for the adapter. A later acknowledgement says all that an earlier one did.
    ack: Option<Frame>,
    cnp: bool,
    /// Marks are told at most once in this interval, if at all;
    cnp_interval_ps: Option<u64>,
    /// next then.
    cnp_not_before: Time,
    arrived: Option<Option<Payload>>,
    duplicates: u64,
}

impl Responder {
    pub(super) fn new(route: Route, cnp_interval_ps: Option<u64>) -> Self {
        Self {
            route,
            expected: 0,
            asked: false,
            ack: None,
            cnp: false,
            cnp_interval_ps,
            cnp_not_before: Time::ZERO,
            arrived: None,
            duplicates: 0,
        }
    }

    fn take(&mut self, psn: u32, ack_wanted: bool, payload: Option<Payload>) {
        if psn > self.expected {
            if !self.asked {
                self.asked = true;
                self.ack = Some(Frame::Nak { next: self.expected });
            }
            return;
        }
        let is_new = psn == self.expected;
        if is_new {
            self.expected += 1;
            self.asked = false;
            self.arrived = Some(payload);
        } else {
            self.duplicates += 1;
        }
        // A request that still waits for the adapter says all that an acknowledgement would.
        let asks = self.asked && self.ack.is_some();
        if (ack_wanted || !is_new) && !asks {
            self.ack = Some(Frame::Ack { next: self.expected });
        }
    }
}

impl Machine for Responder {
    fn post(&mut self, _now: Time, message: Message) {
        unreachable!("flows begin at requesters: {message:?}");
    }

    fn receive(&mut self, now: Time, packet: &Packet, body: Body<'_>) {
        let Body::Roce(Frame::Data { psn, ack_wanted }) = body else { return };
        if let Some(interval_ps) = self.cnp_interval_ps
            && packet.marked
            && now >= self.cnp_not_before
        {
            self.cnp = true;
            self.cnp_not_before = now.plus_ps(interval_ps);
        }
        self.take(psn, ack_wanted, packet.payload);
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn has_backlog(&self) -> bool {
        self.cnp || self.ack.is_some()
    }

    fn poll_transmit<'a>(
        &mut self,
        _now: Time,
        _ports: &Ports,
        _scratch: &'a mut [u8; HEADER_MAX],
    ) -> Option<(Packet, Body<'a>)> {
        if std::mem::take(&mut self.cnp) {
            return Some((self.route.packet(CNP_BYTES, None), Body::Roce(Frame::Cnp)));
        }
        let frame = self.ack.take()?;
        Some((self.route.packet(ACK_BYTES, None), Body::Roce(frame)))
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.arrived.take().map(Notice::Delivered)
    }

    fn counts(&self) -> Counts {
        Counts { needless_repeats: self.duplicates, ..Counts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        responder: Responder,
        ports: Ports,
        now: Time,
    }

    fn bench() -> Bench {
        let ports = Ports::new(2, std::iter::empty(), 0);
        let (_, back) = Route::both(&ports, (0, 1), (0, 1), (1, 1));
        Bench { responder: Responder::new(back, Some(50_000_000)), ports, now: Time::from_us(1) }
    }

    impl Bench {
        /// What it answers to a packet.
        fn data(&mut self, psn: u32, ack_wanted: bool, marked: bool) -> Vec<Frame> {
            let packet = Packet { marked, ..self.responder.route.packet(4150, None) };
            let body = Body::Roce(Frame::Data { psn, ack_wanted });
            self.responder.receive(self.now, &packet, body);
            let mut scratch = [0; HEADER_MAX];
            let mut answers = Vec::new();
            while let Some((_, Body::Roce(frame))) =
                self.responder.poll_transmit(self.now, &self.ports, &mut scratch)
            {
                answers.push(frame);
            }
            answers
        }

        fn delivered(&mut self) -> bool {
            self.responder.poll_notice() == Some(Notice::Delivered(None))
        }
    }

    #[test]
    fn what_is_missing_is_asked_for_once_and_the_rest_dropped() {
        let mut bench = bench();
        assert_eq!(bench.data(0, true, false), [Frame::Ack { next: 1 }]);
        assert!(bench.delivered());
        assert_eq!(bench.data(2, true, false), [Frame::Nak { next: 1 }]);
        assert_eq!(bench.data(3, true, false), []);
        assert!(!bench.delivered(), "out of order");
        assert_eq!(bench.data(1, true, false), [Frame::Ack { next: 2 }]);
        assert!(bench.delivered());
        assert_eq!(bench.data(3, true, false), [Frame::Nak { next: 2 }], "missing anew");
    }

    #[test]
    fn a_request_that_waits_is_not_replaced() {
        let mut bench = bench();
        let packet = bench.responder.route.packet(4150, None);
        for psn in [0, 2, 0] {
            let body = Body::Roce(Frame::Data { psn, ack_wanted: true });
            bench.responder.receive(bench.now, &packet, body);
            bench.responder.poll_notice();
        }
        assert_eq!(bench.data(3, true, false), [Frame::Nak { next: 1 }]);
    }

    #[test]
    fn duplicates_are_acknowledged_and_not_delivered() {
        let mut bench = bench();
        assert_eq!(bench.data(0, false, false), [], "nobody asked");
        assert!(bench.delivered());
        assert_eq!(bench.data(0, false, false), [Frame::Ack { next: 1 }]);
        assert!(!bench.delivered() && bench.responder.counts().needless_repeats == 1);
    }

    #[test]
    fn marks_are_told_every_50_us() {
        let mut bench = bench();
        assert_eq!(bench.data(0, false, true), [Frame::Cnp]);
        bench.now = bench.now.plus_ps(49_999_999);
        assert_eq!(bench.data(1, false, true), []);
        bench.now = bench.now.plus_ps(1);
        assert_eq!(bench.data(2, false, false), []);
        assert_eq!(bench.data(3, true, true), [Frame::Cnp, Frame::Ack { next: 4 }]);
    }
}
