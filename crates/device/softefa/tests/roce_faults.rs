//! Random mixes of all operations, both ways at once, through a network that loses, duplicates,
//! reorders and damages packets.
//!
//! Every work request ends once and in its order, every message arrives once and in its order, and
//! memory is at each moment the result of a serial execution. `SOFTEFA_CASES=100 SOFTEFA_SEED=7
//! cargo test -p softefa --test all roce_faults` runs more mixes, or other ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::Side;
use crate::common::roce::{EVERYTHING, Link, WIRES, config, gather, pair_of, post};
use crate::common::traffic::{self, Dice, Lane};
use softefa::counters::Counter;
use softefa::{Config, Integrity, QpKind, Remote, SendOp, Status, WireChoice};

fn explore(name: &str, cases: u64, test: impl Fn(u64)) {
    traffic::explore("roce_faults", name, cases, test);
}

/// The number of work requests of each end in one mix.
const WORK_REQUESTS: u64 = 300;

fn mix(faults: &str, wire: WireChoice, seed: u64) -> [Side; 2] {
    mix_of(Integrity::Headers, faults, wire, seed)
}

fn mix_of(integrity: Integrity, faults: &str, wire: WireChoice, seed: u64) -> [Side; 2] {
    let mut dice = Dice(seed);
    let faults = if faults.is_empty() { String::new() } else { format!("{faults},seed={seed}") };
    let link = Link {
        mtu: dice.pick(&[256, 512, 1024, 2048, 4096]),
        rd_atomic: dice.pick(&[1, 2, 16, 128]),
        psn: [dice.below(1 << 24) as u32, 0xff_ffff - dice.below(50) as u32],
        timeout: 10,
        ..Link::default()
    };
    let config = Config { integrity, ..config(wire, &faults) };
    let (mut a, mut b) = pair_of(&config, QpKind::Rc, Lane::MEMORY, &link);
    let (mut there, mut back) = (Lane::new(&mut b, dice.roll()), Lane::new(&mut a, dice.roll()));
    let mut last = Instant::now();
    while !(there.is_done(WORK_REQUESTS) && back.is_done(WORK_REQUESTS)) {
        there.post(&mut a, &b, WORK_REQUESTS);
        back.post(&mut b, &a, WORK_REQUESTS);
        let is_new = take(&a, &mut there, &mut back) | take(&b, &mut back, &mut there);
        last = if is_new { Instant::now() } else { last };
        assert!(last.elapsed() < Duration::from_secs(20), "nothing more completed");
    }
    there.check(&b);
    back.check(&a);
    [a, b]
}

/// Takes the completions at `own`, of its work requests and of its peer's messages; returns true if
/// there was one.
fn take(own: &Side, out: &mut Lane, into: &mut Lane) -> bool {
    let mut is_new = false;
    while let Some(done) = own.cq.poll_one() {
        is_new = true;
        if done.op.is_send_queue() {
            out.finish(own, &done);
        } else {
            into.receive(own, &done);
        }
    }
    is_new
}

fn count(sides: &[Side; 2], counter: Counter) -> u64 {
    sides.iter().map(|side| side.device.counters().get(counter)).sum()
}

#[test]
fn mixes_of_everything_are_serial() {
    for wire in WIRES {
        explore("mixes_of_everything_are_serial", 4, |seed| {
            mix("", wire, seed);
        });
    }
}

#[test]
fn one_percent_lost_does_not_show() {
    explore("one_percent_lost_does_not_show", 4, |seed| {
        let sides = mix("loss=1%", WIRES[seed as usize % 2], seed);
        assert!(count(&sides, Counter::RetransPkts) > 0);
    });
}

#[test]
fn ten_percent_lost_do_not_show() {
    explore("ten_percent_lost_do_not_show", 3, |seed| {
        let sides = mix("loss=10%", WIRES[seed as usize % 2], seed);
        assert!(count(&sides, Counter::RxSequenceNaks) > 0);
        assert!(count(&sides, Counter::RetransTimeoutEvents) > 0);
    });
}

#[test]
fn reordered_and_doubled_packets_do_not_show() {
    explore("reordered_and_doubled_packets_do_not_show", 4, |seed| {
        let sides = mix("reorder=20%,dup=1%", WIRES[seed as usize % 2], seed);
        assert!(count(&sides, Counter::RxDuplicates) > 0);
    });
}

#[test]
fn all_faults_at_once_do_not_show() {
    explore("all_faults_at_once_do_not_show", 3, |seed| {
        mix("loss=3%,reorder=10%,dup=10%,rnr=10%", WIRES[seed as usize % 2], seed);
    });
}

#[test]
fn mangled_headers_do_not_show() {
    explore("mangled_headers_do_not_show", 4, |seed| {
        let sides = mix("mangle=5%", WIRES[seed as usize % 2], seed);
        assert!(count(&sides, Counter::FaultMangled) > 0);
        assert!(count(&sides, Counter::RxCrcErrors) > 0);
    });
}

#[test]
fn damaged_packets_do_not_show_where_there_is_an_icrc() {
    explore("damaged_packets_do_not_show_where_there_is_an_icrc", 4, |seed| {
        let faults = "mangle=3%,corrupt=5%,loss=1%";
        let sides = mix_of(Integrity::Crc32c, faults, WIRES[seed as usize % 2], seed);
        assert!(count(&sides, Counter::FaultCorrupted) > 0);
        assert!(count(&sides, Counter::RxCrcErrors) > 0);
    });
}

