//! SRD between two queue pairs over real sockets.

use std::collections::HashSet;

use crate::common::{
    self, Side, init, pair, poll_until, poll_until_counted, side_of, up, wait_for,
};
use softefa::counters::Counter;
use softefa::{
    CompletionOp, Config, ModifyQp, PostError, Qp, QpKind, QpState, SendOp, Sge, Status, WireChoice,
};

#[test]
fn a_message_arrives_with_its_sender_and_immediate() {
    let (mut a, b) = pair("");
    let (ah, back) = (a.ah(&b), b.ah(&a));
    a.fill(0, b"hello, fabric");
    b.post_recv(7, 100, 64);
    a.post(1, &ah, b.qp.qpn(), SendOp::SendImm(42), &[a.sge(0, 5), a.sge(5, 8)]);
    let received = wait_for(&[&a, &b], 1, CompletionOp::Recv);
    assert_eq!((received.wr_id, received.byte_len, received.imm), (7, 13, Some(42)));
    assert_eq!((received.src_qpn, received.ahn), (a.qp.qpn(), back.ahn()));
    assert_eq!(received.sgid(), a.device.gid());
    assert_eq!(b.bytes(100, 13), b"hello, fabric");
    assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Send).status, Status::Ok);
    assert!(b.device.counters().get(Counter::RxPkts) > 0);
}

/// Sends `count` messages of `len` bytes and checks that each arrives once and whole.
fn stream(fault: &str, count: u64, len: u32) {
    let (mut a, b) = pair(fault);
    let ah = a.ah(&b);
    let slots = 64;
    let room = len.max(16) as usize;
    for slot in 0..slots {
        b.post_recv(slot, slot as usize * room, len);
    }
    // Sends end in any order, so that a slot is free when the send that used it has ended.
    let mut free: Vec<u64> = (0..slots / 2).collect();
    let (mut sent, mut ended, mut seen) = (0u64, 0, HashSet::new());
    while ended < count || (seen.len() as u64) < count {
        while sent < count {
            let Some(slot) = free.pop() else { break };
            let at = slot as usize * room;
            let mut bytes = vec![sent as u8; len as usize];
            bytes[..8].copy_from_slice(&sent.to_le_bytes());
            a.fill(at, &bytes);
            a.send(slot, &b, &ah, at, len);
            sent += 1;
        }
        poll_until(&[&a, &b], |index, done| {
            assert_eq!(done.status, Status::Ok, "{done:?}");
            if index == 0 {
                ended += 1;
                free.push(done.wr_id);
                return true;
            }
            let at = done.wr_id as usize * room;
            let bytes = b.bytes(at, len as usize);
            let number = u64::from_le_bytes(*bytes.first_chunk().expect("at least 16 bytes"));
            assert!(
                bytes[8..].iter().all(|byte| *byte == number as u8),
                "message {number} is torn"
            );
            assert!(seen.insert(number), "message {number} arrived twice");
            b.post_recv(done.wr_id, at, len);
            true
        });
    }
    assert!(b.cq.pop().is_none());
}

#[test]
fn small_messages_arrive_once_each() {
    stream("", 20_000, 64);
}

#[test]
fn large_messages_arrive_once_each() {
    stream("", 5_000, 8928);
}

#[test]
fn loss_reordering_and_duplicates_are_healed() {
    stream("loss=2%,reorder=20%,dup=2%,seed=1", 5_000, 512);
}

#[test]
fn delay_only_delays() {
    stream("delay=100us..300us,seed=1", 500, 64);
}

#[test]
fn a_receiver_without_buffers_is_retried_until_it_has_one() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    a.send(1, &b, &ah, 0, 100);
    poll_until_counted(&[&a, &b], &b, Counter::RxRnr, 1);
    b.post_recv(2, 0, 100);
    assert_eq!(wait_for(&[&a, &b], 1, CompletionOp::Recv).wr_id, 2);
}

#[test]
fn retries_end_with_receiver_not_ready() {
    let (a, b) = pair("");
    a.qp.modify(&ModifyQp { state: Some(QpState::Reset), ..ModifyQp::default() }).unwrap();
    up(&a.qp, 3);
    let ah = a.ah(&b);
    a.send(1, &b, &ah, 0, 100);
    let done = wait_for(&[&a, &b], 0, CompletionOp::Send);
    assert_eq!((done.wr_id, done.status), (1, Status::RemoteRnr));
}

#[test]
fn a_short_buffer_fails_the_sender_and_stays_posted() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    b.post_recv(5, 0, 10);
    a.send(1, &b, &ah, 0, 11);
    let done = wait_for(&[&a, &b], 0, CompletionOp::Send);
    assert_eq!(done.status, Status::RemoteBadLength);
    a.send(2, &b, &ah, 0, 10);
    assert_eq!(wait_for(&[&a, &b], 1, CompletionOp::Recv).wr_id, 5);
}

