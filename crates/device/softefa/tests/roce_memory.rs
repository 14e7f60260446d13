//! Memory that is removed under a connection: unmapped without the adapter's knowledge, or
//! deregistered in the middle of a message. A status reports it at the right side; nothing crashes,
//! and the memory is not touched afterwards.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;

use crate::common::pages::Pages;
use crate::common::roce::{
    EVERYTHING, Link, WIRES, add, assert_quiet, config, connect_qps, ends, gather, pair_of, post,
    side, wide, wr,
};
use crate::common::{Side, poll_until_counted, remote};
use softefa::counters::Counter;
use softefa::{
    Cq, Device, Mr, Qp, QpInit, QpKind, QpState, Remote, SendOp, SendWr, Sge, Srq, SrqAttr, Status,
    WireChoice,
};

use Status::{Flushed, LocalInvalidLkey, Ok, RemoteBadAddress, RemoteOperation};

const LEN: usize = 16 * Pages::LEN;

/// Returns pages that are registered at `side`; once unmapped they cannot be read or written any
/// more.
fn registered(side: &Side) -> (Pages, Arc<Mr>) {
    let pages = Pages::new(LEN);
    pages.number();
    let mr = side.pd.reg_mr(pages.addr(), LEN as u64, EVERYTHING).expect("a region");
    (pages, mr)
}

fn sge(mr: &Mr, len: u32) -> Sge {
    Sge { addr: mr.addr(), len, lkey: mr.lkey() }
}

fn far(mr: &Mr) -> Remote {
    Remote { addr: mr.addr(), rkey: mr.rkey() }
}

fn pairs(kind: QpKind, faults: &'static str) -> impl Iterator<Item = (Side, Side)> {
    let link = Link::default();
    WIRES.into_iter().map(move |wire| pair_of(&config(wire, faults), kind, 1 << 20, &link))
}

/// Lengths of one packet, of several, and of more than a window.
const LENGTHS: [u32; 4] = [8, 600, 5000, LEN as u32];

/// Checks the status of `op` on `sges` at `a`, and its consequences.
fn fails_with((a, b): &(Side, Side), op: SendOp, sges: &[Sge], status: Status, of_b: QpState) {
    post(a, 1, op, sges);
    a.qp.post_send(&SendWr { fenced: true, ..wr(2, SendOp::Write(remote(b, 0)), &[]) }).unwrap();
    let found = gather(&[a], 2);
    assert_eq!(ends(&found[0], true), [(1, status), (2, Flushed)], "{op:?}");
    assert_eq!((a.qp.query().state, b.qp.query().state), (QpState::Error, of_b), "{op:?}");
}

#[test]
fn what_cannot_be_sent_is_a_protection_error() {
    for len in LENGTHS {
        for pair in pairs(QpKind::Rc, "") {
            let (pages, mr) = registered(&pair.0);
            pages.unmap();
            let write = SendOp::Write(remote(&pair.1, 0));
            fails_with(&pair, write, &[sge(&mr, len)], LocalInvalidLkey, QpState::ReadyToSend);
        }
        for (a, b) in pairs(QpKind::Uc, "") {
            let (pages, mr) = registered(&a);
            pages.unmap();
            b.post_recv(1, 0, LEN as u32);
            post(&a, 1, SendOp::Send, &[sge(&mr, len)]);
            assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(1, LocalInvalidLkey)], "{len}");
            assert_quiet(&[&a, &b]);
        }
    }
}

/// The kernel refuses a train as a whole. Only the request with the hole fails.
#[test]
fn a_hole_in_a_train_fails_the_request_that_has_it() {
    let link = Link { mtu: 4096, ..Link::default() };
    let (a, b) = pair_of(&config(WireChoice::Udp, ""), QpKind::Rc, 1 << 20, &link);
    let [(_before, first), (pages, middle), (_behind, last)] = [(); 3].map(|()| registered(&a));
    pages.unmap();
    (0..3).for_each(|id| b.post_recv(id, 0, 4096));
    let mrs = [first, middle, last];
    for (id, mr) in mrs.iter().enumerate() {
        let sges = [sge(mr, 4096)];
        let wr = wr(id as u64, SendOp::Send, &sges);
        a.qp.post_send(&SendWr { more: id < 2, ..wr }).unwrap();
    }
    let found = gather(&[&a, &b], 4);
    assert_eq!(ends(&found[0], true), [(0, Ok), (1, LocalInvalidLkey), (2, Flushed)]);
    assert_eq!(ends(&found[1], false), [(0, Ok)]);
}

