//! Perftest: `ib_send_*` over SRD, `ib_send_*` and `ib_write_*` over reliable connections.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Device, Tools, pair};
use crate::floor::Rate;

const LIMIT: Duration = Duration::from_secs(60);
/// Runs until the program's clock is good.
const TRIES: u32 = 3;
/// Column of the typical (median) latency behind size and iterations.
const COLUMN_TYPICAL: usize = 4;
/// Columns of the average bandwidth and of the message rate in millions.
const COLUMN_AVERAGE: usize = 3;
const COLUMN_RATE: usize = 4;

/// A perftest program and its transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Perftest {
    /// `ib_send_*` over SRD of an EFA device.
    Srd,
    /// `ib_send_*` over reliable connections of a RoCE device.
    RcSend,
    /// `ib_write_*`, likewise.
    RcWrite,
}

impl Perftest {
    /// The program's name: "ib_write_bw", as `kind` is "bw".
    fn program(self, kind: &str) -> String {
        let operation = match self {
            Self::Srd | Self::RcSend => "send",
            Self::RcWrite => "write",
        };
        format!("ib_{operation}_{kind}")
    }

    fn transport(self) -> &'static [&'static str] {
        match self {
            Self::Srd => &["-c", "SRD", "-x", "0"],
            Self::RcSend | Self::RcWrite => &["-c", "RC"],
        }
    }

    /// Median of half a round trip in microseconds.
    ///
    /// # Errors
    /// The program is missing, fails or prints something unknown.
    pub(crate) fn latency_us(self, tools: &Tools, bytes: usize, round_trips: u32) -> Result<f64> {
        let extra = ["-n".to_owned(), round_trips.to_string()];
        let [typical_us] = self.figures(tools, "lat", bytes, &extra, [COLUMN_TYPICAL])?;
        Ok(typical_us)
    }

    /// Goodput and messages per second of one queue pair with `depth` messages under way.
    ///
    /// # Errors
    /// As [`Perftest::latency_us`].
    pub(crate) fn stream(
        self,
        tools: &Tools,
        bytes: usize,
        depth: usize,
        messages: u32,
    ) -> Result<Rate> {
        let mut values = vec![("-t", depth.to_string()), ("-n", messages.to_string())];
        if self != Self::RcWrite {
            values.push(("-r", (2 * depth).to_string()));
        }
        let mut extra = vec!["--report_gbits".to_owned(), "-N".to_owned()];
        extra.extend(values.into_iter().flat_map(|(word, value)| [word.to_owned(), value]));
        let columns = [COLUMN_AVERAGE, COLUMN_RATE];
        let [gbit_per_s, rate] = self.figures(tools, "bw", bytes, &extra, columns)?;
        Ok(Rate { gbit_per_s, segments_per_s: rate * 1e6 })
    }

    /// Figures of the result row. Perftest compares the processor's counter with the time of day
    /// before it measures, and prints zeros when it was disturbed: then it runs again.
    fn figures<const N: usize>(
        self,
        tools: &Tools,
        kind: &str,
        bytes: usize,
        extra: &[String],
        columns: [usize; N],
    ) -> Result<[f64; N]> {
        for _ in 0..TRIES {
            let row = self.run(tools, kind, bytes, extra)?;
            let mut figures = [0.0; N];
            for (figure, column) in figures.iter_mut().zip(columns) {
                *figure = number(&row, column)?;
            }
            if figures.iter().all(|figure| *figure > 0.0) {
                return Ok(figures);
            }
        }
        bail!(
            "{} printed zeros {TRIES} times, as it does when it cannot measure the processor's clock; \
             end what else runs on this machine",
            self.program(kind)
        )
    }

    /// The result row of the client.
    fn run(self, tools: &Tools, kind: &str, bytes: usize, extra: &[String]) -> Result<String> {
        let port = pair::free_port()?;
        let program = self.program(kind);
        // Nothing inline, whatever the program's default is.
        let mut words = vec![program.clone()];
        words.extend(self.transport().iter().chain(&["-F", "-I", "0"]).map(ToString::to_string));
        words.extend(["-s".to_owned(), bytes.to_string(), "-p".to_owned(), port.to_string()]);
        words.extend_from_slice(extra);
        let tools = tools.on(if self == Self::Srd { Device::Efa } else { Device::Roce });
        let server = tools.server(true, &words);
        words.push("127.0.0.1".to_owned());
        let client = tools.client(true, &words);
        let output = pair::run(&server, &client, port, LIMIT)?;
        result_row(&output, bytes)
            .with_context(|| format!("{program} printed no result for {bytes} bytes:\n{output}"))
    }
}

/// The row behind the heading whose first column is the message size.
fn result_row(output: &str, bytes: usize) -> Option<String> {
    let size = bytes.to_string();
    let rows = output.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
    rows.skip(1).find(|line| line.split_whitespace().next() == Some(&size)).map(str::to_owned)
}

fn number(row: &str, column: usize) -> Result<f64> {
    let text = row.split_whitespace().nth(column);
    text.and_then(|text| text.parse().ok())
        .with_context(|| format!("no number in column {column} of '{row}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_found_behind_the_heading() {
        let output = " TX depth : 1\n 64 is not it\n #bytes #iterations    t_min[usec]\n\
                      \x20 64      1000          1.89           7.77         2.03\n ---\n";
        let row = result_row(output, 64).unwrap();
        assert!((number(&row, COLUMN_TYPICAL).unwrap() - 2.03).abs() < 1e-9);
        assert_eq!(result_row(output, 128), None);
        assert!(number(&row, 9).is_err());
    }
}
