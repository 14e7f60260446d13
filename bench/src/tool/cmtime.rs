//! The `cmtime` of rdmacm-utils: connections that librdmacm sets up.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Device, Tools, pair};

const LIMIT: Duration = Duration::from_secs(60);
/// Rows that are no step of the set-up of a connection: what comes behind it, and the sum of all.
const OTHERS: [&str; 5] = ["disconnect", "destroy", "destroy id", "destroy qp", "full connect"];
/// Width of the names of steps where no colon ends them.
const NAME_COLUMNS: usize = 13;

/// Connections per second, from an id to an established queue pair of a RoCE device; `count` are
/// set up, each step for all of them before the next one.
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

/// The sum of the totals of all steps of the set-up. Releases of rdma-core before 56 print
/// milliseconds in the first column and a colon behind each name, later ones microseconds in the
/// second.
fn set_up_ms(output: &str) -> Option<f64> {
    let mut rows = output.lines().skip_while(|line| !line.starts_with("step"));
    let heading = rows.next()?;
    let steps: Vec<(&str, &str)> = match heading.contains("total(us)") {
        // More tables may follow.
        true => rows.map_while(|row| row.split_at_checked(NAME_COLUMNS).filter(is_row)).collect(),
        false => rows.filter_map(|row| row.split_once(':')).collect(),
    };
    let (column, per_ms) = if heading.contains("total(us)") { (1, 1e3) } else { (0, 1.0) };
    let set_up = steps.iter().filter(|(step, _)| !OTHERS.contains(&step.trim()));
    let totals: Option<Vec<f64>> =
        set_up.map(|(_, figures)| figures.split_whitespace().nth(column)?.parse().ok()).collect();
    let totals = totals.filter(|totals| !totals.is_empty())?;
    Some(totals.iter().sum::<f64>() / per_ms)
}

/// Behind a name stand figures alone.
fn is_row((_, figures): &(&str, &str)) -> bool {
    let mut figures = figures.split_whitespace().peekable();
    figures.peek().is_some() && figures.all(|figure| figure.parse::<f64>().is_ok())
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
        let output = "step             avg/iter  total(us)    us/conn    sum(us)    max(us)    min(us)\n\
                      full connect          2       1000         10          0         12          9\n\
                      create id             2       1500          1         10          1          1\n\
                      cm connect            2      20250          1         10          1          1\n\
                      destroy qp            2     100000          1         10          1          1\n\
                      Connecting once more: 7\n\
                      create id             2       9999          1         10          1          1\n";
        assert_eq!(set_up_ms(output), Some(21.75));
        assert_eq!(set_up_ms("step  total ms\nconnect : what"), None);
    }
}
