//! What both ends of a connection are told when a work request goes wrong, somewhere in a stream of
//! good ones.
//!
//! `RC_CASES=10000 RC_SEED=7 cargo test -p rc --test statuses` runs more of them, or others.

mod common;

use common::host::{BASE, KEY, READ_KEY};
use common::pair::{Faults, Pair, Setup};
use common::{Rng, explore};
use rc::wire::{Headers, Kind, Syndrome};
use rc::{Access, Config, Operation, Remote, SendRequest, Status, WrId};

const SECOND_NS: u64 = 1_000_000_000;
/// As Setup has it: 1 ms.
const TIMEOUT: u8 = 8;

/// What goes wrong, what its work request ends with, and what the receive ends with that it has or
/// would have taken.
struct Wrong {
    name: &'static str,
    op: Operation,
    len: u32,
    status: Status,
    receive: Status,
}

fn remote(offset: u64, rkey: u32) -> Remote {
    Remote { va: BASE + offset, rkey }
}

/// RC-5.5.
fn wrongs() -> Vec<Wrong> {
    let wrong = |name, op, len, status, receive| Wrong { name, op, len, status, receive };
    let (access, invalid) = (Status::RemoteAccess, Status::RemoteInvalidRequest);
    let flushed = Status::Flushed;
    let add = |remote| Operation::FetchAdd { remote, add: 1 };
    vec![
        wrong("too long", Operation::Send, 2001, invalid, Status::LocalLength),
        wrong("write, no key", Operation::Write(remote(0, 1)), 300, access, flushed),
        wrong("write, no right", Operation::Write(remote(0, READ_KEY)), 9, access, flushed),
        wrong("write, no range", Operation::Write(remote(2999, KEY)), 2, access, flushed),
        wrong("write imm, no key", Operation::WriteImm(remote(0, 1), 5), 8, access, access),
        wrong("read, no key", Operation::Read(remote(0, 1)), 600, access, flushed),
        wrong("read, no range", Operation::Read(remote(0, KEY)), 3001, access, flushed),
        wrong("atomic, no key", add(remote(0, 1)), 8, access, flushed),
        wrong("atomic, no right", add(remote(0, READ_KEY)), 8, access, flushed),
        wrong("atomic, misaligned", add(remote(4, KEY)), 8, invalid, flushed),
        wrong(
            "atomic write, misaligned",
            Operation::AtomicWrite(remote(1, KEY)),
            8,
            invalid,
            flushed,
        ),
        wrong("no right here", Operation::Read(remote(0, KEY)), 8, invalid, flushed),
        wrong("no receive", Operation::Send, 8, Status::RnrRetryExceeded, flushed),
        wrong(
            "broken receive",
            Operation::Send,
            8,
            Status::RemoteOperation,
            Status::LocalProtection,
        ),
        wrong("local key", Operation::Send, 8, Status::LocalProtection, flushed),
        wrong(
            "local key, read",
            Operation::Read(remote(0, KEY)),
            8,
            Status::LocalProtection,
            flushed,
        ),
    ]
}

fn post(pair: &mut Pair, id: u64, op: Operation, len: u32) {
    let request = SendRequest::new(WrId(id), op, len);
    pair.hosts[0].post(pair.now, request, vec![7; len as usize]);
}

/// A stream of SENDs with one wrong request in it.
fn run(seed: u64) {
    let mut rng = Rng(seed);
    let wrongs = wrongs();
    let wrong = &wrongs[rng.below(wrongs.len() as u64) as usize];
    let is_clean = rng.permille(500);
    let is_strict = rng.permille(500);
    // Where nothing is lost, nothing has to be repeated.
    let (timeout, retry_cnt) =
        if is_clean { (rng.pick(&[0, TIMEOUT]), rng.pick(&[0, 7])) } else { (TIMEOUT, 7) };
    let setup = Setup {
        config: if is_strict { Config::strict() } else { Config::socket() },
        rnr_retry: 2,
        timeout,
        retry_cnt,
        memory_bytes: 3000,
        first: [rng.next() as u32, 5],
        ..Setup::default()
    };
    let mut pair = Pair::new(&setup, rng.next());
    if !is_clean {
        pair.faults = Faults { loss: 50, duplicate: 50, reorder: 50, ignored: 20, lazy: 100 };
    }
    let (before, behind) = (rng.below(20), rng.below(20));
    let is_missing = wrong.name == "no receive";
    for id in 0..before {
        pair.hosts[1].post_receive(id, 2000);
    }
    if wrong.name == "broken receive" {
        pair.hosts[1].post_broken_receive(before, 2000, Status::LocalProtection);
    } else if !is_missing {
        pair.hosts[1].post_receive(before, 2000);
    }
    if wrong.name == "no right here" {
        pair.hosts[1].engine.set_access(Access { read: false, ..Access::ALL });
    }
    if wrong.name.starts_with("local key") {
        pair.hosts[0].broken.insert(before, Status::LocalProtection);
    }
    (0..before).for_each(|id| post(&mut pair, id, Operation::Send, rng.below(900) as u32));
    post(&mut pair, before, wrong.op, wrong.len);
    (0..behind).for_each(|n| post(&mut pair, before + 1 + n, Operation::Send, 1));
    assert!(pair.run_until_done(100 * SECOND_NS), "{}: work requests do not end", wrong.name);
    pair.run_ns(SECOND_NS);
    check(&pair, wrong, [before, behind], is_clean, is_strict);
}

