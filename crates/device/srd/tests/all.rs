//! All tests of the crate, in one binary.

mod acks;
mod attacks;
mod basics;
#[allow(unreachable_pub, reason = "shared by the tests, and by a fuzz target")]
mod common;
mod flood;
mod frames;
mod guesses;
mod hostile;
mod losses;
mod network;
mod not_ready;
mod openings;
mod peers;
mod protocol;
mod sequences;
