//! Programs of one user on one machine reach each other through shared memory, and notice it only
//! in the time that messages take.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::exchange::exchange;
use crate::common::{
    self, Side, only, poll_until, poll_until_counted, settled_by, side, side_of, up,
};
use softefa::counters::Counter;
use softefa::{Ah, Channel, CompletionOp, Config, Cq, QpKind, SendOp, Status, WireChoice};

const READER: &str = "SOFTEFA_TEST_MEMORY_READER";

fn count(of: &Side, counter: Counter) -> u64 {
    of.device.counters().get(counter)
}

#[test]
fn most_packets_go_through_memory() {
    let (mut a, b) = (side(QpKind::Srd, ""), side(QpKind::Srd, ""));
    exchange_in_memory(&mut a, &b, 1000);
    let through = count(&a, Counter::TxMemoryPkts);
    assert_eq!(through, count(&b, Counter::RxMemoryPkts));
}

#[test]
fn udp_is_udp() {
    let config = Config { wire: WireChoice::Udp, ..Config::default() };
    let (mut a, b) = (side_of(QpKind::Srd, &config), side_of(QpKind::Srd, &config));
    exchange(&mut a, &b, 1000);
    assert_eq!((count(&a, Counter::TxMemoryPkts), count(&b, Counter::RxMemoryPkts)), (0, 0));
    assert!(count(&a, Counter::TxPkts) >= 1000 / 32, "that many share a datagram");
}

/// One side does not use memory, and the other does not wait for it.
#[test]
fn one_side_that_wants_udp_gets_it() {
    let config = Config { wire: WireChoice::Udp, ..Config::default() };
    let (mut a, b) = (side(QpKind::Srd, ""), side_of(QpKind::Srd, &config));
    exchange(&mut a, &b, 1000);
    assert_eq!(count(&a, Counter::TxMemoryPkts), 0);
}

/// Exchanges that many messages, again until most of a round went through memory: a ring is opened
/// when the peer has time to accept it, which may be after the first round beside other tests.
fn exchange_in_memory(a: &mut Side, b: &Side, messages: u64) {
    for _ in 0..100 {
        let before = count(a, Counter::TxMemoryPkts);
        exchange(a, b, messages);
        if count(a, Counter::TxMemoryPkts) - before > messages / 2 {
            return;
        }
    }
    panic!("{} of 100 rounds of {messages} went through memory", count(a, Counter::TxMemoryPkts));
}

/// Faults are above the wire: they lose, duplicate and delay datagrams in memory, too.
#[test]
fn faults_happen_in_memory_as_well() {
    let fault = "loss=2%,reorder=20%,dup=2%,mangle=1%,seed=3";
    let (mut a, b) = (side(QpKind::Srd, fault), side(QpKind::Srd, fault));
    exchange_in_memory(&mut a, &b, 3000);
    for counter in [Counter::FaultLost, Counter::FaultDuplicated, Counter::FaultMangled] {
        assert!(count(&a, counter) > 10, "{counter:?}");
    }
    assert!(count(&a, Counter::RetransPkts) > 10);
}

#[test]
fn sealed_packets_go_through_memory() {
    let sealed = common::sealing::keyed(1, "");
    let (mut a, b) = (side_of(QpKind::Srd, &sealed), side_of(QpKind::Srd, &sealed));
    exchange_in_memory(&mut a, &b, 2000);
    for side in [&a, &b] {
        assert_eq!(count(side, Counter::RxSealErrors), 0);
    }
    let (unsealed, through) =
        (count(&a, Counter::TxUnsealedPkts), count(&a, Counter::TxMemoryPkts));
    assert!(unsealed > through / 2, "{unsealed} of {through}: both ends have the key");
}

/// The network, even a simulated one, gets only sealed packets.
#[test]
fn faults_are_dealt_to_sealed_packets() {
    let sealed = common::sealing::keyed(1, "loss=1%,seed=3");
    let (mut a, b) = (side_of(QpKind::Srd, &sealed), side_of(QpKind::Srd, &sealed));
    exchange_in_memory(&mut a, &b, 2000);
    assert_eq!(count(&a, Counter::TxUnsealedPkts), 0);
}

/// SRD-12.9: a program without the key may hand in a ring. Datagrams in it are treated like those
/// that the program sends over the network.
#[test]
fn what_a_stranger_puts_into_a_ring_is_refused() {
    let (a, b) = (side(QpKind::Ud, ""), common::sealing::sealed_side(QpKind::Ud, ""));
    let ah = a.ah(&b);
    b.post_recv(1, 0, 200);
    let start = Instant::now();
    while count(&a, Counter::TxMemoryPkts) < 100 {
        assert!(start.elapsed() < Duration::from_secs(30), "no ring was let in");
        a.send(2, &b, &ah, 0, 64);
        poll_until(&[&b, &a], |index, done| {
            assert_eq!((index, done.status), (1, Status::Ok), "{done:?}");
            true
        });
    }
    poll_until_counted(&[&b], &b, Counter::RxSealErrors, count(&a, Counter::TxPkts));
}

/// Sleeps until the next event.
fn sleep_on(channel: &Channel) {
    let mut count = [0u8; 8];
    // SAFETY: eight bytes of room; the descriptor lives as long as the channel.
    let got = unsafe { libc::read(channel.fd(), count.as_mut_ptr().cast(), 8) };
    assert_eq!(got, 8);
    let event = channel.take_event().expect("open").expect("an event");
    event.acknowledge_events(1);
}

