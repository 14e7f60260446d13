//! One clock for all processes of this machine.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started; the same in every process and namespace.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

/// Milliseconds since the machine started.
pub(crate) fn now_ms() -> u64 {
    now_ns() / 1_000_000
}