#[test]
fn lost_acknowledgements_do_not_show() {
    explore("lost_acknowledgements_do_not_show", 3, |seed| {
        let sides = mix("ack-loss=20%", WIRES[seed as usize % 2], seed);
        assert!(count(&sides, Counter::FaultAckLost) > 0);
        assert!(count(&sides, Counter::RetransPkts) > 0);
        assert_eq!(count(&sides, Counter::FaultLost), 0);
    });
}

#[test]
fn a_storm_of_naks_does_not_show() {
    explore("a_storm_of_naks_does_not_show", 3, |seed| {
        let share = ["20%", "100%"][seed as usize % 2];
        let sides = mix(&format!("nak={share}"), WIRES[seed as usize % 2], seed);
        assert!(count(&sides, Counter::FaultNak) > 0);
        assert_eq!(count(&sides, Counter::TxSequenceNaks), 0, "nothing was missing");
    });
}

/// Packets are also late or duplicated, and a skipped number is never taken for that of another
/// packet.
#[test]
fn numbers_that_skip_do_not_show() {
    explore("numbers_that_skip_do_not_show", 4, |seed| {
        let beside = ["", ",reorder=10%,dup=5%"][seed as usize / 2 % 2];
        let sides = mix(&format!("psn-gap=5%{beside}"), WIRES[seed as usize % 2], seed);
        assert!(count(&sides, Counter::FaultPsnGap) > 0);
        assert!(count(&sides, Counter::TxSequenceNaks) > 0, "the peer misses a packet");
        assert!(count(&sides, Counter::RetransPkts) > 0);
    });
}

#[test]
fn all_lapses_at_once_do_not_show() {
    explore("all_lapses_at_once_do_not_show", 3, |seed| {
        mix("ack-loss=10%,nak=10%,psn-gap=3%,loss=2%", WIRES[seed as usize % 2], seed);
    });
}

/// The same happens on any network whose checks let damage pass.
#[test]
fn damaged_payload_is_delivered_where_there_is_none() {
    for wire in WIRES {
        let (a, b) = pair_of(
            &config(wire, "corrupt=20%,seed=3"),
            QpKind::Rc,
            1 << 20,
            &Link { timeout: 10, ..Link::default() },
        );
        for place in 0..200 {
            let to = Remote { addr: b.mr.addr() + place * 4096, rkey: b.mr.rkey() };
            post(&a, place, SendOp::Write(to), &[a.sge(0, 4096)]);
            assert_eq!(gather(&[&a, &b], 1)[0][0].status, Status::Ok);
        }
        let altered = (0..200).filter(|place| b.bytes(place * 4096, 4096).iter().any(|b| *b != 0));
        assert!(altered.count() > 10, "{wire:?}");
    }
}

/// Programs wait for the last bytes of a WRITE by reading them, and take the others for granted.
/// Here a thread of its own reads all the time.
#[test]
fn the_last_bytes_of_a_write_come_last() {
    for wire in WIRES {
        explore("the_last_bytes_of_a_write_come_last", 2, |seed| {
            let faults = format!("reorder=20%,dup=5%,loss=1%,seed={seed}");
            let link = Link { mtu: 256, timeout: 10, ..Link::default() };
            let (a, b) = pair_of(&config(wire, &faults), QpKind::Rc, 1 << 16, &link);
            std::thread::scope(|scope| writes_to_a_watched_place(a, &b, scope));
        });
    }
}

fn writes_to_a_watched_place<'a>(mut a: Side, b: &Side, scope: &'a std::thread::Scope<'a, '_>) {
    const WORDS: usize = 1250;
    const ROUNDS: u64 = 60;
    let words: Arc<[AtomicU64]> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    let (at, bytes) = (words.as_ptr() as u64, 8 * WORDS);
    let mr = b.pd.reg_mr(at, bytes as u64, EVERYTHING).expect("a region");
    let seen = Arc::new(AtomicU64::new(0));
    let (watched, tells) = (Arc::clone(&words), Arc::clone(&seen));
    scope.spawn(move || {
        for round in 1..=ROUNDS {
            let begin = Instant::now();
            while watched[WORDS - 1].load(Ordering::Acquire) != round {
                assert!(begin.elapsed() < Duration::from_secs(20), "round {round} never came");
            }
            let late = watched.iter().position(|word| word.load(Ordering::Relaxed) != round);
            // A repetition brings the same bytes again, so that a late word is one that had not
            // come.
            tells.store(if late.is_none() { round } else { u64::MAX }, Ordering::Release);
        }
    });
    for round in 1..=ROUNDS {
        a.fill(0, &round.to_ne_bytes().repeat(WORDS));
        let into = Remote { addr: at, rkey: mr.rkey() };
        post(&a, round, SendOp::Write(into), &[a.sge(0, bytes as u32)]);
        let mut done = None;
        let begin = Instant::now();
        while done.is_none() || seen.load(Ordering::Acquire) < round {
            assert!(b.cq.poll_one().is_none());
            done = done.or_else(|| a.cq.poll_one());
            assert!(begin.elapsed() < Duration::from_secs(20), "round {round} does not end");
        }
        assert_eq!(seen.load(Ordering::Acquire), round, "the last word came before another");
        assert_eq!(done.map(|done| (done.wr_id, done.status)), Some((round, Status::Ok)));
    }
}
