//! Atomic operations on a peer's window.

use std::ffi::c_void;

use fabric_sys::{self as sys, call};

use crate::address::Peer;
use crate::buffers::Operation;
use crate::endpoint::{Claim, Endpoint};
use crate::error::Error;
use crate::post::Post;
use crate::window::RemoteMemory;

/// Type of the elements, in the byte order of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "Rust's own names")]
pub enum AtomicType {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl AtomicType {
    /// Returns the length of an element in bytes.
    #[must_use]
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    const fn raw(self) -> u32 {
        match self {
            Self::I8 => sys::FI_INT8,
            Self::U8 => sys::FI_UINT8,
            Self::I16 => sys::FI_INT16,
            Self::U16 => sys::FI_UINT16,
            Self::I32 => sys::FI_INT32,
            Self::U32 => sys::FI_UINT32,
            Self::I64 => sys::FI_INT64,
            Self::U64 => sys::FI_UINT64,
            Self::F32 => sys::FI_FLOAT,
            Self::F64 => sys::FI_DOUBLE,
        }
    }
}

/// The operation on each element of the peer's, `theirs`, with `ours` of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomicOp {
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// `theirs + ours`.
    Sum,
    /// `theirs * ours`.
    Product,
    /// 1 if either is not zero, else 0.
    LogicalOr,
    /// 1 if both are not zero, else 0.
    LogicalAnd,
    /// 1 if one is zero and the other is not, else 0.
    LogicalXor,
    /// `theirs | ours`.
    BitOr,
    /// `theirs & ours`.
    BitAnd,
    /// `theirs ^ ours`.
    BitXor,
    /// `theirs`; only with [`Endpoint::fetch_atomic`].
    Read,
    /// `ours`.
    Write,
}

impl AtomicOp {
    const fn raw(self) -> u32 {
        match self {
            Self::Min => sys::FI_MIN,
            Self::Max => sys::FI_MAX,
            Self::Sum => sys::FI_SUM,
            Self::Product => sys::FI_PROD,
            Self::LogicalOr => sys::FI_LOR,
            Self::LogicalAnd => sys::FI_LAND,
            Self::LogicalXor => sys::FI_LXOR,
            Self::BitOr => sys::FI_BOR,
            Self::BitAnd => sys::FI_BAND,
            Self::BitXor => sys::FI_BXOR,
            Self::Read => sys::FI_ATOMIC_READ,
            Self::Write => sys::FI_ATOMIC_WRITE,
        }
    }
}

/// The comparison of `compare` with `theirs` under which an element of the peer's becomes ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOp {
    /// `compare == theirs`.
    Equal,
    /// `compare != theirs`.
    NotEqual,
    /// `compare <= theirs`.
    LessOrEqual,
    /// `compare < theirs`.
    Less,
    /// `compare >= theirs`.
    GreaterOrEqual,
    /// `compare > theirs`.
    Greater,
    /// Replaces always, in the bits that `compare` has.
    Masked,
}

impl CompareOp {
    const fn raw(self) -> u32 {
        match self {
            Self::Equal => sys::FI_CSWAP,
            Self::NotEqual => sys::FI_CSWAP_NE,
            Self::LessOrEqual => sys::FI_CSWAP_LE,
            Self::Less => sys::FI_CSWAP_LT,
            Self::GreaterOrEqual => sys::FI_CSWAP_GE,
            Self::Greater => sys::FI_CSWAP_GT,
            Self::Masked => sys::FI_MSWAP,
        }
    }
}

/// A slot for arrays of elements, one behind the other.
struct Arrays {
    claim: Claim,
    /// Number of elements of each array: as many as fill the peer's memory.
    count: usize,
    /// Number of bytes of each array.
    bytes: usize,
}

impl Arrays {
    /// Returns the start of one of the arrays that were claimed.
    fn start(&self, array: usize) -> *mut c_void {
        self.claim.start.wrapping_add(array * self.bytes).cast()
    }
}

