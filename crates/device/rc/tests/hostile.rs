//! Packets changed at random, answers to no request, and random bytes: nothing panics, nothing is
//! executed twice.
//!
//! `RC_ROUNDS=10000000 RC_SEED=5 cargo test -p rc --test hostile` runs for longer.

mod common;

use common::craft::{Craft, HERE, OUR_PSN, Solo, THEIR_PSN, receive_attr, send_attr};
use common::host::{BASE, KEY};
use common::{Rng, number};
use rc::wire::{Kind, Packet, Syndrome, Transport};
use rc::{Config, Operation, Remote, SendRequest, Service, State, WrId};

const SERVICES: [Service; 4] =
    [Service::Rc, Service::Uc, Service::XrcInitiator, Service::XrcTarget];

/// Changes a few bits or bytes, or the length.
fn bend(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.below(3) {
        let at = rng.below(bytes.len().max(1) as u64) as usize;
        match rng.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_slice(&rng.next().to_be_bytes()),
            2 if at < bytes.len() => bytes[at] = 0xFF,
            3 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1),
            _ if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            _ => {}
        }
    }
}

/// Creates a random packet with a number near the expected one.
fn craft(rng: &mut Rng, transport: Transport) -> Craft {
    let kind = rng.pick(&Kind::ALL);
    let near = rng.pick(&[OUR_PSN, THEIR_PSN, 0, 0x80_0000]);
    let psn = near.wrapping_add(rng.below(12) as u32).wrapping_sub(3);
    let mut packet = Craft::of(transport, kind, psn);
    packet.headers.srq = 7;
    packet.headers.bth.wants_ack = rng.permille(500);
    packet.headers.bth.joined = rng.pick(&[0, 0, 1, 2, 63]);
    let dma_len = rng.pick(&[0, 8, 256, 300, 600, 5000, u32::MAX]);
    packet = packet.about(rng.pick(&[0, 4, 8, 4000, u64::MAX - BASE]), dma_len);
    packet.headers.atomic.va = BASE + rng.below(16);
    packet.headers.atomic.rkey = KEY;
    packet.headers.original = rng.next();
    let syndrome =
        Syndrome::from_code(rng.pick(&[0x1F, 0x1F, 0x60, 0x61, 0x62, 0x64, 0x21, 0x80, 0xFF]));
    packet = packet.says(syndrome);
    let lens = [0, 1, 8, 44, 88, 255, 256, 257, 512, 600, 768];
    let len = if kind.has_payload() { rng.pick(&lens) } else { 0 };
    packet.with(len)
}

fn offer(solo: &mut Solo, rng: &mut Rng, id: u64) {
    let remote = Remote { va: BASE, rkey: KEY };
    let op = match rng.below(5) {
        0 => Operation::Read(remote),
        1 => Operation::FetchAdd { remote, add: 1 },
        2 => Operation::Write(remote),
        _ => Operation::Send,
    };
    let len = if matches!(op, Operation::FetchAdd { .. }) { 8 } else { rng.below(900) as u32 };
    let request = SendRequest::new(WrId(id), op, len);
    solo.host.buffers.insert(id, vec![0; len as usize]);
    // Some services lack the operation, which is no failure.
    let _ = solo.host.engine.post(solo.now, request);
    if solo.host.receives() < 3 {
        solo.host.post_receive(id, 700);
    }
}

fn connect(service: Service) -> Solo {
    Solo::with(Config::strict(), service, receive_attr(), send_attr())
}

