//! The paths toward one peer: their delays, their losses, and which to take next (SRD-8.1).

mod delays;

use crate::rng::Rng;
use crate::{Config, Instant, PathId, PathStats};
use delays::Delays;
use std::collections::VecDeque;

const PENALTY_MAX: u8 = 15;
/// A quarantine grows to at most this multiple of its first length.
const QUARANTINE_GROWTH_MAX: u32 = 512;
/// Losses that send a path into quarantine while the whole connection is losing packets.
const STRIKES_CONGESTED: u8 = 3;
/// A path is used less once it is slower than the median by this share of the scale
/// ([`PathTable::sample`]).
const SLOW_FROM: f64 = 0.1;
/// A path that is slower by this further share is avoided for certain.
const SLOW_RANGE: f64 = 0.5;

#[derive(Clone, Debug)]
struct Path {
    quarantined_until: Instant,
    /// Length of the current quarantine as a multiple of the first.
    growth: u32,
    rtt_ns: u32,
    tx_packets: u32,
    lost_packets: u32,
    penalty: u8,
    strikes: u8,
    /// A probe that may end the quarantine is in flight.
    probing: bool,
}

impl Path {
    const NEW: Self = Self {
        quarantined_until: Instant::ZERO,
        growth: 0,
        rtt_ns: 0,
        tx_packets: 0,
        lost_packets: 0,
        penalty: 0,
        strikes: 0,
        probing: false,
    };

    fn is_quarantined(&self) -> bool {
        self.growth > 0
    }
}

/// The path that was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) path: PathId,
    /// The path comes out of quarantine: send a single packet.
    pub(crate) probing: bool,
}

#[derive(Debug, Default)]
pub(crate) struct PathTable {
    paths: Vec<Path>,
    /// Paths that proved good lately, to be used again first.
    recycled: VecDeque<u16>,
    round: Round,
    delays: Delays,
}

/// Round-robin order that is shuffled in every round.
#[derive(Debug, Default)]
struct Round {
    next: u16,
    xor: u16,
}

impl Round {
    fn begin(&mut self, len: u16, rng: &mut Rng) {
        self.next = 0;
        self.xor = rng.below(u64::from(len.next_power_of_two())) as u16;
    }

    fn step(&mut self, len: u16, rng: &mut Rng) -> u16 {
        loop {
            if self.next >= len.next_power_of_two() {
                self.begin(len, rng);
            }
            let path = self.next ^ self.xor;
            self.next += 1;
            if path < len {
                return path;
            }
        }
    }
}

impl PathTable {
    /// Selects a path: a recycled one, otherwise the next one in the round that is not penalised;
    /// never `avoid` while there is another.
    pub(crate) fn select(
        &mut self,
        now: Instant,
        avoid: Option<PathId>,
        config: &Config,
        rng: &mut Rng,
    ) -> Choice {
        let len = config.paths.clamp(1, 256);
        if self.paths.is_empty() {
            self.paths = vec![Path::NEW; usize::from(len)];
        }
        if len == 1 {
            return Choice { path: PathId(0), probing: false };
        }
        let avoid = avoid.map_or(u16::MAX, |path| path.0);
        while let Some(path) = self.recycled.pop_front() {
            if path != avoid && !self.paths[usize::from(path)].is_quarantined() {
                return Choice { path: PathId(path), probing: false };
            }
        }
        let mut fallback = None;
        for _ in 0..2 * len {
            let index = self.round.step(len, rng);
            let path = &mut self.paths[usize::from(index)];
            if index == avoid {
                continue;
            }
            if path.is_quarantined() {
                if path.quarantined_until > now {
                    continue;
                }
                // The answer may not report the time of this path: then another packet probes.
                path.quarantined_until = now.plus_ns(config.quarantine_ns * u64::from(path.growth));
                path.probing = true;
                return Choice { path: PathId(index), probing: true };
            }
            if path.penalty == 0 {
                return Choice { path: PathId(index), probing: false };
            }
            path.penalty -= 1;
            fallback = fallback.or(Some(index));
        }
        let path = fallback.unwrap_or_else(|| self.round.step(len, rng));
        Choice { path: PathId(path), probing: false }
    }

    /// Starts a new round, because any path that proved good may be dead by now.
    pub(crate) fn begin_round(&mut self, rng: &mut Rng) {
        self.recycled.clear();
        self.round.begin(self.paths.len() as u16, rng);
    }

    #[inline]
    pub(crate) fn sent_on(&mut self, path: PathId) {
        if let Some(path) = self.paths.get_mut(usize::from(path.0)) {
            path.tx_packets = path.tx_packets.saturating_add(1);
        }
    }

    /// Adds a round-trip sample of a path and returns the median queueing delay of the connection.
    /// `scale_ns` is the scale on which a path counts as slow.
    pub(crate) fn sample(
        &mut self,
        now: Instant,
        path: PathId,
        rtt_ns: u64,
        base_ns: u64,
        scale_ns: u64,
        rng: &mut Rng,
    ) -> u64 {
        let delay_ns = rtt_ns.saturating_sub(base_ns);
        let median_ns = self.delays.add(now, delay_ns, base_ns);
        let limit = self.paths.len();
        let Some(entry) = self.paths.get_mut(usize::from(path.0)) else { return median_ns };
        entry.rtt_ns = u32::try_from(rtt_ns).unwrap_or(u32::MAX);
        entry.strikes = 0;
        entry.growth = 0;
        entry.probing = false;
        let slower = delay_ns as f64 - median_ns as f64;
        let scale = scale_ns.max(1) as f64;
        let excess = slower - SLOW_FROM * scale;
        if excess > 0.0 && rng.chance(excess / (SLOW_RANGE * scale)) {
            entry.penalty = (entry.penalty + 1).min(PENALTY_MAX);
        } else {
            entry.penalty = entry.penalty.saturating_sub(1);
            if self.recycled.len() >= limit {
                self.recycled.pop_front();
            }
            self.recycled.push_back(path.0);
        }
        median_ns
    }

