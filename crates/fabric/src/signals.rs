//! Signals that libraries below libfabric take for themselves.

/// Gives SIGINT and SIGTERM back to the program, with their default action.
///
/// libfabric may be linked with PSM (Debian's is), whose libraries install handlers when they are
/// loaded, before `main`: at Ctrl-C they end the process with exit code 1. A handler that is
/// installed later and calls the one before it would still end so. Call this first.
pub fn release_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the default action is no code of ours, and other handlers are not touched.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
