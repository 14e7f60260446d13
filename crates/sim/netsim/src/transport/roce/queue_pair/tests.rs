//! Both ends of a connection, and a test that carries their packets or loses them.

use super::*;
use crate::id::tests::{HOSTS, RECEIVER, SOCKETS};
use crate::id::{FlowId, MessageId};
use crate::transport::roce::DcqcnSetup;
use crate::transport::{Delivery, Posting};
use rc::Config;
use rc::wire::{Headers, Kind, NakCode, Syndrome};

const TIMEOUT_PS: u64 = 1_000_000_000;
const BYTES: u32 = 940;
const DCQCN: DcqcnSetup =
    DcqcnSetup { cnp_interval_ps: 50_000_000, line_bps: 100e9, additive_bps: 1e9, hyper_bps: 1e9 };

/// A packet outside of the network.
type Carried = (Packet, Vec<u8>);

struct Bench {
    sender: QueuePair,
    receiver: QueuePair,
    ports: Ports,
    now: Time,
}

/// Returns a configuration with `retries` 2 and a timeout of a millisecond.
fn config() -> Config {
    Config { timeout_min_ns: TIMEOUT_PS / 1000, ..Config::hardware(100) }
}

/// Creates a connection with so many messages to send.
fn bench(messages: u32, config: Config, dcqcn: Option<DcqcnSetup>) -> Bench {
    let ports = Ports::new(2, std::iter::empty(), 0);
    let posting = Posting { message_bytes: BYTES, depth: 100 };
    let setup = RoceSetup { config: Arc::new(config), posting, retries: 2, dcqcn };
    let (sender, receiver) = setup.connect(&ports, HOSTS, SOCKETS, FlowId(0));
    let mut bench = Bench { sender, receiver, ports, now: Time::from_us(1) };
    (0..messages).for_each(|message| bench.post(message, BYTES));
    bench
}

fn sent_by(machine: &mut QueuePair, now: Time, ports: &Ports, most: usize) -> Vec<Carried> {
    let mut scratch = [0; HEADER_MAX];
    let mut sent = Vec::new();
    while sent.len() < most {
        let next = machine.poll_transmit(now, ports, &mut scratch);
        let Some((packet, Body::Engine(header))) = next else { break };
        sent.push((packet, header.to_vec()));
    }
    sent
}

impl Bench {
    fn post(&mut self, message: u32, bytes: u32) {
        let name = Payload { flow: FlowId(3), message: MessageId(message) };
        self.sender.post(self.now, Message { name, bytes, dst: RECEIVER });
    }

    fn send(&mut self, most: usize) -> Vec<Carried> {
        sent_by(&mut self.sender, self.now, &self.ports, most)
    }

    /// Sends up to `most` packets and returns their numbers.
    fn numbers(&mut self, most: usize) -> Vec<u32> {
        numbers(&self.send(most))
    }

    /// Gives a packet to the receiver; returns the message that is new, and the answers.
    fn deliver(&mut self, (packet, header): &Carried) -> (Option<u32>, Vec<Carried>) {
        self.receiver.receive(self.now, packet, Body::Engine(header));
        let new = self.receiver.poll_notice().map(|notice| match notice {
            Notice::Delivered(Delivery::Message(name)) => name.message.0,
            _ => panic!("{notice:?}"),
        });
        assert_eq!(self.receiver.poll_notice(), None);
        (new, sent_by(&mut self.receiver, self.now, &self.ports, usize::MAX))
    }

    /// Gives packets to the receiver and its answers to the sender; returns what was new.
    fn exchange(&mut self, packets: &[Carried]) -> Vec<u32> {
        let mut all = Vec::new();
        for carried in packets {
            let (new, answers) = self.deliver(carried);
            all.extend(new);
            answers.iter().for_each(|answer| self.answer(answer));
        }
        all
    }

    fn answer(&mut self, (packet, header): &Carried) {
        self.sender.receive(self.now, packet, Body::Engine(header));
    }

    fn time_out(&mut self) {
        self.now = self.sender.poll_timeout().unwrap();
        self.sender.handle_timeout(self.now);
    }

    /// Returns the messages that ended, with their codes.
    fn ended(&mut self) -> Vec<(u32, u8)> {
        std::iter::from_fn(|| self.sender.poll_notice())
            .map(|notice| match notice {
                Notice::Ended { message, code } => (message.message.0, code),
                Notice::Delivered(_) => panic!("{notice:?}"),
            })
            .collect()
    }
}

fn numbers(sent: &[Carried]) -> Vec<u32> {
    sent.iter().map(|(_, header)| Headers::parse(header).unwrap().bth.psn.get()).collect()
}

/// Returns the number and syndrome of an acknowledgement.
fn ack_of((packet, header): &Carried) -> (u32, Syndrome) {
    let headers = Headers::parse(header).unwrap();
    assert_eq!(headers.bth.opcode.kind, Kind::Acknowledge);
    assert_eq!(packet.wire_bytes, crate::transport::Kind::Roce.ack_bytes());
    (headers.bth.psn.get(), headers.aeth.syndrome)
}

