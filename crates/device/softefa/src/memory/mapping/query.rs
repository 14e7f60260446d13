//! `PROCMAP_QUERY` (Linux 6.11, `linux/fs.h`): one mapping without the text of all.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;

use super::{Mapping, Unknown};

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: u64 =
    3 << 30 | (size_of::<ProcmapQuery>() as u64) << 16 | (b'f' as u64) << 8 | 17;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;

/// The mapping that covers `at`, by an open `/proc/self/maps`.
pub(super) fn covering(maps: &File, at: u64) -> Result<Option<Mapping>, Unknown> {
    let size = size_of::<ProcmapQuery>() as u64;
    let mut query = ProcmapQuery { size, query_addr: at, ..ProcmapQuery::default() };
    // SAFETY: the structure has the size it names; without room for names the kernel writes nothing
    // beside it.
    let code = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) };
    if code != 0 {
        let is_hole = io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT);
        return if is_hole { Ok(None) } else { Err(Unknown) };
    }
    Ok(Some(Mapping {
        start: query.vma_start,
        end: query.vma_end,
        is_readable: query.vma_flags & READABLE != 0,
        is_writable: query.vma_flags & WRITABLE != 0,
    }))
}
