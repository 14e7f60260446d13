//! Ctrl-C and SIGTERM: every wait checks for them, so that everything that was made is removed.

use std::fs;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

static IS_REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Lets these signals end waits instead of the process from now on.
pub(crate) fn install() -> Result<()> {
    let flag = IS_REQUESTED.get_or_init(Arc::default);
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM, SIGQUIT].into_iter().chain(hangup) {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Returns whether this process was started with a signal ignored, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

/// Returns whether an interruption was requested.
pub(crate) fn is_requested() -> bool {
    IS_REQUESTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// # Errors
/// An interruption was requested.
pub(crate) fn check() -> Result<()> {
    if is_requested() {
        bail!("interrupted; everything that was made is removed");
    }
    Ok(())
}

/// Sleeps.
///
/// # Errors
/// An interruption was requested meanwhile.
pub(crate) fn sleep(time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
