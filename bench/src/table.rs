//! Ratios against what is wanted.

use serde_json::{Value, json};

use crate::block::{self, Block};
use crate::floor::Phase;

const COLUMNS: usize = 7;

/// How a figure is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wanted {
    /// The ratio to the reference must not be above this.
    RatioAtMost(f64),
    /// The ratio to the reference must not be below this.
    RatioAtLeast(f64),
    /// The figure itself must not be below this.
    AtLeast(f64),
    /// The ratio must not be farther from one than this.
    RatioWithin(f64),
}

/// One line of the table: a figure beside its reference, both as measured in every round.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) ours: Vec<Block>,
    pub(crate) reference_name: &'static str,
    pub(crate) reference: Vec<Block>,
    pub(crate) wanted: Wanted,
}

/// Middle value, or NaN without values: it fails every comparison and shows as such.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Row {
    /// A row without figures.
    pub(crate) const fn new(
        what: &'static str,
        unit: &'static str,
        reference_name: &'static str,
        wanted: Wanted,
    ) -> Self {
        Self { what, unit, ours: Vec::new(), reference_name, reference: Vec::new(), wanted }
    }

    /// The ratio of each round in which both were measured with the cores in the same place; none where a
    /// measurement is missing.
    fn ratios(&self) -> Vec<f64> {
        if self.ours.len() != self.reference.len() {
            return Vec::new();
        }
        let rounds = self.ours.iter().zip(&self.reference);
        let alike = rounds.filter(|(ours, reference)| {
            ours.phase == reference.phase && ours.phase != Phase::Changed
        });
        alike.map(|(ours, reference)| ours.figure / reference.figure).collect()
    }

    /// Medians of what may be compared; where nothing may, of what there is.
    fn medians(&self) -> [f64; 2] {
        let figures = |blocks: &[Block]| blocks.iter().map(|own| own.figure).collect();
        let both = block::comparable(&self.ours, &self.reference);
        let (ours, reference): (Vec<f64>, Vec<f64>) =
            both.unwrap_or_else(|| (figures(&self.ours), figures(&self.reference)));
        [median(&ours), median(&reference)]
    }

    /// Whether both sides were measured, but never with the cores in the same place: another round may tell
    /// more.
    pub(crate) fn is_apart(&self) -> bool {
        !self.ours.is_empty()
            && !self.reference.is_empty()
            && block::comparable(&self.ours, &self.reference).is_none()
    }

    /// Lowest and highest ratio of a round.
    fn spread(&self) -> String {
        let ratios = self.ratios();
        let low = ratios.iter().copied().reduce(f64::min);
        let high = ratios.iter().copied().reduce(f64::max);
        low.zip(high).map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.2}..{high:.2}"))
    }

    /// Of what may be compared; not a number where nothing may.
    fn ratio(&self) -> f64 {
        let [ours, reference] = self.medians();
        if self.is_apart() { f64::NAN } else { ours / reference }
    }

    /// Whether the wanted value is reached; never when a measurement failed.
    pub(crate) fn passes(&self) -> bool {
        match self.wanted {
            Wanted::RatioAtMost(limit) => self.ratio() <= limit,
            Wanted::RatioAtLeast(limit) => self.ratio() >= limit,
            Wanted::AtLeast(limit) => self.medians()[0] >= limit,
            Wanted::RatioWithin(limit) => (self.ratio() - 1.0).abs() <= limit,
        }
    }

    fn verdict(&self) -> &'static str {
        match (self.passes(), self.ours.is_empty()) {
            (true, _) => "pass",
            (false, true) => "no figure",
            (false, false) if self.is_apart() => "cores moved",
            (false, false) if matches!(self.wanted, Wanted::RatioWithin(_)) => "APART",
            (false, false) => "SHORT",
        }
    }

    fn cells(&self) -> [String; COLUMNS] {
        let (unit, [ours, reference]) = (self.unit, self.medians());
        let wanted = match self.wanted {
            Wanted::RatioAtMost(limit) => format!("<= {limit} x"),
            Wanted::RatioAtLeast(limit) => format!(">= {limit} x"),
            Wanted::AtLeast(limit) => format!(">= {limit} {unit}"),
            Wanted::RatioWithin(limit) => format!("within {:.0} %", limit * 100.0),
        };
        [
            self.what.to_owned(),
            figure(ours, unit),
            format!("{} {}", figure(reference, unit), self.reference_name),
            if self.ratio().is_nan() { "-".into() } else { format!("{:.2} x", self.ratio()) },
            self.spread(),
            wanted,
            self.verdict().to_owned(),
        ]
    }

    fn to_json(&self) -> Value {
        let figures = |blocks: &[Block]| -> Vec<f64> { blocks.iter().map(|b| b.figure).collect() };
        let cores =
            |blocks: &[Block]| -> Vec<&str> { blocks.iter().map(|b| b.phase.name()).collect() };
        json!({
            "what": self.what,
            "unit": self.unit,
            "ours": figures(&self.ours),
            "ours_cores": cores(&self.ours),
            "reference_name": self.reference_name,
            "reference": figures(&self.reference),
            "reference_cores": cores(&self.reference),
            "ratio": self.ratio(),
            "ratios": self.ratios(),
            "passes": self.passes(),
        })
    }
}

