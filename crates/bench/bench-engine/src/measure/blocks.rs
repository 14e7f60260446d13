//! The order of measurements: every point once per pass, in an order that is shuffled for each
//! pass, so that a disturbance of the machine hits one block of some points and not all blocks of
//! one.

use std::time::{Duration, Instant};

use bench_record::failure::Failure;
use report::{middle, middle_interval};

use super::Random;

/// The condition that ends the repetitions of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// The repetitions end after this many blocks of each point.
    Blocks(usize),
    /// The repetitions end when the interval of each point is narrow enough, or after a time.
    Interval {
        /// The greatest distance of either end of the interval from its middle, in percent of the
        /// middle.
        percent: f64,
        /// The time after which the repetitions end in any case.
        at_most: Duration,
    },
}

/// The number of blocks before an interval is believed.
const BLOCKS_MIN: usize = 5;

impl Until {
    /// Parses "ci=2%,max=60s".
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}`: write ci=2%,max=60s (max may be left out)");
        let (mut percent, mut at_most) = (None, Duration::from_secs(60));
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let number = |unit: &str| {
                let number = value.trim().strip_suffix(unit)?.parse::<f64>().ok()?;
                (number.is_finite() && number > 0.0 && number <= 86_400.0).then_some(number)
            };
            match name.trim() {
                "ci" => percent = Some(number("%").ok_or_else(wrong)?),
                "max" => at_most = Duration::from_secs_f64(number("s").ok_or_else(wrong)?),
                _ => return Err(wrong()),
            }
        }
        percent.map(|percent| Self::Interval { percent, at_most }).ok_or_else(wrong)
    }

    /// Returns the condition that the options ask for: an interval or a number of blocks. By
    /// default a number of iterations means one block, and a time as many blocks as an interval
    /// takes.
    pub fn of<N>(
        until: Option<Self>,
        blocks: Option<usize>,
        iterations: Option<N>,
    ) -> Result<Self, Failure> {
        match (until, blocks, iterations) {
            (Some(until), _, _) => Ok(until),
            (None, Some(0), _) => Err(Failure::Usage("--blocks 0: give 1 or more".to_owned())),
            (None, Some(blocks), _) => Ok(Self::Blocks(blocks)),
            (None, None, Some(_)) => Ok(Self::Blocks(1)),
            (None, None, None) => Ok(Self::Blocks(BLOCKS_MIN)),
        }
    }

    /// The number of blocks of each point that are certain.
    pub const fn blocks(self) -> usize {
        match self {
            Self::Blocks(count) => count,
            Self::Interval { .. } => BLOCKS_MIN,
        }
    }
}

/// The order of blocks, which tells the next point to measure.
#[derive(Debug)]
pub struct Blocks {
    until: Until,
    random: Random,
    started: Instant,
    /// The figures of each point so far.
    figures: Vec<Vec<f64>>,
    /// The points that are left of this pass, last first.
    pass: Vec<usize>,
    passes: usize,
}

impl Blocks {
    /// Orders the blocks of this many points; `seed` determines the order.
    #[must_use]
    pub fn new(points: usize, until: Until, seed: u64) -> Self {
        Self {
            until,
            random: Random::new(seed),
            started: Instant::now(),
            figures: vec![Vec::new(); points],
            pass: Vec::new(),
            passes: 0,
        }
    }

    /// Returns the point to measure now; `None` if all is done.
    pub(crate) fn next(&mut self) -> Option<usize> {
        if self.pass.is_empty() {
            self.pass = self.unfinished();
            self.random.shuffle(&mut self.pass);
            self.passes += 1;
        }
        self.pass.pop()
    }

    /// Notes the figure of a measurement of the point.
    pub fn note(&mut self, point: usize, figure: f64) {
        self.figures[point].push(figure);
    }

    /// Returns true if the present measurement exceeds the number of blocks that was certain.
    pub fn extra(&self) -> bool {
        self.passes > self.until.blocks()
    }

    fn unfinished(&self) -> Vec<usize> {
        let all = 0..self.figures.len();
        match self.until {
            Until::Blocks(count) => all.filter(|_| self.passes < count).collect(),
            Until::Interval { .. } if self.passes < BLOCKS_MIN => all.collect(),
            Until::Interval { at_most, .. } if self.started.elapsed() >= at_most => Vec::new(),
            Until::Interval { percent, .. } => {
                all.filter(|&point| self.doubt_percent(point) > percent).collect()
            }
        }
    }

    /// Returns the greatest possible error of the middle, in percent.
    fn doubt_percent(&self, point: usize) -> f64 {
        let figures = &self.figures[point];
        let (middle, interval) = (middle(figures), middle_interval(figures));
        let doubt = middle.zip(interval).map(|(middle, own)| own.half_width_percent(middle));
        doubt.unwrap_or(f64::INFINITY)
    }

    /// Returns the number of points whose interval is wider than was asked for.
    pub fn doubtful(&self) -> usize {
        match self.until {
            Until::Blocks(_) => 0,
            Until::Interval { percent, .. } => {
                (0..self.figures.len()).filter(|&p| self.doubt_percent(p) > percent).count()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pass_holds_every_point_once_in_another_order() {
        let mut blocks = Blocks::new(20, Until::Blocks(3), 5);
        let order: Vec<usize> = std::iter::from_fn(|| blocks.next()).collect();
        assert_eq!(order.len(), 60);
        let passes: Vec<&[usize]> = order.chunks(20).collect();
        for pass in &passes {
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..20).collect::<Vec<_>>());
        }
        assert_ne!(passes[0], passes[1]);
    }

    #[test]
    fn only_doubtful_points_are_measured_on() {
        let until = Until::parse("ci=5%,max=3600s").expect("a rule");
        let mut blocks = Blocks::new(2, until, 5);
        let mut counts = [0_usize; 2];
        while let Some(point) = blocks.next() {
            counts[point] += 1;
            // The first point is steady, the second one calms down after thirty blocks.
            let noisy = point == 1 && counts[1] < 30 && counts[1] % 2 == 0;
            blocks.note(point, if noisy { 200.0 } else { 100.0 });
            assert!(counts[1] < 10_000, "never ends");
        }
        assert_eq!(counts[0], BLOCKS_MIN);
        assert!(counts[1] > 30, "{counts:?}");
        assert!(blocks.extra());
        assert_eq!(blocks.doubtful(), 0);
    }

    #[test]
    fn time_ends_what_never_settles() {
        let until = Until::Interval { percent: 0.1, at_most: Duration::ZERO };
        let mut blocks = Blocks::new(1, until, 5);
        let mut count = 0;
        while let Some(point) = blocks.next() {
            count += 1;
            blocks.note(point, f64::from(count % 2) + 1.0);
        }
        assert_eq!((count, blocks.doubtful()), (5, 1));
    }

    #[test]
    fn rules_are_parsed() {
        let rule = Until::parse("ci=2%,max=60s");
        let at_most = Duration::from_secs(60);
        assert_eq!(rule, Ok(Until::Interval { percent: 2.0, at_most }));
        assert_eq!(Until::parse("ci=2%"), rule);
        for bad in ["", "ci=2", "max=5s", "ci=-1%", "ci=2%,max=0s", "ci=2%,mix=5s", "2%"] {
            assert!(Until::parse(bad).is_err_and(|e| e.contains("ci=2%,max=60s")), "{bad}");
        }
    }
}
