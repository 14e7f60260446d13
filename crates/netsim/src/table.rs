//! Outcomes as a table for people.

use crate::outcome::Outcome;
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

/// A row per run. What links were paused in all is shown where any was.
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
    }
    table
}

fn row(outcome: &Outcome) -> Vec<String> {
    let all = outcome.flows.len();
    let lost = outcome.lost_packets();
    let Some(s) = outcome.summary() else {
        let mut row = vec![outcome.seed.to_string(), format!("0/{all}")];
        row.resize(TITLES.len() - 1, "-".to_owned());
        row.push(lost.to_string());
        return row;
    };
    let us = |value: f64| format!("{value:.1}");
    let ratio = |value: f64| format!("{value:.3}");
    vec![
        outcome.seed.to_string(),
        format!("{}/{all}", s.done),
        us(s.min_us),
        us(s.mean_us),
        us(s.p50_us),
        us(s.p99_us),
        us(s.max_us),
        ratio(s.min_to_ideal),
        ratio(s.max_to_ideal),
        format!("{:.2}", s.repeated_percent),
        ratio(s.jain),
        lost.to_string(),
    ]
}
