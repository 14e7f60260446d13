//! The one instruction that touches registered memory.
//!
//! A copy is a single `rep movsb`, because a fault in it leaves the registers as the bytes that are
//! left: the handler of [`super::signals`] steps over the instruction, and the function returns how
//! many were not copied. Processors that announce FSRM and ERMS copy that way as fast as `memcpy`
//! does. The compiler does not see these accesses, so peers that change the memory meanwhile make no
//! data race of it. Elsewhere than on x86-64 a copy is plain, and unmapped memory ends the program.
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
    "softefa_guarded_copy:",
    ".cfi_startproc",
    "mov rcx, rdx",
    "softefa_guarded_copy_fault:",
    "rep movsb",
    "softefa_guarded_copy_end:",
    "mov rax, rcx",
    "ret",
    ".cfi_endproc",
    ".size softefa_guarded_copy, . - softefa_guarded_copy",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    /// Copies `len` bytes; how many it could not.
    fn softefa_guarded_copy(to: *mut u8, from: *const u8, len: usize) -> usize;
    static softefa_guarded_copy_fault: u8;
    static softefa_guarded_copy_end: u8;
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

/// Copies `len` bytes between registered memory and memory of ours.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn guarded(to: *mut u8, from: *const u8, len: usize) -> Result<(), Gone> {
    // SAFETY: one side is memory of ours that the caller holds; the other lies in a registered
    // region with the right for this access, which the program promised to keep until the completion.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    Ok(())
}

/// Ends the copy in which the thread of `context` met a hole; `false` when it did something else.
#[cfg(target_arch = "x86_64")]
pub(super) fn end_faulted(context: &mut libc::ucontext_t) -> bool {
    let at = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let (fault, end) = (&raw const softefa_guarded_copy_fault, &raw const softefa_guarded_copy_end);
    let is_copy = *at == fault as i64;
    if is_copy {
        *at = end as i64;
    }
    is_copy
}

/// Ends the copy in which the thread of `context` met a hole; `false` when it did something else.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn end_faulted(_context: &mut libc::ucontext_t) -> bool {
    false
}
