//! A program that makes every call, and the completions that it must get.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod memory;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use softefa::{
    Ah, Completion, CompletionOp, Config, Cq, Device, Gid, ModifyError, ModifyQp, Pd, Qp, QpInit,
    QpKind, QpState, Remote, SendData, SendOp, SendWr, Sge, Target,
};

use memory::Memory;

const QKEY: u32 = 0x1234;
const QPS_MAX: usize = 6;
const CQ_DEPTH: u32 = 64;
const RQ_DEPTH: u32 = 128;
/// Number of receives that wait on each queue pair at the end.
const READY: usize = 8;

/// A span of a region, which may reach beyond the region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionSpan {
    pub(crate) region: u8,
    pub(crate) at: u32,
    pub(crate) len: u32,
    pub(crate) wrong_key: u32,
}

/// A call. Indices are taken modulo the number of objects.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    CreateQp { pd: u8, cq: u8, kind: QpKind, unsolicited: bool, sig_all: bool },
    DestroyQp { qp: u8 },
    Up { qp: u8, rnr_retry: u8 },
    Modify { qp: u8, state: QpState, given: u8 },
    Register { pd: u8, slot: u8, rights: u8 },
    Deregister { region: u8 },
    CreateAh { pd: u8, host: u8 },
    DestroyAh { ah: u8 },
    Send { qp: u8, to: u8, ah: u8, op: u8, local: RegionSpan, remote: RegionSpan, flags: u8 },
    Recv { qp: u8, local: RegionSpan, entries: u8 },
    Poll { max: u8 },
}

/// A work request that the adapter has accepted.
#[derive(Debug)]
struct Owed {
    qpn: u32,
    is_send: bool,
    /// The work request completes on success, too.
    is_signaled: bool,
}

pub(crate) struct World {
    memory: Memory,
    pds: Vec<Arc<Pd>>,
    cqs: Vec<Arc<Cq>>,
    qps: Vec<Arc<Qp>>,
    ahs: Vec<(Arc<Ah>, Arc<Pd>)>,
    owed: HashMap<u64, Owed>,
    next_id: u64,
}

fn pick<T>(all: &[T], index: u8) -> Option<&T> {
    all.get(usize::from(index) % all.len().max(1))
}

/// Returns an element that fits, with one exception in eight.
fn pick_of<T>(all: &[T], index: u8, fits: impl Fn(&T) -> bool) -> &T {
    let fitting: Vec<_> = all.iter().filter(|one| fits(one)).collect();
    match pick(&fitting, index) {
        Some(one) if index < 224 => one,
        _ => pick(all, index).unwrap(),
    }
}

impl World {
    pub(crate) fn new(config: &Config) -> Self {
        let device = Device::open(&config.devices[0], config).unwrap();
        let pds: Vec<_> = (0..2).map(|_| device.alloc_pd().unwrap()).collect();
        let cqs = (0..2).map(|_| Cq::create(&device, CQ_DEPTH).unwrap()).collect();
        // Most calls are possible from the beginning, because they should have an effect.
        let ah = |pd: &Arc<Pd>| (pd.create_ah(device.gid()).unwrap(), Arc::clone(pd));
        let ahs = pds.iter().map(ah).collect();
        let memory = Memory::new(&pds);
        let (qps, owed) = Default::default();
        let mut world = Self { memory, pds, cqs, qps, ahs, owed, next_id: 1 };
        for pd in 0..2 {
            let (kind, unsolicited) = (QpKind::Srd, pd == 1);
            world.apply(&Call::CreateQp { pd, cq: pd, kind, unsolicited, sig_all: true });
            world.apply(&Call::Up { qp: pd, rnr_retry: 2 });
        }
        world
    }

