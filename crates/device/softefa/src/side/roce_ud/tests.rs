//! A queue pair whose adapter breaks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::counters::Counter;
use crate::progress::Live;
use crate::{
    Access, Completion, Config, Cq, Device, DeviceSpec, ModifyQp, Pd, Qp, QpInit, QpKind, QpState,
    SendData, SendOp, SendWr, Sge, Status, Target,
};

const QKEY: u32 = 7;

fn device(name: &str) -> Arc<Pd> {
    let spec = format!("{name}=127.0.0.1,profile=roce").parse::<DeviceSpec>().unwrap();
    Device::open(&spec, &Config::default()).unwrap().alloc_pd().unwrap()
}

fn queue_pair(pd: &Arc<Pd>) -> (Arc<Qp>, Arc<Cq>) {
    let cq = Cq::create(pd.device(), 64).unwrap();
    let init = QpInit {
        kind: QpKind::Ud,
        send_cq: Arc::clone(&cq),
        recv_cq: Arc::clone(&cq),
        sq_depth: 16,
        rq_depth: 16,
        sq_sge: 1,
        rq_sge: 1,
        inline_bytes: 0,
        sq_sig_all: true,
        unsolicited_write_recv: false,
        srq: None,
        events: None,
    };
    let qp = Qp::create(pd, init).unwrap();
    let to = |state| ModifyQp { state: Some(state), ..ModifyQp::default() };
    let init =
        ModifyQp { port: Some(1), pkey_index: Some(0), qkey: Some(QKEY), ..to(QpState::Init) };
    let ready = ModifyQp { sq_psn: Some(0), ..to(QpState::ReadyToSend) };
    for step in [init, to(QpState::ReadyToReceive), ready] {
        qp.modify(&step).unwrap();
    }
    (qp, cq)
}

fn next(cq: &Cq) -> Completion {
    let begin = Instant::now();
    loop {
        if let Some(done) = cq.poll_one() {
            return done;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "nothing completes");
    }
}

/// This includes the receive that was too short for the last datagram and would have been used
/// next.
#[test]
fn every_receive_ends_when_the_adapter_breaks() {
    let (near, far) = (device("roce10"), device("roce11"));
    let ((sender, done), (receiver, cq)) = (queue_pair(&near), queue_pair(&far));
    let short = [0u8; 8];
    let access = Access { local_write: true, ..Access::default() };
    let region = far.reg_mr(short.as_ptr() as u64, 8, access).unwrap();
    for id in 0..2 {
        receiver
            .post_recv(id, &[Sge { addr: region.addr(), len: 8, lkey: region.lkey() }])
            .unwrap();
    }
    let ah = near.create_ah(far.device().gid()).unwrap();
    let target = Some(Target { ah: &ah, qpn: receiver.qpn(), qkey: QKEY });
    let (signaled, fenced, solicited, more) = (true, false, false, false);
    let (wr_id, op, data) = (9, SendOp::Send, SendData::Inline(&[]));
    let wr = SendWr { wr_id, op, data, signaled, fenced, solicited, target, remote_srq: 0, more };
    sender.post_send(&wr).unwrap();
    assert_eq!(next(&done).status, Status::Ok);
    let begin = Instant::now();
    while far.device().counters().get(Counter::RxDrops) == 0 {
        assert!(cq.poll_one().is_none(), "it fits");
        assert!(begin.elapsed() < Duration::from_secs(10), "it does not come");
    }
    receiver.fail();
    let ended = [next(&cq), next(&cq)].map(|done| (done.wr_id, done.status));
    assert_eq!(ended, [(0, Status::Flushed), (1, Status::Flushed)]);
    sender.destroy();
}
