//! The interface between benchmarks and fabrics.
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

/// Makes a failure of the error that a library of the fabric reports.
#[cold]
fn failed(error: impl fmt::Display) -> Failure {
    Failure::Fabric(error.to_string())
}

/// Returns the version of this machine's libfabric, major and minor; `None` if it cannot be used.
#[must_use]
pub fn libfabric_version() -> Option<(u32, u32)> {
    fabric::library_version().ok()
}

/// The side that opens a connection, on fabrics with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opener {
    /// Either side may open it; the two agree when they know each other's address.
    Either,
    /// This side opens the connection, and also closes it first.
    Us,
    /// The peer opens the connection, and also closes it first.
    Peer,
}

/// The requirements on a fabric that is to be opened.
#[derive(Debug, Clone)]
pub struct Wants {
    /// The way to the peer.
    pub fabric: FabricName,
    /// The device; `None`: the first one of the fabric.
    pub domain: Option<String>,
    /// The kind of endpoint: reliable or not.
    pub endpoint: EndpointKind,
    /// The operation that moves bytes.
    pub operation: Operation,
    /// The number of this side's operations that may be in flight.
    pub tx_depth: usize,
    /// The number of slots for those operations, at least `tx_depth`.
    pub tx_slots: usize,
    /// The length of the memory that the peer may read and write, in bytes; 0: none, and this side
    /// uses none of the peer's either.
    pub window_bytes: usize,
    /// True if some operations will not complete.
    pub quiet: bool,
    /// True if operations are posted in lists.
    pub lists: bool,
    /// True if the program sleeps until a completion comes.
    pub events: bool,
    /// The number of receives that may be posted.
    pub rx_depth: usize,
    /// The length of the longest message in bytes.
    pub payload_bytes: usize,
    /// This side's IP address on the control connection.
    pub source: Option<String>,
    /// The side that opens the connection.
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

/// The result of posting an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Posted {
    /// The operation is in flight: the slot is busy until its completion.
    Done,
    /// The operation is done for this side: the slot is free, and no completion follows.
    Free,
    /// The fabric is full: the caller polls, then tries again.
    Full,
}

/// The work to do with a slot. An offset is a position in the peer's memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Send,
    Inject,
    Read { offset: u64 },
    Write { offset: u64 },
    InjectWrite { offset: u64 },
}

/// An atomic operation on a word (8 bytes) of the peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atomic {
    /// Adds 1 and fetches the value before.
    FetchAdd,
    /// Replaces the word if it equals `compare`, and fetches the value before.
    CompareSwap { compare: u64, swap: u64 },
    /// Adds 1 and fetches nothing.
    Add,
}

/// The length of a word in bytes.
pub(crate) const WORD_BYTES: usize = 8;

/// The options with which an operation is posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PostFlags {
    /// True if another operation is posted right after this one.
    pub(crate) more: bool,
    /// True if no completion follows: the slot must be frozen.
    pub(crate) quiet: bool,
}

impl PostFlags {
    /// The options of most posts.
    pub(crate) const PLAIN: Self = Self { more: false, quiet: false };
}

/// The kind of operation that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message has left: the slot is free.
    Sent,
    /// A message arrived and is in the slot.
    Received,
    /// A READ is done: the peer's bytes are in the slot.
    Read,
    /// A WRITE is done.
    Written,
    /// An atomic operation is done: the fetched value can be read from the slot.
    Atomic,
    /// An operation that no benchmark asked for.
    Other,
}

/// A completed operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) kind: Kind,
    pub(crate) slot: usize,
    /// The number of bytes received; 0 for other operations.
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
    /// All messages have this length in bytes.
    Equal(usize),
    /// Each message begins with its length: 4 bytes, little-endian, themselves included.
    Leading,
}

/// Reads the word at byte `offset` of a slot.
fn word_at(payload: &[u8], offset: usize) -> Result<u64, Failure> {
    let bytes = payload.get(offset..).and_then(|rest| rest.first_chunk());
    let bytes = bytes.ok_or_else(|| failed("a slot has no room for a word"))?;
    Ok(u64::from_ne_bytes(*bytes))
}

