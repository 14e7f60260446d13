//! The `fi_pingpong` of libfabric.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Tools, pair};

const LIMIT: Duration = Duration::from_secs(60);

/// The first round trips, in which a provider is still setting up: `efa` allocates its receive
/// buffers while the first message comes, which takes 90 ms here.
const FIRST: u32 = 100;
/// A busy machine may stop a program while it sets up, for 90 ms where 0.1 are needed: the
/// shortest of so many runs is taken for what the set-up needs.
const RUNS_OF_FIRST: usize = 3;
/// Fewer seldom outweigh the set-up.
const FEWEST: u32 = 20_000;
/// As often are the round trips doubled when the set-up outweighs them.
const DOUBLINGS: u32 = 6;

/// Mean of half a round trip in microseconds over `provider`, of at least `round_trips` and 20,000
/// after the first; over the software device when that is `efa`.
///
/// # Errors
/// The program is missing, fails or prints something unknown, or its set-up takes longer than 64
/// times that.
pub(crate) fn half_round_trip_us(
    tools: &Tools,
    provider: &str,
    bytes: usize,
    round_trips: u32,
) -> Result<f64> {
    let sum_us = |count: u32| -> Result<f64> {
        Ok(mean_of_all_us(tools, provider, bytes, count)? * f64::from(count))
    };
    let first_us = (0..RUNS_OF_FIRST).map(|_| sum_us(FIRST)).collect::<Result<Vec<_>>>()?;
    let first_us = first_us.into_iter().fold(f64::INFINITY, f64::min);
    let round_trips = round_trips.max(FEWEST);
    for doublings in 0..=DOUBLINGS {
        let round_trips = round_trips << doublings;
        let rest = after_the_first(first_us, sum_us(FIRST + round_trips)?, round_trips);
        if let Some(mean_us) = rest {
            return Ok(mean_us);
        }
    }
    bail!(
        "fi_pingpong -p {provider}: its first {FIRST} round trips took {first_us:.0} us, more than \
         {} after them: measure more round trips",
        round_trips << DOUBLINGS
    )
}

/// The mean of the `round_trips` after the first, if they took longer than those. What differs in
/// the first from run to run would be too great a part of the mean otherwise.
fn after_the_first(first_us: f64, all_us: f64, round_trips: u32) -> Option<f64> {
    let rest_us = all_us - first_us;
    (rest_us > first_us).then(|| rest_us / f64::from(round_trips))
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

    /// The set-up of libfabric's shm took 170 ms once, on a busy machine, and 20,000 round trips
    /// with their set-up 15: 4 us below zero for each was no figure.
    #[test]
    fn round_trips_that_a_set_up_outweighs_are_no_figure() {
        assert_eq!(after_the_first(84_772.0, 7_400.0, 20_000), None);
        assert_eq!(after_the_first(45_000.0, 83_000.0, 20_000), None);
        assert_eq!(after_the_first(45_000.0, 121_000.0, 40_000), Some(1.9));
    }
}
