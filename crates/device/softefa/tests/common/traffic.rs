//! Random work requests from one end of a connection to the other, and their expected results.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use softefa::{Completion, CompletionOp, Remote, SendData, SendOp, SendWr, Sge, Status};

use super::Side;
use super::roce::{add, op_of, pattern, swap, wr};

/// Returns the number in an environment variable, or `default`.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `test` for several seeds. A failure names the command that repeats it.
pub fn explore(program: &str, name: &str, cases: u64, test: impl Fn(u64)) {
    let (cases, seed) = (number("SOFTEFA_CASES", cases), number("SOFTEFA_SEED", 1));
    println!("SOFTEFA_SEED={seed} SOFTEFA_CASES={cases}");
    for seed in seed..seed + cases {
        if catch_unwind(AssertUnwindSafe(|| test(seed))).is_err() {
            let command = format!("cargo test -p softefa --test {program} {name}");
            panic!("SOFTEFA_SEED={seed} SOFTEFA_CASES=1 {command}");
        }
    }
}

/// A small random number generator, so that a mix depends on its seed only.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.roll() as u8).collect()
    }
}

/// The places of areas in the memory of a side: the part that the peer writes, the part that it
/// only reads, the buffers of work requests, and those of receives.
const TARGET: usize = 0;
const CONSTANT: usize = 1 << 16;
const LOCAL: usize = 1 << 17;
const RECEIVES: usize = 1 << 19;
const AREA: usize = 1 << 16;
const SLOTS: usize = 16;
const SLOT: usize = 24_000;
const LEN_MAX: u64 = 20_000;

/// A work request that was posted.
struct Posted {
    id: u64,
    op: SendOp,
    slot: usize,
    is_signaled: bool,
    is_of_target: bool,
    len: u32,
    /// The bytes that a READ or an atomic must return.
    brings: Vec<u8>,
}

/// A message that has not arrived.
struct Message {
    op: CompletionOp,
    imm: Option<u32>,
    len: u32,
    /// The bytes of a SEND.
    bytes: Vec<u8>,
}

/// All work of one end toward the other.
pub struct Lane {
    dice: Dice,
    /// The peer's memory, followed by the expected contents of the part that is written.
    far: Remote,
    target: Vec<u8>,
    free: Vec<usize>,
    posted: VecDeque<Posted>,
    messages: VecDeque<Message>,
    receives: VecDeque<usize>,
    next_receive: u64,
    begun: u64,
    /// Number of work requests that have ended.
    pub ended: u64,
}

impl Lane {
    /// Number of bytes of memory that a side needs.
    pub const MEMORY: usize = 1 << 20;

    /// Makes the lane from the owner of the dice's `seed` to `far`.
    pub fn new(far: &mut Side, seed: u64) -> Self {
        far.fill(CONSTANT, &pattern(7, AREA));
        Self {
            dice: Dice(seed),
            far: super::remote(far, 0),
            target: vec![0; AREA],
            free: (0..SLOTS).collect(),
            posted: VecDeque::new(),
            messages: VecDeque::new(),
            receives: VecDeque::new(),
            next_receive: 0,
            begun: 0,
            ended: 0,
        }
    }

    /// Returns true if everything has ended and arrived.
    pub fn is_done(&self, total: u64) -> bool {
        self.ended == total && self.messages.is_empty()
    }

    /// Posts as many work requests as there is room for, up to `total`, and sometimes a few
    /// receives.
    pub fn post(&mut self, near: &mut Side, far: &Side, total: u64) {
        for _ in 0..self.dice.below(4) {
            self.post_receive(far);
        }
        while self.begun < total {
            let Some(slot) = self.free.pop() else { break };
            let op = self.draw();
            let is_signaled =
                self.begun + 1 == total || self.free.is_empty() || self.dice.below(3) > 0;
            self.post_one(near, op, slot, is_signaled);
        }
    }

    fn post_receive(&mut self, far: &Side) {
        if self.receives.len() == SLOTS {
            return;
        }
        let slot = self.next_receive as usize % SLOTS;
        let sges = self.split(far, RECEIVES + slot * SLOT, SLOT as u32);
        far.qp.post_recv(self.next_receive, &sges).expect("a receive is taken");
        self.receives.push_back(slot);
        self.next_receive += 1;
    }

    /// Splits `len` bytes at `at` into one to five entries.
    fn split(&mut self, side: &Side, at: usize, len: u32) -> Vec<Sge> {
        let (mut sges, mut done) = (Vec::new(), 0);
        for _ in 0..self.dice.below(5) {
            let part = self.dice.below(u64::from(len - done) + 1) as u32;
            sges.push(side.sge(at + done as usize, part));
            done += part;
        }
        sges.push(side.sge(at + done as usize, len - done));
        sges
    }

    fn len(&mut self) -> u32 {
        let bound = self.dice.pick(&[16, 600, 5000, LEN_MAX]);
        self.dice.below(bound + 1) as u32
    }

    /// Returns `len` bytes somewhere in an area of the peer's memory.
    fn within(&mut self, area: usize, len: u32) -> Remote {
        let at = area as u64 + self.dice.below(AREA as u64 - u64::from(len));
        Remote { addr: self.far.addr + at, ..self.far }
    }

