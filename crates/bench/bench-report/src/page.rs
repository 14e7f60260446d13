//! The report of result files: plots, data tables, commands.

use bench_record::{Results, Run};
use report::{Layout, Page, Section, Series, distinct};

use crate::compare;
use crate::comparisons;
use crate::figures::{self, Model};
use crate::lessons;
use crate::shown::Shown;
use crate::statements;
use crate::tails;
use crate::timelines;
use crate::verdicts;

mod facts;
mod runs;
mod sweeps;

use self::facts::facts;
pub(crate) use self::runs::{row_name, set_up_name};

/// Plans that repeat figures of the papers.
const PLANS_OF_PAPERS: [&str; 2] = ["paper", "efa-vs-rdma"];

/// The pages made from result files: the page itself and, if requested, the figures of the papers.
#[derive(Debug, Clone, PartialEq)]
pub struct Pages {
    /// The page of the measurements.
    pub main: Page,
    /// The figures of the papers, with the measurements that belong to them.
    pub paper: Option<Page>,
}

/// Builds the pages; `paper_file` is the file name of the second one.
pub fn pages(results: &Results, model: Option<&Model>, paper_file: &str) -> Pages {
    let shown = Shown::of(&results.runs);
    let runs = shown.runs.as_slice();
    let has_figures = runs.iter().any(|run| run.source == "published");
    let plan = results.plan.as_ref().map(|plan| plan.name.as_str());
    let is_asked_for = match plan {
        Some(name) => PLANS_OF_PAPERS.contains(&name),
        None => runs.iter().any(|run| {
            run.source != "published" && run.points.iter().any(|point| figures::has(run, point))
        }),
    };
    let mut main = page(results, Vec::new(), model);
    let is_alone = !runs.iter().any(|run| run.source != "published");
    if !has_figures || is_alone || !(is_asked_for || model.is_some()) {
        return Pages { main, paper: None };
    }
    let what = "The figures of the papers, with what was measured here".to_owned();
    let link = Section { links: vec![(what, paper_file.to_owned())], ..Section::default() };
    let after_lead = main.sections.iter().take_while(|own| own.layout == Layout::Lead).count();
    main.sections.insert(after_lead, link);
    let title = format!("{}: the figures of the papers", main.title);
    let (text, sections) = (main.summary.clone(), figures::sections_measured(runs, model));
    let paper = Page { title, summary: text, facts: facts(results), sections, ..Page::default() };
    Pages { main, paper: Some(paper) }
}

/// Builds the page of the measurements, with `headline` at its top.
pub fn page(results: &Results, headline: Vec<String>, model: Option<&Model>) -> Page {
    let shown = Shown::of(&results.runs);
    let runs = shown.runs.as_slice();
    let names = names_of(runs, |_| true);
    let here = names_of(runs, |run| run.source != "published");
    let about = verdicts::about(results, runs, &here);
    // A plan with comparisons says itself which figures stand side by side.
    let compared = comparisons::section_of(results);
    let is_compared = compared.is_some();
    let mut sections = if is_compared { Vec::new() } else { verdicts::sections(runs, &here) };
    // A reader of a study's plan wants to know how its statements were judged.
    sections.splice(0..0, statements::section(results, runs));
    sections.splice(0..0, compared);
    let side_by_side = side_by_side(runs, &names);
    if here.is_empty() {
        sections.extend(side_by_side.clone());
    }
    let halves = sweeps::sections(runs, &names).into_iter().chain(tails::sections(runs, &names));
    let folded = |section: Section| Section { layout: Layout::Folded, ..section };
    if is_compared {
        // These are single points of steps that have little to do with each other.
        sections.extend(halves.map(folded));
    } else {
        sections.extend(halves.map(|section| Section { layout: Layout::Half, ..section }));
    }
    let course = timelines::sections(runs, &names).into_iter();
    sections.extend(course.map(|own| if is_compared { folded(own) } else { own }));
    // A lesson that could not be learned has no heading.
    let lessons = lessons::sections(runs).into_iter().filter(|lesson| !lesson.tables.is_empty());
    sections.extend(lessons.map(folded));
    if !here.is_empty() {
        sections.extend(side_by_side);
    }
    // Without anything measured, the figures of the papers are all there is.
    if here.is_empty() {
        sections.extend(figures::sections(runs, model));
    }
    let mut about_runs = vec![runs::fabrics(runs)];
    about_runs.extend(runs::plan(results));
    about_runs.push(runs::methods(runs));
    about_runs.extend(runs::disorder(runs));
    about_runs.extend(shown.section());
    about_runs.push(runs::all_measurements(runs));
    about_runs.push(method(runs));
    sections.extend(about_runs.into_iter().map(folded));
    let summary = [about.text, headline].concat();
    Page {
        title: about.title,
        summary,
        warnings: warnings(results, runs),
        facts: facts(results),
        sections,
    }
}

/// Returns the names of the runs for which `is_one` holds, each once.
fn names_of(runs: &[Run], is_one: impl Fn(&Run) -> bool) -> Vec<&str> {
    distinct(runs.iter().filter(|run| is_one(run)).map(|run| run.name.as_str()))
}

/// Renders everything measured beside published hardware, folded if there is more to see.
fn side_by_side(runs: &[Run], names: &[&str]) -> Option<Section> {
    let main = main_names(runs, names);
    let tables = if main.len() > 1 { compare::tables(runs, &main) } else { Vec::new() };
    let is_measured = runs.iter().any(|run| run.source != "published");
    let layout = if is_measured { Layout::Folded } else { Layout::Body };
    let title = "Side by side".to_owned();
    (!tables.is_empty()).then(|| Section { title, layout, tables, ..Section::default() })
}

fn warnings(results: &Results, runs: &[Run]) -> Vec<String> {
    // Several files may say the same.
    let mut warnings = distinct(results.warnings.iter().cloned());
    warnings.extend(runs.iter().filter_map(|run| {
        let error = run.error.as_ref()?;
        Some(format!("{} {} is incomplete: {error}", run.name, runs::test(run)))
    }));
    warnings
}

/// Returns the names in the comparison: everything measured, and the published EFA hardware.
fn main_names<'a>(runs: &[Run], names: &[&'a str]) -> Vec<&'a str> {
    let measured = |n: &&str| runs.iter().any(|r| r.name == **n && r.source == "measured");
    let mut main: Vec<&str> = names.iter().copied().filter(measured).collect();
    if main.is_empty() {
        return names.to_vec();
    }
    main.extend(names.iter().copied().filter(|n| *n == crate::paper::EFA));
    main
}

/// Describes a plot in words: where each line starts and ends.
pub(crate) fn describe<'a>(series: impl IntoIterator<Item = &'a Series>, unit: &str) -> String {
    let lines = series.into_iter().filter_map(|s| {
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