#[test]
fn a_destroyed_queue_pair_answers_bad_destination() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    b.post_recv(1, 0, 64);
    a.send(1, &b, &ah, 0, 8);
    wait_for(&[&a, &b], 0, CompletionOp::Send);
    b.qp.destroy();
    b.qp.destroy();
    assert!(b.cq.pop().is_none(), "its completions are purged");
    a.send(2, &b, &ah, 0, 8);
    let done = wait_for(&[&a], 0, CompletionOp::Send);
    assert_eq!((done.wr_id, done.status), (2, Status::RemoteBadDestQpn));
}

#[test]
fn a_port_nobody_owns_answers_bad_destination() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let qpn = port.local_addr().unwrap().port();
    drop(port);
    a.post(1, &ah, qpn, SendOp::Send, &[a.sge(0, 8)]);
    let done = wait_for(&[&a], 0, CompletionOp::Send);
    assert_eq!(done.status, Status::RemoteBadDestQpn);
}

#[test]
fn a_wrong_queue_key_is_a_wrong_destination() {
    let (a, b) = pair("");
    b.qp.modify(&ModifyQp { qkey: Some(99), ..ModifyQp::default() }).unwrap();
    b.post_recv(1, 0, 64);
    let ah = a.ah(&b);
    a.send(1, &b, &ah, 0, 8);
    let done = wait_for(&[&a, &b], 0, CompletionOp::Send);
    assert_eq!(done.status, Status::RemoteBadDestQpn);
}

#[test]
fn local_mistakes_complete_with_their_code() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let outside = Sge { addr: a.mr.addr() + (1 << 20), len: 1, lkey: a.mr.lkey() };
    a.post(1, &ah, b.qp.qpn(), SendOp::Send, &[outside]);
    let stranger = Sge { lkey: a.mr.lkey() ^ 1, ..a.sge(0, 8) };
    a.post(2, &ah, b.qp.qpn(), SendOp::Send, &[stranger]);
    a.post(3, &ah, b.qp.qpn(), SendOp::Send, &[a.sge(0, 8929)]);
    for expected in [Status::LocalInvalidLkey, Status::LocalInvalidLkey, Status::LocalBadLength] {
        assert_eq!(a.cq.pop().unwrap().status, expected);
    }
}

#[test]
fn the_send_queue_is_full_until_completions_are_polled() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let mut init = init(QpKind::Srd, &a.cq);
    init.sq_depth = 2;
    let qp = Qp::create(&a.pd, init).unwrap();
    up(&qp, 7);
    b.post_recv(0, 0, 8);
    b.post_recv(1, 0, 8);
    let sges = [a.sge(0, 8)];
    let post = |id| qp.post_send(&common::wr(id, &ah, b.qp.qpn(), SendOp::Send, &sges));
    assert_eq!((post(1), post(2), post(3)), (Ok(()), Ok(()), Err(PostError::Full)));
    wait_for(&[&a, &b], 0, CompletionOp::Send);
    assert_eq!(post(3), Ok(()));
    qp.destroy();
}

#[test]
fn error_state_flushes_both_queues() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    a.post_recv(10, 0, 8);
    a.send(1, &b, &ah, 0, 8);
    a.qp.modify(&ModifyQp { state: Some(QpState::Error), ..ModifyQp::default() }).unwrap();
    let done: Vec<_> = std::iter::from_fn(|| a.cq.pop()).map(|c| (c.wr_id, c.status)).collect();
    assert_eq!(done, [(1, Status::Flushed), (10, Status::Flushed)]);
}

#[test]
fn a_silent_program_is_served_by_the_service_thread() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    b.post_recv(1, 0, 64);
    a.send(1, &b, &ah, 0, 8);
    // `b` is not polled, but its acknowledgement must come all the same.
    assert_eq!(wait_for(&[&a], 0, CompletionOp::Send).status, Status::Ok);
    assert!(b.device.counters().get(Counter::ServiceTurns) > 0);
    assert_eq!(b.cq.pop().unwrap().wr_id, 1);
}

/// Waits for a counter of a side whose program does not poll.
fn wait_for_count(of: &Side, counter: Counter, at_least: u64) {
    let start = std::time::Instant::now();
    while of.device.counters().get(counter) < at_least {
        assert!(start.elapsed().as_secs() < 10, "{counter:?} stays below {at_least}");
        std::thread::yield_now();
    }
}

