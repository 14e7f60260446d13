//! Completion queue of an endpoint.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{BorrowedFd, RawFd};

use fabric_sys as sys;

use crate::address::Peer;
use crate::buffers::Span;
use crate::domain::Domain;
use crate::error::{Error, check};
use crate::hints::{Features, MessageKind};
use crate::object::Owned;

/// Number that stands for "no slot".
pub const NO_SLOT: usize = usize::MAX;

/// The kind of operation that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionKind {
    /// The message left (transmit complete by the provider's default level, unless asked for
    /// otherwise).
    Send,
    /// A message arrived.
    Receive,
    /// A slot offered to several messages takes no more; there is no message.
    Release,
    /// The peer's bytes are in the slot.
    Read,
    /// The bytes left for the peer's memory.
    Write,
    /// The atomic operation was done; results, if any, are in the slot.
    Atomic,
    /// A peer wrote into a window of ours and sent `data` along. There is no slot.
    RemoteWrite,
}

/// One completed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The kind of operation that completed.
    pub kind: CompletionKind,
    /// The slot, or [`NO_SLOT`].
    pub slot: usize,
    /// Whether the slot is free again: always, but for a message in a slot that takes more, and for
    /// a frozen slot.
    pub is_free: bool,
    /// Payload bytes received; else 0.
    pub len_bytes: usize,
    /// Tag of a tagged message received; else 0.
    pub tag: u64,
    /// Immediate data that came along; known to endpoints for tagged messages and to those with
    /// any of the [`Features`](crate::Features).
    pub data: Option<u64>,
    /// Sender of a received message; known to endpoints with
    /// [`Features::SOURCES`](crate::Features::SOURCES), for peers in the address vector.
    pub source: Option<Peer>,
    /// Location of the message: see [`Buffers::message`](crate::Buffers::message).
    pub(crate) span: Span,
}

impl Completion {
    /// An entry without a completion, to fill arrays for [`Endpoint::poll`](crate::Endpoint::poll)
    /// with.
    pub const NONE: Self = Self {
        kind: CompletionKind::Send,
        slot: NO_SLOT,
        is_free: false,
        len_bytes: 0,
        tag: 0,
        data: None,
        source: None,
        span: Span::NOWHERE,
    };
}

/// Maximum number of entries that one read asks for.
pub(crate) const BURST: usize = 64;

/// A queue whose entries carry at least context and length.
#[derive(Debug)]
pub(crate) struct Queue {
    raw: Owned<sys::fid_cq>,
    /// Descriptor that can be read when the queue may have entries; closed with the queue. `None`
    /// when it was not requested.
    event_fd: Option<RawFd>,
    format: Format,
    // Room for BURST entries of the largest format, aligned for pointers.
    entries: Box<[u64]>,
    /// Senders of the entries; empty when they were not requested.
    sources: Box<[u64]>,
    domain: Domain,
}

/// The fields of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Context, flags and length.
    Message,
    /// Context, flags, length, buffer, immediate data and tag.
    Tagged,
}

/// One raw entry. Fields that its format does not have are zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len_bytes: usize,
    pub(crate) buffer: *mut c_void,
    /// Immediate data, where the flags say that there is some.
    pub(crate) data: Option<u64>,
    pub(crate) tag: u64,
    /// Number of the sender in the address vector.
    pub(crate) source: Option<u64>,
}

/// A raw failed entry.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) code: c_int,
    pub(crate) provider_code: c_int,
    pub(crate) provider_text: String,
}

/// Asks a queue for the descriptor that signals its entries.
fn event_fd(queue: &Owned<sys::fid_cq>) -> Result<RawFd, Error> {
    let mut number: RawFd = -1;
    // SAFETY: the queue is alive and was opened with FI_WAIT_FD, which stores an int.
    let ret = unsafe { sys::call::fi_get_wait(queue.fid(), (&raw mut number).cast()) };
    check("fi_control(FI_GETWAIT)", ret)?;
    Ok(number)
}

/// The result of a read.
pub(crate) enum Read {
    /// So many entries.
    Entries(usize),
    /// Nothing yet.
    Empty,
    /// A failed operation is at the head.
    Failed(Failure),
}

impl Queue {
    /// Opens a queue. Entries say as little as `messages` and `features` need; with `events` a
    /// program can sleep for them.
    pub(crate) fn open(
        domain: &Domain,
        messages: MessageKind,
        features: Features,
        size: usize,
        events: bool,
    ) -> Result<Self, Error> {
        let is_plain = messages == MessageKind::Plain && features == Features::NONE;
        let format = if is_plain { Format::Message } else { Format::Tagged };
        let mut attr = sys::fi_cq_attr {
            size,
            flags: 0,
            format: match format {
                Format::Message => sys::FI_CQ_FORMAT_MSG,
                Format::Tagged => sys::FI_CQ_FORMAT_TAGGED,
            },
            wait_obj: if events { sys::FI_WAIT_FD } else { sys::FI_WAIT_NONE },
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: std::ptr::null_mut(),
        };
        // SAFETY: the domain is alive, the attributes live during the call.
        let raw = Owned::open("fi_cq_open", |out| unsafe {
            sys::call::fi_cq_open(domain.0.raw.raw(), &raw mut attr, out)
        })?;
        let event_fd = events.then(|| event_fd(&raw)).transpose()?;
        let words = BURST * size_of::<sys::fi_cq_tagged_entry>() / size_of::<u64>();
        let entries = vec![0; words].into_boxed_slice();
        let sources = if features.contains(Features::SOURCES) { BURST } else { 0 };
        let sources = vec![sys::FI_ADDR_UNSPEC; sources].into_boxed_slice();
        Ok(Self { raw, event_fd, format, entries, sources, domain: domain.clone() })
    }

