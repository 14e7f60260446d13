//! A figure beside its reference, and what is wanted of it.

use report::{Interval, middle, middle_interval};

use crate::block::{self, Block, Comparable};
use crate::floor::Phase;

/// How a figure is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    /// The ratio to the reference must not be above this.
    RatioAtMost(f64),
    /// The ratio to the reference must not be below this.
    RatioAtLeast(f64),
    /// The figure itself must not be below this.
    AtLeast(f64),
    /// The ratio must not be farther from one than this: that of the rounds, each of which has both
    /// figures measured one right after the other.
    RatioWithin(f64),
    /// It is there to be known.
    Nothing,
}

/// A figure beside its reference, one line of the table: both as measured in every round.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// The heading it stands below.
    pub(crate) section: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) ours: Vec<Block>,
    /// Empty: there is nothing beside it.
    pub(crate) reference_name: &'static str,
    pub(crate) reference: Vec<Block>,
    pub(crate) wanted: Bound,
    /// What is aimed at beyond what must be, likewise a limit of the ratio or of the figure.
    pub(crate) aim: Option<f64>,
}

/// Medians of what may be compared, and how far figures are apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// Not a number where there is none.
    pub(crate) ours: f64,
    pub(crate) reference: f64,
    /// From the lowest to the highest, in parts of the median; `None` of a single one.
    pub(crate) ours_spread: Option<f64>,
    pub(crate) reference_spread: Option<f64>,
    /// Where the cores were; `None`: in different places.
    pub(crate) phase: Option<Phase>,
}

/// Middle value, or NaN without values: it fails every comparison and shows as such.
fn median(values: &[f64]) -> f64 {
    middle(values).unwrap_or(f64::NAN)
}

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().reduce(f64::min);
    low.zip(values.iter().copied().reduce(f64::max))
}

fn spread(values: &[f64]) -> Option<f64> {
    let (low, high) = range(values).filter(|_| values.len() > 1)?;
    Some((high - low) / median(values))
}

impl Comparison {
    /// A row without figures, section and aim.
    pub(crate) const fn new(
        what: &'static str,
        unit: &'static str,
        reference_name: &'static str,
        wanted: Bound,
    ) -> Self {
        Self {
            section: "",
            what,
            unit,
            ours: Vec::new(),
            reference_name,
            reference: Vec::new(),
            wanted,
            aim: None,
        }
    }

    /// The ratio of each round in which both were measured with the cores in the same place; none
    /// where a measurement is missing.
    pub(crate) fn ratios(&self) -> Vec<f64> {
        if self.ours.len() != self.reference.len() {
            return Vec::new();
        }
        let rounds = self.ours.iter().zip(&self.reference);
        let alike = rounds.filter(|(ours, reference)| {
            ours.phase == reference.phase && ours.phase != Phase::Changed
        });
        alike.map(|(ours, reference)| ours.figure / reference.figure).collect()
    }

    /// Lowest and highest ratio of a round, of two rounds or more.
    pub(crate) fn ratio_range(&self) -> Option<(f64, f64)> {
        range(&self.ratios()).filter(|_| self.ratios().len() > 1)
    }

    /// Where the middle of the ratios of rounds is, with 95 % confidence; all of them where there
    /// are five or fewer.
    pub(crate) fn ratio_interval(&self) -> Option<Interval> {
        middle_interval(&self.ratios())
    }

    /// Whether the rounds so far do not tell if the ratio is as close to one as it must be.
    pub(crate) fn is_undecided(&self) -> bool {
        let Bound::RatioWithin(limit) = self.wanted else { return false };
        let Some(Interval { low, high }) = self.ratio_interval() else { return true };
        let (lowest, highest) = (1.0 - limit, 1.0 + limit);
        let is_within = low >= lowest && high <= highest;
        let is_outside = low > highest || high < lowest;
        !is_within && !is_outside
    }

    /// What may be compared; without a reference what was measured in one phase.
    fn comparable(&self) -> Option<Comparable> {
        match self.reference.is_empty() {
            true => block::alone(&self.ours),
            false => block::comparable(&self.ours, &self.reference),
        }
    }

    /// Medians of what may be compared; where nothing may, of what there is.
    pub(crate) fn found(&self) -> Found {
        let figures = |blocks: &[Block]| -> Vec<f64> { blocks.iter().map(|b| b.figure).collect() };
        let (phase, ours, reference) = match self.comparable() {
            Some(Comparable { phase, ours, reference }) => (Some(phase), ours, reference),
            None => (None, figures(&self.ours), figures(&self.reference)),
        };
        Found {
            ours: median(&ours),
            reference: median(&reference),
            ours_spread: spread(&ours),
            reference_spread: spread(&reference),
            phase,
        }
    }

