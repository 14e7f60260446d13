//! The findings of the EFA paper's section 5, computed again from what was measured on a fabric.
//! Nothing is said without figures: a missing measurement is named with the command that makes it.
//!
//! No finding rests on runs in which threads had to share processors: they measure the scheduler.

mod batching;
mod interface;
mod one_sided;
mod order;
mod streams;
#[cfg(test)]
mod tests;

use bench_record::Run;
use report::{Section, Table, distinct};

use streams::Stream;

/// The share of the best figure from which a figure is as good as the best.
const NEAR: f64 = 0.95;
/// The gain from which an effort is worth it.
const WORTH: f64 = 1.10;

/// Renders a ratio for people.
pub(crate) fn times(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.0}") } else { format!("{ratio:.2}") }
}

/// A finding: what was measured, and what follows for programs on this fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    measured: String,
    advice: String,
}

impl Found {
    fn new(measured: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { measured: measured.into(), advice: advice.into() }
    }
}

impl Found {
    /// Returns the finding that nobody can tell, because the processors were elsewhere for one than
    /// for the other.
    fn apart() -> Self {
        Self::new(
            "Cannot be told: the cores were near for one and far for the other.",
            "Measure again with the cores in the same places (--cpu, --server-cpu).",
        )
    }
}

/// The subject of a finding, the finding, and the command that measures it.
type Lesson = (&'static str, Option<Found>, &'static str);

/// Returns a section for each fabric that was measured, and one for the interfaces of one adapter.
pub fn sections(runs: &[Run]) -> Vec<Section> {
    // MPI is an interface, and what it runs on has a section of its own.
    let is_mpi = |run: &Run| run.fabric.as_ref().is_some_and(|fabric| fabric.provider == "mpi");
    let ours = runs.iter().filter(|run| run.source == "measured" && !is_mpi(run));
    let names = distinct(ours.map(|run| run.name.as_str()));
    let own = names.iter().map(|name| of_fabric(name, runs));
    let found = interface::compare(runs);
    let between = found.map(|found| {
        section("Lessons: the interfaces of one adapter", vec![("Interface", Some(found), "")])
    });
    own.chain(between).collect()
}

fn of_fabric(name: &str, runs: &[Run]) -> Section {
    let own: Vec<&Run> = runs.iter().filter(|r| r.name == name && r.source == "measured").collect();
    let all = streams::of(&own);
    let streams: Vec<Stream> = all.iter().filter(|stream| !stream.is_crowded).copied().collect();
    let lessons = vec![
        ("Depth", streams::depth(&streams), "bandwidth --sizes 16,8192 --depth 1..1024"),
        (
            "Message size",
            streams::size(&streams),
            "bandwidth --sizes 16,512,4096,8192 --depth 256, with --endpoints 1 and with 4",
        ),
        (
            "Parallelism",
            streams::parallel(&all),
            "bandwidth --sizes 16 --depth 256, with --endpoints 1, 2, 4, 8, and with --threads 1, 2, 4",
        ),
        (
            "Order",
            order::cost(&own),
            "bandwidth --sizes 64,8192 --depth 256 --order any,numbered,kept",
        ),
        ("READ and WRITE", one_sided::compare(&own), "rma, with --op read and with --op write"),
        ("Batching", batching::gain(&own, &streams), "latency --sizes 64,4096"),
    ];
    section(&format!("Lessons: {name}"), lessons)
}

fn section(title: &str, lessons: Vec<Lesson>) -> Section {
    let titles = ["about", "measured", "recommendation"];
    let mut table = Table::new("What the figures mean for who builds on it", &titles, 3);
    table = table.with_prose(1).with_prose(2);
    let mut missing = Vec::new();
    for (about, found, command) in lessons {
        match found {
            Some(Found { measured, advice }) => {
                table.push(vec![about.to_owned(), measured, advice]);
            }
            None => missing.push(format!("{about}: efa-bench local {command}")),
        }
    }
    let details = match missing.is_empty() {
        true => Vec::new(),
        false => {
            let of = missing.len();
            vec![(
                format!("Not measured here: {of} more, each with its command"),
                missing.join("\n"),
            )]
        }
    };
    let tables = if table.rows.is_empty() { Vec::new() } else { vec![table] };
    Section { title: title.to_owned(), tables, details, ..Section::default() }
}
