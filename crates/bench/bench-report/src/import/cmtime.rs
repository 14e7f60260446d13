//! Reads `cmtime` of rdmacm-utils, which prints the time of each step of many connections; each
//! step is done for all of them before the next one. Older releases of rdma-core (such as 44) print
//! milliseconds in the first column, a colon behind each name, and the share of one connection in
//! each step; with the total, it gives the number of connections. Later releases print microseconds
//! in the second column, and the mean of single connections, which wait for each other; the number
//! of connections stands above the table.

use bench_record::spec::Benchmark;
use bench_record::{Connections, Point};

use super::Found;

/// Steps that do not belong to the set-up: those behind it, and the sum of all.
const OTHERS: [&str; 5] = ["disconnect", "destroy", "destroy id", "destroy qp", "full connect"];
/// The words above a table of a late release that give the number of connections, with and without
/// queue pairs.
const COUNTS: [&str; 2] = ["qp_conn", "cm_conn"];
/// The width of the names of steps, if no colon ends them.
const NAME_COLUMNS: usize = 13;

pub(super) fn is_here(text: &str) -> bool {
    heading(text).is_some()
}

fn heading(text: &str) -> Option<&str> {
    let is_one = |line: &&str| {
        line.starts_with("step") && ["total ms", "total(us)"].iter().any(|own| line.contains(own))
    };
    text.lines().find(is_one)
}

/// A step of the set-up.
struct Step {
    /// The time of all connections.
    total_us: f64,
    /// The time of one connection, as far as it is printed.
    each_us: f64,
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let heading = heading(text).ok_or("it has no line with `step` and `total`")?;
    let is_late = heading.contains("total(us)");
    let tables = text.lines().filter(|line| *line == heading).count();
    if !is_late && tables > 1 {
        return Err(format!("it holds {tables} runs: split it"));
    }
    let rows = text.lines().skip_while(|line| *line != heading).skip(1);
    let steps: Vec<(&str, &str)> = match is_late {
        // More tables may follow.
        true => rows.map_while(|row| row.split_at_checked(NAME_COLUMNS).filter(is_row)).collect(),
        false => rows.filter_map(|row| row.split_once(':')).collect(),
    };
    let set_up = steps.into_iter().filter(|(name, _)| !OTHERS.contains(&name.trim()));
    let set_up = set_up.map(|(name, figures)| step(name.trim(), figures, is_late));
    let set_up = set_up.collect::<Result<Vec<Step>, String>>()?;
    let total_us: f64 = set_up.iter().map(|step| step.total_us).sum();
    let (count, kind) = match is_late {
        true => counted(text, heading)?,
        false => (shares(&set_up), "qp_conn"),
    };
    if !(total_us > 0.0 && count >= 1.0 && count.is_finite()) {
        return Err("it has no step of a set-up that took time".to_owned());
    }
    let connections = Connections {
        count: count as u64,
        per_s: count * 1e6 / total_us,
        parts: Vec::new(),
        client_cpu_us: None,
        arrivals: None,
        behind_ms: None,
    };
    let point = Point { connections: Some(connections), ..Point::new(0, 0) };
    let what = match kind {
        "qp_conn" => "cmtime, from an id to a connected queue pair",
        _ => "cmtime, from an id to a connection without a queue pair",
    };
    Ok(Found::new(Benchmark::Connections, what, vec![point]))
}

/// Returns the number of connections that a table of an early release is about.
fn shares(set_up: &[Step]) -> f64 {
    // The longest step has most digits.
    let longest = set_up.iter().max_by(|a, b| a.each_us.total_cmp(&b.each_us));
    longest.map_or(0.0, |step| (step.total_us / step.each_us).round())
}

/// Returns the number above the first table of a late release, and its name.
fn counted(text: &str, heading: &str) -> Result<(f64, &'static str), String> {
    let above = text.lines().take_while(|line| *line != heading);
    let count = |line: &str| {
        let (name, count) = line.trim().split_once(char::is_whitespace)?;
        let name = COUNTS.into_iter().find(|own| *own == name)?;
        Some((count.trim().parse::<u32>().ok()?.into(), name))
    };
    above.filter_map(count).last().ok_or_else(|| {
        "it has no line `qp_conn` or `cm_conn` above the table, which says how many connections \
         there were"
            .to_owned()
    })
}

