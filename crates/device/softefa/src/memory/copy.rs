//! The instructions that touch registered memory.
//!
//! A copy is a single `rep movsb`, because a fault in it leaves the registers as the bytes that are
//! left: the handler of [`super::signals`] steps over the instruction, and the function returns how
//! many were not copied. Processors that announce FSRM and ERMS copy that way as fast as `memcpy`
//! does, once it has begun. Up to 128 bytes are moved by a few loads and stores instead, the loads
//! before the first store; a fault in one of them ends the copy. The compiler does not see these
//! accesses, so peers that change the memory meanwhile make no data race of it. Elsewhere than on
//! x86-64 a copy is plain, and unmapped memory ends the program.
#![allow(unsafe_code)]

use super::Gone;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.softefa_guarded_copy,\"ax\",@progbits",
    ".globl softefa_guarded_copy",
    ".hidden softefa_guarded_copy",
    ".type softefa_guarded_copy,@function",
    ".globl softefa_guarded_copy_fault",
    ".hidden softefa_guarded_copy_fault",
    ".globl softefa_guarded_copy_end",
    ".hidden softefa_guarded_copy_end",
    ".globl softefa_guarded_copy_short",
    ".hidden softefa_guarded_copy_short",
    ".globl softefa_guarded_copy_failed",
    ".hidden softefa_guarded_copy_failed",
    "softefa_guarded_copy:",
    ".cfi_startproc",
    "cmp rdx, 128",
    "jbe 2f",
    "mov rcx, rdx",
    "softefa_guarded_copy_fault:",
    "rep movsb",
    "softefa_guarded_copy_end:",
    "mov rax, rcx",
    "ret",
    // Pieces from both ends, which overlap where the length is none of theirs. Nothing is on the
    // stack.
    "softefa_guarded_copy_short:",
    "2:",
    "cmp rdx, 16",
    "jb 5f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "cmp rdx, 32",
    "jbe 4f",
    "movups xmm2, [rsi + 16]",
    "movups xmm3, [rsi + rdx - 32]",
    "cmp rdx, 64",
    "jbe 3f",
    "movups xmm4, [rsi + 32]",
    "movups xmm5, [rsi + 48]",
    "movups xmm6, [rsi + rdx - 64]",
    "movups xmm7, [rsi + rdx - 48]",
    "movups [rdi + 32], xmm4",
    "movups [rdi + 48], xmm5",
    "movups [rdi + rdx - 64], xmm6",
    "movups [rdi + rdx - 48], xmm7",
    "3:",
    "movups [rdi + 16], xmm2",
    "movups [rdi + rdx - 32], xmm3",
    "4:",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "xor eax, eax",
    "ret",
    "5:",
    "cmp edx, 8",
    "jb 6f",
    "mov rax, [rsi]",
    "mov rcx, [rsi + rdx - 8]",
    "mov [rdi], rax",
    "mov [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "6:",
    "cmp edx, 4",
    "jb 7f",
    "mov eax, [rsi]",
    "mov ecx, [rsi + rdx - 4]",
    "mov [rdi], eax",
    "mov [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "7:",
    "test edx, edx",
    "jz 8f",
    // The first, the middle and the last of one to three.
    "mov r8, rdx",
    "shr r8, 1",
    "movzx eax, byte ptr [rsi]",
    "movzx r9d, byte ptr [rsi + r8]",
    "movzx ecx, byte ptr [rsi + rdx - 1]",
    "mov [rdi], al",
    "mov [rdi + r8], r9b",
    "mov [rdi + rdx - 1], cl",
    "8:",
    "xor eax, eax",
    "ret",
    // Compares 8 bytes at rdi with those at rsi and stores rdx when they are equal; else shows what
    // was there.
    ".globl softefa_guarded_swap",
    ".hidden softefa_guarded_swap",
    "softefa_guarded_swap:",
    "mov rax, [rsi]",
    "lock cmpxchg [rdi], rdx",
    "jne 9f",
    "xor eax, eax",
    "ret",
    "9:",
    "mov [rsi], rax",
    "mov eax, 2",
    "ret",
    "softefa_guarded_copy_failed:",
    "mov eax, 1",
    "ret",
    ".cfi_endproc",
    ".size softefa_guarded_copy, . - softefa_guarded_copy",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    /// Copies `len` bytes; 0 when it could.
    fn softefa_guarded_copy(to: *mut u8, from: *const u8, len: usize) -> usize;
    /// Swaps when `expected` is there; 0 when it did, 1 when there is a hole, 2 when `expected` was
    /// changed to what is there.
    fn softefa_guarded_swap(at: *mut u64, expected: *mut u64, new: u64) -> usize;
    static softefa_guarded_copy_fault: u8;
    static softefa_guarded_copy_end: u8;
    static softefa_guarded_copy_short: u8;
    static softefa_guarded_copy_failed: u8;
}

