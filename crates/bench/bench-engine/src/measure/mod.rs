//! How often a point is measured, in which order, and what the repetitions say.

mod blocks;
mod random;

pub use blocks::{Blocks, Until};
pub(crate) use random::Random;
