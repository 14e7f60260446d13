//! Live traffic of which every byte and every completion is checked.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use softefa::counters::Counter;
use softefa::{
    Ah, Completion, CompletionOp, Config, DeviceSpec, ModifyQp, QpKind, QpState, SendOp, SendWr,
    Status, Target, UD_GRH_BYTES,
};

use crate::common::{Side, remote, roce, side_with, wr};
use crate::forge::Dice;

/// The most messages of a direction that are under way.
const SLOTS: usize = 16;
const SLOT_BYTES: usize = 16 << 10;
/// The offset of the memory in which messages arrive.
const ARRIVALS: usize = SLOTS * SLOT_BYTES;
/// The offset of the memory in which READs and announced WRITEs arrive.
const COPIES: usize = 2 * ARRIVALS;
const UNTOUCHED: std::ops::Range<usize> = 3 * ARRIVALS..1 << 20;
/// The time after which an unreliable datagram that did not arrive counts as lost.
const UD_PATIENCE: Duration = Duration::from_millis(2);
/// The time without a completion after which the run has failed.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    Send,
    Rdma,
    Ud,
    /// SENDs of a RoCE connection.
    Rc,
}

/// The progress of a slot's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Idle,
    /// A SEND, or the WRITE that begins a round.
    First,
    /// An unreliable datagram that was sent.
    Left,
    Read,
    /// A WRITE with immediate, and the completions that are still missing.
    Announced {
        ended: bool,
        told: bool,
    },
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    step: Step,
    seq: u64,
    len: usize,
    since: Instant,
}

/// The messages that were sent and have not arrived.
#[derive(Default)]
struct Flow {
    next: u64,
    open: HashMap<u64, usize>,
}

/// Two sides, each sending to the other.
pub(crate) struct Victims {
    pub(crate) sides: [Side; 2],
    ahs: [Arc<Ah>; 2],
    traffic: Traffic,
    key: u32,
    nonce: u64,
    dice: Dice,
    slots: [[Slot; SLOTS]; 2],
    flows: [Flow; 2],
    is_ending: bool,
    /// Number of bytes of messages that arrived, and the time of the last of them.
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    last: Instant,
}

impl Victims {
    pub(crate) fn new(traffic: Traffic, addrs: [Ipv4Addr; 2], config: &Config, seed: u64) -> Self {
        let mut dice = Dice(seed);
        // The key is none that the forger tries first, and has the bit that the forger never
        // changes.
        let key = (dice.roll() as u32 | 0x8000_0000) ^ 0x0101_0000;
        let mut sides = match traffic {
            Traffic::Rc => connected(addrs, config),
            Traffic::Ud => addrs.map(|addr| efa(addr, config, QpKind::Ud, key)),
            Traffic::Send | Traffic::Rdma => addrs.map(|addr| efa(addr, config, QpKind::Srd, key)),
        };
        for side in &mut sides {
            side.fill(UNTOUCHED.start, &vec![0xA5; UNTOUCHED.len()]);
        }
        let ahs = [sides[0].ah(&sides[1]), sides[1].ah(&sides[0])];
        let now = Instant::now();
        let idle = Slot { step: Step::Idle, seq: 0, len: 0, since: now };
        let victims = Self {
            sides,
            ahs,
            traffic,
            key,
            nonce: dice.roll(),
            dice,
            slots: [[idle; SLOTS]; 2],
            flows: Default::default(),
            is_ending: false,
            bytes: 0,
            messages: 0,
            last: now,
        };
        for at in 0..2 {
            // There are more receives than messages under way, so that none is refused for lack of
            // one.
            (0..SLOTS).for_each(|slot| victims.post_receive(at, slot));
        }
        victims
    }

    fn post_receive(&self, at: usize, slot: usize) {
        self.sides[at].post_recv(slot as u64, ARRIVALS + slot * SLOT_BYTES, SLOT_BYTES as u32);
    }