/// A program that sleeps on a channel between messages, each of which must wake it.
#[test]
fn a_sleeper_is_woken_by_every_message() {
    let (mut a, b) = (side(QpKind::Srd, ""), side(QpKind::Srd, ""));
    // Rings are open before a program sleeps.
    exchange(&mut a, &b, 500);
    let channel = Channel::create().expect("a channel");
    let cq = Cq::create_on(&b.device, 64, Some(&channel)).expect("a queue");
    let qp = softefa::Qp::create(b.qp.pd(), common::init(QpKind::Srd, &cq)).expect("a queue pair");
    up(&qp, 7);
    let ah = a.ah(&b);
    let through_before = count(&a, Counter::TxMemoryPkts);
    let rounds = 300u64;
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut received = 0;
            while received < rounds {
                cq.arm().expect("armed");
                let mut taken = 0;
                cq.poll(16, |done| {
                    assert_eq!(done.status, Status::Ok);
                    taken += 1;
                });
                for _ in 0..taken {
                    qp.post_recv(0, &[b.sge(0, 64)]).expect("posted");
                }
                received += taken;
                if taken == 0 && received < rounds {
                    sleep_on(&channel);
                }
            }
        });
        (0..16).for_each(|i| qp.post_recv(i, &[b.sge(0, 64)]).expect("posted"));
        for number in 0..rounds {
            a.fill(0, &number.to_le_bytes());
            a.post(number, &ah, qp.qpn(), SendOp::Send, &[a.sge(0, 64)]);
            let done = settled_by(Duration::from_secs(20), || a.cq.poll_one());
            assert_eq!(
                (done.status, done.op),
                (Status::Ok, CompletionOp::Send),
                "message {number}"
            );
        }
        sleeper.join().expect("it received all");
    });
    println!("{} through memory", count(&a, Counter::TxMemoryPkts) - through_before);
    cq.retire_events();
}

/// Runs a process that receives until it is killed.
fn be_reader() {
    let b = side(QpKind::Srd, "");
    (0..256).for_each(|i| b.post_recv(i, 0, 64));
    println!("reader {}", b.qp.port());
    std::io::stdout().flush().expect("said");
    loop {
        let mut taken = 0;
        b.cq.poll(16, |_| taken += 1);
        (0..taken).for_each(|_| b.post_recv(0, 0, 64));
    }
}

fn start_reader(test: &str) -> (Child, u16) {
    let mut child = only(module_path!(), test)
        .env(READER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process");
    let mut said = BufReader::new(child.stdout.take().expect("its output"));
    let qpn = qpn_of(&mut said);
    (child, qpn)
}

fn qpn_of(said: &mut BufReader<ChildStdout>) -> u16 {
    let mut line = String::new();
    while said.read_line(&mut line).expect("its output") > 0 {
        if let Some((_, qpn)) = line.split_once("reader ") {
            return qpn.trim().parse().expect("a number");
        }
        line.clear();
    }
    panic!("the reader ended before it said its number");
}

/// Keeps messages under way to `qpn` until `until` packets went through memory, or one fails.
fn stream(a: &Side, ah: &Arc<Ah>, qpn: u16, until: u64) -> Option<Status> {
    let mut on_its_way = 0;
    let begin = Instant::now();
    while count(a, Counter::TxMemoryPkts) < until {
        assert!(begin.elapsed() < Duration::from_secs(60), "no end, and no failure");
        while on_its_way < 64 {
            a.post(0, ah, qpn, SendOp::Send, &[a.sge(0, 64)]);
            on_its_way += 1;
        }
        let mut failed = None;
        on_its_way -= a.cq.poll(64, |done| {
            failed = failed.or_else(|| (done.status != Status::Ok).then_some(done.status));
        });
        if failed.is_some() {
            return failed;
        }
    }
    None
}

/// Datagrams that are still in the ring are repeated through the kernel, which knows that the
/// reader is gone.
#[test]
fn a_killed_reader_is_told_by_the_kernel() {
    const NAME: &str = "a_killed_reader_is_told_by_the_kernel";
    if std::env::var_os(READER).is_some() {
        return be_reader();
    }
    for _ in 0..5 {
        let (mut child, qpn) = start_reader(NAME);
        let a = side(QpKind::Srd, "");
        let ah = a.ah(&a);
        assert_eq!(stream(&a, &ah, qpn, 2000), None);
        child.kill().expect("killed");
        child.wait().expect("its end");
        let begin = Instant::now();
        let status = stream(&a, &ah, qpn, u64::MAX);
        assert_eq!(status, Some(Status::RemoteBadDestQpn));
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    }
}

/// A reader that is stopped for a while loses nothing.
#[test]
fn a_stopped_reader_goes_on() {
    const NAME: &str = "a_stopped_reader_goes_on";
    if std::env::var_os(READER).is_some() {
        return be_reader();
    }
    let (mut child, qpn) = start_reader(NAME);
    let signal = |signal| {
        // SAFETY: a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
    };
    let a = side(QpKind::Srd, "");
    let ah = a.ah(&a);
    assert_eq!(stream(&a, &ah, qpn, 2000), None);
    signal(libc::SIGSTOP);
    let (begin, mut ended) = (Instant::now(), 0);
    (0..64).for_each(|i| a.post(i, &ah, qpn, SendOp::Send, &[a.sge(0, 64)]));
    while begin.elapsed() < Duration::from_millis(1500) {
        ended += a.cq.poll(64, |done| assert_eq!(done.status, Status::Ok));
    }
    signal(libc::SIGCONT);
    while ended < 64 {
        let done = settled_by(Duration::from_secs(20), || a.cq.poll_one());
        assert_eq!(done.status, Status::Ok);
        ended += 1;
    }
    let so_far = count(&a, Counter::TxMemoryPkts);
    assert_eq!(stream(&a, &ah, qpn, so_far + 1000), None, "through memory again");
    child.kill().expect("killed");
    child.wait().expect("its end");
}
