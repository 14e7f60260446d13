//! Random calls with good and bad arguments on connected queue pairs of two devices.
//!
//! Whatever a program does: nothing panics or hangs, work requests and receives complete in the
//! order of posting, each once (or are destroyed with their queue pair), nothing succeeds behind a
//! failure, and no byte changes outside of registered memory. `SOFTEFA_CASES=1000 SOFTEFA_SEED=7
//! cargo test -p softefa --test all roce_calls` runs more cases, or other ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::roce::{EVERYTHING, Link, WIRES, add, config, strict, swap, to, up, wide};
use crate::common::traffic::{Dice, explore};
use softefa::{
    Access, Completion, Config, Cq, Device, FlushExtent, Mr, Pd, Qp, QpInit, QpKind, QpState,
    Remote, SendData, SendOp, SendWr, Sge, Status,
};

/// The regions of a device's memory, with a guard before and behind each.
const REGIONS: usize = 3;
const REGION: usize = 8192;
const GUARD: usize = 512;
const STRIDE: usize = REGION + GUARD;
const GUARD_BYTE: u8 = 0x5a;
const QUEUE_PAIRS: usize = 6;
const CALLS: usize = 400;

/// A device with all of its objects.
struct Host {
    device: Arc<Device>,
    pd: Arc<Pd>,
    cq: Arc<Cq>,
    memory: Box<[u8]>,
    regions: Vec<Option<Arc<Mr>>>,
    /// The key of the last region at each place.
    keys: Vec<u32>,
}

impl Host {
    fn new(config: &Config) -> Self {
        let device = Device::open(&config.devices[0], config).expect("a device");
        let pd = device.alloc_pd().expect("a domain");
        let cq = Cq::create(&device, 16_384).expect("a queue");
        let memory = vec![GUARD_BYTE; REGIONS * STRIDE + GUARD].into_boxed_slice();
        let (regions, keys) = (vec![None; REGIONS], vec![0; REGIONS]);
        let mut host = Self { device, pd, cq, memory, regions, keys };
        (0..REGIONS).for_each(|index| host.register(index, EVERYTHING));
        host
    }

    fn at(&self, index: usize) -> u64 {
        self.memory.as_ptr() as u64 + (GUARD + index * STRIDE) as u64
    }

    fn register(&mut self, index: usize, access: Access) {
        let mr = self.pd.reg_mr(self.at(index), REGION as u64, access).expect("a region");
        self.keys[index] = mr.rkey();
        self.regions[index] = Some(mr);
    }

    fn assert_guarded(&self) {
        for index in 0..=REGIONS {
            let guard = &self.memory[index * STRIDE..][..GUARD];
            assert!(guard.iter().all(|byte| *byte == GUARD_BYTE), "guard {index}");
        }
    }
}

/// A queue pair, with the completions that its program is to get.
struct Tracked {
    qp: Arc<Qp>,
    host: usize,
    /// The ids of work requests that have not ended, and whether each asked for a completion.
    sends: VecDeque<(u64, bool)>,
    receives: VecDeque<u64>,
    has_failed: bool,
    /// The ids from which on work requests were posted after the send queue was resumed.
    resumed_at: VecDeque<u64>,
}

impl Tracked {
    fn new(host: usize, of: &Host, kind: QpKind, sq_sig_all: bool) -> Self {
        let init = QpInit { sq_depth: 32, rq_depth: 32, sq_sig_all, ..wide(kind, &of.cq) };
        let qp = Qp::create(&of.pd, init).expect("a queue pair");
        let (sends, receives, resumed_at) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self { qp, host, sends, receives, has_failed: false, resumed_at }
    }

    fn forget(&mut self) {
        self.sends.clear();
        self.receives.clear();
        self.resumed_at.clear();
        self.has_failed = false;
    }

    /// Checks that a completion of this queue pair is the next one that may come.
    fn note(&mut self, done: &Completion) {
        if !done.op.is_send_queue() {
            assert_eq!(self.receives.pop_front(), Some(done.wr_id), "{done:?}");
            return;
        }
        loop {
            let (id, is_signaled) = self.sends.pop_front().expect("it was posted");
            while self.resumed_at.front().is_some_and(|from| *from <= id) {
                self.resumed_at.pop_front();
                self.has_failed = false;
            }
            if id == done.wr_id {
                let is_asked = is_signaled || done.status != Status::Ok;
                assert!(is_asked && (!self.has_failed || done.status != Status::Ok), "{done:?}");
                self.has_failed |= done.status != Status::Ok;
                return;
            }
            assert!(!is_signaled && !self.has_failed, "{id} was passed over by {done:?}");
        }
    }
}

