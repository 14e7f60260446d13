//! Errors, always with the call that failed.

use thiserror::Error;

/// A failed call or a missing library.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The library cannot be opened, or lacks a function.
    #[error("libpmix.so.2 cannot be used ({0}): install libpmix2 (Debian, Ubuntu) or pmix")]
    NoLibrary(String),
    /// A call failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// Name of the C function.
        call: &'static str,
        /// The library's text of its status.
        reason: String,
    },
    /// A value is of another type than it has to be.
    #[error("{key} has type {data_type} of PMIx, which is not the one it is defined with")]
    Type {
        /// The key that was looked up.
        key: String,
        /// Actual type of the value, a `pmix_data_type_t`.
        data_type: u16,
    },
    /// A key or text that C cannot hold.
    #[error("`{0}` cannot be published: it is too long for a key or holds a zero byte")]
    Text(String),
}
