//! Acknowledgements, losses and what is sent next, a segment at a time.

use super::*;
use crate::id::{FlowId, MessageId};

/// Creates a board with `segments` of 1,000 bytes, of which the first `sent` are under way.
fn board(segments: u32, sent: u32) -> Scoreboard {
    let mut board = Scoreboard::default();
    for message in MessageId(0).range(segments) {
        board.push(Payload { flow: FlowId(0), message }, 1000);
    }
    (0..sent).for_each(|seq| {
        assert_eq!(board.take_new(Time::from_us(u64::from(seq))).unwrap().seq, seq);
    });
    board
}

fn take(board: &mut Scoreboard) -> Option<u32> {
    board.take_in_recovery(Time::from_us(100)).map(|pick| pick.seq)
}

#[test]
fn acknowledged_segments_end_in_order() {
    let mut board = board(5, 4);
    let mut ended = Vec::new();
    assert_eq!(board.acknowledge(3, Time::FAR, |name| ended.push(name.message.0)), 3000);
    assert_eq!((ended, board.pipe_bytes(), board.flight_bytes()), (vec![0, 1, 2], 1000, 1000));
    assert_eq!(
        board.acknowledge(9, Time::FAR, |_| ()),
        1000,
        "what was never sent cannot be acknowledged"
    );
    assert_eq!((board.una(), board.next(), board.has_new()), (4, 4, true));
}

#[test]
fn a_segment_is_lost_when_three_above_it_arrived() {
    let mut board = board(10, 10);
    board.sack(1, 3, Time::FAR);
    board.find_lost();
    assert!(!board.has_lost(), "two are reordering");
    board.sack(5, 6, Time::FAR);
    board.find_lost();
    assert!(board.has_lost());
    assert_eq!(board.pipe_bytes(), 6000, "10 but 3 received and 1 lost");
    assert_eq!(take(&mut board), Some(0));
    assert_eq!((board.pipe_bytes(), board.has_lost()), (7000, false));
    assert_eq!(take(&mut board), Some(3), "rule 3: it may be lost, and nothing else can go");
    assert_eq!(board.pipe_bytes(), 8000, "counted twice, as RFC 6675 does");
    assert_eq!(take(&mut board), Some(4));
    assert_eq!(take(&mut board), Some(9), "rule 4: the tail, once");
    assert_eq!(take(&mut board), None);
    board.sack(3, 4, Time::FAR);
    assert_eq!(board.pipe_bytes(), 8000, "both copies of 3 are gone");
}

#[test]
fn new_segments_go_before_doubtful_ones() {
    let mut board = board(12, 10);
    board.sack(2, 5, Time::FAR);
    board.find_lost();
    let order: Vec<_> = std::iter::from_fn(|| take(&mut board)).collect();
    assert_eq!(order, [0, 1, 10, 11, 11], "the last one twice: rule 4");
}

#[test]
fn a_timeout_gives_up_everything_but_what_was_received() {
    let mut board = board(8, 6);
    board.sack(1, 4, Time::FAR);
    board.find_lost();
    assert_eq!(take(&mut board), Some(0));
    board.lose_all();
    assert_eq!((board.pipe_bytes(), board.flight_bytes()), (0, 6000));
    let picks = std::iter::from_fn(|| board.take_lost_or_new(Time::from_us(100)));
    assert_eq!(picks.map(|pick| pick.seq).collect::<Vec<_>>(), [0, 4, 5, 6, 7]);
    assert_eq!(board.pipe_bytes(), 5000);
    assert_eq!(board.acknowledge(8, Time::FAR, |_| ()), 8000);
    assert_eq!((board.pipe_bytes(), board.flight_bytes(), board.has_lost()), (0, 0, false));
}

#[test]
fn what_was_sent_before_something_that_arrived_is_late_in_time() {
    let us = Time::from_us;
    let mut board = board(6, 6);
    board.sack(2, 3, Time::FAR);
    let (rtt_ps, slack_ps) = (10_000_000, 2_000_000);
    assert_eq!(board.find_late(us(12), rtt_ps, slack_ps), Some(us(13)), "1 is not late yet");
    assert_eq!(board.pipe_bytes(), 4000, "2 arrived, and 0 is lost");
    assert_eq!(board.take_lost_or_new(us(12)).unwrap().seq, 0);
    assert_eq!(board.find_late(us(13), rtt_ps, slack_ps), None);
    assert_eq!(board.take_lost_or_new(us(13)).unwrap().seq, 1);
    assert_eq!(board.find_late(us(90), rtt_ps, slack_ps), None, "3 was sent after 2");
    // The repetition of 1 arrives, so that of 0, sent before, is lost: known without a timeout.
    board.sack(1, 2, Time::FAR);
    assert_eq!(board.find_late(us(23), rtt_ps, 0), None);
    assert_eq!(board.take_lost_or_new(us(23)).unwrap().seq, 0);
}

#[test]
fn the_first_copy_says_nothing_of_the_second() {
    let us = Time::from_us;
    let mut board = board(4, 4);
    board.sack(1, 4, Time::FAR);
    board.find_lost();
    assert_eq!(board.take_lost_or_new(us(50)).unwrap().seq, 0);
    board.acknowledge(4, us(0), |_| ());
    assert_eq!(board.newest_sent_at(), us(3));
}