/// The most completions that one poll collects.
pub(crate) const BURST: usize = 64;

/// An endpoint that is connected to an endpoint of one peer.
pub(crate) trait Backend: Sized {
    /// An endpoint that is not connected yet.
    type Prepared;

    /// Does all that needs no peer, so that a session that this machine cannot support is refused
    /// before a peer waits for it.
    fn prepare(wants: &Wants) -> Result<Self::Prepared, Failure>;

    /// Describes the fabric that was found.
    fn describe(prepared: &Self::Prepared) -> FabricRecord;

    /// Exchanges addresses and connects.
    fn connect(prepared: Self::Prepared, oob: &mut dyn OutOfBand) -> Result<Self, Failure>;

    /// The duration of each phase of the set-up in µs.
    fn setup_us(&self) -> Vec<(String, f64)>;

    /// The number of this side's operations that may be in flight.
    fn tx_depth(&self) -> usize;

    /// The number of slots for those operations, at least `tx_depth()`: `0..tx_slots()`.
    fn tx_slots(&self) -> usize;

    /// The number of receives that may be posted; their slots follow the others.
    fn rx_slots(&self) -> usize;

    /// Sets the lengths of messages from now on, while nothing is in flight. Only fabrics that
    /// carry bytes instead of messages need to know.
    fn begin(&mut self, lengths: Lengths);

    /// Returns the memory of a free slot.
    fn payload(&self, slot: usize) -> Result<&[u8], Failure>;

    /// Returns the memory of a free slot, to fill it.
    fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Failure>;

    /// Copies the front of a free slot into another.
    fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Failure>;

    /// Offers a slot to the next message.
    fn receive(&mut self, slot: usize) -> Result<Posted, Failure>;

    /// Protects this slot from being written from now on, so that it can be posted any number of
    /// times at once.
    fn freeze(&mut self, slot: usize) -> Result<(), Failure>;

    /// Copies bytes to the front of the memory that the peer may use, but does not use now.
    fn write_window(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// Copies the front of the memory that the peer may use, with all that the peer has done there.
    fn read_window(&self, _bytes: &mut [u8]) -> Result<(), Failure> {
        Err(Failure::Fabric("there is no window to read from".to_owned()))
    }

    /// The length of the peer's memory that this side may use, in bytes.
    fn remote_bytes(&self) -> u64;

    /// Posts `work` with the front of a slot.
    fn post(
        &mut self,
        work: Work,
        slot: usize,
        len_bytes: usize,
        how: PostFlags,
    ) -> Result<Posted, Failure>;

    /// Posts an atomic operation on the word of the peer's memory at this offset.
    fn post_atomic(
        &mut self,
        _atomic: Atomic,
        _offset: u64,
        _slot: usize,
    ) -> Result<Posted, Failure> {
        Err(Unable::AnyAtomics.into())
    }

    /// Returns the value that a completed atomic operation with this slot has fetched.
    fn fetched(&self, _operation: Operation, _slot: usize) -> Result<u64, Failure> {
        Err(Unable::AnyAtomics.into())
    }

    /// Lets `post_file` send parts of this file from now on.
    fn attach_file(&mut self, _file: OwnedFd) -> Result<(), Failure> {
        Err(Unable::PageCache.into())
    }

    /// Sends the front of a slot, followed by a part of the file, as one message.
    fn post_file(
        &mut self,
        _slot: usize,
        _head_bytes: usize,
        _part: Range<usize>,
    ) -> Result<Posted, Failure> {
        Err(Unable::PageCache.into())
    }

    /// Makes progress and hands `each` the completions that were found, at most [`BURST`]. Returns
    /// their number.
    fn poll(&mut self, each: impl FnMut(Completion)) -> Result<usize, Failure>;

    /// Asks to be woken by the next completion. The caller polls once more before it sleeps: a
    /// completion that is already there does not wake it.
    fn arm(&mut self) -> Result<(), Failure>;

    /// Returns the event to sleep for; `None`: something may have come, so the caller polls first.
    fn event(&self) -> Result<Option<PollFd<'_>>, Failure>;
}
