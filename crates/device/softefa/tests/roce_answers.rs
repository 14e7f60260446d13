//! Two programs that answer each other by RDMA WRITE: each waits for its own completion, and
//! watches its memory for what the other one writes.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::Side;
use common::roce::{EVERYTHING, Link, config, gather, pair_of, wr};
use softefa::counters::Counter;
use softefa::{QpKind, Remote, SendData, SendOp, SendWr, WireChoice};

/// Round trips that are judged together.
const ROUNDS: u64 = 1000;
/// A machine may be busy for so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes `value`, waits for its completion, and then for `answer` in `word`.
fn write_and_watch(side: &Side, to: Remote, value: u64, (word, answer): (&AtomicU64, u64)) {
    let bytes = value.to_ne_bytes();
    let pieces: [&[u8]; 1] = [&bytes];
    let request = SendWr { data: SendData::Inline(&pieces), ..wr(1, SendOp::Write(to), &[]) };
    side.qp.post_send(&request).expect("a work request is taken");
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

/// A service thread had to be woken for each WRITE: 40 us where the two processors were filled by
/// those who waited, and up to 4 ms.
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
