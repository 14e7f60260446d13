//! One file per benchmark, both sides in it.

pub(crate) mod bandwidth;
pub(crate) mod latency;