fn figure(value: f64, unit: &str) -> String {
    if value.is_nan() { "-".into() } else { format!("{value:.2} {unit}") }
}

/// The table as aligned text; medians over the rounds. `heads` are those of the two figures.
pub(crate) fn to_text([ours, reference]: [&str; 2], rows: &[Row]) -> String {
    let head = ["measure", ours, reference, "ratio", "of rounds", "wanted", "verdict"];
    let head = head.map(String::from);
    let cells: Vec<[String; COLUMNS]> =
        std::iter::once(head).chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let line = |row: &[String; COLUMNS]| {
        let padded = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let blocks = rows.iter().flat_map(|row| row.ours.iter().chain(&row.reference));
    cells.iter().map(line).chain([block::cores(&blocks) + "\n"]).collect()
}

/// All rounds of all rows.
pub(crate) fn to_json(rows: &[Row]) -> Value {
    json!({ "version": 1, "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: &[f64], wanted: Wanted) -> Row {
        let row = Row::new("latency", "us", "UDP", wanted);
        let ours = ours.iter().map(|figure| Block::at(*figure, Phase::Near)).collect();
        Row { ours, reference: vec![Block::at(2.0, Phase::Near)], ..row }
    }

    #[test]
    fn medians_are_judged() {
        assert!(row(&[9.0, 3.0, 1.0], Wanted::RatioAtMost(1.6)).passes());
        assert!(!row(&[4.0], Wanted::RatioAtMost(1.6)).passes());
        assert!(row(&[4.0], Wanted::RatioAtLeast(2.0)).passes());
        assert!(!row(&[4.0], Wanted::AtLeast(5.0)).passes());
        for (figure, verdict) in [(1.91, "pass"), (2.09, "pass"), (1.89, "APART"), (2.11, "APART")]
        {
            assert_eq!(row(&[figure], Wanted::RatioWithin(0.05)).verdict(), verdict, "{figure}");
        }
    }

    #[test]
    fn the_spread_is_that_of_rounds() {
        let mut row = row(&[1.0, 3.0], Wanted::RatioWithin(0.05));
        assert_eq!(row.spread(), "-");
        row.reference.push(Block::at(2.0, Phase::Near));
        assert_eq!(row.spread(), "0.50..1.50");
    }

    #[test]
    fn far_cores_are_not_held_against_near_ones() {
        let mut row = row(&[3.0], Wanted::RatioAtMost(1.6));
        row.reference = vec![Block::at(9.0, Phase::Far)];
        assert!(row.is_apart() && !row.passes() && row.ratios().is_empty());
        assert_eq!((row.verdict(), row.cells()[3].as_str()), ("cores moved", "-"));
        // The next round finds both near.
        row.ours.push(Block::at(3.2, Phase::Near));
        row.reference.push(Block::at(2.0, Phase::Near));
        assert!(!row.is_apart());
        assert_eq!((row.ratios(), row.verdict()), (vec![1.6], "pass"));
    }

    #[test]
    fn failed_measurement_never_passes() {
        for wanted in [Wanted::RatioAtMost(1.6), Wanted::RatioAtLeast(0.1), Wanted::AtLeast(0.0)] {
            assert_eq!(row(&[], wanted).verdict(), "no figure");
        }
    }

    #[test]
    fn columns_are_aligned() {
        let text = to_text(["ours", "theirs"], &[row(&[3.0], Wanted::RatioAtMost(1.6))]);
        let at = |line: &str, word: &str| line.find(word).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(at(lines[0], "verdict"), at(lines[1], "pass"));
    }
}
