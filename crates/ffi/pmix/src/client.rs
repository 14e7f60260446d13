//! This process among the ranks of its job.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::time::Duration;

use crate::error::Error;
use crate::library::Library;
use crate::sys::{self, Data, Info, Process, Value};

/// A connection to the launcher's server; closed when dropped.
///
/// A launcher takes a process that opened one and ended without closing it for one that failed.
#[derive(Debug)]
pub struct Client {
    library: &'static Library,
    namespace: [c_char; sys::NAMESPACE_BYTES],
    rank: u32,
}

impl Client {
    /// Connects to the server of this host. May take as long as the launcher takes.
    ///
    /// # Errors
    /// Returns an error without a library, or without a server ([`is_launched`](crate::is_launched)
    /// tells beforehand).
    pub fn start() -> Result<Self, Error> {
        let library = Library::get()?;
        let mut own = Process { namespace: [0; sys::NAMESPACE_BYTES], rank: 0 };
        // SAFETY: `own` is a `pmix_proc_t` to be filled; no directives.
        let status = unsafe { (library.init)(&raw mut own, ptr::null_mut(), 0) };
        check(library, "PMIx_Init", status)?;
        Ok(Self { library, namespace: own.namespace, rank: own.rank })
    }

    /// Returns this process's number in its job, from 0.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the library's own name, such as "OpenPMIx 4.2.2".
    pub fn version(&self) -> String {
        // SAFETY: takes nothing and answers a constant text.
        let text = unsafe { text((self.library.version)()) };
        text.split([',', ' ']).take(2).collect::<Vec<_>>().join(" ")
    }

    /// Returns the number of ranks in the job.
    ///
    /// # Errors
    /// Returns an error if the server does not say.
    pub fn job_size(&self) -> Result<u32, Error> {
        let size = self.get(sys::RANK_WILDCARD, sys::JOB_SIZE, Duration::ZERO, |value| {
            if value.data_type != sys::TYPE_UINT32 {
                return None;
            }
            // SAFETY: the type says which member is set.
            Some(unsafe { value.data.uint32 })
        })?;
        size.ok_or_else(|| Error::Call {
            call: "PMIx_Get",
            reason: format!("the server does not know {}", sys::JOB_SIZE),
        })
    }

    /// Lets all ranks of the job look up `text` under `key`, which belongs to this rank.
    ///
    /// # Errors
    /// Returns an error for a text that C cannot hold, or a server that does not take it.
    pub fn publish(&self, key: &str, text: &str) -> Result<(), Error> {
        let (key, text) = (c_text(key)?, c_text(text)?);
        let data = Data { string: text.as_ptr().cast_mut() };
        let mut value = Value { data_type: sys::TYPE_STRING, data };
        // SAFETY: key and value are alive; the library copies both.
        let status = unsafe { (self.library.put)(sys::SCOPE_GLOBAL, key.as_ptr(), &raw mut value) };
        check(self.library, "PMIx_Put", status)?;
        // SAFETY: takes nothing.
        let status = unsafe { (self.library.commit)() };
        check(self.library, "PMIx_Commit", status)
    }

    /// Returns the text that `rank` has published under `key`; `None` when nothing came within
    /// `timeout`, which the server counts in whole seconds, and some servers not at all: then the
    /// call waits until the rank has published.
    ///
    /// # Errors
    /// Returns an error if the server fails, or the value is no text.
    pub fn lookup(&self, rank: u32, key: &str, timeout: Duration) -> Result<Option<String>, Error> {
        self.get(rank, key, timeout, |value| {
            if value.data_type != sys::TYPE_STRING {
                return None;
            }
            // SAFETY: the type says which member is set; the text ends with a zero byte.
            Some(unsafe { text(value.data.string) })
        })
    }

    /// Looks up a value and turns it into what it has to be; `None` when there is none.
    fn get<T>(
        &self,
        rank: u32,
        key: &str,
        timeout: Duration,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let whose = Process { namespace: self.namespace, rank };
        let c_key = c_text(key)?;
        let seconds = c_int::try_from(timeout.as_secs().max(1)).unwrap_or(c_int::MAX);
        let limit = info(sys::TIMEOUT, seconds);
        let limits = usize::from(!timeout.is_zero());
        let mut found: *mut Value = ptr::null_mut();
        // SAFETY: all arguments are alive during the call; `found` is set on success only.
        let status = unsafe {
            (self.library.get)(
                &raw const whose,
                c_key.as_ptr(),
                &raw const limit,
                limits,
                &raw mut found,
            )
        };
        if matches!(status, sys::ERR_TIMEOUT | sys::ERR_NOT_FOUND) {
            return Ok(None);
        }
        check(self.library, "PMIx_Get", status)?;
        // SAFETY: on success a value, ours to read and to free.
        let Some(value) = (unsafe { found.as_ref() }) else { return Ok(None) };
        let answer = read(value)
            .ok_or_else(|| Error::Type { key: key.to_owned(), data_type: value.data_type });
        // SAFETY: nothing refers to the value or its text any more; the caller frees both.
        unsafe {
            if (*found).data_type == sys::TYPE_STRING {
                sys::free((*found).data.string.cast());
            }
            sys::free(found.cast());
        }
        answer.map(Some)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: no directives. A server that is gone by now does no harm: the status is not
        // needed.
        let _ = unsafe { (self.library.finalize)(ptr::null(), 0) };
    }
}

fn check(library: &Library, call: &'static str, status: c_int) -> Result<(), Error> {
    if status == sys::SUCCESS {
        return Ok(());
    }
    // SAFETY: takes any status and answers a constant text.
    let reason = unsafe { text((library.error_string)(status)) };
    Err(Error::Call { call, reason: format!("{reason} ({status})") })
}

/// Returns a directive with a number.
fn info(key: &str, integer: c_int) -> Info {
    let mut name = [0; sys::KEY_BYTES];
    for (to, from) in name.iter_mut().zip(key.bytes()) {
        *to = from as c_char;
    }
    let value = Value { data_type: sys::TYPE_INT, data: Data { integer } };
    Info { key: name, flags: 0, value }
}

fn c_text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::Text(text.to_owned()))
}

/// # Safety
/// `text` is null or ends with a zero byte.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
