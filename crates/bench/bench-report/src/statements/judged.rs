//! Verdicts on statements, derived from figures.

use report::significant;

use super::measured::{Figure, Measured, Quantity, Subject};
use crate::lessons::times;

/// Figures that differ by up to this factor count as the same: the spread of a busy machine.
const NEAR: f64 = 1.25;

/// The verdict on a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Partly,
    DoesNotHold,
    /// The figures are there, but may not be compared.
    Unknown,
}

impl Verdict {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Partly => "holds partly",
            Self::DoesNotHold => "does not hold",
            Self::Unknown => "cannot be told",
        }
    }

    /// Returns the verdict on a statement that is true at `places` of `all` places.
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

impl Judged {
    /// Returns the verdict on figures that were measured with the processors in different places.
    pub(super) fn apart(quantity: Quantity, subjects: [Subject; 2]) -> Self {
        let [first, second] = subjects.map(Subject::name);
        let quantity = quantity.name();
        let evidence = format!(
            "{quantity} of {first} and {second}: the cores were near for one and far for the other."
        );
        Self { verdict: Verdict::Unknown, evidence }
    }
}

/// Figures of two subjects at the same sizes, as far as they may be compared.
pub(super) enum Both {
    /// No size was measured for both.
    NotMeasured,
    /// The processors were elsewhere for one than for the other, at each size.
    Apart,
    At(Vec<(Figure, Figure)>),
}

impl Both {
    pub(super) fn of(first: &[Figure], second: &[Figure]) -> Self {
        let pair = |own: &Figure| {
            Some((*own, *second.iter().find(|other| other.size_bytes == own.size_bytes)?))
        };
        let all: Vec<(Figure, Figure)> = first.iter().filter_map(pair).collect();
        let is_empty = all.is_empty();
        let alike: Vec<_> = all.into_iter().filter(|(own, other)| !own.is_apart(other)).collect();
        match alike.is_empty() {
            true if is_empty => Self::NotMeasured,
            true => Self::Apart,
            false => Self::At(alike),
        }
    }
}

/// Two figures of the same place.
struct Pair {
    size_bytes: usize,
    first: f64,
    second: f64,
    /// The factor by which the first figure is better than the second.
    advantage: f64,
}

fn pairs(quantity: Quantity, both: Vec<(Figure, Figure)>) -> Vec<Pair> {
    let pair = |(Figure { size_bytes, value: first, .. }, second): (Figure, Figure)| {
        let second = second.value;
        let advantage = if quantity.is_time() { second / first } else { first / second };
        Pair { size_bytes, first, second, advantage }
    };
    both.into_iter().map(pair).collect()
}

/// Renders the pairs that tell most: "64 B 2.100 µs and 8.900 (4.24 times)".
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

/// Renders a size for people.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        0 => "no bytes".to_owned(),
        bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 65536 && bytes % 1024 == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

/// Judges whether the first subject is at least `times` as good as the second at all sizes at which
/// they may be compared.
pub(super) fn ahead(
    measured: &Measured<'_>,
    quantity: Quantity,
    subjects: [Subject; 2],
    sizes: std::ops::RangeInclusive<usize>,
    times: f64,
) -> Option<Judged> {
    let [mut own, theirs] = subjects.map(|subject| measured.all(quantity, subject));
    own.retain(|figure| sizes.contains(&figure.size_bytes));
    let pairs = match Both::of(&own, &theirs) {
        Both::NotMeasured => return None,
        Both::Apart => return Some(Judged::apart(quantity, subjects)),
        Both::At(both) => pairs(quantity, both),
    };
    let true_at = pairs.iter().filter(|pair| pair.advantage >= times).count();
    Some(Judged {
        verdict: Verdict::of(true_at, pairs.len()),
        evidence: evidence(quantity, subjects, &pairs),
    })
}

/// Judges whether the first subject is as good as the second at all sizes, or nearly.
pub(super) fn no_worse(
    measured: &Measured<'_>,
    quantity: Quantity,
    subjects: [Subject; 2],
    sizes: std::ops::RangeInclusive<usize>,
) -> Option<Judged> {
    ahead(measured, quantity, subjects, sizes, 1.0 / NEAR)
}
