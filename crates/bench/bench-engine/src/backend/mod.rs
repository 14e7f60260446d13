//! What benchmarks need of a fabric.
//!
//! Benchmarks are generic over `Backend`, so that a timed loop is compiled once for each fabric
//! and calls it directly. Memory is cut into slots, as the [`fabric`] crate does it: operations
//! name a slot, which is busy until its completion. No method allocates once the endpoint is open.

pub(crate) mod libfabric;
#[cfg(test)]
pub(crate) mod null;
pub(crate) mod sockets;
mod unable;
pub(crate) mod verbs;

use std::fmt;
use std::ops::Range;
use std::os::fd::OwnedFd;

use bench_record::FabricRecord;
use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;
use bench_record::spec::{EndpointKind, Operation};
use fabric::OutOfBand;
use rustix::event::PollFd;

use self::unable::Unable;

/// Fails with what a library of the fabric says went wrong.
#[cold]
fn failed(error: impl fmt::Display) -> Failure {
    Failure::Fabric(error.to_string())
}

/// The version of this machine's libfabric, major and minor; `None`: it cannot be used.
#[must_use]
pub fn libfabric_version() -> Option<(u32, u32)> {
    fabric::library_version().ok()
}

/// The side that opens a connection, on fabrics that have such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opener {
    /// Both can; they agree when they know each other's address.
    Either,
    /// This side, which also closes it first.
    Us,
    /// The peer, which also closes it first.
    Peer,
}

/// The requirements on a fabric that is to be opened.
#[derive(Debug, Clone)]
pub struct Wants {
    /// The way to the peer.
    pub fabric: FabricName,
    /// Device; `None`: the fabric's first.
    pub domain: Option<String>,
    /// Reliable or not.
    pub endpoint: EndpointKind,
    /// The operation that moves bytes.
    pub operation: Operation,
    /// Operations of ours that may be in flight.
    pub tx_depth: usize,
    /// Slots for them, at least as many.
    pub tx_slots: usize,
    /// Memory that the peer may read and write in bytes; 0: none, and neither do we.
    pub window_bytes: usize,
    /// Some operations will not complete.
    pub quiet: bool,
    /// Operations are posted in lists.
    pub lists: bool,
    /// Completions are slept for.
    pub events: bool,
    /// Receives that may be posted.
    pub rx_depth: usize,
    /// Longest message in bytes.
    pub payload_bytes: usize,
    /// Our IP address on the control connection.
    pub source: Option<String>,
    /// Who opens the connection.
    pub opener: Opener,
}

impl Wants {
    /// Requires as little as possible of a fabric.
    pub fn least(fabric: FabricName) -> Self {
        Self {
            endpoint: fabric.endpoint(),
            fabric,
            domain: None,
            operation: Operation::Send,
            tx_depth: 1,
            tx_slots: 1,
            window_bytes: 0,
            quiet: false,
            lists: false,
            events: false,
            rx_depth: 1,
            payload_bytes: 1,
            source: None,
            opener: Opener::Either,
        }
    }
}

/// Whether an operation was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Posted {
    /// It is in flight: the slot is busy until its completion.
    Done,
    /// It is done for this side: the slot is free, no completion follows.
    Free,
    /// The fabric is full: poll, then try again.
    Full,
}

/// The work to do with a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Send,
    Inject,
    /// The offset is that in the peer's memory in bytes.
    Read {
        offset: u64,
    },
    Write {
        offset: u64,
    },
    InjectWrite {
        offset: u64,
    },
}

/// The operation of an atomic on a word, 8 bytes, of the peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atomic {
    /// Adds 1, and fetches what it was.
    FetchAdd,
    /// Replaces it if it is what it is compared with, and fetches what it was.
    CompareSwap { compare: u64, swap: u64 },
    /// Adds 1, and fetches nothing.
    Add,
}

/// Bytes of a word.
pub(crate) const WORD_BYTES: usize = 8;

/// The options with which to post it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PostFlags {
    /// More is posted at once.
    pub(crate) more: bool,
    /// No completion follows: the slot must be frozen.
    pub(crate) quiet: bool,
}

impl PostFlags {
    /// The options that most posts have.
    pub(crate) const PLAIN: Self = Self { more: false, quiet: false };
}

/// The kind of operation that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message left: the slot is free.
    Sent,
    /// A message arrived and is in the slot.
    Received,
    /// A READ is done: the peer's bytes are in the slot.
    Read,
    /// A WRITE is done.
    Written,
    /// An atomic is done: what the peer's memory held can be read from the slot.
    Atomic,
    /// Something no benchmark asked for.
    Other,
}

/// One completed operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) kind: Kind,
    pub(crate) slot: usize,
    /// Bytes received; else 0.
    pub(crate) len_bytes: usize,
}

