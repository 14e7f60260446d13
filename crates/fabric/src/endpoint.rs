//! Endpoints: posting messages and collecting completions.

use std::mem::ManuallyDrop;
use std::rc::Rc;

use fabric_sys::{self as sys, call};

use crate::buffers::{Buffers, Geometry, SlotState};
use crate::cq::{BURST, Completion, CompletionKind, Failure, Queue, Read};
use crate::domain::Domain;
use crate::error::{Error, check, strerror};
use crate::hints::MessageKind;
use crate::info::Info;
use crate::object::Owned;

/// A peer in an [`AddressVector`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(u64);

/// Addresses that endpoints may send to.
#[derive(Debug)]
pub struct AddressVector {
    raw: Owned<sys::fid_av>,
    _domain: Domain,
}

impl AddressVector {
    /// Opens a table with room for `count` peers (a hint).
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn open(domain: &Domain, count: usize) -> Result<Rc<Self>, Error> {
        let mut attr = sys::fi_av_attr {
            type_: sys::FI_AV_TABLE,
            rx_ctx_bits: 0,
            count,
            ep_per_node: 0,
            name: std::ptr::null(),
            map_addr: std::ptr::null_mut(),
            flags: 0,
        };
        // SAFETY: the domain is alive and the attributes live during the call.
        let raw = Owned::open("fi_av_open", |out| unsafe {
            call::fi_av_open(domain.0.raw.raw(), &raw mut attr, out)
        })?;
        Ok(Rc::new(Self { raw, _domain: domain.clone() }))
    }

    /// Adds the address another endpoint answered from [`Endpoint::address`].
    ///
    /// # Errors
    /// [`Error::Call`]; also when the provider took no address.
    pub fn insert(&self, address: &[u8]) -> Result<Peer, Error> {
        // A provider reads as many bytes as its address format has: give it room beyond a short
        // (hostile) address.
        let mut padded = [0_u8; ADDRESS_BYTES_MAX];
        let Some(room) = padded.get_mut(..address.len()) else {
            return Err(Error::TooLong { len: address.len(), max: ADDRESS_BYTES_MAX });
        };
        room.copy_from_slice(address);
        let mut peer = sys::FI_ADDR_UNSPEC;
        // SAFETY: the vector is alive; `padded` is longer than any address format.
        let ret =
            unsafe { call::fi_av_insert(self.raw.raw(), padded.as_ptr().cast(), 1, &raw mut peer) };
        match ret {
            1 => Ok(Peer(peer)),
            0 => Err(Error::call("fi_av_insert", -22)),
            _ => Err(Error::call("fi_av_insert", ret as isize)),
        }
    }
}

/// Longest endpoint address this wrapper handles.
const ADDRESS_BYTES_MAX: usize = 512;

/// Outcome of posting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Post {
    /// In flight (or, for inject, done).
    Done,
    /// The provider is full or not connected yet: call [`Endpoint::poll`], then try again.
    Again,
}

/// An enabled connection-less endpoint with its own completion queue and buffers.
#[derive(Debug)]
pub struct Endpoint {
    // Closed by hand in `drop`, before everything below, in the order of the fields.
    raw: ManuallyDrop<Owned<sys::fid_ep>>,
    queue: Queue,
    buffers: ManuallyDrop<Buffers>,
    messages: MessageKind,
    max_payload_bytes: usize,
    av: Rc<AddressVector>,
    _domain: Domain,
}

impl Endpoint {
    /// Opens, binds and enables an endpoint whose messages live in `slots` slots of
    /// `payload_bytes` each.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for modes that this wrapper cannot honour, [`Error::TooLong`] when a
    /// slot is longer than the provider's longest message, else [`Error::Call`].
    pub fn open(
        domain: &Domain,
        info: &Info,
        av: &Rc<AddressVector>,
        messages: MessageKind,
        slots: usize,
        payload_bytes: usize,
    ) -> Result<Self, Error> {
        let unknown = info.unknown_mode();
        if unknown != 0 {
            let what = format!("mode bits {unknown:#x}");
            return Err(Error::Unsupported { provider: info.provider(), what });
        }
        if payload_bytes > info.max_message_bytes() {
            return Err(Error::TooLong { len: payload_bytes, max: info.max_message_bytes() });
        }
        let geometry = Geometry { slots, payload_bytes, prefix_bytes: info.prefix_bytes() };
        let buffers = Buffers::new(domain, geometry, info.needs_registration())?;
        let queue = Queue::open(domain, messages, slots.max(BURST))?;
        // SAFETY: domain and info are alive during the call.
        let raw = Owned::open("fi_endpoint", |out| unsafe {
            call::fi_endpoint(domain.0.raw.raw(), info.raw(), out)
        })?;
        let this = Self {
            raw: ManuallyDrop::new(raw),
            queue,
            buffers: ManuallyDrop::new(buffers),
            messages,
            max_payload_bytes: payload_bytes,
            av: Rc::clone(av),
            _domain: domain.clone(),
        };
        this.bind_and_enable()?;
        Ok(this)
    }

