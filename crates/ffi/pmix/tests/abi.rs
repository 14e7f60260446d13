//! Compiles `abi.c`, which holds this crate's layouts as static assertions, against the headers.

use std::process::Command;

#[test]
fn the_c_headers_agree_with_the_layouts() {
    let flags = Command::new("pkg-config").args(["--cflags", "pmix"]).output();
    let flags = flags.expect("pkg-config starts");
    if !flags.status.success() && std::env::var_os("CI").is_none() {
        eprintln!("SKIPPED: no headers of PMIx here (libpmix-dev)");
        return;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/abi.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-fsyntax-only", source])
        .args(String::from_utf8_lossy(&flags.stdout).split_whitespace())
        .output()
        .unwrap_or_else(|e| panic!("cannot start the C compiler {compiler}: {e}"));
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "PMIx's headers disagree:\n{messages}");
}
