//! The figures of two points, side by side, each with its verdict.

use report::{Change, Interval, ratio_interval, significant};

use super::doubt::{Doubt, is_one_measurement};
use super::figure::Figure;
use super::pairs::Pair;

/// A line of the table.
pub(super) struct ComparedFigure {
    pub(super) point: String,
    pub(super) figure: Figure,
    pub(super) base: f64,
    /// The value of the second point; `None` if it is missing.
    pub(super) new: Option<f64>,
    /// The interval of the ratio, if both points have blocks of this figure.
    pub(super) ratio: Option<Interval>,
    pub(super) noise_percent: f64,
    pub(super) change: Change,
    /// The reason, if any, why nobody can tell, whatever the figures are.
    pub(super) doubt: Option<Doubt>,
}

impl ComparedFigure {
    /// Returns the verdict, with its reason if the figures do not show it.
    pub(super) fn verdict(&self) -> String {
        let word = self.change.word();
        self.doubt.map_or_else(|| word.to_owned(), |doubt| format!("{word}: {}", doubt.words()))
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let (unit, _) = self.figure.units()[0];
        let mut cells = vec![self.point.clone(), format!("{} {unit}", self.figure.name())];
        let Some(new) = self.new else {
            cells.extend(["MISSING".to_owned(), significant(self.base)]);
            return cells;
        };
        let ends = |ratio: Interval| format!("{:.3} to {:.3}", ratio.low, ratio.high);
        cells.extend([
            self.verdict(),
            significant(self.base),
            significant(new),
            format!("{:.3}", new / self.base),
            self.ratio.map_or_else(|| "-".to_owned(), ends),
            format!("{:.1} %", self.noise_percent),
        ]);
        cells
    }
}

/// Returns the judged figures of a point; empty if it has none, or none that can be judged.
pub(super) fn rows_of(pair: &Pair<'_>, threshold_percent: Option<f64>) -> Vec<ComparedFigure> {
    let &Pair { ref label, base, new, .. } = pair;
    let judged = Figure::judged(base, new).into_iter();
    let of_points = Doubt::of(pair);
    let row = |figure: Figure| {
        let value = figure.compared(base)?;
        let other = new.and_then(|point| figure.compared(point));
        let noise_percent = threshold_percent.unwrap_or_else(|| figure.noise_percent());
        let blocks = figure.blocks(base);
        let others = new.filter(|new| !is_one_measurement(base, new));
        let others = others.map_or(&[][..], |new| figure.blocks(new));
        let ratio = ratio_interval(blocks, others);
        let of_values = || Doubt::of_values(figure, value, other?);
        let doubt = of_points.or_else(of_values);
        let change = match other {
            None => Change::Regressed,
            Some(_) if doubt.is_some() => Change::Inconclusive,
            Some(other) => Change::of(value, other, figure.better(), noise_percent, ratio),
        };
        let is_change = matches!(change, Change::Improved | Change::Regressed);
        let too_few = Doubt::of_blocks(figure, blocks, others).filter(|_| is_change);
        let too_few = too_few.filter(|_| other.is_some());
        let change = if too_few.is_some() { Change::Inconclusive } else { change };
        let doubt = doubt.or(too_few);
        Some(ComparedFigure {
            point: label.clone(),
            figure,
            base: value,
            new: other,
            ratio,
            noise_percent,
            change,
            doubt,
        })
    };
    judged.filter_map(row).collect()
}