    fn bind_and_enable(&self) -> Result<(), Error> {
        let queue_flags = sys::FI_TRANSMIT | sys::FI_RECV;
        // SAFETY: endpoint, vector and queue are alive and belong to one domain.
        unsafe {
            check("fi_ep_bind(av)", call::fi_bind(self.raw.fid(), self.av.raw.fid(), 0))?;
            let queue = self.queue.object().fid();
            check("fi_ep_bind(cq)", call::fi_bind(self.raw.fid(), queue, queue_flags))?;
            check("fi_enable", call::fi_enable(self.raw.raw()))
        }
    }

    /// The address to hand to peers.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn address(&self) -> Result<Vec<u8>, Error> {
        let mut space = vec![0_u8; ADDRESS_BYTES_MAX];
        let mut len = space.len();
        // SAFETY: the endpoint is enabled; `space` has `len` bytes.
        let ret =
            unsafe { call::fi_getname(self.raw.raw(), space.as_mut_ptr().cast(), &raw mut len) };
        check("fi_getname", ret)?;
        space.truncate(len);
        Ok(space)
    }

    /// The message memory.
    #[must_use]
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// The message memory, to fill free slots.
    pub fn buffers_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    #[inline]
    fn check_post(&self, slot: usize, len_bytes: usize) -> Result<(), Error> {
        if len_bytes > self.max_payload_bytes {
            return Err(Error::TooLong { len: len_bytes, max: self.max_payload_bytes });
        }
        self.buffers.claim_free(slot)
    }

    #[inline]
    fn wire_len(&self, len_bytes: usize) -> usize {
        len_bytes + self.buffers.geometry().prefix_bytes
    }

    /// Posts the first `len_bytes` of `slot`; the slot is busy until its completion. `tag` is
    /// ignored by endpoints for plain messages.
    ///
    /// # Errors
    /// [`Error::SlotBusy`], [`Error::NoSuchSlot`], [`Error::TooLong`], [`Error::Call`].
    #[inline]
    pub fn send(
        &mut self,
        slot: usize,
        len_bytes: usize,
        peer: Peer,
        tag: u64,
    ) -> Result<Post, Error> {
        self.check_post(slot, len_bytes)?;
        let (ep, len) = (self.raw.raw(), self.wire_len(len_bytes));
        let (start, desc) = (self.buffers.message_start(slot), self.buffers.descriptor());
        let context = self.buffers.context(slot);
        // SAFETY: the slot is free and stays untouched until its completion (state Sending); its
        // memory, registration and context live until the endpoint is closed.
        let ret = unsafe {
            match self.messages {
                MessageKind::Plain => call::fi_send(ep, start.cast(), len, desc, peer.0, context),
                MessageKind::Tagged => {
                    call::fi_tsend(ep, start.cast(), len, desc, peer.0, tag, context)
                }
            }
        };
        self.posted("fi_send", ret, slot, SlotState::Sending)
    }

    /// Sends the first `len_bytes` of `slot` by copy: the slot is free again on return and no
    /// completion follows. At most `Info::inject_bytes`.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    #[inline]
    pub fn inject(
        &mut self,
        slot: usize,
        len_bytes: usize,
        peer: Peer,
        tag: u64,
    ) -> Result<Post, Error> {
        self.check_post(slot, len_bytes)?;
        let (ep, len) = (self.raw.raw(), self.wire_len(len_bytes));
        let start = self.buffers.message_start(slot);
        // SAFETY: the slot is free; the provider does not touch it after the call.
        let ret = unsafe {
            match self.messages {
                MessageKind::Plain => call::fi_inject(ep, start.cast(), len, peer.0),
                MessageKind::Tagged => call::fi_tinject(ep, start.cast(), len, peer.0, tag),
            }
        };
        self.posted("fi_inject", ret, slot, SlotState::Free)
    }

    /// Offers `slot` to the next message from anybody (with tag bits `tag` where `ignore` has
    /// zeros, for tagged endpoints); busy until its completion.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    #[inline]
    pub fn receive(&mut self, slot: usize, tag: u64, ignore: u64) -> Result<Post, Error> {
        self.check_post(slot, 0)?;
        let (ep, len) = (self.raw.raw(), self.wire_len(self.max_payload_bytes));
        let (start, desc) = (self.buffers.message_start(slot), self.buffers.descriptor());
        let context = self.buffers.context(slot);
        let from = sys::FI_ADDR_UNSPEC;
        // SAFETY: as in `send`, with state Receiving.
        let ret = unsafe {
            match self.messages {
                MessageKind::Plain => call::fi_recv(ep, start.cast(), len, desc, from, context),
                MessageKind::Tagged => {
                    call::fi_trecv(ep, start.cast(), len, desc, from, tag, ignore, context)
                }
            }
        };
        self.posted("fi_recv", ret, slot, SlotState::Receiving)
    }

    #[inline]
    fn posted(
        &mut self,
        name: &'static str,
        ret: isize,
        slot: usize,
        state: SlotState,
    ) -> Result<Post, Error> {
        if ret == 0 {
            self.buffers.set_state(slot, state);
            return Ok(Post::Done);
        }
        if ret == -(sys::FI_EAGAIN as isize) {
            return Ok(Post::Again);
        }
        Err(Error::call(name, ret))
    }

    /// Makes progress and stores finished operations at the front of `out`; answers how many.
    /// Call it again and again while anything is expected, also while only the peer is waiting:
    /// most providers move nothing between calls.
    ///
    /// # Errors
    /// [`Error::Completion`] for one failed operation (its slot is free again; poll again for
    /// others), [`Error::Call`] when the queue itself fails.
    #[inline]
    pub fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Error> {
        let count = match self.queue.read(out.len())? {
            Read::Empty => return Ok(0),
            Read::Failed(failure) => return Err(self.failed(failure)),
            Read::Entries(count) => count,
        };
        let mut stored = 0;
        for index in 0..count {
            let entry = self.queue.entry(index);
            let Some(slot) = self.buffers.slot_of(entry.context) else { continue };
            let kind = match self.buffers.state(slot) {
                SlotState::Sending => CompletionKind::Send,
                SlotState::Receiving => CompletionKind::Receive,
                SlotState::Free => continue,
            };
            self.buffers.set_state(slot, SlotState::Free);
            let len_bytes = match kind {
                CompletionKind::Send => 0,
                CompletionKind::Receive => {
                    entry.len_bytes.saturating_sub(self.buffers.geometry().prefix_bytes)
                }
            };
            out[stored] = Completion { kind, slot, len_bytes, tag: entry.tag };
            stored += 1;
        }
        Ok(stored)
    }

    #[cold]
    fn failed(&mut self, failure: Failure) -> Error {
        let slot = self.buffers.slot_of(failure.context);
        let kind = match slot.map(|s| self.buffers.state(s)) {
            Some(SlotState::Sending) => "send",
            Some(SlotState::Receiving) => "receive",
            _ => "operation",
        };
        if let Some(slot) = slot {
            self.buffers.set_state(slot, SlotState::Free);
        }
        Error::Completion {
            kind,
            slot: slot.unwrap_or(usize::MAX),
            code: failure.code,
            text: strerror(failure.code),
            provider_code: failure.provider_code,
            provider_text: failure.provider_text,
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: both fields are taken exactly once, here, and not used afterwards.
        let (raw, buffers) =
            unsafe { (ManuallyDrop::take(&mut self.raw), ManuallyDrop::take(&mut self.buffers)) };
        // Operations in flight end with the endpoint. A provider that refuses to close it may
        // still use the memory: then the memory stays allocated for good.
        match raw.close() {
            Ok(()) => drop(buffers),
            Err(_) => std::mem::forget(buffers),
        }
    }
}
