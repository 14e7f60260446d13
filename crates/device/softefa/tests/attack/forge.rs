//! Datagrams of a forger who has read docs/PROTOCOL.md and nothing else.

use std::ops::Range;

/// Keys that programs are known to use, or that an attacker tries first.
const KEYS: [u32; 6] = [0, 1, 0x1111_1111, 0x8001_0000, 0xFFFF_FFFF, 0x1234];
/// Operations of chapter 10, and some invalid ones.
const OPS: [u8; 12] = [0, 1, 2, 3, 4, 5, 16, 17, 18, 19, 6, 255];

const SRD: u8 = 0;
const RESET: u8 = 1;
const UD: u8 = 2;
const REFUSED: u8 = 3;
const CHALLENGE: u8 = 4;

const INIT: u8 = 0x01;
const HAS_ACK: u8 = 0x08;
const HAS_DATA: u8 = 0x10;
const SEALED: u8 = 0x80;
const CHECK: Range<usize> = 8..12;

/// Random numbers that can be repeated by their seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Returns a number, often one at a boundary.
    fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.pick(&[0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, u64::MAX]),
            _ => self.roll(),
        }
    }

    /// Returns a guess of the queue key. Its highest bit is that of the victims' keys: if that were
    /// guessed, too, one run of ten million in 430 would get in.
    pub(crate) fn key(&mut self) -> u32 {
        match self.below(4) {
            0 => self.pick(&KEYS),
            _ => self.roll() as u32 & 0x7FFF_FFFF,
        }
    }
}

