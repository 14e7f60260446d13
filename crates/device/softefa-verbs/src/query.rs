//! Queries of a device, its port, its GID and its partition key.

use std::ffi::{c_int, c_uint};

use softefa::Adapter;

use crate::attr;
use crate::context::Context;
use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::sys::{
    IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V2, IBV_GID_TYPE_SYSFS_ROCE_V2, IBV_VALUES_MASK_RAW_CLOCK,
    ibv_context, ibv_device_attr, ibv_device_attr_ex, ibv_gid, ibv_gid_entry, ibv_port_attr,
    ibv_values_ex,
};

/// The number of the only port of a device.
const PORT: u32 = 1;
/// The default partition, full member, in network byte order.
const PKEY_BE: u16 = 0xffff;

/// Copies the first `len` bytes of `value`, and zeroes members that only a newer caller knows.
///
/// # Safety
/// `out` is null or has `len` writable bytes; `T` has no padding a reader may not see.
pub(crate) unsafe fn write_prefix<T>(out: *mut T, len: usize, value: &T) -> Result<(), Errno> {
    if out.is_null() {
        return Err(Errno::EINVAL);
    }
    let out = out.cast::<u8>();
    let known = len.min(size_of::<T>());
    // SAFETY: `known` bytes are inside both, which cannot overlap; the rest is inside `out`.
    unsafe {
        out.copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), known);
        out.add(known).write_bytes(0, len - known);
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    out: *mut ibv_device_attr,
) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes an open context.
        let attr = attr::device(&unsafe { handle::borrow::<Context>(context) }?.nic);
        // SAFETY: the program passes null or a structure of this size.
        unsafe { write_prefix(out, size_of::<ibv_device_attr>(), &attr) }
    })
}

pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const u32,
    out: *mut ibv_device_attr_ex,
    len: usize,
) -> c_int {
    panic::code(|| {
        // SAFETY: null, or an input structure, whose only member is its mask.
        if unsafe { input.as_ref() }.is_some_and(|comp_mask| *comp_mask != 0) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program passes an open context.
        let attr = attr::device_ex(&unsafe { handle::borrow::<Context>(context) }?.nic);
        // SAFETY: the inline caller passes a structure of `len` bytes.
        unsafe { write_prefix(out, len, &attr) }
    })
}

pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    out: *mut ibv_port_attr,
    len: usize,
) -> c_int {
    panic::code(|| {
        if u32::from(port) != PORT {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program passes an open context.
        let attr = attr::port(unsafe { handle::borrow::<Context>(context) }?.nic.attr());
        // SAFETY: the inline caller passes a structure of `len` bytes.
        unsafe { write_prefix(out, len, &attr) }
    })
}

/// Returns the clock of completion times in the form of hardware: a number of cycles, which here
/// are nanoseconds.
pub(crate) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes an open context.
        unsafe { handle::borrow::<Context>(context) }?;
        // SAFETY: null, or a structure of the program.
        let values = unsafe { values.as_mut() }.ok_or(Errno::EINVAL)?;
        if values.comp_mask & !IBV_VALUES_MASK_RAW_CLOCK != 0 {
            return Err(Errno::EINVAL);
        }
        if values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK != 0 {
            let tv_nsec = softefa::Cq::device_clock_ns() as i64;
            values.raw_clock = libc::timespec { tv_sec: 0, tv_nsec };
        }
        Ok(())
    })
}

/// The symbol for programs that do not know `port_cap_flags2` and the members behind it.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    out: *mut ibv_port_attr,
) -> c_int {
    const COMPAT_BYTES: usize = std::mem::offset_of!(ibv_port_attr, port_cap_flags2);
    // SAFETY: same contract, for a structure without the newest member.
    unsafe { query_port(context, port, out, COMPAT_BYTES) }
}

