//! Tests of the wires of two queue pairs, and of hostile processes.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use srd::wire::ud::UdRepr;

use super::ring::{ReaderState, words_for};
use super::ring_listener::RingConnection;
use super::segment::Segment;
use super::*;
use crate::capture::{Capture, Protocol};
use crate::datagram::Datagram;
use crate::framing::{Framing, Layout};
use crate::memory::Piece;
use crate::status::Status;
use crate::wire::paths::PathSockets;

pub(super) const NOW: Instant = Instant::ZERO;

fn wire() -> (MemoryWire, SocketAddr) {
    wire_with(None)
}

/// Makes the wire of a queue pair whose device may have a key.
pub(super) fn wire_with(key: Option<&SealKey>) -> (MemoryWire, SocketAddr) {
    let sockets = PathSockets::bind(IpAddr::V4(Ipv4Addr::LOCALHOST), 1).unwrap();
    loop {
        let probe = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let at =
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), probe.local_addr().unwrap().port());
        drop(probe);
        // Another test may have taken the port.
        let capture = Arc::new(Capture::never());
        if let Ok(udp) =
            UdpWire::bind(at, Arc::clone(&sockets), &capture, Protocol::Srd, Layout::Srd)
        {
            return (MemoryWire::new(udp, at, key, &[], Links::private()), at);
        }
    }
}

fn header(number: u32, len: usize) -> [u8; UdRepr::LEN] {
    let (path, len) = (srd::PathId(0), u16::try_from(len).unwrap());
    let mut raw = [0; UdRepr::LEN];
    UdRepr { path, src_qpn: 1, dst_qpn: 2, qkey: 3, imm: number, op: 0, flags: 0, len }
        .emit(&mut raw);
    raw
}

fn payload(number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32 ^ number) as u8).collect()
}

fn piece(bytes: &[u8]) -> Piece {
    Piece { addr: bytes.as_ptr() as usize as u64, len: bytes.len() }
}

pub(super) fn send(
    from: &mut MemoryWire,
    to: SocketAddr,
    via: Via,
    number: u32,
    len: usize,
) -> Sent {
    send_at(NOW, from, to, via, (number, len))
}

fn send_at(
    now: Instant,
    from: &mut MemoryWire,
    to: SocketAddr,
    via: Via,
    (number, len): (u32, usize),
) -> Sent {
    let mut batch = Batch::new(&Framing::Done, 1000, 0);
    let (header, body) = (header(number, len), payload(number, len));
    batch.push(&mut Framing::Done, to, via, &header, [piece(&body)].into_iter()).unwrap();
    from.send(now, &mut batch)
}

/// Returns the numbers of the datagrams that have arrived, and checks their contents.
pub(super) fn take(at: &mut MemoryWire) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut in_vain = 0;
    // The first read of the socket may find nothing but a nudge.
    while in_vain < 2 {
        let Some(run) = at.receive(NOW) else {
            in_vain += 1;
            if in_vain < 2 {
                at.runs_left = 0;
            }
            continue;
        };
        for head in run.bytes.chunks(run.segment) {
            let datagram = Datagram::new(head, run.rest.unwrap_or_default());
            let repr = UdRepr::parse(head, datagram.len()).unwrap();
            assert_eq!(copied(&datagram), payload(repr.imm, usize::from(repr.len)));
            numbers.push(repr.imm);
        }
    }
    numbers
}

/// Returns the number of empty datagrams in the socket.
fn calls(at: &mut MemoryWire) -> usize {
    std::iter::from_fn(|| at.udp.fetch()).filter(|train| train.len == 0).count()
}

/// Returns the bytes that a program receives of a datagram.
fn copied(datagram: &Datagram<'_>) -> Vec<u8> {
    let payload = datagram.payload(UdRepr::LEN.min(datagram.head.len()));
    let mut to = vec![0; payload.len()];
    payload.copy_to(to.as_mut_ptr() as usize as u64).unwrap();
    to
}

/// Makes two wires with a ring from the first to the second.
fn linked() -> (MemoryWire, MemoryWire, SocketAddr) {
    linked_with([None; 2])
}

