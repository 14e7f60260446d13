//! The page of `netsim check`, as Markdown and as HTML.

use super::{ALWAYS, Entry};
use crate::command::judge;
use crate::command::page::{describe, line};
use crate::command::record::Run;
use netsim::{Bound, Scenario};
use report::{Axis, Chart, Page, Scale, Section, Series, Stroke, Table, wrapped};

const SUMMARY: &str = "This page compares every scenario, with all its seeds, with the scenario's own \
     bounds (`[expect]`). The figures are in virtual time, so they repeat on any \
     machine.";
const HELD_OUT: &str = "No parameter of a transport was chosen with the scenarios in `heldout` or with \
     the seeds in the column of other seeds.";
/// Ratio above which values are drawn in equal factors.
const LINEAR_MAX: f64 = 5.0;
/// Looks of the chart: own seeds, other seeds, bounds.
const LOOKS: [usize; 3] = [0, 1, 2];

/// Builds the page with what went wrong, without the chart, which Markdown has no use for.
pub(super) fn page(entries: &[Entry], table: Table) -> Page {
    let bounded = entries.iter().flat_map(Entry::bounds).filter(Bound::is_bounded);
    let (held, missed): (Vec<Bound>, Vec<Bound>) = bounded.partition(|b| b.missed().is_none());
    let titles = ["number", "scenario", "title"];
    let mut names = Table::new("Titles of the scenarios", &titles, 3).with_prose(2);
    for (number, Entry { point, .. }) in (1..).zip(entries) {
        names.push(vec![number.to_string(), point.file.clone(), point.title.clone()]);
    }
    let mut summary = vec![wrapped(SUMMARY, "", "")];
    let is_held_out = |entry: &Entry| entry.point.file.contains("heldout/");
    summary.extend(entries.iter().any(is_held_out).then(|| wrapped(HELD_OUT, "", "")));
    Page {
        title: "Scenarios".to_owned(),
        summary,
        warnings: entries.iter().flat_map(|e| e.problems().into_iter().chain(e.notes())).collect(),
        facts: vec![
            ("bounds held".to_owned(), held.len().to_string()),
            ("bounds missed".to_owned(), missed.len().to_string()),
        ],
        sections: vec![Section {
            title: "Figures".to_owned(),
            tables: vec![table, names],
            ..Section::default()
        }],
    }
}

/// Adds a chart of the slowest flows to the page.
pub(super) fn with_chart(mut page: Page, entries: &[Entry]) -> Page {
    if let Some(section) = page.sections.first_mut() {
        section.chart = Some(chart(entries));
    }
    page
}

fn chart(entries: &[Entry]) -> Chart {
    let (mut singles, mut means, mut beside, mut bounds) = (vec![], vec![], vec![], vec![]);
    for (x, entry) in (1..).map(f64::from).zip(entries) {
        let ratio = |runs: &[Run]| slowest(&entry.scenario, runs).and_then(|bound| bound.mean);
        let alone = |run| ratio(std::slice::from_ref(run));
        singles.extend(entry.point.runs.iter().filter_map(alone).map(|value| (x, value)));
        means.extend(ratio(&entry.point.runs).map(|value| (x, value)));
        beside.extend(ratio(&entry.beside.runs).map(|value| (x, value)));
        let bound = slowest(&entry.scenario, &entry.point.runs);
        bounds.extend(bound.and_then(|bound| bound.most).map(|value| (x, value)));
    }
    let [own, other, bound] = LOOKS;
    let lines = [
        line("single seeds", own, Stroke::Spread, singles),
        line("mean", own, Stroke::Solid, means),
        line("other seeds", other, Stroke::Solid, beside),
        line("at most", bound, Stroke::Dashed, bounds),
    ];
    let series: Vec<Series> = lines.into_iter().filter(|line| !line.points.is_empty()).collect();
    let most = series.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    let numbers = (1..=entries.len()).map(|number| number.to_string()).collect();
    Chart {
        title: "Slowest flow over the best possible time, and the most that is expected".to_owned(),
        description: describe(&series, ALWAYS),
        x: Axis { label: "scenario, by its number below".to_owned(), scale: Scale::Names(numbers) },
        y: Axis {
            label: ALWAYS.to_owned(),
            scale: if most > LINEAR_MAX { Scale::Log10 } else { Scale::Linear },
        },
        series,
    }
}

/// Returns the figure that is drawn.
fn slowest(scenario: &Scenario, runs: &[Run]) -> Option<Bound> {
    judge::bounds(scenario, runs).into_iter().find(|bound| bound.figure == ALWAYS)
}
