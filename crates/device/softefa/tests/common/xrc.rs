//! Extended reliable connections: initiators, and targets in domains with shared receive queues.

use std::sync::{Arc, Mutex};

use softefa::{
    Completion, Config, Cq, Device, EventSource, OpenXrcd, Pd, Qp, QpKind, SendOp, SendWr, Sge,
    Srq, SrqAttr, Xrcd,
};

use super::Side;
use super::roce::{EVERYTHING, Link, connect_qps, gather, side, wr};

/// A target whose requests are for one queue, unless they name another one.
pub struct Target {
    /// The side of the target, whose completion queue is that of `srq`.
    pub side: Side,
    pub xrcd: Arc<Xrcd>,
    pub srq: Arc<Srq>,
}

pub const SRQ: SrqAttr = SrqAttr { max_wr: 4096, max_sge: 4, limit: 0 };

pub fn srq_in(xrcd: &Arc<Xrcd>, pd: &Arc<Pd>, cq: &Arc<Cq>) -> Arc<Srq> {
    xrcd.create_srq(pd, cq, &SRQ, None).expect("a shared queue")
}

impl Target {
    /// Makes a target in the reset state, with `bytes` of memory.
    pub fn new(config: &Config, bytes: usize, events: Option<Arc<EventSource>>) -> Self {
        let device = Device::open(&config.devices[0], config).expect("a device");
        let pd = device.alloc_pd().expect("a domain");
        let cq = Cq::create(&device, 16_384).expect("a queue");
        let xrcd = Xrcd::open(&device, OpenXrcd::default()).expect("an XRC domain");
        let srq = srq_in(&xrcd, &pd, &cq);
        let qp = Qp::create_target(&xrcd, events).expect("a target");
        let memory = vec![0u8; bytes].into_boxed_slice();
        let mr = pd.reg_mr(memory.as_ptr() as u64, bytes as u64, EVERYTHING).expect("a region");
        let side = Side { device, pd, cq, qp, mr, memory, aside: Mutex::default() };
        Self { side, xrcd, srq }
    }

    /// Makes another target of the domain.
    pub fn sibling(&self) -> Arc<Qp> {
        Qp::create_target(&self.xrcd, None).expect("a target")
    }

    pub fn post_recv(&self, wr_id: u64, at: usize, len: u32) {
        self.srq.post_recv(wr_id, &[self.side.sge(at, len)]).expect("room for a receive");
    }
}

/// Makes an initiator and its target, connected, with `bytes` of memory each.
pub fn pair_of(config: &Config, bytes: usize, link: &Link) -> (Side, Target) {
    let a = side(config, QpKind::XrcInitiator, bytes);
    let b = Target::new(config, bytes, None);
    connect_qps(&a.qp, &b.side.qp, link);
    (a, b)
}

/// Posts a work request for queue `srq`.
pub fn post_to(qp: &Qp, srq: u32, wr_id: u64, op: SendOp, sges: &[Sge]) {
    let request = SendWr { remote_srq: srq, ..wr(wr_id, op, sges) };
    qp.post_send(&request).expect("a work request is taken");
}

pub fn post(a: &Side, b: &Target, wr_id: u64, op: SendOp, sges: &[Sge]) {
    post_to(&a.qp, b.srq.number(), wr_id, op, sges);
}

/// Returns the next `count` completions of both.
pub fn found(a: &Side, b: &Target, count: usize) -> [Vec<Completion>; 2] {
    let found = gather(&[a, &b.side], count);
    found.try_into().expect("of two sides")
}
