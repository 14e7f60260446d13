//! The header's inline functions, called through the objects' tables.
//!
//! Every function is `unsafe`: the object must be alive and every pointer must satisfy the manual
//! page of the C function of the same name. A missing table entry answers `-FI_ENOSYS`, as
//! `FI_CHECK_OP` does in C.

use std::ffi::{c_int, c_uint, c_void};

use crate::{
    FI_ENABLE, FI_GETWAIT, FI_OPT_ENDPOINT, fi_av_attr, fi_cq_attr, fi_cq_err_entry, fi_info,
    fi_msg, fi_msg_rma, fi_msg_tagged, fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric, fid_mr,
};

/// The code `ENOSYS`, returned for an operation that the provider's table lacks.
const FI_ENOSYS: c_int = 38;

/// Calls `$table.$op(args)` or answers `-FI_ENOSYS` when the provider has no such entry.
macro_rules! via {
    ($table:expr, $op:ident ( $($arg:expr),* )) => {{
        let table = $table;
        // SAFETY: the caller of the enclosing function promises a live object and valid arguments;
        // a live object's table pointer is valid for the object's life (null is checked).
        unsafe {
            match table.as_ref().and_then(|ops| ops.$op) {
                Some(f) => f($($arg),*),
                None => (-FI_ENOSYS).into_result(),
            }
        }
    }};
}

/// A conversion that lets [`via`] return from both `int` and `ssize_t` calls.
trait IntoResult<T> {
    fn into_result(self) -> T;
}
impl IntoResult<Self> for c_int {
    fn into_result(self) -> Self {
        self
    }
}
impl IntoResult<isize> for c_int {
    fn into_result(self) -> isize {
        self as isize
    }
}

/// Reads a field through an object pointer that the caller promises to be alive.
macro_rules! get {
    ($object:expr, $($field:ident).+) => {{
        let object = $object;
        // SAFETY: the caller of the enclosing function promises that the object is alive.
        unsafe { (*object).$($field).+ }
    }};
}

macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($first:ident: $ty:ty $(, $arg:ident: $aty:ty)*) -> $ret:ty
        = $($field:ident).+ => $op:ident ( $($pass:expr),* );)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The object must be alive and the pointers as the manual page of this call demands.
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "the C function's own arguments")]
        pub unsafe fn $name($first: $ty $(, $arg: $aty)*) -> $ret {
            via!(get!($first, $($field).+), $op($($pass),*))
        }
    )*};
}

