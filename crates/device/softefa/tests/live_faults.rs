//! Faults that begin and end while queue pairs are in use, requested through the files of their
//! run.
#![expect(clippy::unwrap_used, reason = "a step that fails must fail the test")]

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::exchange::exchange;
use crate::common::roce::{self, Link, WIRES};
use crate::common::traffic::Lane;
use crate::common::{Side, poll_until, remote, side_of};
use softefa::counters::{self, Counter, FaultSource, ProcessCounters};
use softefa::fault::{self, TimedFault};
use softefa::trace::TraceSpec;
use softefa::{CompletionOp, Config, QpKind, SendOp, Status, WireChoice};

/// The names and addresses of the devices.
const NAMES: [&str; 2] = ["here=127.0.0.1", "there=127.0.0.2"];

fn config(run: &Path, device: &str, wire: WireChoice) -> Config {
    let devices = vec![device.parse().unwrap()];
    Config { devices, wire, run_dir: Some(run.to_path_buf()), ..Config::default() }
}

fn pair(run: &Path, wire: WireChoice) -> [Side; 2] {
    NAMES.map(|name| side_of(QpKind::Srd, &config(run, name, wire)))
}

fn asked(spec: &str) -> TimedFault {
    let spec = TimedFault::parse_spec(spec).unwrap();
    TimedFault { spec, device: None, peer: None, from_ns: fault::now_ns(), for_ns: None }
}

fn set(run: &Path, fault: &TimedFault) -> Vec<ProcessCounters> {
    fault::set(run, Some(fault)).unwrap()
}

fn count(of: &Side, counter: Counter) -> u64 {
    of.device.counters().get(counter)
}

fn lost(sides: &[Side; 2]) -> u64 {
    sides.iter().map(|side| count(side, Counter::FaultLost)).sum()
}

/// Exchanges messages. All of them have ended at the end, so that nothing is sent any more.
fn exchange_both([a, b]: &mut [Side; 2], messages: u64) {
    exchange(a, b, messages);
}

#[test]
fn a_fault_begins_and_ends_while_messages_run() {
    for wire in WIRES {
        let run = tempfile::tempdir().unwrap();
        let mut sides = pair(run.path(), wire);
        exchange_both(&mut sides, 2_000);
        assert_eq!(lost(&sides), 0);
        assert_eq!(set(run.path(), &asked("loss=10%,seed=1")).len(), 2);
        let through_memory = count(&sides[0], Counter::TxMemoryPkts);
        exchange_both(&mut sides, 2_000);
        assert!(lost(&sides) > 50, "{}", lost(&sides));
        assert!(count(&sides[0], Counter::RetransPkts) > 20);
        let through_memory = count(&sides[0], Counter::TxMemoryPkts) - through_memory;
        assert_eq!(through_memory > 0, wire == WireChoice::Auto, "{wire:?}");
        fault::set(run.path(), None).unwrap();
        let before = lost(&sides);
        exchange_both(&mut sides, 2_000);
        assert_eq!(lost(&sides), before, "{wire:?}");
    }
}

/// All faults of a connection, in the middle of a random mix of all operations.
#[test]
fn a_connection_suffers_what_is_set_and_recovers() {
    for wire in WIRES {
        let run = tempfile::tempdir().unwrap();
        let run_dir = Some(run.path().to_path_buf());
        let config = Config { run_dir, ..roce::config(wire, "") };
        let link = Link { timeout: 10, ..Link::default() };
        let (mut a, mut b) = roce::pair_of(&config, QpKind::Rc, Lane::MEMORY, &link);
        let mut lane = Lane::new(&mut b, 5);
        let mut more = |total: u64| {
            let mut last = Instant::now();
            while !lane.is_done(total) {
                lane.post(&mut a, &b, total);
                while let Some(done) = a.cq.poll_one() {
                    lane.finish(&a, &done);
                    last = Instant::now();
                }
                while let Some(done) = b.cq.poll_one() {
                    lane.receive(&b, &done);
                    last = Instant::now();
                }
                assert!(last.elapsed() < Duration::from_secs(20), "nothing more completed");
            }
            // Both devices count in one file, because they have one name.
            counters::DEALT.map(|counter| count(&a, counter))
        };
        assert_eq!(more(200), [0; 11]);
        let faults = "loss=3%,dup=3%,reorder=5%,mangle=3%,rnr=5%,ack-loss=20%,nak=20%,psn-gap=5%";
        set(run.path(), &asked(&format!("{faults},seed=3")));
        let dealt = more(800);
        let nothing = [Counter::FaultBlackholed, Counter::FaultCorrupted, Counter::FaultInternal];
        for (counter, count) in counters::DEALT.iter().zip(dealt) {
            assert_eq!(count == 0, nothing.contains(counter), "{counter:?} {count} {wire:?}");
        }
        fault::set(run.path(), None).unwrap();
        // Packets that were under way when the fault ended may have been affected.
        let dealt_to_the_end = more(900);
        assert_eq!(more(1_000), dealt_to_the_end);
        lane.check(&b);
    }
}

