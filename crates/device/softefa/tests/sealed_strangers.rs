//! Attacks of strangers on sealed queue pairs: with another key, without a key, and with recorded,
//! altered and forged datagrams.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use crate::common::scripted::{OP_SEND, Scripted, address, until};
use crate::common::sealing::{count, key, keyed, sealed_side};
use crate::common::{
    self, QKEY, Side, first, init, only, outcome, side, side_of, side_with, up, wait_for,
};
use softefa::counters::Counter;
use softefa::seal::{NOTICE_BYTES, Notice};
use softefa::{CompletionOp, Config, Qp, QpKind, SendOp, Status, UD_GRH_BYTES};
use srd::PathId;
use srd::wire::ud::UdRepr;

/// Takes turns of `of` until it has counted to `at_least`; nothing may complete meanwhile.
fn counted(of: &Side, counter: Counter, at_least: u64) {
    common::poll_until_counted(&[of], of, counter, at_least);
}

/// Returns an unreliable datagram for `to`, ready to be sent.
fn unreliable(from: &mut Scripted, to: &Side, payload: &[u8]) -> Vec<u8> {
    let (src_qpn, dst_qpn, len) = (from.qpn(), to.qp.port(), payload.len() as u16);
    let (path, qkey, imm, op, flags) = (PathId(0), QKEY, 0, 0, 0);
    let mut header = [0; UdRepr::LEN];
    UdRepr { path, src_qpn, dst_qpn, qkey, imm, op, flags, len }.emit(&mut header);
    let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), dst_qpn);
    from.finish(to, [&header[..], payload].concat())
}

/// Sends a message from a peer with the key to a side, and returns the datagrams that carried it.
fn exchange(peer: &mut Scripted, b: &Side) -> Vec<Vec<u8>> {
    b.post_recv(1, 0, 100);
    let id = peer.send(address(b), OP_SEND, b"recorded");
    until(peer, |peer| {
        peer.turn(|_| Ok(()));
        if let Some(done) = b.cq.poll_one() {
            assert_eq!((done.status, done.byte_len), (Status::Ok, 8));
        }
        peer.ended.contains_key(&id)
    });
    assert_eq!(b.bytes(0, 8), b"recorded");
    peer.sent.clone()
}

/// Checks that both ends learn of it in either direction, as if the queue key had been wrong.
fn assert_strangers(a: &Side, b: &Side) {
    assert_eq!(outcome(a, b, SendOp::Send, &[a.sge(0, 8)]), Status::RemoteBadDestQpn);
    assert!(count(b, Counter::RxSealErrors) > 0 && count(b, Counter::TxNotices) > 0);
    assert!(count(a, Counter::RxNotices) > 0);
    // There are many at once, some of which were not sent yet, and RDMA.
    let ah = a.ah(b);
    for wr_id in 0..300 {
        a.send(wr_id, b, &ah, 0, 1_000);
    }
    a.post(300, &ah, b.qp.qpn(), SendOp::Write(common::remote(b, 0)), &[a.sge(0, 100_000)]);
    for _ in 0..=300 {
        let mut done = None;
        common::poll_until(&[a, b], |index, completion| {
            assert_eq!(index, 0);
            done = Some(completion);
            true
        });
        assert_eq!(done.map(|done| done.status), Some(Status::RemoteBadDestQpn));
    }
}

#[test]
fn another_key_is_another_number() {
    let [a, b] = [1, 2].map(|byte| side_of(QpKind::Srd, &keyed(byte, "")));
    assert_strangers(&a, &b);
    assert_strangers(&b, &a);
}

#[test]
fn one_key_is_no_key() {
    let (sealed, clear) = (sealed_side(QpKind::Srd, ""), side(QpKind::Srd, ""));
    sealed.post_recv(9, 0, 100);
    clear.post_recv(9, 0, 100);
    assert_strangers(&sealed, &clear);
    assert_strangers(&clear, &sealed);
    assert_eq!(count(&clear, Counter::RxCrcErrors), 0);
}

/// There is one line per device and host, however many datagrams arrive.
#[test]
fn standard_error_says_it_once() {
    const NAME: &str = "standard_error_says_it_once";
    const CHILD: &str = "SOFTEFA_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        a_damaged_datagram_says_nothing();
        return one_key_is_no_key();
    }
    let child = only(module_path!(), NAME).env(CHILD, "1").output().expect("a child");
    assert!(child.status.success(), "{child:?}");
    let text = String::from_utf8_lossy(&child.stderr);
    let lines: Vec<_> = text.lines().filter(|line| line.contains("cannot be opened")).collect();
    assert_eq!(lines.len(), 2, "one of each device: {text}");
    assert!(lines[0].contains("127.0.0.1") && lines[0].contains("rx_seal_errors"), "{text}");
}

