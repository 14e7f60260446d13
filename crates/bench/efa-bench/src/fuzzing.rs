//! The entry points of the fuzz targets: everything that reads what others wrote.

use std::sync::LazyLock;

use bench_record::Results;
use bench_report::{import, output, page};

use crate::{plan, result_file};

/// Reads a plan and makes its tasks, as `efa-bench plan FILE --dry-run` does.
pub fn plan(text: &str) {
    let _ = plan::understand(text);
}

/// Reads the output of another tool, as that of each tool and as that of the tool whose title it
/// bears, and result files; then shows what was read.
///
/// # Panics
/// Panics if a result cannot be read again after it was written.
pub fn import(text: &str) {
    let imported = import::read_as_any(text);
    let file = output::parse(text).ok();
    static EMPTY: LazyLock<Results> =
        LazyLock::new(|| result_file::results(Vec::new(), Vec::new()));
    let of_tools = imported.into_iter().map(|run| Results { runs: vec![run], ..EMPTY.clone() });
    for results in of_tools.chain(file) {
        let written = output::json(&results).expect("a result is written");
        let again = output::parse(&written).expect("what was written is read");
        assert_eq!(again.runs.len(), results.runs.len());
        results.runs.iter().for_each(|run| _ = output::text(run));
        let _ = output::csv(&results.runs);
        let _ = report::html(&page::page(&results, Vec::new(), None));
    }
}
