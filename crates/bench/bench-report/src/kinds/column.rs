//! Columns of the tables with their cells, and the columns that several kinds of tables share.

use std::ops::Deref;

use bench_record::{ActionTimes, Distribution, Point, Run};
use report::Table;

use super::cells::{doubt, known, spread, us};

/// The subject of a row.
pub(super) struct PointRow<'a> {
    pub(super) point: &'a Point,
    /// One kind of the point's operations.
    pub(super) action: Option<&'a ActionTimes>,
}

impl<'a> PointRow<'a> {
    pub(super) const fn of(point: &'a Point) -> Self {
        Self { point, action: None }
    }
}

impl Deref for PointRow<'_> {
    type Target = Point;

    fn deref(&self) -> &Point {
        self.point
    }
}

/// The cell of a row; `None` if its value is not known.
pub(super) type Cell = fn(&PointRow<'_>) -> Option<String>;

/// A column of a table.
#[derive(Clone, Copy)]
pub(super) struct Column {
    title: &'static str,
    cell: Cell,
    is_shown: fn(&Run) -> bool,
    least: Option<u8>,
}

impl Column {
    pub(super) const fn new(title: &'static str, cell: Cell) -> Self {
        Self { title, cell, is_shown: |_| true, least: None }
    }

    /// Returns the column for only the runs for which `is_shown` holds.
    pub(super) const fn of(self, is_shown: fn(&Run) -> bool) -> Self {
        Self { is_shown, ..self }
    }

    /// Returns the column with a place among those that a narrow table lacks: it is left out before
    /// columns with a higher place, and before those without one.
    pub(super) const fn least(self, place: u8) -> Self {
        Self { least: Some(place), ..self }
    }
}

/// Returns a table with those of `columns` that are for this run.
pub(super) fn table<'a>(
    caption: &str,
    run: &Run,
    columns: impl IntoIterator<Item = Column>,
    rows: impl Iterator<Item = PointRow<'a>>,
) -> Table {
    let columns: Vec<Column> = columns.into_iter().filter(|own| (own.is_shown)(run)).collect();
    let titles: Vec<&str> = columns.iter().map(|own| own.title).collect();
    let mut table = Table::new(caption, &titles, 0);
    for (own, shown) in columns.iter().zip(&mut table.columns) {
        shown.least = own.least;
    }
    for row in rows {
        let cell = |own: &Column| (own.cell)(&row).unwrap_or_else(|| "-".to_owned());
        table.push(columns.iter().map(cell).collect());
    }
    table
}

/// Returns a table with a row for each point that has these figures.
pub(super) fn of_points(
    caption: &str,
    run: &Run,
    columns: impl IntoIterator<Item = Column>,
    has_figures: fn(&Point) -> bool,
) -> Table {
    let points = run.points.iter().filter(|point| has_figures(point));
    table(caption, run, columns, points.map(PointRow::of))
}

fn time(point: &Point, of: fn(&Distribution) -> Option<f64>) -> Option<String> {
    point.operation_time.as_ref().and_then(of).map(us)
}

/// Returns whether some operations have only a mean.
pub(super) fn has_means(run: &Run) -> bool {
    run.points.iter().any(|point| point.operation_mean_us.is_some())
}

pub(super) const MEAN_LEAST: u8 = 4;

pub(super) const SIZE: Column = Column::new("size B", |p| Some(p.size_bytes.to_string()));
/// The depth of operations of which several are under way.
pub(super) const DEPTH: Column = Column::new("depth", |p| Some(p.depth.to_string()));
/// The depth, if another tool may not print it.
pub(super) const KNOWN_DEPTH: Column = Column::new("depth", |p| known(p.depth));
/// Times of operations.
pub(super) const MIN: Column = Column::new("min µs", |p| time(p, |d| Some(d.min_us))).least(13);
pub(super) const P50: Column = Column::new("p50 µs", |p| time(p, |d| Some(d.p50_us)));
pub(super) const P90: Column = Column::new("p90 µs", |p| time(p, |d| d.p90_us)).least(14);
pub(super) const P99: Column = Column::new("p99 µs", |p| time(p, |d| Some(d.p99_us)));
pub(super) const P999: Column = Column::new("p99.9 µs", |p| time(p, |d| d.p999_us));
pub(super) const MAX: Column = Column::new("max µs", |p| time(p, |d| Some(d.max_us)));
pub(super) const MEAN: Column =
    Column::new("mean µs", |p| p.operation_mean_us.map(us)).least(MEAN_LEAST);
pub(super) const LOST: Column = Column::new("lost", |p| Some(p.lost?.to_string()));
/// The distance of the best and the worst block.
pub(super) const SPREAD: Column = Column::new("spread %", |p| spread(p)).least(5);
/// Half of the 95 % interval.
pub(super) const DOUBT: Column = Column::new("± %", |p| doubt(p));
