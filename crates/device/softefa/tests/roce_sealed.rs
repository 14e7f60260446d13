//! RoCE devices that seal their packets (RC-1.13).
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::net::IpAddr;

use crate::common::roce::{
    Link, WIRES, add, assert_quiet, config, connect, ends, gather, pair_of, pattern, post, side,
};
use crate::common::sealing::{count, key};
use crate::common::{self, QKEY, Side, remote, up};
use rc::ud::GROUP_QPN;
use softefa::counters::Counter;
use softefa::{Config, Gid, QpKind, QpState, SendOp, Status, WireChoice};

use Status::{Ok, RetryExceeded};

/// The counters that must stay 0 between two ends that share a key.
const TROUBLE: [Counter; 6] = [
    Counter::RxSealErrors,
    Counter::RxSealReplays,
    Counter::RxSealLate,
    Counter::RxSealStrangers,
    Counter::RxNotices,
    Counter::RxDrops,
];

fn sealed(wire: WireChoice, byte: u8) -> Config {
    Config { key: Some(key(byte)), ..config(wire, "") }
}

fn assert_no_trouble(of: &Side) {
    for counter in TROUBLE {
        assert_eq!(count(of, counter), 0, "{counter:?}");
    }
}

/// Each operation is done in each length that is split differently.
#[test]
fn connections_do_everything() {
    for wire in WIRES {
        let link = Link { mtu: 4096, ..Link::default() };
        let (mut a, b) = pair_of(&sealed(wire, 1), QpKind::Rc, 1 << 20, &link);
        for (id, len) in [0, 1, 1023, 4096, 4097, 100_000u32].into_iter().enumerate() {
            let (id, bytes) = (id as u64, pattern(id, len as usize));
            a.fill(0, &bytes);
            b.post_recv(id, 0, 1 << 18);
            post(&a, id, SendOp::Send, &[a.sge(0, len)]);
            post(&a, id, SendOp::Write(remote(&b, 1 << 18)), &[a.sge(0, len)]);
            post(&a, id, SendOp::Read(remote(&b, 1 << 18)), &[a.sge(1 << 18, len)]);
            post(&a, id, add(remote(&b, 1 << 19), 1), &[a.sge(1 << 19, 8)]);
            let found = gather(&[&a, &b], 5);
            assert_eq!(ends(&found[0], true), [(id, Ok); 4]);
            assert_eq!(ends(&found[1], false), [(id, Ok)]);
            let len = len as usize;
            assert!(b.bytes(0, len) == bytes && b.bytes(1 << 18, len) == bytes);
            assert!(a.bytes(1 << 18, len) == bytes, "read back");
        }
        [&a, &b].into_iter().for_each(assert_no_trouble);
    }
}

#[test]
fn a_lossy_network_is_no_trouble() {
    let lossy = "loss=5%,dup=5%,reorder=5%,seed=3".parse().unwrap();
    let config = Config { faults: lossy, ..sealed(WireChoice::Udp, 1) };
    let (mut a, b) = pair_of(&config, QpKind::Rc, 1 << 20, &Link::default());
    for id in 0..50 {
        let bytes = pattern(id as usize, 20_000);
        a.fill(0, &bytes);
        b.post_recv(id, 0, 20_000);
        post(&a, id, SendOp::Send, &[a.sge(0, 20_000)]);
        let found = gather(&[&a, &b], 2);
        assert_eq!(
            (ends(&found[0], true), ends(&found[1], false)),
            (vec![(id, Ok)], vec![(id, Ok)])
        );
        assert!(b.bytes(0, 20_000) == bytes);
    }
    assert!(count(&b, Counter::RxSealReplays) > 0, "each datagram is taken once");
    assert_eq!(count(&b, Counter::RxSealErrors), 0);
}

#[test]
fn unreliable_messages_and_datagrams_arrive() {
    for wire in WIRES {
        let config = sealed(wire, 1);
        let (mut a, b) = pair_of(&config, QpKind::Uc, 1 << 16, &Link::default());
        let bytes = pattern(1, 5000);
        a.fill(0, &bytes);
        b.post_recv(1, 0, 5000);
        post(&a, 1, SendOp::Send, &[a.sge(0, 5000)]);
        gather(&[&a, &b], 2);
        assert!(b.bytes(0, 5000) == bytes);
        let [mut c, d] = [0, 1].map(|_| side(&config, QpKind::Ud, 1 << 16));
        [&c, &d].iter().for_each(|side| up(&side.qp, 7));
        let [.., high, low] = std::process::id().to_be_bytes();
        let group = Gid::of_roce(IpAddr::from([239, high, low, 50]));
        d.qp.attach(group).unwrap();
        c.fill(0, &bytes);
        for (gid, qpn) in [(d.device.gid(), d.qp.qpn()), (group, GROUP_QPN)] {
            d.post_recv(2, 0, 5000);
            let ah = c.pd.create_ah(gid).unwrap();
            c.qp.post_send(&common::wr(3, &ah, qpn, SendOp::Send, &[c.sge(0, 4000)])).unwrap();
            let got = gather(&[&c, &d], 2)[1][0];
            assert_eq!((got.status, got.byte_len, got.src_qpn), (Ok, 4040, c.qp.qpn()));
            assert!(d.bytes(40, 4000) == &bytes[..4000]);
        }
        [&a, &b, &c, &d].into_iter().for_each(assert_no_trouble);
    }
}

