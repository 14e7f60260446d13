//! Queue pairs behind a gateway (RC-1.9), each device at an address of its own.
#![allow(clippy::unwrap_used, reason = "what cannot be set up has failed")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::roce::{
    Link, config, connect, ends, gather, has_ipv6, pattern, post, side, wide,
};
use crate::common::{Side, remote};
use softefa::counters::Counter;
use softefa::gateway::{Counts, Server};
use softefa::{Config, CreateQpError, Device, OpenError, Qp, QpKind, SendOp, Status, WireChoice};

use Status::Ok;

/// A gateway that serves two addresses.
struct Gateway {
    addrs: [IpAddr; 2],
    port: u16,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Counts>,
}

impl Gateway {
    /// Starts a gateway; `number` distinguishes the tests of this file.
    fn start(number: u32) -> Self {
        let base = 0x7FC0_0000 | (std::process::id() & 0xFFFF) << 5 | number << 1;
        Self::at([base, base | 1].map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits))))
    }

    fn at(addrs: [IpAddr; 2]) -> Self {
        let free = UdpSocket::bind((addrs[0], 0)).unwrap().local_addr().unwrap().port();
        let mut server = Server::open(&addrs, free, true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                server.turn(Duration::from_millis(1)).unwrap();
            }
            server.counts()
        });
        Self { addrs, port: free, stop, thread }
    }

    fn config(&self, end: usize, faults: &str) -> Config {
        let device = format!("roce0={},profile=roce,gateway={}", self.addrs[end], self.port);
        let devices = vec![device.parse().unwrap()];
        Config { devices, ..config(WireChoice::Auto, faults) }
    }

    fn finish(self) -> Counts {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Exchanges WRITEs, READs and SENDs of several packets, both ways.
fn exchange(a: &mut Side, b: &mut Side) {
    const LEN: u32 = 9000;
    for round in 0..20 {
        let bytes = pattern(round, LEN as usize);
        a.fill(0, &bytes);
        b.fill(0, &[0; LEN as usize * 3]);
        b.post_recv(9, LEN as usize * 2, LEN);
        post(a, 1, SendOp::Write(remote(b, LEN as usize)), &[a.sge(0, LEN)]);
        post(a, 2, SendOp::Send, &[a.sge(0, LEN)]);
        post(a, 3, SendOp::Read(remote(b, LEN as usize)), &[a.sge(LEN as usize, LEN)]);
        let found = gather(&[a, b], 4);
        assert_eq!(ends(&found[0], true), [(1, Ok), (2, Ok), (3, Ok)]);
        assert_eq!(ends(&found[1], false), [(9, Ok)]);
        assert!(b.bytes(LEN as usize * 2, LEN as usize) == bytes, "round {round}");
        assert!(a.bytes(LEN as usize, LEN as usize) == bytes, "round {round}");
        std::mem::swap(a, b);
    }
}

#[test]
fn what_a_bad_network_does_is_mended_behind_a_gateway() {
    for (number, faults) in [(0, ""), (1, "loss=2%,dup=2%,reorder=10%,mangle=2%,corrupt=2%,seed=3")]
    {
        let gateway = Gateway::start(number);
        let [mut a, mut b] =
            [0, 1].map(|end| side(&gateway.config(end, faults), QpKind::Rc, 1 << 16));
        connect(&a, &b, &Link::default());
        exchange(&mut a, &mut b);
        for side in [&a, &b] {
            let count = |counter| side.device.counters().get(counter);
            assert_eq!((count(Counter::TxMemoryPkts), count(Counter::RxCrcErrors)), (0, 0));
        }
        drop((a, b));
        let counts = gateway.finish();
        assert!(counts.forwarded > 500, "{counts:?}");
        // Only the gateway sees packets whose header or payload was altered on the way.
        let damaged = counts.icrc + counts.malformed + counts.no_queue_pair;
        assert_eq!(damaged > 0, !faults.is_empty(), "{counts:?}");
    }
}

/// Verifying packets of IPv6 needs no right to see IP headers.
#[test]
fn a_gateway_serves_ipv6() {
    if !has_ipv6() {
        return;
    }
    let gateway = Gateway::at([Ipv6Addr::LOCALHOST.into(); 2]);
    let faults = "loss=2%,dup=2%,reorder=10%,mangle=2%,corrupt=2%,seed=3";
    let [mut a, mut b] = [0, 1].map(|end| side(&gateway.config(end, faults), QpKind::Rc, 1 << 16));
    connect(&a, &b, &Link::default());
    exchange(&mut a, &mut b);
    drop((a, b));
    let counts = gateway.finish();
    assert!(counts.forwarded > 500 && counts.icrc > 0, "{counts:?}");
}

#[test]
fn without_a_gateway_nothing_is_made() {
    let gateway = Gateway::start(2);
    let config = gateway.config(0, "");
    let side = side(&config, QpKind::Rc, 64);
    gateway.finish();
    let refused = Qp::create(&side.pd, wide(QpKind::Rc, &side.cq)).unwrap_err();
    let CreateQpError::Socket(why) = refused else { panic!("{refused}") };
    assert!(why.to_string().contains("does not answer"), "{why}");
    let refused = Device::open(&config.devices[0], &config).unwrap_err();
    assert!(matches!(refused, OpenError::Gateway { .. }), "{refused}");
    assert!(refused.to_string().contains("softefa gateway"), "{refused}");
}
