//! Compiles `values.c`, which holds this crate's values as static assertions, against the headers.

use std::process::Command;

#[test]
fn the_c_headers_agree_with_the_values() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/values.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-fsyntax-only", source])
        .output()
        .unwrap_or_else(|e| panic!("cannot start the C compiler {compiler}: {e}"));
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rdma-core's headers disagree:\n{messages}");
}