/// Makes the forged datagrams.
pub(crate) struct Forge {
    pub(crate) dice: Dice,
    /// An address of the forger's own memory, which those of victims may resemble.
    pub(crate) memory: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Forge {
    /// Makes a datagram from number `src` to number `dst`.
    pub(crate) fn make(&mut self, src: u16, dst: u16) -> &[u8] {
        match self.dice.below(24) {
            0..=5 => self.data(src, dst, true),
            6..=7 => self.data(src, dst, false),
            8 => self.acknowledgement(src, dst, 0),
            9 => self.acknowledgement(src, dst, HAS_DATA),
            10..=12 => self.control(src, dst),
            13..=17 => self.unreliable(src, dst),
            18 => self.envelope(src, dst),
            19 => self.rubbish(),
            20 => self.bytes.clear(),
            21 => self.cut(src, dst),
            _ => self.bent(src, dst),
        }
        &self.bytes
    }

    /// Makes a guess of the queue key and nothing else.
    pub(crate) fn guess(&mut self, src: u16, dst: u16, is_ud: bool) -> &[u8] {
        let key = self.dice.roll() as u32 & 0x7FFF_FFFF;
        if is_ud {
            self.head(UD, 0, src, dst);
            self.put(&key.to_be_bytes());
            self.put(&[0; 8]);
        } else {
            let conn = self.dice.roll() | 1;
            self.opening(src, dst, key, conn, 0);
        }
        self.check();
        &self.bytes
    }

    /// Makes an opening with the answer to a challenge.
    pub(crate) fn answer(&mut self, src: u16, dst: u16, conn: u64, cookie: u64) -> &[u8] {
        let key = self.dice.key();
        self.opening(src, dst, key, conn, cookie);
        self.check();
        &self.bytes
    }

    fn opening(&mut self, src: u16, dst: u16, key: u32, conn: u64, cookie: u64) {
        self.head(SRD, HAS_DATA | INIT, src, dst);
        self.put(&conn.to_be_bytes());
        self.put(&[0; 16]);
        self.put(&key.to_be_bytes());
        self.put(&[0; 4]);
        self.put(&cookie.to_be_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn head(&mut self, kind: u8, flags: u8, src: u16, dst: u16) {
        self.bytes.clear();
        let path = self.dice.below(4) as u8;
        self.put(&[1 << 4 | kind, flags, 0, path]);
        self.put(&src.to_be_bytes());
        self.put(&dst.to_be_bytes());
        self.put(&[0; 4]);
    }

    /// Fills in the check of all bytes, as the flag says.
    fn check(&mut self) {
        if self.bytes.len() < CHECK.end {
            return;
        }
        self.bytes[1] |= SEALED;
        let before = crc32c::crc32c(&self.bytes[..CHECK.start]);
        let check = crc32c::crc32c_append(before, &self.bytes[CHECK.end..]);
        self.bytes[CHECK].copy_from_slice(&check.to_be_bytes());
    }

    fn data(&mut self, src: u16, dst: u16, is_init: bool) {
        let flags = self.dice.roll() as u8 & 0x66;
        self.head(SRD, HAS_DATA | flags | if is_init { INIT } else { 0 }, src, dst);
        self.block(is_init);
        self.check();
    }

    fn block(&mut self, is_init: bool) {
        let op = self.dice.pick(&OPS);
        let payload_len =
            if op == 0 { self.dice.below(64) } else { self.dice.pick(&[24, 72, 40, 0, 3]) };
        let (conn, psn) = (self.dice.number(), self.dice.number() as u32);
        self.put(&conn.to_be_bytes());
        self.put(&psn.to_be_bytes());
        let (time, backlog) = (self.dice.roll() as u32, self.dice.roll() as u16);
        self.put(&time.to_be_bytes());
        let oldest: u16 = self.dice.pick(&[0, 1, 100, 8191, 8192, 65_535]);
        self.put(&oldest.to_be_bytes());
        self.put(&backlog.to_be_bytes());
        let flags = self.dice.roll() as u8;
        self.put(&[op, flags]);
        let said = match self.dice.below(16) {
            0 => self.dice.number() as u16,
            _ => payload_len as u16,
        };
        self.put(&said.to_be_bytes());
        let (key, imm) = (self.dice.key(), self.dice.number() as u32);
        self.put(&key.to_be_bytes());
        self.put(&imm.to_be_bytes());
        if is_init {
            let cookie = self.dice.number();
            self.put(&cookie.to_be_bytes());
        }
        let at = self.bytes.len();
        self.rdma();
        self.bytes.resize(at + payload_len, 0xEE);
    }

    /// Writes the block of chapter 10, with a guessed address and key.
    fn rdma(&mut self) {
        let addr = self.memory.wrapping_add((self.dice.roll() % (1 << 30)) & !4095);
        self.put(&addr.to_be_bytes());
        let fields = [self.dice.below(64) as u32, 8, 0, self.dice.roll() as u32];
        fields.into_iter().for_each(|field| self.put(&field.to_be_bytes()));
        let source: Vec<u8> = (0..48).map(|_| self.dice.roll() as u8).collect();
        self.put(&source);
    }

    fn acknowledgement(&mut self, src: u16, dst: u16, more: u8) {
        self.head(SRD, HAS_ACK | more, src, dst);
        let (conn, cum) = (self.dice.number(), self.dice.number() as u32);
        self.put(&conn.to_be_bytes());
        for field in [cum, cum.wrapping_sub(1), 0, 0] {
            self.put(&field.to_be_bytes());
        }
        let rest: Vec<u8> = (0..16).map(|_| self.dice.roll() as u8).collect();
        self.put(&rest);
        let [words, ranges, echoes] = match self.dice.below(8) {
            0 => [255, 255, 255],
            _ => [self.dice.below(17) as u8, self.dice.below(10) as u8, self.dice.below(3) as u8],
        };
        self.put(&[words, ranges, echoes, 0]);
        let len = 8 * (usize::from(words) + usize::from(ranges) + usize::from(echoes));
        self.bytes.resize(self.bytes.len() + len.min(224), 0xFF);
        if more == HAS_DATA {
            self.block(false);
        }
        self.check();
    }

    fn control(&mut self, src: u16, dst: u16) {
        let kind = self.dice.pick(&[RESET, REFUSED, CHALLENGE]);
        self.head(kind, 0, src, dst);
        let (conn, other) = (self.dice.number(), self.dice.number());
        self.put(&conn.to_be_bytes());
        if kind != RESET {
            self.put(&other.to_be_bytes());
        }
        self.check();
    }

    fn unreliable(&mut self, src: u16, dst: u16) {
        self.head(UD, 0, src, dst);
        let (key, imm) = (self.dice.key(), self.dice.number() as u32);
        self.put(&key.to_be_bytes());
        self.put(&imm.to_be_bytes());
        let len = self.dice.below(128);
        let said = if self.dice.below(16) == 0 { self.dice.number() as u16 } else { len as u16 };
        let op = self.dice.pick(&[0, 0, 0, 1, 255]);
        self.put(&[op, 0]);
        self.put(&said.to_be_bytes());
        self.bytes.resize(self.bytes.len() + len, 0xEE);
        self.check();
    }

    /// Makes a sealed datagram or a notice of chapter 11 without the key.
    fn envelope(&mut self, src: u16, dst: u16) {
        let (kind, len) = self.dice.pick(&[(8, 24 + 52 + 16), (8, 40), (8, 39), (9, 32)]);
        self.head(kind, 0, src, dst);
        self.bytes.truncate(2);
        self.put(&(len as u16).to_be_bytes());
        self.put(&src.to_be_bytes());
        self.put(&dst.to_be_bytes());
        while self.bytes.len() < len {
            let word = self.dice.number();
            self.put(&word.to_be_bytes());
        }
        self.bytes.truncate(len);
    }

    fn rubbish(&mut self) {
        let len = self.dice.below(400);
        self.bytes.clear();
        (0..len).for_each(|_| {
            let byte = self.dice.roll() as u8;
            self.bytes.push(byte);
        });
    }

    /// Makes a datagram that ends too early, with a valid check.
    fn cut(&mut self, src: u16, dst: u16) {
        let is_init = self.dice.below(2) == 0;
        self.data(src, dst, is_init);
        let len = self.dice.below(self.bytes.len());
        self.bytes.truncate(len);
        self.check();
    }

    /// Makes a datagram with a byte altered, and a check that is valid or not.
    fn bent(&mut self, src: u16, dst: u16) {
        self.data(src, dst, true);
        // The bytes of the key stay: see [`Dice::key`].
        let at = self.dice.pick(&[0, 1, 2, 4, 6, 12, 20, 28, 30, 32, 34, 45, 51]);
        self.bytes[at] ^= 1 << self.dice.below(8);
        if self.dice.below(4) > 0 {
            self.check();
        }
    }
}
