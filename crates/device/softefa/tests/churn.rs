//! Threads that post, poll, make and destroy all kinds of objects of one device at once. They are
//! best run under ThreadSanitizer (`make tsan`); `SOFTEFA_ROUNDS` sets the number of rounds.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Side, init, pair, up, wr};
use softefa::counters::Counter;
use softefa::{
    Access, Channel, Completion, CompletionOp, Cq, ModifyQp, Qp, QpKind, QpState, SendOp, Sge,
    Status,
};

const DEADLINE: Duration = Duration::from_secs(120);
const MAKERS: u64 = 2;

fn rounds() -> u64 {
    let rounds = std::env::var("SOFTEFA_ROUNDS").map(|text| text.parse().expect("a number"));
    // Each round has a new queue pair, and a queue pair accepts no more than 16,384 peers in its
    // life.
    rounds.unwrap_or(100).min(8_000)
}

struct World {
    a: Side,
    b: Side,
    /// Number of sends that ended at `a`'s own queue pair.
    ended: AtomicU64,
    is_over: AtomicBool,
    start: Instant,
}

impl World {
    fn in_time(&self) {
        assert!(
            self.start.elapsed() < DEADLINE,
            "{} sends ended",
            self.ended.load(Ordering::Relaxed)
        );
        std::thread::yield_now();
    }

    fn count(&self, done: &Completion) {
        assert_eq!((done.status, done.op), (Status::Ok, CompletionOp::Send));
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes a queue pair with all that it needs, sends a message to `b`, and destroys everything in an
/// order that changes. Every other queue wakes a sleeper on a channel.
fn make_and_destroy(world: &World, maker: u64, round: u64) {
    let (a, b) = (&world.a, &world.b);
    let channel = (round % 2 == 0).then(|| Channel::create().unwrap());
    let cq = Cq::create_on(&a.device, 64, channel.as_ref()).unwrap();
    let qp = Qp::create(&a.pd, init(QpKind::Srd, &cq)).unwrap();
    up(&qp, 7);
    let ah = a.pd.create_ah(b.device.gid()).unwrap();
    let memory = vec![0u8; 4096];
    let mr = a.pd.reg_mr(
        memory.as_ptr() as u64,
        4096,
        Access { local_write: true, ..Access::default() },
    );
    let mr = mr.unwrap();
    let sge = |at: u64| [Sge { addr: mr.addr() + at, len: 64, lkey: mr.lkey() }];
    qp.post_recv(1, &sge(2048)).unwrap();
    if channel.is_some() {
        cq.arm().unwrap();
    }
    qp.post_send(&wr(maker, &ah, b.qp.qpn(), SendOp::Send, &sge(0))).unwrap();
    if round % 3 != 0 {
        let done = loop {
            match cq.poll_one() {
                Some(done) => break done,
                None => world.in_time(),
            }
        };
        assert_eq!(done.status, Status::Ok);
    }
    if round % 4 == 0 {
        let to = ModifyQp { state: Some(QpState::Error), ..ModifyQp::default() };
        qp.modify(&to).unwrap();
        assert_eq!(qp.query().state, QpState::Error);
    }
    if round % 5 < 2 {
        ah.destroy();
        mr.deregister();
    }
    cq.retire_events();
    qp.destroy();
}

/// Sends to `b` from the queue pair that all threads share, with an address handle for each
/// message.
fn post(world: &World) {
    let (a, b) = (&world.a, &world.b);
    // Dropping the last handle for a peer ends the sends that are under way, so that one handle
    // stays.
    let _last = a.ah(b);
    for wr_id in 0..rounds() * 10 {
        let ah = a.ah(b);
        let sge = [a.sge(0, 64)];
        while a.qp.post_send(&wr(wr_id, &ah, b.qp.qpn(), SendOp::Send, &sge)).is_err() {
            world.in_time();
        }
    }
    while world.ended.load(Ordering::Relaxed) < rounds() * 10 {
        world.in_time();
    }
}

fn poll(world: &World) {
    while !world.is_over.load(Ordering::Acquire) {
        world.a.cq.poll(8, |done| world.count(done));
        while let Some(done) = world.b.cq.poll_one() {
            assert_eq!((done.status, done.op), (Status::Ok, CompletionOp::Recv));
            world.b.post_recv(done.wr_id, 4096, 64);
        }
        world.in_time();
    }
}

#[test]
fn everything_at_once_from_several_threads() {
    let (a, b) = pair("");
    (0..4096).for_each(|id| b.post_recv(id, 4096, 64));
    let (ended, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let world = World { a, b, ended, is_over, start: Instant::now() };
    std::thread::scope(|scope| {
        let world = &world;
        (0..2).for_each(|_| drop(scope.spawn(|| poll(world))));
        let makers = (0..MAKERS).map(|maker| {
            scope.spawn(move || {
                (0..rounds()).for_each(|round| make_and_destroy(world, maker, round));
            })
        });
        let mut busy: Vec<_> = makers.collect();
        busy.push(scope.spawn(|| post(world)));
        let results: Vec<_> = busy.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        world.is_over.store(true, Ordering::Release);
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert_eq!(world.ended.into_inner(), rounds() * 10);
    assert!(world.b.device.counters().get(Counter::RxPkts) > 0);
}
