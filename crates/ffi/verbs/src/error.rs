//! Errors, always with the call that failed.

use std::ffi::CStr;

use thiserror::Error;

use crate::sys;

/// A failed verbs call or a misuse that was refused before it reached the device.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A library cannot be opened, or lacks a function.
    #[error(
        "{file} cannot be used ({reason}): install ibverbs-providers (Debian, Ubuntu) or rdma-core"
    )]
    NoLibrary {
        /// File name of the library.
        file: &'static str,
        /// Message of the loader.
        reason: String,
    },
    /// There is no such device.
    #[error(
        "no RDMA device{wanted}; there {found}: see `ibv_devices`, or start it with `softefa run --`"
    )]
    NoDevice {
        /// Description of the device that was asked for: " named so", or nothing when any device
        /// would do.
        wanted: String,
        /// Description of the devices: "is none", or their names.
        found: String,
    },
    /// A call failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// Name of the C function.
        call: &'static str,
        /// The system's text of its error number.
        reason: String,
    },
    /// The device cannot do it.
    #[error("device {device} has no {what} ({reason})")]
    Unsupported {
        /// Name of the device.
        device: String,
        /// Description of the lack: "SRD queue pairs" and so on.
        what: String,
        /// Message of the device.
        reason: String,
    },
    /// Queue pairs of this kind do no atomics.
    #[error("queue pairs of {0} have no atomics: use RC")]
    NoAtomics(&'static str),
    /// The endpoint was opened without events.
    #[error("this endpoint has no completion events: it was opened without them")]
    NoEvents,
    /// An operation completed in error.
    #[error("{kind} of slot {slot} failed: {text} (status {status}, vendor error {vendor_error})")]
    Completion {
        /// Kind of the operation: "receive", or "operation" for any other, which devices do not
        /// tell apart.
        kind: &'static str,
        /// The slot of the operation, free again unless it is frozen.
        slot: usize,
        /// Status, an `ibv_wc_status`.
        status: i32,
        /// Text of the status, by `ibv_wc_status_str`.
        text: String,
        /// The device's own code.
        vendor_error: u32,
    },
    /// The slot has an operation in flight.
    #[error("slot {0} has an operation in flight")]
    SlotBusy(usize),
    /// The slot does not exist, or not for this direction.
    #[error("slot {0} does not exist for this operation")]
    NoSuchSlot(usize),
    /// More bytes than a slot or the device takes.
    #[error("message of {len} bytes does not fit: at most {max}")]
    TooLong {
        /// Length that was asked for, in bytes.
        len: usize,
        /// Maximum length, in bytes.
        max: usize,
    },
    /// A range that is not inside the peer's window.
    #[error("{len} bytes from byte {offset} on are not inside a window of {window} bytes")]
    OutsideWindow {
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes asked for.
        len: u64,
        /// Number of bytes of the window.
        window: u64,
    },
    /// The description that a peer sent of itself makes no sense.
    #[error("the peer's {0} cannot be read")]
    Garbled(&'static str),
    /// Memory for buffers could not be had.
    #[error("cannot allocate {0} bytes for message buffers")]
    NoMemory(usize),
}

impl Error {
    /// Returns the error of a call that sets `errno`.
    pub(crate) fn last(call: &'static str) -> Self {
        Self::Call { call, reason: plain(&std::io::Error::last_os_error()) }
    }

    /// Returns the error of a call that returns an error number.
    pub(crate) fn number(call: &'static str, errno: i32) -> Self {
        let error = std::io::Error::from_raw_os_error(errno.abs());
        Self::Call { call, reason: plain(&error) }
    }
}

/// Checks the result of a call that returns an error number, or -1 and sets `errno`.
pub(crate) fn check(call: &'static str, ret: i32) -> Result<(), Error> {
    match ret {
        0 => Ok(()),
        -1 => Err(Error::last(call)),
        errno => Err(Error::number(call, errno)),
    }
}

/// Returns the text without the " (os error N)" tail.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Returns the text of a completion's status.
pub(crate) fn status_text(status: i32) -> String {
    // SAFETY: takes any number and answers a static string.
    let text = unsafe { sys::ibv_wc_status_str(status) };
    if text.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: not null, a static C string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