/// Makes two wires with a ring, of devices with these keys.
pub(super) fn linked_with(keys: [Option<&SealKey>; 2]) -> (MemoryWire, MemoryWire, SocketAddr) {
    let [(mut a, _), (mut b, to)] = keys.map(wire_with);
    for number in 0..100 {
        if send(&mut a, to, Via::Path(0), number, 64).memory_pkts == 1 {
            assert_eq!(take(&mut b), [number]);
            return (a, b, to);
        }
        take(&mut b);
        // A ring that was refused once may be tried again.
        std::thread::sleep(std::time::Duration::from_micros(100));
        a.outbox.hurry();
    }
    panic!("no ring was opened for 100 datagrams");
}

#[test]
fn datagrams_of_all_lengths_arrive_in_order() {
    let (mut a, mut b, to) = linked();
    for round in 0..20 {
        let lens = (0..60).map(|i| (i * 149 + round * 31) as usize % 9000);
        let numbers: Vec<u32> = (0..60).map(|i| round * 100 + i).collect();
        for (number, len) in numbers.iter().zip(lens) {
            assert_eq!(send(&mut a, to, Via::Path(0), *number, len).memory_pkts, 1);
        }
        assert_eq!(take(&mut b), numbers);
    }
}

/// Adds datagrams of these lengths to a batch, numbered from 0.
fn batch_of(to: SocketAddr, via: Via, lens: &[usize]) -> Batch {
    let mut batch = Batch::new(&Framing::Done, 1000, 0);
    for (number, len) in (0..).zip(lens) {
        let (header, body) = (header(number, *len), payload(number, *len));
        // Short datagrams are copied, long ones stay where they are.
        let body = body.leak();
        batch.push(&mut Framing::Done, to, via, &header, [piece(body)].into_iter()).unwrap();
    }
    batch
}

/// Returns the lengths of the runs that have arrived, and of their datagrams.
fn runs(at: &mut MemoryWire) -> Vec<(usize, usize)> {
    std::iter::from_fn(|| at.receive(NOW).map(|run| (run.len(), run.segment))).collect()
}

/// SRD-12.3: each record costs both sides as much as a short message, so that equal ones share one.
#[test]
fn equal_datagrams_are_one_record() {
    let (mut a, mut b, to) = linked();
    let line = b.inbox.next_line(port_of(&a)).unwrap();
    let sent = a.send(NOW, &mut batch_of(to, Via::Path(0), &[64; 40]));
    assert_eq!((sent.pkts, sent.memory_pkts), (40, 40));
    let one = UdRepr::LEN + 64;
    assert_eq!(sent.bytes, 40 * one as u64);
    assert_eq!(runs(&mut b), [(40 * one, one)]);
    let lines = (8 + 40 * one).div_ceil(64) as u64;
    assert_eq!(b.inbox.next_line(port_of(&a)).unwrap() - line, lines);
    a.send(NOW, &mut batch_of(to, Via::Stream(0), &[64; 60]));
    assert_eq!(take(&mut b), (0..60).collect::<Vec<_>>());
}

/// A shorter datagram ends a train, and a longer one begins another. A datagram that lies
/// elsewhere, or leaves another way, is part of no train.
#[test]
fn only_what_is_alike_is_one_record() {
    let (mut a, mut b, to) = linked();
    let lens = [64, 64, 20, 64, 100, 100, 100, 8000, 100, 0, 0, 500, 500, 500];
    a.send(NOW, &mut batch_of(to, Via::Path(0), &lens));
    assert_eq!(take(&mut b), (0..14).collect::<Vec<_>>());
    for via in [Via::Kernel(0), Via::Patient(0), Via::Acknowledgement(0)] {
        a.send(NOW, &mut batch_of(to, via, &[64; 10]));
        assert_eq!(take(&mut b), (0..10).collect::<Vec<_>>(), "{via:?}");
    }
    // There is more than a train holds, in bytes and in datagrams.
    for lens in [&[500; 64][..], &[0; 64]] {
        a.send(NOW, &mut batch_of(to, Via::Path(0), lens));
        assert_eq!(take(&mut b).len(), lens.len());
    }
}