/// Checks that the other end cannot open the packets, and reports it: the connection ends as if
/// there were no peer, and as fast.
fn assert_refused(a: &Side, b: &Side) {
    connect(a, b, &Link::default());
    b.post_recv(1, 0, 100);
    post(a, 7, SendOp::Send, &[a.sge(0, 8)]);
    post(a, 8, SendOp::Send, &[a.sge(0, 8)]);
    let found = gather(&[a, b], 2);
    assert_eq!(ends(&found[0], true), [(7, RetryExceeded), (8, Status::Flushed)]);
    assert!(count(b, Counter::RxSealErrors) > 0 && count(b, Counter::TxNotices) > 0);
    assert!(count(a, Counter::RxNotices) > 0);
    assert_eq!(b.qp.query().state, QpState::ReadyToSend, "nobody has spoken to it");
}

#[test]
fn another_key_ends_the_connection() {
    let [a, b] = [1, 2].map(|byte| side(&sealed(WireChoice::Auto, byte), QpKind::Rc, 1 << 16));
    assert_refused(&a, &b);
}

#[test]
fn a_key_at_one_end_ends_the_connection() {
    let config = config(WireChoice::Auto, "");
    let (a, b) = (
        side(&sealed(WireChoice::Auto, 1), QpKind::Rc, 1 << 16),
        side(&config, QpKind::Rc, 1 << 16),
    );
    assert_refused(&a, &b);
}

/// In the clear a notice of the peer cannot be told from that of a stranger, so that the peer does
/// not answer.
#[test]
fn without_the_key_nobody_answers() {
    let config = Config { strict: true, ..config(WireChoice::Udp, "") };
    let a = side(&config, QpKind::Rc, 1 << 16);
    let b = side(&sealed(WireChoice::Udp, 1), QpKind::Rc, 1 << 16);
    connect(&a, &b, &Link { timeout: 10, retry_cnt: 2, ..Link::default() });
    b.post_recv(1, 0, 100);
    post(&a, 7, SendOp::Send, &[a.sge(0, 8)]);
    assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(7, RetryExceeded)]);
    assert!(count(&b, Counter::RxSealErrors) > 0);
    assert_eq!(b.bytes(0, 8), [0; 8]);
}

#[test]
fn datagrams_of_others_are_lost() {
    let (ours, theirs) = (sealed(WireChoice::Udp, 1), sealed(WireChoice::Udp, 2));
    let b = side(&ours, QpKind::Ud, 1 << 16);
    up(&b.qp, 7);
    let [.., high, low] = std::process::id().to_be_bytes();
    let group = Gid::of_roce(IpAddr::from([239, high, low, 51]));
    b.qp.attach(group).unwrap();
    b.post_recv(1, 0, 5000);
    let mut errors = 0;
    for config in [theirs, config(WireChoice::Udp, "")] {
        let a = side(&config, QpKind::Ud, 1 << 16);
        up(&a.qp, 7);
        for (gid, qpn) in [(b.device.gid(), b.qp.qpn()), (group, GROUP_QPN)] {
            let ah = a.pd.create_ah(gid).unwrap();
            a.qp.post_send(&common::wr(3, &ah, qpn, SendOp::Send, &[a.sge(0, 4000)])).unwrap();
            assert_eq!(ends(&gather(&[&a], 1)[0], true), [(3, Ok)], "sent, as far as it knows");
            errors += 1;
            common::poll_until_counted(&[&b], &b, Counter::RxSealErrors, errors);
        }
    }
    assert_quiet(&[&b]);
    assert_eq!(QKEY, b.qp.query().qkey, "the queue key was right");
}

/// A connection accepts packets that its peer has sealed, but not those of another holder of the
/// key at the same address.
#[test]
fn another_holder_of_the_key_is_not_the_peer() {
    let config = sealed(WireChoice::Udp, 1);
    let (a, b) = pair_of(&config, QpKind::Rc, 1 << 16, &Link::default());
    let other = side(&config, QpKind::Rc, 1 << 16);
    // The other one uses the same queue pair number, and the numbers that are expected next.
    let link = Link { timeout: 0, ..Link::default() };
    common::roce::up(&other.qp, &link, (b.device.gid(), b.qp.qpn()), link.psn);
    b.post_recv(1, 0, 100);
    post(&other, 9, SendOp::Send, &[other.sge(0, 8)]);
    common::poll_until_counted(&[&other, &b], &b, Counter::RxSealErrors, 1);
    assert_quiet(&[&other, &b]);
    post(&a, 7, SendOp::Send, &[a.sge(0, 8)]);
    let found = gather(&[&a, &b], 2);
    assert_eq!((ends(&found[0], true), ends(&found[1], false)), (vec![(7, Ok)], vec![(1, Ok)]));
}
