//! Any text as a plan of `efa-bench`: it is read, and its tasks are made; nothing is started.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        efa_bench::fuzzing::plan(text);
    }
});
