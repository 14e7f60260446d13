use std::ffi::{c_int, c_void};

#[repr(C)]
pub(crate) struct ibv_async_event {
    /// One of several object pointers, or a port number.
    pub(crate) element: *mut c_void,
    pub(crate) event_type: c_int,
}
