//! Endpoints: opening, closing, and collecting completions. Posting is in `message`, `rma` and
//! `atomic`.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use fabric_sys::{self as sys, call};

use crate::address::{ADDRESS_BYTES_MAX, AddressVector, Peer};
use crate::buffers::{Buffers, Geometry, Operation, Span};
use crate::cq::{BURST, Completion, CompletionKind, Entry, Failure, NO_SLOT, Queue, Read};
use crate::domain::Domain;
use crate::error::{Error, check, strerror};
use crate::hints::{Features, MessageKind};
use crate::info::Info;
use crate::object::Owned;
use crate::post::{Post, PostOptions};

/// The parts and sizes that an endpoint is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointConfig {
    /// Kind of messages.
    pub messages: MessageKind,
    /// Features that it must have; as in the hints that found the fabric.
    pub features: Features,
    /// Whether a program can sleep for completions ([`Endpoint::events`]).
    pub events: bool,
    /// Number of slots of message memory.
    pub slots: usize,
    /// Number of payload bytes of each slot.
    pub payload_bytes: usize,
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
    /// Number of the vector of its peers.
    vector: u64,
    av: Rc<AddressVector>,
    _domain: Domain,
}

/// A slot that may be posted: its address, and its name for the provider.
pub(crate) struct Claim {
    pub(crate) ep: *mut sys::fid_ep,
    pub(crate) start: *mut u8,
    pub(crate) descriptor: *mut c_void,
    pub(crate) context: *mut c_void,
}

