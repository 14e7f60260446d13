//! A plot for each setting that was varied, whatever the benchmark: the results over sizes, depths,
//! threads, records in a message, or ranks.
//!
//! Points of one benchmark whose settings differ in one number lie on a line. Other numbers in
//! which points of a run may differ (size, depth, rate, the workload's own) make plots of their
//! own; settings of a whole run (threads, who walks a tree, how a log is committed) tell lines
//! apart.

use bench_record::cores::Phase;
use bench_record::{Point, Run};
use report::{Axis, Chart, LOOKS, Scale, Section, Series, Stroke, distinct};

use super::describe;
use crate::kinds::{self, Quantity};
use crate::settings::{self, DEPTH, Level, RATE, RX_DEPTH, SIZE, Setting};

/// A line of fewer points shows no more than a table, and is drawn only if there are no others.
const POINTS_MIN: usize = 3;
/// The text if figures were imported.
const OF_OTHER_TOOLS: &str = "Figures of other tools are as the tool counts them.";
/// The text if the axis has no place for a size of 0.
const OF_0_BYTES: &str =
    "The table below has the figures of 0 bytes, too; an axis of equal factors has no 0.";

/// Returns the plots of all benchmarks; `names` determines the colours.
pub(super) fn sections(runs: &[Run], names: &[&str]) -> Vec<Section> {
    let measured = runs.iter().filter(|run| run.source != "published");
    let mut all = Vec::new();
    for kind in distinct(measured.map(Run::kind)) {
        let samples = samples(runs, kind);
        let mut plots = plots(&samples, POINTS_MIN);
        if plots.is_empty() {
            plots = self::plots(&samples, 2);
        }
        all.extend(plots.iter().flat_map(|plot| plot.sections(kind, names)));
    }
    all
}

/// A point with its settings.
struct Sample<'a> {
    run: &'a Run,
    point: &'a Point,
    settings: Vec<Setting>,
}

impl Sample<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        self.settings.iter().find(|own| own.name == name)?.as_number()
    }

    /// Returns the settings for which `is_one` holds, as a text to be compared.
    fn key(&self, is_one: impl Fn(&Setting) -> bool) -> String {
        let own = self.settings.iter().filter(|setting| is_one(setting));
        own.map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    fn is_published(&self) -> bool {
        self.run.source == "published"
    }
}

fn samples<'a>(runs: &'a [Run], kind: &str) -> Vec<Sample<'a>> {
    let own = runs.iter().filter(|run| run.kind() == kind);
    let points = own.flat_map(|run| run.points.iter().map(move |point| (run, point)));
    let sample = |(run, point): (&'a Run, &'a Point)| Sample {
        run,
        point,
        settings: settings::of(run, point),
    };
    points.map(sample).collect()
}

/// Lines over one setting.
struct Plot<'a> {
    axis: &'static str,
    lines: Vec<Vec<&'a Sample<'a>>>,
}

/// Returns the plots in which at least one measured line has `points_min` points.
fn plots<'a>(samples: &'a [Sample<'a>], points_min: usize) -> Vec<Plot<'a>> {
    let mut axes: Vec<&'static str> = Vec::new();
    for setting in samples.iter().flat_map(|sample| &sample.settings) {
        if setting.as_number().is_some() && !axes.contains(&setting.name) {
            axes.push(setting.name);
        }
    }
    let mut plots = Vec::new();
    for axis in axes {
        let is_panel = |setting: &Setting| {
            setting.name != axis && setting.level == Level::Point && setting.as_number().is_some()
        };
        // A closed loop has no place among rates that were asked for.
        let has_place = |sample: &&Sample<'_>| axis != RATE || sample.number(RATE) != Some(0.0);
        for panel in grouped(samples.iter().filter(has_place), |sample| sample.key(is_panel)) {
            let line = |sample: &&Sample<'_>| {
                let rest = sample.key(|setting| setting.name != axis && !is_panel(setting));
                format!("{}\n{rest}", sample.run.name)
            };
            let mut lines = grouped(panel.into_iter(), |sample| line(&sample));
            // Adapters do not stand beside what never left the memory of one machine.
            if lines.iter().any(|line| line[0].run.is_in_memory()) {
                lines.retain(|line| !line[0].is_published());
            }
            let plot = Plot { axis, lines };
            if plot.longest() >= points_min {
                let lines = plot.lines.into_iter().flat_map(of_phases).collect();
                plots.push(Plot { axis, lines });
            }
        }
    }
    plots
}

