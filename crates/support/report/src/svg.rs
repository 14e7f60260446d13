//! A chart as inline SVG.

use std::fmt::Write;

use crate::axis::{Fitted, Scale};
use crate::chart::{Chart, Series, Stroke, significant};
use crate::escape::escape;
use crate::style::LOOKS;

/// The width of every chart.
pub(crate) const WIDTH: f64 = 760.0;
const HEIGHT_MIN: f64 = 400.0;
const LEFT: f64 = 62.0;
/// Minimum room for the names at the line ends; there is as much as the longest takes.
const RIGHT_MIN: f64 = 120.0;
const RIGHT_MAX: f64 = 330.0;
/// Offset of a name from its line's end.
const NAME_AT: f64 = 32.0;
/// Width of a character of a name, rather too much.
const CHARACTER: f64 = 7.4;
/// Maximum number of characters of a name: of usual width, they fill the most room that there is.
const NAME_CHARS_MAX: usize = 45;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 50.0;
/// Number of points above which a line has only some markers: it is read by its shape.
const MARKED_MAX: usize = 40;
const MARKS_OF_LONG: usize = 7;
/// Distance of two labels at the line ends.
const LABEL_STEP: f64 = 17.0;
/// Distance of the first label from the top of the plot.
const LABELS_BELOW_TOP: f64 = 8.0;
/// Distance of the last label from the bottom of the plot.
const LABELS_ABOVE_BOTTOM: f64 = 2.0;

struct Plot<'a> {
    chart: &'a Chart,
    height: f64,
    /// Right end of the lines.
    right: f64,
    x: Fitted,
    y: Fitted,
}

/// Returns the height of the chart: as much as the labels of its lines take one above the other.
pub(crate) fn height(chart: &Chart) -> f64 {
    let labels = chart.series.iter().filter(|series| series.stroke != Stroke::Spread).count();
    let steps = labels.saturating_sub(1) as f64 * LABEL_STEP;
    (TOP + LABELS_BELOW_TOP + steps + LABELS_ABOVE_BOTTOM + BOTTOM).max(HEIGHT_MIN)
}

/// Renders the chart; `id` must be unique within the page.
pub(crate) fn svg(chart: &Chart, id: &str) -> String {
    let xs = chart.series.iter().flat_map(|s| s.points.iter().map(|p| p.0));
    let ys = chart.series.iter().flat_map(|s| s.points.iter().map(|p| p.1));
    let longest = chart.series.iter().map(|s| s.name.chars().count()).max().unwrap_or(0);
    let longest = f64::from(u16::try_from(longest).unwrap_or(u16::MAX));
    let names_width = (NAME_AT + longest * CHARACTER).clamp(RIGHT_MIN, RIGHT_MAX);
    let height = height(chart);
    let plot = Plot {
        chart,
        height,
        right: WIDTH - names_width,
        x: Fitted::new(&chart.x.scale, xs),
        y: Fitted::new(&chart.y.scale, ys),
    };
    let mut out = String::new();
    let (title, description) = (escape(&chart.title), escape(&chart.description));
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{description}</desc>"
    );
    plot.axes(&mut out);
    let labels = plot.label_places();
    let is_spread = |series: &&Series| series.stroke == Stroke::Spread;
    chart.series.iter().filter(is_spread).for_each(|series| plot.spread(series, &mut out));
    for (series, label_y) in chart.series.iter().zip(labels) {
        if is_spread(&series) {
            continue;
        }
        plot.line(series, &mut out);
        if let Some(label_y) = label_y {
            plot.label(series, label_y, &mut out);
        }
    }
    out.push_str("</svg>");
    out
}

