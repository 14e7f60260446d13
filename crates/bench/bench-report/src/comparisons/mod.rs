//! The comparisons of a plan: which rounds may be compared, and whether the required bounds are
//! reached.

mod rounds;
mod table;

use bench_record::comparison::{Block, Bound, Comparison};
use bench_record::cores::Phase;
use report::{Interval, middle, middle_interval};

use self::rounds::Comparable;
pub(crate) use self::table::section_of;
pub use self::table::text;

/// The least number of rounds that tell where the middle is: the range of two holds it once in two
/// times.
const ROUNDS_MIN: usize = 3;

/// The middles of comparable figures, and the spread of each side.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Not a number if there is none.
    ours: f64,
    reference: f64,
    /// The range from the lowest to the highest, as a share of the middle; `None` for a single
    /// figure.
    ours_spread: Option<f64>,
    /// The same of the reference.
    reference_spread: Option<f64>,
}

/// A comparison, judged.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a>(pub &'a Comparison);

/// Returns the middle, or not a number without values, which fails every comparison and is shown as
/// such.
fn median(values: &[f64]) -> f64 {
    middle(values).unwrap_or(f64::NAN)
}

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().reduce(f64::min);
    low.zip(values.iter().copied().reduce(f64::max)).filter(|_| values.len() > 1)
}

fn spread(values: &[f64]) -> Option<f64> {
    range(values).map(|(low, high)| (high - low) / median(values))
}

fn figures(blocks: &[Block]) -> Vec<f64> {
    blocks.iter().map(|block| block.figure).collect()
}

