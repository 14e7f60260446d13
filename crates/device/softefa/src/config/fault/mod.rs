//! Faults that a user may ask for.

mod blackhole;
mod keys;
mod spec;
mod timed;
mod value;

pub use blackhole::Blackhole;
pub use keys::{FaultKey, Side};
pub use spec::FaultSpec;
pub use timed::{NotAFault, TimedFault};
