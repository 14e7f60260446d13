//! Compiles `abi.c`, which holds this crate's numbers as static assertions, against the headers.

use std::process::Command;

#[test]
fn the_c_headers_agree_with_the_layout_tables() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/abi.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-fsyntax-only", source])
        .output()
        .unwrap_or_else(|e| panic!("cannot start the C compiler {compiler}: {e}"));
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "libfabric's headers disagree:\n{messages}");
}

#[test]
fn the_loaded_library_is_at_least_1_17() {
    fabric_sys::open().expect("libfabric");
    // SAFETY: takes no argument and reads a constant.
    let version = unsafe { fabric_sys::fi_version() };
    assert!(version >= fabric_sys::fi_make_version(1, 17), "libfabric {version:#x}");
}
