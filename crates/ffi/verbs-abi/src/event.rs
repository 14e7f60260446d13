use std::ffi::{c_int, c_void};

#[repr(C)]
pub struct ibv_async_event {
    /// One of several object pointers, or a port number.
    pub element: *mut c_void,
    pub event_type: c_int,
}
