//! A chart as inline SVG.

use std::fmt::Write;

use crate::axis::{Fitted, Scale};
use crate::chart::{Chart, Series, Stroke, significant};
use crate::escape::escape;
use crate::style::LOOKS;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 62.0;
/// Room for the names at the line ends, as much as the longest takes.
const RIGHT_MIN: f64 = 120.0;
const RIGHT_MAX: f64 = 330.0;
/// What stands before a name, and the width of a character of it, rather too much.
const NAME_AT: f64 = 32.0;
const CHARACTER: f64 = 7.4;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 50.0;
/// Lines of more points are read by their shape: they have only some markers.
const MARKED_MAX: usize = 40;
const MARKS_OF_LONG: usize = 7;
/// Distance of two labels at the line ends.
const LABEL_STEP: f64 = 17.0;

struct Plot<'a> {
    chart: &'a Chart,
    /// Where the lines end.
    right: f64,
    x: Fitted,
    y: Fitted,
}

/// Renders the chart; `id` must be unique within the page.
pub(crate) fn svg(chart: &Chart, id: &str) -> String {
    let xs = chart.series.iter().flat_map(|s| s.points.iter().map(|p| p.0));
    let ys = chart.series.iter().flat_map(|s| s.points.iter().map(|p| p.1));
    let longest = chart.series.iter().map(|s| s.name.chars().count()).max().unwrap_or(0);
    let longest = f64::from(u16::try_from(longest).unwrap_or(u16::MAX));
    let names_width = (NAME_AT + longest * CHARACTER).clamp(RIGHT_MIN, RIGHT_MAX);
    let plot = Plot {
        chart,
        right: WIDTH - names_width,
        x: Fitted::new(&chart.x.scale, xs),
        y: Fitted::new(&chart.y.scale, ys),
    };
    let mut out = String::new();
    let (title, description) = (escape(&chart.title), escape(&chart.description));
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
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
    fn at(&self, point: (f64, f64)) -> Option<(f64, f64)> {
        let (x, y) = (self.x.place(point.0)?, self.y.place(point.1)?);
        Some((LEFT + x * (self.right - LEFT), HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM)))
    }

    fn axes(&self, out: &mut String) {
        let (right, bottom) = (self.right, HEIGHT - BOTTOM);
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
            HEIGHT - 10.0,
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

    /// An upright line at each x from the least value to the most, and a small mark for each.
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

    /// Heights of the labels at the line ends, moved apart where lines end close together.
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
        let mut lowest = TOP + 8.0;
        for index in &order {
            let wanted = ends[*index].unwrap_or_default().max(lowest);
            places[*index] = Some(wanted);
            lowest = wanted + LABEL_STEP;
        }
        let mut highest = HEIGHT - BOTTOM - 2.0;
        for index in order.iter().rev() {
            let place = places[*index].unwrap_or_default().min(highest);
            places[*index] = Some(place);
            highest = place - LABEL_STEP;
        }
        places
    }

    /// Where a line ends.
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
            escape(&series.name)
        );
    }
}

/// Lines that share a colour differ in their markers.
const fn marker_of(series: &Series) -> usize {
    (series.look + series.look / LOOKS) % LOOKS
}

/// A marker of its own shape for each look, with a tooltip.
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

