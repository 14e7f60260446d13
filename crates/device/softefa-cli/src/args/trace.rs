//! `softefa trace`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

pub(super) const HELP: &str = "\
Examples:
  softefa run --trace run.trace -- PROGRAM; softefa trace --html run.trace     # writes run.html
  softefa run --pcap run.pcapng -- PROGRAM; softefa trace run.pcapng           # prints tables
  softefa trace --html --from 1.5 --to 1.6 run.trace                           # 0.1 s in full
  softefa trace --html -o both.html server.trace client.trace";

/// `softefa trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Write a page with the time line of the run, for a browser, instead of tables.
    #[arg(long)]
    pub(crate) html: bool,
    /// The page; - is standard output [default: the name of the first file, ending in .html].
    #[arg(long, short, value_name = "FILE", requires = "html")]
    pub(crate) output: Option<PathBuf>,
    /// Leave out events before this time, in seconds since the first event.
    #[arg(long, value_name = "SECONDS", value_parser = parse_time)]
    pub(crate) from: Option<Duration>,
    /// Leave out events at this time and later.
    #[arg(long, value_name = "SECONDS", value_parser = parse_time)]
    pub(crate) to: Option<Duration>,
    /// Traces (softefa run --trace) and captures (--pcap, softefa pcap); several become one time
    /// line.
    #[arg(required = true, value_name = "TRACE-OR-PCAP")]
    pub(crate) files: Vec<PathBuf>,
}

/// Reads a time in seconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    let seconds = text.trim_end_matches('s').parse::<f64>().ok();
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "write seconds, such as 1.5".to_owned())
}