    /// Where the cores were: "near 3", "far 2/3" of that many blocks, "moved".
    pub(crate) fn cores(&self) -> String {
        match self.comparable() {
            Some(found) if found.ours.len() == self.ours.len() => {
                format!("{} {}", found.phase.short_name(), self.ours.len())
            }
            Some(found) => {
                format!("{} {}/{}", found.phase.short_name(), found.ours.len(), self.ours.len())
            }
            None if self.ours.is_empty() => String::new(),
            None => "moved".to_owned(),
        }
    }

    /// Whether both sides were measured, but never with the cores in the same place: another round
    /// may tell more.
    pub(crate) fn is_apart(&self) -> bool {
        !self.ours.is_empty()
            && !self.reference.is_empty()
            && block::comparable(&self.ours, &self.reference).is_none()
    }

    /// Whether there is something to set it beside.
    pub(crate) const fn has_ratio(&self) -> bool {
        !self.reference_name.is_empty()
    }

    /// Of what may be compared; not a number where nothing may.
    pub(crate) fn ratio(&self) -> f64 {
        if matches!(self.wanted, Bound::RatioWithin(_)) {
            return median(&self.ratios());
        }
        let found = self.found();
        if self.is_apart() { f64::NAN } else { found.ours / found.reference }
    }

    /// Whether what must be is reached; never when a measurement failed.
    pub(crate) fn passes(&self) -> bool {
        match self.wanted {
            Bound::RatioAtMost(limit) => self.ratio() <= limit,
            Bound::RatioAtLeast(limit) => self.ratio() >= limit,
            Bound::AtLeast(limit) => self.found().ours >= limit,
            Bound::RatioWithin(limit) => {
                (self.ratio() - 1.0).abs() <= limit && !self.is_undecided()
            }
            Bound::Nothing => !self.ours.is_empty(),
        }
    }

    fn reaches_aim(&self) -> bool {
        self.aim.is_some_and(|aim| match self.wanted {
            Bound::RatioAtMost(_) => self.ratio() <= aim,
            Bound::RatioAtLeast(_) => self.ratio() >= aim,
            Bound::AtLeast(_) => self.found().ours >= aim,
            Bound::RatioWithin(_) | Bound::Nothing => false,
        })
    }

