//! Datagrams changed at random, many with the right token: nothing may panic.
//!
//! `SRD_ROUNDS=10000000 SRD_SEED=5 cargo test -p srd --test all hostile` runs for longer.

use crate::common::{Answer, Faults, Pair, Rng};
use srd::wire::{Datagram, Header, ud::UdRepr};
use srd::{Config, Instant, Message, MsgId, Reject};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

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

#[test]
fn bent_datagrams_do_no_harm() {
    let (rounds, seed) = (number("SRD_ROUNDS", 200_000), number("SRD_SEED", 1));
    println!("SRD_SEED={seed} SRD_ROUNDS={rounds} cargo test -p srd --test all hostile");
    let mut rng = Rng(seed);
    let mut pair = Pair::new(Config { paths: 4, ..Config::socket() }, seed);
    let mut recent: Vec<(usize, Vec<u8>)> = Vec::new();
    pair.faults = Faults { loss: 100, duplicate: 100, reorder: 300, dead_paths: 0 };
    for round in 0..rounds {
        if rng.permille(200) || recent.is_empty() {
            offer(&mut pair, &mut rng, round);
            pair.now = pair.now.plus_ns(rng.below(3_000_000));
            for i in 0..2 {
                recent.extend(pair.tap(i).into_iter().map(|bytes| (i, bytes)));
            }
            let old = recent.len().saturating_sub(64);
            recent.drain(..old);
        }
        if recent.is_empty() {
            continue;
        }
        let (from, mut bytes) = recent[rng.below(recent.len() as u64) as usize].clone();
        if !rng.permille(200) {
            bend(&mut rng, &mut bytes);
        }
        inject(&mut pair, &mut rng, from, &bytes);
    }
    let drops: u64 = pair.nodes.iter().map(|n| n.engine.stats().dropped.iter().sum::<u64>()).sum();
    assert!(drops > rounds / 10, "the test bends too little: {drops} drops");
}

/// Gives the engines something to do.
fn offer(pair: &mut Pair, rng: &mut Rng, id: u64) {
    let from = rng.below(2) as usize;
    let (peer, now) = (pair.peer_of(from), pair.now);
    let (len, rnr_retry) = (rng.below(200) as u32, rng.below(8) as u8);
    let may_share = rng.permille(500);
    let msg = Message { id: MsgId(id), len, rnr_retry, may_share, ..Message::default() };
    for _ in 0..=rng.below(20) {
        // A forged "unreachable" or RESET may have ended the context: that is no failure.
        let _ = pair.nodes[from].engine.send(now, peer, msg);
    }
    pair.nodes[1 - from].answer =
        if rng.permille(100) { Answer::Refuse(Reject::Rnr) } else { Answer::Mixed };
}

fn inject(pair: &mut Pair, rng: &mut Rng, from: usize, bytes: &[u8]) {
    if let Ok(header) = Header::parse(bytes) {
        let _ = Datagram::parse(header, bytes, bytes.len());
    }
    let _ = UdRepr::parse(bytes, bytes.len());
    let (now, host) = (pair.now, pair.nodes[from].addr.host);
    let engine = &mut pair.nodes[1 - from].engine;
    if rng.permille(5) {
        pair.nodes[from].engine.handle_unreachable(now, bytes);
        return;
    }
    let Ok(received) = engine.handle_datagram(now, host, bytes, bytes.len()) else { return };
    let first = received.is_frame.then(|| engine.next_framed(now, bytes)).flatten();
    let mut next = received.data.or_else(|| first.map(|framed| framed.arrival));
    while let Some(new) = next {
        match rng.below(4) {
            0 => engine.reject(now, new.peer, new.psn, Reject::Rnr),
            1 => engine.reject(now, new.peer, new.psn, Reject::BadLength),
            2 => {}
            _ => engine.accept(now, new.peer, new.psn),
        }
        if rng.permille(20) {
            return;
        }
        next = engine.next_framed(now, bytes).map(|framed| framed.arrival);
    }
}

#[test]
fn endpoints_stay_usable_under_noise() {
    let mut pair = Pair::socket(9);
    let mut rng = Rng(9);
    for id in 0..500 {
        pair.send(0, id, 64);
        let noise: Vec<u8> = (0..rng.below(120)).map(|_| rng.next() as u8).collect();
        let now = pair.now;
        let refused = pair.nodes[1].engine.handle_datagram(now, rng.below(3), &noise, noise.len());
        assert!(refused.is_err());
        pair.run_ns(rng.below(100_000));
    }
    assert!(pair.run_until_done(1_000_000_000));
    assert_eq!(pair.nodes[1].delivered_sorted(), (0..500).collect::<Vec<_>>());
    assert_ne!(pair.now, Instant::ZERO);
}

/// Strangers get an answer: 16 at once, then one in a millisecond (SRD-3.11).
#[test]
fn resets_are_limited() {
    let mut pair = Pair::socket(10);
    pair.send(0, 0, 64);
    pair.send(0, 1, 64);
    assert!(pair.run_until_done(1_000_000_000));
    pair.send(0, 2, 64);
    let mut bytes = pair.tap(0).remove(0);
    let engine = &mut pair.nodes[1].engine;
    let mut header = [0; srd::HEADER_MAX];
    // The burst, what two intervals of a millisecond earn, and the burst again after a pause.
    for (pause_ns, resets) in [(0, 16), (2_000_000, 18), (1_000_000_000, 34)] {
        pair.now = pair.now.plus_ns(pause_ns);
        for guess in 0..1000u16 {
            bytes[Header::LEN..][..2].copy_from_slice(&guess.to_be_bytes());
            let _ = engine.handle_datagram(pair.now, 100, &bytes, bytes.len());
        }
        while engine.poll_transmit(pair.now, &mut header).is_some() {}
        assert_eq!(engine.stats().strangers.resets, resets);
    }
}