fn step(name: &str, figures: &str, is_late: bool) -> Result<Step, String> {
    let (total, each, us) = if is_late { (1, 2, 1.0) } else { (0, 3, 1e3) };
    let figures: Vec<&str> = figures.split_whitespace().collect();
    let number = |column: usize| {
        let word = figures.get(column).copied().unwrap_or_default();
        let number = word.parse().ok().filter(|own: &f64| own.is_finite() && *own >= 0.0);
        number.ok_or_else(|| format!("step {name}: `{word}` is not a time"))
    };
    Ok(Step { total_us: number(total)? * us, each_us: number(each)? })
}

/// Returns true if only figures follow the name.
fn is_row((_, figures): &(&str, &str)) -> bool {
    let mut figures = figures.split_whitespace().peekable();
    figures.peek().is_some() && figures.all(|figure| figure.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(u64, f64)> {
        let found = read(text).ok()?;
        found.points[0].connections.as_ref().map(|own| (own.count, own.per_s))
    }

    #[test]
    fn steps_of_the_set_up_are_summed() {
        let output = "step              total ms     max ms     min us  us / conn\n\
                      create id    :        1.50       0.10       1.00       3.00\n\
                      connect      :       20.25       9.00       4.00      40.50\n\
                      disconnect   :      100.00       9.00       4.00      40.50\n\
                      destroy      :      100.00       9.00       4.00      40.50\n";
        let (count, per_s) = found(output).expect("connections");
        assert_eq!((count, per_s.round()), (500, (500.0 * 1e3 / 21.75_f64).round()));
    }

    /// Single connections overlap, so that their mean is no share of the whole: it would give 2
    /// connections of 1000.
    #[test]
    fn late_tables_say_how_many_they_are_of() {
        for head in ["avg/iter", "avg/conn"] {
            let table = format!(
                "step             {head}  total(us)    us/conn    sum(us)    max(us)    min(us)\n\
                 full connect           48      48000          0          0      47000        900\n\
                 create id               1       1500          1       1400         20          1\n\
                 cm connect             25      25000      13000   13000000      24900       1200\n\
                 destroy qp              5       5000          4       4900         20          3\n"
            );
            // Without queue pairs comes second.
            let all = format!(
                "qp_conn              1000\nthreads                 1\n{table}\
                 Connect (1000) test - no QPs\ncm_conn              1000\n{}",
                table.replace("25000", "99000")
            );
            let (count, per_s) = found(&all).expect("connections");
            assert_eq!((count, per_s.round()), (1000, (1000.0 * 1e3 / 26.5_f64).round()));
            let error = read(&table).expect_err("nobody knows how many");
            assert!(error.contains("no line `qp_conn`"), "{error}");
            let sockets = read(&format!("cm_conn  1000\n{table}")).expect("connections");
            assert!(sockets.title.ends_with("without a queue pair"), "{}", sockets.title);
        }
    }

    /// `cmtime -c 100` of rdma-core 44 on a RoCE device of Soft-EFA.
    #[test]
    fn early_tables_tell_it_by_the_share_of_one() {
        let text = include_str!("../../tests/samples/cmtime.txt");
        let (count, per_s) = found(text).expect("connections");
        let total_ms: f64 = 0.47 + 5.28 + 4.77 + 9.80 + 29.40;
        assert_eq!((count, per_s.round()), (100, (100.0 * 1e3 / total_ms).round()));
    }

    #[test]
    fn what_is_no_table_of_steps_is_refused() {
        for text in ["no: 5", "step  total ms\nconnect : what\n", "step total ms\n", "step"] {
            assert_eq!(found(text), None, "{text}");
        }
        let once = "step  total ms\nconnect : 1.0 1.0 1.0 2.0\n";
        assert!(found(once).is_some_and(|(count, _)| count == 500));
        assert_eq!(found(&once.repeat(2)), None, "two runs");
    }
}
