//! Many connections, and connections within a process, a device or a queue pair.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;

use crate::common::roce::{
    Link, WIRES, add, config, connect_qps, ends, gather, pair_of, pattern, post, side, up, wide, wr,
};
use crate::common::{Side, poll_until, remote};
use softefa::{CompletionOp, Config, Qp, QpInit, QpKind, SendOp, SendWr, Status};

const RC: QpKind = QpKind::Rc;

#[test]
fn both_directions_stream_at_once() {
    for wire in WIRES {
        let (mut a, mut b) = pair_of(&config(wire, ""), RC, 1 << 20, &Link::default());
        let len = 5000;
        for (side, seed) in [(&mut a, 1), (&mut b, 2)] {
            side.fill(0, &pattern(seed, len));
            (0..500)
                .for_each(|id| side.post_recv(id, 10_000 + (id as usize % 64) * len, len as u32));
        }
        for id in 0..500 {
            post(&a, id, SendOp::Send, &[a.sge(0, len as u32)]);
            post(&b, id, SendOp::Send, &[b.sge(0, len as u32)]);
        }
        let mut counts = [0; 4];
        poll_until(&[&a, &b], |index, done| {
            assert_eq!(done.status, Status::Ok, "{done:?}");
            let count = &mut counts[2 * index + usize::from(done.op == CompletionOp::Recv)];
            assert_eq!(done.wr_id, *count as u64, "in order");
            *count += 1;
            counts == [500; 4]
        });
        for (side, seed) in [(&a, 2), (&b, 1)] {
            let arrived =
                (0..64).all(|slot| side.bytes(10_000 + slot * len, len) == pattern(seed, len));
            assert!(arrived);
        }
    }
}

/// Both ends, or the only one, are on one device and completion queue.
#[test]
fn a_queue_pair_may_talk_to_a_neighbour_or_to_itself() {
    for wire in WIRES {
        let mut own = side(&config(wire, ""), RC, 1 << 16);
        let (first, second) = (
            Qp::create(&own.pd, wide(RC, &own.cq)).unwrap(),
            Qp::create(&own.pd, wide(RC, &own.cq)).unwrap(),
        );
        connect_qps(&first, &second, &Link::default());
        let itself = (own.device.gid(), own.qp.qpn());
        up(&own.qp, &Link::default(), itself, [0xff_fffe; 2]);
        own.fill(0, &pattern(9, 10_000));
        let alone = Arc::clone(&own.qp);
        for (from, to) in [(&first, &second), (&second, &first), (&alone, &alone)] {
            talk(&own, from, to);
            own.fill(20_000, &[0; 40_000]);
        }
        [first, second].iter().for_each(|qp| qp.destroy());
    }
}

fn talk(own: &Side, from: &Arc<Qp>, to: &Arc<Qp>) {
    to.post_recv(1, &[own.sge(20_000, 10_000)]).unwrap();
    let sges = [own.sge(0, 10_000)];
    from.post_send(&wr(2, SendOp::Send, &sges)).unwrap();
    from.post_send(&wr(3, SendOp::Write(remote(own, 30_000)), &sges)).unwrap();
    let into = [own.sge(40_000, 10_000)];
    let read = SendOp::Read(remote(own, 30_000));
    from.post_send(&SendWr { fenced: true, ..wr(4, read, &into) }).unwrap();
    let into = [own.sge(51_000, 8)];
    from.post_send(&wr(5, add(remote(own, 50_000), 6), &into)).unwrap();
    let found = gather(&[own], 5);
    let sent: Vec<_> = ends(&found[0], true);
    assert_eq!(sent, [2, 3, 4, 5].map(|id| (id, Status::Ok)));
    assert_eq!(ends(&found[0], false), [(1, Status::Ok)]);
    let expected = pattern(9, 10_000);
    for at in [20_000, 30_000, 40_000] {
        assert!(own.bytes(at, 10_000) == expected, "at {at}");
    }
    assert_eq!(own.bytes(50_000, 8), 6u64.to_ne_bytes());
}

