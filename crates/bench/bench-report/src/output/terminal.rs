//! Runs and tables on a terminal.

use std::io::IsTerminal;

use bench_record::spec::Order;
use bench_record::{Disorder, Run, cores};
use report::{Table, significant};

use super::table;
use crate::held;
use crate::kinds::{self, counted};

/// Characters of a line that every terminal has room for.
const TERMINAL_CHARS: usize = 100;
/// A table as standard output shows it: whole, but for terminals as wide as they are, with the
/// names of what it lacks.
pub fn for_terminal(table: &Table) -> String {
    if !std::io::stdout().is_terminal() {
        return table.text();
    }
    narrow(table)
}

/// The table for a terminal.
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

/// One run for the terminal.
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

    /// It lacked the only column that says how certain a verdict is, and named an option that
    /// `compare` has not.
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
