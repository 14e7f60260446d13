//! The page of `netsim run --html`: the results of a scenario's runs.

use crate::command::record::{Point, Results, Run};
use crate::command::series::{self, Line};
use netsim::{Outcome, Samples, by_size, shares_table, slowdown_table, table};
use report::{Axis, Chart, Page, Scale, Section, Series, Stroke, Table};

/// Maximum number of runs that have a line of their own in charts.
const LINES_MAX: usize = 5;
/// Maximum number of paused links that are listed, per run.
const PAUSES_MAX: usize = 8;
const SHARES: &str =
    "Shares of flows that send all the time, without the first interval if there are others";
/// Look of lines that are not a run's.
const OTHER_LOOK: usize = 5;

/// Builds the page of results that hold outcomes and samples.
pub(crate) fn page(results: &Results) -> Page {
    let points = &results.points;
    let missed = points.iter().flat_map(Point::missed).map(str::to_owned);
    let errors = points.iter().flat_map(Point::errors);
    Page {
        title: points.first().map_or_else(String::new, |point| point.title.clone()),
        summary: points.iter().map(summary).collect(),
        warnings: points.iter().filter_map(unfinished).chain(errors).chain(missed).collect(),
        facts: points.iter().flat_map(|point| facts(point, results)).collect(),
        sections: points.iter().flat_map(sections).collect(),
    }
}

/// Writes the page's first sentence. Flows that did not end would be the slowest, so of the others
/// alone nothing is said that is meant of all.
fn summary(point: &Point) -> String {
    let summaries = || point.runs.iter().filter_map(|run| run.summary.as_ref());
    let count = summaries().count();
    if count == 0 {
        return "No flow ended well.".to_owned();
    }
    let mean =
        |value: fn(&netsim::Summary) -> f64| summaries().map(value).sum::<f64>() / count as f64;
    let repeated = format!(
        "{:.2} % of all data packets were sent again. Means over {count} {}.",
        mean(|s| s.repeated_percent),
        if count == 1 { "run" } else { "runs" },
    );
    if let Some(why) = open(point) {
        let unknown = "the slowest flow, the median flow and the fairness of all are unknown";
        return format!("{why}, so {unknown}; {repeated}");
    }
    format!(
        "The slowest flow took {:.3} times the best possible time, the median flow {:.1} µs, the \
         fairness of mean rates (Jain) is {:.3}; {repeated}",
        mean(|s| s.max_to_ideal),
        mean(|s| s.p50_us),
        mean(|s| s.jain),
    )
}

/// Says why figures of all flows are not known; `None` if they are.
fn open(point: &Point) -> Option<String> {
    let failed = point.runs.iter().filter(|run| run.error.is_some()).count();
    let open: usize = point.runs.iter().map(|run| run.flows - run.done).sum();
    let all: usize = point.runs.iter().map(|run| run.flows).sum();
    let runs = point.runs.len();
    match (failed, open) {
        _ if point.is_complete() => None,
        (1.., _) => Some(format!("{failed} of {runs} runs failed")),
        (0, 1..) => Some(format!("{open} of {all} flows did not end well")),
        (0, 0) => Some("A run drew no transfer".to_owned()),
    }
}

fn unfinished(point: &Point) -> Option<String> {
    let open: usize = point.runs.iter().map(|run| run.flows - run.done).sum();
    let all: usize = point.runs.iter().map(|run| run.flows).sum();
    (open > 0).then(|| {
        format!("{open} of {all} flows did not end well; statistics are of the others only.")
    })
}

