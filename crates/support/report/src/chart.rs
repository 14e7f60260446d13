//! The content of a chart; `svg` draws it.

use crate::axis::Axis;
use crate::table::Table;

/// The stroke of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// Measured here.
    Solid,
    /// Reference data from elsewhere.
    Dashed,
    /// Computed, not measured; or the tail of the line that shares its colour.
    Dotted,
    /// Repeated measurements, several at one x: small marks on an upright line from the least to
    /// the most, behind the lines and without a label. It shares its look with the line of their
    /// means.
    Spread,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name of the line, shown at its end.
    pub name: String,
    /// Colour and marker number; the same thing has the same number in every chart of a page.
    pub look: usize,
    /// Stroke of the line.
    pub stroke: Stroke,
    /// Pairs of x and y, sorted by x; values that a logarithmic axis cannot show are left out.
    pub points: Vec<(f64, f64)>,
}

/// A line chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Short title.
    pub title: String,
    /// One or two sentences that say what the chart shows, for readers who do not see it.
    pub description: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

impl Chart {
    /// Returns the numbers behind the lines: one row per x, one column per series; where a series
    /// has several values, all of them.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut titles = vec![self.x.label.as_str()];
        titles.extend(self.series.iter().map(|s| s.name.as_str()));
        let mut table = Table::new(&self.title, &titles, 0);
        let mut places: Vec<f64> =
            self.series.iter().flat_map(|s| s.points.iter().map(|p| p.0)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        for place in places {
            let mut row = vec![self.x.cell(place)];
            row.extend(self.series.iter().map(|s| {
                let here = s.points.iter().filter(|p| p.0 == place);
                let values: Vec<String> = here.map(|p| significant(p.1)).collect();
                if values.is_empty() { "-".to_owned() } else { values.join(", ") }
            }));
            table.push(row);
        }
        table
    }
}

/// Formats a number with about four significant digits.
#[must_use]
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let exponent = value.abs().log10().floor();
    let decimals = (0..9_u8).find(|d| f64::from(*d) >= 3.0 - exponent).unwrap_or(9);
    format!("{value:.*}", usize::from(decimals))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Scale;

    #[test]
    fn the_table_has_every_point_of_every_line() {
        let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Log2 };
        let line = |name: &str, points: &[(f64, f64)]| Series {
            name: name.to_owned(),
            look: 0,
            stroke: Stroke::Solid,
            points: points.to_vec(),
        };
        let chart = Chart {
            title: "T".to_owned(),
            description: String::new(),
            x: axis("size"),
            y: axis("µs"),
            series: vec![
                line("a", &[(1.0, 0.001_234_56), (4.0, 12_345.6)]),
                line("b", &[(2.0, 0.0), (4.0, 9.999_96)]),
            ],
        };
        let table = chart.table();
        assert_eq!(table.rows, [["1", "0.001235", "-"], ["2", "-", "0"], ["4", "12346", "10.000"]]);
    }
}
