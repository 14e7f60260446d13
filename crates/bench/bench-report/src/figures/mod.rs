//! The figures of the paper and the thesis, each with what was measured here, published, and
//! modelled.

mod catalogue;
mod model;
mod sample;
#[cfg(test)]
mod tests;

use bench_record::{Point, Run};
use published::{Fabric, Measurement, Operation};
use report::{
    Axis, Chart, LOOKS, Layout, Scale, Section, Series, Stroke, Table, distinct, significant,
};

use crate::compare::networks;
use crate::page::describe;
use crate::paper;
use catalogue::{Across, FIGURES, Figure, Panel, Quantity};
pub use model::Model;
use sample::{Origin, Sample};

/// Returns a section for each plot of each figure.
pub fn sections(runs: &[Run], model: Option<&Model>) -> Vec<Section> {
    let rows = published::rows();
    let measured = runs.iter().filter(|run| run.source != "published");
    let names = distinct(measured.map(|run| run.name.as_str()));
    let plots = FIGURES.iter().flat_map(|figure| figure.panels.iter().map(move |p| (figure, *p)));
    plots
        .map(|(figure, panel)| Plot { figure, panel, names: &names }.section(runs, &rows, model))
        .collect()
}

/// Returns the sections for a page of measurements: figures that were not measured share one
/// section, with their commands.
pub(crate) fn sections_measured(runs: &[Run], model: Option<&Model>) -> Vec<Section> {
    let is_measured =
        |section: &Section| !section.text.iter().any(|text| text.starts_with(NOT_MEASURED));
    let (mut measured, missing): (Vec<Section>, Vec<Section>) =
        sections(runs, model).into_iter().partition(|section| is_measured(section));
    let text: Vec<String> = missing
        .iter()
        .map(|section| {
            let commands: Vec<String> =
                section.commands.iter().map(|command| format!("`{command}`")).collect();
            format!("{}: {}", section.title, commands.join(" and "))
        })
        .collect();
    if !missing.is_empty() {
        let title = format!("Not measured here: {} more, each with its command", missing.len());
        measured.push(Section { title, layout: Layout::Folded, text, ..Section::default() });
    }
    measured
}

/// The beginning of the text of a figure without any measurement.
const NOT_MEASURED: &str = "Not measured: run ";

/// Returns the commands that measure what the figures show.
pub fn commands() -> impl Iterator<Item = &'static str> {
    FIGURES.iter().flat_map(|figure| figure.commands.iter().copied())
}

/// Returns whether a figure shows this point.
pub(crate) fn has(run: &Run, point: &Point) -> bool {
    let shows = |figure: &Figure| {
        figure.panels.iter().any(|panel| sample::of_point(figure, *panel, run, point).is_some())
    };
    FIGURES.iter().any(shows)
}

/// One plot of a figure.
struct Plot<'a> {
    figure: &'a Figure,
    panel: Panel,
    /// The names that were measured; each has its colour in all plots.
    names: &'a [&'a str],
}