/// A reader of an older version does not accept trains, and would give the ring up.
#[test]
fn who_does_not_say_that_it_takes_trains_gets_none() {
    let (mut a, mut b, to) = linked();
    b.inbox.forget_trains();
    let line = b.inbox.next_line(port_of(&a)).unwrap();
    let sent = a.send(NOW, &mut batch_of(to, Via::Path(0), &[64; 40]));
    assert_eq!(sent.memory_pkts, 40);
    assert_eq!(take(&mut b), (0..40).collect::<Vec<_>>());
    let lines = (8 + UdRepr::LEN + 64).div_ceil(64) as u64;
    assert_eq!(b.inbox.next_line(port_of(&a)).unwrap() - line, 40 * lines);
}

fn port_of(wire: &MemoryWire) -> u16 {
    wire.local.port()
}

/// SRD-12.4: headers, and what a check covers, are looked at in memory of ours only.
#[test]
fn long_payload_is_lent_unless_its_check_covers_it() {
    let (mut a, mut b, to) = linked();
    for (mut framing, is_lent) in [(Framing::Headers, true), (Framing::All, false)] {
        for (number, len) in [(1, 1000), (2, 8000)] {
            let mut batch = Batch::new(&framing, 100, 9000);
            let (header, body) = (header(number, len), payload(number, len));
            batch
                .push(&mut framing, to, Via::Path(0), &header, [piece(&body)].into_iter())
                .unwrap();
            assert_eq!(a.send(NOW, &mut batch).memory_pkts, 1);
            let run = b.receive(NOW).unwrap();
            assert_eq!(run.rest.is_some(), is_lent && len == 8000, "{framing:?}, {len} bytes");
            let (from, rest) = (run.from.ip(), run.rest.unwrap_or_default());
            assert!(framing.is_plain(from, run.bytes, rest), "{framing:?}, {len} bytes");
            let datagram = Datagram::new(run.bytes, rest);
            assert_eq!((run.len(), copied(&datagram)), (UdRepr::LEN + len, body));
        }
    }
}

/// SRD-12.6.
#[test]
fn what_the_kernel_must_see_goes_through_it() {
    let (mut a, mut b, to) = linked();
    for via in [Via::Kernel(0), Via::OwnSocket] {
        let sent = send(&mut a, to, via, 7, 64);
        assert_eq!((sent.pkts, sent.memory_pkts, sent.syscalls), (1, 0, 1), "{via:?}");
        assert_eq!(take(&mut b), [7]);
    }
}

#[test]
fn a_full_ring_leaves_the_rest_to_the_kernel() {
    let (mut a, mut b, to) = linked();
    let sent: Vec<_> = (0..300).map(|i| send(&mut a, to, Via::Path(0), i, 8192)).collect();
    let through_memory = sent.iter().filter(|sent| sent.memory_pkts == 1).count();
    assert!((200..300).contains(&through_memory), "{through_memory} of 300");
    assert!(sent.iter().all(|sent| sent.pkts == 1));
    let mut got = take(&mut b);
    got.sort_unstable();
    assert_eq!(got, (0..300).collect::<Vec<_>>());
    assert_eq!(send(&mut a, to, Via::Path(0), 5, 8192).memory_pkts, 1, "there is room again");
}

/// SRD-12.8.
#[test]
fn what_nobody_sends_again_waits_for_room_in_the_ring() {
    let (mut a, mut b, to) = linked();
    let (mut got, mut total) = (Vec::new(), Sent::default());
    for number in 0..600 {
        while a.is_blocked() {
            assert!(a.next_release().is_some());
            got.extend(take(&mut b));
            total.add(&a.release(NOW));
        }
        total.add(&send(&mut a, to, Via::Patient(0), number, 8192));
    }
    got.extend(take(&mut b));
    total.add(&a.release(NOW));
    got.extend(take(&mut b));
    assert_eq!(got, (0..600).collect::<Vec<_>>());
    assert_eq!((total.memory_pkts, total.pkts), (600, 600));
    assert!(total.blocked > 0, "the ring was never full");
}