    /// Runs traffic for the time `limit`, or until `until` returns true.
    pub(crate) fn run(&mut self, limit: Duration, mut until: impl FnMut() -> bool) -> Duration {
        let start = Instant::now();
        self.last = start;
        while start.elapsed() < limit && !until() {
            for _ in 0..64 {
                self.turn();
            }
        }
        start.elapsed()
    }

    /// Waits for all messages that are under way.
    pub(crate) fn end(&mut self) {
        self.is_ending = true;
        self.last = Instant::now();
        while self.slots.iter().flatten().any(|slot| slot.step != Step::Idle) {
            self.turn();
        }
        // A service thread may have taken and acknowledged what its program has not polled yet.
        let ended = Instant::now();
        while self.traffic != Traffic::Ud && self.lost() > 0 && ended.elapsed() < PATIENCE / 2 {
            self.turn();
        }
        self.is_ending = false;
        for (side, name) in self.sides.iter().zip(["first", "second"]) {
            let untouched = side.bytes(UNTOUCHED.start, UNTOUCHED.len());
            assert!(untouched.iter().all(|byte| *byte == 0xA5), "{name} side: foreign bytes");
        }
        let lost = self.lost();
        assert!(
            lost == 0 || self.traffic == Traffic::Ud,
            "{lost} messages ended and did not arrive"
        );
    }

    /// Returns the number of messages that did not arrive, or were not polled for.
    fn lost(&self) -> usize {
        self.flows.iter().map(|flow| flow.open.len()).sum()
    }

    /// Polls and does not send.
    pub(crate) fn idle(&mut self, limit: Duration, mut until: impl FnMut() -> bool) -> Duration {
        self.is_ending = true;
        let start = Instant::now();
        while start.elapsed() < limit && !until() {
            for _ in 0..64 {
                self.last = Instant::now();
                self.turn();
            }
        }
        self.is_ending = false;
        start.elapsed()
    }

    /// Takes the datagrams that are still in the sockets.
    pub(crate) fn drain(&mut self) {
        let mut before = None;
        while before != Some(self.count(Counter::RxPkts)) {
            before = Some(self.count(Counter::RxPkts));
            self.idle(Duration::from_millis(10), || false);
        }
    }

    fn turn(&mut self) {
        for at in 0..2 {
            if !self.is_ending {
                self.feed(at);
            }
            while let Some(done) = self.sides[at].cq.poll_one() {
                assert_eq!(done.status, Status::Ok, "side {at}: {done:?}");
                self.last = Instant::now();
                if done.op.is_send_queue() {
                    self.ended(at, &done);
                } else {
                    self.arrived(at, &done);
                }
            }
        }
        if self.traffic == Traffic::Ud {
            self.give_up_lost();
        }
        assert!(self.last.elapsed() < PATIENCE, "nothing completed for {PATIENCE:?}");
    }

    fn feed(&mut self, at: usize) {
        for slot in 0..SLOTS {
            if self.slots[at][slot].step == Step::Idle {
                self.begin(at, slot, Step::First);
            }
        }
    }

    /// Posts a new message from a slot.
    fn begin(&mut self, at: usize, slot: usize, step: Step) {
        let max = if self.traffic == Traffic::Ud { 4000 } else { 8192 };
        let len = 16 + self.dice.below(max - 16);
        let flow = &mut self.flows[at];
        let seq = flow.next;
        flow.next += 1;
        flow.open.insert(seq, len);
        self.slots[at][slot] = Slot { step, seq, len, since: Instant::now() };
        let bytes = pattern(self.nonce ^ at as u64, seq, len);
        self.sides[at].fill(slot * SLOT_BYTES, &bytes);
        let target = ARRIVALS + slot * SLOT_BYTES;
        let op = match (self.traffic, step) {
            (Traffic::Rdma, Step::First) => SendOp::Write(remote(&self.sides[1 - at], target)),
            // The target is not where receives are posted, because both are written.
            (Traffic::Rdma, _) => {
                let target = COPIES + slot * SLOT_BYTES;
                SendOp::WriteImm(remote(&self.sides[1 - at], target), slot as u32)
            }
            _ => SendOp::Send,
        };
        self.post(at, slot, op, slot * SLOT_BYTES, len);
    }

