//! What bare UDP reaches on this machine, and what Soft-EFA makes of it.
#![deny(unsafe_code)]
fn main() {}
