//! The `cmtime` of rdmacm-utils: connections that librdmacm sets up.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Device, Tools, pair};

const LIMIT: Duration = Duration::from_secs(60);
/// What comes behind the set-up of a connection.
const AFTERWARDS: [&str; 2] = ["disconnect", "destroy"];

/// Connections per second, from an id to an established queue pair of a RoCE device; `count` are set up, each step for
/// all of them before the next one.
///
/// # Errors
/// The program is missing, fails or prints something unknown.
pub(crate) fn connections_per_s(tools: &Tools, count: u32) -> Result<f64> {
    let port = pair::free_udp_port()?;
    let words = |whom: &str| -> Vec<String> {
        let (count, port) = (count.to_string(), port.to_string());
        let words = ["cmtime", whom, "127.0.0.1", "-c", &count, "-p", &port];
        words.map(str::to_owned).to_vec()
    };
    let tools = tools.on(Device::Roce);
    let (server, client) = (tools.server(true, &words("-b")), tools.client(true, &words("-s")));
    let output = pair::run_against(&server, &client, port, LIMIT)?;
    let ms = set_up_ms(&output).with_context(|| format!("cmtime printed no result:\n{output}"))?;
    Ok(f64::from(count) * 1e3 / ms)
}

/// The sum of the column headed `total ms` over the steps of the set-up.
fn set_up_ms(output: &str) -> Option<f64> {
    let rows = output.lines().skip_while(|line| !line.starts_with("step"));
    let steps = rows.filter_map(|line| line.split_once(':'));
    let set_up = steps.filter(|(step, _)| !AFTERWARDS.contains(&step.trim()));
    let totals: Option<Vec<f64>> =
        set_up.map(|(_, figures)| figures.split_whitespace().next()?.parse().ok()).collect();
    totals.filter(|totals| !totals.is_empty()).map(|totals| totals.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_the_set_up_are_summed() {
        let output = "step              total ms     max ms     min us  us / conn\n\
                      create id    :        1.50       0.10       1.00       2.60\n\
                      connect      :       20.25       9.00       4.00      40.50\n\
                      disconnect   :      100.00       9.00       4.00      40.50\n\
                      destroy      :      100.00       9.00       4.00      40.50\n";
        assert_eq!(set_up_ms(output), Some(21.75));
        assert_eq!(set_up_ms("no: 5"), None);
        assert_eq!(set_up_ms("step  total ms\nconnect : what"), None);
    }
}
