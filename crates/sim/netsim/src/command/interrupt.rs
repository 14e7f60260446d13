//! Ctrl-C: what is finished is shown and written, then the process ends with all its threads.

use anyhow::{Context, Result};
use std::process;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code after Ctrl-C, as shells have it.
const INTERRUPTED: i32 = 130;

/// Returns a flag that becomes true at Ctrl-C or a request to end; a second one ends the process at
/// once.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let hear = || -> std::io::Result<()> {
            let again = Arc::clone(&stop);
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, again)?;
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
            Ok(())
        };
        hear().context("cannot listen for Ctrl-C")?;
    }
    Ok(stop)
}

/// Ends the process, whatever its threads do, when what is finished was written.
pub(crate) fn leave(written: Result<()>) -> ! {
    if let Err(error) = written {
        report::say(format_args!("netsim: error: {error:#}"));
    }
    process::exit(INTERRUPTED)
}
