//! A crowd of queue pairs whose peers never answer, destroyed. The test is alone in its process,
//! because there is one budget of waiting for all.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Side, init, is_alone, pair, up, wr};
use softefa::counters::Counter;
use softefa::{Qp, QpKind, SendOp};

/// All of them together wait as long as one.
#[test]
fn peers_that_never_answer_do_not_hold_destruction_up_for_ever() {
    if !is_alone(module_path!(), "peers_that_never_answer_do_not_hold_destruction_up_for_ever") {
        return;
    }
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (a, b) = pair("loss=100%,seed=1");
        let ah = a.ah(&b);
        let crowd: Vec<_> = (0..64).map(|_| another(&a)).collect();
        for qp in &crowd {
            let sge = [a.sge(0, 64)];
            qp.post_send(&wr(1, &ah, b.qp.qpn(), SendOp::Send, &sge)).expect("room");
        }
        crowd.iter().for_each(|qp| qp.destroy());
        assert!(a.device.counters().get(Counter::RetransPkts) > 0, "it tried again");
        assert!(b.cq.poll_one().is_none());
        done.send(()).expect("somebody waits");
    });
    // Waiting half a second for each of the 64 would take longer.
    is_done.recv_timeout(Duration::from_secs(20)).expect("destroyed in time");
}

/// Makes another queue pair of a side.
fn another(side: &Side) -> Arc<Qp> {
    let qp = Qp::create(&side.pd, init(QpKind::Srd, &side.cq)).expect("a queue pair");
    up(&qp, 7);
    qp
}
