//! Programs of RoCE devices that sleep, and threads that use all operations at once.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::roce::{
    EVERYTHING, Link, WIRES, add, config, connect_qps, ends, gather, side, to, wide, wr,
};
use crate::common::{self, Side, remote};
use softefa::{
    Channel, Completion, Cq, Qp, QpInit, QpKind, QpState, Remote, SendData, SendOp, SendWr, Status,
    WireChoice,
};

use Status::Ok;

/// A queue pair of `side` with a completion queue of its own, whose events a channel reports.
struct Sleeper {
    cq: Arc<Cq>,
    qp: Arc<Qp>,
    channel: Arc<Channel>,
}

impl Sleeper {
    fn new(side: &Side, kind: QpKind) -> Self {
        let channel = Channel::create().unwrap();
        let cq = Cq::create_on(&side.device, 64, Some(&channel)).unwrap();
        let init = QpInit { sq_depth: 16, rq_depth: 16, ..wide(kind, &cq) };
        let qp = Qp::create(&side.pd, init).unwrap();
        Self { cq, qp, channel }
    }

    /// Reads the channel, and thus sleeps until there is an event.
    fn sleep(&self) {
        let mut look = libc::pollfd { fd: self.channel.fd(), events: libc::POLLIN, revents: 0 };
        let mut count = [0u8; 8];
        // SAFETY: the channel is open, and there is room for one entry and the eight bytes of an
        // eventfd.
        let read = unsafe {
            assert_eq!(libc::poll(&raw mut look, 1, 20_000), 1, "nothing happened for 20 s");
            libc::read(look.fd, count.as_mut_ptr().cast(), 8)
        };
        assert_eq!(read, 8);
        if self.channel.take_event().unwrap().is_some() {
            self.cq.acknowledge_events(1);
        }
    }

    /// Returns the next completion for a program that sleeps until it comes.
    fn next(&self) -> Completion {
        loop {
            if let Some(done) = self.cq.poll_one() {
                return done;
            }
            self.cq.arm().unwrap();
            if let Some(done) = self.cq.poll_one() {
                return done;
            }
            self.sleep();
        }
    }
}

/// SRD-12.5: acknowledgements do not call the service thread of a program that watches its memory,
/// but must once the program sleeps. Here no timer looks for them.
#[test]
fn who_watches_its_memory_may_sleep_until_its_own_write_is_done() {
    const ROUNDS: u64 = 3000;
    let link = Link { timeout: 0, ..Link::default() };
    let words = [0, 0].map(AtomicU64::new);
    let sides = [0, 1].map(|_| side(&config(WireChoice::Auto, ""), QpKind::Rc, 8));
    let [near, far] = sides.each_ref().map(|side| Sleeper::new(side, QpKind::Rc));
    connect_qps(&near.qp, &far.qp, &link);
    let regions = [0, 1].map(|end: usize| {
        let addr = std::ptr::from_ref(&words[end]).expose_provenance() as u64;
        sides[end].pd.reg_mr(addr, 8, EVERYTHING).unwrap()
    });
    let write = |from: &Sleeper, to: usize, value: u64| {
        let to = Remote { addr: regions[to].addr(), rkey: regions[to].rkey() };
        let pieces: [&[u8]; 1] = [&value.to_ne_bytes()];
        let request = SendWr { data: SendData::Inline(&pieces), ..wr(1, SendOp::Write(to), &[]) };
        from.qp.post_send(&request).unwrap();
        let polled = || loop {
            if let Some(done) = from.cq.poll_one() {
                return done;
            }
        };
        let slept = || {
            // A program that has polled in vain is expected to poll again, until it arms its queue.
            if value % 20 == 0 {
                if let Some(done) = from.cq.poll_one() {
                    return done;
                }
            }
            from.cq.arm().unwrap();
            from.cq.poll_one().unwrap_or_else(|| {
                from.sleep();
                from.next()
            })
        };
        let done = if value % 10 == 0 { slept() } else { polled() };
        assert_eq!(done.status, Ok);
    };
    let watch = |end: usize, value: u64| {
        let begun = Instant::now();
        // A program that has just armed a queue counts as asleep.
        let is_forgotten = || value % 10 != 0 || begun.elapsed() > Duration::from_millis(2);
        while words[end].load(Ordering::Acquire) != value || !is_forgotten() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{value} does not come");
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (1..=ROUNDS).for_each(|value| {
                watch(1, value);
                write(&far, 0, value);
            });
        });
        (1..=ROUNDS).for_each(|value| {
            write(&near, 1, value);
            watch(0, value);
        });
    });
}

