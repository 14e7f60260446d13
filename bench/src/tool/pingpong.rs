//! The `fi_pingpong` of libfabric.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Tools, pair};

const LIMIT: Duration = Duration::from_secs(60);

/// The first round trips, in which a provider is still setting up: `efa` allocates its receive
/// buffers while the first message comes, which takes 90 ms here.
const FIRST: u32 = 100;
/// With fewer the set-up, which differs by 2 ms from run to run, would be more than the rest.
const FEWEST: u32 = 20_000;

/// Mean of half a round trip in microseconds over `provider`, of `round_trips` (at least 20,000)
/// after the first; over the software device when that is `efa`.
///
/// # Errors
/// The program is missing, fails or prints something unknown.
pub(crate) fn half_round_trip_us(
    tools: &Tools,
    provider: &str,
    bytes: usize,
    round_trips: u32,
) -> Result<f64> {
    let sum_us = |count: u32| -> Result<f64> {
        Ok(mean_of_all_us(tools, provider, bytes, count)? * f64::from(count))
    };
    let round_trips = round_trips.max(FEWEST);
    let (first_us, all_us) = (sum_us(FIRST)?, sum_us(FIRST + round_trips)?);
    Ok((all_us - first_us) / f64::from(round_trips))
}

/// The mean that the program prints, the first round trips included.
fn mean_of_all_us(tools: &Tools, provider: &str, bytes: usize, round_trips: u32) -> Result<f64> {
    let port = pair::free_port()?.to_string();
    let words = |last: &[&str]| -> Vec<String> {
        let size = bytes.to_string();
        let count = round_trips.to_string();
        let all = ["fi_pingpong", "-p", provider, "-e", "rdm", "-I", &count, "-S", &size];
        all.iter().chain(last).map(|&word| word.to_owned()).collect()
    };
    let on_device = provider == "efa";
    let server = tools.server(on_device, &words(&["-B", &port]));
    let client = tools.client(on_device, &words(&["-P", &port, "127.0.0.1"]));
    let output = pair::run(&server, &client, port.parse()?, LIMIT)?;
    microseconds(&output)
        .with_context(|| format!("fi_pingpong -p {provider} printed no result:\n{output}"))
}

/// The column headed `usec/xfer` of the last row.
fn microseconds(output: &str) -> Option<f64> {
    let mut lines = output.lines().skip_while(|line| !line.starts_with("bytes"));
    let column = lines.next()?.split_whitespace().position(|word| word == "usec/xfer")?;
    lines.last()?.split_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_is_found_by_its_heading() {
        let output = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                      64      20k     =20k     2.4m        0.44s      5.76      11.11       0.09\n";
        assert_eq!(microseconds(output), Some(11.11));
        assert_eq!(microseconds("nothing"), None);
    }
}