impl Plot<'_> {
    fn section(&self, runs: &[Run], rows: &[Measurement], model: Option<&Model>) -> Section {
        let (mut samples, commands) = sample::measured(self.figure, self.panel, runs);
        let is_measured = !samples.is_empty();
        samples.extend(sample::published(self.figure, self.panel, rows, model));
        let series = self.series(&samples);
        let (label, unit) = quantity(self.figure.quantity);
        let title = self.title();
        let chart = Chart {
            title: format!("{title} ({unit})"),
            description: if series.is_empty() {
                "No figures.".to_owned()
            } else {
                describe(&series, unit)
            },
            x: self.x_axis(),
            y: Axis { label: format!("{label} ({unit})"), scale: self.y_scale() },
            series,
        };
        let mut text = vec![self.figure.differs.to_owned()];
        text.extend(anomalies(&samples));
        if !is_measured {
            let commands: Vec<String> =
                self.figure.commands.iter().map(|command| format!("`{command}`")).collect();
            text.insert(0, format!("{NOT_MEASURED}{}", commands.join(" and ")));
        }
        let tables = self.ratios(runs, &samples).into_iter().collect();
        let general = self.figure.commands.iter().map(|command| (*command).to_owned());
        let commands = if is_measured { commands } else { general.collect() };
        let chart = (!chart.series.is_empty()).then_some(chart);
        Section { title, text, chart, tables, commands, ..Section::default() }
    }

    fn title(&self) -> String {
        let Figure { paper, thesis, title, .. } = self.figure;
        let mut text = match paper.is_empty() {
            true => format!("Figure {thesis} of the thesis: {title}"),
            false => format!("Figure {paper} (thesis: {thesis}): {title}"),
        };
        if self.figure.panels.len() > 1 {
            text += &self.panel.size_bytes.map_or_else(String::new, |bytes| format!(", {bytes} B"));
            text += &self.panel.depth.map_or_else(String::new, |depth| format!(", depth {depth}"));
        }
        text
    }

    fn x_axis(&self) -> Axis {
        let (label, scale) = match self.figure.across {
            Across::Size => ("message size (bytes)", Scale::Log2),
            Across::Depth => ("messages in flight", Scale::Log2),
            Across::QueuePairs => ("queue pairs", Scale::Log2),
            Across::Threads => ("threads", Scale::Log2),
            Across::Load => ("background load (GB/s)", Scale::Linear),
        };
        Axis { label: label.to_owned(), scale }
    }

    const fn y_scale(&self) -> Scale {
        match self.figure.across {
            Across::Load => Scale::Linear,
            _ => Scale::Log10,
        }
    }

    /// Returns a line for each series and operation.
    fn series(&self, samples: &[Sample]) -> Vec<Series> {
        let mut lines: Vec<(&Sample, Vec<(f64, f64)>)> = Vec::new();
        for sample in samples {
            let own = |(first, _): &&mut (&Sample, Vec<(f64, f64)>)| same_line(first, sample);
            match lines.iter_mut().find(own) {
                Some((_, points)) if points.iter().all(|p| p.0 != sample.x) => {
                    points.push((sample.x, sample.y));
                }
                // All measurements of a point have the same value (`shown`).
                Some(_) => {}
                None => lines.push((sample, vec![(sample.x, sample.y)])),
            }
        }
        let series = lines.into_iter().map(|(first, mut points)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series {
                name: self.name(first),
                look: self.look(first),
                stroke: stroke(first.origin),
                points,
            }
        });
        series.collect()
    }

    fn name(&self, sample: &Sample) -> String {
        if self.figure.operations.len() == 1 {
            return sample.series.clone();
        }
        format!("{} {}", sample.series, operation(sample.operation))
    }

    /// Colour by what it is, marker by operation.
    fn look(&self, sample: &Sample) -> usize {
        let own = self.names.iter().position(|name| *name == sample.series).unwrap_or(0);
        let of = |fabric| self.names.len() + fabric as usize;
        let (colour, shift) = match sample.origin {
            Origin::Measured => (own, 0),
            Origin::Published(fabric) => (of(fabric), 0),
            Origin::Modelled(fabric) => (of(fabric), self.figure.operations.len()),
        };
        // More series than colours differ in their markers.
        colour % LOOKS + LOOKS * (self.number_of(sample) + shift + colour / LOOKS)
    }

    /// Returns the position of the sample's operation among those of the figure.
    fn number_of(&self, sample: &Sample) -> usize {
        let operations = self.figure.operations;
        operations.iter().position(|operation| *operation == sample.operation).unwrap_or(0)
    }

    /// Returns the ratios of measured figures to those of EFA hardware, if there are both.
    fn ratios(&self, runs: &[Run], samples: &[Sample]) -> Option<Table> {
        let (_, unit) = quantity(self.figure.quantity);
        let measured = |s: &&Sample| s.origin == Origin::Measured;
        let names: Vec<&str> =
            self.names.iter().copied().filter(|n| samples.iter().any(|s| s.series == *n)).collect();
        let has_model = samples.iter().any(|s| s.origin == Origin::Modelled(Fabric::Efa));
        let mut titles = vec![self.x_axis().label];
        if self.figure.operations.len() > 1 {
            titles.insert(0, "operation".to_owned());
        }
        let key_columns = titles.len();
        titles.push(paper::EFA.to_owned());
        titles.extend(has_model.then(|| "model".to_owned()));
        titles.extend(names.iter().flat_map(|name| [(*name).to_owned(), "ratio".to_owned()]));
        titles.push("over".to_owned());
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let caption = format!(
            "{unit}, published and measured; each ratio: measured divided by {}",
            paper::EFA
        );
        let mut table = Table::new(&caption, &titles, key_columns).with_prose(titles.len() - 1);
        let of_efa = |s: &&Sample| s.origin == Origin::Published(Fabric::Efa);
        let mut published: Vec<&Sample> = samples.iter().filter(of_efa).collect();
        published.sort_by_key(|s| self.number_of(s));
        for published in published {
            let here = |s: &&Sample| s.x == published.x && s.operation == published.operation;
            let of = |name: &str| {
                let own = |s: &&Sample| measured(s) && s.series == name && here(s);
                samples.iter().find(own).map(|s| s.y)
            };
            let values: Vec<Option<f64>> = names.iter().map(|name| of(name)).collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            let modelled = |s: &&Sample| s.origin == Origin::Modelled(Fabric::Efa) && here(s);
            let text = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), significant);
            let mut cells = vec![significant_or_whole(published.x)];
            if key_columns > 1 {
                cells.insert(0, operation(published.operation).to_owned());
            }
            cells.push(significant(published.y));
            cells.extend(has_model.then(|| text(samples.iter().find(modelled).map(|s| s.y))));
            let ratio = |value: Option<f64>| value.map(|value| value / published.y);
            cells.extend(values.iter().flat_map(|value| [text(*value), text(ratio(*value))]));
            let there = names.iter().zip(&values).filter(|(_, value)| value.is_some());
            let there = there.map(|(name, _)| *name).chain([paper::EFA]);
            cells.push(networks(runs, there));
            table.push(cells);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}

