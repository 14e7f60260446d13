//! Contents of acknowledgements, and the reaction to hostile ones (SRD-5, SRD-6).

use crate::basics::expect_all;
use crate::common::Pair;
use crate::common::scene::{KEY, Scene, VICTIM};
use srd::{Config, Instant, Message, MsgId};

const SECOND_NS: u64 = 1_000_000_000;

/// SRD-5.4: thousands of numbers are consumed behind a gap between two acknowledgements. One bitmap
/// does not span them, so others follow, and only what was lost is repeated.
#[test]
fn all_news_is_told_however_many() {
    let mut pair = Pair::socket(70);
    pair.send(0, 0, 64);
    assert!(pair.run_until_done(SECOND_NS));
    for id in 1..=3500 {
        let (id, len, may_share) = (MsgId(id), 64, true);
        pair.send_with(0, Message { id, len, rnr_retry: 7, may_share, ..Message::default() });
    }
    pair.lose_id = Some(1);
    pair.turn();
    pair.lose_id = None;
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 3501);
    let [sender, receiver] = &pair.nodes;
    // The first frame had 23 messages.
    assert_eq!(sender.engine.stats().retrans_pkts, 23);
    assert_eq!(receiver.engine.stats().rx_duplicates, 0);
}

/// SRD-5.2: a host may leave a message unanswered. Its peer gets an acknowledgement of what arrived
/// before, and is forgotten like any other.
#[test]
fn a_message_left_unanswered_holds_nothing() {
    let mut scene = Scene::connected(Config::socket());
    scene.sender.send(scene.now, VICTIM, 1, KEY);
    let lost = scene.sender.sends(scene.now).remove(0).1;
    let (from, now) = (scene.sender.addr, scene.now);
    let got = scene.victim.engine.handle_datagram(now, from.host, &lost, lost.len());
    let peer = got.expect("a good datagram").data.expect("a new message").peer;
    let is_answered = |scene: &mut Scene, now: Instant| !scene.victim.sends(now).is_empty();
    assert!(!is_answered(&mut scene, now), "nothing is due");
    let soon = now.plus_ns(2_000_000_000);
    assert!(is_answered(&mut scene, soon), "the acknowledgement was asked for");
    for second in 3..60 {
        scene.victim.sends(now.plus_ns(second * 1_000_000_000));
    }
    assert_eq!(scene.victim.engine.peer_memory_bytes(peer), None, "nobody keeps it");
}