/// Asks a fabric to describe itself; needs no peer.
pub fn describe(wants: &Wants) -> Result<FabricRecord, Failure> {
    fn of<B: Backend>(wants: &Wants) -> Result<FabricRecord, Failure> {
        Ok(B::describe(&B::prepare(wants)?))
    }
    match wants.fabric {
        FabricName::Libfabric(_) => of::<libfabric::Libfabric>(wants),
        FabricName::Verbs(_) => of::<verbs::Verbs>(wants),
        FabricName::Tcp => of::<sockets::Tcp>(wants),
        FabricName::Udp => of::<sockets::Udp>(wants),
        FabricName::Ucx(_) => Err(wants.fabric.is_for_mpi()),
        FabricName::Floor(_) => Err(wants.fabric.is_a_floor()),
    }
}

/// The lengths of a point's messages in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// All have this length in bytes.
    Equal(usize),
    /// Each begins with its own length in bytes: 4 bytes, little-endian, themselves included.
    Leading,
}

/// The word at byte `offset` of a slot.
fn word_at(payload: &[u8], offset: usize) -> Result<u64, Failure> {
    let bytes = payload.get(offset..).and_then(|rest| rest.first_chunk());
    let bytes = bytes.ok_or_else(|| failed("a slot has no room for a word"))?;
    Ok(u64::from_ne_bytes(*bytes))
}

/// Completions that are collected at once, at most.
pub(crate) const BURST: usize = 64;

/// One endpoint, connected to one peer's.
pub(crate) trait Backend: Sized {
    /// An endpoint that has not met its peer's yet.
    type Prepared;

    /// Does all that needs no peer, so that what this machine does not have is refused before a
    /// peer waits for it.
    fn prepare(wants: &Wants) -> Result<Self::Prepared, Failure>;

    /// The fabric that was found.
    fn describe(prepared: &Self::Prepared) -> FabricRecord;

    /// Exchanges addresses and connects.
    fn connect(prepared: Self::Prepared, oob: &mut dyn OutOfBand) -> Result<Self, Failure>;

    /// Duration of each phase of the set-up in µs.
    fn setup_us(&self) -> Vec<(String, f64)>;

    /// Operations of ours that may be in flight.
    fn tx_depth(&self) -> usize;

    /// Slots for them: `0..tx_slots()`, at least as many.
    fn tx_slots(&self) -> usize;

    /// Receives that may be posted; their slots follow.
    fn rx_slots(&self) -> usize;

    /// Messages are as long as this from now on; nothing is in flight. For fabrics that carry bytes
    /// instead of messages.
    fn begin(&mut self, lengths: Lengths);

    /// The memory of a free slot.
    fn payload(&self, slot: usize) -> Result<&[u8], Failure>;

    /// The memory of a free slot, to fill it.
    fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Failure>;

    /// Copies the front of a free slot into another.
    fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Failure>;

    /// Offers a slot to the next message.
    fn receive(&mut self, slot: usize) -> Result<Posted, Failure>;

    /// Keeps everybody from writing this slot from now on, so that it can be posted any number of
    /// times at once.
    fn freeze(&mut self, slot: usize) -> Result<(), Failure>;

    /// Copies bytes to the front of the memory that the peer may use; it does not use it now.
    fn write_window(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// Copies the front of that memory; what the peer has done is in it.
    fn read_window(&self, _bytes: &mut [u8]) -> Result<(), Failure> {
        Err(Failure::Fabric("there is no window to read from".to_owned()))
    }

    /// Bytes of the peer's memory that this side may use.
    fn remote_bytes(&self) -> u64;

    /// Does `work` with the front of a slot.
    fn post(
        &mut self,
        work: Work,
        slot: usize,
        len_bytes: usize,
        how: PostFlags,
    ) -> Result<Posted, Failure>;

    /// Does an atomic on the word of the peer's memory that begins there.
    fn post_atomic(
        &mut self,
        _atomic: Atomic,
        _offset: u64,
        _slot: usize,
    ) -> Result<Posted, Failure> {
        Err(Unable::AnyAtomics.into())
    }

    /// Returns what an atomic of this operation has fetched, which had this slot and is done.
    fn fetched(&self, _operation: Operation, _slot: usize) -> Result<u64, Failure> {
        Err(Unable::AnyAtomics.into())
    }

    /// Lets `post_file` send parts of this file from now on.
    fn attach_file(&mut self, _file: OwnedFd) -> Result<(), Failure> {
        Err(Unable::PageCache.into())
    }

    /// Sends the front of a slot and a part of the file behind it as one message.
    fn post_file(
        &mut self,
        _slot: usize,
        _head_bytes: usize,
        _part: Range<usize>,
    ) -> Result<Posted, Failure> {
        Err(Unable::PageCache.into())
    }

    /// Makes progress and gives `each` completion of those found, [`BURST`] at most; answers how
    /// many.
    fn poll(&mut self, each: impl FnMut(Completion)) -> Result<usize, Failure>;

    /// Asks to be woken by the next completion. Poll once more before sleeping: a completion that
    /// is already there wakes nobody.
    fn arm(&mut self) -> Result<(), Failure>;

    /// The event to sleep for; `None`: something may have come, so poll first.
    fn event(&self) -> Result<Option<PollFd<'_>>, Failure>;
}