/// This includes the first datagram of a sender.
fn a_damaged_datagram_says_nothing() {
    let (mut peer, b) = (Scripted::with_key(&key(1)), sealed_side(QpKind::Ud, ""));
    b.post_recv(1, 0, 100);
    let mut send = |at: Option<usize>| {
        let mut datagram = unreliable(&mut peer, &b, b"damaged");
        at.inspect(|&at| datagram[at] ^= 1);
        peer.send_raw(&b, &datagram);
    };
    send(Some(30));
    counted(&b, Counter::RxSealErrors, 1);
    send(None);
    wait_for(&[&b], 0, CompletionOp::Recv);
    // The kind and the numbers in the datagram are altered, with the same result.
    for (times, at) in [(2, 0), (3, 5), (4, 7), (5, 40), (6, 41)] {
        send(Some(at));
        counted(&b, Counter::RxSealErrors, times);
    }
}

#[test]
fn unreliable_datagrams_of_strangers_are_lost() {
    let (a, b) = (sealed_side(QpKind::Ud, ""), side(QpKind::Ud, ""));
    for (from, to) in [(&a, &b), (&b, &a)] {
        to.post_recv(1, 0, 100);
        assert_eq!(outcome(from, to, SendOp::Send, &[from.sge(0, 8)]), Status::Ok);
        counted(to, Counter::RxSealErrors, 1);
    }
}

#[test]
fn a_recorded_datagram_is_taken_once() {
    let (mut peer, b) = (Scripted::with_key(&key(1)), sealed_side(QpKind::Ud, ""));
    let datagram = unreliable(&mut peer, &b, b"once");
    b.post_recv(1, 0, 100);
    peer.send_raw(&b, &datagram);
    let received = wait_for(&[&b], 0, CompletionOp::Recv);
    assert_eq!(received.byte_len as usize, UD_GRH_BYTES + 4);
    b.post_recv(2, 0, 100);
    for times in 1..10 {
        peer.send_raw(&b, &datagram);
        counted(&b, Counter::RxSealReplays, times);
    }
    // The datagram is far behind: 8,192 were taken since.
    for _ in 0..8_192 {
        unreliable(&mut peer, &b, b"");
    }
    let far = unreliable(&mut peer, &b, b"far");
    peer.send_raw(&b, &far);
    wait_for(&[&b], 0, CompletionOp::Recv);
    b.post_recv(3, 0, 100);
    peer.send_raw(&b, &datagram);
    counted(&b, Counter::RxSealLate, 1);
    assert_eq!(count(&b, Counter::TxNotices), 0, "its sender has the key");
}

#[test]
fn recorded_messages_change_nothing() {
    let (mut peer, b) = (Scripted::with_key(&key(1)), sealed_side(QpKind::Srd, ""));
    let recorded = exchange(&mut peer, &b);
    b.post_recv(2, 0, 100);
    for datagram in &recorded {
        peer.send_raw(&b, datagram);
    }
    counted(&b, Counter::RxSealReplays, recorded.len() as u64);
}

/// The successor has the number and the queue key of the queue pair for which the opening was
/// recorded.
#[test]
fn a_recorded_opening_opens_nothing_at_a_successor() {
    let (mut peer, b) = (Scripted::with_key(&key(1)), sealed_side(QpKind::Srd, "qpn-reuse"));
    let recorded = exchange(&mut peer, &b);
    b.qp.destroy();
    let successor = Qp::create(&b.pd, init(QpKind::Srd, &b.cq)).expect("a queue pair");
    assert_eq!(successor.qpn(), b.qp.qpn());
    up(&successor, 7);
    successor.post_recv(5, &[b.sge(0, 100)]).expect("posted");
    let challenges = count(&b, Counter::StrangerChallenges);
    for _ in 0..3 {
        for datagram in &recorded {
            peer.send_raw(&b, datagram);
        }
    }
    counted(&b, Counter::RxSealReplays, 2 * recorded.len() as u64);
    assert!(count(&b, Counter::StrangerChallenges) > challenges, "they open, and are asked");
    // The recorded opening works for a peer that has just sent something.
    peer.restart();
    let id = peer.send(address(&b), OP_SEND, b"fresh");
    let mut received = None;
    until(&mut peer, |peer| {
        peer.turn(|_| Ok(()));
        received = received.or_else(|| b.cq.poll_one());
        peer.ended.contains_key(&id) && received.is_some()
    });
    assert_eq!(received.map(|done| (done.wr_id, done.byte_len)), Some((5, 5)));
}

