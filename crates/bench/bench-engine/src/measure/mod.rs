//! The number and the order of repetitions of a point, and their random numbers.

mod blocks;
mod random;

pub use blocks::{Blocks, Until};
pub(crate) use random::Random;