fn facts(point: &Point, results: &Results) -> Vec<(String, String)> {
    let seeds: Vec<String> = point.runs.iter().map(|run| run.seed.to_string()).collect();
    let facts = [
        ("Scenario", point.file.clone()),
        ("Network", point.network.clone()),
        ("Settings", if point.settings.is_empty() { String::new() } else { point.name() }),
        ("Seeds", seeds.join(", ")),
        ("Program", format!("netsim {}", results.netsim)),
        ("Command", results.command.clone()),
    ];
    let named = facts.into_iter().filter(|(_, value)| !value.is_empty());
    named.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn sections(point: &Point) -> Vec<Section> {
    let charts = [
        completion(point),
        slowdown(point),
        throughput(point),
        fairness(point),
        queues(point),
        pauses(point),
        uplinks(point),
    ];
    let mut sections: Vec<Section> = charts.into_iter().flatten().collect();
    sections.push(scenario(point));
    sections
}

fn completion(point: &Point) -> Option<Section> {
    let outcomes: Vec<Outcome> = point.runs.iter().filter_map(|run| run.outcome.clone()).collect();
    let shares = shares_table(SHARES, &outcomes);
    let mut series = per_run(point, |run| Some(series::completion_cdf(run.outcome.as_ref()?)));
    let ideal = outcomes.first().map(series::ideal_cdf)?;
    series.push(line("best possible", OTHER_LOOK, Stroke::Dashed, ideal));
    let chart = Chart {
        title: "Flows that had ended by a time (percent of all flows)".to_owned(),
        description: describe(&series, "percent"),
        x: Axis { label: "completion time (µs)".to_owned(), scale: scale_of(&series) },
        y: axis("flows (percent)"),
        series,
    };
    Some(Section {
        title: "Flow completion times".to_owned(),
        text: vec![
            "The best possible time is what a flow's packets take on the busier of its two hosts' \
             links, shared with all that uses it, and one empty round trip."
                .to_owned(),
        ],
        chart: Some(chart),
        tables: [table("A row per run", &outcomes)].into_iter().chain(shares).collect(),
        ..Section::default()
    })
}

/// Charts completion times by size, of all runs together.
fn slowdown(point: &Point) -> Option<Section> {
    let outcomes: Vec<Outcome> = point.runs.iter().filter_map(|run| run.outcome.clone()).collect();
    let classes = by_size(&outcomes);
    let mut series = Vec::new();
    for (look, of_one) in classes.chunk_by(|a, b| a.transport == b.transport).enumerate() {
        let name = of_one[0].transport.name();
        let [p50, p99] = series::slowdown(of_one);
        series.push(line(&format!("{name}, p99"), look, Stroke::Solid, p99));
        series.push(line(&format!("{name}, median"), look, Stroke::Dashed, p50));
    }
    let log = |label: &str| Axis { label: label.to_owned(), scale: Scale::Log10 };
    let chart = Chart {
        title: "Completion time over the best possible one, by transfer size".to_owned(),
        description: describe(&series, "times the best possible"),
        x: log("largest size of the class (bytes)"),
        y: log("slowdown"),
        series,
    };
    let text = "The best possible time is that of the transfer alone in an empty network. Of fewer than \
        100 transfers the 99th percentile is the slowest; flows that did not end count as slower than \
        all others.";
    let mut section = section("Slowdown by size", text, chart)?;
    section.tables.extend(slowdown_table("Transfers by size, all runs together", &outcomes));
    Some(section)
}

fn throughput(point: &Point) -> Option<Section> {
    let series = per_run(point, |run| Some(series::throughput(run.samples.as_ref()?)));
    let chart = Chart {
        title: "Payload that arrived, all flows together (Gbit/s)".to_owned(),
        description: describe(&series, "Gbit/s"),
        x: axis("time (µs)"),
        y: axis("goodput (Gbit/s)"),
        series,
    };
    section("Throughput over time", "Mean of each interval between two samples.", chart)
}

fn fairness(point: &Point) -> Option<Section> {
    let run = point.runs.iter().find(|run| run.samples.is_some())?;
    let [slowest, mean, fastest] = series::spread(run.outcome.as_ref()?, run.samples.as_ref()?);
    let series = vec![
        line("slowest flow", 0, Stroke::Solid, slowest),
        line("mean", OTHER_LOOK, Stroke::Dashed, mean),
        line("fastest flow", 1, Stroke::Solid, fastest),
    ];
    let series: Vec<Series> = series.into_iter().filter(|line| !line.points.is_empty()).collect();
    let chart = Chart {
        title: format!("Spread of the active flows, seed {} (Gbit/s)", run.seed),
        description: describe(&series, "Gbit/s"),
        x: axis("time (µs)"),
        y: axis("goodput of a flow (Gbit/s)"),
        series,
    };
    let text = "Flows that had begun before an interval and had not ended after it, of at most 64 \
        that were looked at; which flow is the slowest changes.";
    section("Fairness over time", text, chart)
}

fn queues(point: &Point) -> Option<Section> {
    let series = per_run(point, |run| Some(series::deepest_queue(run.samples.as_ref()?)));
    let chart = Chart {
        title: "Deepest queue of all switch ports (bytes)".to_owned(),
        description: describe(&series, "bytes"),
        x: axis("time (µs)"),
        y: axis("queue (bytes)"),
        series,
    };
    let first = point.runs.iter().find(|run| run.samples.is_some())?;
    let mut section = section("Queues", "The deepest at the moments that were looked at.", chart)?;
    section.tables.push(queue_table(first.seed, first.samples.as_ref()?));
    Some(section)
}

fn queue_table(seed: u64, samples: &Samples) -> Table {
    let titles = ["queue", "mean bytes", "p99 bytes", "peak bytes", "buffer bytes"];
    let mut table = Table::new(&format!("The busiest queues, seed {seed}"), &titles, 1);
    for queue in &samples.queues {
        let bytes = [queue.mean_bytes, queue.p99_bytes, queue.peak_bytes, queue.buffer_bytes];
        let cells = bytes.iter().map(ToString::to_string);
        table.push([queue.link.clone()].into_iter().chain(cells).collect());
    }
    table
}

/// Lists where switches paused senders instead of losing packets.
fn pauses(point: &Point) -> Option<Section> {
    let titles = ["seed", "link", "paused us", "pauses"];
    let mut table = Table::new("The links that were paused longest", &titles, 2);
    for run in &point.runs {
        for link in run.outcome.iter().flat_map(|outcome| &outcome.paused_links).take(PAUSES_MAX) {
            let us = format!("{:.1}", link.paused_ps as f64 / 1e6);
            table.push(vec![run.seed.to_string(), link.link.clone(), us, link.pauses.to_string()]);
        }
    }
    (!table.rows.is_empty()).then(|| Section {
        title: "Pauses".to_owned(),
        text: vec!["Priority flow control: a paused link sends nothing.".to_owned()],
        tables: vec![table],
        ..Section::default()
    })
}

fn uplinks(point: &Point) -> Option<Section> {
    let mut switch = String::new();
    let series = per_run(point, |run| {
        let (name, line) = series::uplinks(run.samples.as_ref()?)?;
        switch.clone_from(&name);
        Some(line)
    });
    let chart = Chart {
        title: "Use of each uplink of the switch that sent most upwards (mean Gbit/s)".to_owned(),
        description: describe(&series, "Gbit/s"),
        x: axis("uplink"),
        y: axis("mean use (Gbit/s)"),
        series,
    };
    let text =
        "A transport that balances its load gives a flat line. Bytes count with all headers.";
    let mut section = section("Paths", text, chart)?;
    let first = point.runs.iter().find(|run| run.samples.is_some())?;
    section.tables.push(uplink_table(first.seed, first.samples.as_ref()?));
    Some(section)
}

fn uplink_table(seed: u64, samples: &Samples) -> Table {
    let titles = ["switch", "uplinks", "least bytes", "mean bytes", "most bytes", "most/mean"];
    let mut table = Table::new(&format!("Uplinks by switch, seed {seed}"), &titles, 1);
    for group in samples.uplinks.chunk_by(|a, b| a.switch == b.switch) {
        let bytes = || group.iter().map(|link| link.carried_bytes);
        let (least, most) = (bytes().min().unwrap_or(0), bytes().max().unwrap_or(0));
        let mean = bytes().sum::<u64>() as f64 / group.len() as f64;
        table.push(vec![
            group[0].switch.clone(),
            group.len().to_string(),
            least.to_string(),
            format!("{mean:.0}"),
            most.to_string(),
            format!("{:.3}", most as f64 / mean),
        ]);
    }
    table
}

fn scenario(point: &Point) -> Section {
    Section {
        title: "Scenario".to_owned(),
        text: vec![
            "The same scenario and seed give the same run on every machine, to the last packet."
                .to_owned(),
        ],
        commands: point.runs.iter().map(|run| point.command(Some(run.seed))).collect(),
        details: vec![(point.file.clone(), point.scenario.clone())],
        ..Section::default()
    }
}

/// Chooses a logarithmic scale where a few late flows would squeeze all others into a corner.
fn scale_of(series: &[Series]) -> Scale {
    let places = || series.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let (least, most) = (places().fold(f64::INFINITY, f64::min), places().fold(0.0, f64::max));
    if most > 10.0 * least { Scale::Log10 } else { Scale::Linear }
}

/// Returns a line for each of the first runs.
fn per_run(point: &Point, mut points: impl FnMut(&Run) -> Option<Line>) -> Vec<Series> {
    let runs = point.runs.iter().take(LINES_MAX).enumerate();
    let lines = runs.filter_map(|(look, run)| {
        let points = points(run).filter(|points| !points.is_empty())?;
        Some(line(&format!("seed {}", run.seed), look, Stroke::Solid, points))
    });
    lines.collect()
}

pub(crate) fn line(name: &str, look: usize, stroke: Stroke, points: Line) -> Series {
    Series { name: name.to_owned(), look, stroke, points }
}

pub(crate) fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), scale: Scale::Linear }
}

fn section(title: &str, text: &str, chart: Chart) -> Option<Section> {
    (!chart.series.is_empty()).then(|| Section {
        title: title.to_owned(),
        text: vec![text.to_owned()],
        chart: Some(chart),
        ..Section::default()
    })
}

/// Describes the plot in words: where each line lies.
pub(crate) fn describe(series: &[Series], unit: &str) -> String {
    let lines = series.iter().filter_map(|line| {
        let last = line.points.last()?;
        let values = || line.points.iter().map(|point| point.1);
        Some(format!(
            "{}: {} to {} {unit}, {} at {}",
            line.name,
            report::significant(values().fold(f64::INFINITY, f64::min)),
            report::significant(values().fold(f64::NEG_INFINITY, f64::max)),
            report::significant(last.1),
            report::significant(last.0)
        ))
    });
    format!("{}.", lines.collect::<Vec<_>>().join("; "))
}
