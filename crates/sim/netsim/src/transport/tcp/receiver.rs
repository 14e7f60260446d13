//! The receiving end of a connection.

use super::reassembly::{Reassembly, Sacks};
use super::{OVERHEAD_BYTES, Segment};
use crate::packet::{Body, Packet, Payload};
use crate::socket::Ports;
use crate::time::Time;
use crate::transport::route::Route;
use crate::transport::{Counts, Delivery, Machine, Message, Notice};
use srd::HEADER_MAX;
use std::collections::VecDeque;

/// Maximum time that an acknowledgement is held back: Linux' value, RFC 5681 allows 500 ms.
pub(super) const HOLD_PS: u64 = 40_000_000_000;

/// An acknowledgement that waits for the adapter.
#[derive(Clone, Copy, Debug)]
struct Due {
    next: u32,
    sacks: Sacks,
    echo: Time,
    marked: bool,
    duplicate: bool,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    route: Route,
    delayed_ack: bool,
    reassembly: Reassembly,
    due: VecDeque<Due>,
    /// Segments in order, for the application.
    delivered: VecDeque<Payload>,
    /// Time stamp that the next acknowledgement echoes (`TS.Recent` of RFC 7323).
    echo: Time,
    /// First segment that the last acknowledgement missed.
    acknowledged: u32,
    /// Time until which an acknowledgement is held back.
    hold_until: Option<Time>,
    /// Whether the last segment was marked (`DCTCP.CE` of RFC 8257).
    marked: bool,
    /// Whether the last segment had arrived before.
    duplicate: bool,
    duplicates: u64,
}

impl Receiver {
    pub(crate) fn new(route: Route, delayed_ack: bool) -> Self {
        Self {
            route,
            delayed_ack,
            reassembly: Reassembly::default(),
            due: VecDeque::new(),
            delivered: VecDeque::new(),
            echo: Time::ZERO,
            acknowledged: 0,
            hold_until: None,
            marked: false,
            duplicate: false,
            duplicates: 0,
        }
    }

    fn acknowledge(&mut self) {
        let (next, sacks) = (self.reassembly.next(), self.reassembly.sacks());
        let Self { echo, marked, duplicate, .. } = *self;
        self.due.push_back(Due { next, sacks, echo, marked, duplicate });
        self.acknowledged = next;
        self.hold_until = None;
    }

    fn take(&mut self, now: Time, seq: u32, sent_at: Time, packet: &Packet) {
        // RFC 8257, 3.2: an acknowledgement speaks of marked segments or of others, not of both.
        if packet.marked != self.marked && self.hold_until.is_some() {
            self.acknowledge();
        }
        self.marked = packet.marked;
        if seq <= self.acknowledged {
            self.echo = sent_at;
        }
        let Some(name) = packet.payload else { return };
        let had_hole = self.reassembly.has_hole();
        let delivered = &mut self.delivered;
        let new = self.reassembly.insert(seq, name, |name| delivered.push_back(name));
        self.duplicate = !new;
        self.duplicates += u64::from(!new);
        // RFC 5681, 4.2: at once when out of order, or when a hole is filled.
        let in_order = new && !had_hole && !self.reassembly.has_hole();
        if self.delayed_ack && in_order && self.hold_until.is_none() {
            self.hold_until = Some(now.plus_ps(HOLD_PS));
        } else {
            self.acknowledge();
        }
    }
}

impl Machine for Receiver {
    fn post(&mut self, _now: Time, message: Message) {
        unreachable!("flows begin at senders: {message:?}");
    }

