//! A figure and where the cores were while it was measured.

use anyhow::Result;

use crate::floor::{Phase, round_trip_ns};

/// What was measured once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Block {
    pub(crate) figure: f64,
    pub(crate) phase: Phase,
    /// The lower of both looks at the cores, in nanoseconds.
    floor_ns: Option<f64>,
}

impl Block {
    /// A figure, with looks at the cores before and after it.
    pub(crate) fn of(measure: impl FnOnce() -> Result<f64>) -> Result<Self> {
        let before_ns = round_trip_ns();
        let figure = measure()?;
        let after_ns = round_trip_ns();
        let phase = Phase::between(before_ns, after_ns);
        let floor_ns = before_ns.zip(after_ns).map(|(before, after)| before.min(after));
        Ok(Self { figure, phase, floor_ns })
    }

    #[cfg(test)]
    pub(crate) const fn at(figure: f64, phase: Phase) -> Self {
        Self { figure, phase, floor_ns: Some(100.0) }
    }
}

/// Figures of two sides that may be compared.
#[derive(Debug, PartialEq)]
pub(crate) struct Comparable {
    /// Where the cores were.
    pub(crate) phase: Phase,
    pub(crate) ours: Vec<f64>,
    pub(crate) reference: Vec<f64>,
}

/// Figures of the phase in which both sides have most, of equally many the nearer; none that were
/// measured while the cores moved. `None`: they have no phase in common.
pub(crate) fn comparable(ours: &[Block], reference: &[Block]) -> Option<Comparable> {
    let both = |phase| Comparable {
        phase,
        ours: figures_of(ours, phase),
        reference: figures_of(reference, phase),
    };
    best(both, |own| own.ours.len().min(own.reference.len()))
}

/// Figures of one side in the phase in which it has most.
pub(crate) fn alone(blocks: &[Block]) -> Option<Comparable> {
    let one = |phase| Comparable { phase, ours: figures_of(blocks, phase), reference: Vec::new() };
    best(one, |own| own.ours.len())
}

fn figures_of(blocks: &[Block], phase: Phase) -> Vec<f64> {
    blocks.iter().filter(|own| own.phase == phase).map(|own| own.figure).collect()
}

fn best(
    of: impl Fn(Phase) -> Comparable,
    count: impl Fn(&Comparable) -> usize,
) -> Option<Comparable> {
    // The last of equally good ones is taken.
    let phases = [Phase::NotMeasured, Phase::Far, Phase::Near].map(of);
    phases.into_iter().max_by_key(&count).filter(|own| count(own) > 0)
}

/// Where the cores were: "cores near: 112 ns (30 blocks); far: 530 ns (2 blocks); moved during 1
/// block".
pub(crate) fn cores<'a>(blocks: &(impl Iterator<Item = &'a Block> + Clone)) -> String {
    let of = |phase: Phase| {
        let own = blocks.clone().filter(move |own| own.phase == phase);
        (own.clone().count(), own.filter_map(|own| own.floor_ns).reduce(f64::min))
    };
    let plural = |count: usize| if count == 1 { "block" } else { "blocks" };
    let mut words = Vec::new();
    for phase in [Phase::Near, Phase::Far] {
        if let (count, Some(floor_ns)) = of(phase) {
            words.push(format!("{}: {floor_ns:.0} ns ({count} {})", phase.name(), plural(count)));
        }
    }
    for (phase, what) in
        [(Phase::Changed, "moved during"), (Phase::NotMeasured, "not measured beside")]
    {
        let (count, _) = of(phase);
        if count > 0 {
            words.push(format!("{what} {count} {}", plural(count)));
        }
    }
    match words.len() {
        0 => "cores: nothing was measured".to_owned(),
        _ => format!("cores {}", words.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_figures_of_one_phase_are_compared() {
        let block = Block::at;
        let ours = [block(39.0, Phase::Near), block(14.0, Phase::Far), block(13.0, Phase::Far)];
        let near = [block(45.0, Phase::Near), block(44.0, Phase::Near), block(9.0, Phase::Changed)];
        let found = |phase, ours: &[f64], reference: &[f64]| {
            Some(Comparable { phase, ours: ours.to_vec(), reference: reference.to_vec() })
        };
        assert_eq!(comparable(&ours, &near), found(Phase::Near, &[39.0], &[45.0, 44.0]));
        let far = [block(15.0, Phase::Far), block(16.0, Phase::Far)];
        assert_eq!(comparable(&ours, &far), found(Phase::Far, &[14.0, 13.0], &[15.0, 16.0]));
        assert_eq!(comparable(&ours[..1], &far), None, "none in common");
        assert_eq!(comparable(&near[2..], &near[2..]), None, "cores that moved");
        let unknown = [block(1.0, Phase::NotMeasured)];
        assert_eq!(comparable(&unknown, &unknown), found(Phase::NotMeasured, &[1.0], &[1.0]));
        assert_eq!(alone(&ours), found(Phase::Far, &[14.0, 13.0], &[]));
        assert_eq!(alone(&near[2..]), None);
    }

    #[test]
    fn the_floor_is_named_with_its_phase() {
        let block = Block::at;
        let all = [block(1.0, Phase::Near), block(2.0, Phase::Near), block(3.0, Phase::Changed)];
        assert_eq!(cores(&all.iter()), "cores near: 100 ns (2 blocks); moved during 1 block");
        let none = [Block { floor_ns: None, ..block(1.0, Phase::NotMeasured) }];
        assert_eq!(cores(&none.iter()), "cores not measured beside 1 block");
    }
}