impl Endpoint {
    /// Opens, binds and enables an endpoint.
    ///
    /// # Errors
    /// Returns [`Error::OtherDomain`] when `av` is not of `domain`, [`Error::Unsupported`] for
    /// modes that this wrapper cannot honour, [`Error::TooLong`] when a slot is longer than the
    /// provider's longest message, [`Error::NoMemory`], [`Error::OnlyPolled`] when the provider has
    /// no events that were asked for, else [`Error::Call`].
    pub fn open(
        domain: &Domain,
        info: &Info,
        av: &Rc<AddressVector>,
        config: &EndpointConfig,
    ) -> Result<Self, Error> {
        let &EndpointConfig { messages, features, events, slots, payload_bytes } = config;
        if !Rc::ptr_eq(&domain.0, &av.domain.0) {
            return Err(Error::OtherDomain);
        }
        let unknown = info.unknown_mode();
        if unknown != 0 {
            let what = format!("mode bits {unknown:#x}");
            return Err(Error::Unsupported { provider: info.provider(), what });
        }
        if features.contains(Features::QUIET) && info.needs_contexts() {
            let what = "a context of its own for each operation in flight, which operations \
                without completion cannot give";
            let (provider, what) = (info.provider(), what.to_owned());
            return Err(Error::Unsupported { provider, what });
        }
        if payload_bytes > info.max_message_bytes() {
            return Err(Error::TooLong { len: payload_bytes, max: info.max_message_bytes() });
        }
        let geometry = Geometry { slots, payload_bytes, prefix_bytes: info.prefix_bytes() };
        let buffers = Buffers::new(domain, geometry, local_access(info, features))?;
        let queue = Queue::open(domain, messages, features, slots.max(BURST), events)
            .map_err(|error| no_events(error, events, info))?;
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
            vector: av.id,
            av: Rc::clone(av),
            _domain: domain.clone(),
        };
        this.bind_and_enable(features)?;
        Ok(this)
    }

    fn bind_and_enable(&self, features: Features) -> Result<(), Error> {
        let is_quiet = features.contains(Features::QUIET);
        let selective = if is_quiet { sys::FI_SELECTIVE_COMPLETION } else { 0 };
        // SAFETY: endpoint, vector and queue are alive and belong to one domain.
        unsafe {
            check("fi_ep_bind(av)", call::fi_bind(self.raw.fid(), self.av.raw.fid(), 0))?;
            let queue = self.queue.object().fid();
            let transmit = sys::FI_TRANSMIT | selective;
            check("fi_ep_bind(cq)", call::fi_bind(self.raw.fid(), queue, transmit))?;
            check("fi_ep_bind(cq)", call::fi_bind(self.raw.fid(), queue, sys::FI_RECV))?;
            check("fi_enable", call::fi_enable(self.raw.raw()))
        }
    }

    /// Returns the address to hand to peers.
    ///
    /// # Errors
    /// Returns [`Error::Call`].
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

    /// Returns the descriptor that can be read once there may be completions; `None` when there may
    /// be some now, so poll first. Ask again before each wait.
    ///
    /// # Errors
    /// Returns [`Error::NoEvents`] without [`EndpointConfig::events`], else [`Error::Call`].
    pub fn events(&self) -> Result<Option<BorrowedFd<'_>>, Error> {
        self.queue.events()
    }

    /// Returns the message memory.
    #[must_use]
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Returns the message memory, to fill free slots.
    pub fn buffers_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    pub(crate) const fn messages(&self) -> MessageKind {
        self.messages
    }

    pub(crate) const fn max_payload_bytes(&self) -> usize {
        self.max_payload_bytes
    }

    pub(crate) fn raw(&self) -> *mut sys::fid_ep {
        self.raw.raw()
    }

    /// Returns the number by which the provider knows a peer. A number of another vector would name
    /// another peer here, or none, and then a provider reads beyond its table.
    #[inline]
    pub(crate) fn number_of(&self, peer: Peer) -> Result<u64, Error> {
        if peer.vector == self.vector { Ok(peer.number) } else { Err(Error::OtherVector) }
    }

    /// Claims a free slot with room for `len_bytes`.
    #[inline]
    pub(crate) fn claim(&self, slot: usize, len_bytes: usize) -> Result<Claim, Error> {
        if len_bytes > self.max_payload_bytes {
            return Err(Error::TooLong { len: len_bytes, max: self.max_payload_bytes });
        }
        self.buffers.claim_free(slot)?;
        Ok(self.place(slot))
    }

    /// Lets the slot be sent or written from by [`Endpoint::send_with`] and
    /// [`Endpoint::write_with`] any number of times at once. It is never written, read into or
    /// borrowed again.
    ///
    /// # Errors
    /// Returns [`Error::SlotBusy`] or [`Error::NoSuchSlot`].
    pub fn freeze(&mut self, slot: usize) -> Result<(), Error> {
        self.buffers.claim_free(slot)?;
        self.buffers.begin(slot, Operation::Constant);
        Ok(())
    }

    /// Claims a slot to send or write from: free, or frozen, which it must be for a quiet
    /// operation.
    #[inline]
    pub(crate) fn claim_source(
        &self,
        slot: usize,
        len_bytes: usize,
        options: PostOptions,
    ) -> Result<Claim, Error> {
        if len_bytes > self.max_payload_bytes {
            return Err(Error::TooLong { len: len_bytes, max: self.max_payload_bytes });
        }
        self.buffers.claim_source(slot)?;
        if options.quiet && self.buffers.operation(slot) != Some(Operation::Constant) {
            return Err(Error::SlotBusy(slot));
        }
        Ok(self.place(slot))
    }

    #[inline]
    fn place(&self, slot: usize) -> Claim {
        Claim {
            ep: self.raw.raw(),
            start: self.buffers.message_start(slot),
            descriptor: self.buffers.descriptor(),
            context: self.buffers.context(slot),
        }
    }

    #[inline]
    pub(crate) fn wire_len(&self, len_bytes: usize) -> usize {
        len_bytes + self.buffers.geometry().prefix_bytes
    }

    /// Interprets the result of a posting call. With an `operation` the slot is busy from now on.
    #[inline]
    pub(crate) fn posted(
        &mut self,
        name: &'static str,
        ret: isize,
        slot: usize,
        operation: Option<Operation>,
    ) -> Result<Post, Error> {
        if ret == 0 {
            if let Some(operation) = operation {
                self.buffers.begin(slot, operation);
            }
            return Ok(Post::Done);
        }
        if ret == -(sys::FI_EAGAIN as isize) {
            return Ok(Post::Again);
        }
        Err(Error::call(name, ret))
    }

    /// Makes progress and stores finished operations at the front of `out`; returns their number.
    /// Call it again and again while anything is expected, also while only the peer is waiting:
    /// most providers move nothing between calls.
    ///
    /// # Errors
    /// Returns [`Error::Completion`] for one failed operation (its slot is free again, unless it
    /// takes further messages; poll again for others), [`Error::Call`] when the queue itself fails.
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
            if let Some(done) = self.finished(&entry) {
                out[stored] = done;
                stored += 1;
            }
        }
        Ok(stored)
    }

    /// Applies an entry to the slots; `None` for operations that are not ours.
    #[inline]
    fn finished(&mut self, entry: &Entry) -> Option<Completion> {
        let data = entry.data.filter(|_| entry.flags & sys::FI_REMOTE_CQ_DATA != 0);
        let Some(slot) = self.buffers.slot_of(entry.context) else {
            let is_remote = entry.flags & sys::FI_REMOTE_WRITE != 0;
            let kind = CompletionKind::RemoteWrite;
            return is_remote.then_some(Completion { kind, data, ..Completion::NONE });
        };
        let operation = self.buffers.operation(slot)?;
        let is_free = self.end(slot, operation, entry.flags);
        let kind = match operation {
            Operation::Send => CompletionKind::Send,
            Operation::Read => CompletionKind::Read,
            Operation::Write => CompletionKind::Write,
            Operation::Atomic => CompletionKind::Atomic,
            Operation::Constant if entry.flags & sys::FI_WRITE != 0 => CompletionKind::Write,
            Operation::Constant => CompletionKind::Send,
            Operation::ReceiveMany if entry.flags & sys::FI_RECV == 0 => CompletionKind::Release,
            Operation::Receive | Operation::ReceiveMany => CompletionKind::Receive,
        };
        let done = Completion { kind, slot, is_free, ..Completion::NONE };
        if kind != CompletionKind::Receive {
            return Some(done);
        }
        let len_bytes = entry.len_bytes.saturating_sub(self.buffers.geometry().prefix_bytes);
        let start = match operation {
            Operation::ReceiveMany => self.buffers.offset_of(slot, entry.buffer),
            _ => Some(0),
        };
        let range = start.map(|start| start..start.saturating_add(len_bytes));
        let span = range.and_then(|range| self.buffers.span(slot, range));
        let source = entry.source.map(|number| Peer { number, vector: self.vector });
        let (tag, span) = (entry.tag, span.unwrap_or(Span::NOWHERE));
        Some(Completion { len_bytes, tag, data, source, span, ..done })
    }

    /// Frees the slot of an operation that ended, unless the provider keeps it for more messages.
    #[inline]
    fn end(&mut self, slot: usize, operation: Operation, flags: u64) -> bool {
        let is_free = match operation {
            Operation::ReceiveMany => flags & sys::FI_MULTI_RECV != 0,
            Operation::Constant => false,
            _ => true,
        };
        if is_free {
            self.buffers.end(slot);
        }
        is_free
    }

    #[cold]
    fn failed(&mut self, failure: Failure) -> Error {
        let slot = self.buffers.slot_of(failure.context);
        let operation = slot.and_then(|slot| self.buffers.operation(slot));
        let kind = match operation {
            Some(Operation::Send) => "send",
            Some(Operation::Receive | Operation::ReceiveMany) => "receive",
            Some(Operation::Read) => "read",
            Some(Operation::Write) => "write",
            Some(Operation::Atomic) => "atomic operation",
            Some(Operation::Constant) | None => "operation",
        };
        if let (Some(slot), Some(operation)) = (slot, operation) {
            self.end(slot, operation, failure.flags);
        }
        Error::Completion {
            kind,
            slot: slot.unwrap_or(NO_SLOT),
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

/// Converts the error of a provider that refuses to open a queue with events: it has none.
fn no_events(error: Error, events: bool, info: &Info) -> Error {
    match error {
        Error::Call { code: libc::ENOSYS | libc::EOPNOTSUPP, .. } if events => {
            Error::OnlyPolled(info.provider())
        }
        error => error,
    }
}

/// Returns the access by which the provider uses the slots: 0 when they need not be registered.
fn local_access(info: &Info, features: Features) -> u64 {
    if !info.needs_registration() {
        return 0;
    }
    let mut access = sys::FI_SEND | sys::FI_RECV;
    if features.contains(Features::RMA) || features.contains(Features::ATOMICS) {
        access |= sys::FI_READ | sys::FI_WRITE;
    }
    access
}
