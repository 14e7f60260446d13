//! Completions.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};

use verbs_abi::*;

use crate::device::Device;
use crate::endpoint::Endpoint;
use crate::error::{Error, status_text};
use crate::events::Channel;
use crate::sys;

/// Maximum number of completions that one poll asks for.
const BURST: usize = 64;

/// The kind of operation that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionKind {
    /// The message was sent; with SRD and RC, the peer's device has it.
    Send,
    /// A message arrived.
    Receive,
    /// The peer's bytes are in the slot.
    Read,
    /// The bytes are in the peer's window.
    Write,
    /// The atomic was done; what the peer's window held before is in the slot.
    Atomic,
}

/// One completed operation; its slot is free again, unless it is frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The kind of operation that completed.
    pub kind: CompletionKind,
    /// The slot.
    pub slot: usize,
    /// Payload bytes received; else 0.
    pub len_bytes: usize,
}

/// A completion queue, destroyed on drop.
pub(crate) struct Queue {
    raw: NonNull<ibv_cq>,
    /// Channel of its events; dropped after it.
    pub(crate) channel: Option<Channel>,
    found: Box<[ibv_wc]>,
}

impl Queue {
    pub(crate) fn open(device: &Device, entries: usize, events: bool) -> Result<Self, Error> {
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        let channel = events.then(|| Channel::open(device)).transpose()?;
        let events = channel.as_ref().map_or_else(null_mut, Channel::raw);
        // SAFETY: device and channel are open.
        let raw = unsafe { sys::ibv_create_cq(device.context(), entries, null_mut(), events, 0) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_cq"))?;
        // SAFETY: all-zero is a value of this plain C structure.
        let empty: ibv_wc = unsafe { std::mem::zeroed() };
        Ok(Self { raw, channel, found: vec![empty; BURST].into_boxed_slice() })
    }

    pub(crate) const fn raw(&self) -> *mut ibv_cq {
        self.raw.as_ptr()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once, after its queue pair.
        unsafe { sys::ibv_destroy_cq(self.raw()) };
    }
}

impl Endpoint {
    /// Makes progress and gives up to `at_most` finished operations, 64 at most, to `each`; returns
    /// their number.
    ///
    /// # Errors
    /// Returns [`Error::Completion`] for the first failed operation (those found with it are lost,
    /// so that the endpoint is of no further use), [`Error::Call`] when the queue itself fails.
    #[inline]
    pub fn poll(
        &mut self,
        at_most: usize,
        mut each: impl FnMut(Completion),
    ) -> Result<usize, Error> {
        if self.poster.has_pending() {
            self.flush()?;
        }
        let count = c_int::try_from(at_most.min(BURST)).unwrap_or(0);
        // SAFETY: the queue is alive, `found` has room for BURST.
        let count = unsafe { sys::poll_cq(self.queue.raw(), count, self.queue.found.as_mut_ptr()) };
        let Ok(count) = usize::try_from(count) else {
            return Err(Error::number("ibv_poll_cq", count));
        };
        let prefix_bytes = self.slots.geometry().prefix_bytes;
        for entry in &self.queue.found[..count] {
            let slot = usize::try_from(entry.wr_id).unwrap_or(usize::MAX);
            if !self.slots.end(slot) || entry.status != IBV_WC_SUCCESS {
                return Err(self.failed(slot, entry));
            }
            each(finished(slot, entry, prefix_bytes));
        }
        Ok(count)
    }

    #[cold]
    fn failed(&self, slot: usize, entry: &ibv_wc) -> Error {
        if let Err(error) = self.slots.state(slot) {
            return error;
        }
        // The opcode of a failed entry is not defined.
        let kind = if slot < self.tx_slots() { "operation" } else { "receive" };
        Error::Completion {
            kind,
            slot,
            status: entry.status,
            text: status_text(entry.status),
            vendor_error: entry.vendor_err,
        }
    }
}

/// Converts an entry; the first `prefix_bytes` of a received message are no payload.
#[inline]
fn finished(slot: usize, entry: &ibv_wc, prefix_bytes: usize) -> Completion {
    let (kind, len_bytes) = match entry.opcode {
        IBV_WC_RECV => {
            (CompletionKind::Receive, (entry.byte_len as usize).saturating_sub(prefix_bytes))
        }
        IBV_WC_RDMA_READ => (CompletionKind::Read, 0),
        IBV_WC_RDMA_WRITE => (CompletionKind::Write, 0),
        IBV_WC_FETCH_ADD | IBV_WC_COMP_SWAP => (CompletionKind::Atomic, 0),
        _ => (CompletionKind::Send, 0),
    };
    Completion { kind, slot, len_bytes }
}
