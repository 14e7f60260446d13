//! Packets of strangers, and of processes at the peer's address, sent to live queue pairs.
//!
//! `SOFTEFA_PACKETS=1000000 SOFTEFA_SEED=7 cargo test -p softefa --test all roce_hostile` sends
//! more packets, or other ones.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::roce::{
    EVERYTHING, Link, WIRES, add, config, ends, gather, pair_of, post, side, up, with_icrc,
};
use crate::common::sealing::key;
use crate::common::traffic::{Dice, number};
use crate::common::xrc::{Target, srq_in};
use crate::common::{self, Side, remote};
use rc::Psn;
use rc::wire::{
    Aeth, AtomicEth, Bth, DEFAULT_PKEY, Headers, Kind, NakCode, Opcode, Reth, Syndrome, Transport,
};
use softefa::counters::Counter;
use softefa::seal::{ENVELOPE_BYTES, Sealer, TAG_BYTES};
use softefa::{Config, QpKind, QpState, SendOp, Status};

use Status::Ok;

/// An attacker at an address of no peer.
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 77));
/// An attacker at the address of the peer.
const NEIGHBOUR: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Runs `test` once. A failure names the command that repeats it.
fn seeded(name: &str, test: impl Fn(Dice, u64)) {
    let (seed, packets) = (number("SOFTEFA_SEED", 1), number("SOFTEFA_PACKETS", 100_000));
    println!("SOFTEFA_SEED={seed} SOFTEFA_PACKETS={packets}");
    if catch_unwind(AssertUnwindSafe(|| test(Dice(seed), packets))).is_err() {
        let settings = format!("SOFTEFA_SEED={seed} SOFTEFA_PACKETS={packets}");
        panic!("{settings} cargo test -p softefa --test all roce_hostile::{name}");
    }
}

/// An attacker's knowledge or guesses about a queue pair.
struct Aim {
    from: IpAddr,
    qpn: u32,
    psn: u32,
    va: u64,
    rkey: u32,
    transport: Transport,
}

/// Returns a packet that matches `aim` in everything that the dice do not change.
fn packet(dice: &mut Dice, aim: &Aim) -> Vec<u8> {
    let kind = dice.pick(&Kind::ALL);
    let psn = match dice.below(4) {
        0 => dice.roll() as u32,
        1 => aim.psn.wrapping_add(dice.below(40) as u32).wrapping_sub(20),
        _ => aim.psn,
    };
    let pad = dice.below(4) as u8;
    let mut headers = Headers::new(Bth {
        opcode: Opcode { transport: aim.transport, kind },
        is_solicited: dice.below(2) == 0,
        is_migrated: true,
        pad,
        pkey: DEFAULT_PKEY,
        has_fecn: false,
        has_becn: false,
        joined: 0,
        dest_qpn: aim.qpn,
        wants_ack: dice.below(2) == 0,
        psn: Psn::new(psn),
    });
    let len = dice.pick(&[0, 1, 4, 8, 255, 1024, 1024, 1025, 4096]) as usize;
    let dma_len = dice.pick(&[len as u32, 8, 3000, u32::MAX, dice.clone().roll() as u32]);
    let rkey = aim.rkey ^ (1 << dice.below(32));
    headers.reth = Reth { va: aim.va, rkey, dma_len };
    headers.atomic = AtomicEth { va: aim.va, rkey, swap_or_add: !0, compare: 0 };
    let naks = [NakCode::Sequence, NakCode::InvalidRequest, NakCode::RemoteAccess];
    let syndrome = match dice.below(3) {
        0 => Syndrome::ACK,
        1 => Syndrome::RnrNak(31),
        _ => Syndrome::Nak(dice.pick(&naks)),
    };
    headers.aeth = Aeth { syndrome, msn: dice.roll() as u32 & Psn::MASK };
    headers.invalidate = aim.rkey;
    if aim.transport == Transport::Xrc {
        // The number of a shared receive queue is one of the first of the process.
        headers.srq = dice.below(9) as u32;
    }
    let mut bytes = vec![0; 64];
    let header_len = headers.emit(&mut bytes);
    bytes.truncate(header_len);
    bytes.extend(dice.bytes(len));
    bytes.resize(bytes.len() + usize::from(pad), 0);
    // The attacker knows how packets are checked.
    mutate(dice, &mut bytes);
    let mut bytes = with_icrc(bytes, aim.from);
    if dice.below(8) == 0 {
        mutate(dice, &mut bytes);
    }
    bytes
}