/// The peer rejects the request, so that it would have to be sent again.
#[test]
fn what_cannot_be_repeated_is_a_protection_error() {
    for len in LENGTHS {
        for (a, b) in pairs(QpKind::Rc, "") {
            let (pages, mr) = registered(&a);
            post(&a, 1, SendOp::Send, &[sge(&mr, len)]);
            poll_until_counted(&[&a, &b], &a, Counter::RxRnrNaks, 1);
            pages.unmap();
            assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(1, LocalInvalidLkey)], "{len}");
        }
    }
}

#[test]
fn what_cannot_be_read_there_is_an_access_error() {
    for len in LENGTHS {
        for pair in pairs(QpKind::Rc, "") {
            let (pages, mr) = registered(&pair.1);
            pages.unmap();
            let into = [pair.0.sge(0, len)];
            fails_with(&pair, SendOp::Read(far(&mr)), &into, RemoteBadAddress, QpState::Error);
        }
    }
}

#[test]
fn what_cannot_be_written_there_is_an_access_error() {
    for len in LENGTHS {
        for pair in pairs(QpKind::Rc, "") {
            let (pages, mr) = registered(&pair.1);
            pages.unmap();
            let from = [pair.0.sge(0, len)];
            fails_with(&pair, SendOp::Write(far(&mr)), &from, RemoteBadAddress, QpState::Error);
        }
    }
    for pair in pairs(QpKind::Rc, "") {
        let (pages, mr) = registered(&pair.1);
        pages.unmap();
        let result = [pair.0.sge(0, 8)];
        fails_with(&pair, add(far(&mr), 1), &result, RemoteBadAddress, QpState::Error);
    }
}

#[test]
fn a_receive_that_is_gone_is_a_remote_operation_error() {
    for len in LENGTHS {
        for pair in pairs(QpKind::Rc, "") {
            let (pages, mr) = registered(&pair.1);
            pair.1.qp.post_recv(7, &[sge(&mr, LEN as u32)]).unwrap();
            pair.1.post_recv(8, 0, 8);
            pages.unmap();
            let from = [pair.0.sge(0, len)];
            fails_with(&pair, SendOp::Send, &from, RemoteOperation, QpState::Error);
            let found = gather(&[&pair.1], 2);
            assert_eq!(ends(&found[0], false), [(7, LocalInvalidLkey), (8, Flushed)]);
        }
        for (a, b) in pairs(QpKind::Uc, "") {
            let (pages, mr) = registered(&b);
            b.qp.post_recv(7, &[sge(&mr, LEN as u32)]).unwrap();
            b.post_recv(8, 0, LEN as u32);
            pages.unmap();
            (1..3).for_each(|id| post(&a, id, SendOp::Send, &[a.sge(0, len)]));
            let found = gather(&[&a, &b], 4);
            assert_eq!(ends(&found[1], false), [(7, LocalInvalidLkey), (8, Ok)]);
        }
    }
}

#[test]
fn an_answer_that_finds_no_place_is_a_protection_error() {
    for len in LENGTHS {
        for pair in pairs(QpKind::Rc, "") {
            let (pages, mr) = registered(&pair.0);
            pages.unmap();
            let read = SendOp::Read(remote(&pair.1, 0));
            fails_with(&pair, read, &[sge(&mr, len)], LocalInvalidLkey, QpState::ReadyToSend);
        }
    }
    for pair in pairs(QpKind::Rc, "") {
        let (pages, mr) = registered(&pair.0);
        pages.unmap();
        let op = add(remote(&pair.1, 0), 1);
        fails_with(&pair, op, &[sge(&mr, 8)], LocalInvalidLkey, QpState::ReadyToSend);
    }
}

/// The registration that ends in the middle of a message.
#[derive(Debug, Clone, Copy)]
enum Ends {
    Near,
    Far,
}

/// A length far above that of a window, so that most of the message comes after the deregistration.
const LONG: u32 = 1_000_000;

fn again(side: &Side) -> Arc<Mr> {
    side.pd.reg_mr(side.mr.addr(), side.mr.len(), EVERYTHING).expect("the same memory again")
}

#[test]
fn deregistration_ends_a_read() {
    for which in [Ends::Near, Ends::Far] {
        for (a, mut b) in pairs(QpKind::Rc, "delay=5ms,seed=1") {
            b.fill(0, &[7; LONG as usize]);
            let (near, distant) = (again(&a), again(&b));
            let into = [Sge { lkey: near.lkey(), ..a.sge(0, LONG) }];
            post(&a, 1, SendOp::Read(far(&distant)), &into);
            poll_until_counted(&[&a, &b], &b, Counter::RdmaReadRespBytes, 20_000);
            let expected = match which {
                Ends::Near => (&near, LocalInvalidLkey),
                Ends::Far => (&distant, RemoteBadAddress),
            };
            expected.0.deregister();
            let there = a.bytes(0, LONG as usize).to_vec();
            let found = gather(&[&a, &b], 1);
            assert_eq!(ends(&found[0], true), [(1, expected.1)], "{which:?}");
            if let Ends::Near = which {
                assert!(a.bytes(0, LONG as usize) == there, "written after the deregistration");
            }
            assert!(a.bytes(0, LONG as usize).contains(&0), "all of it came");
        }
    }
}

