//! The processor time of the service thread.
//!
//! A program that waits without system calls fills its processor. Where there are no more
//! processors than such programs, a thread that wakes there may wait for the next tick of the
//! kernel, up to 4 ms. The service thread works in short bursts for the program, as an adapter does
//! beside it: it asks for precedence where the user may have it, and for short slices, which Linux
//! 6.12 grants everybody (`sched(7)`).

use std::mem::size_of;

/// The shortest that the kernel grants.
const SLICE_NS: u64 = 100_000;
/// The nice value of a thread with precedence.
const NICE: i32 = -20;

/// Asks for precedence and short slices for the calling thread, unless it has a policy of its own.
/// A refusal changes nothing.
#[allow(unsafe_code)]
pub(crate) fn ask_for_precedence() {
    // SAFETY: zero is valid in each member.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    #[expect(clippy::cast_possible_truncation, reason = "it has 48 bytes")]
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: `attr` is a valid place of `size` bytes; 0 is the calling thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    let is_usual = matches!(attr.sched_policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH);
    if got != 0 || !is_usual {
        return;
    }
    attr.sched_runtime = SLICE_NS;
    for nice in [NICE, attr.sched_nice] {
        attr.sched_nice = nice;
        // SAFETY: as above.
        if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that its user runs beside others, with less precedence, keeps what it was given.
    #[test]
    #[allow(unsafe_code)]
    fn only_the_thread_that_asks_gets_it() {
        // SAFETY: it takes a thread and no memory.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        let asked = std::thread::spawn(move || {
            ask_for_precedence();
            // SAFETY: it takes a thread and no memory.
            (nice(), unsafe { libc::sched_getscheduler(0) })
        });
        let (after, policy) = asked.join().unwrap();
        assert!(after == before || after == NICE, "nice {after}");
        assert_eq!(policy, libc::SCHED_OTHER);
        assert_eq!(nice(), before);
    }
}