/// Sometimes changes bits, sometimes the length.
fn mutate(dice: &mut Dice, bytes: &mut Vec<u8>) {
    match dice.below(5) {
        0 => {
            let at = dice.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << dice.below(8);
        }
        1 => bytes.truncate(dice.below(bytes.len() as u64 + 1) as usize),
        2 => bytes.extend(dice.clone().bytes(dice.0 as usize % 50)),
        _ => {}
    }
}

/// Returns the destination of packets for the queue pair of `side`.
fn port(side: &Side) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], side.qp.port()))
}

fn socket(addr: IpAddr) -> UdpSocket {
    UdpSocket::bind((addr, 0)).expect("an address of this machine")
}

/// Checks that both ends work while `attack` sends packets at them.
fn works_on((a, b): &(Side, Side), packets: u64, mut attack: impl FnMut()) {
    let mut id = 0;
    let mut sent = 0;
    while sent < packets {
        for _ in 0..50 {
            attack();
        }
        sent += 50;
        id += 1;
        b.post_recv(id, 4096, 4096);
        post(a, id, SendOp::Send, &[a.sge(0, 3000)]);
        post(a, id, SendOp::Write(remote(b, 8192)), &[a.sge(0, 3000)]);
        post(a, id, SendOp::Read(remote(b, 8192)), &[a.sge(8192, 3000)]);
        post(a, id, add(remote(b, 16_384), 1), &[a.sge(16_384, 8)]);
        let found = gather(&[a, b], 5);
        assert_eq!(ends(&found[0], true), [(id, Ok); 4]);
        assert_eq!(ends(&found[1], false), [(id, Ok)]);
    }
    let word = u64::from_ne_bytes(b.bytes(16_384, 8).try_into().expect("eight bytes"));
    assert_eq!(word, id, "each atomic was done once");
}

/// Checks that the rest of the memory of `b` is unchanged.
fn assert_untouched(b: &Side) {
    let rest =
        [b.bytes(0, 4096), b.bytes(8192 + 3000, 16_384 - 8192 - 3000), b.bytes(20_000, 10_000)];
    assert!(rest.concat().iter().all(|byte| *byte == 0), "somebody else wrote");
}

/// A packet from another address is dropped, though it has every number and key.
#[test]
fn strangers_do_nothing() {
    seeded("strangers_do_nothing", |mut dice, packets| {
        for (kind, transport) in [(QpKind::Rc, Transport::Rc), (QpKind::Uc, Transport::Uc)] {
            for wire in WIRES {
                let link = Link::default();
                let pair = pair_of(&config(wire, ""), QpKind::Rc, 1 << 16, &link);
                let idle = pair_of(&config(wire, ""), kind, 1 << 16, &link);
                let stranger = socket(STRANGER);
                let aims = [(&pair.1, link.psn[0]), (&idle.1, link.psn[0]), (&pair.0, link.psn[1])];
                works_on(&pair, packets / 4, || {
                    let (side, psn) = dice.pick(&aims);
                    let (va, rkey) = (side.mr.addr() + 24_000, side.mr.rkey());
                    let aim = Aim { from: STRANGER, qpn: side.qp.qpn(), psn, va, rkey, transport };
                    let bytes = packet(&mut dice, &aim);
                    let _ = stranger.send_to(&bytes, port(side));
                    let _ = idle.1.cq.poll_one();
                });
                assert_untouched(&pair.1);
                assert!(idle.1.bytes(0, 1 << 16).iter().all(|byte| *byte == 0));
                assert_eq!(idle.1.qp.query().state, QpState::ReadyToSend);
                assert!(pair.1.device.counters().get(Counter::RxDrops) > 0);
            }
        }
    });
}

/// An attacker at the peer's address does not know the packet numbers: its numbers are far behind
/// or far ahead.
#[test]
fn neighbours_without_the_numbers_do_nothing() {
    seeded("neighbours_without_the_numbers_do_nothing", |mut dice, packets| {
        for wire in WIRES {
            let pair = pair_of(&config(wire, ""), QpKind::Rc, 1 << 16, &Link::default());
            let neighbour = socket(NEIGHBOUR);
            works_on(&pair, packets / 2, || {
                let side = dice.pick(&[&pair.0, &pair.1]);
                let aim = Aim {
                    from: NEIGHBOUR,
                    // The port is right, but the number is that of an earlier queue pair in the
                    // slot.
                    qpn: side.qp.qpn() ^ (1 + dice.below(255) as u32),
                    psn: 0xff_fff5,
                    va: side.mr.addr() + 24_000,
                    rkey: side.mr.rkey(),
                    transport: Transport::Rc,
                };
                let bytes = packet(&mut dice, &aim);
                if bytes.get(5..8) != Some(&side.qp.qpn().to_be_bytes()[1..]) {
                    let _ = neighbour.send_to(&bytes, port(side));
                }
            });
            assert_untouched(&pair.1);
        }
    });
}