#[test]
fn deregistration_ends_a_write() {
    for which in [Ends::Near, Ends::Far] {
        for (mut a, b) in pairs(QpKind::Rc, "delay=5ms,seed=1") {
            a.fill(0, &[7; LONG as usize]);
            let (near, distant) = (again(&a), again(&b));
            let from = [Sge { lkey: near.lkey(), ..a.sge(0, LONG) }];
            post(&a, 1, SendOp::Write(far(&distant)), &from);
            poll_until_counted(&[&a, &b], &b, Counter::RdmaWriteRecvBytes, 1);
            let expected = match which {
                Ends::Near => (&near, LocalInvalidLkey),
                Ends::Far => (&distant, RemoteBadAddress),
            };
            expected.0.deregister();
            let there = b.bytes(0, LONG as usize).to_vec();
            let found = gather(&[&a, &b], 1);
            assert_eq!(ends(&found[0], true), [(1, expected.1)], "{which:?}");
            if let Ends::Far = which {
                assert!(b.bytes(0, LONG as usize) == there, "written after the deregistration");
            }
            assert!(b.bytes(0, LONG as usize).contains(&0), "all of it came");
        }
    }
}

/// A receive may lose its memory between two packets of its message.
#[test]
fn deregistration_ends_a_receive() {
    for (a, b) in pairs(QpKind::Rc, "delay=5ms,seed=1") {
        let region = again(&b);
        b.qp.post_recv(7, &[Sge { lkey: region.lkey(), ..b.sge(0, LONG) }]).unwrap();
        let received = b.device.counters().get(Counter::RxPkts);
        post(&a, 1, SendOp::Send, &[a.sge(0, LONG)]);
        poll_until_counted(&[&a, &b], &b, Counter::RxPkts, received + 1);
        region.deregister();
        let there = b.bytes(0, LONG as usize).to_vec();
        let found = gather(&[&a, &b], 2);
        assert_eq!(ends(&found[0], true), [(1, RemoteOperation)]);
        assert_eq!(ends(&found[1], false), [(7, LocalInvalidLkey)]);
        assert!(b.bytes(0, LONG as usize) == there, "written after the deregistration");
    }
}

/// The memory of a receive is looked up in the domain of its shared queue, not in that of the queue
/// pair.
#[test]
fn receives_of_a_shared_queue_are_of_its_domain() {
    for wire in WIRES {
        for is_of_queue in [true, false] {
            let config = config(wire, "");
            let a = side(&config, QpKind::Rc, 4096);
            let device = Device::open(&config.devices[0], &config).unwrap();
            let (of_qp, of_queue) = (device.alloc_pd().unwrap(), device.alloc_pd().unwrap());
            let attr = SrqAttr { max_wr: 8, max_sge: 1, limit: 0 };
            let srq = Srq::create(&of_queue, &attr, None).unwrap();
            let cq = Cq::create(&device, 64).unwrap();
            let init = QpInit { srq: Some(Arc::clone(&srq)), ..wide(QpKind::Rc, &cq) };
            let qp = Qp::create(&of_qp, init).unwrap();
            let memory = vec![0u8; 4096].into_boxed_slice();
            let pd = if is_of_queue { &of_queue } else { &of_qp };
            let mr = pd.reg_mr(memory.as_ptr() as u64, 4096, EVERYTHING).unwrap();
            srq.post_recv(1, &[sge(&mr, 64)]).unwrap();
            connect_qps(&a.qp, &qp, &Link::default());
            post(&a, 2, SendOp::Send, &[a.sge(0, 8)]);
            let (mut sent, mut received) = (None, None);
            while sent.is_none() || received.is_none() {
                sent = sent.or_else(|| a.cq.poll_one().map(|done| (done.wr_id, done.status)));
                received = received.or_else(|| cq.poll_one().map(|done| (done.wr_id, done.status)));
            }
            let expected = if is_of_queue { [Ok, Ok] } else { [RemoteOperation, LocalInvalidLkey] };
            let ended = [sent, received].map(|end| end.expect("both have ended"));
            assert_eq!(ended, [(2, expected[0]), (1, expected[1])], "of the queue: {is_of_queue}");
        }
    }
}