#[test]
fn a_fault_ends_by_itself() {
    let run = tempfile::tempdir().unwrap();
    let mut sides = pair(run.path(), WireChoice::Auto);
    exchange_both(&mut sides, 100);
    // The loop runs until packets are sent while the fault lasts, however slow the machine is.
    let begin = Instant::now();
    while lost(&sides) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing was lost");
        set(run.path(), &TimedFault { for_ns: Some(100_000_000), ..asked("loss=20%,seed=1") });
        exchange_both(&mut sides, 200);
    }
    let until = fault::asked(run.path()).unwrap().unwrap().until_ns().unwrap();
    while fault::now_ns() <= until {
        exchange_both(&mut sides, 1);
    }
    let before = lost(&sides);
    exchange_both(&mut sides, 2_000);
    assert_eq!(lost(&sides), before);
    assert_eq!(counters::read_dir(run.path()).unwrap()[0].faults.source, FaultSource::Start);
}

#[test]
fn who_comes_later_knows_and_says_since_when() {
    let run = tempfile::tempdir().unwrap();
    set(run.path(), &asked("loss=10%,seed=1"));
    let mut sides = pair(run.path(), WireChoice::Udp);
    exchange_both(&mut sides, 1_000);
    let first = lost(&sides);
    assert!(first > 20, "{first}");
    set(run.path(), &asked("dup=10%,seed=1"));
    exchange_both(&mut sides, 1_000);
    assert_eq!(lost(&sides), first, "the one took the place of the other");
    for process in counters::read_dir(run.path()).unwrap() {
        let said = &process.faults;
        assert_eq!(said.source, FaultSource::Command);
        assert_eq!(said.from_ns, fault::asked(run.path()).unwrap().unwrap().from_ns);
        let dealt = said.dealt(|counter| process.get(counter));
        let of = |name| dealt.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!(of("fault_lost"), 0, "of this fault");
        assert_eq!(of("fault_duplicated"), process.get(Counter::FaultDuplicated));
    }
    assert!(count(&sides[0], Counter::FaultDuplicated) > 20);
}

#[test]
fn one_device_and_one_peer_can_be_meant() {
    let run = tempfile::tempdir().unwrap();
    let mut sides = pair(run.path(), WireChoice::Auto);
    let there = Some(IpAddr::from([127, 0, 0, 2]));
    set(run.path(), &TimedFault { device: Some("there".into()), ..asked("loss=10%") });
    exchange_both(&mut sides, 1_000);
    assert_eq!(count(&sides[0], Counter::FaultLost), 0);
    assert!(count(&sides[1], Counter::FaultLost) > 0);
    let before = count(&sides[1], Counter::FaultLost);
    set(run.path(), &TimedFault { peer: there, ..asked("loss=10%") });
    exchange_both(&mut sides, 1_000);
    assert!(count(&sides[0], Counter::FaultLost) > 0, "it sends to there");
    assert_eq!(count(&sides[1], Counter::FaultLost), before, "it does not");
    // Packets that arrive are of the peer, too.
    for (peer, is_hit) in [(there, false), (Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), true)] {
        set(run.path(), &TimedFault { peer, ..asked("rnr=20%") });
        exchange_both(&mut sides, 500);
        assert_eq!(count(&sides[1], Counter::FaultRnr) > 0, is_hit, "{peer:?}");
    }
    for (peer, status) in
        [(Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), Status::Ok), (there, Status::LocalQpInternalError)]
    {
        set(run.path(), &TimedFault { peer, ..asked("internal=100%") });
        // The device takes the fault over with the next turn.
        exchange_none(&sides);
        let [a, b] = &sides;
        let ah = a.ah(b);
        b.post_recv(1, 0, 8);
        a.send(2, b, &ah, 0, 8);
        let mut ended = None;
        poll_until(&[a, b], |index, done| {
            ended = (index == 0).then_some(done.status);
            ended.is_some()
        });
        assert_eq!(ended, Some(status), "{peer:?}");
    }
}

/// Takes a turn of each side in which nothing is sent.
fn exchange_none(sides: &[Side; 2]) {
    assert!(sides.iter().all(|side| side.cq.poll_one().is_none()));
}