/// The speed in units of 100 Mb/s.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes an open context.
        let attr = unsafe { handle::borrow::<Context>(context) }?.nic.attr();
        if port != PORT || speed.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: checked for null, and a number as the program says.
        unsafe { speed.write(attr::port_speed(attr)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    panic::count(|| {
        // SAFETY: the program passes an open context.
        let context = unsafe { handle::borrow::<Context>(context) }?;
        let indexes = 0..c_int::from(context.nic.attr().gids());
        if u32::from(port) != PORT || !indexes.contains(&index) || gid.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: checked for null, and a GID as the program says.
        unsafe { gid.write(ibv_gid { raw: context.nic.gid().0 }) };
        Ok(0)
    })
}

fn gid_entry(context: &Context, gid_index: u32) -> ibv_gid_entry {
    let nic = &context.nic;
    let (gid_type, ndev_ifindex) = match nic.adapter() {
        Adapter::Efa => (IBV_GID_TYPE_IB, 0),
        Adapter::Roce => (IBV_GID_TYPE_ROCE_V2, nic.netdev().map_or(0, |netdev| netdev.index)),
    };
    let gid = ibv_gid { raw: nic.gid().0 };
    ibv_gid_entry { gid, gid_index, port_num: PORT, gid_type, ndev_ifindex }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    out: *mut ibv_gid_entry,
    flags: u32,
    len: usize,
) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes an open context.
        let context = unsafe { handle::borrow::<Context>(context) }?;
        if port != PORT || flags != 0 {
            return Err(Errno::EINVAL);
        }
        if index >= u32::from(context.nic.attr().gids()) {
            return Err(Errno(libc::ENODATA));
        }
        // SAFETY: the inline caller passes an entry of `len` bytes.
        unsafe { write_prefix(out, len, &gid_entry(context, index)) }
    })
}

/// Returns the number of entries written, or a negative errno value.
#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    len: usize,
) -> isize {
    let mut count = 0;
    let written = panic::code(|| {
        // SAFETY: the program passes an open context.
        let context = unsafe { handle::borrow::<Context>(context) }?;
        let gids = u32::from(context.nic.attr().gids());
        // The kernel does not write a part of the table either.
        if flags != 0 || max_entries < gids as usize {
            return Err(Errno::EINVAL);
        }
        for index in 0..gids {
            // SAFETY: the program has room for that many entries of `len` bytes.
            let entry = unsafe { entries.byte_add(index as usize * len) };
            // SAFETY: as above.
            unsafe { write_prefix(entry, len, &gid_entry(context, index)) }?;
        }
        count = gids as isize;
        Ok(())
    });
    if written == 0 { count } else { -(written as isize) }
}

/// A private function of libibverbs that `ibv_devinfo` uses nevertheless.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid_type(
    context: *mut ibv_context,
    port: u8,
    index: c_uint,
    gid_type: *mut c_uint,
) -> c_int {
    panic::count(|| {
        // SAFETY: the program passes an open context.
        let nic = &unsafe { handle::borrow::<Context>(context) }?.nic;
        let is_known = index < c_uint::from(nic.attr().gids());
        if u32::from(port) != PORT || !is_known || gid_type.is_null() {
            return Err(Errno::EINVAL);
        }
        let known = match nic.adapter() {
            Adapter::Efa => IBV_GID_TYPE_IB,
            Adapter::Roce => IBV_GID_TYPE_SYSFS_ROCE_V2,
        };
        // SAFETY: checked for null, and an enumeration as the program says.
        unsafe { gid_type.write(known) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_pkey(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    panic::count(|| {
        if u32::from(port) != PORT || index != 0 || pkey.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: checked for null, and a partition key as the program says.
        unsafe { pkey.write(PKEY_BE) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_pkey_index(_context: *mut ibv_context, port: u8, pkey_be: u16) -> c_int {
    panic::count(|| {
        if u32::from(port) == PORT && pkey_be == PKEY_BE { Ok(0) } else { Err(Errno::EINVAL) }
    })
}
