//! The report of result files: plots, data tables, commands.

use report::{Axis, Chart, Page, Scale, Section, Series, Stroke};

use crate::compare::{self, Group, latency_us};
use crate::figures::{self, Model};
use crate::lessons;
use crate::record::{Point, Results, Run};
use crate::spec::Benchmark;
use crate::tails;

mod runs;

const LATENCY: &str = "Latency";

/// Builds the page; `headline` goes on top of it.
pub(crate) fn page(results: &Results, headline: Vec<String>, model: Option<&Model>) -> Page {
    let groups = compare::groups(&results.runs);
    let mut names: Vec<&str> = Vec::new();
    for run in &results.runs {
        if !names.contains(&run.name.as_str()) {
            names.push(&run.name);
        }
    }
    let mut sections = Vec::new();
    let main = main_names(&results.runs, &names);
    if main.len() > 1 {
        let table = compare::table(&results.runs, &main);
        if !table.rows.is_empty() {
            let title = "Side by side".to_owned();
            sections.push(Section { title, tables: vec![table], ..Section::default() });
        }
    }
    sections.extend(lessons::sections(&results.runs));
    let plots = Plots { groups: &groups, names: &names };
    // The figures of the paper show these, with more beside them.
    let has_figures = results.runs.iter().any(|run| run.source == "published");
    if !has_figures {
        sections.extend(plots.latency());
    }
    sections.extend(plots.bandwidth_by_size());
    sections.extend(plots.by_depth(|size| !has_figures || !figures::has_depths_of(size)));
    attach_commands(&mut sections, &results.runs);
    sections.extend(tails::sections(&results.runs, &names));
    if has_figures {
        sections.extend(figures::sections(&results.runs, model));
    }
    sections.push(runs::fabrics(&results.runs));
    sections.extend(runs::plan(results));
    sections.push(runs::methods(&results.runs));
    sections.extend(runs::disorder(&results.runs));
    sections.push(runs::all_measurements(&results.runs));
    sections.push(method(&results.runs));
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
    if !environment.is_empty() {
        facts.push(("Environment", environment.join(" ")));
    }
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Which of several measurements of one point a line shows, so that it shows one run: plans sweep
/// sizes first and depths afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    First,
    Last,
}

struct Plots<'a> {
    groups: &'a [Group<'a>],
    names: &'a [&'a str],
}

