//! Registered memory: whether it is there, and the copies into and out of it.
//!
//! Hardware pins what is registered. This adapter runs in the program, which may unmap or protect
//! registered memory behind its back. Registration therefore checks what the kernel would pin
//! ([`mapping`]), and a copy that meets a hole ends with [`Gone`] instead of ending the program
//! ([`copy`], [`signals`]).

mod copy;
pub(crate) mod mapping;
pub(crate) mod signals;

/// Registered memory is not mapped, or not for this access, any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// A run of memory, registered or of ours.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) len: usize,
}

/// Copies `data` to registered memory at `addr`. After [`Gone`] a part of it may have been written.
pub(crate) fn copy_in(addr: u64, data: &[u8]) -> Result<(), Gone> {
    copy::guarded(addr as usize as *mut u8, data.as_ptr(), data.len())
}

/// Has the processor fetch the line at `addr`, which need not be there, before it is written.
#[inline]
#[allow(unsafe_code)]
pub(crate) fn prefetch(addr: u64) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which neither faults nor changes anything wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(addr as usize as *const i8) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = addr;
}

/// Appends `len` bytes of registered memory at `addr` to `out`, which [`Gone`] leaves as it was.
#[allow(unsafe_code)]
pub(crate) fn copy_out(addr: u64, len: usize, out: &mut Vec<u8>) -> Result<(), Gone> {
    out.reserve(len);
    let room = out.spare_capacity_mut().as_mut_ptr().cast();
    copy::guarded(room, addr as usize as *const u8, len)?;
    // SAFETY: the spare room has at least `len` bytes, and the copy has filled them.
    unsafe { out.set_len(out.len() + len) };
    Ok(())
}

/// Copies `len` bytes of registered memory at `from` to memory of ours, or shared with another
/// process, at `to`. After [`Gone`] a part of it may have been written.
pub(crate) fn copy_to(to: u64, from: u64, len: usize) -> Result<(), Gone> {
    copy::guarded(to as usize as *mut u8, from as usize as *const u8, len)
}

/// Replaces 8 bytes of registered memory at `addr`, a multiple of 8, by what `next` makes of them,
/// at once as all other processors see it; what was there.
pub(crate) fn update(addr: u64, next: impl Fn(u64) -> u64) -> Result<u64, Gone> {
    let mut found = 0;
    loop {
        match copy::swap(addr as usize as *mut u64, found, next(found))? {
            Ok(()) => return Ok(found),
            Err(other) => found = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_appended() {
        let memory = [7u8; 100];
        let mut out = vec![1];
        assert_eq!(copy_out(memory.as_ptr() as usize as u64, 100, &mut out), Ok(()));
        assert_eq!(out, [&[1][..], &memory].concat());
    }

    #[test]
    fn words_are_updated_at_once() {
        let word = std::sync::atomic::AtomicU64::new(0);
        let addr = word.as_ptr() as usize as u64;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        assert!(update(addr, |found| found + 3).is_ok());
                    }
                });
            }
        });
        assert_eq!(update(addr, |_| 7), Ok(120_000));
        assert_eq!(word.into_inner(), 7);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_is_gone_is_said() {
        signals::install();
        let mut out = vec![1];
        assert_eq!(copy_out(4096, 10, &mut out), Err(Gone));
        assert_eq!(out, [1]);
        assert_eq!(copy_in(4096, &[1, 2, 3]), Err(Gone));
        assert_eq!(update(4096, |found| found), Err(Gone));
        // Bytes of the program itself cannot be written.
        let code = what_is_gone_is_said as fn() as usize as u64;
        assert_eq!(copy_in(code, &[0]), Err(Gone));
        assert_eq!(copy_in(0, &[]), Ok(()), "nothing is touched");
    }
}
