//! All tests of the crate, in one binary.

mod attacks;
mod commands;
#[allow(unreachable_pub, reason = "shared by the tests")]
mod common;
mod dissector;
mod endings;
mod headers;
mod ids;
mod librdmacm;
mod mad;
mod protocol;
mod random;
mod resolve;
mod states;
