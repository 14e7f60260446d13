//! Outcomes as a table for people.

use crate::outcome::{FlowOutcome, Outcome, Summary};
use crate::transport::Kind as Transport;
use report::Table;

const TITLES: [&str; 12] = [
    "seed",
    "done",
    "min us",
    "mean us",
    "p50 us",
    "p99 us",
    "max us",
    "min/ideal",
    "max/ideal",
    "repeated %",
    "Jain",
    "lost",
];

/// Place of the column that is only known for all flows together.
const REPEATED: usize = 9;

const SHARE_TITLES: [&str; 10] = [
    "seed",
    "transport",
    "flows",
    "interval ms",
    "fair Gbit/s",
    "Jain of shares",
    "worst interval",
    "flow min/fair",
    "min/fair",
    "max/fair",
];

/// Returns a row per run, and when flows use several transports one for each of those. Links that
/// were paused are counted where there were any.
#[must_use]
pub fn table(title: &str, outcomes: &[Outcome]) -> Table {
    let any_paused = outcomes.iter().any(|outcome| !outcome.paused_links.is_empty());
    let titles: Vec<&str> = TITLES.into_iter().chain(any_paused.then_some("paused us")).collect();
    let mut table = Table::new(title, &titles, 0);
    for outcome in outcomes {
        let mut row = row(outcome);
        if any_paused {
            let paused_ps: u64 = outcome.paused_links.iter().map(|link| link.paused_ps).sum();
            row.push(format!("{:.1}", paused_ps as f64 / 1e6));
        }
        table.push(row);
        let transports = outcome.transports();
        if transports.len() > 1 {
            for &transport in &transports {
                let mut row = row_of(outcome, transport);
                row.resize(titles.len(), "-".to_owned());
                table.push(row);
            }
        }
    }
    table
}

/// Returns a line for each run in which not all flows ended well.
#[must_use]
pub fn open_flows(outcomes: &[Outcome], limit_ms: u32) -> Vec<String> {
    let open = outcomes.iter().filter(|outcome| !outcome.is_complete());
    open.map(|outcome| {
        let (seed, all) = (outcome.seed, outcome.flows.len());
        if all == 0 {
            return format!("seed {seed}: no transfer was drawn");
        }
        let failed = outcome.flows.iter().filter(|flow| flow.failed_messages > 0).count();
        let late = all - outcome.done() - failed;
        let mut what = Vec::new();
        if late > 0 {
            what.push(format!("{late} of {all} flows had not ended at limit_ms = {limit_ms}"));
        }
        if failed > 0 {
            what.push(format!("{failed} of {all} flows ended with errors"));
        }
        format!("seed {seed}: {}; what is shown is of the others", what.join(" and "))
    })
    .collect()
}

/// Returns a row per run and transport: how flows that send all the time shared the network. `None`
/// when there were none.
#[must_use]
pub fn shares_table(title: &str, outcomes: &[Outcome]) -> Option<Table> {
    let mut table = Table::new(title, &SHARE_TITLES, 0);
    let mut rows = 0;
    for outcome in outcomes {
        for transport in outcome.transports() {
            let Some(shares) = outcome.shares.as_ref() else { continue };
            let Some(s) = shares.summary(|kind| kind == transport) else { continue };
            let ratio = |value: f64| format!("{value:.3}");
            table.push(vec![
                outcome.seed.to_string(),
                transport.name().to_owned(),
                s.flows.to_string(),
                shares.interval_ms.to_string(),
                ratio(s.fair_gbps),
                ratio(s.jain),
                ratio(s.jain_worst),
                ratio(s.flow_min_to_fair),
                ratio(s.min_to_fair),
                ratio(s.max_to_fair),
            ]);
            rows += 1;
        }
    }
    (rows > 0).then_some(table)
}

/// Returns the row of the flows of one transport. Figures that are not known by flow are left out.
fn row_of(outcome: &Outcome, transport: Transport) -> Vec<String> {
    let of_it = |flow: &FlowOutcome| flow.transport == transport;
    let all = outcome.flows.iter().filter(|flow| of_it(flow)).count();
    let name = format!("{} {}", outcome.seed, transport.name());
    let mut row = columns(name, all, outcome.summary_of(of_it));
    row[REPEATED] = "-".to_owned();
    row
}

fn row(outcome: &Outcome) -> Vec<String> {
    let mut row = columns(outcome.seed.to_string(), outcome.flows.len(), outcome.summary());
    row.push(outcome.lost_packets().to_string());
    row
}

/// Returns all columns but the last.
fn columns(name: String, all: usize, summary: Option<Summary>) -> Vec<String> {
    let Some(s) = summary else {
        let mut row = vec![name, format!("0/{all}")];
        row.resize(TITLES.len() - 1, "-".to_owned());
        return row;
    };
    let us = |value: f64| format!("{value:.1}");
    let ratio = |value: f64| format!("{value:.3}");
    // Flows that have not ended would be the slowest: the figures of the others are neither a
    // maximum nor the fairness of all of them.
    let of_all = |text: String| if s.done == all { text } else { "-".to_owned() };
    vec![
        name,
        format!("{}/{all}", s.done),
        us(s.min_us),
        of_all(us(s.mean_us)),
        of_all(us(s.p50_us)),
        of_all(us(s.p99_us)),
        of_all(us(s.max_us)),
        ratio(s.min_to_ideal),
        of_all(ratio(s.max_to_ideal)),
        format!("{:.2}", s.repeated_percent),
        of_all(ratio(s.jain)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::FlowId;
    use crate::share::{FlowShares, Shares};

    /// The row of a transport that got nothing was once missing.
    #[test]
    fn a_transport_that_got_nothing_has_a_row() {
        let of = |flow, transport, bytes| FlowShares { flow: FlowId(flow), transport, bytes };
        let flows =
            vec![of(0, Transport::Srd, vec![9, 100, 100]), of(1, Transport::Tcp, vec![9, 0, 0])];
        let flow = |transport| FlowOutcome { transport, ..FlowOutcome::default() };
        let outcome = Outcome {
            flows: vec![flow(Transport::Srd), flow(Transport::Tcp)],
            shares: Some(Shares { interval_ms: 1, flows }),
            ..Outcome::default()
        };
        let table = shares_table("t", &[outcome]).unwrap();
        let starved = ["0", "tcp", "1", "1", "0.000", "0.000", "0.000", "0.000", "0.000", "0.000"];
        assert_eq!((table.rows.len(), &table.rows[1][..]), (2, &starved.map(str::to_owned)[..]));
    }

    #[test]
    fn a_run_without_transfers_says_so() {
        assert_eq!(open_flows(&[Outcome::default()], 5), ["seed 0: no transfer was drawn"]);
    }
}