    pub(crate) fn apply(&mut self, call: &Call) {
        match *call {
            Call::CreateQp { pd, cq, kind, unsolicited, sig_all } => {
                self.create_qp((pd, cq), kind, unsolicited, sig_all);
            }
            Call::DestroyQp { qp } => self.destroy_qp(qp),
            Call::Up { qp, rnr_retry } => {
                if let Some(qp) = pick(&self.qps, qp) {
                    up(qp, rnr_retry);
                }
            }
            Call::Modify { qp, state, given } => self.modify(qp, state, given),
            Call::Register { pd, slot, rights } => {
                self.memory.register(pick(&self.pds, pd).unwrap(), slot, rights);
            }
            Call::Deregister { region } => self.memory.deregister(region),
            Call::CreateAh { pd, host } => {
                // 127.0.0.1 is this device; there are no devices at the other addresses.
                let gid = Gid::of_efa(IpAddr::from([127, 0, 0, 1 + host / 3]));
                let pd = pick(&self.pds, pd).unwrap();
                self.ahs.push((pd.create_ah(gid).unwrap(), Arc::clone(pd)));
            }
            Call::DestroyAh { ah } => {
                pick(&self.ahs, ah).unwrap().0.destroy();
            }
            Call::Send { qp, to, ah, op, local, remote, flags } => {
                self.send((qp, to, ah), op, local, remote, flags);
            }
            Call::Recv { qp, local, entries } => self.recv(qp, local, entries),
            Call::Poll { max } => self.poll(usize::from(max % 8)),
        }
    }

    fn create_qp(&mut self, (pd, cq): (u8, u8), kind: QpKind, unsolicited: bool, sig_all: bool) {
        let live = |qp: &&Arc<Qp>| qp.modify(&ModifyQp::default()) != Err(ModifyError::Destroyed);
        if self.qps.iter().filter(live).count() >= QPS_MAX {
            return;
        }
        let cq = pick(&self.cqs, cq).unwrap();
        let init = QpInit {
            kind,
            send_cq: Arc::clone(cq),
            recv_cq: Arc::clone(cq),
            sq_depth: 64,
            rq_depth: RQ_DEPTH,
            sq_sge: 2,
            rq_sge: 3,
            inline_bytes: 32,
            sq_sig_all: sig_all,
            unsolicited_write_recv: unsolicited,
            srq: None,
            events: None,
        };
        let qp = Qp::create(pick(&self.pds, pd).unwrap(), init);
        assert_eq!(qp.is_ok(), kind == QpKind::Srd || !unsolicited, "{qp:?}");
        self.qps.extend(qp.ok());
    }

    fn destroy_qp(&mut self, qp: u8) {
        let Some(qp) = pick(&self.qps, qp) else { return };
        qp.destroy();
        let qpn = qp.qpn();
        self.owed.retain(|_, owed| owed.qpn != qpn);
    }

    fn modify(&mut self, qp: u8, state: QpState, given: u8) {
        let Some(qp) = pick(&self.qps, qp) else { return };
        let has = |bit: u8| given & 1 << bit != 0;
        let change = ModifyQp {
            state: Some(state),
            cur_state: has(0).then_some(state),
            port: has(1).then_some(given & 1),
            pkey_index: has(2).then_some(u16::from(given & 1)),
            qkey: has(3).then_some(QKEY ^ u32::from(given & 1)),
            sq_psn: has(4).then_some(5),
            rnr_retry: has(5).then_some(given & 15),
            ..ModifyQp::default()
        };
        if qp.modify(&change).is_ok() && state == QpState::Reset {
            let qpn = qp.qpn();
            self.owed.retain(|_, owed| owed.qpn != qpn);
        }
    }

    fn send(
        &mut self,
        (qp, to, ah): (u8, u8, u8),
        op: u8,
        local: RegionSpan,
        remote: RegionSpan,
        flags: u8,
    ) {
        let Some(qp) = pick(&self.qps, qp) else { return };
        let ah = pick_of(&self.ahs, ah, |(_, pd)| Arc::ptr_eq(pd, qp.pd()));
        let has = |bit: u8| flags & 1 << bit != 0;
        // Some go to an address without a device. The other transport would never answer, for 8 s
        // each.
        let fits = |other: &&Arc<Qp>| to < 250 && other.init().kind == qp.init().kind;
        let to = pick(&self.qps, to).filter(fits);
        let (addr, rkey) = self.memory.address(to.unwrap_or(qp).pd(), remote);
        let target = Remote { addr, rkey };
        let op = match op % 8 {
            0..=2 => SendOp::Send,
            3 => SendOp::SendImm(5),
            4 => SendOp::Read(target),
            5 => SendOp::Write(target),
            6 => SendOp::WriteImm(target, 6),
            _ => SendOp::Write(target),
        };
        let sge = self.memory.sge(qp.pd(), local);
        let sges = [sge, Sge { len: 1, ..sge }, sge];
        let count = if has(0) && has(1) { usize::from(flags >> 6) } else { 1 };
        let text = [7; 64];
        let inline = [&text[..local.len as usize % 40]];
        let is_inline = has(2) && has(3);
        let data =
            if is_inline { SendData::Inline(&inline) } else { SendData::Sges(&sges[..count]) };
        let wr_id = self.next_id;
        self.next_id += 1;
        let posted = qp.post_send(&SendWr {
            wr_id,
            op,
            data,
            signaled: !has(4),
            fenced: false,
            solicited: false,
            target: Some(Target {
                ah: &ah.0,
                qpn: to.map_or(9, |qp| qp.qpn()),
                qkey: if has(0) && has(5) { 0 } else { QKEY },
            }),
            remote_srq: 0,
            more: has(5),
        });
        if posted.is_ok() {
            let is_signaled = !has(4) || qp.init().sq_sig_all;
            self.owed.insert(wr_id, Owed { qpn: qp.qpn(), is_send: true, is_signaled });
        }
    }

