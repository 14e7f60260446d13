//! What small shared structures are made of. `loom/` compiles them with its own in the place of
//! these.

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}
