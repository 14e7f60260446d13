//! The table of comparisons, for a page and for a terminal.

use bench_record::Results;
use bench_record::comparison::{Bound, Comparison};
use report::{Layout, Section, Table};

use super::{Judged, range};
/// A column: its head, its cell, and whether it is for pages alone, which are wider.
type Column = (&'static str, fn(Judged<'_>) -> String, bool);

const COLUMNS: [Column; 11] = [
    ("", |own| own.0.what.clone(), false),
    ("here", ours, false),
    ("spread", |own| percent(own.found().ours_spread), false),
    ("beside", beside, false),
    ("its spread", |own| percent(own.found().reference_spread), true),
    ("ratio", ratio, false),
    ("of rounds", ratios, true),
    ("cores", |own| own.cores(), false),
    ("must", |own| must(own.0.bound), false),
    ("aim", |own| own.0.aim.map_or_else(String::new, |aim| aim.to_string()), false),
    ("verdict", |own| own.verdict().to_owned(), false),
];

const MEANING: &str = "Middles of the rounds of one run. The spread is the distance of the highest from the lowest \
    round, in percent of the middle. Only rounds with the processors in one place (near or far) are compared: \
    \"far 2/3\" are two of three. Verdicts: pass and aim: what must be, and what is aimed at, is reached; MISS: it \
    is not; APART: two tools differ; unsure: the rounds do not tell; moved: the processors were never in one place \
    for both; none: something could not be measured.";

/// Returns the first section of a page about a plan with comparisons; `None` for other plans.
pub(crate) fn section_of(results: &Results) -> Option<Section> {
    let all = &results.plan.as_ref()?.comparisons;
    let tables = sections(all).into_iter().map(|(title, rows)| table(title, &rows, true));
    (!all.is_empty()).then(|| Section {
        title: "Beside what it is compared with".to_owned(),
        layout: Layout::Lead,
        text: vec![MEANING.to_owned()],
        tables: tables.collect(),
        ..Section::default()
    })
}

/// Renders the comparisons for a terminal.
#[must_use]
pub fn text(results: &Results) -> Option<String> {
    let all = &results.plan.as_ref()?.comparisons;
    let tables = sections(all).into_iter().map(|(title, rows)| {
        let table = table(title, &rows, false);
        let text = table.text();
        if title.is_empty() { text } else { format!("{title}\n{text}") }
    });
    let text = tables.collect::<Vec<_>>().join("\n");
    (!all.is_empty()).then_some(text)
}

/// Groups comparisons below their headings, in the order in which these first appear.
fn sections(all: &[Comparison]) -> Vec<(&str, Vec<&Comparison>)> {
    let mut sections: Vec<(&str, Vec<&Comparison>)> = Vec::new();
    for own in all {
        match sections.iter_mut().find(|(title, _)| *title == own.section) {
            Some((_, rows)) => rows.push(own),
            None => sections.push((&own.section, vec![own])),
        }
    }
    sections
}

fn table(title: &str, rows: &[&Comparison], is_wide: bool) -> Table {
    let has_any = |column: &&Column| {
        // A column that no row has is left out.
        let is_shown = is_wide || !column.2;
        is_shown && rows.iter().any(|own| !(column.1)(Judged(own)).is_empty())
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(has_any).collect();
    let titles: Vec<&str> = columns.iter().map(|column| column.0).collect();
    let mut table = Table::new(title, &titles, titles.len());
    for own in rows {
        table.push(columns.iter().map(|column| (column.1)(Judged(own))).collect());
    }
    table
}

fn ours(own: Judged<'_>) -> String {
    match own.found().ours {
        figure if figure.is_nan() => "-".to_owned(),
        figure => format!("{} {}", significant(figure), own.0.figure.unit()),
    }
}

fn beside(own: Judged<'_>) -> String {
    match own.0.beside.as_str() {
        "" => String::new(),
        name => format!("{} {name}", significant(own.found().reference)),
    }
}

fn ratio(own: Judged<'_>) -> String {
    if own.0.beside.is_empty() { String::new() } else { significant(own.ratio()) }
}

fn ratios(own: Judged<'_>) -> String {
    let of = |(low, high)| format!("{} to {}", significant(low), significant(high));
    range(&own.ratios()).map_or_else(String::new, of)
}

fn must(bound: Bound) -> String {
    match bound {
        Bound::RatioAtMost(limit) => format!("≤ {limit} x"),
        Bound::RatioAtLeast(limit) => format!("≥ {limit} x"),
        Bound::AtLeast(limit) => format!("≥ {limit}"),
        Bound::RatioWithin(limit) => format!("± {:.0} %", limit * 100.0),
        Bound::Nothing => String::new(),
    }
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0))
}