#[test]
fn every_altered_byte_is_noticed() {
    let (mut peer, b) = (Scripted::with_key(&key(1)), sealed_side(QpKind::Ud, ""));
    let datagram = unreliable(&mut peer, &b, b"untouched");
    b.post_recv(1, 0, 100);
    for at in 0..datagram.len() {
        let mut bent = datagram.clone();
        bent[at] ^= 1 << (at % 8);
        peer.send_raw(&b, &bent);
        counted(&b, Counter::RxSealErrors, at as u64 + 1);
    }
    for len in (0..datagram.len()).rev() {
        peer.send_raw(&b, &datagram[..len]);
    }
    peer.send_raw(&b, &datagram);
    let received = wait_for(&[&b], 0, CompletionOp::Recv);
    assert_eq!((received.wr_id, received.byte_len as usize), (1, UD_GRH_BYTES + 9));
    // From a host that has the key it counts as damage, and is no reason to give up.
    let [notices, errors] = [Counter::TxNotices, Counter::RxSealErrors].map(|of| count(&b, of));
    assert!(notices > 0);
    let mut bent = unreliable(&mut peer, &b, b"damaged");
    bent[50] ^= 1;
    peer.send_raw(&b, &bent);
    counted(&b, Counter::RxSealErrors, errors + 1);
    assert_eq!(count(&b, Counter::TxNotices), notices);
}

/// Returns the next datagram of the device of `a` to a peer that does not answer.
fn next_datagram(a: &Side, peer: &Scripted) -> Vec<u8> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        assert!(a.cq.poll_one().is_none());
        if let Some(datagram) = peer.take_raw() {
            return datagram;
        }
        assert!(Instant::now() < deadline, "it sends nothing");
    }
}

/// A datagram that was damaged in the network ends nothing, because the next one may be intact
/// (SRD-11.10).
#[test]
fn one_notice_is_not_believed() {
    let (mut peer, a) = (Scripted::with_key(&key(1)), sealed_side(QpKind::Srd, ""));
    let ah = a.pd.create_ah(a.device.gid()).expect("an address handle");
    a.post(1, &ah, peer.qpn(), SendOp::Send, &[a.sge(0, 8)]);
    let lost = next_datagram(&a, &peer);
    for times in 1..=3 {
        peer.send_raw(&a, &Notice::about(&lost).expect("a notice").emit());
        counted(&a, Counter::RxNotices, times);
    }
    let mut done = None;
    until(&mut peer, |peer| {
        peer.turn(|_| Ok(()));
        done = a.cq.poll_one();
        done.is_some()
    });
    assert_eq!(done.map(|done| done.status), Some(Status::Ok));
    // From now on the notices come from another sender.
    a.post(2, &ah, peer.qpn(), SendOp::Send, &[a.sge(0, 8)]);
    for times in 4..=6 {
        let lost = next_datagram(&a, &peer);
        peer.send_raw(&a, &Notice::about(&lost).expect("a notice").emit());
        counted(&a, Counter::RxNotices, times);
    }
}

#[test]
fn two_notices_are_believed_at_first_contact() {
    let (peer, a) = (Scripted::with_key(&key(1)), sealed_side(QpKind::Srd, ""));
    let ah = a.pd.create_ah(a.device.gid()).expect("an address handle");
    a.post(1, &ah, peer.qpn(), SendOp::Send, &[a.sge(0, 8)]);
    for _ in 0..2 {
        let lost = next_datagram(&a, &peer);
        peer.send_raw(&a, &Notice::about(&lost).expect("a notice").emit());
    }
    let done = common::settled_by(Duration::from_secs(10), || a.cq.poll_one());
    assert_eq!(done.status, Status::RemoteBadDestQpn);
}

/// A process that has not seen the datagrams cannot end a connection, with or without the key.
#[test]
fn forged_notices_end_nothing() {
    // The forged bits are those of the session and counter (without the lowest bits, which may have
    // been used by now), or those of the token.
    let cases = [(sealed_side(QpKind::Srd, ""), 64..184), (side(QpKind::Srd, ""), 96..160)];
    for (a, secret_bits) in cases {
        let peer = Scripted::new();
        let ah = a.pd.create_ah(a.device.gid()).expect("an address handle");
        a.post(1, &ah, peer.qpn(), SendOp::Send, &[a.sge(0, 8)]);
        let lost = next_datagram(&a, &peer);
        let mut sent = 0;
        for bit in secret_bits {
            let mut forged = lost.clone();
            forged[bit / 8] ^= 0x80 >> (bit % 8);
            let notice = Notice::about(&forged).expect("a notice").emit();
            assert_eq!(notice.len(), NOTICE_BYTES);
            peer.send_raw(&a, &notice);
            sent += 1;
            counted(&a, Counter::RxNotices, sent);
        }
        assert_eq!(a.qp.send_room(), a.qp.init().sq_depth - 1, "it is still on its way");
    }
}

