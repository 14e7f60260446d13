//! Measures any fabric honestly and writes one report
fn main() {}