calls! {
    /// Closes any object.
    fn fi_close(object: *mut fid) -> c_int = ops => close(object);
    /// Binds an address vector or completion queue to an endpoint.
    fn fi_bind(object: *mut fid, other: *mut fid, flags: u64) -> c_int
        = ops => bind(object, other, flags);
    /// Enables an endpoint.
    fn fi_enable(ep: *mut fid_ep) -> c_int
        = fid.ops => control(ep.cast(), FI_ENABLE, std::ptr::null_mut());
    /// Gets what an object's events are waited for with; `out` points at what its kind has.
    fn fi_get_wait(object: *mut fid, out: *mut c_void) -> c_int
        = ops => control(object, FI_GETWAIT, out);
    /// Returns whether it is safe to wait for these objects now.
    fn fi_trywait(fabric: *mut fid_fabric, objects: *mut *mut fid, count: c_int) -> c_int
        = ops => trywait(fabric, objects, count);
    /// Opens a domain.
    fn fi_domain(fabric: *mut fid_fabric, info: *mut fi_info, out: *mut *mut fid_domain) -> c_int
        = ops => domain(fabric, info, out, std::ptr::null_mut());
    /// Opens an address vector.
    fn fi_av_open(domain: *mut fid_domain, attr: *mut fi_av_attr, out: *mut *mut fid_av) -> c_int
        = ops => av_open(domain, attr, out, std::ptr::null_mut());
    /// Opens a completion queue.
    fn fi_cq_open(domain: *mut fid_domain, attr: *mut fi_cq_attr, out: *mut *mut fid_cq) -> c_int
        = ops => cq_open(domain, attr, out, std::ptr::null_mut());
    /// Opens an endpoint.
    fn fi_endpoint(domain: *mut fid_domain, info: *mut fi_info, out: *mut *mut fid_ep) -> c_int
        = ops => endpoint(domain, info, out, std::ptr::null_mut());
    /// Registers memory.
    fn fi_mr_reg(domain: *mut fid_domain, buf: *const c_void, len: usize, access: u64, key: u64,
        out: *mut *mut fid_mr) -> c_int
        = mr => reg(domain.cast(), buf, len, access, 0, key, 0, out, std::ptr::null_mut());
    /// Inserts addresses; answers how many were inserted.
    fn fi_av_insert(av: *mut fid_av, addr: *const c_void, count: usize, out: *mut u64) -> c_int
        = ops => insert(av, addr, count, out, 0, std::ptr::null_mut());
    /// Reads up to `count` completions of the queue's format.
    fn fi_cq_read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize
        = ops => read(cq, buf, count);
    /// Reads the failed operation at the head of the queue.
    fn fi_cq_readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry) -> isize
        = ops => readerr(cq, buf, 0);
    /// Copies the endpoint's own address.
    fn fi_getname(ep: *mut fid_ep, addr: *mut c_void, len: *mut usize) -> c_int
        = cm => getname(ep.cast(), addr, len);
    /// Posts a receive.
    fn fi_recv(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src: u64,
        context: *mut c_void) -> isize
        = msg => recv(ep, buf, len, desc, src, context);
    /// Posts a send.
    fn fi_send(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest: u64,
        context: *mut c_void) -> isize
        = msg => send(ep, buf, len, desc, dest, context);
    /// Sends a small message; the buffer is free again on return, no completion follows.
    fn fi_inject(ep: *mut fid_ep, buf: *const c_void, len: usize, dest: u64) -> isize
        = msg => inject(ep, buf, len, dest);
    /// Posts a tagged receive.
    fn fi_trecv(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src: u64,
        tag: u64, ignore: u64, context: *mut c_void) -> isize
        = tagged => recv(ep, buf, len, desc, src, tag, ignore, context);
    /// Posts a tagged send.
    fn fi_tsend(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest: u64,
        tag: u64, context: *mut c_void) -> isize
        = tagged => send(ep, buf, len, desc, dest, tag, context);
    /// Sends a small tagged message; the buffer is free again on return.
    fn fi_tinject(ep: *mut fid_ep, buf: *const c_void, len: usize, dest: u64, tag: u64) -> isize
        = tagged => inject(ep, buf, len, dest, tag);
    /// Reads completions with the addresses of their senders, `FI_ADDR_UNSPEC` where not known.
    fn fi_cq_readfrom(cq: *mut fid_cq, buf: *mut c_void, count: usize, from: *mut u64) -> isize
        = ops => readfrom(cq, buf, count, from);
    /// Sets an option of an endpoint.
    fn fi_setopt(ep: *mut fid_ep, name: c_int, value: *const c_void, len: usize) -> c_int
        = ops => setopt(ep.cast(), FI_OPT_ENDPOINT, name, value, len);
    /// Posts a receive with flags.
    fn fi_recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize
        = msg => recvmsg(ep, msg, flags);
    /// Posts a send with flags.
    fn fi_sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize
        = msg => sendmsg(ep, msg, flags);
    /// Posts a tagged send with flags.
    fn fi_tsendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize
        = tagged => sendmsg(ep, msg, flags);
    /// Reads a peer's memory.
    fn fi_read(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, peer: u64,
        addr: u64, key: u64, context: *mut c_void) -> isize
        = rma => read(ep, buf, len, desc, peer, addr, key, context);
    /// Reads a peer's memory, with flags.
    fn fi_readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize
        = rma => readmsg(ep, msg, flags);
    /// Writes a peer's memory by copy; the buffer is free again on return, no completion follows.
    fn fi_inject_write(ep: *mut fid_ep, buf: *const c_void, len: usize, peer: u64, addr: u64,
        key: u64) -> isize
        = rma => inject(ep, buf, len, peer, addr, key);
    /// Writes a peer's memory.
    fn fi_write(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, peer: u64,
        addr: u64, key: u64, context: *mut c_void) -> isize
        = rma => write(ep, buf, len, desc, peer, addr, key, context);
    /// Writes a peer's memory, with flags.
    fn fi_writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize
        = rma => writemsg(ep, msg, flags);
    /// Changes a peer's memory atomically.
    fn fi_atomic(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, peer: u64,
        addr: u64, key: u64, datatype: c_uint, op: c_uint, context: *mut c_void) -> isize
        = atomic => write(ep, buf, count, desc, peer, addr, key, datatype, op, context);
    /// Changes a peer's memory atomically and fetches what it was.
    fn fi_fetch_atomic(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void,
        result: *mut c_void, result_desc: *mut c_void, peer: u64, addr: u64, key: u64,
        datatype: c_uint, op: c_uint, context: *mut c_void) -> isize
        = atomic => readwrite(ep, buf, count, desc, result, result_desc, peer, addr, key, datatype,
            op, context);
    /// Changes a peer's memory atomically where a comparison holds and fetches what it was.
    fn fi_compare_atomic(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void,
        compare: *const c_void, compare_desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, peer: u64, addr: u64, key: u64, datatype: c_uint, op: c_uint,
        context: *mut c_void) -> isize
        = atomic => compwrite(ep, buf, count, desc, compare, compare_desc, result, result_desc,
            peer, addr, key, datatype, op, context);
    /// Returns whether [`fi_atomic`] takes a datatype and an operation, and how many elements.
    fn fi_atomicvalid(ep: *mut fid_ep, datatype: c_uint, op: c_uint, count: *mut usize) -> c_int
        = atomic => writevalid(ep, datatype, op, count);
    /// Returns whether [`fi_fetch_atomic`] takes a datatype and an operation, and how many
    /// elements.
    fn fi_fetch_atomicvalid(ep: *mut fid_ep, datatype: c_uint, op: c_uint, count: *mut usize)
        -> c_int = atomic => readwritevalid(ep, datatype, op, count);
    /// Returns whether [`fi_compare_atomic`] takes a datatype and an operation, and how many
    /// elements.
    fn fi_compare_atomicvalid(ep: *mut fid_ep, datatype: c_uint, op: c_uint, count: *mut usize)
        -> c_int = atomic => compwritevalid(ep, datatype, op, count);
}