/// Renders a value with three significant digits.
fn significant(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "-".to_owned(),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;
    use bench_record::PlanRecord;

    fn results(comparisons: Vec<Comparison>) -> Results {
        let plan = PlanRecord {
            name: "floors".to_owned(),
            scale: 1.0,
            steps: 1,
            steps_done: 1,
            skipped: Vec::new(),
            failed: Vec::new(),
            comparisons,
            complete: true,
        };
        Results { plan: Some(plan), ..Results::of(Vec::new(), Vec::new()) }
    }

    #[test]
    fn a_terminal_has_a_line_for_each_below_its_heading() {
        let over = |section: &str, bound| {
            let section = section.to_owned();
            Comparison { section, aim: Some(1.2), ..row(&[2.5, 2.4, 2.6], &[2.0; 3], bound) }
        };
        let all = ["UDP:", "memory:", "UDP:"].map(|own| over(own, Bound::RatioAtMost(1.35)));
        let text = text(&results(all.to_vec())).expect("comparisons");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[6]), ("UDP:", "memory:"), "{text}");
        for word in ["2.50 µs", "8 %", "2.00 bare UDP", "1.25", "near 3", "≤ 1.35 x", "1.2", "pass"]
        {
            assert!(lines[3].contains(word), "no {word:?} in {:?}", lines[3]);
        }
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{text}");
    }

    /// The title is not "bare memory beside 24 others", and no table says by how much memory is
    /// faster.
    #[test]
    fn a_page_of_comparisons_has_no_other_verdicts() {
        let own = row(&[1.0, 1.04], &[1.0, 1.0], Bound::RatioAtMost(2.0));
        let run = |name: &str| {
            let latency = bench_record::Latency { mean_us: 5.0, ..Default::default() };
            let point =
                bench_record::Point { latency: Some(latency), ..bench_record::Point::new(64, 1) };
            bench_record::Run::new(name, bench_record::spec::Benchmark::Latency, vec![point])
        };
        let results = Results { runs: vec![run("bare UDP"), run("mine")], ..results(vec![own]) };
        let page = crate::page::page(&results, Vec::new(), None);
        assert!(page.title.ends_with(": figures beside what they are compared with"), "{page:?}");
        let leads: Vec<&str> = page
            .sections
            .iter()
            .filter(|section| section.layout != Layout::Folded)
            .map(|section| section.title.as_str())
            .collect();
        assert_eq!(leads, ["Beside what it is compared with"]);
    }

    #[test]
    fn a_page_has_the_ratios_of_rounds_and_nothing_that_no_row_has() {
        let alone = Comparison {
            beside: String::new(),
            reference: Vec::new(),
            ..row(&[700.0], &[], Bound::AtLeast(500.0))
        };
        let page = section_of(&results(vec![alone])).expect("comparisons");
        let titles = |table: &Table| -> Vec<String> {
            table.columns.iter().map(|column| column.title.clone()).collect()
        };
        assert_eq!(titles(&page.tables[0]), ["", "here", "cores", "must", "verdict"]);
        let own = row(&[1.0, 1.04], &[1.0, 1.0], Bound::RatioWithin(0.05));
        let page = section_of(&results(vec![own])).expect("comparisons");
        assert!(page.tables[0].rows[0].contains(&"1.00 to 1.04".to_owned()), "{page:?}");
        assert_eq!((section_of(&results(Vec::new())), text(&results(Vec::new()))), (None, None));
    }
}
