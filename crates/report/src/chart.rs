//! What a chart shows; how it is drawn is in `svg`.

use crate::axis::Axis;

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// Measured here.
    Solid,
    /// Reference data from elsewhere.
    Dashed,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Shown at the line's end.
    pub name: String,
    /// Colour and marker number; give the same thing the same number in every chart of a page.
    pub look: usize,
    /// Solid or dashed.
    pub stroke: Stroke,
    /// (x, y), sorted by x; values a logarithmic axis cannot show are left out.
    pub points: Vec<(f64, f64)>,
}

/// A line chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Short title.
    pub title: String,
    /// One or two sentences that say what it shows, for those who do not see it.
    pub description: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}
