//! The end of the process, and the threads of the adapter.
//!
//! No destructor tears anything down: libfabric destroys its queue pairs in its own library
//! destructor, which may run after this library's. At exit the last acknowledgements are repeated,
//! because no retransmission will be answered later (docs/ARCHITECTURE.md, "The end of a peer").

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use crate::generation::PerProcess;

/// The function that runs at process exit.
static AT_EXIT: OnceLock<fn()> = OnceLock::new();

/// Runs `run` at the exit of this process and of its children. Only the first call counts.
#[allow(unsafe_code)]
pub(crate) fn at_exit(run: fn()) {
    if AT_EXIT.set(run).is_ok() {
        // SAFETY: the handler is a plain function that lives as long as the program; it does not
        // unwind. When the C library has no room for it the exit is merely less polite.
        unsafe { libc::atexit(exits) };
    }
}

/// Ends this process after `after_ns` as SIGKILL does. Only the first call counts. The kernel's
/// timer works whatever the program does. Children do not inherit it and set their own.
#[allow(unsafe_code)]
pub(crate) fn end_after(after_ns: u64) -> io::Result<()> {
    static IS_ARMED: PerProcess<AtomicBool> = PerProcess::new();
    if IS_ARMED.get_or_init(AtomicBool::default).swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // A timer of 0 would never expire.
    let after = Duration::from_nanos(after_ns.max(1));
    // SAFETY: zero is valid in each member of these structures; the calls get valid pointers to
    // them and copy what they need.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut timer: libc::timer_t = std::mem::zeroed();
        let mut when: libc::itimerspec = std::mem::zeroed();
        when.it_value.tv_sec = libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX);
        when.it_value.tv_nsec = after.subsec_nanos().into();
        if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0
            || libc::timer_settime(timer, 0, &raw const when, std::ptr::null_mut()) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn exits() {
    if let Some(run) = AT_EXIT.get() {
        run();
    }
}

/// Starts a thread; returns whether that worked. The thread blocks signals from its first
/// instruction on: they are the program's, and its handlers must not run on a small stack. SIGSEGV
/// and SIGBUS stay unblocked, because otherwise the kernel would end the program at a failed access
/// instead of calling the handler of `memory`.
///
/// Returns when the thread runs. A new thread of the C library calls `munmap` once, and the program
/// may be about to patch `munmap`: libfabric and UCX overwrite its instructions, even while another
/// thread executes them.
#[must_use]
pub fn spawn(name: &str, stack_bytes: usize, run: impl FnOnce() + Send + 'static) -> bool {
    spawn_after(name, stack_bytes, || (), run)
}

/// Starts a thread as [`spawn`] does. The thread runs `first` before this returns.
#[allow(unsafe_code)]
fn spawn_after(
    name: &str,
    stack_bytes: usize,
    first: impl FnOnce() + Send + 'static,
    run: impl FnOnce() + Send + 'static,
) -> bool {
    let thread = std::thread::Builder::new().name(name.into()).stack_size(stack_bytes);
    // SAFETY: `all` is filled and `before` set before they are used.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigdelset(&raw mut all, libc::SIGSEGV);
        libc::sigdelset(&raw mut all, libc::SIGBUS);
        // The new thread inherits the mask of this one.
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let (started_tx, begun) = mpsc::sync_channel(1);
        let started = thread.spawn(move || {
            first();
            // The caller waits for this.
            let _ = started_tx.send(());
            run();
        });
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        started.is_ok() && begun.recv().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Returns the blocked signals of the calling thread.
    #[allow(unsafe_code)]
    fn blocked() -> Vec<i32> {
        // SAFETY: the set is filled by the call before it is asked.
        unsafe {
            let mut now: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now);
            (1..32).filter(|signal| libc::sigismember(&raw const now, *signal) == 1).collect()
        }
    }

    #[test]
    fn a_thread_of_ours_begins_without_signals() {
        let (started_tx, blocked_rx) = mpsc::channel();
        let before = blocked();
        assert!(spawn("test", 64 << 10, move || started_tx.send(blocked()).unwrap()));
        assert_eq!(blocked(), before, "the program's own");
        let inside = blocked_rx.recv().unwrap();
        for signal in [libc::SIGALRM, libc::SIGPROF, libc::SIGCHLD, libc::SIGTERM] {
            assert!(inside.contains(&signal), "signal {signal}");
        }
    }

    /// Otherwise a program could crash: libfabric patches `munmap` while the new thread is in it.
    #[test]
    fn a_thread_of_ours_has_begun_when_its_starter_goes_on() {
        for _ in 0..100 {
            let has_begun = Arc::new(AtomicBool::new(false));
            let begun = Arc::clone(&has_begun);
            let first = move || {
                std::thread::yield_now();
                begun.store(true, Ordering::Relaxed);
            };
            assert!(spawn_after("test", 64 << 10, first, || ()));
            assert!(has_begun.load(Ordering::Relaxed));
        }
    }

    /// Locks from before the fork may be held by threads that the child does not have.
    #[test]
    #[allow(unsafe_code)]
    fn a_child_drops_what_it_inherits_without_waiting() {
        let spec = "rdmap0s6=127.0.0.1".parse::<crate::DeviceSpec>().unwrap();
        let device = crate::Device::open(&spec, &crate::Config::default()).unwrap();
        let pd = device.alloc_pd().unwrap();
        let cq = crate::Cq::create(&device, 16).unwrap();
        let bytes = [0u8; 64];
        let addr = bytes.as_ptr() as usize as u64;
        let mr = pd.reg_mr(addr, 64, crate::Access::default()).unwrap();
        let locks = (device.mrs.hold(), device.family.hold());
        // SAFETY: the child drops two objects of ours, which must not wait, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop((cq, mr));
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        let mut status = 0;
        // SAFETY: a child of ours and a place for its status.
        while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
            if std::time::Instant::now() > deadline {
                // SAFETY: it has not been waited for, so the id is still its own.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
            std::thread::yield_now();
        }
        drop(locks);
        assert_eq!(status, 0, "the child hung");
    }
}
