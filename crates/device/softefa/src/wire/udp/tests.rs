//! One wire, and the network below it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use srd::wire::ud::UdRepr;

use super::*;
use crate::framing::Framing;

fn wire(paths: u16) -> (UdpWire, SocketAddr) {
    let sockets = PathSockets::bind(IpAddr::V4(Ipv4Addr::LOCALHOST), paths).unwrap();
    // A port that was free a moment ago.
    let probe = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), probe.local_addr().unwrap().port());
    drop(probe);
    (
        UdpWire::bind(at, sockets, &Arc::new(Capture::never()), Protocol::Srd, Layout::Srd)
            .unwrap(),
        at,
    )
}

fn header(imm: u32, len: u16) -> [u8; UdRepr::LEN] {
    let path = srd::PathId(0);
    let mut raw = [0; UdRepr::LEN];
    UdRepr { path, src_qpn: 1, dst_qpn: 2, qkey: 3, imm, op: 0, flags: 0, len }.emit(&mut raw);
    raw
}

fn piece(bytes: &[u8]) -> Piece {
    Piece { addr: bytes.as_ptr() as usize as u64, len: bytes.len() }
}

#[test]
fn equal_datagrams_travel_together_and_arrive_apart() {
    let (mut a, _) = wire(2);
    let (mut b, to) = wire(1);
    let payload = vec![5u8; 1000];
    let mut batch = Batch::new(&Framing::Done, 1000, 0);
    for (number, len) in [(1, 1000), (2, 1000), (3, 1000), (4, 10)] {
        let header = header(number, len);
        let payload = piece(&payload[..len as usize]);
        batch
            .push(&mut Framing::Done, to, Via::Path(1), &header, std::iter::once(payload))
            .unwrap();
    }
    let sent = a.send(Instant::from_ns(0), &mut batch);
    assert_eq!((sent.pkts, sent.syscalls, sent.errors), (4, 1, 0));
    assert!(batch.is_empty());
    let mut seen = Vec::new();
    while let Some(run) = b.receive(Instant::ZERO) {
        for datagram in run.bytes.chunks(run.segment) {
            let repr = UdRepr::parse(datagram, datagram.len()).unwrap();
            seen.push((repr.imm, repr.len));
        }
    }
    assert_eq!(seen, [(1, 1000), (2, 1000), (3, 1000), (4, 10)]);
}

/// An answer to a forged address may be refused by the network. The error must not fail the next
/// send.
#[test]
fn refused_answers_are_not_heard_of() {
    let (mut a, from) = wire(1);
    let (gone, nowhere) = wire(1);
    drop(gone);
    let listener = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut total = Sent::default();
    for to in [nowhere, nowhere, SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)] {
        let mut batch = Batch::new(&Framing::Done, 1000, 0);
        let answer = header(1, 0);
        batch.push(&mut Framing::Done, to, Via::OwnSocket, &answer, std::iter::empty()).unwrap();
        let sent = a.send(Instant::ZERO, &mut batch);
        total.syscalls += sent.syscalls;
        total.refused += sent.refused;
    }
    assert_eq!((total.syscalls, total.refused), (3, 0));
    a.paths.collect_refusals(Instant::ZERO);
    assert!(!a.paths.has_refusals());
    let (_, source) = listener.recv_from(&mut [0; 100]).unwrap();
    assert_eq!(source, from);
}

/// A destination without segmentation cost all others of the device theirs, for ever.
#[test]
fn where_the_kernel_does_not_segment_datagrams_leave_one_by_one() {
    let (mut a, _) = wire(2);
    let (mut b, to) = wire(1);
    let burst = |to, path| {
        let mut batch = Batch::new(&Framing::Done, 1000, 0);
        for number in 0..3 {
            let header = header(number, 0);
            batch
                .push(&mut Framing::Done, to, Via::Path(path), &header, std::iter::empty())
                .unwrap();
        }
        batch
    };
    // Without checksums there is no segmentation: the kernel refuses with EIO.
    set_int(&a.paths.sockets[0], libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    let now = Instant::from_ns(0);
    let sent = a.send(now, &mut burst(to, 0));
    assert_eq!((sent.pkts, sent.errors), (3, 0));
    let runs = std::iter::from_fn(|| b.receive(Instant::ZERO).map(drop)).count();
    assert_eq!(runs, 3);
    let other = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let elsewhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), port);
    let mut syscalls = |now, to| a.send(now, &mut burst(to, 1)).syscalls;
    assert_eq!((syscalls(now, to), syscalls(now, elsewhere)), (3, 1));
    assert_eq!(syscalls(now.plus_ns(10_000_000_000), to), 1, "it is tried again");
}

/// In a network of its own whose loopback is as slow as `queue` says; `false` without root or
/// tc(8).
fn slow_loopback(queue: &str) -> bool {
    // SAFETY: changes the network of this thread alone.
    let is_apart = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
    let command = format!("ip link set lo up && tc qdisc add dev lo root tbf {queue}");
    let shell = || std::process::Command::new("sh").args(["-c", &command]).status();
    let is_slow = is_apart && shell().is_ok_and(|status| status.success());
    if !is_slow {
        eprintln!("SKIPPED: a slow loopback needs root, ip(8) and tc(8)");
    }
    is_slow
}

/// Sends more than the socket takes at once and receives it; the datagrams that waited.
fn fill_and_drain() -> u64 {
    const COUNT: u32 = 6400;
    let (mut a, _) = wire(1);
    let (mut b, to) = wire(1);
    set_int(&a.paths.sockets[0], libc::SOL_SOCKET, libc::SO_SNDBUF, 64 << 10).unwrap();
    let payload = vec![5u8; 1000];
    let (mut total, mut seen, mut number) = (Sent::default(), 0, 0);
    let start = std::time::Instant::now();
    while seen < COUNT {
        assert!(start.elapsed().as_secs() < 20, "{seen} of {COUNT} arrived: {total:?}");
        let now = host::now();
        if a.next_release().is_some_and(|at| at <= now) {
            total.errors += a.release(now).errors;
        }
        if number < COUNT && !a.is_blocked() {
            let mut batch = Batch::new(&Framing::Done, 1000, 0);
            while !batch.is_full() && number < COUNT {
                let (header, body) = (header(number, 1000), [piece(&payload)].into_iter());
                batch.push(&mut Framing::Done, to, Via::Path(0), &header, body).unwrap();
                number += 1;
            }
            let sent = a.send(now, &mut batch);
            (total.errors, total.blocked) =
                (total.errors + sent.errors, total.blocked + sent.blocked);
        }
        while let Some(run) = b.receive(Instant::ZERO) {
            seen += u32::try_from(run.bytes.len().div_ceil(run.segment)).unwrap();
        }
    }
    assert_eq!(total.errors, 0, "counted as lost");
    total.blocked
}

/// A full socket buffer is neither a loss nor a suspicion against the path.
#[test]
fn a_full_socket_is_waited_for() {
    let slow = std::thread::spawn(|| {
        slow_loopback("rate 400mbit burst 256kb limit 16mb").then(fill_and_drain)
    });
    assert_ne!(slow.join().unwrap(), Some(0), "the socket took all at once");
}

/// A full queue of the interface, which drops and says so.
#[test]
fn a_full_interface_is_waited_for() {
    let slow = std::thread::spawn(|| {
        slow_loopback("rate 400mbit burst 128kb limit 32kb").then(fill_and_drain)
    });
    assert_ne!(slow.join().unwrap(), Some(0), "the interface took all at once");
}