/// Messages go to and fro between two threads that sleep whenever there is nothing to do.
#[test]
fn programs_may_sleep_between_messages() {
    for kind in [QpKind::Rc, QpKind::Uc] {
        for wire in WIRES {
            let config = config(wire, "");
            let (a, b) = (side(&config, kind, 8192), side(&config, kind, 8192));
            let (near, far) = (Sleeper::new(&a, kind), Sleeper::new(&b, kind));
            connect_qps(&near.qp, &far.qp, &Link::default());
            // An unreliable message without a receive is lost.
            near.qp.post_recv(1, &[a.sge(0, 4096)]).unwrap();
            far.qp.post_recv(1, &[b.sge(0, 4096)]).unwrap();
            std::thread::scope(|scope| {
                for (side, own, begins) in [(&a, &near, true), (&b, &far, false)] {
                    scope.spawn(move || {
                        for round in 0..300 {
                            if !begins || round > 0 {
                                while own.next().op.is_send_queue() {}
                                own.qp.post_recv(1, &[side.sge(0, 4096)]).unwrap();
                            }
                            let sges = [side.sge(4096, 1 + 13 * round)];
                            let signaled = round % 8 == 0;
                            let request = SendWr { signaled, ..wr(2, SendOp::Send, &sges) };
                            own.qp.post_send(&request).unwrap();
                        }
                    });
                }
            });
            [near, far].iter().for_each(|own| own.qp.destroy());
        }
    }
}

/// Four threads make connections between the same two devices, use them in every way and take them
/// down.
#[test]
fn threads_do_everything_at_once() {
    for wire in WIRES {
        let config = config(wire, "");
        let (a, b) = (side(&config, QpKind::Rc, 1 << 16), side(&config, QpKind::Rc, 1 << 16));
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let (a, b) = (&a, &b);
                scope.spawn(move || (0..40).for_each(|round| one_life(a, b, thread, round)));
            }
        });
        let sum = u64::from_ne_bytes(b.bytes(0, 8).try_into().unwrap());
        assert_eq!(sum, 4 * 40 * 10, "each atomic was done once");
    }
}

fn one_life(a: &Side, b: &Side, thread: usize, round: usize) {
    let [near, far] = [a, b].map(|side| Sleeper::new(side, QpKind::Rc));
    connect_qps(&near.qp, &far.qp, &Link::default());
    // Each thread has a place of its own.
    let at = 8192 * (1 + thread);
    for number in 0..10u64 {
        far.qp.post_recv(number, &[b.sge(at, 3000)]).unwrap();
        near.qp.post_send(&wr(1, SendOp::Send, &[a.sge(at, 3000)])).unwrap();
        near.qp.post_send(&wr(2, SendOp::Write(remote(b, at)), &[a.sge(at, 3000)])).unwrap();
        near.qp.post_send(&wr(3, SendOp::Read(remote(b, at)), &[a.sge(at + 4096, 3000)])).unwrap();
        near.qp.post_send(&wr(4, add(remote(b, 0), 1), &[a.sge(at + 8000, 8)])).unwrap();
        for id in 1..5 {
            let done = poll(&near.cq);
            assert_eq!((done.wr_id, done.status, done.qpn), (id, Ok, near.qp.qpn()));
        }
        let done = poll(&far.cq);
        assert_eq!((done.wr_id, done.status, done.qpn), (number, Ok, far.qp.qpn()));
    }
    match round % 3 {
        0 => near.qp.modify(&to(QpState::Reset)).unwrap(),
        1 => far.qp.modify(&to(QpState::Error)).unwrap(),
        _ => {}
    }
    near.qp.destroy();
    far.qp.destroy();
}

fn poll(cq: &Cq) -> Completion {
    let begin = Instant::now();
    loop {
        if let Some(done) = cq.poll_one() {
            return done;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "nothing completed for 20 s");
        std::thread::yield_now();
    }
}

/// A peer gets the whole answer of a program that computes and never calls the library.
#[test]
fn the_target_program_takes_no_part() {
    for wire in WIRES {
        let config = config(wire, "");
        let (a, b) = (side(&config, QpKind::Rc, 1 << 20), side(&config, QpKind::Rc, 1 << 20));
        common::roce::connect(&a, &b, &Link::default());
        for id in 0..20 {
            let sges = [a.sge(0, 500_000)];
            a.qp.post_send(&wr(id, SendOp::Write(remote(&b, 0)), &sges)).unwrap();
            a.qp.post_send(&wr(id, SendOp::Read(remote(&b, 0)), &sges)).unwrap();
            a.qp.post_send(&wr(id, add(remote(&b, 8), 1), &[a.sge(0, 8)])).unwrap();
            assert_eq!(ends(&gather(&[&a], 3)[0], true), [(id, Ok); 3]);
        }
    }
}
