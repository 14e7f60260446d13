//! Floors: what two threads reach over bare UDP on loopback and over bare memory, without any
//! protocol.
//!
//! Both pin themselves to cores of their own and poll busily, like the programs they are compared
//! with. Messages are counted where they arrive.

mod cores;
mod memory;
mod pingpong;
mod ring;
mod socket;
mod stream;

pub(crate) use cores::{Phase, round_trip_ns};
pub(crate) use memory::{ring_half_round_trip_ns, ring_stream};
pub(crate) use pingpong::half_round_trip_ns;
pub(crate) use stream::{Rate, stream};
