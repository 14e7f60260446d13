//! Functions that no device supports: imported objects, counters, raw queue access. They fail with
//! `EOPNOTSUPP`, as on the real device.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::errno::Errno;
use crate::sys::{ibv_context, ibv_mr, ibv_pd, ibv_qp};

fn null<T>() -> *mut T {
    Errno::EOPNOTSUPP.store();
    ptr::null_mut()
}

/// Functions that return an errno value; their arguments are ignored.
macro_rules! refuse {
    ($($name:ident($($argument:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) -> c_int {
            libc::EOPNOTSUPP
        })*
    };
}

/// Functions that return a pointer, and so null.
macro_rules! refuse_pointer {
    ($($name:ident($($argument:ty),*) -> $type:ty;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) -> *mut $type {
            null()
        })*
    };
}

refuse! {
    ibv_resolve_eth_l2_from_gid(*mut ibv_context, *mut c_void, *mut u8, *mut u16);
    ibv_query_ece(*mut ibv_qp, *mut c_void);
    ibv_set_ece(*mut ibv_qp, *mut c_void);
    _ibv_query_comp_cntr_caps(*mut ibv_context, *mut c_void, usize);
    ibv_destroy_comp_cntr(*mut c_void);
    ibv_set_comp_cntr(*mut c_void, u64);
    ibv_set_err_comp_cntr(*mut c_void, u64);
    ibv_inc_comp_cntr(*mut c_void, u64);
    ibv_inc_err_comp_cntr(*mut c_void, u64);
    ibv_read_comp_cntr(*mut c_void, *mut u64);
    ibv_read_err_comp_cntr(*mut c_void, *mut u64);
    ibv_qp_attach_comp_cntr(*mut ibv_qp, *mut c_void, *mut c_void);
    ibv_dealloc_dmah(*mut c_void);
    efadv_query_cq(*mut c_void, *mut c_void, u32);
    efadv_query_qp_wqs(*mut ibv_qp, *mut c_void, *mut c_void, u32);
}

refuse_pointer! {
    ibv_import_pd(*mut ibv_context, u32) -> ibv_pd;
    ibv_import_mr(*mut ibv_pd, u32) -> ibv_mr;
    ibv_import_dm(*mut ibv_context, u32) -> c_void;
    ibv_reg_mr_ex(*mut ibv_pd, *mut c_void) -> ibv_mr;
    ibv_create_comp_cntr(*mut ibv_context, *mut c_void) -> c_void;
    ibv_alloc_dmah(*mut ibv_context, *mut c_void) -> c_void;
    ibv_alloc_buf(*mut ibv_pd, usize, *mut *mut c_void) -> c_void;
    ibv_reg_buf_mr(*mut ibv_pd, *mut c_void, *mut c_void, usize, c_int) -> ibv_mr;
    efadv_create_comp_cntr(*mut ibv_context, *mut c_void, *mut c_void, u32) -> c_void;
}

/// Nothing can have been imported.
#[unsafe(no_mangle)]
extern "C" fn ibv_unimport_pd(_pd: *mut ibv_pd) {}

/// Nothing can have been imported.
#[unsafe(no_mangle)]
extern "C" fn ibv_unimport_mr(_mr: *mut ibv_mr) {}

/// Nothing can have been imported.
#[unsafe(no_mangle)]
extern "C" fn ibv_unimport_dm(_dm: *mut c_void) {}

/// No buffer can have been allocated.
#[unsafe(no_mangle)]
extern "C" fn ibv_free_buf(_buf: *mut c_void) {}

/// Functions that return a file descriptor, and so -1.
macro_rules! refuse_descriptor {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(_object: *mut c_void) -> c_int {
            Errno::EOPNOTSUPP.store();
            -1
        })*
    };
}

refuse_descriptor! { ibv_dm_export_dmabuf_fd ibv_export_buf_dmabuf_fd }

/// Drivers are not loaded into this library.
#[unsafe(no_mangle)]
extern "C" fn ibv_register_driver(_name: *const c_void, _init: *mut c_void) {}
