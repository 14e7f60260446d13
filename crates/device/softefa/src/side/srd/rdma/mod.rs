//! RDMA over the engine's messages (SRD-10.1).
//!
//! ```text
//! WRITE   segments -----------------> copied to where each says; all accepted = done
//! WRITE with immediate, long:   ... then one empty message with the immediate
//! READ    request  -----------------> job of the responder
//!         placed   <----------------- segments; all placed = done
//! ```
//! Between processes of one machine messages may name the bytes instead of carrying them; see
//! `local`.
//!
//! The engine is unordered, so every segment says where it belongs and is checked against the
//! whole operation: an operation that is not allowed changes no byte. The target's program takes
//! no part; whoever runs the turn (its poll or the service thread) serves.

mod far;
mod jobs;
mod lanes;
mod local;
mod requester;
mod responder;
mod unsolicited;

use srd::{Instant, MsgId, PeerId};

use super::SrdSide;
use crate::datagram::Payload;
use crate::framing::RDMA_BLOCK_BYTES;
use crate::host;
use crate::local_copy::Source;
use crate::memory::Piece;
use crate::mr::RemoteRange;

use jobs::Jobs;
use lanes::{Lanes, Waiting};
use local::Local;
pub(in crate::side::srd) use unsolicited::WriteRecv;

/// Copies bytes to a remote address.
pub(super) const OP_WRITE: u8 = 1;
/// Asks for bytes at a remote address; the immediate is the queue key for the answer.
pub(super) const OP_READ: u8 = 2;
/// Bytes that were asked for.
pub(super) const OP_READ_DATA: u8 = 3;
/// The bytes that were asked for will not come; the key field says why.
pub(super) const OP_READ_FAIL: u8 = 4;
/// Is the operation still known there?
pub(super) const OP_PROBE: u8 = 5;
/// A WRITE whose bytes the responder may copy out of the requester's memory.
pub(super) const OP_WRITE_LOCAL: u8 = 16;
/// Tells the requester of a READ where it may copy from.
pub(super) const OP_READ_GRANT: u8 = 17;
/// Is what was copied still registered?
pub(super) const OP_READ_CONFIRM: u8 = 18;

/// Segments for one peer in the engine, as requester and as responder each (what we ask for must
/// not keep us from answering); enough to fill its window.
const SEGMENTS_IN_ENGINE: u32 = 256;
/// Segments of one operation before the next gets its turn.
const SEGMENTS_PER_TURN: usize = 16;
/// For ever: what needs no receive is refused only while its responder has too much to answer.
const RNR_RETRY_FOREVER: u8 = 7;
/// A READ without progress for so long asks whether its responder is alive.
const PROBE_NS: u64 = 500_000_000;

/// The block in front of the bytes of every RDMA message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::side::srd) struct Block {
    /// Remote address of the operation.
    pub(super) addr: u64,
    /// Remote key; in answers the status of the operation.
    pub(super) key: u32,
    /// Bytes of the whole operation.
    pub(super) total: u32,
    /// The offset at which the bytes of this message belong in it.
    pub(super) offset: u32,
    /// Names the READ this belongs to.
    pub(super) tag: u32,
}

impl Block {
    pub(super) const LEN: usize = RDMA_BLOCK_BYTES;

    /// The block and the bytes behind it.
    pub(super) fn parse(payload: Payload<'_>) -> Option<(Self, Payload<'_>)> {
        let (raw, rest) = payload.split_header::<{ Self::LEN }>()?;
        let word = |at: usize| u32::from_be_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let addr = u64::from(word(0)) << 32 | u64::from(word(4));
        let block = Self { addr, key: word(8), total: word(12), offset: word(16), tag: word(20) };
        let end = u64::from(block.offset) + rest.len() as u64;
        (end <= u64::from(block.total)).then_some((block, rest))
    }

    /// All that the operation touches at the responder.
    pub(super) const fn remote(&self) -> RemoteRange {
        RemoteRange { key: self.key, addr: self.addr, len: self.total }
    }

    pub(super) fn emit(&self) -> [u8; Self::LEN] {
        let mut raw = [0; Self::LEN];
        raw[..8].copy_from_slice(&self.addr.to_be_bytes());
        raw[8..12].copy_from_slice(&self.key.to_be_bytes());
        raw[12..16].copy_from_slice(&self.total.to_be_bytes());
        raw[16..20].copy_from_slice(&self.offset.to_be_bytes());
        raw[20..].copy_from_slice(&self.tag.to_be_bytes());
        raw
    }
}

