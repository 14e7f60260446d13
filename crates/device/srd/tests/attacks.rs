//! Attacks by somebody who sees none of the victims' datagrams but knows their addresses: another
//! user of the machine. Each test is an attack that must do no harm.

use crate::common::scene::{
    KEY, Opening, SENDER, Scene, VICTIM, WRONG_KEY, acknowledgement, opening,
};
use srd::{Address, Config, Reject, Status};

/// Addresses that no endpoint has.
fn invented(i: u32) -> Address {
    Address { host: 1000 + u64::from(i / 50_000), qpn: 1 + (i % 50_000) as u16 }
}

fn forged(qkey: u32, proof: u64) -> Opening {
    Opening { conn: 0xDEAD_BEEF, psn: 5, oldest: 0, qkey, proof }
}

#[test]
fn a_forged_opening_replaces_no_connection() {
    for (i, qkey) in [WRONG_KEY, KEY].into_iter().enumerate() {
        let mut scene = Scene::connected(Config::socket());
        let accepted = scene.victim.accepted;
        scene.forge(SENDER, &opening(SENDER, VICTIM, forged(qkey, u64::MAX / 2)));
        assert_eq!(scene.victim.accepted, accepted, "a forged message was taken, key {i}");
        scene.assert_served(1);
    }
}

#[test]
fn a_forged_opening_locks_nobody_out() {
    for qkey in [WRONG_KEY, KEY] {
        let mut scene = Scene::connected(Config::socket());
        scene.forge(SENDER, &opening(SENDER, VICTIM, forged(qkey, u64::MAX)));
        let config = scene.config.clone();
        scene.sender.restart(&config, 77);
        scene.assert_served(1);
    }
}

