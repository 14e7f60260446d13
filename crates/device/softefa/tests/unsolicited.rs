//! WRITE with immediate to a queue pair that posts no receives for it.

use std::sync::Arc;

use crate::common::{
    Side, init, outcome, poll_until, poll_until_counted, remote, side_of, side_with, up, wait_for,
};
use softefa::counters::Counter;
use softefa::{
    CompletionOp, Config, Cq, CreateQpError, Device, Profile, Qp, QpInit, QpKind, SendOp, Status,
};

const LEN: u32 = 300_000;
const FAULTS: &str = "loss=2%,reorder=20%,dup=2%,seed=5";

/// Returns a configuration that uses the wire, with faults.
fn faulty() -> Config {
    Config { faults: FAULTS.parse().expect("a fault"), ..Config::default() }
}

/// Returns a configuration in which long operations are copied, not sent.
fn local() -> Config {
    Config { local_key: Some(*b"any key of tests"), ..Config::default() }
}

fn unsolicited(config: &Config, change: impl FnOnce(&mut QpInit)) -> Side {
    side_with(config, QpKind::Srd, |init| {
        init.unsolicited_write_recv = true;
        change(init);
    })
}

#[test]
fn the_receiver_is_told_without_a_receive() {
    tell(&faulty());
    tell(&local());
}

fn tell(config: &Config) {
    let (mut a, b) = (unsolicited(config, |_| {}), unsolicited(config, |_| {}));
    let (ah, back) = (a.ah(&b), b.ah(&a));
    // The receive remains for the message at the end.
    b.post_recv(70, 900_000, 16);
    for (round, len) in [0, 8, LEN].into_iter().enumerate() {
        a.fill(0, &vec![round as u8 + 1; LEN as usize]);
        let write = SendOp::WriteImm(remote(&b, 0), 33);
        a.post(1, &ah, b.qp.qpn(), write, &[a.sge(0, len)]);
        let told = wait_for(&[&a, &b], 1, CompletionOp::UnsolicitedWrite);
        assert_eq!((told.wr_id, told.byte_len, told.imm), (0, len, Some(33)));
        assert_eq!((told.src_qpn, told.ahn), (a.qp.qpn(), back.ahn()));
        assert!(b.bytes(0, len as usize).iter().all(|byte| *byte == round as u8 + 1));
        wait_for(&[&a, &b], 0, CompletionOp::Write);
    }
    a.send(2, &b, &ah, 0, 8);
    assert_eq!(wait_for(&[&a, &b], 1, CompletionOp::Recv).wr_id, 70);
}

fn differ(mut a: Side, mut b: Side) {
    a.fill(0, &[1; LEN as usize]);
    b.fill(0, &[2; LEN as usize]);
    b.post_recv(1, 900_000, 16);
    for len in [0, 8, LEN] {
        let write = SendOp::WriteImm(remote(&b, 0), 33);
        assert_eq!(
            outcome(&a, &b, write, &[a.sge(0, len)]),
            Status::RemoteFeatureMismatch,
            "{len} bytes"
        );
    }
    assert!(b.bytes(0, LEN as usize).iter().all(|byte| *byte == 2), "a refused WRITE was placed");
    // All other operations work: libfabric falls back to them.
    assert_eq!(outcome(&a, &b, SendOp::Write(remote(&b, 0)), &[a.sge(0, LEN)]), Status::Ok);
    assert_eq!(outcome(&a, &b, SendOp::Read(remote(&b, 0)), &[a.sge(0, LEN)]), Status::Ok);
    let ah = a.ah(&b);
    a.send(2, &b, &ah, 0, 8);
    assert_eq!(wait_for(&[&a, &b], 1, CompletionOp::Recv).wr_id, 1);
}

#[test]
fn a_requester_that_expects_receives_is_refused() {
    for config in [faulty(), local()] {
        differ(side_of(QpKind::Srd, &config), unsolicited(&config, |_| {}));
    }
}

#[test]
fn a_requester_that_expects_none_is_refused() {
    for config in [faulty(), local()] {
        differ(unsolicited(&config, |_| {}), side_of(QpKind::Srd, &config));
    }
}

#[test]
fn a_completion_queue_full_of_them_holds_the_peer_back() {
    const DEPTH: u64 = 8;
    const WRITES: u64 = 50;
    let a = unsolicited(&Config::default(), |_| {});
    let b = unsolicited(&Config::default(), |init| {
        let small = Cq::create(init.recv_cq.device(), DEPTH as u32).expect("one more queue");
        (init.send_cq, init.recv_cq) = (Arc::clone(&small), small);
    });
    let ah = a.ah(&b);
    for id in 0..WRITES {
        let write = SendOp::WriteImm(remote(&b, 0), id as u32);
        a.post(id, &ah, b.qp.qpn(), write, &[a.sge(0, 8)]);
    }
    let mut accepted = 0;
    poll_until(&[&a], |_, _| {
        accepted += 1;
        accepted == DEPTH
    });
    poll_until_counted(&[&a], &b, Counter::RxRnr, 1);
    // Each completion that is polled makes room.
    let mut told = Vec::new();
    poll_until(&[&a, &b], |index, done| {
        assert_eq!(done.status, Status::Ok);
        told.extend(done.imm.filter(|_| index == 1));
        told.len() as u64 == WRITES
    });
    told.sort_unstable();
    assert!(told.into_iter().eq(0..WRITES as u32));
}

#[test]
fn only_srd_queue_pairs_of_the_latest_generation_have_it() {
    let config = Config { profile: Profile::Efa1, ..Config::default() };
    for (config, kind) in [(Config::default(), QpKind::Ud), (config, QpKind::Srd)] {
        let device = Device::open(&config.devices[0], &config).expect("a device");
        let pd = device.alloc_pd().expect("a domain");
        let cq = Cq::create(&device, 16).expect("a queue");
        let init = QpInit { unsolicited_write_recv: true, ..init(kind, &cq) };
        let refused = Qp::create(&pd, init);
        assert!(matches!(refused, Err(CreateQpError::NoUnsolicited(of)) if of == kind));
    }
}

#[test]
fn a_reset_queue_pair_has_room_again() {
    let a = unsolicited(&Config::default(), |_| {});
    let b = unsolicited(&Config::default(), |init| {
        let small = Cq::create(init.recv_cq.device(), 1).expect("one more queue");
        (init.send_cq, init.recv_cq) = (Arc::clone(&small), small);
    });
    let write = SendOp::WriteImm(remote(&b, 0), 1);
    let ah = a.ah(&b);
    for _ in 0..2 {
        a.post(1, &ah, b.qp.qpn(), write, &[a.sge(0, 8)]);
        // `b` is not polled, so that its completion is removed by the reset.
        assert_eq!(wait_for(&[&a], 0, CompletionOp::Write).status, Status::Ok);
        let reset =
            softefa::ModifyQp { state: Some(softefa::QpState::Reset), ..Default::default() };
        b.qp.modify(&reset).expect("a reset is always possible");
        up(&b.qp, 7);
    }
    assert!(b.cq.pop().is_none());
}