/// Copies `len` bytes between registered memory and memory of ours.
#[cfg(target_arch = "x86_64")]
pub(super) fn guarded(to: *mut u8, from: *const u8, len: usize) -> Result<(), Gone> {
    // SAFETY: one side is memory of ours that the caller holds; the other lies in a registered
    // region with the right for this access, and registering it is the program's promise that it
    // leaves the memory to the adapter until the completion. If it is not there, the copy stops.
    match unsafe { softefa_guarded_copy(to, from, len) } {
        0 => Ok(()),
        _ => Err(Gone),
    }
}

/// Stores `new` in 8 bytes of registered memory when they are `expected`, at once; else what is
/// there.
#[cfg(target_arch = "x86_64")]
pub(super) fn swap(at: *mut u64, expected: u64, new: u64) -> Result<Result<(), u64>, Gone> {
    let mut found = expected;
    // SAFETY: as in [`guarded`]; `found` is ours.
    match unsafe { softefa_guarded_swap(at, &raw mut found, new) } {
        0 => Ok(Ok(())),
        1 => Err(Gone),
        _ => Ok(Err(found)),
    }
}

/// Stores `new` in 8 bytes of registered memory when they are `expected`, at once; else what is
/// there.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn swap(at: *mut u64, expected: u64, new: u64) -> Result<Result<(), u64>, Gone> {
    use std::sync::atomic::{AtomicU64, Ordering};
    // SAFETY: as in [`guarded`]; the caller has checked the alignment.
    let word = unsafe { AtomicU64::from_ptr(at) };
    Ok(word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst).map(|_| ()))
}

/// Copies `len` bytes between registered memory and memory of ours.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn guarded(to: *mut u8, from: *const u8, len: usize) -> Result<(), Gone> {
    // SAFETY: one side is memory of ours that the caller holds; the other lies in a registered
    // region with the right for this access, which the program promised to keep until the
    // completion.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    Ok(())
}

/// Ends the copy in which the thread of `context` met a hole; `false` when it did something else.
#[cfg(target_arch = "x86_64")]
pub(super) fn end_faulted(context: &mut libc::ucontext_t) -> bool {
    let at = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let (fault, end) = (&raw const softefa_guarded_copy_fault, &raw const softefa_guarded_copy_end);
    let short = &raw const softefa_guarded_copy_short as i64;
    let failed = &raw const softefa_guarded_copy_failed as i64;
    let to = match *at {
        here if here == fault as i64 => end as i64,
        here if (short..failed).contains(&here) => failed,
        _ => return false,
    };
    *at = to;
    true
}

/// Ends the copy in which the thread of `context` met a hole; `false` when it did something else.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn end_faulted(_context: &mut libc::ucontext_t) -> bool {
    false
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::memory::signals;

    const PAGE: usize = 4096;

    /// A page that is there, one that may only be read, and one that is not.
    fn pages() -> *mut u8 {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping, of which parts are protected before anybody uses them.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), 3 * PAGE, rights, kind, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(at.byte_add(PAGE), PAGE, libc::PROT_READ), 0);
            assert_eq!(libc::mprotect(at.byte_add(2 * PAGE), PAGE, libc::PROT_NONE), 0);
            at.cast()
        }
    }

    #[test]
    fn every_length_is_copied_and_nothing_beside_it() {
        let from: Vec<u8> = (0..300).map(|i| (i * 7 + 1) as u8).collect();
        for len in 0..=260 {
            for (skew_to, skew_from) in [(0, 0), (1, 0), (0, 3), (13, 5)] {
                let mut to = vec![0; 300];
                let room = to[skew_to..].as_mut_ptr();
                assert_eq!(guarded(room, from[skew_from..].as_ptr(), len), Ok(()));
                assert_eq!(to[skew_to..skew_to + len], from[skew_from..skew_from + len]);
                let beside = to[..skew_to].iter().chain(&to[skew_to + len..]);
                assert!(beside.copied().all(|byte| byte == 0), "{len} bytes");
            }
        }
    }

    #[test]
    fn every_length_ends_at_a_hole() {
        signals::install();
        let pages = pages();
        let mut ours = [0; 300];
        for len in 1..=260 {
            for there in [0, len / 2, len - 1] {
                // SAFETY: inside of the mapping.
                let (written, read) = unsafe { (pages.add(PAGE), pages.add(2 * PAGE)) };
                // SAFETY: as above.
                let (to, from) = unsafe { (written.sub(there), read.sub(there)) };
                assert_eq!(guarded(to, ours.as_ptr(), len), Err(Gone), "{len}, {there} writable");
                assert_eq!(
                    guarded(ours.as_mut_ptr(), from, len),
                    Err(Gone),
                    "{len}, {there} there"
                );
            }
            // SAFETY: as above.
            let (to, from) = unsafe { (pages.add(PAGE - len), pages.add(2 * PAGE - len)) };
            assert_eq!(guarded(to, ours.as_ptr(), len), Ok(()));
            assert_eq!(guarded(ours.as_mut_ptr(), from, len), Ok(()));
        }
        // SAFETY: the mapping of above, which nobody uses any more.
        unsafe { libc::munmap(pages.cast(), 3 * PAGE) };
    }
}
