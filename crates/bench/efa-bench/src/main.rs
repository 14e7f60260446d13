//! The `efa-bench` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    efa_bench::main()
}
