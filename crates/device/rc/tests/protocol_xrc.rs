//! The rules of extended reliable connections, one by one, against a peer played by hand.

mod common;

use common::craft::{Craft, OUR_PSN, Solo, THEIR_PSN, nak, receive_attr, send_attr};
use rc::wire::{Kind, NakCode, Syndrome, Transport};
use rc::{
    Arrival, Cause, Config, DropReason, Event, HEADER_MAX, Operation, Payload, PostError,
    ReceiveAttr, Received, Reject, SendRequest, Service, Status, WrId,
};

fn initiator() -> Solo {
    Solo::with(Config::strict(), Service::XrcInitiator, receive_attr(), send_attr())
}

fn target() -> Solo {
    Solo::with(Config::strict(), Service::XrcTarget, receive_attr(), send_attr())
}

/// A request for queue `srq`.
fn request(kind: Kind, n: u32, srq: u32) -> Craft {
    let mut packet = Craft::of(Transport::Xrc, kind, THEIR_PSN + n).asks();
    packet.headers.srq = srq;
    packet
}

/// What the engine makes of it, before anybody answers.
fn offer(solo: &mut Solo, packet: &Craft) -> Result<Received, DropReason> {
    let bytes = packet.bytes();
    solo.host.engine.handle_packet(solo.now, &bytes, bytes.len())
}

/// RC-9.1, RC-1.2.
#[test]
fn an_initiator_names_the_shared_receive_queue() {
    let receive = ReceiveAttr::default();
    let mut solo = initiator();
    let request = SendRequest { srq: 0x33, ..SendRequest::new(WrId(1), Operation::Send, 300) };
    solo.host.post(solo.now, request, vec![0; 300]);
    let sent = solo.sent();
    assert!(sent.iter().all(|seen| seen.headers.bth.opcode.transport == Transport::Xrc));
    assert_eq!((sent[0].headers.srq, sent[1].headers.srq), (0x33, 0x33));
    let ack = Craft::of(Transport::Xrc, Kind::Acknowledge, OUR_PSN + 1).says(Syndrome::ACK);
    solo.give(&ack).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::Ok)]);
    let request = Craft::of(Transport::Xrc, Kind::SendOnly, receive.rq_psn.get());
    assert_eq!(solo.give(&request), Err(DropReason::Service));
}

/// RC-9.1.
#[test]
fn a_target_learns_the_shared_receive_queue() {
    let mut solo = target();
    let received = offer(&mut solo, &request(Kind::SendOnly, 0, 0x44).with(4)).unwrap();
    let Some(Arrival::Send(data)) = received.arrival else { panic!("a message") };
    assert_eq!((received.srq, data.len, received.payload_at), (Some(0x44), 4, 16));
    solo.host.engine.accept(solo.now);
    let sent = solo.sent();
    assert_eq!(
        (sent[0].kind, sent[0].headers.bth.opcode.transport),
        (Kind::Acknowledge, Transport::Xrc)
    );
    let send = SendRequest::new(WrId(1), Operation::Send, 4);
    assert_eq!(solo.host.engine.post(solo.now, send), Err(PostError::State));
}

/// RC-9.2.
#[test]
fn an_unknown_queue_is_refused_for_good() {
    for kind in [Kind::SendOnly, Kind::WriteOnlyImm, Kind::ReadRequest, Kind::FetchAdd] {
        let mut solo = target();
        offer(&mut solo, &request(kind, 0, 5).about(0, 0)).unwrap();
        solo.host.engine.reject(solo.now, Reject::NoQueue);
        let mut events = std::iter::from_fn(|| solo.host.engine.poll_event());
        let failed = events.find(|event| matches!(event, Event::Failed { .. }));
        let Some(Event::Failed { cause, .. }) = failed else { panic!("{kind:?}") };
        assert_eq!(cause, Cause::Peer(Some(NakCode::InvalidQueue)), "{kind:?}");
        assert_eq!(solo.said(), [(Syndrome::from_code(0x64), THEIR_PSN)], "{kind:?}");
    }
}

/// RC-9.2. What a reliable connection without shared queues is told like that is nonsense.
#[test]
fn an_initiator_whose_queue_is_unknown_ends_with_status_15() {
    let mut solo = initiator();
    let send = |id| SendRequest { srq: 9, ..SendRequest::new(WrId(id), Operation::Send, 4) };
    (1..3).for_each(|id| solo.host.post(solo.now, send(id), vec![0; 4]));
    assert_eq!(solo.sent().len(), 2);
    let mut refusal = Craft::of(Transport::Xrc, Kind::Acknowledge, OUR_PSN);
    refusal = refusal.says(Syndrome::Nak(NakCode::InvalidQueue));
    solo.give(&refusal).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::RemoteInvalidQueue), (2, Status::Flushed)]);
    assert_eq!(Status::RemoteInvalidQueue.code(), 15);
    let mut plain = Solo::new();
    plain.host.post(plain.now, SendRequest::new(WrId(1), Operation::Send, 4), vec![0; 4]);
    plain.sent();
    let refused = plain.give(&nak(OUR_PSN, NakCode::InvalidQueue));
    assert_eq!(refused, Err(DropReason::Malformed));
    assert_eq!(plain.host.sends(), []);
}

/// RC-9.2.
#[test]
fn a_message_is_for_one_queue() {
    let parts = [
        (Kind::SendFirst, Kind::SendMiddle),
        (Kind::SendFirst, Kind::SendLast),
        (Kind::WriteFirst, Kind::WriteLast),
    ];
    for (first, later) in parts {
        let mut solo = target();
        solo.host.post_receive(1, 2000);
        solo.give(&request(first, 0, 5).about(0, 512).with(256)).unwrap();
        assert_eq!(solo.said(), [(Syndrome::ACK, THEIR_PSN)]);
        let refused = solo.give(&request(later, 1, 6).with(256));
        assert_eq!(refused, Err(DropReason::Refused), "{later:?}");
        let invalid = Syndrome::Nak(NakCode::InvalidRequest);
        assert_eq!(solo.said(), [(invalid, THEIR_PSN + 1)], "{later:?}");
    }
    let mut solo = target();
    (1..3).for_each(|id| solo.host.post_receive(id, 2000));
    solo.give(&request(Kind::SendOnly, 0, 5).with(8)).unwrap();
    solo.give(&request(Kind::SendOnly, 1, 6).with(8)).unwrap();
}

/// RC-9.2: the memory that an answer is read from is that of the queue's domain, also when it is
/// read again.
#[test]
fn an_answer_knows_the_queue_that_was_named() {
    let mut solo = target();
    let read = request(Kind::ReadRequest, 0, 0x123).about(0, 300);
    for (round, srq) in [0x123, 0x456].into_iter().enumerate() {
        let mut again = read.clone();
        again.headers.srq = srq;
        let taken = offer(&mut solo, &again);
        match round {
            0 => solo.host.engine.accept(solo.now),
            _ => assert_eq!(taken, Err(DropReason::Stale)),
        }
        let mut header = [0; HEADER_MAX];
        let mut answers = 0;
        while let Some(out) = solo.host.engine.poll_transmit(solo.now, &mut header) {
            let Payload::Response { srq, .. } = out.payload else { panic!("{out:?}") };
            assert_eq!(srq, Some(0x123), "that of the request that was executed");
            answers += 1;
        }
        assert_eq!(answers, 2);
    }
}