    /// Records a loss on this path; `congested` when losses are connection-wide (SRD-8.2).
    pub(crate) fn lost_on(&mut self, now: Instant, path: PathId, congested: bool, config: &Config) {
        let quarantined = self.paths.iter().filter(|path| path.is_quarantined()).count();
        let may = (quarantined + 1) * 2 <= self.paths.len();
        let Some(path) = self.paths.get_mut(usize::from(path.0)) else { return };
        path.lost_packets = path.lost_packets.saturating_add(1);
        path.strikes = path.strikes.saturating_add(1);
        path.penalty = (path.penalty + if congested { 1 } else { 4 }).min(PENALTY_MAX);
        if path.is_quarantined() {
            if path.quarantined_until > now && !path.probing {
                return;
            }
            path.growth = (path.growth * 2).min(QUARANTINE_GROWTH_MAX);
        } else if may && path.strikes >= if congested { STRIKES_CONGESTED } else { 1 } {
            path.growth = 1;
        } else {
            return;
        }
        path.probing = false;
        path.quarantined_until = now.plus_ns(config.quarantine_ns * u64::from(path.growth));
    }

    /// Returns whether more than a quarter of the paths is in quarantine.
    pub(crate) fn is_impaired(&self) -> bool {
        let quarantined = self.paths.iter().filter(|path| path.is_quarantined()).count();
        quarantined * 4 > self.paths.len()
    }

    pub(crate) fn stats(&self, path: PathId) -> Option<PathStats> {
        self.paths.get(usize::from(path.0)).map(|path| PathStats {
            rtt_ns: u64::from(path.rtt_ns),
            tx_packets: u64::from(path.tx_packets),
            lost_packets: u64::from(path.lost_packets),
            quarantined: path.is_quarantined(),
        })
    }

    /// Frees memory that only an active sender needs: after a second no sample is young.
    pub(crate) fn shrink(&mut self) {
        self.delays.shrink();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.paths.capacity() * size_of::<Path>()
            + self.recycled.capacity() * 2
            + self.delays.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config { paths: 4, quarantine_ns: 1000, ..Config::socket() }
    }

    #[test]
    fn every_path_gets_its_turn() {
        let (mut table, mut rng, config) = (PathTable::default(), Rng::new(1), config());
        let mut seen = [0; 4];
        for _ in 0..400 {
            let choice = table.select(Instant::ZERO, None, &config, &mut rng);
            seen[usize::from(choice.path.0)] += 1;
        }
        assert_eq!(seen, [100; 4]);
    }

    #[test]
    fn a_loss_sends_the_path_into_quarantine_until_one_probe_returns() {
        let (mut table, mut rng, config) = (PathTable::default(), Rng::new(1), config());
        let t = Instant::from_ns(5000);
        table.select(t, None, &config, &mut rng);
        table.lost_on(t, PathId(2), false, &config);
        let mut picks = |table: &mut PathTable, at: Instant| {
            (0..40).filter(|_| table.select(at, None, &config, &mut rng).path == PathId(2)).count()
        };
        assert_eq!(picks(&mut table, t), 0);
        assert_eq!(picks(&mut table, t.plus_ns(1001)), 1);
        assert_eq!(picks(&mut table, t.plus_ns(2002)), 1, "the first one was not answered");
        table.lost_on(t.plus_ns(2003), PathId(2), false, &config);
        assert_eq!(picks(&mut table, t.plus_ns(4002)), 0, "twice as long");
        assert_eq!(picks(&mut table, t.plus_ns(4003)), 1);
        table.sample(t, PathId(2), 100, 100, 100, &mut Rng::new(2));
        assert!(picks(&mut table, t.plus_ns(1001)) > 5);
    }

    #[test]
    fn half_of_the_paths_stay_open_and_a_repetition_changes_path() {
        let (mut table, mut rng, config) = (PathTable::default(), Rng::new(1), config());
        let t = Instant::from_ns(1);
        table.select(t, None, &config, &mut rng);
        (0..4).for_each(|path| table.lost_on(t, PathId(path), false, &config));
        let open = (0..4).filter(|&p| table.stats(PathId(p)).is_some_and(|s| !s.quarantined));
        assert_eq!(open.count(), 2);
        for _ in 0..100 {
            assert_ne!(table.select(t, Some(PathId(3)), &config, &mut rng).path, PathId(3));
        }
    }

    #[test]
    fn slow_paths_are_used_less() {
        let (mut table, mut rng, config) = (PathTable::default(), Rng::new(1), config());
        let mut seen = [0; 4];
        for i in 0..4000 {
            let t = Instant::from_ns(i * 1000);
            let path = table.select(t, None, &config, &mut rng).path;
            seen[usize::from(path.0)] += 1;
            let rtt_ns = if path == PathId(1) { 20_000 } else { 10_000 };
            table.sample(t, path, rtt_ns, 10_000, 10_000, &mut rng);
        }
        assert!(seen[1] * 4 < seen[0], "{seen:?}");
    }
}
