//! What acknowledgements say, and what they make of hostile ones (SRD-5, SRD-6).

use crate::basics::expect_all;
use crate::common::Pair;
use srd::{Message, MsgId};

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