    /// Returns the next operation and its length.
    fn draw(&mut self) -> (SendOp, u32) {
        let (len, imm) = (self.len(), self.dice.roll() as u32);
        let at = 8 * self.dice.below(AREA as u64 / 8);
        let word = Remote { addr: self.far.addr + at, ..self.far };
        match self.dice.below(9) {
            0 | 1 => (SendOp::Send, len),
            2 => (SendOp::SendImm(imm), len),
            3 => (SendOp::Write(self.within(TARGET, len)), len),
            4 => (SendOp::WriteImm(self.within(TARGET, len), imm), len),
            5 => (SendOp::Read(self.within(TARGET, len)), len),
            6 => (SendOp::Read(self.within(CONSTANT, len)), len),
            7 => (add(word, self.dice.roll()), 8),
            _ => {
                let there = self.target[at as usize..][..8].try_into().expect("eight bytes");
                let compare = u64::from_ne_bytes(there) ^ self.dice.below(2);
                (swap(word, compare, self.dice.roll()), 8)
            }
        }
    }

    fn post_one(
        &mut self,
        near: &mut Side,
        (op, len): (SendOp, u32),
        slot: usize,
        is_signaled: bool,
    ) {
        let at = LOCAL + slot * SLOT;
        let bytes = self.dice.bytes(len as usize);
        near.fill(at, &bytes);
        let id = self.begun;
        self.begun += 1;
        let (brings, is_of_target) = self.model(op, &bytes);
        // A repeated READ may return bytes that were written after it.
        let changes = matches!(op, SendOp::Write(_) | SendOp::WriteImm(..)) || op.is_atomic();
        let fenced = changes && self.posted.iter().any(|posted| posted.is_of_target);
        let sges = self.split(near, at, len);
        let (more, signaled) = (self.dice.below(3) == 0, is_signaled);
        let mut request = SendWr { fenced, signaled, more, ..wr(id, op, &sges) };
        let parts = bytes.split_at(bytes.len() / 2);
        let parts = [parts.0, parts.1];
        let is_out = !matches!(op, SendOp::Read(_)) && !op.is_atomic();
        if is_out && len <= 512 && self.dice.below(2) == 0 {
            request.data = SendData::Inline(&parts);
        }
        near.qp.post_send(&request).expect("a work request is taken");
        self.posted.push_back(Posted { id, op, slot, is_signaled, is_of_target, len, brings });
    }

    /// Returns the bytes that `op` must return when all before it have been done, and whether it is
    /// a READ of bytes that change.
    fn model(&mut self, op: SendOp, bytes: &[u8]) -> (Vec<u8>, bool) {
        let len = bytes.len() as u32;
        let mut message = |op, imm, bytes| self.messages.push_back(Message { op, imm, len, bytes });
        match op {
            SendOp::Send => message(CompletionOp::Recv, None, bytes.to_vec()),
            SendOp::SendImm(imm) => message(CompletionOp::Recv, Some(imm), bytes.to_vec()),
            SendOp::WriteImm(_, imm) => message(CompletionOp::RecvWrite, Some(imm), Vec::new()),
            _ => {}
        }
        let (SendOp::Read(remote)
        | SendOp::Write(remote)
        | SendOp::WriteImm(remote, _)
        | SendOp::CompareSwap { remote, .. }
        | SendOp::FetchAdd { remote, .. }) = op
        else {
            return (Vec::new(), false);
        };
        let at = (remote.addr - self.far.addr) as usize;
        if at >= CONSTANT {
            return (pattern(7, AREA)[at - CONSTANT..][..bytes.len()].to_vec(), false);
        }
        let there = &mut self.target[at..at + bytes.len()];
        let before = there.to_vec();
        if let SendOp::Read(_) = op {
            return (before, true);
        }
        if !op.is_atomic() {
            there.copy_from_slice(bytes);
            return (Vec::new(), false);
        }
        let word = u64::from_ne_bytes(before[..].try_into().expect("eight bytes"));
        let left = match op {
            SendOp::CompareSwap { compare, swap, .. } if compare == word => swap,
            SendOp::FetchAdd { add, .. } => word.wrapping_add(add),
            _ => word,
        };
        there.copy_from_slice(&left.to_ne_bytes());
        (before, false)
    }

    /// Checks a completion of a work request of `near`, which must be the next one.
    pub fn finish(&mut self, near: &Side, done: &Completion) {
        loop {
            let posted = self.posted.pop_front().expect("completions are of work requests");
            let Posted { id, op, slot, len, .. } = posted;
            assert_eq!(done.status, Status::Ok, "{done:?}");
            let there = near.bytes(LOCAL + slot * SLOT, len as usize);
            let is_there = posted.brings.is_empty() || there == posted.brings;
            assert!(is_there, "{op:?} of {len} bytes, work request {id}");
            self.free.push(slot);
            self.ended += 1;
            if posted.is_signaled {
                let byte_len = if posted.brings.is_empty() { 0 } else { len };
                let said = (done.wr_id, done.op, done.byte_len);
                assert_eq!(said, (id, op_of(op), byte_len));
                return;
            }
        }
    }

    /// Checks a completion of a receive of `far`, which must be the next one, with the next
    /// message.
    pub fn receive(&mut self, far: &Side, done: &Completion) {
        let slot = self.receives.pop_front().expect("completions are of receives");
        let message = self.messages.pop_front().expect("each message comes once");
        let said = (done.status, done.op, done.imm, done.byte_len);
        assert_eq!(said, (Status::Ok, message.op, message.imm, message.len));
        assert_eq!(done.wr_id as usize % SLOTS, slot, "receives are used in order");
        let there = far.bytes(RECEIVES + slot * SLOT, message.bytes.len());
        assert!(there == message.bytes, "{done:?}");
    }

    /// Checks the contents of the peer's memory when all is done.
    pub fn check(&self, far: &Side) {
        assert!(far.bytes(TARGET, AREA) == self.target, "what was written");
        assert!(far.bytes(CONSTANT, AREA) == pattern(7, AREA), "what was only read");
    }
}
