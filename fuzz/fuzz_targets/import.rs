//! Any text as what other tools print, and as a result file: what is read can be shown, written and
//! read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        efa_bench::fuzzing::import(text);
    }
});