/// What goes with the operation of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extras {
    pub(super) flags: u8,
    pub(super) imm: u32,
}

impl Extras {
    pub(super) const NONE: Self = Self { flags: 0, imm: 0 };
}

/// The part that a message of the engine has in an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::side::srd) enum Part {
    /// A whole send of this slot.
    Send(u32),
    /// A segment of a WRITE of this slot.
    Write(u32, u32),
    /// The immediate behind a long WRITE of this slot.
    WriteTail(u32),
    /// The request of a READ of this slot.
    ReadRequest(u32),
    /// A segment of the answer to a READ, of this job.
    ReadData(u32, u32),
    /// The refusal of a READ, of this job.
    ReadFail(u32),
    /// The question whether a READ of this slot lives, with its serial.
    Probe(u32, u32),
    /// It tells where the bytes of a WRITE of this slot lie.
    WriteLocal(u32, u32),
    /// It tells where the bytes of a READ lie, of this job.
    ReadGrant(u32),
    /// The question whether the bytes of a READ of this slot were still registered.
    ReadConfirm(u32),
}

impl Part {
    /// Four bits say what, 28 the number, 32 the slot or job.
    pub(super) fn to_msg(self) -> MsgId {
        let (kind, number, index) = match self {
            Self::Send(index) => (0, 0, index),
            Self::Write(index, segment) => (1, segment, index),
            Self::WriteTail(index) => (2, 0, index),
            Self::ReadRequest(index) => (3, 0, index),
            Self::ReadData(index, segment) => (4, segment, index),
            Self::ReadFail(index) => (5, 0, index),
            Self::Probe(index, serial) => (6, serial, index),
            Self::WriteLocal(index, segment) => (7, segment, index),
            Self::ReadGrant(index) => (8, 0, index),
            Self::ReadConfirm(index) => (9, 0, index),
        };
        debug_assert!(number < 1 << 28);
        MsgId(kind << 60 | u64::from(number) << 32 | u64::from(index))
    }

    pub(super) fn from_msg(msg: MsgId) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the fields were packed from u32")]
        let (number, index) = ((msg.0 << 4 >> 36) as u32, msg.0 as u32);
        match msg.0 >> 60 {
            0 => Self::Send(index),
            1 => Self::Write(index, number),
            2 => Self::WriteTail(index),
            3 => Self::ReadRequest(index),
            4 => Self::ReadData(index, number),
            5 => Self::ReadFail(index),
            6 => Self::Probe(index, number),
            7 => Self::WriteLocal(index, number),
            8 => Self::ReadGrant(index),
            _ => Self::ReadConfirm(index),
        }
    }
}

/// The body that follows the block of a message.
#[derive(Debug, Clone, Copy)]
pub(in crate::side::srd) enum Body {
    /// There is no payload.
    Empty,
    /// The payload lies in registered memory.
    Bytes(Piece),
    /// It says where the bytes are.
    Source(Source),
}

/// RDMA operations of a queue pair, as requester and as responder.
#[derive(Debug)]
pub(super) struct Rdma {
    /// WRITEs that have segments to send.
    writes: Lanes,
    /// WRITEs of one segment that consume a receive. They wait in the engine while there is none,
    /// and must delay no other WRITE.
    receive_consuming: Lanes,
    /// READs of peers that have data to send.
    serving: Lanes,
    jobs: Jobs,
    serial: u32,
    next_probe: Option<Instant>,
    local: Local,
}

impl Default for Rdma {
    fn default() -> Self {
        Self {
            writes: Lanes::new(SEGMENTS_IN_ENGINE),
            receive_consuming: Lanes::new(SEGMENTS_IN_ENGINE),
            serving: Lanes::new(SEGMENTS_IN_ENGINE),
            jobs: Jobs::default(),
            // Not from 0: answers to a predecessor with the same number are told by it.
            serial: u32::from_ne_bytes(host::random_bytes()) & requester::SERIAL_MASK,
            next_probe: None,
            local: Local::default(),
        }
    }
}

