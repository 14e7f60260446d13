//! Several completion queues of one device, polled by one thread.

use std::time::Duration;

use crate::common::{init, settled_by, side, up};
use softefa::counters::Counter;
use softefa::{Cq, Qp, QpKind, SendOp, Status};

const LIMIT: Duration = Duration::from_secs(10);

/// A program that has just polled one queue waits on another for a message that the first one's
/// queue pair must answer. The service thread would do that only at its next tick, 2 ms later.
#[test]
fn polling_one_queue_drives_the_others() {
    let a = side(QpKind::Srd, "");
    let other_cq = Cq::create(&a.device, 64).expect("a second queue");
    let other = Qp::create(&a.pd, init(QpKind::Srd, &other_cq)).expect("a queue pair");
    up(&other, 7);
    let ah = a.ah(&a);
    let turns = || a.device.counters().get(Counter::ServiceTurns);
    let mut without_help = 0;
    // The service thread runs whenever this thread is descheduled for a millisecond.
    for round in 0..500 {
        other.post_recv(round, &[a.sge(0, 8)]).expect("a receive");
        assert!(other_cq.poll_one().is_none());
        let before = turns();
        a.post(round, &ah, other.qpn(), SendOp::Send, &[a.sge(8, 8)]);
        let sent = settled_by(LIMIT, || a.cq.poll_one());
        assert_eq!(sent.status, Status::Ok);
        without_help += u32::from(turns() == before);
        // Another thread may acknowledge a message before it reports it.
        let arrived = settled_by(LIMIT, || other_cq.poll_one());
        assert_eq!(arrived.wr_id, round);
    }
    assert!(without_help > 0, "the service thread had to answer each of 500 messages");
}
