//! Compares the responder with a plain model: random requests, right and wrong, must be answered
//! alike.
//!
//! `RC_CASES=100000 RC_SEED=7 cargo test -p rc --test model` runs more of them, or others.

mod common;

use common::craft::{Craft, Solo, THEIR_PSN, receive_attr, send_attr};
use common::host::{KEY, READ_KEY};
use common::model::{Model, Reply};
use common::{Rng, explore};
use rc::wire::Kind;
use rc::{Access, Config, ReceiveAttr, Service, State, Status};

const MEMORY_BYTES: usize = 4096;

struct Run {
    rng: Rng,
    solo: Solo,
    model: Model,
    /// Packets that were sent, to send them again.
    given: Vec<Craft>,
    /// Errors occur in this many of 1000 packets.
    wrong: u32,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let all = rng.permille(800);
        let mut allow = || all || rng.permille(900);
        let access = Access { write: allow(), read: allow(), atomic: allow(), flush: allow() };
        let limit = if rng.permille(20) { 0 } else { rng.pick(&[1, 2, 2, 3, 16]) };
        let attr = ReceiveAttr { access, max_dest_rd_atomic: limit, ..receive_attr() };
        let solo = Solo::with(Config::strict(), Service::Rc, attr, send_attr());
        let mut model = Model::new(THEIR_PSN, MEMORY_BYTES);
        (model.access, model.limit) = (access, usize::from(limit));
        let wrong = rng.pick(&[0, 5, 20, 100, 400]);
        Self { rng, solo, model, given: Vec::new(), wrong }
    }

    fn post_receive(&mut self, id: u64) {
        let is_short = self.rng.permille(self.wrong / 2);
        let len = if is_short { self.rng.pick(&[0, 8, 256, 600]) } else { 3000 };
        let is_broken = self.rng.permille(self.wrong / 4);
        let fault = is_broken.then_some(Status::LocalProtection);
        match fault {
            Some(status) => self.solo.host.post_broken_receive(id, len, status),
            None => self.solo.host.post_receive(id, len),
        }
        self.model.receives.push((id, len, fault));
    }

    /// Returns the next packet of a correct requester.
    fn right(&mut self) -> Craft {
        let rng = &mut self.rng;
        let psn = self.model.expected;
        if let Some((first, done)) = &self.model.message {
            let is_send = first.headers.bth.opcode.kind.is_send();
            let whole = if is_send { done + 300 } else { first.headers.reth.dma_len as usize };
            let is_last =
                if is_send { *done > 2000 || rng.permille(400) } else { whole - done <= 256 };
            let has_imm = rng.permille(300);
            let kind = match (is_send, is_last, has_imm) {
                (true, false, _) => Kind::SendMiddle,
                (true, true, false) => Kind::SendLast,
                (true, true, true) => Kind::SendLastImm,
                (false, false, _) => Kind::WriteMiddle,
                (false, true, false) => Kind::WriteLast,
                (false, true, true) => Kind::WriteLastImm,
            };
            let len = if !is_last {
                256
            } else if is_send {
                1 + rng.below(256) as usize
            } else {
                whole - done
            };
            return Craft::new(kind, psn).with(len);
        }
        let kinds = [
            Kind::SendFirst,
            Kind::SendOnly,
            Kind::SendOnlyImm,
            Kind::WriteFirst,
            Kind::WriteOnly,
            Kind::WriteOnlyImm,
            Kind::ReadRequest,
            Kind::CompareSwap,
            Kind::FetchAdd,
            Kind::Flush,
            Kind::AtomicWrite,
        ];
        let kind = rng.pick(&kinds);
        let offset = 8 * rng.below(64);
        let packet = Craft::new(kind, psn).atomic(offset, rng.below(3), rng.below(3));
        let len = rng.below(257) as usize;
        match kind {
            Kind::SendFirst => packet.with(256),
            Kind::WriteFirst => packet.with(256).about(offset, 257 + rng.below(900) as u32),
            Kind::ReadRequest | Kind::Flush => packet.about(offset, rng.below(900) as u32),
            Kind::AtomicWrite => packet.with(8).about(offset, 8),
            Kind::CompareSwap | Kind::FetchAdd => packet,
            _ => packet.with(len).about(offset, len as u32),
        }
    }

    /// Changes one property of the packet.
    fn bend(&mut self, packet: &mut Craft) {
        let rng = &mut self.rng;
        let kind = packet.headers.bth.opcode.kind;
        match rng.below(9) {
            0 => {
                let key = rng.pick(&[3, READ_KEY, KEY]);
                packet.headers.reth.rkey = key;
                packet.headers.atomic.rkey = key;
            }
            1 if kind.has_payload() => {
                let len = rng.pick(&[0, 1, 7, 8, 255, 256, 257, 1024]);
                *packet = packet.clone().with(len);
            }
            2 => {
                let other = rng.pick(&Kind::ALL);
                if other.is_request() && !other.has_ieth() {
                    packet.headers.bth.opcode.kind = other;
                    if !other.has_payload() {
                        packet.payload.clear();
                    }
                }
            }
            3 | 4 => {
                let psn = packet.headers.bth.psn.get();
                let step = rng.pick(&[1, 2, 5, 1 << 22, 0xFF_FFFF, 0xFF_FFFB, 0x80_0000]);
                packet.headers.bth.psn = rc::Psn::new(psn + step);
            }
            5 => {
                let place = rng.pick(&[4, 1, 4095, 1 << 40]);
                packet.headers.reth.va += place;
                packet.headers.atomic.va += place;
            }
            6 => {
                packet.headers.reth.dma_len =
                    rng.pick(&[0, 8, 100, 256, 5000, 1 << 31, (1 << 31) + 1]);
            }
            _ if !self.given.is_empty() => {
                let place = rng.below(self.given.len() as u64) as usize;
                *packet = self.given[place].clone();
                self.ask_for_the_end(packet);
            }
            _ => {}
        }
    }

    /// A repeated READ may ask only for its end.
    fn ask_for_the_end(&mut self, packet: &mut Craft) {
        let reth = &mut packet.headers.reth;
        let packets = reth.dma_len.div_ceil(256);
        if packet.headers.bth.opcode.kind == Kind::ReadRequest && packets > 1 && packets < 99 {
            let skip = self.rng.below(u64::from(packets)) as u32;
            reth.va += u64::from(skip) * 256;
            reth.dma_len -= skip * 256;
            let psn = packet.headers.bth.psn.get();
            packet.headers.bth.psn = rc::Psn::new(psn + skip);
        }
    }

    fn step(&mut self, id: u64) {
        if self.rng.permille(400) {
            self.post_receive(id);
        }
        let mut packet = self.right();
        if self.rng.permille(500) {
            packet = packet.asks();
        }
        if self.rng.permille(self.wrong) {
            self.bend(&mut packet);
        }
        self.given.push(packet.clone());
        let _ = self.solo.give(&packet);
        self.model.take(&packet);
        let dead = self.solo.host.engine.state() == State::Error;
        assert_eq!(dead, self.model.is_dead, "{packet:?}");
        // A requester has no more READs outstanding than agreed, so it mostly waits for answers.
        let is_patient = packet.headers.bth.opcode.kind.takes_resource();
        if self.rng.permille(if is_patient { 950 } else { 600 }) {
            self.compare();
        }
    }

    fn compare(&mut self) {
        let sent = self.solo.sent().into_iter().map(|seen| {
            let headers = &seen.headers;
            let detail = headers.original.max(u64::from(seen.len));
            (seen.kind, seen.psn, detail, headers.aeth.syndrome)
        });
        let mut sent: Vec<Reply> = sent.collect();
        // A packet in the middle of an answer has nothing but its bytes.
        for said in sent.iter_mut().filter(|said| said.0 == Kind::ReadResponseMiddle) {
            said.3 = rc::wire::Syndrome::ACK;
        }
        assert_eq!(sent, self.model.said());
        assert_eq!(self.solo.host.memory, self.model.memory);
        assert_eq!(self.solo.host.receives_done(), self.model.ended);
    }
}

#[test]
fn the_responder_does_what_the_plain_model_does() {
    explore("model", "the_responder", 3000, |seed| {
        let mut run = Run::new(seed);
        for id in 0..60 {
            run.step(id);
            if run.model.is_dead && id % 8 == 0 {
                break;
            }
        }
        run.compare();
    });
}