#[test]
fn what_is_missing_is_asked_for_once_and_sent_again_with_all_after_it() {
    let mut bench = bench(8, config(), None);
    let sent = bench.send(6);
    assert_eq!(bench.exchange(&sent[..2]), [0, 1]);
    assert_eq!(bench.ended(), [(0, 0), (1, 0)]);
    let (new, answers) = bench.deliver(&sent[3]);
    assert_eq!((new, ack_of(&answers[0])), (None, (2, Syndrome::Nak(NakCode::Sequence))));
    for late in &sent[4..] {
        let (new, more) = bench.deliver(late);
        assert!(new.is_none() && more.is_empty(), "out of order, and asked for already");
    }
    bench.answer(&answers[0]);
    let again = bench.send(9);
    assert_eq!(numbers(&again), [2, 3, 4, 5, 6, 7], "all of them again");
    assert_eq!(bench.exchange(&again), [2, 3, 4, 5, 6, 7]);
    assert_eq!(bench.ended().len(), 6);
    let (sender, receiver) = (bench.sender.counts(), bench.receiver.counts());
    assert_eq!((sender.data_packets, sender.repeated_packets), (12, 4));
    assert_eq!(receiver, Counts::default(), "acknowledgements are no data");
    assert_eq!((bench.sender.poll_timeout(), bench.sender.has_backlog()), (None, false));
}

#[test]
fn duplicates_are_acknowledged_and_not_delivered() {
    let mut bench = bench(2, config(), None);
    let sent = bench.send(2);
    assert_eq!(bench.exchange(&sent), [0, 1]);
    let (new, answers) = bench.deliver(&sent[0]);
    assert_eq!((new, ack_of(&answers[0])), (None, (1, Syndrome::ACK)), "the newest");
    assert_eq!(bench.receiver.counts().needless_repeats, 1);
}

#[test]
fn silence_goes_back_and_in_the_end_fails() {
    let mut bench = bench(3, config(), None);
    let sent = bench.send(9);
    bench.exchange(&sent[..1]);
    let acknowledged_at = bench.now;
    for _ in 0..2 {
        bench.time_out();
        assert_eq!(bench.numbers(9), [1, 2]);
    }
    assert_eq!(bench.now, acknowledged_at.plus_ps(2 * TIMEOUT_PS));
    bench.time_out();
    let (exceeded, flushed) = (rc::Status::RetryExceeded.code(), rc::Status::Flushed.code());
    assert_eq!(bench.ended(), [(0, 0), (1, exceeded), (2, flushed)]);
    bench.post(3, BYTES);
    assert_eq!((bench.ended(), bench.numbers(9)), (vec![(3, flushed)], vec![]));
    assert!(!bench.sender.has_backlog() && bench.sender.poll_timeout().is_none());
}

#[test]
fn a_gap_and_the_silences_after_it_count_together() {
    let mut bench = bench(3, config(), None);
    let sent = bench.send(9);
    bench.exchange(&sent[1..]);
    for _ in 0..2 {
        assert_eq!(bench.numbers(9), [0, 1, 2]);
        bench.time_out();
    }
    let exceeded = rc::Status::RetryExceeded.code();
    assert_eq!(bench.ended()[0], (0, exceeded), "a gap and two silences are more than two");
}

#[test]
fn acknowledgements_of_some_packets_and_of_the_last() {
    let mut bench = bench(6, Config { ack_every_messages: 4, ..config() }, None);
    let sent = bench.send(9);
    let answered: Vec<usize> = sent.iter().map(|carried| bench.deliver(carried).1.len()).collect();
    assert_eq!(answered, [0, 0, 0, 1, 0, 1]);
}

#[test]
fn the_engine_has_a_window_of_its_own_when_it_is_not_fixed() {
    let mut bench = bench(60, Config { is_window_fixed: false, ..config() }, None);
    let sent = bench.send(99);
    assert_eq!(sent.len(), 16);
    bench.exchange(&sent);
    assert_eq!(bench.send(99).len(), 32);
}

#[test]
fn packets_have_the_length_that_they_have_on_the_wire() {
    let mut bench = bench(1, config(), None);
    bench.post(1, 5);
    let lens: Vec<u32> = bench.send(9).iter().map(|(packet, _)| packet.wire_bytes).collect();
    assert_eq!(lens, [BYTES + 62, 5 + 3 + 62], "a pad makes it a multiple of 4");
    let roce = crate::transport::Kind::Roce;
    assert_eq!((roce.packet_bytes(BYTES), roce.packet_bytes(5)), (BYTES + 62, 70));
    assert_eq!((roce.message_bytes(4150), roce.message_bytes(4152)), (4088, 4088));
    assert_eq!(roce.message_bytes(9000), 4096, "no packet has more");
}

#[test]
fn marks_are_told_every_50_us_and_put_a_distance_between_packets() {
    let mut bench = bench(9, config(), Some(DCQCN));
    let mut sent = bench.send(3);
    assert_eq!(numbers(&sent), [0, 1, 2], "as fast as the link");
    sent.iter_mut().for_each(|(packet, _)| packet.marked = true);
    let (_, answers) = bench.deliver(&sent[0]);
    let (cnp, ack) = (&answers[0], &answers[1]);
    assert_eq!((cnp.0.wire_bytes, ack_of(ack)), (78, (0, Syndrome::ACK)));
    assert_eq!(bench.deliver(&sent[1]).1.len(), 1, "an acknowledgement only");
    bench.answer(cnp);
    assert_eq!(bench.ended(), []);
    assert_eq!(bench.numbers(9), [3], "50 Gbit/s");
    assert!(!bench.sender.has_backlog());
    let gap_ps = u64::from(BYTES + 62) * 160;
    assert_eq!(bench.sender.poll_timeout(), Some(bench.now.plus_ps(gap_ps)));
    bench.time_out();
    assert!(bench.sender.has_backlog());
    assert_eq!(bench.numbers(9), [4]);
    bench.now = bench.now.plus_ps(DCQCN.cnp_interval_ps);
    assert_eq!(bench.deliver(&sent[2]).1.len(), 2, "time to tell again");
}
