//! The page of `netsim paper`: the statements, and the paper's figures as they come out here.

use super::claim::{self, Claim, Verdict};
use super::experiment::{BUFFER_SIZES, CDF_BYTES, Experiment, Figure, Protocol, rates};
use super::of;
use crate::command::page::{describe, line};
use crate::command::record::Results;
use crate::command::series::{self, Line};
use netsim::Outcome;
use report::{Axis, Chart, Page, Scale, Section, Series, Stroke, Table};

/// Colours of the protocols.
const LOOKS: [usize; 4] = [0, 1, 3, 4];
/// Colour of the ideal.
const IDEAL_LOOK: usize = 2;

/// Builds the page.
pub(super) fn page(experiments: &[Experiment], claims: &[Claim], results: &Results) -> Page {
    let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let summary = format!(
        "Of {} statements {} hold here, {} hold in part, {} do not, {} could not be measured.",
        claims.len(),
        count(Verdict::Holds),
        count(Verdict::Partly),
        count(Verdict::Fails),
        count(Verdict::NotMeasured)
    );
    let mut sections = vec![Section {
        title: "Statement by statement".to_owned(),
        text: vec![
            "Bounds in brackets are ours, where the paper has words and no number.".to_owned(),
        ],
        tables: vec![claim::table(claims)],
        ..Section::default()
    }];
    sections.extend(
        [figure_2(experiments), figure_3(experiments), figure_4(experiments)].into_iter().flatten(),
    );
    sections.extend(figure_6(experiments).into_iter().flatten());
    sections.extend(buffers(experiments));
    sections.push(method(results));
    Page {
        title: "The SRD paper's measurements in virtual time".to_owned(),
        summary: vec![
            summary,
            "Paper: L. Shalev, H. Ayoub, N. Bshara, E. Sabbag: A Cloud-Optimized Transport Protocol \
             for Elastic and Scalable HPC, IEEE Micro 40(6), 2020. Its curves were measured on AWS; \
             only its words and numbers are compared."
                .to_owned(),
        ],
        warnings: Vec::new(),
        facts: vec![
            ("Program".to_owned(), format!("netsim {}", results.netsim)),
            ("Command".to_owned(), results.command.clone()),
        ],
        sections,
    }
}

/// Charts the largest completion time over transfer size.
fn figure_2(experiments: &[Experiment]) -> Option<Section> {
    let most_us = |experiment: &Experiment| {
        let us = experiment.summaries().map(|s| s.max_us).reduce(f64::max)?;
        Some((experiment.bytes as f64, us / 1000.0))
    };
    let mut series =
        each(|protocol| of(experiments, Figure::Burst, protocol).filter_map(most_us).collect());
    let ideal_ms = |experiment: &Experiment| {
        let flow = *experiment.outcomes().next()?.flows.first()?;
        Some((experiment.bytes as f64, flow.ideal_ps as f64 / 1e9))
    };
    let ideal = of(experiments, Figure::Burst, Protocol::Srd).filter_map(ideal_ms).collect();
    series.push(line("ideal", IDEAL_LOOK, Stroke::Dashed, ideal));
    let commands = commands(experiments, Figure::Burst);
    section(
        "Bursty incast: 48 flows to one host (figure 2)",
        "12 processes on each of 4 hosts send at once. The slowest flow of all seeds.",
        chart(
            "Largest completion time over transfer size (ms, logarithmic; lower is better)",
            axis("transfer size (bytes)", Scale::Log10),
            axis("completion time (ms)", Scale::Log10),
            series,
        ),
        commands,
    )
}

/// Charts completion times of 2 MB transfers.
fn figure_3(experiments: &[Experiment]) -> Option<Section> {
    let series = each(|protocol| {
        let experiment = of(experiments, Figure::Burst, protocol).find(|e| e.bytes == CDF_BYTES);
        experiment.map_or_else(Vec::new, cdf_ms)
    });
    let srd = of(experiments, Figure::Burst, Protocol::Srd).find(|e| e.bytes == CDF_BYTES)?;
    section(
        "Completion times of 2 MB transfers (figure 3)",
        &format!("All flows of {}.", srd.seeds_text()),
        chart(
            "Flows that had ended by a time (percent)",
            axis("completion time (ms, logarithmic)", Scale::Log10),
            axis("flows (percent)", Scale::Linear),
            series,
        ),
        Vec::new(),
    )
}

/// Charts the throughput of two flows each, those with the largest and the smallest mean.
fn figure_4(experiments: &[Experiment]) -> Option<Section> {
    let mut series = Vec::new();
    let mut interval_ms = 0;
    for (protocol, look) in Protocol::TWO.into_iter().zip(LOOKS) {
        let experiment = of(experiments, Figure::Persistent, protocol).next()?;
        interval_ms = experiment.interval_ms();
        let interval_s = f64::from(interval_ms) / 1000.0;
        let mut flows = rates(experiment.point.runs.first()?);
        flows.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum()));
        let points = |flow: &Vec<f64>| -> Line {
            (1..).zip(flow).map(|(i, &gbps)| (f64::from(i) * interval_s, gbps)).collect()
        };
        let name = protocol.name();
        let (slowest, fastest) = flows.first().zip(flows.last())?;
        series.push(line(&format!("{name}, fastest flow"), look, Stroke::Solid, points(fastest)));
        series.push(line(
            &format!("{name}, slowest flow"),
            look + 2,
            Stroke::Dashed,
            points(slowest),
        ));
    }
    let commands = commands(experiments, Figure::Persistent);
    section(
        "Persistent incast: throughput of single flows (figure 4)",
        &format!(
            "The 48 flows never end. Of each protocol the flows with the largest and the smallest \
             mean, sampled each {interval_ms} ms; the fair share is about 2 Gbit/s."
        ),
        chart(
            "Throughput of a flow over time (Gbit/s)",
            axis("time (s)", Scale::Linear),
            axis("goodput (Gbit/s)", Scale::Linear),
            series,
        ),
        commands,
    )
}