/// Inverts the mixer: returns the number that it maps to `z`. Tokens must not be its bare output.
fn unmix(mut z: u64) -> u64 {
    z ^= (z >> 31) ^ (z >> 62);
    z = z.wrapping_mul(0x3196_42B2_D24D_8EC3);
    z ^= (z >> 27) ^ (z >> 54);
    z = z.wrapping_mul(0x96DE_1B17_3F11_9089);
    z ^ (z >> 30) ^ (z >> 60)
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The receiver of one message reads its token, and must not be able to compute those of the
/// sender's other connections.
#[test]
fn a_token_tells_nothing_of_the_next() {
    let reader = Address { host: 102, qpn: 9 };
    let mut scene = Scene::new(Config::socket());
    scene.sender.send(scene.now, reader, 1, KEY);
    let seen = scene.sender.sends(scene.now).remove(0).1;
    let token = u64::from_be_bytes(seen[12..20].try_into().expect("eight bytes"));
    // The message that is lost; its number is no secret.
    scene.sender.send(scene.now, VICTIM, 2, KEY);
    let lost = scene.sender.sends(scene.now).remove(0).1;
    let psn = u32::from_be_bytes(lost[20..24].try_into().expect("four bytes"));
    let state = unmix(token);
    assert_eq!(mix(state), token);
    for i in 0..64u64 {
        let steps = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(i.wrapping_sub(32));
        let conn = mix(state.wrapping_add(steps));
        let ack = acknowledgement(VICTIM, SENDER, conn, psn.wrapping_add(1));
        scene.sender.take(scene.now, VICTIM, &ack);
    }
    scene.sender.sends(scene.now);
    assert_eq!(scene.sender.status_of(2), None, "a lost message was reported as delivered");
}

#[test]
fn invented_senders_keep_nobody_out() {
    for qkey in [WRONG_KEY, KEY] {
        let mut scene = Scene::new(Config { peers_max: 1024, ..Config::socket() });
        for i in 0..5000 {
            let datagram = opening(invented(i), VICTIM, forged(qkey, 1));
            scene.forge(invented(i), &datagram);
        }
        scene.victim.sends(scene.now);
        scene.now = scene.now.plus_ns(1_000_000);
        scene.assert_served(1);
    }
}

/// Every second number is refused, so that no two refusals join to one range.
#[test]
fn refusals_are_remembered_within_bounds() {
    let mut scene = Scene::new(Config { peers_max: 256, ..Config::socket() });
    let mut bytes = 0;
    for i in 0..200 {
        let from = invented(i);
        for oldest in (0..8190).step_by(2) {
            let what = Opening { psn: 9 + u32::from(oldest), oldest, ..forged(WRONG_KEY, 1) };
            scene.forge(from, &opening(from, VICTIM, what));
        }
        let peer = scene.victim.engine.peer(scene.now, from);
        bytes += scene.victim.engine.peer_memory_bytes(peer).unwrap_or(0);
    }
    assert!(bytes < 200 * 2048, "{bytes} bytes for 200 senders without the key");
}

/// SRD-6.8: the attackers know the key and open connections, on which their messages are refused
/// one by one.
#[test]
fn refusals_on_connections_are_remembered_within_bounds() {
    let mut scene = Scene::new(Config::socket());
    for i in 0..200 {
        let from = invented(i);
        scene.forge(from, &opening(from, VICTIM, Opening { psn: 8, ..forged(KEY, 0) }));
        for ahead in (1..8190).step_by(2) {
            let psn = 9 + u32::from(ahead);
            let what = Opening { psn, oldest: ahead, ..forged(WRONG_KEY, 0) };
            scene.forge(from, &opening(from, VICTIM, what));
        }
    }
    let stats = scene.victim.engine.stats();
    assert_eq!(stats.rx_rejected + stats.rx_unanswered, 200 * 4095);
    assert!((60_000..70_000).contains(&stats.rx_rejected), "{} refusals", stats.rx_rejected);
    let bytes = scene.victim.engine.memory_bytes();
    assert!(bytes < 66_560 * 8 + 200 * 4096, "{bytes} bytes");
    // The others are still served.
    scene.assert_served(1);
}

/// SRD-6.8: the attacker finds no receive posted, marks each message as its oldest, and ignores the
/// answers.
#[test]
fn each_oldest_number_is_the_only_one() {
    let mut scene = Scene::new(Config::socket());
    let from = invented(0);
    scene.forge(from, &opening(from, VICTIM, Opening { psn: 8, ..forged(KEY, 0) }));
    for i in 0..20_000 {
        let psn = 10 + 2 * i;
        let datagram = opening(from, VICTIM, Opening { psn, ..forged(KEY, 0) });
        let (now, engine) = (scene.now, &mut scene.victim.engine);
        let got = engine.handle_datagram(now, from.host, &datagram, datagram.len());
        let new = got.expect("a good datagram").data.expect("a new message");
        engine.reject(now, new.peer, new.psn, Reject::Rnr);
    }
    let bytes = scene.victim.engine.memory_bytes();
    assert!(bytes < 10_000, "{bytes} bytes");
}

/// Each answer costs the machine a datagram, and goes to a port of the attacker's choice.
#[test]
fn refused_openings_are_answered_within_bounds() {
    for is_one_sender in [true, false] {
        let mut scene = Scene::new(Config { peers_max: 1 << 20, ..Config::socket() });
        let (mut answers, mut answered, mut asked) = (0, 0, 0);
        for i in 0..10_000 {
            let from = invented(if is_one_sender { 0 } else { i });
            let datagram = opening(from, VICTIM, Opening { psn: 5 + i, ..forged(WRONG_KEY, 1) });
            scene.forge(from, &datagram);
            asked += datagram.len();
            let sent = scene.victim.sends(scene.now);
            answers += sent.len();
            answered += sent.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        }
        assert!(answers <= 256, "{answers} answers to strangers in one moment");
        assert!(answered < asked, "{answered} bytes of answers to {asked}");
    }
}

#[test]
fn the_scene_works() {
    let mut scene = Scene::connected(Config::socket());
    scene.assert_served(1);
    scene.sender.send(scene.now, VICTIM, 2, WRONG_KEY);
    scene.run_ms(1);
    assert_eq!(scene.sender.status_of(2), Some(Status::BadDestQpn));
    scene.assert_served(3);
}
