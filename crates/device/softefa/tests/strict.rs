//! A strict device refuses what hardware refuses.

use crate::common::{self, Side, init, outcome, remote, side_with, up, wait_for};
use softefa::{CompletionOp, Config, Cq, PostError, Qp, QpKind, SendOp, SendWr, Sge, Status};

const LEN: u32 = 100_000;

fn strict(config: Config) -> (Side, Side) {
    let config = Config { strict: true, ..config };
    let side = || side_with(&config, QpKind::Srd, |_| {});
    (side(), side())
}

fn rdma_needs_a_handle(config: Config) {
    let (mut a, mut b) = strict(config);
    a.fill(0, &[1; LEN as usize]);
    b.fill(0, &[2; LEN as usize]);
    b.post_recv(7, 900_000, 16);
    let target = remote(&b, 0);
    for op in [SendOp::Read(target), SendOp::Write(target), SendOp::WriteImm(target, 5)] {
        for len in [0, 8, LEN] {
            assert_eq!(
                outcome(&a, &b, op, &[a.sge(0, len)]),
                Status::RemoteUnknownPeer,
                "{op:?}, {len} bytes"
            );
        }
    }
    assert!(a.bytes(0, LEN as usize).iter().all(|byte| *byte == 1), "read all the same");
    assert!(b.bytes(0, LEN as usize).iter().all(|byte| *byte == 2), "written all the same");
    // A handle of another domain does not help.
    let other = b.device.alloc_pd().expect("a domain");
    let _foreign = other.create_ah(a.device.gid()).expect("a handle");
    assert_eq!(outcome(&a, &b, SendOp::Read(target), &[a.sge(0, LEN)]), Status::RemoteUnknownPeer);
    let back = b.ah(&a);
    assert_eq!(outcome(&a, &b, SendOp::Read(target), &[a.sge(0, LEN)]), Status::Ok);
    assert_eq!(outcome(&a, &b, SendOp::Write(target), &[a.sge(0, LEN)]), Status::Ok);
    back.destroy();
    assert_eq!(outcome(&a, &b, SendOp::Write(target), &[a.sge(0, LEN)]), Status::RemoteUnknownPeer);
    // Messages need no handle.
    let ah = a.ah(&b);
    a.send(2, &b, &ah, 0, 8);
    assert_eq!(wait_for(&[&a, &b], 1, CompletionOp::Recv).wr_id, 7);
}

#[test]
fn rdma_needs_a_handle_for_its_requester() {
    rdma_needs_a_handle(Config::default());
}

#[test]
fn rdma_that_would_be_copied_needs_it_too() {
    rdma_needs_a_handle(Config { local_key: Some(*b"any key of tests"), ..Config::default() });
}

#[test]
fn every_send_completes_and_every_receive_has_an_entry() {
    for is_strict in [true, false] {
        let config = Config { strict: is_strict, ..Config::default() };
        let a = side_with(&config, QpKind::Srd, |_| {});
        let b = side_with(&config, QpKind::Srd, |_| {});
        let cq = Cq::create(&a.device, 16).expect("a queue");
        let mut silent = init(QpKind::Srd, &cq);
        silent.sq_sig_all = false;
        let qp = Qp::create(&a.pd, silent).expect("a queue pair");
        up(&qp, 7);
        let (ah, sges) = (a.ah(&b), [a.sge(0, 8)]);
        let wr = common::wr(1, &ah, b.qp.qpn(), SendOp::Send, &sges);
        let unsignaled = qp.post_send(&SendWr { signaled: false, ..wr });
        let empty: &[Sge] = &[];
        let received = qp.post_recv(1, empty);
        if is_strict {
            assert_eq!(
                (unsignaled, received),
                (Err(PostError::Unsignaled), Err(PostError::NoSges))
            );
        } else {
            assert_eq!((unsignaled, received), (Ok(()), Ok(())));
        }
        assert_eq!(qp.post_send(&wr), Ok(()));
        qp.destroy();
    }
}
