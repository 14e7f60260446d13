//! A million forged datagrams at an endpoint with a live connection, from somebody who sees nothing
//! of it: nothing is accepted without the key, nothing ends wrongly, the transfer continues, and
//! memory stays bounded.
//!
//! `SRD_ROUNDS=10000000 SRD_SEED=5 cargo test -p srd --test all flood` runs for longer.

use crate::common::Rng;
use crate::common::scene::{
    Host, KEY, Opening, SENDER, Scene, VICTIM, WRONG_KEY, acknowledgement, challenge, continuing,
    opening, refused, reset,
};
use srd::{Address, Config, Status};

/// Datagrams between two checks.
const STRIDE: u64 = 10_000;
/// Memory that the endpoint may use besides its peers: queued answers, tables.
const OWN_BYTES_MAX: usize = 128 << 10;
/// Memory that a peer may use that sends only forgeries.
const PEER_BYTES_MAX: usize = 2048;
const PEERS_MAX: usize = 64;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns a datagram to `to`; `qkey` is the key of those that name one.
fn forge(rng: &mut Rng, from: Address, to: Address, qkey: u32) -> Vec<u8> {
    let conn = if rng.below(50) == 0 { 0 } else { rng.next() };
    let psn = rng.next() as u32;
    let proof = [0, 1, u64::MAX, rng.next()][rng.below(4) as usize];
    let what = Opening { conn, psn, oldest: rng.below(8192) as u16, qkey, proof };
    match rng.below(8) {
        0..=2 => opening(from, to, what),
        3 => continuing(from, to, what),
        4 => acknowledgement(from, to, conn, psn),
        5 => reset(from, to, conn),
        6 => challenge(from, to, conn, proof),
        _ => refused(from, to, conn, psn, 1 + rng.below(8192) as u16),
    }
}

/// Returns the number of peers: the other end, and as many strangers as the key admitted.
fn assert_small(host: &Host, at_start: usize) {
    let bytes = host.engine.memory_bytes();
    let limit = at_start + OWN_BYTES_MAX + PEERS_MAX * PEER_BYTES_MAX;
    assert!(bytes <= limit, "{bytes} bytes, {at_start} at the start");
}

fn flood(always_challenge: bool, keys: &[u32]) -> Scene {
    let (rounds, seed) = (number("SRD_ROUNDS", 1_000_000), number("SRD_SEED", 1));
    println!("SRD_SEED={seed} SRD_ROUNDS={rounds} cargo test -p srd --test all flood");
    let mut rng = Rng(seed);
    let mut scene =
        Scene::connected(Config { peers_max: PEERS_MAX, always_challenge, ..Config::socket() });
    let at_start = scene.victim.engine.memory_bytes();
    let mut id = 0;
    for round in 0..rounds {
        if round % 50 == 0 {
            id += 1;
            scene.sender.send(scene.now, VICTIM, id, KEY);
            scene.victim.send(scene.now, SENDER, id, KEY);
            scene.step();
            scene.now = scene.now.plus_ns(10_000);
        }
        let invented = Address { host: rng.below(1 << 24), qpn: rng.next() as u16 };
        let is_known = rng.below(2) == 0;
        let qkey = keys[rng.below(keys.len() as u64) as usize];
        if rng.below(2) == 0 {
            let from = if is_known { SENDER } else { invented };
            let datagram = forge(&mut rng, from, VICTIM, qkey);
            scene.forge(from, &datagram);
        } else {
            let from = if is_known { VICTIM } else { invented };
            let datagram = forge(&mut rng, from, SENDER, qkey);
            scene.sender.take(scene.now, from, &datagram);
        }
        if round % STRIDE == 0 {
            assert_small(&scene.victim, at_start);
            assert_small(&scene.sender, at_start);
        }
    }
    scene.run_ms(100);
    assert_small(&scene.victim, at_start);
    for host in [&scene.sender, &scene.victim] {
        let wrong = host.ended.iter().find(|end| end.1 != Status::Ok);
        assert_eq!(wrong, None, "a forged datagram ended a message");
        assert_eq!(host.ended.len() as u64, id + u64::from(host.addr == SENDER));
        // The first message of its own, when it had to prove its address.
        let (stats, asked) = (host.engine.stats(), u64::from(scene.config.always_challenge));
        assert_eq!((host.engine.in_flight(), stats.rx_challenges), (0, asked));
        assert_eq!((stats.retrans_pkts, stats.rx_refused, stats.rx_resets), (asked, 0, 0));
    }
    scene.assert_served(id + 1);
    scene
}

/// SRD-3.9: without the key nothing is accepted, whatever the datagrams claim.
#[test]
fn a_flood_without_the_key_does_nothing() {
    for always_challenge in [false, true] {
        let scene = flood(always_challenge, &[WRONG_KEY, 0, !KEY]);
        for host in [&scene.sender, &scene.victim] {
            assert_eq!(host.strange, 0, "messages of strangers were taken");
            let stats = host.engine.stats();
            assert!(stats.strangers.refused > 0 && stats.strangers.unanswered > 0);
        }
    }
}

/// SRD-3.10: an attacker with the key does not keep out others.
#[test]
fn a_flood_with_the_key_harms_nobody_else() {
    let scene = flood(false, &[KEY, KEY, WRONG_KEY]);
    assert!(scene.victim.engine.stats().strangers.challenges > 0);
    let scene = flood(true, &[KEY]);
    assert_eq!(scene.victim.strange, 0, "nobody could prove an address");
}