#[test]
fn hundreds_of_connections_work_at_once() {
    for wire in WIRES {
        let config = config(wire, "");
        let (a, b) = (side(&config, RC, 1 << 16), side(&config, RC, 1 << 16));
        let make = |side: &Side| {
            let init = QpInit { sq_depth: 16, rq_depth: 16, ..wide(RC, &side.cq) };
            Qp::create(&side.pd, init).unwrap()
        };
        let pairs: Vec<_> = (0..300).map(|_| (make(&a), make(&b))).collect();
        let link = Link { timeout: 18, ..Link::default() };
        for (near, far) in &pairs {
            connect_qps(near, far, &link);
            far.post_recv(u64::from(far.qpn()), &[b.sge(0, 100)]).unwrap();
            near.post_recv(u64::from(near.qpn()), &[a.sge(0, 100)]).unwrap();
        }
        for (near, far) in &pairs {
            near.post_send(&wr(1, SendOp::Send, &[a.sge(0, 100)])).unwrap();
            far.post_send(&wr(1, SendOp::Send, &[b.sge(0, 100)])).unwrap();
            near.post_send(&wr(2, add(remote(&b, 800), 1), &[a.sge(800, 8)])).unwrap();
        }
        let mut left = pairs.len() * 5;
        poll_until(&[&a, &b], |_, done| {
            assert_eq!(done.status, Status::Ok, "{done:?}");
            assert!(done.op != CompletionOp::Recv || done.wr_id == u64::from(done.qpn));
            left -= 1;
            left == 0
        });
        assert_eq!(b.bytes(800, 8), 300u64.to_ne_bytes());
        pairs.iter().for_each(|(near, far)| [near, far].iter().for_each(|qp| qp.destroy()));
    }
}

/// Each packet comes from the address that was given to the other end.
#[test]
fn devices_of_different_addresses_reach_each_other() {
    for kind in [RC, QpKind::Uc] {
        for wire in WIRES {
            let [a, b] = ["127.0.0.1", "127.0.0.2"].map(|addr| {
                let device = format!("roce0={addr},profile=roce").parse().unwrap();
                side(&Config { devices: vec![device], ..config(wire, "") }, kind, 1 << 16)
            });
            connect_qps(&a.qp, &b.qp, &Link::default());
            for (from, to) in [(&a, &b), (&b, &a)] {
                for id in 0..10 {
                    to.post_recv(id, 0, 9000);
                    post(from, id, SendOp::Send, &[from.sge(0, 9000)]);
                    let found = gather(&[from, to], 2);
                    assert_eq!(ends(&found[0], true), [(id, Status::Ok)]);
                    assert_eq!(found[1][0].src_addr, from.device.addr());
                }
            }
        }
    }
}

/// Reading the counters changes nothing.
#[test]
fn captures_change_nothing() {
    for wire in WIRES {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = Some(dir.path().to_owned());
        let faults = config(wire, "loss=3%,dup=3%,reorder=5%,seed=4");
        let watched = Config { capture_bytes: Some(96), run_dir, ..faults };
        let (a, b) = pair_of(&watched, RC, 1 << 16, &Link { timeout: 10, ..Link::default() });
        for id in 0..50 {
            b.post_recv(id, 0, 9000);
            post(&a, id, SendOp::Send, &[a.sge(0, 9000)]);
            post(&a, id, SendOp::Read(remote(&b, 0)), &[a.sge(0, 9000)]);
            post(&a, id, add(remote(&b, 0), 1), &[a.sge(0, 8)]);
            assert_eq!(ends(&gather(&[&a, &b], 4)[0], true), [(id, Status::Ok); 3]);
        }
        post(&a, 1, SendOp::Read(remote(&b, 1 << 16)), &[a.sge(0, 8)]);
        // The refusal is sent once: if the wire loses it, only the retries end.
        let refused = ends(&gather(&[&a, &b], 1)[0], true);
        let answers = [Status::RemoteBadAddress, Status::RetryExceeded];
        assert!(matches!(refused[..], [(1, status)] if answers.contains(&status)), "{refused:?}");
    }
}
