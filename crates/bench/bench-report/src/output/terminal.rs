//! Runs and tables on a terminal.

use std::io::IsTerminal;

use bench_record::spec::Order;
use bench_record::{Disorder, Run, cores};
use report::{Table, significant};

use super::table;
use crate::held;
use crate::kinds::{self, counted};

/// The number of characters for which every terminal has room in a line.
const TERMINAL_CHARS: usize = 100;
/// Renders a table for standard output: whole if that is no terminal, else as wide as terminals
/// are, with the names of what is left out.
pub fn for_terminal(table: &Table) -> String {
    if !std::io::stdout().is_terminal() {
        return table.text();
    }
    narrow(table)
}

/// Renders the table for a terminal.
fn narrow(table: &Table) -> String {
    let (own, lacks) = table.within(TERMINAL_CHARS);
    match lacks.len() {
        0 => own.text(),
        _ => format!(
            "{}(wider than {TERMINAL_CHARS} characters with {}: on a pipe the table is whole)\n",
            own.text(),
            lacks.join(", ")
        ),
    }
}

/// Renders one run for the terminal.
pub fn text(run: &Run) -> String {
    let table = table(run);
    let mut out = format!("{}\n", table.caption);
    if let Some(fabric) = &run.fabric {
        out += &format!("provider {}, domain {}", fabric.provider, fabric.domain);
        out += &fabric.mtu_bytes.map_or_else(String::new, |m| format!(", MTU {m} B"));
        if let Some(cold) = run.cold_start_us {
            out += &format!("; first round trip {} µs", significant(cold));
        }
        out.push('\n');
    }
    out += &for_terminal(&table);
    (kinds::of(run.benchmark).notes)(run).iter().for_each(|line| out += &format!("{line}\n"));
    for point in &run.points {
        let Some(found) = point.disorder else { continue };
        let Disorder { farthest, held, held_most, .. } = found;
        let (size, depth) = (point.size_bytes, point.depth);
        out += &format!(
            "order of {size} B at depth {depth}: {:.2} % came after a later message, by up to {farthest}",
            found.overtaken_percent()
        );
        if point.order == Order::Kept {
            out += &format!("; {held} waited for their turn, {held_most} at once at most");
        }
        out.push('\n');
    }
    out += &held::lines(run);
    out += &counted::source(run);
    if run.is_loopback {
        out += &format!("{}\n", cores::words(run.points.iter()));
    }
    if let Some(error) = &run.error {
        out += &format!("INCOMPLETE: {error}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge;

    /// A narrow table keeps the only column that says how certain a verdict is, and names no option
    /// that `compare` does not have.
    #[test]
    fn a_comparison_keeps_how_uncertain_it_is() {
        let mut table = judge::head();
        let label = "libfabric efa, wire udp latency 64 B, depth 1, threads 4, endpoints 2";
        let cells = [label, "p50 us", "same", "5.0", "5.1", "1.02", "0.99 to 1.04", "5.0 %"];
        table.push(cells.map(str::to_owned).to_vec());
        let text = narrow(&table);
        assert!(text.contains("0.99 to 1.04") && !text.contains("5.0 %"), "{text}");
        assert!(text.contains("on a pipe the table is whole") && !text.contains("csv"), "{text}");
    }
}
