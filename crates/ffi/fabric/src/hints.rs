//! Hints: the requirements of an application on a provider.

use std::ffi::{CString, c_char};
use std::ptr::NonNull;

use fabric_sys::{self as sys, fi_info};

use crate::error::Error;

/// Connection-less endpoint types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointType {
    /// Reliable datagrams (EFA: SRD and a protocol above it).
    #[default]
    Rdm,
    /// Unreliable datagrams (EFA: UD).
    Dgram,
}

impl EndpointType {
    /// Returns the name that `fi_info -t` takes, without `FI_EP_`, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rdm => "rdm",
            Self::Dgram => "dgram",
        }
    }

    const fn raw(self) -> u32 {
        match self {
            Self::Rdm => sys::FI_EP_RDM,
            Self::Dgram => sys::FI_EP_DGRAM,
        }
    }
}

/// Plain or tag-matched messages; an endpoint is opened for one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MessageKind {
    /// Messages of `fi_send`, `fi_recv`.
    #[default]
    Plain,
    /// Messages of `fi_tsend`, `fi_trecv`.
    Tagged,
}

/// The features that an endpoint must have beside messages; join with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(u64);

impl Features {
    /// No further feature.
    pub const NONE: Self = Self(0);
    /// Reading and writing memory of peers, and having a [`Window`](crate::Window) they may use.
    pub const RMA: Self = Self(sys::FI_RMA);
    /// Atomic operations on memory of peers.
    pub const ATOMICS: Self = Self(sys::FI_ATOMIC);
    /// Receives that take several messages.
    pub const MULTI_RECEIVE: Self = Self(sys::FI_MULTI_RECV);
    /// Receives with the immediate data that came along. (Tagged messages always have it.)
    pub const DATA: Self = Self(sys::FI_REMOTE_CQ_DATA);
    /// Receives with the sender, as a peer of the address vector.
    pub const SOURCES: Self = Self(sys::FI_SOURCE);

    /// Posts with [`PostOptions::quiet`](crate::PostOptions::quiet), which do not complete.
    pub const QUIET: Self = Self(sys::FI_COMPLETION);

    /// Returns whether all of `other` is in it.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the capabilities to ask the provider for; any of them brings data along.
    const fn caps(self) -> u64 {
        self.0 & !Self::DATA.0 & !Self::QUIET.0
    }

    const fn in_words(self) -> [(&'static str, bool); 4] {
        [
            ("RMA", self.contains(Self::RMA)),
            ("atomics", self.contains(Self::ATOMICS)),
            ("multi-receive", self.contains(Self::MULTI_RECEIVE)),
            ("sources", self.contains(Self::SOURCES)),
        ]
    }
}

impl std::ops::BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The search for a fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Name of the libfabric provider ("efa", "tcp", "shm", ...); `None` for any.
    pub provider: Option<String>,
    /// Domain (device) name, for example "rdmap0s6-rdm"; `None` for any.
    pub domain: Option<String>,
    /// Name of the fabric within the provider, for example "efa-direct"; `None` for the one that
    /// programs expect by the provider's name.
    pub fabric: Option<String>,
    /// Kind of endpoint.
    pub endpoint: EndpointType,
    /// Kind of messages.
    pub messages: MessageKind,
    /// Features that the endpoint must have besides.
    pub features: Features,
    /// Local IP address to use, for providers that speak over IP; others ignore it.
    pub source: Option<String>,
}

impl Hints {
    /// Describes the hints in words, for error messages.
    pub(crate) fn in_words(&self) -> String {
        let provider = self.provider.as_deref().unwrap_or("any provider");
        let kind = match self.messages {
            MessageKind::Plain => "plain",
            MessageKind::Tagged => "tagged",
        };
        let domain = self.domain.as_ref().map_or_else(String::new, |d| format!(" on domain {d}"));
        let fabric = self.fabric.as_ref().map_or_else(String::new, |f| format!(" of fabric {f}"));
        let features = self.features.in_words().into_iter().filter(|(_, is_wanted)| *is_wanted);
        let features: String = features.map(|(name, _)| format!(", {name}")).collect();
        let endpoint = self.endpoint.name();
        format!("{provider}{fabric}, {endpoint} endpoint, {kind} messages{features}{domain}")
    }
}

/// An owned `fi_info` with the hints filled in.
pub(crate) struct RawHints(NonNull<fi_info>);

impl RawHints {
    /// Creates it. Opens the library, since nothing of it is called before.
    pub(crate) fn new(hints: &Hints) -> Result<Self, Error> {
        sys::open()?;
        // SAFETY: a null argument makes an empty entry; answers null only without memory.
        let raw = unsafe { sys::fi_dupinfo(std::ptr::null()) };
        let this = Self(NonNull::new(raw).ok_or(Error::NoMemory(size_of::<fi_info>()))?);
        let provider = c_text("provider name", hints.provider.as_deref())?;
        let domain = c_text("domain name", hints.domain.as_deref())?;
        let fabric = c_text("fabric name", hints.fabric.as_deref())?;
        // SAFETY: fi_dupinfo(NULL) allocates the entry together with all its attribute
        // structures (fi_getinfo(3)); nobody else has a pointer to them.
        unsafe {
            let info = &mut *raw;
            info.caps = match hints.messages {
                MessageKind::Plain => sys::FI_MSG,
                MessageKind::Tagged => sys::FI_TAGGED,
            } | hints.features.caps();
            info.mode = sys::FI_CONTEXT | sys::FI_CONTEXT2;
            if hints.endpoint == EndpointType::Dgram {
                info.mode |= sys::FI_MSG_PREFIX;
            }
            (*info.ep_attr).type_ = hints.endpoint.raw();
            let domain_attr = &mut *info.domain_attr;
            domain_attr.threading = sys::FI_THREAD_DOMAIN;
            domain_attr.data_progress = sys::FI_PROGRESS_MANUAL;
            domain_attr.control_progress = sys::FI_PROGRESS_MANUAL;
            domain_attr.mr_mode = sys::FI_MR_LOCAL
                | sys::FI_MR_VIRT_ADDR
                | sys::FI_MR_ALLOCATED
                | sys::FI_MR_PROV_KEY;
            domain_attr.name = c_copy(domain.as_ref());
            (*info.fabric_attr).prov_name = c_copy(provider.as_ref());
            (*info.fabric_attr).name = c_copy(fabric.as_ref());
        }
        Ok(this)
    }

    pub(crate) const fn raw(&self) -> *const fi_info {
        self.0.as_ptr()
    }
}

impl Drop for RawHints {
    fn drop(&mut self) {
        // SAFETY: made by fi_dupinfo, released once; frees the names with free(3).
        unsafe { sys::fi_freeinfo(self.0.as_ptr()) }
    }
}

/// Copies an optional Rust text into a C string.
pub(crate) fn c_text(what: &'static str, text: Option<&str>) -> Result<Option<CString>, Error> {
    text.map(|t| CString::new(t).map_err(|_| Error::ZeroByte(what))).transpose()
}

/// Returns a copy that fi_freeinfo can release (malloc), or null.
fn c_copy(text: Option<&CString>) -> *mut c_char {
    // SAFETY: strdup reads a valid C string and answers memory of malloc or null.
    text.map_or(std::ptr::null_mut(), |t| unsafe { libc::strdup(t.as_ptr()) })
}