    fn post(&self, at: usize, slot: usize, op: SendOp, from: usize, len: usize) {
        let sges = [self.sides[at].sge(from, len as u32)];
        let qpn = self.sides[1 - at].qp.qpn();
        let request = wr(slot as u64, &self.ahs[at], qpn, op, &sges);
        let target = request.target.filter(|_| self.traffic != Traffic::Rc);
        let target = target.map(|to| Target { qkey: self.key, ..to });
        let request = SendWr { target, ..request };
        self.sides[at].qp.post_send(&request).expect("there is room");
    }

    fn ended(&mut self, at: usize, done: &Completion) {
        let slot = done.wr_id as usize;
        let Slot { step, seq, len, .. } = self.slots[at][slot];
        match (self.traffic, step) {
            (Traffic::Send | Traffic::Rc, Step::First) => self.slots[at][slot].step = Step::Idle,
            // The slot is free when the message has arrived, which may have been before.
            (Traffic::Ud, Step::First) => self.slots[at][slot].step = Step::Left,
            // The next datagram of the slot may have been sent since.
            (Traffic::Ud, Step::Idle | Step::Left) => {}
            (Traffic::Rdma, Step::First) => {
                self.check(at, seq, 1 - at, ARRIVALS + slot * SLOT_BYTES, len);
                // The READ comes from where the WRITE went, and goes into other memory.
                let target = remote(&self.sides[1 - at], ARRIVALS + slot * SLOT_BYTES);
                let into = COPIES + slot * SLOT_BYTES;
                // Both ends write there, each its own half.
                self.slots[at][slot].step = Step::Read;
                self.post(
                    at,
                    slot,
                    SendOp::Read(target),
                    into + SLOT_BYTES / 2,
                    len.min(SLOT_BYTES / 2),
                );
            }
            (Traffic::Rdma, Step::Read) => {
                self.compare(at, seq, at, COPIES + slot * SLOT_BYTES + SLOT_BYTES / 2, len);
                self.messages += 1;
                self.bytes += len as u64;
                self.begin(at, slot, Step::Announced { ended: false, told: false });
            }
            (Traffic::Rdma, Step::Announced { told, .. }) => {
                self.slots[at][slot].step =
                    if told { Step::Idle } else { Step::Announced { ended: true, told } };
            }
            (_, step) => panic!("side {at}: {done:?} while the slot is at {step:?}"),
        }
    }

    fn arrived(&mut self, at: usize, done: &Completion) {
        let peer = &self.sides[1 - at];
        let from = (done.src_qpn, done.src_addr);
        assert_eq!(from, (peer.qp.qpn(), peer.device.addr()), "side {at}: {done:?}");
        let slot = done.wr_id as usize;
        if self.traffic == Traffic::Rdma {
            let place = done.imm.filter(|imm| (*imm as usize) < SLOTS);
            let place = place.unwrap_or_else(|| panic!("side {at}: {done:?}")) as usize;
            let Slot { step, seq, len, .. } = self.slots[1 - at][place];
            let Step::Announced { ended, told: false } = step else {
                panic!("side {at}: {done:?} while the slot is at {step:?}");
            };
            assert_eq!((done.op, done.byte_len as usize), (CompletionOp::RecvWrite, len));
            self.check(1 - at, seq, at, COPIES + place * SLOT_BYTES, len);
            self.slots[1 - at][place].step =
                if ended { Step::Idle } else { Step::Announced { ended, told: true } };
        } else {
            self.take_message(at, slot, done);
        }
        self.post_receive(at, slot);
    }

