//! Why two points are of no one machine, or two files of none, and what is said of that.

use bench_record::cores::{Phase, are_apart};
use bench_record::wire::Wire;
use bench_record::{Point, Results};

use super::pairs::Pair;
use super::rows::ComparedFigure;
use report::Change;

/// What was elsewhere in one file than in the other: then it is no one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Apart {
    Cores(Phase, Phase),
    /// Memory and a network have nothing in common.
    Wires(Wire, Wire),
}

impl Apart {
    /// Says nothing of what nobody knows.
    pub(super) fn of(pair: &Pair<'_>) -> Option<Self> {
        let wires = pair.wires.0.zip(pair.wires.1).filter(|(first, second)| first != second);
        let (base, new) = (pair.base, pair.new);
        // Of a file and itself there is nothing to doubt.
        let others = new.filter(|new| base.cores != new.cores || !is_one_measurement(base, new));
        let phases = base.phase().zip(others.and_then(Point::phase));
        let phases = phases.filter(|(first, second)| are_apart(Some(*first), Some(*second)));
        let of_wires = wires.map(|(first, second)| Self::Wires(first, second));
        of_wires.or_else(|| phases.map(|(first, second)| Self::Cores(first, second)))
    }

    pub(super) fn words(self) -> String {
        match self {
            Self::Cores(first, second) => format!("cores {} and {}", first.name(), second.name()),
            Self::Wires(first, second) => format!("wires {} and {}", first.name(), second.name()),
        }
    }
}

/// The same blocks are the same measurement.
pub(super) fn is_one_measurement(base: &Point, new: &Point) -> bool {
    !base.blocks.is_empty() && base.blocks == new.blocks
}

/// Says of which machines the files are, where those are two.
pub(super) fn different_machines(base: &Results, new: &Results) -> Option<String> {
    let (first, second) = base.measured_on().zip(new.measured_on())?;
    (first != second).then(|| {
        format!("OTHER MACHINE: the first file was measured on {first}, the second on {second}\n")
    })
}

/// Says over which wires the files were measured, where those are two.
pub(super) fn different_wires(pairs: &[Pair<'_>]) -> Option<String> {
    let mut own = pairs.iter().filter(|pair| pair.new.is_some()).filter_map(Apart::of);
    let wires = own.find_map(|apart| match apart {
        Apart::Wires(first, second) => Some((first.name(), second.name())),
        Apart::Cores(..) => None,
    });
    let (first, second) = wires?;
    Some(format!("OTHER WIRE: the first file went over {first}, the second over {second}\n"))
}

/// Why nobody can tell, and what would help.
pub(super) fn why_inconclusive(rows: &[ComparedFigure]) -> String {
    let own = || rows.iter().filter(|row| row.change == Change::Inconclusive);
    let because = |is_so: fn(Option<Apart>) -> bool| own().filter(|row| is_so(row.apart)).count();
    let reasons = [
        (
            because(|apart| apart.is_none()),
            "their intervals hold both no change and one beyond the noise. Measure both sides \
             again with more data (--runs 10)",
        ),
        (
            because(|apart| matches!(apart, Some(Apart::Cores(..)))),
            "the cores were elsewhere in one file than in the other, or moved. Measure both sides again with \
             the cores in the same places (--cpu, --server-cpu)",
        ),
        (
            because(|apart| matches!(apart, Some(Apart::Wires(..)))),
            "one file went over another wire than the other. Measure both sides over one (softefa \
             run --wire)",
        ),
    ];
    let said = reasons.iter().filter(|(count, _)| *count > 0);
    let said = said.map(|(count, why)| format!("{count} figures are inconclusive: {why}"));
    said.collect::<Vec<_>>().join("; ")
}