/// Datagrams in a sleeper's socket must not be overtaken by those in its ring after it has woken
/// (SRD-12.8).
#[test]
fn what_nobody_sends_again_keeps_to_the_ring_of_a_sleeper() {
    let (mut a, mut b, to) = linked();
    b.sleep(Sleep::Sound);
    (0..20).for_each(|i| assert_eq!(send(&mut a, to, Via::Patient(0), i, 64).memory_pkts, 1));
    assert!(b.sleep(Sleep::Sound), "there is something to read");
    b.wake();
    (20..40).for_each(|i| assert_eq!(send(&mut a, to, Via::Patient(0), i, 64).memory_pkts, 1));
    assert_eq!(take(&mut b), (0..40).collect::<Vec<_>>());
}

/// SRD-12.5: otherwise each packet of a stream of WRITEs to a program that computes would cost both
/// sides a system call.
#[test]
fn a_sleeper_is_called_once_for_many() {
    let (mut a, mut b, to) = linked();
    for round in 0..3 {
        b.sleep(Sleep::Sound);
        (0..20).for_each(|i| {
            assert_eq!(send(&mut a, to, Via::Stream(0), round * 20 + i, 64).memory_pkts, 1);
        });
        assert_eq!(calls(&mut b), 1, "round {round}");
        assert_eq!(take(&mut b), (round * 20..round * 20 + 20).collect::<Vec<_>>());
    }
}

/// SRD-12.5: otherwise each acknowledgement would wake a service thread beside the program that
/// polls for it.
#[test]
fn a_light_sleeper_is_not_called_for_acknowledgements() {
    let (mut a, mut b, to) = linked();
    let mut put = |via, mark| assert_eq!(send(&mut a, to, via, mark, 64).memory_pkts, 1);
    b.sleep(Sleep::Light);
    put(Via::Acknowledgement(0), 0);
    assert_eq!(calls(&mut b), 0);
    put(Via::Stream(0), 1);
    assert_eq!(calls(&mut b), 1);
    assert!(b.sleep(Sleep::Light), "something is there");
    assert_eq!(take(&mut b), [0, 1]);
    put(Via::Acknowledgement(0), 2);
    assert_eq!(calls(&mut b), 0);
    assert!(b.sleep(Sleep::Sound), "it was not called for this one");
    assert_eq!(take(&mut b), [2]);
    put(Via::Acknowledgement(0), 3);
    assert_eq!(calls(&mut b), 1, "sound sleepers are called for everything");
    assert_eq!(take(&mut b), [3]);
}

/// The program may read the datagram that called the service thread, and then watch its memory. The
/// sleeper is called again.
#[test]
fn a_sleeper_whose_call_was_taken_away_is_called_again() {
    let (mut a, mut b, to) = linked();
    b.sleep(Sleep::Sound);
    assert!(!b.was_called());
    send(&mut a, to, Via::Stream(0), 0, 64);
    assert_eq!(take(&mut b), [0]);
    assert!(b.was_called() && !b.sleep(Sleep::Sound), "everything was taken");
    send(&mut a, to, Via::Stream(0), 1, 64);
    assert_eq!(calls(&mut b), 1);
    assert_eq!(take(&mut b), [1]);
}

/// The next writer must not assume that the sleeper was called (SRD-12.5).
#[test]
fn a_sleeper_whose_call_the_kernel_refused_is_called_again() {
    let (mut a, mut b, to) = linked();
    b.sleep(Sleep::Sound);
    // SAFETY: lent to this call.
    let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(a.udp.receive_fd()) };
    // The call fails on a socket without a peer, and nothing is sent all the same.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
    assert!(!a.udp.call(to), "nothing leaves");
    let mut due = NOW;
    for round in 0..3 {
        assert_eq!(send(&mut a, to, Via::Stream(0), round, 64).memory_pkts, 1);
        assert_eq!(a.next_release(), Some(NOW.plus_ns(CALL_AGAIN_NS)));
        due = a.next_release().unwrap();
    }
    a.release(due);
    assert_eq!(a.next_release(), Some(due.plus_ns(CALL_AGAIN_NS)));
    let (mut fresh, _) = wire();
    std::mem::swap(&mut a.udp, &mut fresh.udp);
    a.release(a.next_release().unwrap());
    assert_eq!(calls(&mut b), 1);
    assert_eq!(take(&mut b), [0, 1, 2]);
}