    fn take_message(&mut self, at: usize, slot: usize, done: &Completion) {
        assert_eq!((done.op, done.imm), (CompletionOp::Recv, None), "side {at}: {done:?}");
        let is_ud = self.traffic == Traffic::Ud;
        let skip = if is_ud { UD_GRH_BYTES } else { 0 };
        let place = ARRIVALS + slot * SLOT_BYTES + skip;
        let len = done.byte_len as usize - skip;
        let seq = self.sides[at].bytes(place, 8).try_into().expect("eight bytes");
        let seq = u64::from_le_bytes(seq);
        self.check(1 - at, seq, at, place, len);
        if is_ud {
            let peer = self.sides[1 - at].device.gid();
            assert_eq!(self.sides[at].bytes(place - 32, 16), peer.0, "side {at}: the sender's GID");
            let slots = &mut self.slots[1 - at];
            if let Some(slot) = slots.iter_mut().find(|slot| slot.seq == seq) {
                slot.step = Step::Idle;
            }
        }
    }

    /// Checks that the bytes at `place` of `side` are message `seq` of `from`, which has not
    /// arrived before.
    fn check(&mut self, from: usize, seq: u64, side: usize, place: usize, len: usize) {
        let sent = self.flows[from].open.remove(&seq);
        assert_eq!(
            sent,
            Some(len),
            "message {seq} of side {from}: sent {sent:?}, arrived {len} bytes"
        );
        self.compare(from, seq, side, place, len);
        self.messages += 1;
        self.bytes += len as u64;
    }

    fn compare(&self, from: usize, seq: u64, side: usize, place: usize, len: usize) {
        let want = pattern(self.nonce ^ from as u64, seq, len);
        let is_same = self.sides[side].bytes(place, len) == want;
        assert!(is_same, "message {seq} of side {from}: other bytes at {place} of side {side}");
    }

    /// Gives up lost datagrams, which are unreliable: the queue of a socket may be full of others'
    /// datagrams. A datagram that comes late still counts as sent.
    fn give_up_lost(&mut self) {
        let now = Instant::now();
        let lost = |slot: &&mut Slot| {
            slot.step == Step::Left && now.duration_since(slot.since) > UD_PATIENCE
        };
        for slot in self.slots.iter_mut().flatten().filter(lost) {
            slot.step = Step::Idle;
            self.last = now;
        }
    }

    /// Returns a counter, added up over both sides.
    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.sides.iter().map(|side| side.device.counters().get(counter)).sum()
    }
}

impl Drop for Victims {
    fn drop(&mut self) {
        self.sides.iter().for_each(|side| side.qp.destroy());
    }
}

/// Makes a queue pair of an EFA.
fn efa(addr: Ipv4Addr, config: &Config, kind: QpKind, key: u32) -> Side {
    let spec = DeviceSpec::new("rdmap0s6", addr.into());
    let config = Config { devices: vec![spec], ..config.clone() };
    let side = side_with(&config, kind, |_| {});
    let state = Some(QpState::ReadyToSend);
    let change = ModifyQp { state, qkey: Some(key), ..ModifyQp::default() };
    side.qp.modify(&change).expect("a queue key");
    side
}

/// Makes two queue pairs of RoCE devices, connected with each other.
fn connected(addrs: [Ipv4Addr; 2], config: &Config) -> [Side; 2] {
    let sides = addrs.map(|addr| {
        let spec = format!("roce0={addr},profile=roce").parse().expect("a device");
        let config = Config { devices: vec![spec], ..config.clone() };
        roce::side(&config, QpKind::Rc, 1 << 20)
    });
    roce::connect(&sides[0], &sides[1], &roce::Link::default());
    sides
}

/// Returns bytes that identify the message and the run.
fn pattern(nonce: u64, seq: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut state = nonce ^ seq.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    for chunk in bytes.chunks_mut(8) {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        chunk.copy_from_slice(&(state ^ state >> 29).to_le_bytes()[..chunk.len()]);
    }
    bytes[..8].copy_from_slice(&seq.to_le_bytes());
    bytes
}
