//! One quantity of several things, a row each: where the figure is, how far its repetitions lie
//! apart, and how far its tail goes.

use std::fmt::Write;

use crate::axis::{Fitted, Scale};
use crate::escape::escape;
use crate::style::LOOKS;
use crate::svg::marker;
use crate::table::Table;

const WIDTH: f64 = 380.0;
const LEFT: f64 = 10.0;
const RIGHT: f64 = 370.0;
/// Height of a row: a line of text and a line of marks.
const ROW: f64 = 46.0;
const TEXT_AT: f64 = 16.0;
const MARKS_AT: f64 = 32.0;
const BOTTOM: f64 = 26.0;
/// Maximum number of characters of a row's text; more would run out of the picture.
const TEXT_CHARS: usize = 58;

/// A row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dot {
    /// The name of the row.
    pub name: String,
    /// Colour and marker number; the same thing has the same number in every chart of a page.
    pub look: usize,
    /// The figure.
    pub value: f64,
    /// The ends of its 95 % confidence interval.
    pub interval: Option<(f64, f64)>,
    /// The figures of its repetitions.
    pub blocks: Vec<f64>,
    /// The values of its tail: ("p99", 9.1), ("max", 130.0).
    pub tail: Vec<(String, f64)>,
}

/// A chart of rows with one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots {
    /// The title, with the unit: "Latency 64 B (µs; lower is better)".
    pub title: String,
    /// Unit behind each number: "µs".
    pub unit: String,
    /// The axis.
    pub scale: Scale,
    /// The rows, from the top down.
    pub rows: Vec<Dot>,
}

impl Dot {
    /// Returns the row in words: "5.65 µs, p99 9.10, max 130".
    fn words(&self, unit: &str) -> String {
        let mut words = format!("{} {unit}", number(self.value));
        for (name, value) in &self.tail {
            let _ = write!(words, ", {name} {}", number(*value));
        }
        words
    }

    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        let ends = self.interval.into_iter().flat_map(|(low, high)| [low, high]);
        let tail = self.tail.iter().map(|(_, value)| *value);
        [self.value].into_iter().chain(ends).chain(self.blocks.iter().copied()).chain(tail)
    }
}

impl Dots {
    /// Returns the numbers of all rows.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.rows.iter().flat_map(|row| &row.tail) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let mut titles = vec!["", self.unit.as_str(), "95 % from", "to"];
        titles.extend(&names);
        titles.push("blocks");
        let mut table = Table::new(&self.title, &titles, 1);
        for row in &self.rows {
            let end = |end: Option<f64>| end.map_or_else(|| "-".to_owned(), number);
            let mut cells = vec![row.name.clone(), number(row.value)];
            cells.push(end(row.interval.map(|ends| ends.0)));
            cells.push(end(row.interval.map(|ends| ends.1)));
            cells.extend(names.iter().map(|name| {
                end(row.tail.iter().find(|(own, _)| own == name).map(|(_, value)| *value))
            }));
            let blocks: Vec<String> = row.blocks.iter().map(|block| number(*block)).collect();
            cells.push(blocks.join(" "));
            table.push(cells);
        }
        table
    }

    /// Describes the chart in words, for readers who do not see it.
    fn description(&self) -> String {
        let rows = self.rows.iter().map(|row| format!("{}: {}", row.name, row.words(&self.unit)));
        format!("{}.", rows.collect::<Vec<_>>().join("; "))
    }

    /// Renders the chart; `id` must be unique within the page.
    pub(crate) fn svg(&self, id: &str) -> String {
        let count = self.rows.iter().fold(0.0, |count, _| count + 1.0);
        let bottom = count * ROW + 4.0;
        let height = bottom + BOTTOM;
        let axis = Fitted::new(&self.scale, self.rows.iter().flat_map(Dot::values));
        let mut out = format!(
            "<svg class=\"dots\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title>\
             <desc id=\"{id}-d\">{}</desc>",
            escape(&self.title),
            escape(&self.description())
        );
        ticks(&axis, bottom, &mut out);
        let mut top = 0.0;
        for row in &self.rows {
            self.row(row, top, &axis, &mut out);
            top += ROW;
        }
        out.push_str("</svg>");
        out
    }

    fn row(&self, row: &Dot, top: f64, axis: &Fitted, out: &mut String) {
        let at = |value: f64| axis.place(value).map(|place| LEFT + place * (RIGHT - LEFT));
        let y = top + MARKS_AT;
        let mut text = format!("{}: {}", row.name, row.words(&self.unit));
        if text.chars().count() > TEXT_CHARS {
            text = text.chars().take(TEXT_CHARS - 1).chain(['…']).collect();
        }
        let _ = write!(
            out,
            "<text class=\"label\" x=\"{LEFT}\" y=\"{:.1}\">{}</text><g class=\"look{}\">",
            top + TEXT_AT,
            escape(&text),
            row.look % LOOKS
        );
        let Some(x) = at(row.value) else {
            out.push_str("</g>");
            return;
        };
        let last = row.tail.iter().filter_map(|(_, value)| at(*value)).fold(x, f64::max);
        let _ = write!(out, "<path class=\"line tail\" d=\"M{x:.1} {y:.1}L{last:.1} {y:.1}\"/>");
        if let Some((low, high)) = row.interval.and_then(|(low, high)| at(low).zip(at(high))) {
            let _ = write!(out, "<path class=\"bar\" d=\"M{low:.1} {y:.1}L{high:.1} {y:.1}\"/>");
        }
        for block in row.blocks.iter().filter_map(|block| Some((*block, at(*block)?))) {
            let _ = write!(
                out,
                "<circle class=\"block\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"2.2\"><title>one block: {}\
                 </title></circle>",
                block.1,
                number(block.0)
            );
        }
        for (name, value) in &row.tail {
            let Some(place) = at(*value) else { continue };
            let _ = write!(
                out,
                "<path class=\"line\" d=\"M{place:.1} {:.1}L{place:.1} {:.1}\"><title>{}: {}\
                 </title></path>",
                y - 6.0,
                y + 6.0,
                escape(name),
                number(*value)
            );
        }
        let tip = escape(&format!("{}: {} {}", row.name, number(row.value), self.unit));
        out.push_str(&marker(row.look % LOOKS, x, y, &tip));
        out.push_str("</g>");
    }
}

