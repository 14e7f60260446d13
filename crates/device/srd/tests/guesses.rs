//! How fast an attacker without the queue key can guess, and who is affected by it (SRD-3.12).

use crate::common::scene::{KEY, Opening, SENDER, Scene, VICTIM, WRONG_KEY, kind_of, opening};
use srd::wire::Kind;
use srd::{Address, Config, DropReason, Status};

const MS_NS: u64 = 1_000_000;
/// Wrong keys per second that are checked: of all senders,
const FREE: u64 = 256;
/// of one machine that answers challenges,
const OF_A_MACHINE: u64 = 128;
/// and of all machines that do.
const OF_ALL: u64 = 16 * OF_A_MACHINE;
/// Addresses of loopback.
const LOOPBACK: core::ops::Range<u64> = 0x7F00_0000..0x8000_0000;

fn invented(i: u64) -> Address {
    Address { host: 1000 + i / 50_000, qpn: 1 + (i % 50_000) as u16 }
}

/// A key that was never tried and is wrong.
fn guess(i: u64) -> u32 {
    0x8000_0000 | i as u32
}

/// Returns the number of keys that were checked and are wrong.
fn judged(scene: &Scene) -> u64 {
    scene.victim.engine.stats().dropped[DropReason::Refused as usize]
}

fn try_key(scene: &mut Scene, from: Address, qkey: u32, proof: u64) -> Result<(), DropReason> {
    let what = Opening { conn: 9, psn: 1, oldest: 0, qkey, proof };
    let datagram = opening(from, VICTIM, what);
    let engine = &mut scene.victim.engine;
    let got = engine.handle_datagram(scene.now, from.host, &datagram, datagram.len())?;
    if let Some(new) = got.data {
        engine.accept(scene.now, new.peer, new.psn);
    }
    Ok(())
}

/// Tries a key and answers a challenge, if there is one: challenges are limited, too (SRD-3.11).
fn try_with_proof(scene: &mut Scene, from: Address, qkey: u32) -> Result<(), DropReason> {
    scene.victim.sends(scene.now);
    match try_key(scene, from, qkey, 0) {
        Err(DropReason::Unproven) => {}
        other => return other,
    }
    let sent = scene.victim.sends(scene.now);
    let Some((to, datagram)) = sent.first() else { return Err(DropReason::Unproven) };
    assert_eq!((*to, kind_of(datagram)), (from, Kind::Challenge));
    let cookie = datagram[datagram.len() - 8..].try_into().expect("eight bytes");
    try_key(scene, from, qkey, u64::from_be_bytes(cookie))
}

/// Uses up the free checks of this second.
fn exhaust(scene: &mut Scene) {
    for i in 0..2 * FREE {
        let _ = try_key(scene, invented(i), guess(i), 1);
    }
    scene.victim.sends(scene.now);
    scene.now = scene.now.plus_ns(MS_NS);
}

#[test]
fn invented_senders_try_few_keys() {
    let mut scene = Scene::new(Config::socket());
    for i in 0..1_000_000 {
        let _ = try_key(&mut scene, invented(i), guess(i), i % 3);
        if i % 1000 == 0 {
            scene.victim.sends(scene.now);
            scene.now = scene.now.plus_ns(3 * MS_NS);
        }
    }
    // Three seconds, of which the first may have been under way.
    let judged = judged(&scene);
    assert!((3 * FREE..=4 * FREE).contains(&judged), "{judged} keys looked at in 3 s");
}

#[test]
fn a_right_guess_among_too_many_opens_nothing() {
    let mut scene = Scene::new(Config::socket());
    exhaust(&mut scene);
    let got = try_key(&mut scene, invented(7), KEY, 1);
    assert_eq!(got, Err(DropReason::Unproven), "and looks like any wrong one");
    assert_eq!(try_key(&mut scene, invented(8), guess(1 << 20), 1), got);
    // Nor of a machine that has used up its checks.
    let mut last = Err(DropReason::Crowded);
    for i in 0..4000 {
        let from = Address { host: 77, qpn: 1 + i };
        last = try_with_proof(&mut scene, from, guess(5000 + u64::from(i)));
        scene.now = scene.now.plus_ns(100_000);
    }
    assert_eq!(last, Err(DropReason::Unjudged));
    let from = Address { host: 77, qpn: 9000 };
    assert_eq!(try_with_proof(&mut scene, from, KEY), Err(DropReason::Unjudged));
}

#[test]
fn a_machine_that_answers_challenges_tries_few_keys() {
    let config = Config { own_hosts: LOOPBACK, ..Config::socket() };
    let many = |i: u64| Address { host: 2 * i, qpn: 5 };
    let loopback = |i: u64| Address { host: LOOPBACK.start + i * 7, qpn: 5 + i as u16 };
    let one = |i: u64| Address { host: 12, qpn: i as u16 };
    let who: [(&dyn Fn(u64) -> Address, u64); 3] =
        [(&one, OF_A_MACHINE), (&loopback, OF_A_MACHINE), (&many, OF_ALL)];
    for (from, at_most) in who {
        let mut scene = Scene::new(config.clone());
        exhaust(&mut scene);
        for i in 0..40_000 {
            let _ = try_with_proof(&mut scene, from(i), guess(1000 + i));
            scene.now = scene.now.plus_ns(MS_NS / 50);
        }
        let judged = judged(&scene) - FREE;
        assert!(judged <= at_most, "{judged} keys looked at in 0.8 s, wanted {at_most}");
        assert!(judged >= at_most * 9 / 10, "{judged} keys looked at: the others were turned away");
    }
}

