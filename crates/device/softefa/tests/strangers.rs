//! Datagrams of strangers in front of those of peers.

use std::net::UdpSocket;

use crate::common::{self, Side, poll_until_counted, side};
use softefa::counters::Counter;
use softefa::{CompletionOp, QpKind, Status};

/// Strangers' datagrams that wait when a peer's comes.
const STRANGE: usize = 160;

/// Polls of `b` until a message of `a` arrives that is sent behind many of a stranger.
fn polls_behind_strangers(kind: QpKind) -> usize {
    let (a, b) = (side(kind, ""), side(kind, ""));
    let ah = a.ah(&b);
    // A connection, so that the next message needs but one datagram.
    b.post_recv(1, 0, 64);
    a.send(1, &b, &ah, 0, 8);
    assert_eq!(common::wait_for(&[&a, &b], 1, CompletionOp::Recv).status, Status::Ok);
    b.post_recv(2, 0, 64);
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for i in 0..STRANGE {
        // Of a length each, so that the system does not make a train of them.
        let datagram = vec![0xFF; 1 + i];
        stranger.send_to(&datagram, ("127.0.0.1", b.qp.port())).expect("sent");
    }
    a.send(2, &b, &ah, 0, 8);
    let polls = polls_until_received(&b);
    poll_until_counted(&[], &b, Counter::RxDrops, STRANGE as u64);
    polls
}

fn polls_until_received(b: &Side) -> usize {
    (1..).find(|_| b.cq.poll_one().is_some()).expect("it was sent")
}

/// A turn for each kept live traffic waiting for as long as strangers sent.
#[test]
fn a_turn_looks_behind_what_strangers_sent() {
    for kind in [QpKind::Srd, QpKind::Ud] {
        // Few polls prove nothing when the service thread helps, nor many when it was stopped in a
        // turn of its own, which polls do not wait for.
        let mut polls = [(); 9].map(|()| polls_behind_strangers(kind));
        polls.sort_unstable();
        assert!(
            polls[4] <= STRANGE / 16 + 4,
            "{kind:?}: {polls:?} polls behind {STRANGE} datagrams"
        );
    }
}