/// SRD-12.5: a kernel without room drops what it has taken, and tells nobody.
#[test]
fn a_sleeper_whose_call_was_lost_is_called_again() {
    let (mut a, mut b, to) = linked();
    b.sleep(Sleep::Sound);
    send(&mut a, to, Via::Stream(0), 0, 64);
    let mut waits_ns = Vec::new();
    let mut now = NOW;
    for _ in 0..12 {
        assert_eq!(calls(&mut b), 1, "lost by the kernel");
        let next = a.next_release().expect("nobody has read");
        waits_ns.push(next.ns_since(now));
        now = next;
        a.release(now);
    }
    assert_eq!(waits_ns[..3], [10_000_000, 20_000_000, 40_000_000]);
    assert_eq!(waits_ns[11], 1_000_000_000);
    assert_eq!(take(&mut b), [0]);
    b.sleep(Sleep::Sound);
    a.release(now.plus_ns(1_000_000_000));
    assert_eq!((a.next_release(), calls(&mut b)), (None, 0), "all is read");
}

/// SRD-12.8: a reader that reads a line of its ring now and then must not delay everything that a
/// queue pair sends.
#[test]
fn a_reader_that_hardly_reads_holds_nobody_up() {
    let (mut a, b, to) = linked();
    let mut number = 0;
    while !a.is_blocked() {
        send(&mut a, to, Via::Patient(0), number, 8000);
        number += 1;
    }
    let mut now = NOW;
    for _ in 0..4 {
        assert!(a.is_blocked());
        now = now.plus_ns(30_000_000);
        b.inbox.pretend_to_read();
        a.release(now);
    }
    assert!(!a.is_blocked(), "what waited went through the kernel");
    assert_eq!(a.outbox.read_by().count(), 0);
}

/// The writer may still write to a ring that it does not know to be given up.
#[test]
fn what_comes_while_an_idle_ring_is_given_up_is_read() {
    let (mut a, mut b, to) = linked();
    send(&mut a, to, Via::Patient(0), 1, 64);
    b.inbox.age();
    b.inbox.tidy(Instant::from_ns(60_000_000_000));
    assert_eq!(take(&mut b), [1]);
    b.inbox.age();
    b.inbox.tidy(Instant::from_ns(120_000_000_000));
    assert!(b.inbox.is_empty(), "idle, and empty");
}

/// A socket counts as empty only after all calls in it were read, also more than 16 (SRD-12.7).
#[test]
fn a_socket_is_not_empty_behind_many_calls() {
    let (mut a, mut b, to) = linked();
    b.sleep(Sleep::Sound);
    (0..40).for_each(|_| assert!(a.udp.call(to)));
    send(&mut a, to, Via::Kernel(0), 1, 64);
    b.wake();
    for looks in 0.. {
        let Some(run) = b.receive(NOW) else { panic!("called empty after {looks} looks") };
        if !run.bytes.is_empty() {
            break;
        }
        assert!(b.inbox.is_asleep(), "there is more in the socket");
    }
}

/// A stopped program gets no further rings while it does not accept one, however long others send
/// to it (SRD-12.2).
#[test]
fn rings_that_nobody_lets_in_take_no_memory() {
    let ((mut a, _), (mut b, to)) = (wire(), wire());
    send(&mut a, to, Via::Path(0), 1, 64);
    assert_eq!(take(&mut b), [1]);
    let Acceptance::Open(ring_listener) = &b.acceptance else { panic!("{:?}", b.acceptance) };
    for tenth in 0..600 {
        let now = NOW.plus_ns(tenth * 100_000_000);
        send_at(now, &mut a, to, Via::Path(0), (2, 64));
    }
    let files: Vec<_> = ring_listener.accept_rings().map(|offered| offered.file).collect();
    let bytes = files.iter().map(|file| rustix::fs::fstat(file).unwrap().st_blocks * 512);
    let (rings, bytes) = (files.len(), bytes.sum::<i64>());
    assert!(rings > 5, "{rings}");
    assert!(bytes < 4 << 20, "{rings} rings of {bytes} bytes");
}

