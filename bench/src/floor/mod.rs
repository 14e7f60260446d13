//! Floors: what two threads reach over bare UDP on loopback, without any protocol.
//!
//! Both pin themselves to cores of their own and poll busily, like the programs they are compared
//! with. Messages are counted where they arrive.

mod cores;
mod pingpong;
mod socket;
mod stream;

pub(crate) use cores::{Phase, round_trip_ns};
pub(crate) use pingpong::half_round_trip_ns;
pub(crate) use stream::{Rate, stream};