struct World {
    dice: Dice,
    is_strict: bool,
    hosts: [Host; 2],
    qps: Vec<Tracked>,
    next: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let is_strict = dice.below(3) == 0;
        let faults = dice.pick(&[
            "",
            "",
            "loss=5%,dup=5%,reorder=10%",
            "rnr=20%,internal=2%",
            "mangle=5%,corrupt=5%",
        ]);
        let faulty = config(dice.pick(&WIRES), faults);
        let config = if is_strict { strict() } else { faulty };
        let hosts = [Host::new(&config), Host::new(&config)];
        let mut world = Self { dice, is_strict, hosts, qps: Vec::new(), next: 0 };
        (0..QUEUE_PAIRS).for_each(|index| world.make(index));
        world
    }

    fn make(&mut self, index: usize) {
        let kind = if self.dice.below(4) > 0 { QpKind::Rc } else { QpKind::Uc };
        let host = self.dice.below(2) as usize;
        let made = Tracked::new(host, &self.hosts[host], kind, self.is_strict);
        if index < self.qps.len() {
            self.qps[index].qp.destroy();
            self.qps[index] = made;
        } else {
            self.qps.push(made);
        }
    }

    /// Connects queue pair `index` to any other or itself; often the other one connects back.
    fn connect(&mut self, index: usize) {
        let other = self.dice.below(QUEUE_PAIRS as u64) as usize;
        let link = Link {
            mtu: self.dice.pick(&[256, 1024, 4096]),
            timeout: self.dice.pick(&[1, 8, 12]),
            retry_cnt: self.dice.below(8) as u8,
            rnr_retry: self.dice.pick(&[0, 1, 7]),
            rd_atomic: self.dice.pick(&[0, 1, 2, 4, 16, 16, 16, 128]),
            access: if self.dice.below(20) > 0 { EVERYTHING } else { Access::default() },
            ..Link::default()
        };
        let is_mutual = self.dice.below(12) > 0;
        for (own, peer) in [(index, other), (other, index)] {
            let qpn = self.qps[peer].qp.qpn();
            let gid = self.hosts[self.qps[peer].host].device.gid();
            self.qps[own].qp.modify(&to(QpState::Reset)).expect("reset is always possible");
            self.qps[own].forget();
            up(&self.qps[own].qp, &link, (gid, qpn), [9, 9]);
            if !is_mutual || own == peer {
                return;
            }
        }
    }

    /// Returns the device that queue pair `index` is connected to.
    fn peer_of(&self, index: usize) -> Option<usize> {
        let dest_qpn = self.qps[index].qp.query().dest_qpn;
        self.qps.iter().find(|it| it.qp.qpn() == dest_qpn).map(|it| it.host)
    }

    fn sge(&mut self, host: usize) -> Sge {
        let index = self.dice.below(REGIONS as u64) as usize;
        let of = &self.hosts[host];
        let (addr, lkey) = (of.at(index), of.keys[index]);
        let at = self.dice.pick(&[0, 8, 100, 8000, 8191]);
        let len = self.dice.pick(&[0, 1, 8, 8, 8, 100, 3000, 8192]);
        // Most lengths fit.
        let len = if self.dice.below(100) == 0 { len } else { len.min(REGION as u32 - at as u32) };
        let lkey = if self.dice.below(100) == 0 { lkey ^ 1 } else { lkey };
        Sge { addr: addr + at, len, lkey }
    }

    fn extent(&mut self) -> FlushExtent {
        FlushExtent {
            len: self.dice.pick(&[0, 8, 100, 8192, 8193, u32::MAX]),
            is_global: self.dice.below(2) == 0,
            is_persistent: self.dice.below(20) == 0,
            is_whole_region: self.dice.below(4) == 0,
        }
    }

    fn remote(&mut self, host: usize) -> Remote {
        let Sge { addr, lkey, .. } = self.sge(host);
        let low = if self.dice.below(20) > 0 { 7 } else { 0 };
        Remote { addr: addr & !low, rkey: lkey }
    }

    fn send(&mut self, index: usize) {
        let is_down = self.qps[index].qp.query().state != QpState::ReadyToSend;
        if is_down && self.dice.below(3) == 0 {
            self.connect(index);
        }
        let (host, far) = (self.qps[index].host, self.dice.below(2) as usize);
        let there = self.peer_of(index).unwrap_or(far);
        let (at, imm) = (self.remote(there), self.dice.roll() as u32);
        let op = match self.dice.below(14) {
            0..4 => SendOp::Send,
            4 => SendOp::SendImm(imm),
            5 | 6 => SendOp::Write(at),
            7 => SendOp::WriteImm(at, imm),
            8 | 9 => SendOp::Read(at),
            10 => add(at, 1),
            11 => swap(at, 0, 1),
            12 => SendOp::AtomicWrite(at),
            _ => SendOp::Flush(at, self.extent()),
        };
        let mut sges: Vec<Sge> = (0..self.dice.below(4)).map(|_| self.sge(host)).collect();
        if op.is_atomic() {
            sges = vec![Sge { len: 8, ..self.sge(host) }];
        }
        let bytes = [7; 300];
        let parts = [&bytes[..self.dice.below(300) as usize]];
        let is_inline = self.dice.below(8) == 0;
        let data = if is_inline { SendData::Inline(&parts) } else { SendData::Sges(&sges) };
        let (signaled, fenced) =
            (self.is_strict || self.dice.below(3) > 0, self.dice.below(4) == 0);
        let more = self.dice.below(4) == 0;
        let (wr_id, solicited, target) = (self.next, false, None);
        let wr =
            SendWr { wr_id, op, data, signaled, fenced, solicited, target, remote_srq: 0, more };
        self.next += 1;
        let tracked = &mut self.qps[index];
        if tracked.qp.post_send(&wr).is_ok() {
            tracked.sends.push_back((wr_id, signaled));
        }
    }

    fn receive(&mut self, index: usize) {
        let host = self.qps[index].host;
        let mut sges: Vec<Sge> = (0..=self.dice.below(3)).map(|_| self.sge(host)).collect();
        if self.dice.below(10) > 0 {
            let of = &self.hosts[host];
            sges.push(Sge { addr: of.at(0), len: REGION as u32, lkey: of.keys[0] });
        }
        let wr_id = self.next;
        self.next += 1;
        if self.qps[index].qp.post_recv(wr_id, &sges).is_ok() {
            self.qps[index].receives.push_back(wr_id);
        }
    }

    /// Takes completions, at most `max` of each device, and returns how many there were.
    fn poll(&mut self, max: usize) -> usize {
        let mut count = 0;
        for (number, host) in self.hosts.iter().enumerate() {
            for _ in 0..max {
                let Some(done) = host.cq.poll_one() else { break };
                let mut owners = self.qps.iter_mut();
                let owner = owners.find(|it| it.host == number && it.qp.qpn() == done.qpn);
                owner.expect("completions of destroyed queue pairs are gone").note(&done);
                count += 1;
            }
        }
        count
    }

    fn call(&mut self) {
        let index = self.dice.below(QUEUE_PAIRS as u64) as usize;
        match self.dice.below(100) {
            0..3 => self.connect(index),
            3..8 => {
                let state = self.dice.pick(&[QpState::SendQueueDrained, QpState::ReadyToSend]);
                let tracked = &mut self.qps[index];
                let was_stopped = tracked.qp.query().state == QpState::SendQueueError;
                if tracked.qp.modify(&to(state)).is_ok() && was_stopped {
                    tracked.resumed_at.push_back(self.next);
                }
            }
            8 => drop(self.qps[index].qp.modify(&to(QpState::Error))),
            9 => {
                self.qps[index].qp.modify(&to(QpState::Reset)).expect("reset is always possible");
                self.qps[index].forget();
            }
            10 => self.make(index),
            11 => {
                let (host, region) = (index % 2, self.dice.below(REGIONS as u64) as usize);
                self.hosts[host].regions[region] = None;
                if self.dice.below(4) > 0 {
                    let access = self.dice.pick(&[EVERYTHING, EVERYTHING, Access::default()]);
                    self.hosts[host].register(region, access);
                }
            }
            12..50 => self.send(index),
            50..75 => self.receive(index),
            _ => {
                let max = self.dice.below(20) as usize;
                self.poll(max);
            }
        }
    }

    /// Checks that all work that was posted ends.
    fn settle(&mut self) {
        for tracked in &self.qps {
            if tracked.qp.query().state != QpState::Reset {
                tracked.qp.modify(&to(QpState::Error)).expect("the error state can be reached");
            }
        }
        let begin = Instant::now();
        let owes = |tracked: &Tracked| {
            let is_stopped = tracked.has_failed && tracked.resumed_at.is_empty();
            let needs = |&(_, is_signaled): &(u64, bool)| is_signaled || is_stopped;
            tracked.sends.iter().any(needs) || !tracked.receives.is_empty()
        };
        while self.qps.iter().any(owes) {
            self.poll(100);
            assert!(begin.elapsed() < Duration::from_secs(10), "work requests do not end");
        }
        // Those that asked for no completion may have been flushed; there is no completion without
        // a post.
        while self.poll(100) > 0 {}
        self.hosts.iter().for_each(Host::assert_guarded);
        self.qps.iter().for_each(|tracked| tracked.qp.destroy());
    }
}

#[test]
fn any_sequence_of_calls_keeps_every_promise() {
    explore("roce_calls", "any_sequence_of_calls_keeps_every_promise", 60, |seed| {
        let mut world = World::new(seed);
        (0..CALLS).for_each(|_| world.call());
        world.settle();
    });
}