/// SRD-12.8, SRD-12.6: if a ring is not read, datagrams do not wait for it for ever.
#[test]
fn a_ring_that_nobody_reads_holds_nothing_up() {
    let (mut a, _b, to) = linked();
    let mut number = 0;
    while !a.is_blocked() {
        send(&mut a, to, Via::Patient(0), number, 8192);
        number += 1;
    }
    let later = |ms: u64| NOW.plus_ns(ms * 1_000_000);
    assert_eq!(a.release(NOW).pkts, 0);
    assert!(a.release(later(99)).pkts == 0 && a.is_blocked());
    let sent = a.release(later(100));
    assert_eq!((sent.pkts, sent.memory_pkts), (1, 0), "through the kernel");
    assert!(!a.is_blocked());
}

/// A repetition through the kernel must not be answered before what it repeats, because everything
/// in between would count as lost (SRD-12.7).
#[test]
fn what_goes_through_the_kernel_overtakes_no_ring() {
    let (mut a, mut b, to) = linked();
    (0..250).for_each(|i| assert_eq!(send(&mut a, to, Via::Path(0), i, 8000).memory_pkts, 1));
    send(&mut a, to, Via::Kernel(0), 250, 8000);
    assert_eq!(take(&mut b), (0..=250).collect::<Vec<_>>());
}

#[test]
fn what_came_before_a_sleeper_wakes_is_taken_first() {
    let (mut a, mut b, to) = linked();
    let via = Via::Path(0);
    assert_eq!(send(&mut a, to, via, 0, 64).memory_pkts, 1);
    b.sleep(Sleep::Sound);
    (1..20).for_each(|i| assert_eq!(send(&mut a, to, via, i, 64).memory_pkts, 0));
    b.wake();
    assert_eq!(send(&mut a, to, via, 20, 64).memory_pkts, 0, "the socket has older ones");
    assert_eq!(take(&mut b), (0..=20).collect::<Vec<_>>());
    assert_eq!(send(&mut a, to, via, 21, 64).memory_pkts, 1);
}

/// An endless stream in the rings or in the socket does not keep the other from its turn.
#[test]
fn rings_and_socket_take_turns() {
    let (mut a, mut b, to) = linked();
    let mut got = Vec::new();
    send(&mut a, to, Via::Kernel(0), 1_000_000, 64);
    for i in 0..2 * RUNS_MAX {
        send(&mut a, to, Via::Path(0), i, 8000);
        got.extend(
            b.receive(NOW)
                .map(|run| UdRepr::parse(&run.bytes[..UdRepr::LEN], run.len()).unwrap().imm),
        );
    }
    assert!(got.contains(&1_000_000), "{} runs and none from the socket", got.len());
}

/// A sleeper is woken by its socket; what was put into the ring before it slept is found
/// (SRD-12.5).
#[test]
fn sleepers_are_reached_through_the_kernel() {
    let (mut a, mut b, to) = linked();
    send(&mut a, to, Via::Path(0), 1, 64);
    assert!(b.sleep(Sleep::Sound), "something is there");
    assert_eq!(take(&mut b), [1]);
    assert!(!b.sleep(Sleep::Sound));
    assert_eq!(send(&mut a, to, Via::Path(0), 2, 64).memory_pkts, 0);
    assert_eq!(take(&mut b), [2]);
    b.wake();
    assert_eq!(take(&mut b), []);
    assert_eq!(send(&mut a, to, Via::Path(0), 3, 64).memory_pkts, 1);
    assert_eq!(take(&mut b), [3]);
}

