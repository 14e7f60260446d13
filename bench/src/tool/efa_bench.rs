//! `efa-bench`: for what no packaged program measures (streaming over libfabric's `tcp`), and as
//! the program that is judged.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Tools, pair};
use crate::floor::Rate;

const LIMIT: Duration = Duration::from_secs(60);

/// Goodput over libfabric `tcp` in Gbit/s with `depth` messages under way.
///
/// # Errors
/// The program is not built, fails or prints something unknown.
pub(crate) fn tcp_gbit_per_s(tools: &Tools, bytes: usize, depth: usize) -> Result<f64> {
    let mut words = vec![tools.efa_bench()];
    let options = ["local", "bandwidth", "--provider", "tcp", "--json", "-", "-q"];
    words.extend(options.map(String::from));
    words.extend(["--sizes".to_owned(), bytes.to_string()]);
    words.extend(["--depth".to_owned(), depth.to_string()]);
    let output = pair::run_alone(&tools.command(false, &words), LIMIT)?;
    figure(&output, GOODPUT)
}

/// The provider `tcp` of libfabric, which needs no device.
pub(crate) const TCP: &str = "libfabric:tcp";
const GOODPUT: &str = "/bandwidth/gbit_per_s";
const RATE: &str = "/bandwidth/mmsg_per_s";
const MEDIAN: &str = "/latency/distribution/p50_us";
const MEAN: &str = "/latency/mean_us";

/// A measurement between a server and a client, on the software device unless it is over TCP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EfaBench {
    pub(crate) benchmark: &'static str,
    pub(crate) fabric: &'static str,
    /// How bytes are moved; `None`: as the benchmark does.
    pub(crate) operation: Option<&'static str>,
    pub(crate) bytes: usize,
    /// Messages under way, of a stream; the receiver has twice as many receives.
    pub(crate) depth: Option<usize>,
    /// Messages, or round trips.
    pub(crate) messages: u32,
}

impl EfaBench {
    /// Median of half a round trip in microseconds.
    ///
    /// # Errors
    /// As [`tcp_gbit_per_s`].
    pub(crate) fn median_us(&self, tools: &Tools) -> Result<f64> {
        figure(&self.run(tools)?, MEDIAN)
    }

    /// Mean of half a round trip in microseconds.
    ///
    /// # Errors
    /// As [`tcp_gbit_per_s`].
    pub(crate) fn mean_us(&self, tools: &Tools) -> Result<f64> {
        figure(&self.run(tools)?, MEAN)
    }

    /// Goodput and messages per second.
    ///
    /// # Errors
    /// As [`tcp_gbit_per_s`].
    pub(crate) fn rate(&self, tools: &Tools) -> Result<Rate> {
        let output = self.run(tools)?;
        let segments_per_s = figure(&output, RATE)? * 1e6;
        Ok(Rate { gbit_per_s: figure(&output, GOODPUT)?, segments_per_s })
    }

    fn run(&self, tools: &Tools) -> Result<String> {
        let port = pair::free_port()?;
        let (program, at) = (tools.efa_bench(), port.to_string());
        let server = [program.as_str(), "server", "--bind", "127.0.0.1", "--port", &at, "-q"];
        let server = [&server[..], &["--sessions", "1"]].concat();
        let mut client = vec![program.clone()];
        client.extend(["run", self.benchmark, "-H", "127.0.0.1", "--port", &at].map(String::from));
        client.extend(["--fabric", self.fabric, "--json", "-", "-q"].map(String::from));
        client.push("--no-host-checks".to_owned());
        client.extend(["-s".to_owned(), self.bytes.to_string()]);
        client.extend(["-n".to_owned(), self.messages.to_string()]);
        client.extend(self.operation.iter().flat_map(|own| ["--op", own]).map(String::from));
        if let Some(depth) = self.depth {
            client.extend(["-d".to_owned(), depth.to_string()]);
            client.extend(["--rx-depth".to_owned(), (2 * depth).to_string()]);
        }
        let server: Vec<String> = server.into_iter().map(str::to_owned).collect();
        let on_device = self.fabric != TCP;
        let server = tools.server(on_device, &server);
        pair::run(&server, &tools.client(on_device, &client), port, LIMIT)
    }
}

/// A figure of the first point.
fn figure(output: &str, path: &str) -> Result<f64> {
    let figure = || {
        let document: Value = serde_json::from_str(output).ok()?;
        document["runs"][0]["points"][0].pointer(path)?.as_f64()
    };
    figure().with_context(|| format!("efa-bench printed no {path}:\n{output}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_first_point() {
        let output = r#"{"runs":[{"points":[{"bandwidth":{"gbit_per_s":12.5}}]}]}"#;
        assert_eq!(figure(output, GOODPUT).ok(), Some(12.5));
        assert!(figure(output, MEDIAN).is_err());
        assert!(figure("{}", GOODPUT).is_err());
    }
}