/// Splits a line of points measured with the cores near and others with the cores far in two: what
/// lies between them is no curve of one machine.
fn of_phases<'a>(line: Vec<&'a Sample<'a>>) -> Vec<Vec<&'a Sample<'a>>> {
    let mut known = line.iter().filter_map(|sample| sample.point.phase());
    let first = known.next();
    if known.all(|phase| Some(phase) == first) {
        return vec![line];
    }
    let name = |sample: &Sample<'_>| sample.point.phase().map_or("", Phase::name).to_owned();
    grouped(line.into_iter(), name)
}

/// Groups samples of equal keys, in the order of the first of each.
fn grouped<'a>(
    samples: impl Iterator<Item = &'a Sample<'a>>,
    key: impl Fn(&'a Sample<'a>) -> String,
) -> Vec<Vec<&'a Sample<'a>>> {
    let mut keys: Vec<String> = Vec::new();
    let mut groups: Vec<Vec<&Sample<'_>>> = Vec::new();
    for sample in samples {
        let own = key(sample);
        match keys.iter().position(|known| *known == own) {
            Some(at) => groups[at].push(sample),
            None => {
                keys.push(own);
                groups.push(vec![sample]);
            }
        }
    }
    groups
}

impl<'a> Plot<'a> {
    fn samples(&self) -> impl Iterator<Item = &'a Sample<'a>> + '_ {
        self.lines.iter().flatten().copied()
    }

    /// Returns the number of different places on the longest measured line.
    fn longest(&self) -> usize {
        let places = |line: &Vec<&Sample<'_>>| {
            let mut places: Vec<f64> =
                line.iter().filter_map(|sample| sample.number(self.axis)).collect();
            places.sort_by(f64::total_cmp);
            places.dedup();
            places.len()
        };
        let measured = self.lines.iter().filter(|line| !line[0].is_published());
        measured.map(places).max().unwrap_or(0)
    }

    fn sections(&self, kind: &str, names: &[&str]) -> Vec<Section> {
        let first = self.lines[0][0];
        let size_bytes = (self.axis != SIZE).then_some(first.point.size_bytes);
        let quantities = kinds::of(first.run.benchmark).quantities_of(size_bytes);
        quantities.iter().filter_map(|quantity| self.section(kind, names, quantity)).collect()
    }

    fn section(&self, kind: &str, names: &[&str], quantity: &Quantity) -> Option<Section> {
        let mut series: Vec<Series> = Vec::new();
        for line in &self.lines {
            let look = names.iter().position(|name| *name == line[0].run.name).unwrap_or(0);
            let is_line =
                |own: &&Series| own.look % LOOKS == look % LOOKS && own.stroke != Stroke::Spread;
            let variant = series.iter().filter(is_line).count();
            let points = self.points(line, quantity.of);
            if points.is_empty() {
                continue;
            }
            let (name, own) = (self.name(line[0]), look % LOOKS + LOOKS * variant);
            let spread = self.blocks(line, quantity);
            if !spread.is_empty() {
                let (name, stroke) = (format!("{name}, blocks"), Stroke::Spread);
                series.push(Series { name, look: own, stroke, points: spread });
            }
            let tail = quantity.tail.map_or_else(Vec::new, |tail| self.points(line, tail));
            let stroke = if line[0].is_published() { Stroke::Dashed } else { Stroke::Solid };
            series.push(Series { name: name.clone(), look: own, stroke, points });
            if !tail.is_empty() {
                let (name, look) = (format!("{name}, p99"), own + LOOKS);
                series.push(Series { name, look, stroke: Stroke::Dotted, points: tail });
            }
        }
        let is_line = |own: &&Series| own.stroke != Stroke::Spread;
        if series.iter().filter(is_line).all(|line| line.points.len() < 2) {
            return None;
        }
        let Quantity { label, unit, better, .. } = quantity;
        let mut title = format!("{kind}: {label} over {}", axis_label(self.axis));
        let common = self.common();
        if !common.is_empty() {
            title += &format!("; {common}");
        }
        let text = self.text(quantity, &series);
        let chart = Chart {
            title: format!("{label} ({unit}, logarithmic; {better} is better)"),
            description: describe(series.iter().filter(is_line), unit),
            x: Axis { label: axis_label(self.axis).to_owned(), scale: self.scale() },
            y: Axis { label: format!("{label} ({unit})"), scale: Scale::Log10 },
            series,
        };
        let commands = self.commands();
        Some(Section { title, text, chart: Some(chart), commands, ..Section::default() })
    }

    /// Returns the result at each place, which is the same for all its points.
    fn points(&self, line: &[&Sample<'_>], of: fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for sample in line {
            let place = sample.number(self.axis).zip(of(sample.point));
            if let Some((x, y)) = place.filter(|(_, y)| *y > 0.0) {
                points.retain(|known| known.0 != x);
                points.push((x, y));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// Returns the result of each block at each place, if blocks were kept of this figure.
    fn blocks(&self, line: &[&Sample<'_>], quantity: &Quantity) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for sample in line.iter().filter(|sample| quantity.has_blocks && !sample.is_published()) {
            let Some(x) = sample.number(self.axis) else { continue };
            let figures = (quantity.of)(sample.point).zip(sample.point.figure());
            let scale = figures.map(|(own, figure)| own / figure).filter(|scale| scale.is_finite());
            let Some(scale) = scale else { continue };
            points.retain(|known| known.0 != x);
            points.extend(sample.point.blocks.iter().map(|block| (x, block * scale)));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// Returns whether all lines share a setting.
    fn is_common(&self, setting: &Setting) -> bool {
        let own = |s: &Sample<'_>| s.settings.iter().find(|own| own.name == setting.name).copied();
        self.lines.iter().all(|line| own(line[0]) == Some(*setting))
    }

    /// Returns whether neither the axis nor the run's name says a setting.
    fn is_said(&self, setting: &Setting) -> bool {
        setting.name != self.axis && setting.name != RX_DEPTH
    }

    /// Renders the settings that all lines share and that need to be said.
    fn common(&self) -> String {
        let own = self.lines[0][0].settings.iter().copied();
        let common: Vec<Setting> =
            own.filter(|setting| self.is_said(setting) && self.is_common(setting)).collect();
        settings::words(&common)
    }

    /// Returns the name of a sample's run, with what tells its line from others of the same name.
    fn name(&self, sample: &Sample<'_>) -> String {
        let name = self.name_of_settings(sample);
        let is_own = |line: &&Vec<&Sample<'_>>| self.name_of_settings(line[0]) == name;
        let is_split = self.lines.iter().filter(is_own).count() > 1;
        match sample.point.phase().filter(|_| is_split) {
            Some(phase) => format!("{name}, cores {}", phase.name()),
            None => name,
        }
    }

    fn name_of_settings(&self, sample: &Sample<'_>) -> String {
        let own = sample.settings.iter().copied();
        let special: Vec<Setting> =
            own.filter(|setting| self.is_said(setting) && !self.is_common(setting)).collect();
        let words = settings::words(&special);
        let name = &sample.run.name;
        if words.is_empty() { name.clone() } else { format!("{name}, {words}") }
    }

    /// Explains the quantity, and names the figures that are not in the picture.
    fn text(&self, quantity: &Quantity, series: &[Series]) -> Vec<String> {
        let mut points = series.iter().flat_map(|line| &line.points);
        let is_short = self.axis == SIZE && points.any(|point| point.0 == 0.0);
        let hint = is_short.then_some(OF_0_BYTES);
        let is_imported = |sample: &Sample<'_>| sample.run.source == "imported";
        let has_others = self.samples().any(is_imported);
        let is_of_others = self.samples().all(is_imported);
        let meaning = (!is_of_others).then_some(quantity.meaning);
        let of_others = has_others.then_some(OF_OTHER_TOOLS);
        [meaning, of_others, hint].into_iter().flatten().map(str::to_owned).collect()
    }

    fn scale(&self) -> Scale {
        let has_zero = self.samples().any(|sample| sample.number(self.axis) == Some(0.0));
        match self.axis {
            // Equal steps would show the longest size alone.
            SIZE => Scale::Log2,
            _ if has_zero => Scale::Linear,
            "asked/s" | "flush µs" => Scale::Log10,
            "gets %" | "Zipf" => Scale::Linear,
            _ => Scale::Log2,
        }
    }

    fn commands(&self) -> Vec<String> {
        let commands = self.samples().map(|sample| sample.run.command.clone());
        distinct(commands.filter(|command| !command.is_empty()))
    }
}

fn axis_label(axis: &'static str) -> &'static str {
    match axis {
        SIZE => "size (bytes)",
        DEPTH => "depth (in flight)",
        "asked/s" => "asked per second and thread",
        "flush µs" => "longest wait on purpose (µs)",
        "records/msg" => "records in a message",
        "chunk B" => "chunk (bytes)",
        "gets %" => "gets (%)",
        other => other,
    }
}

#[cfg(test)]
mod tests;
