//! A queue pair with a peer.

use std::ptr::NonNull;

use verbs_abi::ibv_ah;

use crate::error::Error;
use crate::memory::{ProtectionDomain, Region, Slots};
use crate::poll::Queue;
use crate::poster::Poster;
use crate::prepare::{Address, Config, QueuePair, Transport};
use crate::sys;

/// The destination of what is posted.
pub(crate) struct Peer {
    /// Address handle; `None` for a connection, which has its peer in its state.
    handle: Option<NonNull<ibv_ah>>,
    pub(crate) number: u32,
    pub(crate) qkey: u32,
}

impl Peer {
    pub(crate) fn new(
        pd: &ProtectionDomain,
        qp: &QueuePair,
        theirs: &Address,
    ) -> Result<Self, Error> {
        let (number, qkey) = (theirs.number, theirs.qkey);
        if qp.transport == Transport::Rc {
            return Ok(Self { handle: None, number, qkey });
        }
        let mut route = theirs.route(pd.device.gid_index());
        // SAFETY: the domain is alive, the route is read during the call.
        let handle = unsafe { sys::ibv_create_ah(pd.raw(), &raw mut route) };
        let handle = NonNull::new(handle).ok_or_else(|| Error::last("ibv_create_ah"))?;
        Ok(Self { handle: Some(handle), number, qkey })
    }

    pub(crate) fn handle(&self) -> *mut ibv_ah {
        self.handle.map_or_else(std::ptr::null_mut, NonNull::as_ptr)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(handle) = self.handle {
            // SAFETY: made once, destroyed once.
            unsafe { sys::ibv_destroy_ah(handle.as_ptr()) };
        }
    }
}

/// A peer's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) rkey: u32,
}

impl Remote {
    const BYTES: usize = 20;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.addr.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..].copy_from_slice(&self.rkey.to_le_bytes());
        bytes
    }

    /// Reads the bytes of the peer's [`Prepared::window`](crate::Prepared::window). Wrong ones make
    /// operations fail; they cannot harm this side.
    ///
    /// # Errors
    /// Returns [`Error::Garbled`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let parts = bytes.split_first_chunk::<8>().and_then(|(addr, rest)| {
            let (len, rkey) = rest.split_first_chunk::<8>()?;
            Some((addr, len, <[u8; 4]>::try_from(rkey).ok()?))
        });
        let (addr, len, rkey) = parts.ok_or(Error::Garbled("window"))?;
        let (addr, len) = (u64::from_le_bytes(*addr), u64::from_le_bytes(*len));
        Ok(Self { addr, len, rkey: u32::from_le_bytes(rkey) })
    }

    /// Returns its length in bytes.
    #[must_use]
    pub const fn len_bytes(self) -> u64 {
        self.len
    }
}

/// A connected queue pair with its own completion queue and memory.
pub struct Endpoint {
    // Field order is closing order: what uses something comes before it.
    pub(crate) poster: Poster,
    pub(crate) peer: Peer,
    pub(crate) qp: QueuePair,
    pub(crate) queue: Queue,
    pub(crate) slots: Slots,
    window: Option<Region>,
    _pd: ProtectionDomain,
    tx_slots: usize,
    tx_depth: usize,
    rx_slots: usize,
}

impl Endpoint {
    #[expect(clippy::too_many_arguments, reason = "each is a field")]
    pub(crate) fn new(
        poster: Poster,
        peer: Peer,
        qp: QueuePair,
        queue: Queue,
        slots: Slots,
        window: Option<Region>,
        pd: ProtectionDomain,
        config: &Config,
    ) -> Self {
        let &Config { tx_slots, tx_depth, rx_slots, .. } = config;
        Self { poster, peer, qp, queue, slots, window, _pd: pd, tx_slots, tx_depth, rx_slots }
    }

    /// Returns the number of slots for operations that this side posts.
    #[must_use]
    pub const fn tx_slots(&self) -> usize {
        self.tx_slots
    }

    /// Returns the number of operations that may be in flight.
    #[must_use]
    pub const fn tx_depth(&self) -> usize {
        self.tx_depth
    }

    /// Returns the number of receives that may be posted. Their slots are `tx_slots()..tx_slots() +
    /// rx_slots()`.
    #[must_use]
    pub const fn rx_slots(&self) -> usize {
        self.rx_slots
    }

    /// Reads the payload of a slot that has no operation in flight, or is frozen.
    ///
    /// # Errors
    /// Returns [`Error::SlotBusy`] or [`Error::NoSuchSlot`].
    #[inline]
    pub fn payload(&self, slot: usize) -> Result<&[u8], Error> {
        self.slots.payload(slot)
    }

    /// Writes the payload of a free slot.
    ///
    /// # Errors
    /// Returns [`Error::SlotBusy`] or [`Error::NoSuchSlot`].
    #[inline]
    pub fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Error> {
        self.slots.payload_mut(slot)
    }

    /// Copies the front of a slot into a free one.
    ///
    /// # Errors
    /// Returns [`Error::SlotBusy`], [`Error::NoSuchSlot`] or [`Error::TooLong`].
    #[inline]
    pub fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Error> {
        self.slots.copy(from, to, len_bytes)
    }

    /// Copies bytes to the front of the memory that the peer may read and write. A peer that reads
    /// or writes meanwhile finds some of them.
    ///
    /// # Errors
    /// Returns [`Error::OutsideWindow`].
    pub fn write_window(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.window {
            Some(window) => window.write(bytes),
            None => Err(Error::OutsideWindow { offset: 0, len: bytes.len() as u64, window: 0 }),
        }
    }

    /// Copies bytes from the front of the memory that the peer may read and write. While a peer
    /// writes, some may be old and some new.
    ///
    /// # Errors
    /// Returns [`Error::OutsideWindow`].
    pub fn read_window(&self, bytes: &mut [u8]) -> Result<(), Error> {
        match &self.window {
            Some(window) => window.read(bytes),
            None => Err(Error::OutsideWindow { offset: 0, len: bytes.len() as u64, window: 0 }),
        }
    }

    /// Lets the slot be sent or written from any number of times at once, signaled or not. It is
    /// never written again.
    ///
    /// # Errors
    /// Returns [`Error::SlotBusy`] or [`Error::NoSuchSlot`].
    pub fn freeze(&mut self, slot: usize) -> Result<(), Error> {
        self.slots.payload_mut(slot)?;
        self.slots.freeze(slot);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_survive_the_exchange() {
        let whole = Remote { addr: 0x7fff_0123_4567_89ab, len: 1 << 40, rkey: u32::MAX };
        assert_eq!(Remote::from_bytes(&whole.to_bytes()), Ok(whole));
        assert_eq!(Remote::from_bytes(&[0; 19]), Err(Error::Garbled("window")));
        assert_eq!(Remote::from_bytes(&[0; 21]), Err(Error::Garbled("window")));
    }
}
