//! Bytes per millisecond, as the receiver sees them.

use serde_json::{Value, json};

use crate::clock;

/// The series covers this many milliseconds; later bytes are not in it.
const KEPT_MS: usize = 120_000;

/// Bytes by the millisecond in which they arrived.
#[derive(Debug, Default)]
pub(super) struct Series {
    start_ms: u64,
    bytes: Vec<u64>,
}

impl Series {
    pub(super) fn add(&mut self, bytes: u64) {
        let now_ms = clock::now_ms();
        if self.bytes.is_empty() {
            self.start_ms = now_ms;
        }
        let place = usize::try_from(now_ms - self.start_ms).unwrap_or(KEPT_MS);
        if place >= KEPT_MS {
            return;
        }
        if place >= self.bytes.len() {
            self.bytes.resize(place + 1, 0);
        }
        self.bytes[place] += bytes;
    }

    pub(super) fn json(&self) -> Value {
        json!({ "start_ms": self.start_ms, "bytes": self.bytes })
    }
}
