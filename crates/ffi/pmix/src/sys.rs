//! Layouts and values of `pmix_common.h`; `tests/abi.c` holds them against the header.

use std::ffi::{c_char, c_int, c_void};

/// `PMIX_MAX_NSLEN`, with the zero byte.
pub(crate) const NAMESPACE_BYTES: usize = 256;
/// `PMIX_MAX_KEYLEN`, with the zero byte.
pub(crate) const KEY_BYTES: usize = 512;

pub(crate) const SUCCESS: c_int = 0;
pub(crate) const ERR_TIMEOUT: c_int = -24;
pub(crate) const ERR_NOT_FOUND: c_int = -46;

pub(crate) const TYPE_STRING: u16 = 3;
pub(crate) const TYPE_INT: u16 = 6;
pub(crate) const TYPE_UINT32: u16 = 14;

/// `PMIX_GLOBAL`: for processes of this host and of others.
pub(crate) const SCOPE_GLOBAL: u8 = 3;
/// `PMIX_RANK_WILDCARD`: of the job, not of one rank.
pub(crate) const RANK_WILDCARD: u32 = u32::MAX - 1;

/// `PMIX_JOB_SIZE`.
pub(crate) const JOB_SIZE: &str = "pmix.job.size";
/// `PMIX_TIMEOUT`.
pub(crate) const TIMEOUT: &str = "pmix.timeout";

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Process {
    pub(crate) namespace: [c_char; NAMESPACE_BYTES],
    pub(crate) rank: u32,
}

/// The members of `pmix_value_t`'s union that are used here, and its size.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Data {
    pub(crate) string: *mut c_char,
    pub(crate) integer: c_int,
    pub(crate) uint32: u32,
    pub(crate) whole: [usize; 3],
}

/// `pmix_value_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Value {
    pub(crate) data_type: u16,
    pub(crate) data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Info {
    pub(crate) key: [c_char; KEY_BYTES],
    pub(crate) flags: u32,
    pub(crate) value: Value,
}

pub(crate) type Init = unsafe extern "C" fn(*mut Process, *mut Info, usize) -> c_int;
pub(crate) type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
pub(crate) type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
pub(crate) type Commit = unsafe extern "C" fn() -> c_int;
pub(crate) type Get = unsafe extern "C" fn(
    *const Process,
    *const c_char,
    *const Info,
    usize,
    *mut *mut Value,
) -> c_int;
pub(crate) type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
pub(crate) type GetVersion = unsafe extern "C" fn() -> *const c_char;

/// Returns memory of a value to the allocator it is from: the C library's.
///
/// # Safety
/// `memory` is null or was allocated by `malloc` and is not used any more.
pub(crate) unsafe fn free(memory: *mut c_void) {
    // SAFETY: as above.
    unsafe { libc::free(memory) }
}

// The sizes that `tests/abi.c` asserts of the C types.
const _: () = assert!(size_of::<Process>() == 260);
const _: () = assert!(size_of::<Value>() == 32);
const _: () = assert!(size_of::<Info>() == 552);
