//! How often a point is measured, in which order, and what the repetitions say.

mod blocks;
mod interval;
mod random;

pub(crate) use blocks::{Blocks, Until};
pub(crate) use interval::{Interval, median_interval};
pub(crate) use random::Random;
