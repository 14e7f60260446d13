//! Where lines go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use super::TraceTarget;
use crate::say::{Stderr, say};
use crate::uncancelled::Uncancelled;

/// An open trace.
#[derive(Debug)]
pub(crate) struct Sink {
    /// `None` is standard error.
    file: Option<File>,
    has_failed: AtomicBool,
}

impl Sink {
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn open(target: &TraceTarget) -> io::Result<Self> {
        let file = match target {
            TraceTarget::Stderr => None,
            TraceTarget::File(path) => {
                let pid = std::process::id().to_string();
                let path = path.to_string_lossy().replace("%p", &pid);
                Some(OpenOptions::new().create(true).append(true).open(path)?)
            }
        };
        Ok(Self { file, has_failed: AtomicBool::new(false) })
    }

    /// Writes a whole line in one call.
    pub(super) fn write(&self, line: &[u8]) {
        let _uncancelled = Uncancelled::begin();
        let result = match &self.file {
            None => Stderr.write_all(line),
            Some(file) => (&*file).write_all(line),
        };
        if let Err(error) = result {
            if !self.has_failed.swap(true, Ordering::Relaxed) {
                // Once: the next lines may fail as well. Where even this cannot be said, nobody
                // hears.
                say(&format!("softefa: lines are missing in the trace: {error}"));
            }
        }
    }
}