/// An attacker at the peer's address knows all numbers and keys of memory, but not the key file.
#[test]
fn neighbours_of_a_sealed_connection_do_nothing() {
    seeded("neighbours_of_a_sealed_connection_do_nothing", |mut dice, packets| {
        for wire in WIRES {
            let config = Config { key: Some(key(1)), ..config(wire, "") };
            let pair = pair_of(&config, QpKind::Rc, 1 << 16, &Link::default());
            let neighbour = socket(NEIGHBOUR);
            let [own, peer] = [&pair.1, &pair.0].map(|of| SocketAddr::new(NEIGHBOUR, of.qp.port()));
            let mut sealer = Sealer::new(&key(2), peer, 1);
            works_on(&pair, packets / 2, || {
                let (va, rkey) = (pair.1.mr.addr() + 24_000, pair.1.mr.rkey());
                let (qpn, transport) = (pair.1.qp.qpn(), Transport::Rc);
                let psn = dice.roll() as u32;
                let aim = Aim { from: NEIGHBOUR, qpn, psn, va, rkey, transport };
                let mut bytes = packet(&mut dice, &aim);
                if dice.below(2) == 0 && bytes.len() >= 16 {
                    bytes = [&[0; ENVELOPE_BYTES], &bytes[..], &[0; TAG_BYTES]].concat();
                    sealer.seal(own, &mut bytes).expect("a datagram");
                    mutate(&mut dice, &mut bytes);
                }
                let _ = neighbour.send_to(&bytes, port(&pair.1));
            });
            assert_untouched(&pair.1);
            assert!(pair.1.device.counters().get(Counter::RxSealErrors) > 0);
        }
    });
}

/// An attacker at the peer's address who knows the numbers can end the connection, as on any RoCE
/// network, but can do nothing that needs a key.
#[test]
fn neighbours_without_the_key_touch_no_memory() {
    seeded("neighbours_without_the_key_touch_no_memory", |mut dice, packets| {
        for (kind, transport) in [(QpKind::Rc, Transport::Rc), (QpKind::Uc, Transport::Uc)] {
            let victim = side(&config(WIRES[1], ""), kind, 1 << 16);
            let failures = besiege(&mut dice, packets, (&victim, transport), || revive(&victim));
            let is_expected = if kind == QpKind::Rc { failures > 100 } else { failures == 0 };
            assert!(is_expected, "{failures} connections were ended");
        }
    });
}

/// The same holds for XRC, with numbers of existing and of missing queues.
#[test]
fn neighbours_without_the_key_touch_no_memory_of_a_target() {
    seeded("neighbours_without_the_key_touch_no_memory_of_a_target", |mut dice, packets| {
        let target = Target::new(&config(WIRES[1], ""), 1 << 16, None);
        let pd = target.side.device.alloc_pd().expect("a domain");
        let second = srq_in(&target.xrcd, &pd, &target.side.cq);
        let again = || {
            revive(&target.side);
            let _ = target.srq.post_recv(1, &[target.side.sge(0, 64)]);
            let _ = second.post_recv(2, &[target.side.sge(0, 64)]);
        };
        let failures = besiege(&mut dice, packets, (&target.side, Transport::Xrc), again);
        assert!(failures > 100, "{failures} connections were ended");
    });
}

/// Sends packets to `victim` from its peer's address, connects it again whenever it has failed, and
/// returns how often that was.
fn besiege(
    dice: &mut Dice,
    packets: u64,
    (victim, transport): (&Side, Transport),
    again: impl Fn(),
) -> u64 {
    let neighbour = socket(NEIGHBOUR);
    let quiet = victim.pd.reg_mr(victim.mr.addr(), 64, EVERYTHING).expect("a region");
    let mut failures = 0;
    for number in 0..packets {
        let has_failed = victim.qp.query().state == QpState::Error;
        failures += u64::from(has_failed);
        if has_failed || number % 100 == 0 {
            again();
        }
        let (va, rkey) = (victim.mr.addr() + 24_000, quiet.rkey());
        let psn = 5 + dice.below(3) as u32;
        let aim = Aim { from: NEIGHBOUR, qpn: victim.qp.qpn(), psn, va, rkey, transport };
        let bytes = packet(dice, &aim);
        let _ = neighbour.send_to(&bytes, port(victim));
        while victim.cq.poll_one().is_some() {}
    }
    assert!(victim.bytes(64, (1 << 16) - 64).iter().all(|byte| *byte == 0));
    failures
}

