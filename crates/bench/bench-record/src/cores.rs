//! The distance of the two processors of a measurement.
//!
//! A virtual machine's processors are moved between physical ones while programs run. When both are
//! on one complex of cores, a cache line comes back within some 110 ns; when they are on two,
//! within some 530 ns; and the time of every exchange between two processes changes with it
//! (docs/PERF.md). So the figures of blocks measured near and far are not comparable.

use serde::{Deserialize, Serialize};

use crate::Point;

/// The round trip below which the processors are near, in ns: between that of near processors (110)
/// and that of far ones (530).
const NEAR_NS: f64 = 250.0;
/// The ratio below which two round trips are alike.
const ALIKE: f64 = 1.6;

/// The distance of two processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The processors are close to each other.
    Near,
    Far,
    /// The processors were moved while something was measured.
    Changed,
}

impl Phase {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::Changed => "changed",
        }
    }

    /// Returns the distance by the times of two looks, in ns.
    pub fn between(before_ns: f64, after_ns: f64) -> Self {
        let (low, high) = (before_ns.min(after_ns), before_ns.max(after_ns));
        match (low < NEAR_NS, high < NEAR_NS) {
            (true, true) => Self::Near,
            (false, false) => Self::Far,
            // Two looks on either side of the border may still be alike.
            _ if high < low * ALIKE => Self::of(low),
            _ => Self::Changed,
        }
    }

    fn of(round_trip_ns: f64) -> Self {
        if round_trip_ns < NEAR_NS { Self::Near } else { Self::Far }
    }
}

/// The distance of the processors beside a block, or beside the blocks of a point that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cores {
    pub phase: Phase,
    /// The shortest round trip between the processors beside the block, in ns.
    pub round_trip_ns: f64,
    /// The figures of blocks that do not count, because the processors were elsewhere or were
    /// moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<f64>,
}

impl Cores {
    pub fn between(before_ns: f64, after_ns: f64) -> Self {
        let phase = Phase::between(before_ns, after_ns);
        Self { phase, round_trip_ns: before_ns.min(after_ns), left_out: Vec::new() }
    }

    /// Returns the distance in words: "near 112 ns".
    pub fn words(&self) -> String {
        format!("{} {:.0} ns", self.phase.name(), self.round_trip_ns)
    }
}

/// Returns the distance of the processors in the blocks that count: near, if a third of the blocks
/// with one known distance were near, otherwise far. `None`: all blocks count, because the distance
/// was not known, or changed, in most of them.
pub fn counting<'a>(blocks: impl Iterator<Item = &'a Option<Cores>>) -> Option<Phase> {
    let (mut near, mut far, mut others) = (0, 0, 0);
    for cores in blocks {
        match cores.as_ref().map(|cores| cores.phase) {
            Some(Phase::Near) => near += 1,
            Some(Phase::Far) => far += 1,
            Some(Phase::Changed) | None => others += 1,
        }
    }
    match near + far {
        known if known < others || known == 0 => None,
        // A single block has no interval: two or more of the other blocks say more.
        known if near * 3 >= known && (near > 1 || far <= 1) => Some(Phase::Near),
        _ => Some(Phase::Far),
    }
}

/// Returns the distance that the blocks have in common.
pub fn common(blocks: impl Iterator<Item = Phase>) -> Option<Phase> {
    blocks.reduce(|one, other| if one == other { one } else { Phase::Changed })
}

/// Returns true if the processors were known to have different distances, or to have been moved on
/// either side: then the figures cannot be compared.
pub fn are_apart(one: Option<Phase>, other: Option<Phase>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other || one == Phase::Changed)
}

