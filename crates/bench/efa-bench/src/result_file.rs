//! The result files that this program writes on this machine.

use bench_engine::{backend, host};
use bench_record::{Results, Run};

/// Returns a result file about `runs` that others measured on an unknown machine.
pub(crate) fn imported(runs: Vec<Run>) -> Results {
    Results {
        tool: format!("efa-bench {}", env!("CARGO_PKG_VERSION")),
        date: host::date(),
        command: host::command_line(),
        ..Results::of(runs, Vec::new())
    }
}

/// Returns a result file about `runs`.
pub(crate) fn results(runs: Vec<Run>, warnings: Vec<String>) -> Results {
    let libfabric = backend::libfabric_version().map(|(major, minor)| format!("{major}.{minor}"));
    Results {
        tool: format!("efa-bench {}", env!("CARGO_PKG_VERSION")),
        libfabric: libfabric.unwrap_or_default(),
        date: host::date(),
        command: host::command_line(),
        host: host::describe(),
        ..Results::of(runs, warnings)
    }
}
