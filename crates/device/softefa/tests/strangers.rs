//! Datagrams of strangers in front of those of peers.

use std::net::UdpSocket;

use crate::common::{self, Side, poll_until_counted, side};
use softefa::counters::Counter;
use softefa::{CompletionOp, QpKind, Status};

/// Number of strangers' datagrams that wait when a peer's comes.
const STRANGE: usize = 160;

/// Returns the number of polls of `b` until a message of `a` arrives that was sent behind many
/// datagrams of a stranger.
fn polls_behind_strangers(kind: QpKind) -> usize {
    let (a, b) = (side(kind, ""), side(kind, ""));
    let ah = a.ah(&b);
    // A first message opens the connection, so that the next one needs one datagram only.
    b.post_recv(1, 0, 64);
    a.send(1, &b, &ah, 0, 8);
    assert_eq!(common::wait_for(&[&a, &b], 1, CompletionOp::Recv).status, Status::Ok);
    b.post_recv(2, 0, 64);
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for i in 0..STRANGE {
        // All lengths differ, so that the system does not make a train of them.
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

/// One turn for each stranger's datagram would delay live traffic as long as strangers send.
#[test]
fn a_turn_looks_behind_what_strangers_sent() {
    for kind in [QpKind::Srd, QpKind::Ud] {
        // Few polls prove nothing when the service thread helps, nor do many when that was stopped
        // in a turn of its own, for which polls do not wait.
        let mut polls = [(); 9].map(|()| polls_behind_strangers(kind));
        polls.sort_unstable();
        assert!(
            polls[4] <= STRANGE / 16 + 4,
            "{kind:?}: {polls:?} polls behind {STRANGE} datagrams"
        );
    }
}