    fn receive(&mut self, now: Time, packet: &Packet, body: Body<'_>) {
        if let Body::Tcp(Segment::Data { seq, sent_at }) = body {
            self.take(now, seq, sent_at, packet);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.hold_until.is_some_and(|at| at <= now) {
            self.acknowledge();
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.hold_until
    }

    fn has_backlog(&self) -> bool {
        !self.due.is_empty()
    }

    fn poll_transmit<'a>(
        &mut self,
        _now: Time,
        _ports: &Ports,
        _scratch: &'a mut [u8; HEADER_MAX],
    ) -> Option<(Packet, Body<'a>)> {
        let Due { next, sacks, echo, marked, duplicate } = self.due.pop_front()?;
        let blocks = sacks.ranges().len() as u32;
        let options_bytes = if blocks == 0 { 0 } else { 4 + 8 * blocks };
        let packet = self.route.packet(OVERHEAD_BYTES + options_bytes, None);
        Some((packet, Body::Tcp(Segment::Ack { next, sacks, echo, marked, duplicate })))
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.delivered.pop_front().map(|name| Notice::Delivered(Delivery::Message(name)))
    }

    fn counts(&self) -> Counts {
        Counts { needless_repeats: self.duplicates, ..Counts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::tests::{HOSTS, SOCKETS};
    use crate::id::{Ends, FlowId, MessageId};

    struct Bench {
        receiver: Receiver,
        ports: Ports,
    }

    fn bench(delayed_ack: bool) -> Bench {
        let ports = Ports::new(2, std::iter::empty(), 0);
        let (_, back) = Route::both(&ports, HOSTS, SOCKETS, Ends { src: 1, dst: 2 });
        Bench { receiver: Receiver::new(back, delayed_ack), ports }
    }

    impl Bench {
        /// Delivers a segment; returns for each acknowledgement the first missing segment, and
        /// whether it reports a mark.
        fn arrive(&mut self, seq: u32, marked: bool) -> Vec<(u32, bool)> {
            let at = Time::from_us(u64::from(seq));
            let payload = Some(Payload { flow: FlowId(0), message: MessageId(seq) });
            let packet = Packet { marked, ..self.receiver.route.packet(1000, payload) };
            let body = Body::Tcp(Segment::Data { seq, sent_at: at });
            self.receiver.receive(at, &packet, body);
            self.acks()
        }

        fn acks(&mut self) -> Vec<(u32, bool)> {
            let mut acks = Vec::new();
            let mut scratch = [0; HEADER_MAX];
            while let Some((_, body)) =
                self.receiver.poll_transmit(Time::ZERO, &self.ports, &mut scratch)
            {
                let Body::Tcp(Segment::Ack { next, marked, .. }) = body else {
                    panic!("{body:?}");
                };
                acks.push((next, marked));
            }
            acks
        }
    }

    #[test]
    fn each_segment_is_acknowledged_at_once_unless_delayed() {
        let mut bench = bench(false);
        assert_eq!(bench.arrive(0, false), [(1, false)]);
        assert_eq!(bench.arrive(2, true), [(1, true)]);
        assert_eq!(bench.arrive(1, false), [(3, false)]);
        assert_eq!(bench.arrive(1, false), [(3, false)], "a duplicate too");
        let delivered = std::iter::from_fn(|| bench.receiver.poll_notice()).count();
        assert_eq!((delivered, bench.receiver.counts().needless_repeats), (3, 1));
    }

    /// The first block must be that of the segment that caused the acknowledgement (RFC 2018, 4).
    #[test]
    fn what_waits_for_the_adapter_says_what_was_known_when_it_was_due() {
        let mut bench = bench(false);
        for seq in [2, 4] {
            let payload = Some(Payload { flow: FlowId(0), message: MessageId(seq) });
            let packet = bench.receiver.route.packet(1000, payload);
            let body = Body::Tcp(Segment::Data { seq, sent_at: Time::ZERO });
            bench.receiver.receive(Time::ZERO, &packet, body);
        }
        let mut scratch = [0; HEADER_MAX];
        let mut sacks =
            || match bench.receiver.poll_transmit(Time::ZERO, &bench.ports, &mut scratch) {
                Some((_, Body::Tcp(Segment::Ack { sacks, .. }))) => sacks.ranges().to_vec(),
                other => panic!("{other:?}"),
            };
        assert_eq!((sacks(), sacks()), (vec![(2, 3)], vec![(4, 5), (2, 3)]));
    }

    #[test]
    fn delayed_ones_wait_for_a_second_segment_or_the_clock_but_not_in_disorder() {
        let mut bench = bench(true);
        assert_eq!(bench.arrive(0, false), []);
        assert_eq!(bench.arrive(1, false), [(2, false)]);
        assert_eq!(bench.arrive(2, false), []);
        let at = bench.receiver.poll_timeout().unwrap();
        assert_eq!(at, Time::from_us(2).plus_ps(HOLD_PS));
        bench.receiver.handle_timeout(at);
        assert_eq!(bench.acks(), [(3, false)]);
        assert_eq!(bench.arrive(4, false), [(3, false)], "out of order");
        assert_eq!(bench.arrive(3, false), [(5, false)], "the hole is filled");
    }

    #[test]
    fn a_change_of_marks_is_told_at_once() {
        let mut bench = bench(true);
        assert_eq!(bench.arrive(0, false), []);
        assert_eq!(bench.arrive(1, true), [(1, false)], "of the one before; this one waits");
        assert_eq!(bench.arrive(2, true), [(3, true)]);
    }
}
