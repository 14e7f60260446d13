//! The program's descriptors of the device.
//!
//! Each is an eventfd that counts when events wait. A thread that waits for an event sleeps in a
//! `read` of it, as it would in the kernel: interrupted, restarted and cancelled in the same way.
//! So the count may be gone before its event is, and whoever took it counts again when more events
//! wait.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::os::fd::RawFd;
use std::sync::OnceLock;

use cm::ids::ChannelId;
use libc::{O_ACCMODE, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NONBLOCK, O_RDONLY};
use softefa::Generation;

use super::calls;
use super::manager;
use super::marks::CHANNELS;
use crate::devnode::{self, Node};
use crate::errno::Errno;
use crate::panic;

/// The first process that opened the device; its children may have inherited descriptors.
static OPENED_IN: OnceLock<Generation> = OnceLock::new();

/// The meaning of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) channel: ChannelId,
    /// It was opened for writing, so that commands may be written to it.
    pub(super) is_writable: bool,
}

/// An open file of the device, which several descriptors may stand for.
#[derive(Debug, Default)]
struct File {
    fds: Vec<RawFd>,
    /// Its eventfd may have a count.
    is_signalled: bool,
}

#[derive(Debug, Default)]
pub(super) struct Channels {
    by_fd: BTreeMap<RawFd, Access>,
    files: BTreeMap<ChannelId, File>,
}

impl Channels {
    pub(super) fn find(&self, fd: RawFd) -> Option<Access> {
        self.by_fd.get(&fd).copied()
    }

    /// Returns a descriptor of a file, `preferred` if it is one.
    pub(super) fn any_of(&self, channel: ChannelId, preferred: RawFd) -> Option<(RawFd, Access)> {
        let fds = &self.files.get(&channel)?.fds;
        let fd = fds.iter().find(|fd| **fd == preferred).or_else(|| fds.first())?;
        Some((*fd, self.find(*fd)?))
    }

    pub(super) fn all(&self) -> Vec<ChannelId> {
        self.files.keys().copied().collect()
    }

    /// Adds a descriptor; `false` when its number is too high.
    pub(super) fn add(&mut self, fd: RawFd, access: Access) -> bool {
        if !CHANNELS.add(fd) {
            return false;
        }
        self.by_fd.insert(fd, access);
        self.files.entry(access.channel).or_default().fds.push(fd);
        true
    }

    /// Removes a descriptor; returns the channel if it was the last one.
    pub(super) fn remove(&mut self, fd: RawFd) -> Option<ChannelId> {
        CHANNELS.remove(fd);
        let channel = self.by_fd.remove(&fd)?.channel;
        let file = self.files.get_mut(&channel)?;
        file.fds.retain(|open| *open != fd);
        if !file.fds.is_empty() {
            return None;
        }
        self.files.remove(&channel);
        Some(channel)
    }

    /// Makes the descriptors readable, because events wait.
    pub(super) fn signal(&mut self, channel: ChannelId) {
        let Some(file) = self.files.get_mut(&channel) else { return };
        file.is_signalled = true;
        if let Some(fd) = file.fds.first() {
            count_one(*fd);
        }
    }

    /// Makes the descriptors unreadable, because no event waits.
    pub(super) fn clear_signal(&mut self, channel: ChannelId) {
        let Some(file) = self.files.get_mut(&channel).filter(|file| file.is_signalled) else {
            return;
        };
        file.is_signalled = false;
        if let Some(fd) = file.fds.first() {
            count_none(*fd);
        }
    }
}

/// Adds one to an eventfd. Not by `write`, which this library stands in front of. One that counts
/// as far as it can, because the program has written there by `writev`, would block; it is readable
/// anyway.
fn count_one(fd: RawFd) {
    let mut room = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one structure of the length given.
    if unsafe { libc::poll(&raw mut room, 1, 0) } != 1 {
        return;
    }
    // SAFETY: 8 bytes, as an eventfd takes.
    unsafe { libc::syscall(libc::SYS_write, fd, (&raw const ONE).cast::<u8>(), size_of::<u64>()) };
}

static ONE: u64 = 1;

/// Takes the count of an eventfd, and does not wait if another thread has taken it.
fn count_none(fd: RawFd) {
    let mut count = 0_u64;
    let room = libc::iovec { iov_base: (&raw mut count).cast(), iov_len: size_of::<u64>() };
    // SAFETY: one piece of memory of the length given.
    let done = unsafe { libc::preadv2(fd, &raw const room, 1, -1, libc::RWF_NOWAIT) };
    if done < 0 && Errno::last() == Errno::EOPNOTSUPP {
        // Kernels before 5.8. A thread that takes the count in between lets this one wait for the
        // next event.
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure; then 8 bytes, the size of the variable.
        unsafe {
            if libc::poll(&raw mut poll, 1, 0) == 1 {
                libc::read(fd, (&raw mut count).cast(), size_of::<u64>());
            }
        }
    }
}

/// Returns the error for a descriptor of another process, which is the parent's.
pub(super) fn inherited() -> Errno {
    // This logs the mistake, once.
    let _ = OPENED_IN.get().is_some_and(|generation| generation.is_usable());
    Errno::ENODEV
}

