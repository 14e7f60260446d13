//! A minimal responder, written from the rules and not from the engine: 24-bit numbers, one list of
//! replies, memory at hand. It is slow and has no other state.

use rc::wire::{Kind, NakCode, Syndrome};
use rc::{Access, Status};

use super::craft::Craft;
use super::host::{BASE, KEY, READ_KEY};

/// A reply: kind, number, bytes or result, and syndrome.
pub type Reply = (Kind, u32, u64, Syndrome);

const INVALID: NakCode = NakCode::InvalidRequest;

#[derive(Clone, Debug)]
struct Stored {
    first: u32,
    count: u32,
    request: Craft,
    original: u64,
    /// The reply is not complete yet.
    is_open: bool,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub mtu: usize,
    pub expected: u32,
    pub memory: Vec<u8>,
    pub access: Access,
    pub limit: usize,
    pub rnr_timer: u8,
    /// Receives posted: name, length, and the status when they are touched.
    pub receives: Vec<(u64, usize, Option<Status>)>,
    /// The receive in use, and the number of bytes in it.
    pub current: Option<(u64, usize, Option<Status>)>,
    pub ended: Vec<(u64, Status)>,
    /// The first packet of the message that is being received, and bytes so far.
    pub message: Option<(Craft, usize)>,
    stored: Vec<Stored>,
    say: Vec<Reply>,
    ack: bool,
    last: Option<(u32, Syndrome)>,
    told: bool,
    pub is_dead: bool,
}

/// The reason why a packet is not executed.
enum No {
    Rnr,
    /// The code for the peer, and the status of the receive if there is one.
    End(NakCode, Option<Status>),
}

impl Model {
    pub fn new(expected: u32, memory_bytes: usize) -> Self {
        Self {
            mtu: 256,
            expected,
            memory: vec![0; memory_bytes],
            access: Access::ALL,
            limit: 2,
            rnr_timer: 12,
            receives: Vec::new(),
            current: None,
            ended: Vec::new(),
            message: None,
            stored: Vec::new(),
            say: Vec::new(),
            ack: false,
            last: None,
            told: false,
            is_dead: false,
        }
    }

    pub fn take(&mut self, packet: &Craft) {
        if self.is_dead {
            return;
        }
        let behind = (self.expected + (1 << 24) - packet.headers.bth.psn.get()) % (1 << 24);
        if behind == 0 {
            self.told = false;
            match self.execute(packet) {
                Ok(count) => {
                    self.expected = (self.expected + count) % (1 << 24);
                    self.last = self.last.filter(|last| last.1 == Syndrome::Nak(NakCode::Sequence));
                }
                Err(No::Rnr) => {
                    self.last = Some((self.expected, Syndrome::RnrNak(self.rnr_timer)));
                    self.told = true;
                }
                Err(No::End(code, status)) => {
                    self.last = Some((self.expected, Syndrome::Nak(code)));
                    self.end(status);
                }
            }
        } else if behind <= 1 << 23 {
            self.again(packet);
        } else if !self.told {
            self.told = true;
            self.last = Some((0, Syndrome::Nak(NakCode::Sequence)));
        }
    }

    fn end(&mut self, status: Option<Status>) {
        self.is_dead = true;
        let in_use = self.current.take();
        let rest = in_use.into_iter().chain(self.receives.drain(..));
        let mut first = status;
        for (id, ..) in rest.collect::<Vec<_>>() {
            self.ended.push((id, first.take().unwrap_or(Status::Flushed)));
        }
    }

    /// Returns the position of the named memory, or nothing when it may not be touched.
    fn place(&self, va: u64, key: u32, len: usize, is_read: bool) -> Result<usize, No> {
        let right = key == KEY || (is_read && key == READ_KEY);
        let first = va.checked_sub(BASE).and_then(|at| usize::try_from(at).ok());
        let fits = |at: &usize| at.checked_add(len).is_some_and(|end| end <= self.memory.len());
        if len == 0 {
            return Ok(0);
        }
        let no = No::End(NakCode::RemoteAccess, None);
        first.filter(fits).filter(|_| right).ok_or(no)
    }

