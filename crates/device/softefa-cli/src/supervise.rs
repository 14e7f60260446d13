//! The parent of the program: passes signals on and turns its end into an exit code.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getpgid, kill_process, set_dumpable_behavior, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};
use signal_hook::low_level::emulate_default_handler;

use crate::failure::Failure;

/// The base of the exit code with which shells report a program that a signal ended: this plus the
/// number of the signal.
const SIGNAL_CODE_BASE: i32 = 128;
/// Names of the masks of signals in `/proc/PID/status`.
const IGNORED: &str = "SigIgn";
const CAUGHT: &str = "SigCgt";
/// The time within which a sender that signals a process and then its group does so.
const GROUP_FOLLOWS: Duration = Duration::from_millis(20);

/// The signals for the program, caught from before its start until its end.
pub(crate) struct Supervisor {
    signals: SignalsInfo<WithOrigin>,
}

impl Supervisor {
    /// Installs the handlers. It must be called before the program starts, so that neither a signal
    /// nor its end is missed.
    ///
    /// # Errors
    /// A handler cannot be installed.
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut caught = not_ignored(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2]);
        caught.push(SIGCHLD);
        let signals = SignalsInfo::new(caught)
            .map_err(|error| Failure::new(format!("signals cannot be handled: {error}")))?;
        Ok(Self { signals })
    }

    /// Waits for the end of `child`, passing signals on. The same thread reaps it, so that no
    /// signal can reach a process that took over its id.
    ///
    /// # Errors
    /// The child cannot be waited for.
    pub(crate) fn wait(mut self, child: &Child) -> Result<ExitStatus, Failure> {
        let failed = |error: Errno| Failure::new(format!("cannot wait for the program: {error}"));
        let program = Pid::from_child(child);
        loop {
            if let Some(status) = reap(program).map_err(failed)? {
                return Ok(status);
            }
            for origin in self.signals.wait() {
                if is_for_program(&origin, program) {
                    pass_on(origin.signal, program);
                }
            }
        }
    }
}

/// Reaps the processes that have ended, and returns the status of `program`. The first process of a
/// container is the parent of all orphans, which no other process would reap.
fn reap(program: Pid) -> rustix::io::Result<Option<ExitStatus>> {
    while let Some((ended, status)) = wait(WaitOptions::NOHANG)? {
        if ended == program {
            return Ok(Some(ExitStatus::from_raw(status.as_raw())));
        }
    }
    Ok(None)
}

/// Handles SIGCHLD, which the process that started this command may have ignored: the kernel reaps
/// the children of a process that ignores it, and reports nothing. The children of this command,
/// like those of `timeout`, begin with the default action.
///
/// # Errors
/// A handler cannot be installed.
pub(crate) fn keep_children() -> Result<(), Failure> {
    signal_hook::flag::register(SIGCHLD, Arc::default())
        .map_err(|error| Failure::new(format!("SIGCHLD cannot be handled: {error}")))?;
    Ok(())
}

/// Lets signals end this process from now on, as they do without a handler.
///
/// # Errors
/// A handler cannot be installed.
pub(crate) fn end_by_signals() -> Result<(), Failure> {
    for signal in not_ignored(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT]) {
        let always = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_default(signal, always)
            .map_err(|error| Failure::new(format!("signals cannot be handled: {error}")))?;
    }
    Ok(())
}

/// Returns the `signals` that are not ignored, as by `nohup`. A handler would not be inherited, and
/// the program would be ended by a signal that it should survive.
pub(crate) fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = mask(&status, IGNORED);
    signals.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// Returns a mask with a bit for each signal, from the text of `/proc/PID/status`.
fn mask(status: &str, name: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Returns true if a signal must be passed on to the program. The terminal sends its signals to the
/// whole foreground group, so that the program has them already. A signal that was sent to
/// `softefa` alone is meant for the program.
fn is_for_program(origin: &Origin, program: Pid) -> bool {
    let Some(sender) = &origin.process else { return false };
    origin.signal != SIGCHLD && !is_for_group(sender.pid, origin.signal, program)
}

/// Returns true if a signal was sent to the group of the program. A process that signals its own
/// group and wants to survive ignores the signal meanwhile, as `timeout` does; if that is the
/// program's group, too, the program has the signal. A script that signals `softefa` alone may be
/// in the group as well, but does not ignore the signal.
fn is_for_group(sender: i32, signal: i32, program: Pid) -> bool {
    let group = |pid| getpgid(Some(pid)).ok();
    let sender_group = Pid::from_raw(sender).and_then(group);
    let status = || fs::read_to_string(format!("/proc/{sender}/status")).unwrap_or_default();
    let has = |mask| mask >> (signal - 1) & 1 != 0;
    if sender_group.is_none() || sender_group != group(program) {
        return false;
    }
    // `timeout` signals its child first and then the group, and ignores the signal from then on.
    if has(mask(&status(), CAUGHT)) {
        thread::sleep(GROUP_FOLLOWS);
    }
    has(mask(&status(), IGNORED))
}

fn pass_on(signal: i32, program: Pid) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        // The program may have ended meanwhile, which the next turn of the loop detects.
        let _ = kill_process(program, signal);
    }
}

/// Ends this process by the signal of the keyboard (SIGINT or SIGQUIT) that ended the program.
/// Shells end a loop around a command that died of SIGINT, and continue after one that exits with
/// 130. Returns if the program ended otherwise.
pub(crate) fn die_likewise(status: ExitStatus) {
    const INIT: u32 = 1;
    let Some(signal @ (SIGINT | SIGQUIT)) = status.signal() else { return };
    // The first process of a container cannot be ended in this way.
    if std::process::id() == INIT {
        return;
    }
    // Only the core of the program may be of use.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = emulate_default_handler(signal);
}

/// Returns the exit code of `softefa run`: that of the program, or 128 + N after signal N.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|n| SIGNAL_CODE_BASE + n));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Returns the message about a signal that ended the program: shells print none, because they see
/// only an exit code. `None` for signals that the user sent on purpose.
pub(crate) fn death_message(name: &str, status: ExitStatus) -> Option<String> {
    let signal = status.signal()?;
    if [SIGINT, SIGTERM, SIGHUP, SIGPIPE].contains(&signal) {
        return None;
    }
    let title = signal_hook::low_level::signal_name(signal).unwrap_or("unnamed");
    let core = if status.core_dumped() { ", core dumped" } else { "" };
    Some(format!("{name} was ended by signal {signal} ({title}{core})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
    }

    #[test]
    fn ignored_signals_are_those_of_the_status() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000005\nSigCgt:\t0\n";
        assert_eq!(mask(status, IGNORED), 1 << (SIGHUP - 1) | 1 << (SIGQUIT - 1));
        assert_eq!((mask(status, CAUGHT), mask("", IGNORED)), (0, 0));
    }

    #[test]
    fn only_unexpected_signals_are_announced() {
        let line = death_message("prog", ExitStatus::from_raw(11)).unwrap();
        assert!(line.contains("SIGSEGV"), "{line}");
        assert_eq!(death_message("prog", ExitStatus::from_raw(15)), None);
        assert_eq!(death_message("prog", ExitStatus::from_raw(1 << 8)), None);
    }
}