fn same_line(a: &Sample, b: &Sample) -> bool {
    (a.origin, &a.series, a.operation) == (b.origin, &b.series, b.operation)
}

const fn stroke(origin: Origin) -> Stroke {
    match origin {
        Origin::Measured => Stroke::Solid,
        Origin::Published(_) => Stroke::Dashed,
        Origin::Modelled(_) => Stroke::Dotted,
    }
}

/// Describes published points that are not what they seem, in a sentence for each reason.
fn anomalies(samples: &[Sample]) -> Vec<String> {
    let mut reasons: Vec<_> = samples.iter().filter_map(|s| s.anomaly).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let sentence = |reason: published::Anomaly| {
        let own = samples.iter().filter(|s| s.anomaly == Some(reason));
        let places: Vec<String> =
            own.map(|s| format!("{} at {}", s.series, significant_or_whole(s.x))).collect();
        format!("Published figures to be careful with ({}): {}.", places.join(", "), reason.why())
    };
    reasons.into_iter().map(sentence).collect()
}

fn significant_or_whole(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { significant(value) }
}

const fn quantity(quantity: Quantity) -> (&'static str, &'static str) {
    match quantity {
        Quantity::Mean => ("mean half round trip", "µs"),
        Quantity::Min => ("least half round trip", "µs"),
        Quantity::P50 => ("median half round trip", "µs"),
        Quantity::P99 => ("99th percentile of half round trips", "µs"),
        Quantity::Goodput => ("goodput", "Gbit/s"),
        Quantity::Rate => ("message rate", "M msg/s"),
    }
}

const fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "SEND",
        Operation::Tagged => "tagged",
        Operation::Inject => "inject",
        Operation::TaggedInject => "tagged inject",
        Operation::Datagram => "UD",
        Operation::Write => "WRITE",
        Operation::Read => "READ",
    }
}