impl Endpoint {
    /// Changes all elements of `remote` with those at the start of `slot`, which is busy until its
    /// completion.
    ///
    /// # Errors
    /// Returns [`Error::OtherVector`], [`Error::SlotBusy`], [`Error::NoSuchSlot`],
    /// [`Error::TooLong`] or [`Error::Call`]; the last also for what the provider does not support,
    /// see [`Endpoint::atomic_count`].
    pub fn atomic(
        &mut self,
        slot: usize,
        op: AtomicOp,
        element: AtomicType,
        peer: Peer,
        remote: RemoteMemory,
    ) -> Result<Post, Error> {
        let to = self.number_of(peer)?;
        let arrays = self.claim_arrays(slot, 1, element, remote)?;
        let Arrays { claim, count, .. } = &arrays;
        // SAFETY: the slot is free and stays untouched until its completion (`posted` makes it
        // busy); its memory, registration and context live until the endpoint is closed.
        let ret = unsafe {
            call::fi_atomic(
                claim.ep,
                arrays.start(0),
                *count,
                claim.descriptor,
                to,
                remote.addr,
                remote.key,
                element.raw(),
                op.raw(),
                claim.context,
            )
        };
        self.posted("fi_atomic", ret, slot, Some(Operation::Atomic))
    }

    /// Posts as [`Endpoint::atomic`] does; the previous elements are stored behind ours in the
    /// slot.
    ///
    /// # Errors
    /// Fails as [`Endpoint::atomic`] does.
    pub fn fetch_atomic(
        &mut self,
        slot: usize,
        op: AtomicOp,
        element: AtomicType,
        peer: Peer,
        remote: RemoteMemory,
    ) -> Result<Post, Error> {
        let to = self.number_of(peer)?;
        let arrays = self.claim_arrays(slot, 2, element, remote)?;
        let Arrays { claim, count, .. } = &arrays;
        // SAFETY: as in `atomic`; operands and results both lie in the slot.
        let ret = unsafe {
            call::fi_fetch_atomic(
                claim.ep,
                arrays.start(0),
                *count,
                claim.descriptor,
                arrays.start(1),
                claim.descriptor,
                to,
                remote.addr,
                remote.key,
                element.raw(),
                op.raw(),
                claim.context,
            )
        };
        self.posted("fi_fetch_atomic", ret, slot, Some(Operation::Atomic))
    }

    /// Replaces those elements of `remote` for which the comparison holds. The slot holds the new
    /// elements, behind them those to compare with; the previous elements are stored behind both.
    ///
    /// # Errors
    /// Fails as [`Endpoint::atomic`] does.
    pub fn compare_atomic(
        &mut self,
        slot: usize,
        op: CompareOp,
        element: AtomicType,
        peer: Peer,
        remote: RemoteMemory,
    ) -> Result<Post, Error> {
        let to = self.number_of(peer)?;
        let arrays = self.claim_arrays(slot, 3, element, remote)?;
        let Arrays { claim, count, .. } = &arrays;
        // SAFETY: as in `atomic`; operands, comparands and results all lie in the slot.
        let ret = unsafe {
            call::fi_compare_atomic(
                claim.ep,
                arrays.start(0),
                *count,
                claim.descriptor,
                arrays.start(1),
                claim.descriptor,
                arrays.start(2),
                claim.descriptor,
                to,
                remote.addr,
                remote.key,
                element.raw(),
                op.raw(),
                claim.context,
            )
        };
        self.posted("fi_compare_atomic", ret, slot, Some(Operation::Atomic))
    }

    /// Returns the maximum number of elements of one [`Endpoint::fetch_atomic`]; `None` when the
    /// provider does not support the operation on that type.
    #[must_use]
    pub fn atomic_count(&self, op: AtomicOp, element: AtomicType) -> Option<usize> {
        let mut count = 0;
        // SAFETY: the endpoint is alive and `count` is ours.
        let ret = unsafe {
            call::fi_fetch_atomicvalid(self.raw(), element.raw(), op.raw(), &raw mut count)
        };
        (ret == 0).then_some(count)
    }

    /// Returns the maximum number of elements of one [`Endpoint::compare_atomic`]; `None` when the
    /// provider does not support the operation on that type.
    #[must_use]
    pub fn compare_count(&self, op: CompareOp, element: AtomicType) -> Option<usize> {
        let mut count = 0;
        // SAFETY: the endpoint is alive and `count` is ours.
        let ret = unsafe {
            call::fi_compare_atomicvalid(self.raw(), element.raw(), op.raw(), &raw mut count)
        };
        (ret == 0).then_some(count)
    }

    /// Claims a free slot with room for `arrays` arrays.
    fn claim_arrays(
        &self,
        slot: usize,
        arrays: usize,
        element: AtomicType,
        remote: RemoteMemory,
    ) -> Result<Arrays, Error> {
        let count = usize::try_from(remote.len).unwrap_or(usize::MAX) / element.size_bytes();
        let bytes = count * element.size_bytes();
        let claim = self.claim(slot, bytes.saturating_mul(arrays))?;
        Ok(Arrays { claim, count, bytes })
    }
}
