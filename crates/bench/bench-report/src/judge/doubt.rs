//! The reasons why nobody can tell whether a figure changed, and what is said about them.

use bench_record::cores::{Phase, are_apart};
use bench_record::wire::Wire;
use bench_record::{Point, Results};
use report::{Change, are_enough, significant};

use super::figure::Figure;
use super::pairs::Pair;
use super::rows::ComparedFigure;

/// The greatest ratio of two loads that count as the same: two runs of one program differ by as
/// much.
const LOAD_MAX: f64 = 1.2;

/// The reason why two points do not measure one thing, or why a figure is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Doubt {
    /// The processors were elsewhere or moved, so that the machine was not the same.
    Cores(Phase, Phase),
    /// Memory and a network have nothing in common.
    Wires(Wire, Wire),
    /// The streams beside a latency carried different loads, in Gbit/s.
    Loads(f64, f64),
    /// The requests of open loops came at different rates, per second.
    Offered(f64, f64),
    /// A time is zero, which is impossible.
    NoTime,
    /// The difference of tails from block to block is not known for both points.
    NoTails,
    /// The blocks are so few that all of them may be on one side of the middle.
    FewBlocks(usize),
}

impl Doubt {
    /// Returns the doubt about a pair of points. What is not known raises no doubt.
    pub(super) fn of(pair: &Pair<'_>) -> Option<Self> {
        let wires = pair.wires.0.zip(pair.wires.1).filter(|(first, second)| first != second);
        let (base, new) = (pair.base, pair.new);
        // A file that is compared with itself raises no doubt.
        let others = new.filter(|new| base.cores != new.cores || !is_one_measurement(base, new));
        let phases = base.phase().zip(others.and_then(Point::phase));
        let phases = phases.filter(|(first, second)| are_apart(Some(*first), Some(*second)));
        let other = |of: fn(&Point) -> Option<f64>| {
            let both = of(base).zip(new.and_then(of));
            both.filter(|(one, other)| one.max(*other) > one.min(*other) * LOAD_MAX)
        };
        let loads = other(|point| Some(point.load?.gbit_per_s));
        let loads = loads.map(|(first, second)| Self::Loads(first, second));
        let offered = other(|point| Some(point.open_loop?.offered_per_s));
        let offered = offered.map(|(first, second)| Self::Offered(first, second));
        let of_wires = wires.map(|(first, second)| Self::Wires(first, second));
        let of_cores = phases.map(|(first, second)| Self::Cores(first, second));
        of_wires.or(of_cores).or(loads).or(offered)
    }

    /// Returns the doubt about two values of a figure.
    pub(super) fn of_values(figure: Figure, base: f64, new: f64) -> Option<Self> {
        (figure.is_time() && (base <= 0.0 || new <= 0.0)).then_some(Self::NoTime)
    }

    /// Returns the doubt whether the blocks of a figure can show a change.
    pub(super) fn of_blocks(figure: Figure, base: &[f64], new: &[f64]) -> Option<Self> {
        // A single block has no spread.
        let is_unknown = base.len().min(new.len()) < 2;
        if is_unknown {
            return (figure == Figure::P99).then_some(Self::NoTails);
        }
        (!are_enough(base, new)).then_some(Self::FewBlocks(base.len().min(new.len())))
    }

    pub(super) fn words(self) -> String {
        match self {
            Self::Cores(first, second) => format!("cores {} and {}", first.name(), second.name()),
            Self::Wires(first, second) => format!("wires {} and {}", first.name(), second.name()),
            Self::Loads(first, second) => {
                format!("loads of {} and {} Gbit/s", significant(first), significant(second))
            }
            Self::Offered(first, second) => {
                format!("{} and {} requests/s came", significant(first), significant(second))
            }
            Self::NoTime => "no time".to_owned(),
            Self::FewBlocks(count) => format!("of {count} blocks"),
            Self::NoTails => "no p99 of each block".to_owned(),
        }
    }

    /// Returns what the doubt means, and what would help.
    const fn advice(self) -> &'static str {
        match self {
            Self::Cores(..) => {
                "the cores were elsewhere in one file than in the other, or moved. Measure both \
                 sides again with the cores in the same places (--cpu, --server-cpu)"
            }
            Self::Wires(..) => {
                "one file went over another wire than the other. Measure both sides over one \
                 (softefa run --wire)"
            }
            Self::Loads(..) | Self::Offered(..) => {
                "one file was measured under another load than the other. Measure both sides again, \
                 longer (-t) or at a rate that both reach (--rate)"
            }
            Self::FewBlocks(_) => {
                "fewer than 4 blocks on a side are far apart by chance once in ten times. Measure \
                 both sides again, in blocks (--blocks 5 or more)"
            }
            Self::NoTails => {
                "a p99 of one block says little, and nobody knows how far those of others differ. \
                 Measure both sides again, in blocks (--blocks 5 or more)"
            }
            Self::NoTime => "a time of zero or less is none. Look where it comes from",
        }
    }
}

/// Returns whether two points are one measurement, which those with the same blocks are.
pub(super) fn is_one_measurement(base: &Point, new: &Point) -> bool {
    !base.blocks.is_empty() && base.blocks == new.blocks
}

/// Names the machines of the two files, if they differ.
pub(super) fn different_machines(base: &Results, new: &Results) -> Option<String> {
    let (first, second) = base.measured_on().zip(new.measured_on())?;
    (first != second).then(|| {
        format!("OTHER MACHINE: the first file was measured on {first}, the second on {second}\n")
    })
}

/// Names the wires over which the two files were measured, if they differ.
pub(super) fn different_wires(pairs: &[Pair<'_>]) -> Option<String> {
    let mut own = pairs.iter().filter(|pair| pair.new.is_some()).filter_map(Doubt::of);
    let wires = own.find_map(|doubt| match doubt {
        Doubt::Wires(first, second) => Some((first.name(), second.name())),
        _ => None,
    });
    let (first, second) = wires?;
    Some(format!("OTHER WIRE: the first file went over {first}, the second over {second}\n"))
}

/// The advice if intervals of few data are too wide.
const TOO_WIDE: &str = "their intervals hold both no change and one beyond the noise. Measure both \
    sides again with more data (--runs 10)";

/// Describes why nobody can tell, and what would help.
pub(super) fn why_inconclusive(rows: &[ComparedFigure]) -> String {
    let own = rows.iter().filter(|row| row.change == Change::Inconclusive);
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for row in own {
        let why = row.doubt.map_or(TOO_WIDE, Doubt::advice);
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    let said =
        reasons.iter().map(|(why, count)| format!("{count} figures are inconclusive: {why}"));
    said.collect::<Vec<_>>().join("; ")
}