fn check(pair: &Pair, wrong: &Wrong, count: [u64; 2], is_clean: bool, is_strict: bool) {
    let [before, behind] = count;
    let sends = pair.hosts[0].sends();
    let all = 0..before + 1 + behind;
    assert!(sends.iter().map(|send| send.0).eq(all), "{}: each ends once, in order", wrong.name);
    let done = sends.iter().take_while(|send| send.1 == Status::Ok).count() as u64;
    let status = sends[done as usize].1;
    // Where packets get lost, the last word of a responder may be: an adapter says it once.
    if is_clean || !is_strict || status == wrong.status {
        assert_eq!((done, status), (before, wrong.status), "{}", wrong.name);
    } else {
        let is_patience = [Status::RetryExceeded, Status::RnrRetryExceeded].contains(&status);
        assert!(done <= before && is_patience, "{}: {status:?}", wrong.name);
    }
    let rest = &sends[done as usize + 1..];
    assert!(rest.iter().all(|send| send.1 == Status::Flushed), "{}", wrong.name);
    let receives = pair.hosts[1].receives_done();
    let is_told = ![Status::RnrRetryExceeded, Status::LocalProtection].contains(&wrong.status);
    if is_clean && is_told {
        let last = receives[before as usize];
        assert_eq!(last, (before, wrong.receive), "{}", wrong.name);
    }
    assert!(receives.iter().take(done as usize).all(|receive| receive.1 == Status::Ok));
    assert!(receives.len() as u64 >= done);
}

#[test]
fn both_ends_are_told_what_went_wrong() {
    explore("statuses", "both_ends", 3000, run);
}

/// RC-5.3: two ends with different path MTUs, in either direction.
#[test]
fn different_path_mtus_are_an_invalid_request() {
    let mut pair = Pair::new(&Setup::default(), 1);
    pair.hosts[1].post_receive(0, 2000);
    let other = Pair::new(&Setup { mtu: rc::Mtu::B1024, ..Setup::default() }, 1);
    let [first, _] = other.hosts;
    pair.hosts[0] = first;
    post(&mut pair, 0, Operation::Send, 1500);
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.hosts[0].sends(), [(0, Status::RemoteInvalidRequest)]);
    assert_eq!(pair.hosts[1].receives_done(), [(0, Status::RemoteInvalidRequest)]);
}

/// A pair of patient devices of which the first packet like that is lost.
fn losing(is_it: fn(&Headers) -> bool) -> Pair {
    let mut pair = Pair::new(&Setup { timeout: 14, ..Setup::default() }, 1);
    pair.lost = Some(is_it);
    pair
}

fn acknowledges(headers: &Headers) -> bool {
    headers.bth.opcode.kind == Kind::Acknowledge
}

/// RC-6.3: a packet of the refused message was executed, and nobody has heard of that.
#[test]
fn one_lost_refusal_is_no_dead_peer() {
    let mut pair = losing(|headers| {
        acknowledges(headers) && matches!(headers.aeth.syndrome, Syndrome::Nak(_))
    });
    pair.hosts[1].post_receive(0, 300);
    post(&mut pair, 0, Operation::Send, 700);
    assert!(pair.run_until_done(SECOND_NS / 10), "the sender hears of it in a moment");
    assert!(pair.lost.is_none(), "a refusal was lost");
    assert_eq!(pair.hosts[0].sends(), [(0, Status::RemoteInvalidRequest)]);
    assert_eq!(pair.hosts[1].receives_done(), [(0, Status::LocalLength)]);
}

/// RC-6.3, RC-5.5.
#[test]
fn one_lost_acknowledgement_of_a_failure_is_no_dead_peer() {
    let mut pair = losing(acknowledges);
    pair.hosts[1].post_receive(0, 300);
    post(&mut pair, 0, Operation::SendInvalidate(5), 8);
    assert!(pair.run_until_done(SECOND_NS / 10), "the sender hears of it in a moment");
    assert!(pair.lost.is_none(), "an acknowledgement was lost");
    assert_eq!(pair.hosts[0].sends(), [(0, Status::Ok)]);
    assert_eq!(pair.hosts[1].receives_done(), [(0, Status::RemoteInvalidRequest)]);
}

/// RC-3.11: the host judges a work request when those before it are on their way, which have asked
/// for nothing then.
#[test]
fn a_local_fault_needs_no_timeout() {
    for config in [Config::strict(), Config::socket(), Config::hardware(16)] {
        let setup = Setup { config, timeout: 0, retry_cnt: 0, ..Setup::default() };
        let mut pair = Pair::new(&setup, 1);
        pair.hosts[1].post_receive(0, 300);
        pair.hosts[0].broken.insert(1, Status::LocalProtection);
        (0..3).for_each(|id| post(&mut pair, id, Operation::Send, 8));
        assert!(pair.run_until_done(SECOND_NS), "work requests do not end");
        let ended = [(0, Status::Ok), (1, Status::LocalProtection), (2, Status::Flushed)];
        assert_eq!(pair.hosts[0].sends(), ended);
        assert_eq!(pair.hosts[1].receives_done(), [(0, Status::Ok)]);
    }
}
