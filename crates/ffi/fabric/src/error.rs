//! Errors, always with the call that failed.

use std::ffi::{CStr, c_int};

use thiserror::Error;

/// A failed libfabric call or a misuse that was refused before it reached libfabric.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The library cannot be opened, lacks a function, or is too old.
    #[error(
        "libfabric.so.1 cannot be used ({0}): install libfabric1 (Debian, Ubuntu) or libfabric"
    )]
    NoLibrary(#[from] fabric_sys::NoLibrary),
    /// No provider offers what the hints ask for.
    #[error("no libfabric provider offers {wanted}: see `fi_info -l`")]
    NoProvider {
        /// Description of the hints.
        wanted: String,
    },
    /// A call failed.
    #[error("{call} failed: {text} (error {code})")]
    Call {
        /// Name of the libfabric function.
        call: &'static str,
        /// Positive libfabric error number.
        code: i32,
        /// `fi_strerror` of the number.
        text: String,
    },
    /// The provider's completions cannot be slept for.
    #[error("provider {0} has no completion events: its completions can only be polled")]
    OnlyPolled(String),
    /// The endpoint was opened without events.
    #[error("this endpoint has no completion events: it was opened without them")]
    NoEvents,
    /// An operation completed in error.
    #[error(
        "{kind} of slot {slot} failed: {text} (error {code}, provider error {provider_code}: {provider_text})"
    )]
    Completion {
        /// Kind of the operation: "send", "receive", "read" and so on.
        kind: &'static str,
        /// The slot of the operation, free again unless it takes further messages;
        /// [`NO_SLOT`](crate::NO_SLOT) without one.
        slot: usize,
        /// Positive libfabric error number.
        code: i32,
        /// `fi_strerror` of the number.
        text: String,
        /// The provider's own error number.
        provider_code: i32,
        /// The provider's own text.
        provider_text: String,
    },
    /// The slot has an operation in flight.
    #[error("slot {0} has an operation in flight")]
    SlotBusy(usize),
    /// The slot does not exist.
    #[error("slot {0} does not exist")]
    NoSuchSlot(usize),
    /// The message was received into a slot that was posted again since.
    #[error("the message in slot {0} is gone: the slot was posted again")]
    Overwritten(usize),
    /// The peer is one of another address vector than the endpoint's.
    #[error("the peer belongs to another address vector than the endpoint")]
    OtherVector,
    /// The address vector is one of another domain than the endpoint's.
    #[error("the address vector belongs to another domain than the endpoint")]
    OtherDomain,
    /// A range that is not inside a window.
    #[error("{len} bytes from byte {offset} on are not inside a window of {window} bytes")]
    OutsideWindow {
        /// First byte.
        offset: u64,
        /// Bytes asked for.
        len: u64,
        /// Bytes of the window.
        window: u64,
    },
    /// More bytes than a slot or the provider takes.
    #[error("message of {len} bytes does not fit: at most {max}")]
    TooLong {
        /// Length that was asked for, in bytes.
        len: usize,
        /// Maximum length, in bytes.
        max: usize,
    },
    /// The provider demands something that this wrapper does not support.
    #[error("provider {provider} demands {what}, which is not supported here")]
    Unsupported {
        /// Provider name.
        provider: String,
        /// Description of the demand.
        what: String,
    },
    /// A text contains a zero byte.
    #[error("{0} contains a zero byte")]
    ZeroByte(&'static str),
    /// Memory for buffers could not be had.
    #[error("cannot allocate {0} bytes for message buffers")]
    NoMemory(usize),
    /// The out-of-band channel failed.
    #[error("out-of-band exchange failed: {0}")]
    OutOfBand(String),
}

impl Error {
    /// Builds [`Error::Call`] from the return value of a libfabric call (negative error number).
    pub(crate) fn call(call: &'static str, ret: isize) -> Self {
        let code = i32::try_from(ret.unsigned_abs()).unwrap_or(i32::MAX);
        Self::Call { call, code, text: strerror(code) }
    }
}

/// Returns the text of a positive libfabric error number.
pub(crate) fn strerror(code: c_int) -> String {
    // SAFETY: fi_strerror accepts any number and answers a static string, never null.
    let text = unsafe { CStr::from_ptr(fabric_sys::fi_strerror(code)) };
    text.to_string_lossy().into_owned()
}

/// Turns the `int` result of a libfabric call into a `Result`.
pub(crate) fn check(call: &'static str, ret: c_int) -> Result<(), Error> {
    if ret == 0 { Ok(()) } else { Err(Error::call(call, ret as isize)) }
}
