//! The report of result files: plots, data tables, commands.

use bench_record::{Point, Results, Run, cores};
use report::{Page, Section, Series};

use crate::compare;
use crate::figures::{self, Model};
use crate::lessons;
use crate::shown::Shown;
use crate::tails;

mod quantity;
mod runs;
mod sweeps;

/// Builds the page; `headline` goes on top of it.
pub fn page(results: &Results, headline: Vec<String>, model: Option<&Model>) -> Page {
    let shown = Shown::of(&results.runs);
    let runs = shown.runs.as_slice();
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        if !names.contains(&run.name.as_str()) {
            names.push(&run.name);
        }
    }
    let mut sections = Vec::new();
    let main = main_names(runs, &names);
    if main.len() > 1 {
        let tables = compare::tables(runs, &main);
        if !tables.is_empty() {
            let title = "Side by side".to_owned();
            sections.push(Section { title, tables, ..Section::default() });
        }
    }
    sections.extend(lessons::sections(runs));
    // The figures of the paper show what belongs to them, with more beside it.
    let has_figures = runs.iter().any(|run| run.source == "published");
    let in_figure = |run: &Run, point: &Point| has_figures && figures::has(run, point);
    sections.extend(sweeps::sections(runs, &names, in_figure));
    sections.extend(tails::sections(runs, &names));
    if has_figures {
        sections.extend(figures::sections(runs, model));
    }
    sections.push(runs::fabrics(runs));
    sections.extend(runs::plan(results));
    sections.push(runs::methods(runs));
    sections.extend(runs::disorder(runs));
    sections.extend(shown.section());
    sections.push(runs::all_measurements(runs));
    sections.push(method(runs));
    let mut warnings: Vec<String> = Vec::new();
    // Several files may say the same.
    for warning in &results.warnings {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    warnings.extend(results.runs.iter().filter_map(|run| {
        let error = run.error.as_ref()?;
        Some(format!("{} {} is incomplete: {error}", run.name, runs::test(run)))
    }));
    Page {
        title: "efa-bench report".to_owned(),
        summary: headline,
        warnings,
        facts: facts(results),
        sections,
    }
}

/// What the comparison shows: everything measured, and the published EFA hardware.
fn main_names<'a>(runs: &[Run], names: &[&'a str]) -> Vec<&'a str> {
    let measured = |n: &&str| runs.iter().any(|r| r.name == **n && r.source == "measured");
    let mut main: Vec<&str> = names.iter().copied().filter(measured).collect();
    if main.is_empty() {
        return names.to_vec();
    }
    main.extend(names.iter().copied().filter(|n| *n == crate::paper::EFA));
    main
}

fn facts(results: &Results) -> Vec<(String, String)> {
    let host = &results.host;
    let mut facts = vec![
        ("Date", results.date.clone()),
        ("Machine", format!("{}, {}, {} cores", host.name, host.cpu, host.cores)),
        ("Kernel", host.kernel.clone()),
        ("Tool", format!("{}, libfabric {}", results.tool, results.libfabric)),
        ("Clock read", format!("{} ns", host.clock_read_ns)),
        ("Command", results.command.clone()),
    ];
    let environment: Vec<String> =
        host.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if let Some(plan) = &results.plan {
        facts.push(("Plan", runs::plan_fact(plan)));
    }
    let measured = results.runs.iter().filter(|run| run.source == "measured");
    let points = measured.flat_map(|run| &run.points);
    if points.clone().next().is_some() {
        facts.push(("Between the cores", cores::words(points)));
    }
    if !environment.is_empty() {
        facts.push(("Environment", environment.join(" ")));
    }
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The plot in words: where each line starts and ends.
pub(crate) fn describe(series: &[Series], unit: &str) -> String {
    let lines = series.iter().filter_map(|s| {
        let (first, last) = (s.points.first()?, s.points.last()?);
        Some(format!(
            "{}: {} {unit} at {}, {} {unit} at {}",
            s.name,
            report::significant(first.1),
            first.0,
            report::significant(last.1),
            last.0
        ))
    });
    format!("{}.", lines.collect::<Vec<_>>().join("; "))
}

fn method(runs: &[Run]) -> Section {
    let mut text = vec![
        "Both sides poll without sleeping. Each point was measured in the number \
         of blocks its command says, spread over the run; the middle block counts, and the spread \
         is the distance of the best and the worst in percent of it. Latency is half a round trip of a \
         closed loop. Bandwidth uses a sliding window; the receiver opens the window after the \
         warm-up and closes it while messages still arrive, so neither ramp counts. MB is 10^6 \
         bytes. The first round trip of a session is shown on its own and is in no average."
            .to_owned(),
    ];
    let mut citations: Vec<&String> = runs.iter().filter_map(|r| r.citation.as_ref()).collect();
    citations.dedup();
    text.extend(citations.iter().map(|c| {
        format!(
            "Published figures: {c}. Two machines in a data centre, an adapter in hardware: beside \
             two processes of one machine they show the shape of the curves, not a race."
        )
    }));
    Section { title: "How it was measured".to_owned(), text, ..Section::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_runs_alone_make_a_page_with_plots_and_data() {
        let results = Results::of(crate::paper::runs(), vec!["beware".to_owned()]);
        let page = page(&results, vec!["Headline.".to_owned()], None);
        let titles: Vec<&str> = page.sections.iter().map(|s| s.title.as_str()).collect();
        let figures = titles.iter().filter(|title| title.starts_with("Figure "));
        assert_eq!((titles[0], figures.count() + 5), ("Side by side", titles.len()));
        assert_eq!(titles[titles.len() - 2..], ["All measurements", "How it was measured"]);
        assert_eq!(page.sections[titles.len() - 2].data.len(), 5);
        let html = report::html(&page);
        assert!(html.contains("Headline.") && html.contains("stroke-dasharray"));
        assert!(html.contains("master thesis"));
    }

    #[test]
    fn measured_bandwidth_makes_plots_by_size_and_by_depth() {
        let mut runs = crate::paper::runs();
        for run in &mut runs {
            run.source = "measured".to_owned();
        }
        let page = page(&Results::of(runs, Vec::new()), Vec::new(), None);
        let titles: Vec<&str> = page.sections.iter().map(|s| s.title.as_str()).collect();
        for title in [
            "bandwidth: goodput over size (bytes); depth 256",
            "bandwidth: message rate over depth (in flight); 16 B",
        ] {
            assert!(titles.contains(&title), "{titles:?}");
        }
    }
}
