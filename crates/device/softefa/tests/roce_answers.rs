//! Two programs that answer each other by RDMA WRITE: each waits for its own completion, and
//! watches its memory for the writes of the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::Side;
use crate::common::roce::{EVERYTHING, Link, config, connect_qps, gather, pair_of, side, wide, wr};
use softefa::counters::Counter;
use softefa::{Qp, QpKind, Remote, SendData, SendOp, SendWr, WireChoice};

/// The number of round trips that are judged together.
const ROUNDS: u64 = 1000;
/// The time for which a machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

fn write(qp: &Qp, to: Remote, value: u64) {
    let bytes = value.to_ne_bytes();
    let pieces: [&[u8]; 1] = [&bytes];
    let request = SendWr { data: SendData::Inline(&pieces), ..wr(1, SendOp::Write(to), &[]) };
    qp.post_send(&request).expect("a work request is taken");
}

/// Writes `value`, waits for its completion, and then for `answer` in `word`.
fn write_and_watch(side: &Side, to: Remote, value: u64, (word, answer): (&AtomicU64, u64)) {
    write(&side.qp, to, value);
    gather(&[side], 1);
    wait_for(word, answer);
}

fn wait_for(word: &AtomicU64, value: u64) {
    let begun = Instant::now();
    while word.load(Ordering::Acquire) != value {
        assert!(begun.elapsed() < PATIENCE, "{value} does not come");
        std::thread::yield_now();
    }
}

/// The poll that finds a completion also receives the answering WRITE, so that no service thread
/// has to be woken for it: that takes 40 us on busy processors, and up to 4 ms.
#[test]
fn who_polls_for_its_completion_takes_the_answer_with_it() {
    let words = [0, 0].map(AtomicU64::new);
    let (a, b) = pair_of(&config(WireChoice::Auto, ""), QpKind::Rc, 64, &Link::default());
    let [to_a, to_b] = [(&a, &words[0]), (&b, &words[1])].map(|(side, word)| {
        let addr = std::ptr::from_ref(word).expose_provenance() as u64;
        let region = side.pd.reg_mr(addr, 8, EVERYTHING).expect("a region");
        (Remote { addr, rkey: region.rkey() }, region)
    });
    let service_turns = || -> u64 {
        [&a, &b].map(|side| side.device.counters().get(Counter::ServiceTurns)).iter().sum()
    };
    let begun = Instant::now();
    let mut value = 0;
    loop {
        let before = service_turns();
        let last = value + ROUNDS;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_for(&words[1], value + 1);
                for value in value + 1..=last {
                    let next = if value == last { value } else { value + 1 };
                    write_and_watch(&b, to_a.0, value, (&words[1], next));
                }
            });
            for value in value + 1..=last {
                write_and_watch(&a, to_b.0, value, (&words[0], value));
            }
        });
        value = last;
        let turns = service_turns() - before;
        if turns < ROUNDS / 2 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{turns} service turns in {ROUNDS} round trips");
    }
}

/// Polls of many queue pairs ask the sockets which of them have data, and no socket reports
/// acknowledgements while its queue pair sleeps lightly. No timer looks for them here.
#[test]
fn a_poll_of_many_finds_the_acknowledgement_of_one_that_watches() {
    const QPS: usize = 6;
    let link = Link { timeout: 0, ..Link::default() };
    let sides = [0, 1].map(|_| side(&config(WireChoice::Auto, ""), QpKind::Rc, 64));
    let qps: Vec<[_; 2]> = (0..QPS)
        .map(|_| {
            let create = |side: &Side| {
                Qp::create(&side.pd, wide(QpKind::Rc, &side.cq)).expect("a queue pair")
            };
            sides.each_ref().map(create)
        })
        .collect();
    qps.iter().for_each(|[near, far]| connect_qps(near, far, &link));
    let words = [0, 0].map(AtomicU64::new);
    let regions = [0, 1].map(|end: usize| {
        let addr = std::ptr::from_ref(&words[end]).expose_provenance() as u64;
        sides[end].pd.reg_mr(addr, 8, EVERYTHING).expect("a region")
    });
    let [to_near, to_far] =
        regions.each_ref().map(|region| Remote { addr: region.addr(), rkey: region.rkey() });
    let [near, far] = sides.each_ref();
    for value in 1..=500 {
        let [ours, theirs] = &qps[value as usize % 2];
        write(theirs, to_near, value);
        gather(&[far], 1);
        wait_for(&words[0], value);
        (0..3).for_each(|_| assert!(near.cq.poll_one().is_none()));
        write(ours, to_far, value);
        wait_for(&words[1], value);
        gather(&[near], 1);
    }
}