    fn recv(&mut self, qp: u8, local: RegionSpan, entries: u8) {
        let Some(qp) = pick(&self.qps, qp) else { return };
        let sge = self.memory.sge(qp.pd(), local);
        let sges = vec![sge; usize::from(entries)];
        let wr_id = self.next_id;
        self.next_id += 1;
        if qp.post_recv(wr_id, &sges).is_ok() {
            self.owed.insert(wr_id, Owed { qpn: qp.qpn(), is_send: false, is_signaled: true });
        }
    }

    fn poll(&mut self, max: usize) {
        for cq in &self.cqs {
            for _ in 0..=max {
                let Some(done) = cq.poll_one() else { break };
                settle(&self.qps, &mut self.owed, &done);
            }
        }
    }

    /// Brings everything up and checks that everything ends: sends by themselves, the rest by the
    /// error state.
    pub(crate) fn heal(mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        self.qps.iter().for_each(|qp| up(qp, 2));
        let is_awaited = |owed: &Owed| owed.is_send && owed.is_signaled;
        while self.owed.values().any(is_awaited) {
            // A sender that tries for ever needs a receiver that is ready.
            for index in 0..self.qps.len() {
                let qp = &self.qps[index];
                let is_ready = |owed: &&Owed| !owed.is_send && owed.qpn == qp.qpn();
                if self.owed.values().filter(is_ready).count() < READY {
                    let whole = self.memory.whole_of(qp.pd());
                    self.recv(index as u8, whole, 1);
                }
            }
            self.poll(usize::MAX - 1);
            let left: Vec<_> = self.owed.iter().filter(|(_, owed)| is_awaited(owed)).collect();
            assert!(Instant::now() < deadline, "these never end: {left:?}");
        }
        for qp in &self.qps {
            // A queue pair that is destroyed has nothing left.
            let _ = qp.modify(&to(QpState::Error));
        }
        self.poll(usize::MAX - 1);
        self.owed.retain(|_, owed| owed.is_signaled);
        assert!(self.owed.is_empty(), "not flushed: {:?}", self.owed);
        self.memory.check();
        self.qps.iter().for_each(|qp| qp.destroy());
    }
}

fn to(state: QpState) -> ModifyQp {
    ModifyQp { state: Some(state), ..ModifyQp::default() }
}

/// Brings a queue pair up as far as its state permits.
fn up(qp: &Qp, rnr_retry: u8) {
    let init =
        ModifyQp { port: Some(1), pkey_index: Some(0), qkey: Some(QKEY), ..to(QpState::Init) };
    let retry = (qp.init().kind == QpKind::Srd).then_some(rnr_retry);
    let ready = ModifyQp { sq_psn: Some(0), rnr_retry: retry, ..to(QpState::ReadyToSend) };
    for step in [init, to(QpState::ReadyToReceive), ready] {
        // The step is refused if the queue pair is already further up, or down for good.
        let _ = qp.modify(&step);
    }
}

fn settle(qps: &[Arc<Qp>], owed: &mut HashMap<u64, Owed>, done: &Completion) {
    if done.op == CompletionOp::UnsolicitedWrite {
        let qp = qps.iter().rev().find(|qp| qp.qpn() == done.qpn);
        assert!(
            done.wr_id == 0 && qp.is_some_and(|qp| qp.init().unsolicited_write_recv),
            "{done:?}"
        );
        return;
    }
    let Some(was) = owed.remove(&done.wr_id) else { panic!("nobody is owed {done:?}") };
    assert_eq!((was.qpn, was.is_send), (done.qpn, done.op.is_send_queue()), "{done:?}");
}