    fn execute(&mut self, packet: &Craft) -> Result<u32, No> {
        let kind = packet.headers.bth.opcode.kind;
        let name = format!("{kind:?}");
        let in_use = self.current.is_some();
        let invalid = No::End(INVALID, in_use.then_some(Status::RemoteInvalidRequest));
        let continues = name.contains("Middle") || name.contains("Last");
        let same = self.message.as_ref().is_some_and(|(first, _)| {
            let first = format!("{:?}", first.headers.bth.opcode.kind);
            first[..4] == name[..4]
        });
        if continues != self.message.is_some() || (continues && !same) {
            return Err(invalid);
        }
        let allowed = match &name[..4] {
            "Send" => true,
            "Writ" => self.access.write,
            "Read" => self.access.read,
            "Flus" => self.access.flush,
            _ if name == "AtomicWrite" => self.access.write,
            _ => self.access.atomic,
        };
        let open = self.stored.iter().filter(|stored| stored.is_open).count();
        let is_stored = !matches!(&name[..4], "Send" | "Writ");
        if !allowed || (is_stored && open >= self.limit) {
            return Err(invalid);
        }
        match &name[..4] {
            "Send" => self.send(packet, &name),
            "Writ" => self.write(packet, &name),
            _ => self.store(packet, &name),
        }
    }

    fn has_form(&self, packet: &Craft, name: &str) -> bool {
        let len = packet.payload.len();
        if name.contains("Only") {
            len <= self.mtu
        } else if name.contains("Last") {
            (1..=self.mtu).contains(&len)
        } else {
            len == self.mtu
        }
    }

    fn send(&mut self, packet: &Craft, name: &str) -> Result<u32, No> {
        let begins = !(name.contains("Middle") || name.contains("Last"));
        if begins {
            if self.receives.is_empty() {
                return Err(No::Rnr);
            }
            self.current = Some(self.receives.remove(0));
        }
        let bad = |status| Err(No::End(INVALID, Some(status)));
        if !self.has_form(packet, name) {
            return bad(Status::RemoteInvalidRequest);
        }
        let done = self.message.as_ref().map_or(0, |(_, done)| *done) + packet.payload.len();
        let (id, room, fault) = self.current.expect("a message has a receive");
        if done > room {
            return bad(Status::LocalLength);
        }
        if let Some(status) = fault {
            return Err(No::End(NakCode::RemoteOperation, Some(status)));
        }
        self.ack |= packet.headers.bth.wants_ack;
        if name.contains("First") || name.contains("Middle") {
            let first = self.message.take().map_or_else(|| packet.clone(), |(first, _)| first);
            self.message = Some((first, done));
        } else {
            self.message = None;
            self.current = None;
            self.ended.push((id, Status::Ok));
        }
        Ok(1)
    }

    fn write(&mut self, packet: &Craft, name: &str) -> Result<u32, No> {
        let (first, done) = self.message.clone().unwrap_or_else(|| (packet.clone(), 0));
        let has_imm = name.contains("Imm");
        if has_imm && self.receives.is_empty() {
            return Err(No::Rnr);
        }
        let bad = |code, status| Err(No::End(code, has_imm.then_some(status)));
        let reth = first.headers.reth;
        if !self.has_form(packet, name) || reth.dma_len > 1 << 31 {
            return bad(INVALID, Status::RemoteInvalidRequest);
        }
        let Ok(at) = self.place(reth.va, reth.rkey, reth.dma_len as usize, false) else {
            return bad(NakCode::RemoteAccess, Status::RemoteAccess);
        };
        let (end, whole) = (done + packet.payload.len(), reth.dma_len as usize);
        let is_last = name.contains("Last") || name.contains("Only");
        if (is_last && end != whole) || (!is_last && end >= whole) {
            return bad(INVALID, Status::RemoteInvalidRequest);
        }
        self.memory[at + done..at + end].copy_from_slice(&packet.payload);
        self.ack |= packet.headers.bth.wants_ack;
        self.message = (!is_last).then_some((first, end));
        if has_imm {
            let (id, ..) = self.receives.remove(0);
            self.ended.push((id, Status::Ok));
        }
        Ok(1)
    }

    fn store(&mut self, packet: &Craft, name: &str) -> Result<u32, No> {
        let (reth, atomic) = (packet.headers.reth, packet.headers.atomic);
        let len = reth.dma_len as usize;
        let invalid = Err(No::End(INVALID, None));
        let (mut count, mut original) = (1, 0);
        match name {
            "ReadRequest" if reth.dma_len > 1 << 31 => return invalid,
            "ReadRequest" => {
                self.place(reth.va, reth.rkey, len, true)?;
                count = len.div_ceil(self.mtu).max(1) as u32;
            }
            "Flush" => {
                self.place(reth.va, reth.rkey, len, false)?;
            }
            "AtomicWrite" => {
                let at = self.place(reth.va, reth.rkey, len, false)?;
                if len != 8 || packet.payload.len() != 8 || reth.va % 8 > 0 {
                    return invalid;
                }
                self.memory[at..at + 8].copy_from_slice(&packet.payload);
            }
            _ => {
                let at = self.place(atomic.va, atomic.rkey, 8, false)?;
                if atomic.va % 8 > 0 {
                    return invalid;
                }
                let word: [u8; 8] = self.memory[at..at + 8].try_into().expect("8 bytes");
                original = u64::from_le_bytes(word);
                let new = match name {
                    "FetchAdd" => original.wrapping_add(atomic.swap_or_add),
                    _ if original == atomic.compare => atomic.swap_or_add,
                    _ => original,
                };
                self.memory[at..at + 8].copy_from_slice(&new.to_le_bytes());
            }
        }
        let (first, request, is_open) = (self.expected, packet.clone(), true);
        self.stored.push(Stored { first, count, request, original, is_open });
        self.ack = false;
        if self.stored.len() > self.limit {
            let old = self.stored.remove(0);
            let is_old = |said: &Reply| (said.1 + (1 << 24) - old.first) % (1 << 24) < old.count;
            self.say.retain(|said| !is_old(said));
        }
        let stored = self.stored.last().expect("just stored").clone();
        self.answer(&stored, 0);
        Ok(count)
    }