/// Memory that was unmapped behind our back ends its message, and no other.
#[test]
fn memory_that_is_gone_ends_its_message_alone() {
    crate::memory::signals::install();
    let (mut a, mut b, to) = linked();
    let mut batch = Batch::new(&Framing::Done, 1000, 0);
    let gone = Piece { addr: 4096, len: 1000 };
    let place = batch
        .push(&mut Framing::Done, to, Via::Path(0), &header(1, 1000), [gone].into_iter())
        .unwrap();
    a.send(NOW, &mut batch);
    let impossible = batch.take_impossible().unwrap();
    assert_eq!((impossible.place, impossible.status), (place, Status::LocalInvalidLkey));
    assert_eq!(send(&mut a, to, Via::Path(0), 2, 64).memory_pkts, 1);
    assert_eq!(take(&mut b), [2]);
}

#[test]
fn who_leaves_is_reached_through_the_kernel() {
    let (mut a, mut b, to) = linked();
    b.leave_rings();
    let sent = send(&mut a, to, Via::Path(0), 1, 64);
    assert_eq!((sent.pkts, sent.memory_pkts), (1, 0));
    assert_eq!(take(&mut b), [1]);
    a.leave_rings();
    assert_eq!(send(&mut a, to, Via::Path(0), 2, 64).memory_pkts, 0);
}

/// A killed reader does not say so, and another process may have its address.
#[test]
fn a_ring_that_nobody_reads_is_given_up_when_datagrams_are_repeated() {
    let (mut a, b, to) = linked();
    send(&mut a, to, Via::Path(0), 1, 64);
    let doubt = |a: &mut MemoryWire, at_ms: u64| {
        a.outbox.doubt(Instant::from_ns(at_ms * 1_000_000), to);
        a.outbox.read_by().count()
    };
    assert_eq!([0, 60, 99].map(|at_ms| doubt(&mut a, at_ms)), [1, 1, 1]);
    assert_eq!(doubt(&mut a, 100), 0);
    drop(b);
}

/// The reader may only have been stopped. The more often that happened, the longer the next ring
/// takes.
#[test]
fn a_reader_that_was_stopped_has_a_ring_again_soon() {
    let (mut a, mut b, to) = linked();
    let ms = |ms: u64| Instant::from_ns(ms * 1_000_000);
    let stop = |a: &mut MemoryWire, at_ms| {
        send_at(ms(at_ms), a, to, Via::Path(0), (1, 64));
        a.outbox.doubt(ms(at_ms), to);
        a.outbox.doubt(ms(at_ms + 100), to);
        assert_eq!(a.outbox.read_by().count(), 0, "given up");
    };
    let mut is_open = |a: &mut MemoryWire, at_ms| {
        // The datagrams make the peer worth a ring, and a peer that is told of a ring accepts it.
        for _ in 0..5 {
            send_at(ms(at_ms), a, to, Via::Path(0), (2, 64));
            take(&mut b);
        }
        a.outbox.read_by().count() == 1
    };
    let mut now_ms = 0;
    for pause_ms in [100, 400, 1600, 4000, 4000] {
        stop(&mut a, now_ms);
        now_ms += 100 + pause_ms;
        assert!(!is_open(&mut a, now_ms - 1) && is_open(&mut a, now_ms), "{pause_ms} ms");
    }
    // A ring that was read for long resets the delay.
    now_ms += 5000;
    stop(&mut a, now_ms);
    assert!(is_open(&mut a, now_ms + 200));
}