impl Plot<'_> {
    /// Returns the place of the x axis.
    fn bottom(&self) -> f64 {
        self.height - BOTTOM
    }

    fn at(&self, point: (f64, f64)) -> Option<(f64, f64)> {
        let (x, y) = (self.x.place(point.0)?, self.y.place(point.1)?);
        let bottom = self.bottom();
        Some((LEFT + x * (self.right - LEFT), bottom - y * (bottom - TOP)))
    }

    fn axes(&self, out: &mut String) {
        let (right, bottom) = (self.right, self.bottom());
        for (value, label) in self.y.ticks() {
            let Some(place) = self.y.place(value) else { continue };
            let y = bottom - place * (bottom - TOP);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                y + 4.0
            );
        }
        for (value, label) in self.x.ticks() {
            let Some(place) = self.x.place(value) else { continue };
            let x = LEFT + place * (right - LEFT);
            let _ = write!(
                out,
                "<line class=\"axis\" x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}\
                 </text>",
                bottom + 5.0,
                bottom + 19.0,
                label = escape(&label),
            );
        }
        let middle = f64::midpoint(TOP, bottom);
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>\
             <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"name\" transform=\"translate(14 {middle:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            self.height - 10.0,
            escape(&self.chart.x.label),
            escape(&self.chart.y.label)
        );
    }

    fn line(&self, series: &Series, out: &mut String) {
        let look = series.look % LOOKS;
        let mut path = String::new();
        let mut markers = String::new();
        let every = match series.points.len() {
            len if len > MARKED_MAX => len.div_ceil(MARKS_OF_LONG),
            _ => 1,
        };
        for (number, point) in (1..).zip(&series.points) {
            let Some((x, y)) = self.at(*point) else { continue };
            let step = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{step}{x:.1} {y:.1}");
            if number % every != 0 && number != series.points.len() {
                continue;
            }
            let tip = format!("{}: {} at {}", series.name, short(point.1), short(point.0));
            markers.push_str(&marker(marker_of(series), x, y, &escape(&tip)));
        }
        let dash = match series.stroke {
            Stroke::Solid | Stroke::Spread => "",
            Stroke::Dashed => " stroke-dasharray=\"6 5\"",
            Stroke::Dotted => " stroke-dasharray=\"1.5 4\"",
        };
        // A mark alone has no neighbour to be read against.
        if let [point] = series.points.as_slice() {
            if let Some((x, y)) = self.at(*point) {
                let value = significant(point.1);
                let _ = write!(
                    markers,
                    "<text class=\"alone\" x=\"{:.1}\" y=\"{:.1}\">{value}</text>",
                    x + 9.0,
                    y - 6.0
                );
            }
        }
        // Between names there is nothing that a line could show.
        if matches!(self.chart.x.scale, Scale::Names(_)) {
            path.clear();
        }
        let _ = write!(
            out,
            "<g class=\"look{look}\"><path class=\"line\" d=\"{path}\"{dash}/>{markers}</g>"
        );
    }

    /// Draws an upright line at each x from the least value to the most, and a small mark for each.
    fn spread(&self, series: &Series, out: &mut String) {
        let look = series.look % LOOKS;
        let mut path = String::new();
        let mut marks = String::new();
        for here in series.points.chunk_by(|a, b| a.0 == b.0) {
            let shown = here.iter().filter_map(|point| Some((point.1, self.at(*point)?)));
            let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
            for (value, (x, y)) in shown.clone() {
                (low, high) = (low.max(y), high.min(y));
                let tip = escape(&format!("{}: {}", series.name, short(value)));
                let _ = write!(
                    marks,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\"><title>{tip}</title></circle>"
                );
            }
            if let Some((_, (x, _))) = shown.clone().next() {
                let _ = write!(path, "M{x:.1} {low:.1}L{x:.1} {high:.1}");
            }
        }
        let _ = write!(
            out,
            "<g class=\"look{look} spread\"><path class=\"line\" d=\"{path}\"/>{marks}</g>"
        );
    }

    /// Returns the heights of the labels at the line ends, moved apart where lines end close
    /// together.
    fn label_places(&self) -> Vec<Option<f64>> {
        let ends: Vec<Option<f64>> = self
            .chart
            .series
            .iter()
            .map(|s| if s.stroke == Stroke::Spread { None } else { self.end_of(s) })
            .map(|end| end.map(|(_, y)| y))
            .collect();
        let mut order: Vec<usize> = (0..ends.len()).filter(|i| ends[*i].is_some()).collect();
        order.sort_by(|a, b| ends[*a].partial_cmp(&ends[*b]).unwrap_or(std::cmp::Ordering::Equal));
        let mut places = ends.clone();
        let mut lowest = TOP + LABELS_BELOW_TOP;
        for index in &order {
            let wanted = ends[*index].unwrap_or_default().max(lowest);
            places[*index] = Some(wanted);
            lowest = wanted + LABEL_STEP;
        }
        let mut highest = self.bottom() - LABELS_ABOVE_BOTTOM;
        for index in order.iter().rev() {
            let place = places[*index].unwrap_or_default().min(highest);
            places[*index] = Some(place);
            highest = place - LABEL_STEP;
        }
        places
    }

    /// Returns the end of a line.
    fn end_of(&self, series: &Series) -> Option<(f64, f64)> {
        series.points.iter().rev().find_map(|point| self.at(*point))
    }

    fn label(&self, series: &Series, y: f64, out: &mut String) {
        let look = series.look % LOOKS;
        let x = self.right + 16.0;
        if let Some((end_x, end_y)) = self.end_of(series) {
            let _ = write!(
                out,
                "<path class=\"lead\" d=\"M{:.1} {end_y:.1}L{:.1} {y:.1}\"/>",
                end_x + 6.0,
                x - 6.0
            );
        }
        let _ = write!(
            out,
            "<g class=\"look{look}\">{}</g><text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            marker(marker_of(series), x, y, ""),
            x + 9.0,
            y + 4.0,
            label_text(&series.name)
        );
    }
}

/// Returns a name, cut to its room; the whole one is its tooltip.
fn label_text(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS_MAX {
        return escape(name);
    }
    let short: String = name.chars().take(NAME_CHARS_MAX - 1).chain(['…']).collect();
    format!("<title>{}</title>{}", escape(name), escape(&short))
}

/// Returns the marker of a line; lines that share a colour differ in it.
const fn marker_of(series: &Series) -> usize {
    (series.look + series.look / LOOKS) % LOOKS
}

/// Draws a marker of its own shape for each look, with a tooltip.
pub(crate) fn marker(look: usize, x: f64, y: f64, tip: &str) -> String {
    let shape = match look {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\">"),
        1 => format!("<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\">", x - 3.5, y - 3.5),
        2 => polygon(x, y, &[(0.0, -5.0), (4.8, 3.6), (-4.8, 3.6)]),
        3 => polygon(x, y, &[(0.0, -5.2), (5.2, 0.0), (0.0, 5.2), (-5.2, 0.0)]),
        4 => polygon(x, y, &[(0.0, 5.0), (4.8, -3.6), (-4.8, -3.6)]),
        _ => format!("<ellipse cx=\"{x:.1}\" cy=\"{y:.1}\" rx=\"5\" ry=\"2.6\">"),
    };
    let name = shape[1..].split(' ').next().unwrap_or_default().to_owned();
    let tooltip = if tip.is_empty() { String::new() } else { format!("<title>{tip}</title>") };
    format!("{shape}{tooltip}</{name}>")
}

fn polygon(x: f64, y: f64, corners: &[(f64, f64)]) -> String {
    let points: Vec<String> =
        corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
    format!("<polygon points=\"{}\">", points.join(" "))
}

/// Formats a number for a tooltip.
fn short(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    format!("{value:.3}")
}

#[cfg(test)]
mod tests;