impl Rdma {
    /// A number for the next operation; comes back only after many.
    fn next_serial(&mut self) -> u32 {
        self.serial = (self.serial + 1) & requester::SERIAL_MASK;
        self.serial
    }

    /// The engine took a part of an operation for `peer`, which needs a receive or not.
    fn entered(&mut self, peer: PeerId, part: Part, tells: bool) {
        if let Some(lanes) = self.lanes_of(part, tells) {
            lanes.entered(peer);
        }
    }

    /// A part of an operation has left the engine.
    fn left(&mut self, peer: PeerId, part: Part, tells: bool) {
        if let Some(lanes) = self.lanes_of(part, tells) {
            lanes.left(peer);
        }
    }

    fn lanes_of(&mut self, part: Part, tells: bool) -> Option<&mut Lanes> {
        match part {
            Part::Write(..) => Some(self.writes_that(false, tells)),
            Part::WriteLocal(..) => Some(self.writes_that(true, tells)),
            Part::ReadData(..) => Some(&mut self.serving),
            _ => None,
        }
    }

    fn writes_that(&mut self, are_local: bool, tell: bool) -> &mut Lanes {
        match (are_local, tell) {
            (false, false) => &mut self.writes,
            (false, true) => &mut self.receive_consuming,
            (true, false) => &mut self.local.writes,
            (true, true) => &mut self.local.receive_consuming,
        }
    }

    /// Returns when a turn must look after READs.
    pub(super) fn next_probe(&self) -> Option<Instant> {
        self.next_probe
    }

    /// Whether bytes could be copied at once.
    pub(super) fn has_copies(&self) -> bool {
        self.local.has_copies()
    }

    /// Returns when nobody copies a piece that was begun before.
    pub(super) fn wait_for_copies(&self) {
        self.local.wait();
    }

    /// Peers that are being served.
    pub(super) fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.jobs.iter().map(|job| job.peer)
    }

    /// Forgets everything; the engine has been told.
    pub(super) fn clear(&mut self) {
        *self = Self { serial: self.serial, local: self.local.cleared(), ..Self::default() };
    }
}

impl SrdSide {
    /// Block and bytes of a message of the engine.
    pub(super) fn rdma_part(&self, part: Part) -> (Block, Body) {
        match part {
            Part::Send(_) => (Block::default(), Body::Empty),
            Part::Write(index, number) => {
                let offset = number * self.segment_bytes();
                let piece = self.shell.sq.stretch(index, offset, self.segment_bytes());
                (self.block_of(index, offset), piece.map_or(Body::Empty, Body::Bytes))
            }
            Part::WriteTail(index) => {
                let block = self.block_of(index, 0);
                (Block { offset: block.total, ..block }, Body::Empty)
            }
            Part::WriteLocal(index, number) => self.write_local_of(index, number),
            Part::ReadRequest(index) | Part::Probe(index, _) | Part::ReadConfirm(index) => {
                (self.block_of(index, 0), Body::Empty)
            }
            Part::ReadData(job, number) => self.read_data_of(job, number),
            Part::ReadFail(job) => (self.job_block(job), Body::Empty),
            Part::ReadGrant(job) => self.read_grant_of(job),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_survives_the_wire_and_bounds_its_bytes() {
        let block = Block { addr: u64::MAX - 9, key: 7, total: 100, offset: 90, tag: u32::MAX };
        let wire = [&block.emit()[..], &[1; 10]].concat();
        let parse = |wire: &[u8]| {
            let (block, bytes) = Block::parse(wire.into())?;
            Some((block, bytes.bytes()?.to_vec()))
        };
        assert_eq!(parse(&wire), Some((block, vec![1; 10])));
        assert_eq!(parse(&[&wire[..], &[1]].concat()), None, "beyond the operation");
        assert_eq!(parse(&wire[..23]), None);
    }

    #[test]
    fn part_survives_the_engine() {
        for part in [
            Part::Send(u32::MAX),
            Part::Write(4095, 120_000),
            Part::WriteTail(1),
            Part::ReadRequest(2),
            Part::ReadData(3, (1 << 28) - 1),
            Part::ReadFail(4),
            Part::Probe(5, 77),
            Part::WriteLocal(6, 4095),
            Part::ReadGrant(7),
            Part::ReadConfirm(8),
        ] {
            assert_eq!(Part::from_msg(part.to_msg()), part);
        }
    }
}
