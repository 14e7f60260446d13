//! Ctrl-C and kill: everything that waits looks here, so that what was made is removed.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static IS_ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on these signals end waits instead of the process.
pub(crate) fn listen() -> Result<()> {
    let flag = IS_ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Whether somebody asked for the end.
pub(crate) fn is_asked() -> bool {
    IS_ASKED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// # Errors
/// Somebody asked for the end.
pub(crate) fn check() -> Result<()> {
    if is_asked() {
        bail!("interrupted; everything that was made is removed");
    }
    Ok(())
}

/// Sleeps.
///
/// # Errors
/// Somebody asked for the end meanwhile.
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