/// A number for a tooltip.
fn short(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    format!("{value:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;

    fn chart(points: Vec<Vec<(f64, f64)>>) -> Chart {
        let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Log10 };
        let series = points.into_iter().enumerate().map(|(look, points)| Series {
            name: format!("s<{look}>"),
            look,
            stroke: if look == 0 { Stroke::Solid } else { Stroke::Dashed },
            points,
        });
        Chart {
            title: "T & t".to_owned(),
            description: "D".to_owned(),
            x: axis("x"),
            y: axis("y"),
            series: series.collect(),
        }
    }

    #[test]
    fn lines_that_end_together_have_labels_apart() {
        let line = vec![(1.0, 5.0), (10.0, 5.0)];
        let chart = chart(vec![line.clone(), line.clone(), line]);
        let plot = Plot {
            chart: &chart,
            right: WIDTH - RIGHT_MIN,
            x: Fitted::new(&Scale::Log10, [1.0, 10.0].into_iter()),
            y: Fitted::new(&Scale::Log10, [1.0, 10.0].into_iter()),
        };
        let places: Vec<f64> = plot.label_places().into_iter().flatten().collect();
        assert_eq!(places.len(), 3);
        for pair in places.windows(2) {
            assert!((pair[1] - pair[0]).abs() >= LABEL_STEP - 1e-9, "{places:?}");
        }
    }

    #[test]
    fn long_names_have_room() {
        let end_of_lines = |name: &str| {
            let mut chart = chart(vec![vec![(1.0, 5.0), (10.0, 5.0)]]);
            name.clone_into(&mut chart.series[0].name);
            let text = svg(&chart, "c");
            let (_, rest) = text.split_once("class=\"label\" x=\"").expect("a label");
            rest.split('"').next().and_then(|x| x.parse::<f64>().ok()).expect("a place")
        };
        let name = "Soft-EFA verbs SRD, order kept";
        assert!(end_of_lines(name) + 6.6 * name.len() as f64 <= WIDTH);
        assert!(end_of_lines("short") > end_of_lines(name));
    }

    #[test]
    fn markup_in_names_is_escaped_and_every_element_closed() {
        let looks = (0..6).map(|_| vec![(1.0, 1.0), (2.0, 4.0), (3.0, 0.0)]).collect();
        let text = svg(&chart(looks), "c");
        assert!(text.contains("T &amp; t") && text.contains("s&lt;0&gt;"));
        for name in ["circle", "rect", "polygon", "ellipse", "title", "g", "svg"] {
            let opened = text.matches(&format!("<{name}")).count();
            let closed = text.matches(&format!("</{name}>")).count();
            assert_eq!(opened, closed, "{name}");
        }
    }

    #[test]
    fn long_lines_have_few_markers() {
        let line = (1..=400).map(|i| (f64::from(i), f64::from(i))).collect();
        let text = svg(&chart(vec![line]), "c");
        let markers = text.matches("<circle").count();
        assert!((5..=10).contains(&markers), "{markers}");
        assert!(text.matches('L').count() > 390, "every point is on the line");
    }

    #[test]
    fn repeated_measurements_are_marks_on_an_upright_line_without_a_label() {
        let mut chart = chart(vec![vec![(1.0, 2.0), (1.0, 8.0), (10.0, 4.0)], vec![(1.0, 5.0)]]);
        chart.series[0].stroke = Stroke::Spread;
        let text = svg(&chart, "c");
        let (spread, rest) = text.split_once("</g>").unwrap();
        let spread = spread.split_once("spread").unwrap().1;
        assert_eq!((spread.matches("<circle").count(), spread.matches('M').count()), (3, 2));
        assert_eq!(rest.matches("class=\"label\"").count(), 1, "of the line only: {rest}");
        assert_eq!(chart.table().rows[0][1], "2.000, 8.000");
    }

    #[test]
    fn names_are_not_joined_by_lines() {
        let mut chart = chart(vec![vec![(1.0, 2.0), (2.0, 8.0)]]);
        chart.x.scale = Scale::Names(vec!["a<b".to_owned(), "tcp".to_owned()]);
        let text = svg(&chart, "c");
        assert!(
            text.contains(">a&lt;b</text>") && text.contains("class=\"line\" d=\"\""),
            "{text}"
        );
        assert_eq!(chart.table().rows[1][0], "tcp");
    }

    #[test]
    fn a_point_alone_is_a_mark_with_its_value() {
        let text = svg(&chart(vec![vec![(2.0, 1234.5)], vec![(1.0, 1.0), (2.0, 4.0)]]), "c");
        assert_eq!(text.matches("class=\"alone\"").count(), 1);
        assert!(text.contains(">1234</text>") || text.contains(">1235</text>"), "{text}");
    }

    #[test]
    fn an_empty_chart_is_drawn() {
        assert!(svg(&chart(vec![vec![]]), "c").ends_with("</svg>"));
    }
}