    /// Whether what it is to be compared with could not be measured.
    fn is_without_reference(&self) -> bool {
        self.reference.is_empty() && !matches!(self.wanted, Bound::AtLeast(_))
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match (self.passes(), self.ours.is_empty()) {
            (true, _) if self.wanted == Bound::Nothing => "info",
            (true, _) if self.reaches_aim() => "aim",
            (true, _) => "pass",
            (false, true) => "none",
            (false, false) if self.is_apart() => "moved",
            (false, false) if self.is_without_reference() => "none",
            (false, false) if self.is_undecided() => "unsure",
            (false, false) if matches!(self.wanted, Bound::RatioWithin(_)) => "APART",
            (false, false) => "MISS",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: &[f64], wanted: Bound) -> Comparison {
        let row = Comparison::new("latency", "us", "UDP", wanted);
        let ours = ours.iter().map(|figure| Block::at(*figure, Phase::Near)).collect();
        Comparison { ours, reference: vec![Block::at(2.0, Phase::Near)], ..row }
    }

    #[test]
    fn medians_are_judged() {
        assert!(row(&[9.0, 3.0, 1.0], Bound::RatioAtMost(1.6)).passes());
        assert!(!row(&[4.0], Bound::RatioAtMost(1.6)).passes());
        assert!(row(&[4.0], Bound::RatioAtLeast(2.0)).passes());
        assert!(!row(&[4.0], Bound::AtLeast(5.0)).passes());
    }

    /// A row of these ratios, each of a round.
    fn rounds(ratios: &[f64]) -> Comparison {
        let row = row(ratios, Bound::RatioWithin(0.05));
        let reference = vec![Block::at(1.0, Phase::Near); ratios.len()];
        Comparison { reference, ..row }
    }

    #[test]
    fn rounds_decide_whether_two_tools_agree() {
        let verdict = |ratios: &[f64]| rounds(ratios).verdict();
        assert_eq!(verdict(&[0.96, 1.0, 1.04]), "pass");
        assert_eq!(verdict(&[0.91, 0.92, 0.94]), "APART");
        assert_eq!(verdict(&[1.06, 1.2, 1.3]), "APART");
        for undecided in [&[1.0][..], &[0.9, 1.0, 1.1], &[0.9, 0.92, 0.96]] {
            assert_eq!(verdict(undecided), "unsure", "{undecided:?}");
            assert!(rounds(undecided).is_undecided() && !rounds(undecided).passes());
        }
        // More rounds tell what a few with outliers do not.
        let few = [0.8, 1.0, 1.01, 0.99, 1.3];
        assert_eq!(
            (verdict(&few), verdict(&[few, [1.0; 5], [0.99; 5]].concat())),
            ("unsure", "pass")
        );
    }

    /// A round that is slow on both sides says nothing against either.
    #[test]
    fn ratios_are_those_of_rounds() {
        let mut row = rounds(&[1.0, 1.02, 4.0]);
        row.reference[2] = Block::at(4.0, Phase::Near);
        assert_eq!((row.ratio(), row.verdict()), (1.0, "pass"));
    }

    #[test]
    fn an_aim_is_beyond_what_must_be() {
        let verdict = |figure: f64, wanted, aim| {
            Comparison { aim: Some(aim), ..row(&[figure], wanted) }.verdict()
        };
        // The reference is 2.
        for (figure, expected) in [(2.2, "aim"), (2.6, "pass"), (3.0, "MISS")] {
            assert_eq!(verdict(figure, Bound::RatioAtMost(1.35), 1.2), expected, "{figure}");
        }
        for (figure, expected) in [(1.8, "aim"), (1.6, "pass"), (1.0, "MISS")] {
            assert_eq!(verdict(figure, Bound::RatioAtLeast(0.75), 0.85), expected, "{figure}");
        }
        for (figure, expected) in [(13.0, "aim"), (8.0, "pass"), (7.0, "MISS")] {
            assert_eq!(verdict(figure, Bound::AtLeast(7.5), 12.0), expected, "{figure}");
        }
        assert_eq!(verdict(1.0, Bound::Nothing, 0.1), "info");
    }

    #[test]
    fn spreads_are_of_what_is_compared() {
        let mut row = row(&[1.0, 3.0], Bound::RatioWithin(0.05));
        assert_eq!(row.ratio_range(), None);
        row.reference.push(Block::at(2.0, Phase::Near));
        assert_eq!(row.ratio_range(), Some((0.5, 1.5)));
        row.ours.push(Block::at(2.0, Phase::Near));
        row.ours.push(Block::at(90.0, Phase::Far));
        let found = row.found();
        assert_eq!((found.ours, found.ours_spread), (2.0, Some(1.0)));
        assert_eq!((found.reference_spread, row.cores().as_str()), (Some(0.0), "near 3/4"));
        assert_eq!(self::row(&[2.0], Bound::Nothing).found().ours_spread, None);
    }

    #[test]
    fn far_cores_are_not_held_against_near_ones() {
        let mut row = row(&[3.0], Bound::RatioAtMost(1.6));
        row.reference = vec![Block::at(9.0, Phase::Far)];
        assert!(row.is_apart() && !row.passes() && row.ratios().is_empty());
        assert_eq!((row.verdict(), row.cores().as_str()), ("moved", "moved"));
        assert!(row.ratio().is_nan());
        // The next round finds both near.
        row.ours.push(Block::at(3.2, Phase::Near));
        row.reference.push(Block::at(2.0, Phase::Near));
        assert!(!row.is_apart());
        assert_eq!((row.ratios(), row.verdict()), (vec![1.6], "pass"));
        assert_eq!(row.cores(), "near 2");
    }

    #[test]
    fn a_figure_alone_is_that_of_the_phase_it_was_measured_in_most() {
        let alone = Comparison::new("rate", "M/s", "", Bound::AtLeast(3.0));
        let ours = [(4.0, Phase::Near), (1.0, Phase::Far), (5.0, Phase::Near)];
        let ours = ours.map(|(figure, phase)| Block::at(figure, phase)).to_vec();
        let row = Comparison { ours, ..alone };
        assert_eq!((row.found().ours, row.verdict()), (5.0, "pass"));
        assert_eq!((row.cores().as_str(), row.is_apart()), ("near 2/3", false));
    }

    #[test]
    fn failed_measurement_never_passes() {
        for wanted in
            [Bound::RatioAtMost(1.6), Bound::RatioAtLeast(0.1), Bound::AtLeast(0.0), Bound::Nothing]
        {
            assert_eq!(row(&[], wanted).verdict(), "none");
        }
        let without = Comparison { reference: Vec::new(), ..row(&[2.0], Bound::RatioAtMost(1.6)) };
        assert_eq!(without.verdict(), "none", "nothing to compare it with");
    }
}
