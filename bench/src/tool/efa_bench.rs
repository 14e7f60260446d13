//! `efa-bench`, for what no packaged program measures: streaming over libfabric's `tcp`.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Tools, pair};

const LIMIT: Duration = Duration::from_secs(60);

/// Goodput over libfabric `tcp` in Gbit/s with `depth` messages under way.
///
/// # Errors
/// The program is not built, fails or prints something unknown.
pub(crate) fn tcp_gbit_per_s(tools: &Tools, bytes: usize, depth: usize) -> Result<f64> {
    let mut words = vec![tools.efa_bench().to_string_lossy().into_owned()];
    let options = ["local", "bandwidth", "--provider", "tcp", "--json", "-", "-q"];
    words.extend(options.map(String::from));
    words.extend(["--sizes".to_owned(), bytes.to_string()]);
    words.extend(["--depth".to_owned(), depth.to_string()]);
    let output = pair::run_alone(&tools.command(false, &words), LIMIT)?;
    goodput(&output).with_context(|| format!("efa-bench printed no goodput:\n{output}"))
}

fn goodput(output: &str) -> Option<f64> {
    let document: Value = serde_json::from_str(output).ok()?;
    document["runs"][0]["points"][0]["bandwidth"]["gbit_per_s"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_is_that_of_the_first_point() {
        let output = r#"{"runs":[{"points":[{"bandwidth":{"gbit_per_s":12.5}}]}]}"#;
        assert_eq!(goodput(output), Some(12.5));
        assert_eq!(goodput("{}"), None);
    }
}