    /// Inserts the answer from packet `skip` on at its position.
    fn answer(&mut self, stored: &Stored, skip: u32) {
        let kind = stored.request.headers.bth.opcode.kind;
        for n in skip..stored.count {
            let len = stored.request.headers.reth.dma_len as usize;
            let bytes = len.saturating_sub(n as usize * self.mtu).min(self.mtu) as u64;
            let psn = (stored.first + n) % (1 << 24);
            let (kind, detail) = match (kind, n == skip, n + 1 == stored.count) {
                (Kind::FetchAdd | Kind::CompareSwap, ..) => {
                    (Kind::AtomicAcknowledge, stored.original)
                }
                (Kind::Flush | Kind::AtomicWrite, ..) => (Kind::ReadResponseOnly, 0),
                (_, true, true) => (Kind::ReadResponseOnly, bytes),
                (_, true, false) => (Kind::ReadResponseFirst, bytes),
                (_, false, false) => (Kind::ReadResponseMiddle, bytes),
                (_, false, true) => (Kind::ReadResponseLast, bytes),
            };
            self.say.push((kind, psn, detail, Syndrome::ACK));
        }
    }

    fn again(&mut self, packet: &Craft) {
        let (kind, psn) = (packet.headers.bth.opcode.kind, packet.headers.bth.psn.get());
        if kind.is_send() || kind.is_write() {
            self.ack = true;
            return;
        }
        let distance = |stored: &Stored| (psn + (1 << 24) - stored.first) % (1 << 24);
        let found = self.stored.iter().find(|stored| distance(stored) < stored.count).cloned();
        let Some(stored) = found else { return };
        let skip = distance(&stored);
        let (then, now) = (stored.request.headers.reth, packet.headers.reth);
        let before = stored.request.headers.bth.opcode.kind;
        let skipped = u64::from(skip) * self.mtu as u64;
        let is_same = match before {
            Kind::ReadRequest => {
                kind == before
                    && now.rkey == then.rkey
                    && now.va == then.va + skipped
                    && u64::from(now.dma_len) + skipped == u64::from(then.dma_len)
            }
            Kind::FetchAdd | Kind::CompareSwap => {
                matches!(kind, Kind::FetchAdd | Kind::CompareSwap)
            }
            _ => matches!(kind, Kind::Flush | Kind::AtomicWrite),
        };
        // A reply that is still pending is not added twice.
        let is_waiting = self.say.iter().any(|said| said.1 == psn);
        if is_same && !is_waiting {
            let mut later = std::mem::take(&mut self.say);
            let belongs =
                |said: &Reply| (said.1 + (1 << 24) - stored.first) % (1 << 24) < stored.count;
            later.retain(|said| !belongs(said));
            let is_before = |said: &Reply| (said.1 + (1 << 24) - psn) % (1 << 24) > 1 << 23;
            let place = later.iter().take_while(|said| is_before(said)).count();
            self.say = later[..place].to_vec();
            self.answer(&stored, skip);
            self.say.extend_from_slice(&later[place..]);
        }
    }

    /// Returns all pending replies.
    pub fn said(&mut self) -> Vec<Reply> {
        let mut said = std::mem::take(&mut self.say);
        self.stored.iter_mut().for_each(|stored| stored.is_open = false);
        let newest = (self.expected + (1 << 24) - 1) % (1 << 24);
        let acknowledged = std::mem::take(&mut self.ack).then_some((newest, Syndrome::ACK));
        match self.last.take() {
            Some((_, sequence @ Syndrome::Nak(NakCode::Sequence))) => {
                self.told = true;
                said.push((Kind::Acknowledge, self.expected, 0, sequence));
            }
            Some((psn, syndrome)) => said.push((Kind::Acknowledge, psn, 0, syndrome)),
            None => said.extend(acknowledged.map(|(psn, ack)| (Kind::Acknowledge, psn, 0, ack))),
        }
        said
    }
}
