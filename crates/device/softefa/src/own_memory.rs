//! Reads memory of this process that may not be there any more: the kernel finds out.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use crate::memory::{self, Piece};
use crate::process;

/// The kernel does not offer `process_vm_readv(2)` (a sandbox): memory is copied by
/// [`crate::memory`].
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Appends the bytes of `pieces`, registered memory, to `out`; `false` when some are not there.
pub(crate) fn append(pieces: impl Iterator<Item = Piece>, out: &mut Vec<u8>) -> bool {
    pieces.into_iter().all(|piece| append_one(piece, out))
}

/// All of `bytes` as payload.
pub(crate) fn whole(bytes: &[u8]) -> std::option::IntoIter<Piece> {
    Some(Piece { addr: bytes.as_ptr() as usize as u64, len: bytes.len() }).into_iter()
}

fn append_one(piece: Piece, out: &mut Vec<u8>) -> bool {
    if piece.len == 0 {
        return true;
    }
    if !IS_REFUSED.load(Ordering::Relaxed) {
        out.reserve(piece.len);
        let room = out.spare_capacity_mut();
        let to = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: piece.len };
        let from = libc::iovec { iov_base: piece.addr as usize as *mut _, iov_len: piece.len };
        let pid = process::own_id() as libc::pid_t;
        // SAFETY: writes to the vector's spare room, which has `piece.len` bytes; what it reads the
        // kernel checks.
        let got = unsafe { libc::process_vm_readv(pid, &raw const to, 1, &raw const from, 1, 0) };
        if usize::try_from(got) == Ok(piece.len) {
            // SAFETY: the kernel has just filled them.
            unsafe { out.set_len(out.len() + piece.len) };
            return true;
        }
        let error = std::io::Error::last_os_error().raw_os_error();
        match error {
            _ if got >= 0 => return false,
            Some(libc::EFAULT) => return false,
            Some(libc::ENOSYS | libc::EPERM) => IS_REFUSED.store(true, Ordering::Relaxed),
            // Short of memory, say: this once without the kernel.
            _ => {}
        }
    }
    memory::copy_out(piece.addr, piece.len, out).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read_and_what_is_not_is_said() {
        let memory = [7u8; 100];
        let mut out = vec![1];
        assert!(append(whole(&memory), &mut out));
        assert_eq!(out, [&[1][..], &memory].concat());
        assert!(append(whole(&[]), &mut out));
        let nowhere = Piece { addr: 4096, len: 10 };
        assert!(!append([nowhere].into_iter(), &mut out));
        assert_eq!(out.len(), 101);
    }
}