/// While a fault is in force, long RDMA uses the wire: a local copy would bypass the fault.
#[test]
fn long_rdma_takes_the_wire_while_a_fault_is_in_force() {
    const LEN: usize = 300_000;
    let run = tempfile::tempdir().unwrap();
    let mut sides = NAMES.map(|name| {
        let local_key = Some(*b"key of this user");
        side_of(QpKind::Srd, &Config { local_key, ..config(run.path(), name, WireChoice::Auto) })
    });
    let mut seed = 0;
    let mut write_and_read = |sides: &mut [Side; 2]| {
        seed = u8::wrapping_add(seed, 1);
        let bytes: Vec<u8> = (0..LEN).map(|i| (i / 7) as u8 ^ seed).collect();
        let [a, b] = sides;
        a.fill(0, &bytes);
        let ah = a.ah(b);
        let copied = |a: &Side, b: &Side| -> u64 {
            [a, b].iter().map(|side| count(side, Counter::RdmaLocalBytes)).sum()
        };
        let before = copied(a, b);
        let write = (SendOp::Write(remote(b, 1_000)), CompletionOp::Write, a.sge(0, LEN as u32));
        let read = (SendOp::Read(remote(b, 1_000)), CompletionOp::Send, a.sge(500_000, LEN as u32));
        for (op, kind, sge) in [write, read] {
            a.post(1, &ah, b.qp.qpn(), op, &[sge]);
            poll_until(&[&*a, b], |_, done| {
                assert_eq!((done.status, done.op), (Status::Ok, kind));
                true
            });
        }
        assert!(a.bytes(500_000, LEN) == bytes);
        copied(a, b) - before
    };
    assert_eq!(write_and_read(&mut sides), 2 * LEN as u64);
    for device in [None, Some("here"), Some("there")] {
        set(run.path(), &TimedFault { device: device.map(str::to_owned), ..asked("loss=20%") });
        exchange_none(&sides);
        let before = lost(&sides);
        assert_eq!(write_and_read(&mut sides), 0, "{device:?}");
        assert!(lost(&sides) > before, "{device:?}");
        fault::set(run.path(), None).unwrap();
        exchange_none(&sides);
    }
    // A requester remembers for a while that nothing could be copied.
    let begin = Instant::now();
    while write_and_read(&mut sides) < 2 * LEN as u64 {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing is copied any more");
    }
}

#[test]
fn the_trace_says_what_was_set_and_what_was_dealt() {
    let run = tempfile::tempdir().unwrap();
    let file = run.path().join("trace");
    let trace = Some(TraceSpec::new(file.to_str().unwrap(), Some("fault")).unwrap());
    let mut sides = NAMES.map(|name| {
        let config = config(run.path(), name, WireChoice::Auto);
        side_of(QpKind::Srd, &Config { trace: trace.clone(), ..config })
    });
    exchange_both(&mut sides, 100);
    let peer = Some(IpAddr::from([127, 0, 0, 2]));
    set(run.path(), &TimedFault { peer, ..asked("loss=10%,seed=1") });
    exchange_both(&mut sides, 1_000);
    fault::set(run.path(), None).unwrap();
    exchange_both(&mut sides, 100);
    let text = fs::read_to_string(&file).unwrap();
    let of_here: Vec<&str> = text.lines().filter(|line| line.contains(" fault here:")).collect();
    let value = |line: &str, key: &str| -> Option<String> {
        let found = line.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        found.map(str::to_owned)
    };
    let first = of_here.first().unwrap();
    let begins = "is=set by=command spec=loss=10%,seed=1 peer=127.0.0.2 late_ns=";
    assert!(first.contains(begins), "{first}");
    let last = of_here.last().unwrap();
    assert!(last.contains("is=set by=start spec=none late_ns="), "{last}");
    let dealt = of_here.iter().filter_map(|line| value(line, "fault_lost")?.parse::<u64>().ok());
    assert_eq!(dealt.sum::<u64>(), count(&sides[0], Counter::FaultLost), "{text}");
    assert!(of_here.len() > 10);
    assert!(text.lines().all(|line| line.contains(" is=set ") || line.contains(" is=dealt ")));
}

/// One file is replaced by something unusable, and the counter of changes by an arbitrary value.
#[test]
fn files_that_others_broke_harm_nobody() {
    let run = tempfile::tempdir().unwrap();
    let mut sides = pair(run.path(), WireChoice::Auto);
    set(run.path(), &asked("loss=10%,seed=1"));
    exchange_both(&mut sides, 500);
    let file = run.path().join("fault/command");
    let good = fs::read(&file).unwrap();
    let elsewhere = run.path().join("elsewhere");
    fs::write(&elsewhere, &good).unwrap();
    for broken in 0..4 {
        fs::remove_file(&file).unwrap();
        match broken {
            0 => fs::write(&file, &good[..good.len() / 2]).unwrap(),
            1 => fs::write(&file, [0xff; 5_000]).unwrap(),
            2 => std::os::unix::fs::symlink(&elsewhere, &file).unwrap(),
            _ => fs::create_dir(&file).unwrap(),
        }
        tell(run.path());
        let before = lost(&sides);
        exchange_both(&mut sides, 500);
        assert!(lost(&sides) > before, "what was in force stays, {broken}");
        if broken == 3 {
            fs::remove_dir(&file).unwrap();
            fs::write(&file, &good).unwrap();
        }
    }
    fs::remove_file(&file).unwrap();
    tell(run.path());
    exchange_both(&mut sides, 100);
    let before = lost(&sides);
    exchange_both(&mut sides, 500);
    assert_eq!(lost(&sides), before, "without a file nothing is asked for");
}

/// Overwrites the words that commands and captures write, in the files of all devices.
fn tell(run: &Path) {
    use std::os::unix::fs::FileExt;
    for entry in fs::read_dir(run.join("counters")).unwrap() {
        let file = fs::OpenOptions::new().write(true).open(entry.unwrap().path()).unwrap();
        // The eighth word.
        file.write_all_at(&fault::now_ns().to_ne_bytes(), 7 * 8).unwrap();
    }
}
