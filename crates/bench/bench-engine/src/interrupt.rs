//! Ctrl-C and requests to end (SIGINT, SIGTERM), after which the results so far are kept.
//!
//! The first signal is noted, and passed on to the child processes that measure for this process;
//! measuring code looks for it between two blocks. The second signal ends everything at once.
//! Children are in their own process groups, so that a terminal's Ctrl-C reaches this process alone
//! and the order is always the same: clients end and write what they have, then servers.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bench_record::failure::{EXIT_INTERRUPTED, Failure, plain};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

static ASKED: AtomicBool = AtomicBool::new(false);
static CHILDREN: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// The time that children may take to write what they have, and servers to end a session.
pub const GRACE: Duration = Duration::from_secs(8);

/// Notes interruptions from now on instead of ending the process.
pub fn watch() -> Result<(), Failure> {
    // The library is opened now: while libraries below it are loaded, they handle these signals and
    // would end this process. If the machine lacks the library, the user is told when a fabric of
    // it is asked for.
    let _ = fabric::library_version();
    let failed = |e: &std::io::Error| Failure::Check(format!("no signals: {}", plain(e)));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|e| failed(&e))?;
    let body = move || {
        for _ in signals.forever() {
            heard();
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(body);
    thread.map(|_| ()).map_err(|e| failed(&e))
}

/// Ends this process when standard input is closed, so that no client outlives the plan that
/// started it. Its results are lost, because the plan does not wait for them.
pub fn end_with_stdin() {
    let body = || {
        let mut byte = [0_u8; 64];
        let mut stdin = std::io::stdin();
        while stdin.read(&mut byte).is_ok_and(|n| n > 0) {}
        end_now();
    };
    // Without this thread the process ends after its last point.
    let _ = std::thread::Builder::new().name("stdin".to_owned()).spawn(body);
}

/// Ends this process at once. Runs no destructors, because measuring threads may be within a C
/// library.
pub fn end_now() {
    signal_hook::low_level::exit(i32::from(EXIT_INTERRUPTED));
}

/// Returns true if this process was asked to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Acquire)
}

/// Fails if this process was asked to end.
pub fn check() -> Result<(), Failure> {
    if asked() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Makes `command` run in a new process group.
pub fn apart(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

fn heard() {
    if ASKED.swap(true, Ordering::AcqRel) {
        if children().is_empty() {
            end_now();
        }
        return end_groups();
    }
    for child in children().iter() {
        ask_to_end(*child);
    }
    let late = || {
        std::thread::sleep(GRACE);
        end_groups();
    };
    // Without this thread a second signal does the same.
    let _ = std::thread::Builder::new().name("grace".to_owned()).spawn(late);
}

fn children() -> MutexGuard<'static, Vec<Pid>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks only the first process of the group to end: `softefa run` passes the signal on to its
/// program, which would otherwise get it twice.
fn ask_to_end(child: Pid) {
    // The child may have ended by itself.
    let _ = kill_process(child, Signal::TERM);
}

fn end_groups() {
    for child in children().iter() {
        // The child may have ended by itself.
        let _ = kill_process_group(*child, Signal::KILL);
    }
}

/// A child that an interruption reaches until this is dropped. Dropping it waits for the child's
/// end.
pub struct Reached(Option<Pid>);

impl Reached {
    /// Registers `child`, which was started by a command that runs [`apart`].
    pub fn new(child: &Child) -> Self {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            children().push(pid);
            // The signal may have come before the child was started.
            if asked() {
                ask_to_end(pid);
            }
        }
        Self(pid)
    }

    /// Returns true if the child has ended; its owner still reaps it.
    pub fn has_ended(&self) -> bool {
        let now = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.0.is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), now), Ok(None)))
    }

    /// Ends the child and all processes that it started.
    pub fn end_group(&self) {
        if let Some(pid) = self.0 {
            // The child may have ended by itself.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        let Some(pid) = self.0 else { return };
        // The child is left for its owner to reap, so that its process ID stays taken until it is
        // off the list.
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), ended), Err(rustix::io::Errno::INTR)) {}
        children().retain(|child| *child != pid);
    }
}