impl Judged<'_> {
    /// Returns the ratio of each round in which both were measured with the processors in the same
    /// place.
    fn ratios(self) -> Vec<f64> {
        let of_round = |ours: &Block| {
            let other = self.0.reference.iter().find(|other| other.round == ours.round)?;
            let is_alike = ours.phase == other.phase && ours.phase != Some(Phase::Changed);
            is_alike.then_some(ours.figure / other.figure)
        };
        self.0.ours.iter().filter_map(of_round).collect()
    }

    /// Returns the 95 % confidence interval of the middle of the rounds' ratios; the range of all
    /// ratios if there are five or fewer.
    fn ratio_interval(self) -> Option<Interval> {
        middle_interval(&self.ratios())
    }

    /// Returns true if the rounds so far do not tell whether the ratio is as close to one as it
    /// must be.
    #[must_use]
    pub fn is_undecided(self) -> bool {
        let Bound::RatioWithin(limit) = self.0.bound else { return false };
        if self.ratios().len() < ROUNDS_MIN {
            return true;
        }
        let Some(Interval { low, high }) = self.ratio_interval() else { return true };
        let (lowest, highest) = (1.0 - limit, 1.0 + limit);
        let is_within = low >= lowest && high <= highest;
        let is_outside = low > highest || high < lowest;
        !is_within && !is_outside
    }

    /// Returns the figures that may be compared; without a reference, those measured in one place.
    fn comparable(self) -> Option<Comparable> {
        match self.0.reference.is_empty() {
            true => rounds::alone(&self.0.ours),
            false => rounds::comparable(&self.0.ours, &self.0.reference),
        }
    }

    /// Returns the middles of what may be compared; if nothing may be, those of all figures.
    fn found(self) -> Found {
        let (ours, reference) = match self.comparable() {
            Some(Comparable { ours, reference, .. }) => (ours, reference),
            None => (figures(&self.0.ours), figures(&self.0.reference)),
        };
        Found {
            ours: median(&ours),
            reference: median(&reference),
            ours_spread: spread(&ours),
            reference_spread: spread(&reference),
        }
    }

    /// Renders the places of the processors: "near 3", "far 2/3" of that many rounds, "moved".
    fn cores(self) -> String {
        let all = self.0.ours.len();
        match self.comparable() {
            Some(found) => {
                let phase = found.phase.map_or("n/a", Phase::name);
                let of = if found.ours.len() == all { String::new() } else { format!("/{all}") };
                format!("{phase} {}{of}", found.ours.len())
            }
            None if all == 0 => String::new(),
            None => "moved".to_owned(),
        }
    }

    /// Returns true if both sides were measured, but never with the processors in the same place:
    /// another round may tell more.
    #[must_use]
    pub fn is_apart(self) -> bool {
        let is_measured = !self.0.ours.is_empty() && !self.0.reference.is_empty();
        is_measured && rounds::comparable(&self.0.ours, &self.0.reference).is_none()
    }

    /// Returns the ratio of what may be compared; not a number if nothing may be.
    fn ratio(self) -> f64 {
        if matches!(self.0.bound, Bound::RatioWithin(_)) {
            return median(&self.ratios());
        }
        let found = self.found();
        if self.is_apart() { f64::NAN } else { found.ours / found.reference }
    }

    /// Returns true if the bound is reached; never if a measurement failed.
    #[must_use]
    pub fn passes(self) -> bool {
        match self.0.bound {
            Bound::RatioAtMost(limit) => self.ratio() <= limit,
            Bound::RatioAtLeast(limit) => self.ratio() >= limit,
            Bound::AtLeast(limit) => self.found().ours >= limit,
            Bound::RatioWithin(limit) => {
                (self.ratio() - 1.0).abs() <= limit && !self.is_undecided()
            }
            Bound::Nothing => !self.0.ours.is_empty(),
        }
    }

    fn reaches_aim(self) -> bool {
        self.0.aim.is_some_and(|aim| match self.0.bound {
            Bound::RatioAtMost(_) => self.ratio() <= aim,
            Bound::RatioAtLeast(_) => self.ratio() >= aim,
            Bound::AtLeast(_) => self.found().ours >= aim,
            Bound::RatioWithin(_) | Bound::Nothing => false,
        })
    }

    /// Returns true if the reference of a ratio could not be measured.
    fn is_without_reference(self) -> bool {
        self.0.reference.is_empty() && !matches!(self.0.bound, Bound::AtLeast(_) | Bound::Nothing)
    }

    /// Returns the verdict in a word.
    fn verdict(self) -> &'static str {
        match (self.passes(), self.0.ours.is_empty()) {
            (true, _) if self.0.bound == Bound::Nothing => "info",
            (true, _) if self.reaches_aim() => "aim",
            (true, _) => "pass",
            (false, true) => "none",
            (false, false) if self.is_apart() => "moved",
            (false, false) if self.is_without_reference() => "none",
            (false, false) if self.is_undecided() => "unsure",
            (false, false) if matches!(self.0.bound, Bound::RatioWithin(_)) => "APART",
            (false, false) => "MISS",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use bench_record::comparison::Figure;

    use super::*;

    pub(crate) fn blocks(figures: &[f64]) -> Vec<Block> {
        let block = |(round, figure): (usize, &f64)| Block {
            round,
            figure: *figure,
            phase: Some(Phase::Near),
        };
        figures.iter().enumerate().map(block).collect()
    }

    pub(crate) fn row(ours: &[f64], reference: &[f64], bound: Bound) -> Comparison {
        Comparison {
            section: String::new(),
            what: "latency".to_owned(),
            figure: Figure::Median,
            ours: blocks(ours),
            beside: "bare UDP".to_owned(),
            reference: blocks(reference),
            bound,
            aim: None,
        }
    }

    fn verdict(ours: &[f64], reference: &[f64], bound: Bound) -> &'static str {
        Judged(&row(ours, reference, bound)).verdict()
    }

    #[test]
    fn medians_are_judged() {
        for (ours, bound, expected) in [
            (&[9.0, 3.0, 1.0][..], Bound::RatioAtMost(1.6), "pass"),
            (&[4.0], Bound::RatioAtMost(1.6), "MISS"),
            (&[4.0], Bound::RatioAtLeast(2.0), "pass"),
            (&[4.0], Bound::AtLeast(5.0), "MISS"),
            (&[4.0], Bound::Nothing, "info"),
        ] {
            assert_eq!(verdict(ours, &[2.0], bound), expected, "{ours:?} {bound:?}");
        }
    }

    #[test]
    fn rounds_decide_whether_two_tools_agree() {
        let agree =
            |ratios: &[f64]| verdict(ratios, &vec![1.0; ratios.len()], Bound::RatioWithin(0.05));
        assert_eq!(agree(&[0.96, 1.0, 1.04]), "pass");
        assert_eq!(agree(&[0.91, 0.92, 0.94]), "APART");
        assert_eq!(agree(&[1.06, 1.2, 1.3]), "APART");
        for undecided in [&[1.0][..], &[1.0, 1.01], &[0.9, 1.0, 1.1], &[0.9, 0.92, 0.96]] {
            assert_eq!(agree(undecided), "unsure", "{undecided:?}");
        }
        // More rounds tell what a few with outliers do not.
        let few = [0.8, 1.0, 1.01, 0.99, 1.3];
        let many = [few, [1.0; 5], [0.99; 5]].concat();
        assert_eq!((agree(&few), agree(&many)), ("unsure", "pass"));
    }

    /// A round that is slow on both sides says nothing against either.
    #[test]
    fn ratios_are_those_of_rounds() {
        let mut own = row(&[1.0, 1.02, 4.0], &[1.0, 1.0, 4.0], Bound::RatioWithin(0.05));
        assert_eq!((Judged(&own).ratio(), Judged(&own).verdict()), (1.0, "pass"));
        // A round without its other side is left out, wherever it stands.
        own.reference.remove(1);
        assert_eq!(Judged(&own).ratios(), [1.0, 1.0]);
    }

    #[test]
    fn an_aim_is_beyond_what_must_be() {
        let aimed = |figure: f64, bound, aim| {
            let own = Comparison { aim: Some(aim), ..row(&[figure], &[2.0], bound) };
            Judged(&own).verdict()
        };
        for (figure, expected) in [(2.2, "aim"), (2.6, "pass"), (3.0, "MISS")] {
            assert_eq!(aimed(figure, Bound::RatioAtMost(1.35), 1.2), expected);
        }
        for (figure, expected) in [(9.0, "aim"), (6.0, "pass"), (4.0, "MISS")] {
            assert_eq!(aimed(figure, Bound::AtLeast(5.0), 8.0), expected);
        }
    }

    #[test]
    fn what_failed_never_passes() {
        for bound in [Bound::RatioAtMost(9.0), Bound::AtLeast(0.0), Bound::Nothing] {
            assert_eq!(verdict(&[], &[2.0], bound), "none", "{bound:?}");
        }
        assert_eq!(verdict(&[2.0], &[], Bound::RatioAtMost(9.0)), "none");
        // What stands beside it is only shown.
        assert_eq!(verdict(&[2.0], &[], Bound::AtLeast(1.0)), "pass");
    }

    #[test]
    fn what_was_measured_elsewhere_is_not_compared() {
        let mut own = row(&[1.0], &[1.0], Bound::RatioAtMost(2.0));
        own.reference[0].phase = Some(Phase::Far);
        assert!(Judged(&own).is_apart());
        assert_eq!((Judged(&own).verdict(), Judged(&own).cores()), ("moved", "moved".to_owned()));
    }
}