#[test]
fn bent_packets_do_no_harm() {
    let (rounds, seed) = (number("RC_ROUNDS", 300_000), number("RC_SEED", 1));
    println!("RC_SEED={seed} RC_ROUNDS={rounds} cargo test -p rc --test hostile bent");
    let mut rng = Rng(seed);
    let (mut survived, mut failed) = (0, 0);
    let mut solo = connect(Service::Rc);
    let mut transport = Transport::Rc;
    for round in 0..rounds {
        if solo.host.engine.state() == State::Error || rng.permille(2) {
            failed += u64::from(solo.host.engine.state() == State::Error);
            let service = rng.pick(&SERVICES);
            solo = connect(service);
            // Half of them are reached through memory, where packets may be joined.
            solo.host.joined_bytes = rng.pick(&[[0; 2], [1 << 20; 2]]);
            transport = match service {
                Service::Rc => Transport::Rc,
                Service::Uc => Transport::Uc,
                _ => Transport::Xrc,
            };
        }
        if rng.permille(200) {
            offer(&mut solo, &mut rng, round);
        }
        let mut bytes = craft(&mut rng, transport).bytes();
        if rng.permille(300) {
            bend(&mut rng, &mut bytes);
        }
        let _ = Packet::parse(&bytes, bytes.len());
        survived += u64::from(solo.host.take(solo.now, &bytes).is_ok());
        solo.host.poll_events();
        if rng.permille(300) {
            solo.sent();
            solo.pass_ns(rng.below(100_000_000));
        }
    }
    assert!(survived > rounds / 50 && failed > rounds / 1000, "{survived} taken, {failed} failed");
}

/// The host is asked to execute each number once, and in order.
#[test]
fn no_number_is_executed_twice() {
    let (rounds, seed) = (number("RC_ROUNDS", 100_000), number("RC_SEED", 1));
    println!("RC_SEED={seed} RC_ROUNDS={rounds} cargo test -p rc --test hostile no_number");
    let mut rng = Rng(seed);
    let mut solo = connect(Service::Rc);
    let mut executed = 0;
    for round in 0..rounds {
        // Numbers that were used, the next one, and later ones.
        let behind = rng.below(20) as i64 - 17;
        let n = (i64::from(executed) + behind).max(0) as u32;
        let psn = THEIR_PSN.wrapping_add(n) & 0xFF_FFFF;
        let packet = Craft::new(Kind::FetchAdd, psn).atomic(8, 1, 0);
        let taken = solo.give(&packet).is_ok();
        assert_eq!(taken, n == executed, "round {round}: number {n} of {executed}");
        executed += u32::from(taken);
        if rng.permille(500) {
            solo.sent();
        } else {
            solo.host.next_packet(solo.now);
        }
        if taken {
            solo.sent();
        }
    }
    assert_eq!(solo.host.memory[8..16], u64::from(executed).to_le_bytes());
    assert_eq!(solo.host.atomics, u64::from(executed));
}

/// The headers alone, without the rest of the packet, are enough.
#[test]
fn any_bytes_are_taken_or_dropped() {
    let (rounds, seed) = (number("RC_ROUNDS", 200_000), number("RC_SEED", 1));
    println!("RC_SEED={seed} RC_ROUNDS={rounds} cargo test -p rc --test hostile any_bytes");
    let mut rng = Rng(seed);
    for service in SERVICES {
        let mut solo = connect(service);
        for _ in 0..rounds / 4 {
            let len = rng.below(80) as usize;
            let mut bytes = rng.bytes(len);
            if len > 8 {
                bytes[1] &= 0xF0;
                bytes[2..4].fill(0xFF);
                bytes[5..8].copy_from_slice(&HERE.to_be_bytes()[1..]);
            }
            let len = rng.pick(&[len, len + 4, len * 100, usize::MAX]);
            let _ = if rng.permille(500) {
                solo.host.engine.handle_packet(solo.now, &bytes, len)
            } else {
                solo.host.engine.handle_joined(solo.now, &bytes, len)
            };
            if rng.permille(500) {
                solo.host.engine.accept(solo.now);
            } else {
                solo.host.engine.reject(solo.now, rc::Reject::NotReady);
            }
            while solo.host.engine.poll_event().is_some() {}
            while solo.host.engine.poll_transmit(solo.now, &mut [0; rc::HEADER_MAX]).is_some() {}
        }
    }
}