/// Returns in words the distances of the processors at all these points: "cores near: 112 ns (12
/// points); far: 530 ns (2 points); ...".
pub fn words<'a>(points: impl Iterator<Item = &'a Point> + Clone) -> String {
    let known = points.filter_map(|point| point.cores.as_ref());
    let mut words = Vec::new();
    for phase in [Phase::Near, Phase::Far, Phase::Changed] {
        let own = known.clone().filter(|cores| cores.phase == phase);
        let count = own.clone().count();
        let Some(floor_ns) = own.map(|cores| cores.round_trip_ns).reduce(f64::min) else {
            continue;
        };
        let plural = if count == 1 { "point" } else { "points" };
        words.push(format!("{}: {floor_ns:.0} ns ({count} {plural})", phase.name()));
    }
    let left_out: usize = known.map(|cores| cores.left_out.len()).sum();
    if left_out > 0 {
        let (plural, verb) = if left_out == 1 { ("block", "does") } else { ("blocks", "do") };
        words.push(format!("{left_out} {plural} with the cores elsewhere {verb} not count"));
    }
    match words.len() {
        0 => "cores: not measured".to_owned(),
        _ => format!("cores {}", words.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bandwidth;

    #[test]
    fn blocks_of_one_phase_count_and_the_floor_is_told() {
        let block = |figure: f64, before_ns, after_ns| Point {
            bandwidth: Some(Bandwidth::new(1, (figure * 1e9 / 8.0) as u64, 1.0)),
            cores: Some(Cores::between(before_ns, after_ns)),
            ..Point::new(8192, 256)
        };
        let (near, far, moved) = ((112.0, 115.0), (530.0, 528.0), (112.0, 530.0));
        let of = |blocks: &[(f64, (f64, f64))]| {
            let blocks = blocks.iter().map(|&(figure, (a, b))| block(figure, a, b)).collect();
            Point::middle(blocks).expect("a point")
        };
        // Two of five blocks are near: those count.
        let point = of(&[(40.0, near), (14.0, far), (39.0, near), (13.0, far), (25.0, moved)]);
        assert_eq!(point.blocks, [40.0, 39.0]);
        let cores = point.cores.clone().expect("known");
        assert_eq!((cores.phase, cores.left_out), (Phase::Near, vec![14.0, 13.0, 25.0]));
        assert_eq!(
            words([&point].into_iter()),
            "cores near: 112 ns (1 point); 3 blocks with the cores elsewhere do not count"
        );
        let point = of(&[(40.0, near), (14.0, far), (15.0, far), (20.0, moved)]);
        assert_eq!(point.blocks, [14.0, 15.0], "one near block alone has no interval");
        // One of five blocks is near: this machine was far.
        let point = of(&[(40.0, near), (14.0, far), (15.0, far), (13.0, far), (25.0, moved)]);
        assert_eq!((point.blocks.len(), point.figure()), (3, Some(14.0)));
        // The processors were always moved: all blocks count, and the words say so.
        let point = of(&[(40.0, moved), (20.0, moved)]);
        assert_eq!(
            (point.blocks.len(), point.cores.map(|own| own.phase)),
            (2, Some(Phase::Changed))
        );
        // On a busy machine most looks have no result: all blocks count, and no distance is
        // claimed.
        let unknown = |figure| Point { cores: None, ..block(figure, 1.0, 1.0) };
        let blocks = vec![block(40.0, 112.0, 113.0), block(14.0, 530.0, 530.0)];
        let blocks = [blocks, vec![unknown(20.0), unknown(21.0), unknown(22.0)]].concat();
        assert_eq!(Point::middle(blocks).expect("a point").blocks.len(), 5);
        // The distance was not measured.
        let bare = Point { cores: None, ..block(5.0, 1.0, 1.0) };
        let point = Point::middle(vec![bare.clone(), bare]).expect("a point");
        assert_eq!((point.blocks.len(), point.cores.is_none()), (2, true));
        assert_eq!(words([&point].into_iter()), "cores: not measured");
    }

    #[test]
    fn older_records_have_no_phase_and_are_read() {
        let text = serde_json::to_string(&Point::new(64, 1)).expect("JSON");
        assert!(!text.contains("cores"), "{text}");
        let point: Point = serde_json::from_str(&text).expect("a point");
        assert_eq!(point.cores, None);
        let cores = Some(Cores::between(530.0, 540.0));
        let text = serde_json::to_string(&Point { cores: cores.clone(), ..point }).expect("JSON");
        assert!(text.contains("\"phase\":\"far\""), "{text}");
        assert_eq!(serde_json::from_str::<Point>(&text).expect("a point").cores, cores);
    }

    #[test]
    fn only_places_that_are_known_are_apart() {
        let (near, far) = (Some(Phase::Near), Some(Phase::Far));
        assert!(are_apart(near, far) && are_apart(far, Some(Phase::Changed)));
        assert!(are_apart(Some(Phase::Changed), Some(Phase::Changed)), "two places in each");
        assert!(!are_apart(near, near) && !are_apart(near, None) && !are_apart(None, None));
    }

    #[test]
    fn near_and_far_are_told_apart() {
        for (before, after, phase) in [
            (112.0, 118.0, Phase::Near),
            (530.0, 540.0, Phase::Far),
            (112.0, 530.0, Phase::Changed),
            (530.0, 112.0, Phase::Changed),
            // The machine has only one distance, which lies at the border.
            (240.0, 260.0, Phase::Near),
            (260.0, 240.0, Phase::Near),
        ] {
            assert_eq!(Phase::between(before, after), phase, "{before} {after}");
        }
    }
}