/// A thousand guesses per millisecond from any sender.
#[test]
fn newcomers_get_in_while_somebody_guesses() {
    let mut scene = Scene::new(Config::socket());
    let mut next = 0;
    for life in 1..=5 {
        scene.sender.restart(&scene.config.clone(), 100 + life);
        scene.sender.send(scene.now, VICTIM, 1, KEY);
        let deadline = scene.now.plus_ns(1000 * MS_NS);
        while scene.sender.status_of(1).is_none() && scene.now < deadline {
            for _ in 0..10 {
                next += 1;
                let _ = try_key(&mut scene, invented(next), guess(next), 1);
            }
            scene.step();
            scene.now = scene.now.plus_ns(10_000);
        }
        assert_eq!(scene.sender.status_of(1), Some(Status::Ok), "life {life}");
        scene.now = scene.now.plus_ns(300 * MS_NS);
    }
    assert!(judged(&scene) <= 7 * FREE);
}

/// Machines that answer challenges and use up all checks of strangers do not keep out known peers.
#[test]
fn known_peers_get_in_beside_machines_that_guess() {
    let mut scene = Scene::new(Config::socket());
    exhaust(&mut scene);
    for i in 0..30_000 {
        let _ = try_with_proof(&mut scene, Address { host: 2 * i, qpn: 5 }, guess(1000 + i));
        scene.now = scene.now.plus_ns(MS_NS / 100);
    }
    assert!(judged(&scene) > FREE + OF_ALL * 9 / 10);
    scene.sender.send(scene.now, VICTIM, 1, KEY);
    scene.run_ms(10);
    assert_eq!(scene.sender.status_of(1), None, "a stranger waits for the next second");
    scene.victim.send(scene.now, SENDER, 2, KEY);
    scene.run_ms(100);
    assert_eq!(scene.sender.status_of(1), Some(Status::Ok), "whom we have sent to does not");
    assert_eq!(scene.victim.status_of(2), Some(Status::Ok));
}

/// SRD-3.11: an answer costs a system call, so a flood of requests must take little time from live
/// traffic.
#[test]
fn who_asks_without_end_gets_few_challenges() {
    let mut scene = Scene::new(Config::socket());
    let mut challenges = 0;
    for i in 0..200_000 {
        let _ = try_key(&mut scene, invented(i), guess(i), 1);
        let sent = scene.victim.sends(scene.now);
        challenges += sent.iter().filter(|(_, sent)| kind_of(sent) == Kind::Challenge).count();
        scene.now = scene.now.plus_ns(MS_NS / 50);
    }
    // At once, and in four seconds.
    let most = 16_384 + 4000 * 4;
    assert!((most * 9 / 10..=most).contains(&challenges), "{challenges} challenges, wanted {most}");
}

/// A key that continues to be wrong is not checked again.
#[test]
fn connections_do_not_notice_guesses() {
    let mut scene = Scene::connected(Config::socket());
    let mut next = 0;
    for id in 1..=1000 {
        scene.sender.send(scene.now, VICTIM, id, KEY);
        for _ in 0..10 {
            next += 1;
            let _ = try_key(&mut scene, invented(next), guess(next), 1);
        }
        scene.step();
        scene.now = scene.now.plus_ns(10_000);
    }
    scene.run_ms(1);
    assert!((1..=1000).all(|id| scene.sender.status_of(id) == Some(Status::Ok)));
    let stats = scene.sender.engine.stats();
    assert_eq!((stats.retrans_pkts, stats.rx_challenges, stats.rx_refused), (0, 0, 0));
}

/// Thousands of peers that name the key of a program that has ended do not count as guesses.
#[test]
fn the_same_wrong_key_is_one_guess() {
    let mut scene = Scene::new(Config::socket());
    for i in 0..10_000 {
        let from = Address { host: 55, qpn: 1 + (i % 1000) as u16 };
        assert_eq!(try_key(&mut scene, from, WRONG_KEY, 0), Err(DropReason::Refused));
    }
    exhaust(&mut scene);
    assert_eq!(judged(&scene), 10_000 + FREE - 1);
    (0..1000).for_each(|id| scene.sender.send(scene.now, VICTIM, id, WRONG_KEY ^ 1));
    scene.run_ms(100);
    assert!((0..1000).all(|id| scene.sender.status_of(id) == Some(Status::BadDestQpn)));
}

#[test]
fn a_key_that_was_wrong_can_become_the_right_one() {
    let mut scene = Scene::new(Config::socket());
    let from = Address { host: 55, qpn: 1 };
    assert_eq!(try_key(&mut scene, from, WRONG_KEY, 0), Err(DropReason::Refused));
    scene.victim.engine.set_qkey(Some(WRONG_KEY));
    assert_eq!(try_key(&mut scene, from, WRONG_KEY, 0), Ok(()));
    scene.victim.engine.set_qkey(Some(KEY));
    let other = Address { host: 56, qpn: 1 };
    assert_eq!(try_key(&mut scene, other, WRONG_KEY, 0), Err(DropReason::Refused));
    assert_eq!(try_key(&mut scene, other, KEY, 0), Ok(()));
}