#[test]
fn posts_without_polls_are_sent_and_repeated() {
    let (a, b) = pair("loss=30%,seed=2");
    let ah = a.ah(&b);
    (0..50).for_each(|id| b.post_recv(id, 0, 64));
    for id in 0..50 {
        a.send(id, &b, &ah, 0, 8);
        // Each is posted after the one before has been served; neither side is polled.
        wait_for_count(&b, Counter::RecvWrs, id + 1);
    }
}

#[test]
fn a_list_of_sends_leaves_without_a_poll() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    (0..2).for_each(|id| b.post_recv(id, 0, 64));
    let sges = [a.sge(0, 8)];
    for more in [true, false] {
        let wr = softefa::SendWr { more, ..common::wr(1, &ah, b.qp.qpn(), SendOp::Send, &sges) };
        a.qp.post_send(&wr).unwrap();
    }
    wait_for_count(&b, Counter::RecvWrs, 2);
}

#[test]
fn limits_are_free_again_as_soon_as_queue_pairs_are_destroyed() {
    let (a, _b) = pair("");
    for _ in 0..3 {
        let pd = a.device.alloc_pd().unwrap();
        let cq = softefa::Cq::create(&a.device, 16).unwrap();
        let most = a.device.attr().max_qp - 1;
        let all: Vec<_> =
            (0..most).map(|_| Qp::create(&pd, init(QpKind::Srd, &cq)).unwrap()).collect();
        assert!(Qp::create(&pd, init(QpKind::Srd, &cq)).is_err(), "the device has no more");
        all.iter().for_each(|qp| qp.destroy());
    }
}

#[test]
fn memory_that_was_deregistered_is_not_read_for_a_repetition() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    a.send(1, &b, &ah, 0, 100);
    // No receive is posted, so that the message must be sent again, by then without its memory.
    wait_for_count(&b, Counter::RxRnr, 1);
    a.mr.deregister();
    let done = wait_for(&[&a], 0, CompletionOp::Send);
    assert_eq!(done.status, Status::LocalInvalidLkey);
}

#[test]
fn a_receive_without_memory_fails_alone() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let stranger = Sge { lkey: b.mr.lkey() ^ 1, ..b.sge(0, 64) };
    b.qp.post_recv(1, &[stranger]).unwrap();
    b.post_recv(2, 0, 64);
    a.send(1, &b, &ah, 0, 8);
    let mut seen = Vec::new();
    poll_until(&[&a, &b], |index, done| {
        if index == 1 {
            seen.push((done.wr_id, done.status));
        }
        seen.len() == 2
    });
    assert_eq!(seen, [(1, Status::LocalInvalidLkey), (2, Status::Ok)]);
}

/// The post does not wait for a poll or for the service thread's next tick, 2 ms later.
#[test]
fn a_post_behind_another_leaves_without_a_poll() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    for number in 1..=5 {
        // Without a receive, and with a service thread that takes turns in between, the sender
        // would pause.
        b.post_recv(number, 0, 64);
        a.post(number, &ah, b.qp.qpn(), SendOp::Send, &[a.sge(0, 64)]);
        let sent = a.device.counters().get(Counter::TxPkts);
        assert_eq!(sent, number, "messages on the wire before anybody polled");
    }
}

/// A program that keeps its queue full and polls all the time, as benchmarks do.
#[test]
fn a_stream_leaves_in_bursts() {
    let (count, calls) = calls_of_a_stream(&Config::default());
    assert!(calls < count / 2, "{calls} system calls for {count} messages");
}

/// On a device where no post may wait, a post leaves at once: it may be the last before the program
/// stops polling.
#[test]
fn a_stream_leaves_post_by_post_where_all_are_sent_at_once() {
    let (count, calls) = calls_of_a_stream(&Config { send_at_once: true, ..Config::default() });
    assert!(calls >= count, "{calls} system calls for {count} messages");
}

/// Returns the number of messages of a stream over UDP, and that of the system calls that its
/// sender sends them with.
fn calls_of_a_stream(config: &Config) -> (u64, u64) {
    const COUNT: u64 = 20_000;
    let config = Config { wire: WireChoice::Udp, ..config.clone() };
    let [a, b] = [(); 2].map(|()| side_of(QpKind::Srd, &config));
    let ah = a.ah(&b);
    let (mut posted, mut ended) = (0, 0);
    while ended < COUNT {
        while posted < COUNT && posted - ended < 256 {
            b.post_recv(posted, 0, 64);
            a.post(posted, &ah, b.qp.qpn(), SendOp::Send, &[a.sge(0, 64)]);
            posted += 1;
        }
        ended += a.cq.poll(16, |done| assert_eq!(done.status, Status::Ok)) as u64;
        b.cq.poll(16, |_| {});
    }
    (COUNT, a.device.counters().get(Counter::TxSyscalls))
}