/// Opens a descriptor of the device, as `open` returns it.
pub(crate) fn open(flags: c_int) -> c_int {
    panic::count(|| {
        if flags & O_DIRECTORY != 0 {
            return Err(Errno(libc::ENOTDIR));
        }
        if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL {
            return Err(Errno(libc::EEXIST));
        }
        let kept = |flag, of| if flags & flag == 0 { 0 } else { of };
        let how = kept(O_CLOEXEC, libc::EFD_CLOEXEC) | kept(O_NONBLOCK, libc::EFD_NONBLOCK);
        let manager = manager::of_process()?;
        // SAFETY: has no precondition; the result is checked.
        let fd = unsafe { libc::eventfd(0, how) };
        if fd < 0 {
            return Err(Errno::last());
        }
        let _ = OPENED_IN.set(Generation::current());
        let mut state = manager.lock();
        let channel = state.ids.open();
        let is_writable = flags & O_ACCMODE != O_RDONLY;
        if !state.host.channels.add(fd, Access { channel, is_writable }) {
            state.close(manager.now(), channel);
            calls::close_next(fd);
            return Err(Errno(libc::EMFILE));
        }
        Ok(fd)
    })
}

/// Closes a descriptor of ours. The last one of a file destroys its ids.
pub(super) fn close(fd: RawFd) -> c_int {
    panic::count(|| {
        let Some(manager) = manager::current() else {
            CHANNELS.remove(fd);
            return result(calls::close_next(fd));
        };
        let now = manager.now();
        let mut state = manager.lock();
        refuse_writes(fd);
        state.release_descriptor(now, fd);
        // Before another thread can open a descriptor of that number and have it counted.
        let closed = calls::close_next(fd);
        state.settle(now);
        result(closed)
    })
}

/// Whether `fd` may still be the descriptor that was marked. `fclose`, io_uring and system calls of
/// the program's own close without asking, and its number is soon that of another file.
pub(super) fn is_still(fd: RawFd) -> bool {
    // SAFETY: all-zero bytes are a valid structure of numbers, which is written; the result is
    // checked.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        // An eventfd has no name, and so no type.
        libc::syscall(libc::SYS_fstat, fd, &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == 0
    }
}

/// Forgets a descriptor that was closed behind our back.
pub(super) fn forget(fd: RawFd) {
    let _ = panic::code(|| {
        let Some(manager) = manager::current() else {
            CHANNELS.remove(fd);
            return Ok(());
        };
        let now = manager.now();
        let mut state = manager.lock();
        // Another thread may have opened the device since.
        if !is_still(fd) {
            state.release_descriptor(now, fd);
            state.settle(now);
        }
        Ok(())
    });
}

/// Makes the kernel refuse writes to `fd` with `EBADF`. Once its mark is gone, a write of another
/// thread would reach the eventfd, which accepts it or fails with `EINVAL`.
fn refuse_writes(fd: RawFd) {
    // SAFETY: a path that ends with zero, and descriptors of ours; the result is checked.
    unsafe {
        let path = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, c"/".as_ptr(), PATH_ONLY);
        // Without a free descriptor the short race remains.
        if path >= 0 {
            libc::syscall(libc::SYS_dup3, path, fd, O_CLOEXEC);
            libc::syscall(libc::SYS_close, path);
        }
    }
}

/// A descriptor that can be neither read nor written.
const PATH_ONLY: c_int = libc::O_PATH | O_CLOEXEC;

/// As [`close`], of all descriptors from `first` to `last`, by `call`.
pub(super) fn close_all(first: u32, last: u32, call: impl FnOnce() -> c_int) -> c_int {
    panic::count(|| {
        let among = |fd: &RawFd| (first..=last).contains(&(*fd as c_uint));
        let Some(manager) = manager::current() else {
            CHANNELS.all().filter(among).for_each(|fd| CHANNELS.remove(fd));
            return result(call());
        };
        let now = manager.now();
        let mut state = manager.lock();
        for fd in CHANNELS.all().filter(among) {
            state.release_descriptor(now, fd);
        }
        let closed = call();
        state.settle(now);
        result(closed)
    })
}

/// Makes another descriptor stand for the file of `from`, by `call`: `onto`, which is closed first,
/// or any that is free. Nothing is counted meanwhile.
pub(super) fn duplicate(from: RawFd, onto: Option<RawFd>, call: impl FnOnce() -> c_int) -> c_int {
    panic::count(|| {
        let Some(manager) = manager::current() else {
            return duplicate_inherited(from, onto, call);
        };
        let now = manager.now();
        let mut state = manager.lock();
        // Before its number means another file.
        if let Some(onto) = onto.filter(|onto| *onto != from && is_open(from)) {
            state.release_descriptor(now, onto);
        }
        let to = result(call())?;
        let access = state.host.channels.find(from);
        if let Some(access) = access.filter(|_| to != from) {
            if !state.host.channels.add(to, access) {
                calls::close_next(to);
                return Err(Errno(libc::EMFILE));
            }
        }
        state.settle(now);
        Ok(to)
    })
}

fn duplicate_inherited(
    from: RawFd,
    onto: Option<RawFd>,
    call: impl FnOnce() -> c_int,
) -> Result<c_int, Errno> {
    let to = result(call())?;
    if onto.is_some() && to != from {
        CHANNELS.remove(to);
    }
    if CHANNELS.has(from) {
        CHANNELS.add(to);
    }
    Ok(to)
}

fn is_open(fd: RawFd) -> bool {
    // SAFETY: has no precondition.
    unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD) >= 0 }
}

fn result(code: c_int) -> Result<c_int, Errno> {
    if code < 0 { Err(Errno::last()) } else { Ok(code) }
}

/// Writes the `stat` structure of the device.
///
/// # Safety
/// `out` is writable.
pub(super) unsafe fn write_stat(out: *mut libc::stat) -> c_int {
    // SAFETY: as this function demands.
    unsafe { devnode::write_stat(Node::RdmaCm, out) }
}

/// Returns whether `fd` blocks, as the program last set it.
pub(super) fn blocks(fd: RawFd) -> bool {
    // SAFETY: has no precondition.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
    flags & libc::c_long::from(O_NONBLOCK) == 0
}