/// Charts completion times from rack to rack.
fn figure_6(experiments: &[Experiment]) -> [Option<Section>; 2] {
    [
        (Figure::Imbalance, "ECMP imbalance: rack to rack at half of the uplinks (figure 6)",
         "8 hosts send to 8 of another rack, 16 flows each. All flows of all seeds. TCP keeps the path \
          that its hash gave it; SRD uses all. Hosts here share their link perfectly between their flows, so \
          TCP overloads an uplink only when more than 16 of the 128 flows meet there, which is rare."),
        (Figure::FewFlows, "The same load in 4 flows per host",
         "4 flows of 8 MB instead of 16 of 2 MB: more than 4 of 32 meet on an uplink in most runs."),
    ]
    .map(|(figure, title, text)| imbalance(experiments, figure, title, text))
}

fn imbalance(
    experiments: &[Experiment],
    figure: Figure,
    title: &str,
    text: &str,
) -> Option<Section> {
    let mut series =
        each(|protocol| of(experiments, figure, protocol).next().map_or_else(Vec::new, cdf_ms));
    let srd = of(experiments, figure, Protocol::Srd).next()?;
    let ideal = series::ideal_cdf(srd.outcomes().next()?);
    let ideal = ideal.into_iter().map(|(us, share)| (us / 1000.0, share)).collect();
    series.push(line("ideal", IDEAL_LOOK, Stroke::Dashed, ideal));
    let chart = chart(
        "Flows that had ended by a time (percent)",
        axis("completion time (ms, logarithmic)", Scale::Log10),
        axis("flows (percent)", Scale::Linear),
        series,
    );
    section(title, text, chart, commands(experiments, figure))
}

/// Charts the completion times of bursts with other buffers.
fn buffers(experiments: &[Experiment]) -> Option<Section> {
    let sizes: Vec<String> = BUFFER_SIZES.iter().map(|bytes| claim::size(*bytes)).collect();
    let mut titles = vec!["protocol", "buffer of a port (bytes)"];
    titles.extend(sizes.iter().map(String::as_str));
    let mut table =
        Table::new("Largest completion time over the ideal one, by transfer size", &titles, 2);
    for protocol in Protocol::TWO {
        let all: Vec<&Experiment> = of(experiments, Figure::Buffers, protocol).collect();
        for row in all.chunk_by(|a, b| a.buffer == b.buffer) {
            let ratio =
                |e: &&Experiment| e.worst().map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
            let mut cells = vec![protocol.name().to_owned(), row[0].buffer.clone()];
            cells.extend(row.iter().map(ratio));
            table.push(cells);
        }
    }
    let seeds = of(experiments, Figure::Buffers, Protocol::Srd).next()?.seeds_text();
    (!table.rows.is_empty()).then(|| Section {
        title: "What the buffer does".to_owned(),
        text: vec![format!(
            "The paper does not say how much memory its switches have, and the times depend on it. \
             The figures above have 2 MB per port under incast; these are the bursts with others, \
             the worst of {seeds}."
        )],
        tables: vec![table],
        commands: commands(experiments, Figure::Buffers),
        ..Section::default()
    })
}

/// Returns the completion times of all runs together.
fn cdf_ms(experiment: &Experiment) -> Line {
    let flows = experiment.outcomes().flat_map(|outcome| outcome.flows.clone()).collect();
    let together = Outcome { flows, ..Outcome::default() };
    let line = series::completion_cdf(&together);
    line.into_iter().map(|(us, share)| (us / 1000.0, share)).collect()
}

/// Returns a line for each protocol that was tried.
fn each(points: impl Fn(Protocol) -> Line) -> Vec<Series> {
    let lines = Protocol::ALL.into_iter().zip(LOOKS);
    let lines = lines.map(|(p, look)| line(p.name(), look, Stroke::Solid, points(p)));
    lines.filter(|line| !line.points.is_empty()).collect()
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), scale }
}

fn chart(title: &str, x: Axis, y: Axis, series: Vec<Series>) -> Chart {
    let description = describe(&series, &y.label);
    Chart { title: title.to_owned(), description, x, y, series }
}

fn section(title: &str, text: &str, chart: Chart, commands: Vec<String>) -> Option<Section> {
    chart.series.iter().any(|line| !line.points.is_empty()).then(|| Section {
        title: title.to_owned(),
        text: vec![text.to_owned()],
        chart: Some(chart),
        commands,
        ..Section::default()
    })
}

fn commands(experiments: &[Experiment], figure: Figure) -> Vec<String> {
    let of_figure = experiments.iter().filter(|e| e.figure == figure);
    of_figure.map(|e| e.point.command(e.seeds.first().copied())).collect()
}

fn method(results: &Results) -> Section {
    let mut details: Vec<(String, String)> = Vec::new();
    for point in &results.points {
        if details.iter().all(|(name, _)| !name.starts_with(&point.file)) {
            let name = format!("{} with {}", point.file, point.name());
            details.push((name, point.scenario.clone()));
        }
    }
    Section {
        title: "How it was measured".to_owned(),
        text: vec![
            "SRD is the engine of this project, not AWS's. TCP has a least time-out of 50 ms, as the \
             paper's, which does not say more of it: CUBIC, NewReno, and CUBIC that finds losses by \
             time (RACK, RFC 8985), as Linux does since 2018. Hosts cost no time: what the paper's hosts, operating systems and MPI add \
             is not here. Each scenario and seed gives the same run on every machine."
                .to_owned(),
        ],
        details,
        ..Section::default()
    }
}
