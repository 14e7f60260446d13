//! Threads that post and poll at once, queues of their own, and a forked child.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{self, Side, init, pair, up};
use softefa::{Ah, CompletionOp, Cq, Qp, QpKind, SendOp, Status};

const DEADLINE: Duration = Duration::from_secs(20);

fn send(qp: &Qp, side: &Side, (ah, to): (&Ah, &Side), wr_id: u64) -> bool {
    let sges = [side.sge(0, 64)];
    let wr = common::wr(wr_id, ah, to.qp.qpn(), SendOp::Send, &sges);
    qp.post_send(&wr).is_ok()
}

#[test]
fn two_threads_post_and_a_third_polls_one_queue_pair() {
    const EACH: u64 = 5_000;
    let (a, b) = pair("");
    let ah = a.ah(&b);
    (0..4096).for_each(|id| b.post_recv(id, 0, 64));
    let mut ended = HashSet::new();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (a, b, ah) = (&a, &b, &ah);
            scope.spawn(move || {
                for i in 0..EACH {
                    // A full queue is emptied by the polling thread.
                    while !send(&a.qp, a, (ah, b), thread * EACH + i) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let start = Instant::now();
        let mut arrived = 0;
        while (ended.len() as u64) < 2 * EACH || arrived < 2 * EACH {
            while let Some(done) = a.cq.poll_one() {
                assert_eq!(done.status, Status::Ok);
                assert!(ended.insert(done.wr_id), "send {} completed twice", done.wr_id);
            }
            while let Some(done) = b.cq.poll_one() {
                arrived += 1;
                b.post_recv(done.wr_id, 0, 64);
            }
            assert!(start.elapsed() < DEADLINE, "{} of {} ended", ended.len(), 2 * EACH);
        }
    });
}

#[test]
fn queues_of_different_threads_share_nothing() {
    const EACH: u64 = 3_000;
    let (a, b) = pair("");
    let ah = a.ah(&b);
    (0..4096).for_each(|id| b.post_recv(id, 0, 64));
    let arrived = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let cq = Cq::create(&a.device, 256).unwrap();
                let qp = Qp::create(&a.pd, init(QpKind::Srd, &cq)).unwrap();
                up(&qp, 7);
                let (start, mut posted, mut ended) = (Instant::now(), 0, 0);
                while ended < EACH {
                    if posted < EACH && posted - ended < 100 && send(&qp, &a, (&ah, &b), posted) {
                        posted += 1;
                    }
                    while let Some(done) = cq.poll_one() {
                        assert_eq!((done.status, done.qpn), (Status::Ok, qp.qpn()));
                        ended += 1;
                    }
                    assert!(start.elapsed() < DEADLINE, "{ended} of {EACH} ended");
                }
                qp.destroy();
            });
        }
        let start = Instant::now();
        while arrived.load(Ordering::Relaxed) < 2 * EACH {
            while let Some(done) = b.cq.poll_one() {
                assert_eq!(done.op, CompletionOp::Recv);
                arrived.fetch_add(1, Ordering::Relaxed);
                b.post_recv(done.wr_id, 0, 64);
            }
            assert!(start.elapsed() < DEADLINE);
        }
    });
}

#[test]
fn two_threads_poll_a_queue_that_many_queue_pairs_share() {
    const QPS: usize = 12;
    const EACH: u64 = 500;
    let (a, b) = pair("");
    let ah = a.ah(&b);
    (0..4096).for_each(|id| b.post_recv(id, 0, 64));
    let cq = Cq::create(&a.device, 16_384).unwrap();
    let create = |_| Qp::create(&a.pd, init(QpKind::Srd, &cq)).unwrap();
    let qps: Vec<_> = (0..QPS).map(create).inspect(|qp| up(qp, 7)).collect();
    let ended: Vec<_> = qps.iter().map(|_| AtomicU64::new(0)).collect();
    let is_over = || ended.iter().all(|count| count.load(Ordering::Relaxed) == EACH);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over() {
                    if let Some(done) = cq.poll_one() {
                        assert_eq!(done.status, Status::Ok);
                        let from = qps.iter().position(|qp| qp.qpn() == done.qpn).unwrap();
                        ended[from].fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(start.elapsed() < DEADLINE, "{ended:?}");
                }
            });
        }
        scope.spawn(|| {
            for wr_id in 0..EACH {
                for qp in &qps {
                    assert!(send(qp, &a, (&ah, &b), wr_id), "the queue holds them all");
                }
            }
        });
        while !is_over() {
            while let Some(done) = b.cq.poll_one() {
                b.post_recv(done.wr_id, 0, 64);
            }
            assert!(start.elapsed() < DEADLINE, "{ended:?}");
        }
    });
    qps.iter().for_each(|qp| qp.destroy());
}

#[test]
fn polling_a_queue_while_its_queue_pair_is_destroyed_is_harmless() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    for round in 0..50 {
        let qp = Qp::create(&a.pd, init(QpKind::Srd, &a.cq)).unwrap();
        up(&qp, 7);
        b.post_recv(round, 0, 64);
        assert!(send(&qp, &a, (&ah, &b), round));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..100).for_each(|_| {
                    a.cq.poll_one();
                });
            });
            qp.destroy();
        });
        while let Some(left) = a.cq.pop() {
            assert_ne!(left.qpn, qp.qpn(), "a completion of a destroyed queue pair");
        }
    }
}

/// A child must not keep the listener: a later queue pair of the same number needs its name, and
/// peers would hand their rings to the child.
#[test]
#[allow(unsafe_code)]
fn a_forked_child_releases_the_parents_ring_listener() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let port = u16::try_from(b.qp.qpn()).unwrap();
    let name = format!("@{}\n", softefa::ring_socket_name((Ipv4Addr::LOCALHOST, port).into()));
    let is_open = || std::fs::read_to_string("/proc/net/unix").unwrap().contains(&name);
    for id in 0.. {
        assert!(id < 1000, "no ring listener was opened");
        b.post_recv(id, 0, 64);
        assert!(send(&a.qp, &a, (&ah, &b), id));
        let mut ended = 0;
        common::poll_until(&[&a, &b], |_, _| {
            ended += 1;
            ended == 2
        });
        if is_open() {
            break;
        }
    }
    // SAFETY: the child waits until it is ended, and does nothing else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: it only waits.
            unsafe { libc::pause() };
        }
    }
    b.qp.destroy();
    let is_left = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !is_open()
    });
    // SAFETY: a child of this process, for which no other thread waits.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert!(is_left, "{name} is the child's");
}

#[test]
#[allow(unsafe_code)]
fn a_forked_child_leaves_the_parents_queues_alone() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    (0..16).for_each(|id| b.post_recv(id, 0, 64));
    // SAFETY: the child only makes calls of this crate that return at once, and ends with _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = !send(&a.qp, &a, (&ah, &b), 1) && a.cq.poll_one().is_none();
        a.qp.destroy();
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process and `status` is valid for writing.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child could use its parent's queue pair");
    assert!(send(&a.qp, &a, (&ah, &b), 2));
    let done = common::wait_for(&[&a, &b], 0, CompletionOp::Send);
    assert_eq!((done.wr_id, done.status), (2, Status::Ok));
}