/// Draws the axis at the bottom, with a line through all rows at each mark.
fn ticks(axis: &Fitted, bottom: f64, out: &mut String) {
    let all = axis.ticks();
    // More would run into each other.
    let every = all.len().div_ceil(7).max(1);
    for (value, label) in all.iter().step_by(every) {
        let Some(place) = axis.place(*value) else { continue };
        let x = LEFT + place * (RIGHT - LEFT);
        let anchor = match place {
            place if place < 0.05 => "start",
            place if place > 0.95 => "end",
            _ => "middle",
        };
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"4\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            bottom + 16.0,
            escape(label)
        );
    }
}

/// Formats about three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dots(rows: Vec<Dot>) -> Dots {
        let (title, unit) = ("Latency <64 B>".to_owned(), "µs".to_owned());
        Dots { title, unit, scale: Scale::Log10, rows }
    }

    fn row(name: &str, value: f64) -> Dot {
        let tail = vec![("p99".to_owned(), value * 2.0), ("max".to_owned(), value * 90.0)];
        let (interval, blocks) = (Some((value * 0.9, value * 1.1)), vec![value; 5]);
        Dot { name: name.to_owned(), look: 0, value, interval, blocks, tail }
    }

    #[test]
    fn a_row_has_its_figure_its_blocks_its_interval_and_its_tail() {
        let text = dots(vec![row("a & b", 5.0)]).svg("d");
        for needed in [
            "aria-labelledby=\"d-t d-d\"",
            "Latency &lt;64 B&gt;",
            "a &amp; b: 5.00 µs, p99 10.0, max 450",
            "<title>p99: 10.0</title>",
            "class=\"bar\"",
        ] {
            assert!(text.contains(needed), "{needed}: {text}");
        }
        assert_eq!(text.matches("one block: 5.00").count(), 5);
    }

    #[test]
    fn marks_lie_in_the_picture_in_the_order_of_their_values() {
        let text = dots(vec![row("a", 5.0), row("b", 50.0)]).svg("d");
        let tips: Vec<f64> = text
            .match_indices("class=\"line\" d=\"M")
            .map(|(at, found)| {
                let rest = &text[at + found.len()..];
                rest.split(' ').next().and_then(|x| x.parse().ok()).expect("a place")
            })
            .collect();
        assert_eq!(tips.len(), 4);
        assert!(tips[0] < tips[1] && tips[0] < tips[2] && tips[2] < tips[3], "{tips:?}");
        assert!(tips.iter().all(|x| (LEFT..=RIGHT).contains(x)), "{tips:?}");
    }

    #[test]
    fn a_figure_alone_is_a_mark_and_nothing_is_no_panic() {
        let alone = Dot { name: "one".to_owned(), value: 3.0, ..Dot::default() };
        let text = dots(vec![alone.clone()]).svg("d");
        assert!(text.contains("<circle") && !text.contains("class=\"bar\""));
        assert_eq!(dots(vec![alone]).table().rows, [["one", "3.00", "-", "-", ""]]);
        assert!(dots(Vec::new()).svg("d").ends_with("</svg>"));
        let odd = Dot { value: f64::NAN, ..row("x", -1.0) };
        assert!(dots(vec![odd]).svg("d").ends_with("</svg>"));
        let long = Dot { name: "n".repeat(200), value: 1.0, ..Dot::default() };
        assert!(dots(vec![long]).svg("d").contains('…'));
    }

    #[test]
    fn the_table_has_all_numbers() {
        let table = dots(vec![row("a", 5.0)]).table();
        let titles: Vec<&str> = table.columns.iter().map(|own| own.title.as_str()).collect();
        assert_eq!(titles, ["", "µs", "95 % from", "to", "p99", "max", "blocks"]);
        let blocks = "5.00 5.00 5.00 5.00 5.00";
        assert_eq!(table.rows, [["a", "5.00", "4.50", "5.50", "10.0", "450", blocks]]);
    }
}
