//! The selection of rounds of two sides that may be compared: those with the processors in one
//! place.

use bench_record::comparison::Block;
use bench_record::cores::Phase;

/// Figures of two sides that may be compared.
#[derive(Debug, PartialEq)]
pub(super) struct Comparable {
    /// The place of the processors; `None` if it was not measured.
    pub(super) phase: Option<Phase>,
    pub(super) ours: Vec<f64>,
    pub(super) reference: Vec<f64>,
}

/// Returns the figures of the place in which both sides have most rounds (of equally many, the
/// nearer place), without those measured while the processors moved. Returns `None` if the sides
/// have no place in common.
pub(super) fn comparable(ours: &[Block], reference: &[Block]) -> Option<Comparable> {
    let both = |phase| Comparable {
        phase,
        ours: figures_of(ours, phase),
        reference: figures_of(reference, phase),
    };
    best(both, |own| own.ours.len().min(own.reference.len()))
}

/// Returns the figures of one side in the place in which it has most.
pub(super) fn alone(blocks: &[Block]) -> Option<Comparable> {
    let one = |phase| Comparable { phase, ours: figures_of(blocks, phase), reference: Vec::new() };
    best(one, |own| own.ours.len())
}

fn figures_of(blocks: &[Block], phase: Option<Phase>) -> Vec<f64> {
    blocks.iter().filter(|own| own.phase == phase).map(|own| own.figure).collect()
}

fn best(
    of: impl Fn(Option<Phase>) -> Comparable,
    count: impl Fn(&Comparable) -> usize,
) -> Option<Comparable> {
    // The last of equally good ones is taken.
    let phases = [None, Some(Phase::Far), Some(Phase::Near)].map(of);
    phases.into_iter().max_by_key(&count).filter(|own| count(own) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_figures_of_one_place_are_compared() {
        let block = |figure, phase| Block { round: 0, figure, phase };
        let [near, far, moved] = [Phase::Near, Phase::Far, Phase::Changed].map(Some);
        let ours = [block(39.0, near), block(14.0, far), block(13.0, far)];
        let others = [block(45.0, near), block(44.0, near), block(9.0, moved)];
        let found = |phase, ours: &[f64], reference: &[f64]| {
            Some(Comparable { phase, ours: ours.to_vec(), reference: reference.to_vec() })
        };
        assert_eq!(comparable(&ours, &others), found(near, &[39.0], &[45.0, 44.0]));
        let far_ones = [block(15.0, far), block(16.0, far)];
        assert_eq!(comparable(&ours, &far_ones), found(far, &[14.0, 13.0], &[15.0, 16.0]));
        assert_eq!(comparable(&ours[..1], &far_ones), None, "none in common");
        assert_eq!(comparable(&others[2..], &others[2..]), None, "processors that moved");
        let unknown = [block(1.0, None)];
        assert_eq!(comparable(&unknown, &unknown), found(None, &[1.0], &[1.0]));
        assert_eq!(alone(&ours), found(far, &[14.0, 13.0], &[]));
        assert_eq!(alone(&others[2..]), None);
    }
}