/// Connects `victim` to the neighbour's address, at which there is no other queue pair.
fn revive(victim: &Side) {
    let _ = victim.qp.modify(&common::roce::to(QpState::Reset));
    let link = Link { timeout: 0, ..Link::default() };
    up(&victim.qp, &link, (victim.device.gid(), victim.qp.qpn() ^ 1), [5, 5]);
    if !victim.qp.init().kind.is_xrc() {
        victim.post_recv(1, 0, 64);
    }
    if victim.qp.init().kind == QpKind::Rc {
        post(victim, 2, SendOp::Read(remote(victim, 0)), &[victim.sge(0, 64)]);
    }
}

/// A late copy of a READ request finds the memory gone. The requester is told, if it still waits;
/// the connection goes on.
#[test]
fn a_late_copy_of_a_read_does_not_end_the_connection() {
    let config = config(WIRES[1], "");
    let (victim, peer) = (side(&config, QpKind::Rc, 1 << 16), socket(NEIGHBOUR));
    let port = peer.local_addr().expect("a bound socket").port();
    let qpn = u32::from(port) << 8 | 1;
    up(&victim.qp, &Link::default(), (victim.device.gid(), qpn), [5, 5]);
    let region = victim.pd.reg_mr(victim.mr.addr(), 64, EVERYTHING).expect("a region");
    let request = |kind, psn, rkey| {
        let mut headers = Headers::new(Bth {
            opcode: Opcode { transport: Transport::Rc, kind },
            is_solicited: false,
            is_migrated: true,
            pad: 0,
            pkey: DEFAULT_PKEY,
            has_fecn: false,
            has_becn: false,
            joined: 0,
            dest_qpn: victim.qp.qpn(),
            wants_ack: true,
            psn: Psn::new(psn),
        });
        headers.reth = Reth { va: victim.mr.addr(), rkey, dma_len: 8 };
        let mut bytes = vec![0; 64];
        let len = headers.emit(&mut bytes) + if kind == Kind::WriteOnly { 8 } else { 0 };
        bytes.resize(len, 0);
        with_icrc(bytes, NEIGHBOUR)
    };
    let (read, write) = (
        request(Kind::ReadRequest, 5, region.rkey()),
        request(Kind::WriteOnly, 6, victim.mr.rkey()),
    );
    let answer = |bytes: &[u8]| {
        peer.send_to(bytes, self::port(&victim)).expect("sent");
        let mut answer = [0; 4200];
        peer.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("a timeout");
        let len = peer.recv(&mut answer).expect("an answer");
        let headers = Headers::parse(&answer[..len]).expect("a packet");
        (headers.bth.opcode.kind, headers.bth.psn.get(), headers.aeth.syndrome)
    };
    assert_eq!(answer(&read), (Kind::ReadResponseOnly, 5, Syndrome::ACK));
    region.deregister();
    let refusal = Syndrome::Nak(NakCode::RemoteAccess);
    assert_eq!(answer(&read), (Kind::Acknowledge, 5, refusal));
    assert_eq!(victim.qp.query().state, QpState::ReadyToSend);
    let (kind, psn, syndrome) = answer(&write);
    assert_eq!((kind, psn, syndrome), (Kind::Acknowledge, 6, Syndrome::ACK));
}

/// The same holds for a queue pair of datagrams.
#[test]
fn datagrams_of_strangers_need_the_queue_key() {
    seeded("datagrams_of_strangers_need_the_queue_key", |mut dice, packets| {
        let config = config(WIRES[1], "");
        let (victim, stranger) = (side(&config, QpKind::Ud, 1 << 16), socket(STRANGER));
        let change = softefa::ModifyQp { qkey: Some(0x1357_9bdf), ..to_init() };
        victim.qp.modify(&change).expect("to INIT");
        victim.qp.modify(&common::roce::to(QpState::ReadyToReceive)).expect("to RTR");
        (0..100).for_each(|id| victim.post_recv(id, 0, 1 << 16));
        for _ in 0..packets / 4 {
            let (va, rkey) = (victim.mr.addr(), victim.mr.rkey());
            let transport = dice.pick(&[Transport::Ud, Transport::Ud, Transport::Rc]);
            let aim = Aim { from: STRANGER, qpn: victim.qp.qpn(), psn: 0, va, rkey, transport };
            let bytes = packet(&mut dice, &aim);
            let _ = stranger.send_to(&bytes, port(&victim));
            assert!(victim.cq.poll_one().is_none(), "taken without the key");
        }
        assert!(victim.bytes(0, 1 << 16).iter().all(|byte| *byte == 0));
        assert!(victim.device.counters().get(Counter::RxDrops) > 0);
    });
}

fn to_init() -> softefa::ModifyQp {
    let (port, pkey_index) = (Some(1), Some(0));
    softefa::ModifyQp { port, pkey_index, ..common::roce::to(QpState::Init) }
}
