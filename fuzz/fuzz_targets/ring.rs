//! Any bytes as what a hostile writer does to the memory that it shares with a queue pair of ours;
//! `softefa` has the rest (`wire/memory/fuzzing.rs`).
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| softefa::fuzzing::ring(bytes));