/// The lengths in envelopes are hostile, alone and in front of others in the same train.
#[test]
fn hostile_lengths_cost_no_more_than_their_train() {
    let (mut peer, b) = (Scripted::with_key(&key(1)), sealed_side(QpKind::Ud, ""));
    let len = unreliable(&mut peer, &b, &[7; 60]).len() as u16;
    for named in [0, 1, 51, 52, 53, len - 1, len + 1, 2 * len + 1, 3 * len, 3 * len + 1, 65_535] {
        let train: Vec<_> = (0..3).map(|_| unreliable(&mut peer, &b, &[7; 60])).collect();
        let mut hostile = train.concat();
        hostile[2..4].copy_from_slice(&named.to_be_bytes());
        let (before, pieces) = (count(&b, Counter::RxSealErrors), 3 * len);
        let cut = if (52..=pieces).contains(&named) { pieces.div_ceil(named) } else { 1 };
        peer.send_train(&b, &hostile, len);
        counted(&b, Counter::RxSealErrors, before + u64::from(cut));
        assert_eq!(count(&b, Counter::RxSealErrors), before + u64::from(cut), "{named}");
        // Its contents may come again, and the next datagrams are not affected.
        let next: Vec<_> = (0..3).map(|_| unreliable(&mut peer, &b, &[7; 60])).collect();
        for wr_id in 0..6 {
            b.post_recv(wr_id, 0, 200);
        }
        peer.send_train(&b, &train.concat(), len);
        peer.send_train(&b, &next.concat(), len);
        for _ in 0..6 {
            let received = wait_for(&[&b], 0, CompletionOp::Recv);
            assert_eq!(received.byte_len as usize, UD_GRH_BYTES + 60);
        }
    }
    let runs = count(&b, Counter::RxSyscalls);
    assert!(runs <= 33, "{runs} system calls: these were no trains");
}

/// Each stranger's datagram gets one answer at most, answers and datagrams to ports without a queue
/// pair get none, and the rate is limited.
#[test]
fn strangers_are_answered_with_measure() {
    let b = sealed_side(QpKind::Srd, "");
    let mut peer = Scripted::new();
    let clear = unreliable(&mut peer, &b, b"in the clear");
    let mut elsewhere = clear.clone();
    elsewhere[4..6].copy_from_slice(&53u16.to_be_bytes());
    peer.send_raw(&b, &elsewhere);
    counted(&b, Counter::RxSealErrors, 1);
    assert_eq!(count(&b, Counter::TxNotices), 0);
    let mut heard = 0;
    let mut hear = || {
        while let Some(answer) = peer.take_raw() {
            assert_eq!(Notice::parse(&answer), Notice::about(&clear));
            heard += 1;
        }
        heard
    };
    for times in 2..3_000 {
        peer.send_raw(&b, &clear);
        counted(&b, Counter::RxSealErrors, times);
        hear();
    }
    let answered = count(&b, Counter::TxNotices);
    assert!((1..2_999).contains(&answered), "{answered}");
    let deadline = Instant::now() + Duration::from_secs(10);
    while hear() < answered {
        assert!(Instant::now() < deadline, "{answered} were sent");
    }
    assert_eq!(hear(), answered);
}

/// A wrong queue key has the same effect as without sealing (SRD-6.3), because the key of the file
/// is an additional check.
#[test]
fn queue_keys_still_count() {
    let (a, b) = (sealed_side(QpKind::Srd, ""), sealed_side(QpKind::Srd, ""));
    let change = softefa::ModifyQp { qkey: Some(QKEY + 1), ..Default::default() };
    b.qp.modify(&change).expect("changed");
    b.post_recv(1, 0, 100);
    let ah = a.ah(&b);
    a.send(1, &b, &ah, 0, 8);
    assert_eq!(first(&a, &b, CompletionOp::Send), Status::RemoteBadDestQpn);
    assert_eq!(count(&b, Counter::RxSealErrors), 0);
}

/// `--integrity` and `--strict` have no effect on sealing.
#[test]
fn other_settings_do_not_matter() {
    let config = Config { integrity: softefa::Integrity::Crc32c, strict: true, ..keyed(1, "") };
    let (a, b) = (side_with(&config, QpKind::Srd, |_| {}), sealed_side(QpKind::Srd, ""));
    b.post_recv(1, 0, 100);
    let ah = a.ah(&b);
    a.send(1, &b, &ah, 0, 8);
    wait_for(&[&a, &b], 1, CompletionOp::Recv);
    assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Send).status, Status::Ok);
}