/// A process of the same user writes whatever it likes wherever it can while the ring is read
/// (SRD-12.4).
#[test]
fn a_hostile_writer_harms_nobody() {
    let (mut b, to) = wire();
    let (mut good, _) = wire();
    // This opens the ring listener.
    send(&mut good, to, Via::Path(0), 1, 64);
    assert_eq!(take(&mut b), [1]);
    let (segment, file) = Segment::create().unwrap();
    let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
    RingConnection::of(to).unwrap().hand_in(from, file.as_fd()).unwrap();
    good.udp.nudge(to);
    take(&mut b);
    assert_eq!(b.inbox.written_by().collect::<Vec<_>>(), [from]);
    let is_over = AtomicBool::new(false);
    let (mut datagrams, mut lent, mut rings) = (0, 0, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut state = 1u64;
            let plausible = header(7, 9000);
            while !is_over.load(Ordering::Relaxed) {
                for (at, word) in segment.words().iter().enumerate() {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let value = match state >> 61 {
                        0..=3 => 1 << 63 | (state >> 40 & 0x3FFF),
                        4 => 1 << 62,
                        5 => 0,
                        _ => state,
                    };
                    // Headers behind the first word of a line.
                    let is_header = (1..5).contains(&(at % 8)) && state >> 50 & 1 == 0;
                    let of_header = plausible.chunks(8).nth(at % 8 - usize::from(is_header));
                    let value = match of_header.filter(|_| is_header) {
                        Some(part) => {
                            part.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
                        }
                        None => value,
                    };
                    word.store(value, Ordering::Relaxed);
                }
            }
        });
        let begin = std::time::Instant::now();
        // The loop runs until everything was tried, however slow the machine is.
        let is_tried = |lent, rings| lent > 0 && rings > 1;
        while begin.elapsed().as_millis() < 300
            || !is_tried(lent, rings) && begin.elapsed().as_secs() < 60
        {
            while let Some(run) = b.inbox.take(NOW, Some(Layout::Srd), &mut b.buffer) {
                assert!(run.segment >= 1 && b.buffer.len() <= words_for(2 << 20) * 8);
                datagrams += 1;
                if let Some(rest) = run.rest {
                    copied(&Datagram::new(&b.buffer, rest));
                    lent += 1;
                }
            }
            // The ring was given up, and the enemy returns.
            b.inbox.tidy(Instant::from_ns(u64::MAX >> 1));
            b.inbox.hurry();
            if b.inbox.is_empty() {
                rings += 1;
                RingConnection::of(to).unwrap().hand_in(from, file.as_fd()).unwrap();
                b.greet(NOW, from, 0);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(lent > 0 && rings > 1, "{lent} of {datagrams} datagrams lent, {rings} rings");
    send(&mut good, to, Via::Kernel(0), 2, 64);
    b.inbox = Inbox::default();
    assert_eq!(take(&mut b), [2]);
}

/// Whatever a reader stores, it can only make the writer use the kernel.
#[test]
fn a_hostile_reader_harms_nobody() {
    let ((mut a, _), (mut b, to)) = (wire(), wire());
    send(&mut a, to, Via::Path(0), 1, 64);
    assert_eq!(take(&mut b), [1]);
    let Acceptance::Open(ring_listener) = &b.acceptance else { panic!("{:?}", b.acceptance) };
    // The ring is not accepted by the wire, but by a reader that reads it in another way.
    let file = std::iter::from_fn(|| {
        a.outbox.hurry();
        send(&mut a, to, Via::Path(0), 9, 64);
        Some(ring_listener.accept_rings().next())
    });
    let offered = file.take(100).flatten().next().expect("a ring is handed in");
    let theirs = Segment::open(offered.file).unwrap();
    let words = theirs.words();
    ring::Reader::store_state(words, ReaderState::Awake);
    let mut through_memory = 0;
    for freed in [0, u64::MAX, 1 << 40] {
        words[0].store(freed, Ordering::Relaxed);
        for number in 0..1000 {
            let sent = send(&mut a, to, Via::Path(0), number, 4096);
            through_memory += sent.memory_pkts;
            assert_eq!(sent.pkts, 1);
        }
    }
    assert!((1..600).contains(&through_memory), "{through_memory}");
    assert_eq!(a.outbox.read_by().count(), 0, "it was given up");
}

/// A process with the same address in another network namespace has no listener here.
#[test]
fn another_network_is_reached_through_the_kernel() {
    let (mut b, to) = wire();
    let (mut a, _) = wire();
    send(&mut a, to, Via::Path(0), 1, 64);
    assert_eq!(take(&mut b), [1]);
    assert!(RingConnection::of(to).is_ok());
    let elsewhere = std::thread::spawn(move || {
        // SAFETY: changes the network of this thread alone.
        let is_apart = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        is_apart.then(|| RingConnection::of(to).map(drop).map_err(|error| error.kind()))
    });
    match elsewhere.join().unwrap() {
        Some(found) => assert_eq!(found, Err(std::io::ErrorKind::ConnectionRefused)),
        None => eprintln!("SKIPPED: a network of its own needs root"),
    }
}
