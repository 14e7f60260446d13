//! Names of objects among all of the process, living and gone.

use std::sync::atomic::{AtomicU64, Ordering};

/// Names a protection domain among all of the process, living and gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PdId(u64);

impl PdId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Names a queue pair among all of the process, living and gone: its number may come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct QpId(u64);

impl QpId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Names a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DeviceId(u64);

impl DeviceId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
