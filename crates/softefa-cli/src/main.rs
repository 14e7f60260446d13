//! The softefa command: runs unmodified programs on a software EFA device
fn main() {}
