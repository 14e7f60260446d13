//! Verdicts, and how figures become one.

use report::significant;

use super::measured::{Measured, Quantity, Subject};
use crate::lessons::times;

/// Figures this near to each other are taken for the same: the spread of a busy machine.
const NEAR: f64 = 1.25;

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Partly,
    DoesNotHold,
}

impl Verdict {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Partly => "holds partly",
            Self::DoesNotHold => "does not hold",
        }
    }

    /// By how many of all places a statement is true at.
    pub(super) const fn of(places: usize, all: usize) -> Self {
        match places {
            0 => Self::DoesNotHold,
            some if some == all => Self::Holds,
            _ => Self::Partly,
        }
    }
}

/// A verdict and the figures behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) evidence: String,
}

/// Two figures of the same place.
struct Pair {
    size_bytes: usize,
    first: f64,
    second: f64,
    /// How many times as good the first is.
    advantage: f64,
}

fn pairs(
    measured: &Measured<'_>,
    quantity: Quantity,
    [first, second]: [Subject; 2],
    sizes: &std::ops::RangeInclusive<usize>,
) -> Vec<Pair> {
    let own = measured.all(quantity, first).into_iter();
    let theirs = measured.all(quantity, second);
    let both = own.filter(|(size, _)| sizes.contains(size)).filter_map(|(size_bytes, first)| {
        let second = theirs.iter().find(|(size, _)| *size == size_bytes)?.1;
        let advantage = if quantity.is_time() { second / first } else { first / second };
        Some(Pair { size_bytes, first, second, advantage })
    });
    both.collect()
}

/// "64 B 2.1 µs and 8.9 µs (4.2 times)", of the places that tell most.
fn evidence(quantity: Quantity, subjects: [Subject; 2], pairs: &[Pair]) -> String {
    let unit = quantity.unit();
    let of = |pair: &Pair| {
        let (first, second) = (significant(pair.first), significant(pair.second));
        let times = times(pair.advantage);
        format!("{} {first} {unit} and {second} ({times} times)", size(pair.size_bytes))
    };
    let mut shown: Vec<usize> = vec![0, pairs.len() - 1];
    let by = |one: &(usize, &Pair), other: &(usize, &Pair)| {
        one.1.advantage.total_cmp(&other.1.advantage)
    };
    shown.extend(pairs.iter().enumerate().min_by(by).map(|(index, _)| index));
    shown.sort_unstable();
    shown.dedup();
    let words: Vec<String> = shown.into_iter().map(|index| of(&pairs[index])).collect();
    let [first, second] = subjects.map(Subject::name);
    format!("{} of {first} and {second}: {}.", quantity.name(), words.join("; "))
}

/// A size for people.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        0 => "no bytes".to_owned(),
        bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 65536 && bytes % 1024 == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

/// The first is at least `times` as good as the second at all of the sizes.
pub(super) fn ahead(
    measured: &Measured<'_>,
    quantity: Quantity,
    subjects: [Subject; 2],
    sizes: std::ops::RangeInclusive<usize>,
    times: f64,
) -> Option<Judged> {
    let pairs = pairs(measured, quantity, subjects, &sizes);
    let true_at = pairs.iter().filter(|pair| pair.advantage >= times).count();
    (!pairs.is_empty()).then(|| Judged {
        verdict: Verdict::of(true_at, pairs.len()),
        evidence: evidence(quantity, subjects, &pairs),
    })
}

/// The first is as good as the second at all of the sizes, or nearly.
pub(super) fn no_worse(
    measured: &Measured<'_>,
    quantity: Quantity,
    subjects: [Subject; 2],
    sizes: std::ops::RangeInclusive<usize>,
) -> Option<Judged> {
    ahead(measured, quantity, subjects, sizes, 1.0 / NEAR)
}