    pub(crate) const fn object(&self) -> &Owned<sys::fid_cq> {
        &self.raw
    }

    /// Returns the descriptor to wait for; `None` when entries may be there: read first.
    pub(crate) fn events(&self) -> Result<Option<BorrowedFd<'_>>, Error> {
        let number = self.event_fd.ok_or(Error::NoEvents)?;
        let mut object = self.raw.fid();
        // SAFETY: fabric and queue are alive, the array has one object.
        let ret =
            unsafe { sys::call::fi_trywait(self.domain.0.fabric.0.raw(), &raw mut object, 1) };
        if ret == -sys::FI_EAGAIN {
            return Ok(None);
        }
        check("fi_trywait", ret)?;
        // SAFETY: it is open as long as the queue (fi_cq(3)).
        Ok(Some(unsafe { BorrowedFd::borrow_raw(number) }))
    }

    /// Makes progress and reads up to `max` entries (at most [`BURST`]).
    #[inline]
    pub(crate) fn read(&mut self, max: usize) -> Result<Read, Error> {
        let space = self.entries.as_mut_ptr().cast();
        let max = max.min(BURST);
        // SAFETY: `entries` has room for BURST entries of either format, `sources` for as many.
        let ret = unsafe {
            if self.sources.is_empty() {
                sys::call::fi_cq_read(self.raw.raw(), space, max)
            } else {
                sys::call::fi_cq_readfrom(self.raw.raw(), space, max, self.sources.as_mut_ptr())
            }
        };
        if ret > 0 {
            return Ok(Read::Entries(ret.unsigned_abs()));
        }
        if ret == 0 || ret == -(sys::FI_EAGAIN as isize) {
            return Ok(Read::Empty);
        }
        if ret == -(sys::FI_EAVAIL as isize) {
            return self.read_error();
        }
        Err(Error::call("fi_cq_read", ret))
    }

    /// Returns entry `index` of the last read.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Entry {
        assert!(index < BURST);
        let start = self.entries.as_ptr();
        let source = self.sources.get(index).copied();
        let source = source.filter(|&peer| peer != sys::FI_ADDR_UNSPEC);
        match self.format {
            Format::Tagged => {
                // SAFETY: the last read stored tagged entries here; index < BURST.
                let e = unsafe { &*start.cast::<sys::fi_cq_tagged_entry>().add(index) };
                Entry {
                    context: e.op_context,
                    flags: e.flags,
                    len_bytes: e.len,
                    buffer: e.buf,
                    data: Some(e.data),
                    tag: e.tag,
                    source,
                }
            }
            Format::Message => {
                // SAFETY: the last read stored message entries here; index < BURST.
                let e = unsafe { &*start.cast::<sys::fi_cq_msg_entry>().add(index) };
                let (context, flags, len_bytes) = (e.op_context, e.flags, e.len);
                let buffer = std::ptr::null_mut();
                Entry { context, flags, len_bytes, buffer, data: None, tag: 0, source }
            }
        }
    }

    #[cold]
    fn read_error(&self) -> Result<Read, Error> {
        let mut error = sys::fi_cq_err_entry {
            op_context: std::ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: std::ptr::null_mut(),
            data: 0,
            tag: 0,
            olen: 0,
            err: 0,
            prov_errno: 0,
            err_data: std::ptr::null_mut(),
            err_data_size: 0,
        };
        // SAFETY: the queue is alive and the entry is ours.
        let ret = unsafe { sys::call::fi_cq_readerr(self.raw.raw(), &raw mut error) };
        if ret == -(sys::FI_EAGAIN as isize) || ret == 0 {
            return Ok(Read::Empty);
        }
        if ret < 0 {
            return Err(Error::call("fi_cq_readerr", ret));
        }
        Ok(Read::Failed(Failure {
            context: error.op_context,
            flags: error.flags,
            code: error.err,
            provider_code: error.prov_errno,
            provider_text: self.provider_text(&error),
        }))
    }

    fn provider_text(&self, error: &sys::fi_cq_err_entry) -> String {
        // SAFETY: the queue is alive; err_data is valid until the queue is read again; a null
        // buffer asks for the provider's static text (fi_cq(3)).
        let text = unsafe {
            let ops = (*self.raw.raw()).ops;
            let Some(strerror) = ops.as_ref().and_then(|o| o.strerror) else {
                return String::new();
            };
            strerror(self.raw.raw(), error.prov_errno, error.err_data, std::ptr::null_mut(), 0)
        };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: not null, a C string by contract.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