impl Plots<'_> {
    /// Lines of one benchmark; the same name looks the same in every plot.
    fn series(
        &self,
        benchmark: Benchmark,
        keep: Keep,
        point: impl Fn(&Point) -> Option<(f64, f64)>,
    ) -> Vec<Series> {
        let groups = self.groups.iter().filter(|g| g.benchmark == benchmark);
        let lines = groups.map(|group| {
            let mut points: Vec<(f64, f64)> =
                group.points.iter().filter_map(|p| point(p)).collect();
            if keep == Keep::Last {
                points.reverse();
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points.dedup_by(|a, b| a.0 == b.0);
            Series {
                name: group.name.to_owned(),
                look: self.names.iter().position(|n| *n == group.name).unwrap_or(0),
                stroke: if group.published { Stroke::Dashed } else { Stroke::Solid },
                points,
            }
        });
        lines.filter(|s| !s.points.is_empty()).collect()
    }

    fn latency(&self) -> Option<Section> {
        let series = self.series(Benchmark::Latency, Keep::First, |p| {
            Some((p.size_bytes as f64, latency_us(p)?))
        });
        let chart = Chart {
            title: "Half round trip over message size (µs, logarithmic; lower is better)"
                .to_owned(),
            description: describe(&series, "µs"),
            x: axis("message size (bytes)", Scale::Log2),
            y: axis("half round trip (µs)", Scale::Log10),
            series,
        };
        let text = "Ping-pong with one message in flight. Measured lines show the median, \
            published ones (dashed) the mean, which is all that was published."
            .to_owned();
        section(LATENCY, text, chart)
    }

    fn bandwidth_by_size(&self) -> Option<Section> {
        let depth = self.common_depth()?;
        let series = self.series(Benchmark::Bandwidth, Keep::First, |p| {
            let b = p.bandwidth.filter(|_| p.depth == depth)?;
            Some((p.size_bytes as f64, b.gbit_per_s))
        });
        let chart = Chart {
            title: format!(
                "Goodput over message size, {depth} messages in flight (Gbit/s, logarithmic; \
                 higher is better)"
            ),
            description: describe(&series, "Gbit/s"),
            x: axis("message size (bytes)", Scale::Log2),
            y: axis("goodput (Gbit/s)", Scale::Log10),
            series,
        };
        let text = "Application bytes that arrived within the measured window, counted at the \
            receiver; 1 Gbit = 10^9 bits."
            .to_owned();
        section("Bandwidth per message size", text, chart)
    }

    /// The depth at which most sizes were measured.
    fn common_depth(&self) -> Option<usize> {
        let points = || self.points_of_bandwidth();
        let sizes_at = |depth: usize| points().filter(|p| p.depth == depth).count();
        let best = points().map(|p| p.depth).max_by_key(|d| (sizes_at(*d), *d))?;
        (sizes_at(best) > 1).then_some(best)
    }

    fn points_of_bandwidth(&self) -> impl Iterator<Item = &Point> {
        self.groups
            .iter()
            .filter(|g| g.benchmark == Benchmark::Bandwidth && !g.published)
            .flat_map(|g| g.points.iter().copied())
    }

    /// One plot for each size that was measured at several depths.
    fn by_depth(&self, is_wanted: impl Fn(usize) -> bool) -> Vec<Section> {
        let mut sizes: Vec<usize> = self.points_of_bandwidth().map(|p| p.size_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let depths_of = |size: usize| {
            let mut depths: Vec<usize> = self
                .points_of_bandwidth()
                .filter(|p| p.size_bytes == size)
                .map(|p| p.depth)
                .collect();
            depths.sort_unstable();
            depths.dedup();
            depths.len()
        };
        sizes.retain(|size| is_wanted(*size) && depths_of(*size) > 2);
        sizes.into_iter().filter_map(|size| self.one_size_by_depth(size)).collect()
    }

    fn one_size_by_depth(&self, size: usize) -> Option<Section> {
        // Small messages are limited by their number, large ones by their bytes.
        let small = size <= 512;
        let (what, unit) = if small { ("Message rate", "M msg/s") } else { ("Goodput", "Gbit/s") };
        let series = self.series(Benchmark::Bandwidth, Keep::Last, |p| {
            let b = p.bandwidth.filter(|_| p.size_bytes == size)?;
            Some((p.depth as f64, if small { b.mmsg_per_s } else { b.gbit_per_s }))
        });
        let chart = Chart {
            title: format!(
                "{what} over messages in flight, {size} B ({unit}, logarithmic; higher is better)"
            ),
            description: describe(&series, unit),
            x: axis("messages in flight", Scale::Log2),
            y: axis(&format!("{} ({unit})", what.to_lowercase()), Scale::Log10),
            series,
        };
        let text =
            "A line that stops rising has reached what one endpoint pair can carry.".to_owned();
        section(&format!("{what} per depth, {size} B"), text, chart)
    }
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), scale }
}

fn section(title: &str, text: String, chart: Chart) -> Option<Section> {
    (!chart.series.is_empty()).then(|| Section {
        title: title.to_owned(),
        text: vec![text],
        chart: Some(chart),
        ..Section::default()
    })
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

/// Puts the commands that measure it again under each plot.
fn attach_commands(sections: &mut [Section], runs: &[Run]) {
    for section in sections.iter_mut().filter(|s| s.chart.is_some()) {
        let benchmark =
            if section.title == LATENCY { Benchmark::Latency } else { Benchmark::Bandwidth };
        let own = runs.iter().filter(|r| r.benchmark == benchmark && !r.command.is_empty());
        for run in own {
            if !section.commands.contains(&run.command) {
                section.commands.push(run.command.clone());
            }
        }
    }
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
    use crate::output;

    #[test]
    fn published_runs_alone_make_a_page_with_plots_and_data() {
        let results = output::results(crate::paper::runs(), vec!["beware".to_owned()]);
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
        let page = page(&output::results(runs, Vec::new()), Vec::new(), None);
        let titles: Vec<&str> = page.sections.iter().map(|s| s.title.as_str()).collect();
        for title in ["Bandwidth per message size", "Message rate per depth, 16 B"] {
            assert!(titles.contains(&title), "{titles:?}");
        }
    }
}
