//! The trace that a user may ask for.

mod event;
mod spec;

pub use event::TraceEvent;
pub use spec::{TraceSpec, TraceTarget};

pub(crate) use event::Events;
