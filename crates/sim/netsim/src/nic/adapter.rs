//! The adapter: one loop that takes what waits, works through it, pauses, and begins again.
//!
//! A round takes everything that waited when it began. Packets of one queue pair are worked on one
//! after the other, those of different queue pairs in parallel, and a shared part of the work is
//! done one packet after the other. What a round received is acknowledged at its end, once per
//! queue pair; completions are written at its end, too. So the more there is to do, the longer the
//! rounds are, the more travels together, and the longer everything waits.

use super::profile::{PerPacket, Profile};
use crate::id::PairId;
use crate::rng::Rng;
use crate::time::Time;

/// Something an adapter has to do for a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) pair: PairId,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Send a packet with this payload.
    Send { bytes: u32 },
    /// Take a packet with this payload from the network.
    Receive { bytes: u32 },
    /// Complete packets that were acknowledged together.
    Complete { packets: u32 },
}

/// A result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The last byte of a packet left on the link.
    Sent { bytes: u32 },
    /// A packet is in the host's memory and the program can see it.
    Received,
    /// Packets are to be acknowledged.
    Acknowledge { packets: u32 },
    /// The program can see that packets were acknowledged.
    Completed { packets: u32 },
}

/// An outcome, with the time at which it shows and its queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) at: Time,
    pub(super) pair: PairId,
    pub(super) outcome: Outcome,
}

/// A queue pair within the current round.
#[derive(Clone, Copy, Debug, Default)]
struct Visit {
    /// Round that it belongs to.
    round: u64,
    /// Work done for it since the round began, in picoseconds.
    busy_ps: u64,
    received: u32,
    completed: u32,
}

#[derive(Debug, Default)]
pub(super) struct Adapter {
    waiting: Vec<Work>,
    /// Work of the current round; kept for its memory.
    batch: Vec<Work>,
    visits: Vec<Visit>,
    /// Queue pairs of the current round in the order of their first work.
    visited: Vec<PairId>,
    round: u64,
    /// Whether a round is scheduled.
    awake: bool,
    /// Time at which each lane of the link will be idle.
    lanes_free: Vec<Time>,
    /// Time at which the way into the host's memory will be idle.
    memory_free: Time,
}

impl Adapter {
    /// Adds work. Returns the time of the round that has to be scheduled for it, if none is.
    pub(super) fn add(
        &mut self,
        now: Time,
        work: Work,
        profile: &Profile,
        rng: &mut Rng,
    ) -> Option<Time> {
        self.waiting.push(work);
        if std::mem::replace(&mut self.awake, true) {
            return None;
        }
        Some(now.plus_ps((profile.adapter.wake_ns.ps_f64() * rng.unit()) as u64))
    }

    /// Runs the round that begins now. Returns the time of the next one, if there was anything to
    /// do.
    pub(super) fn run_round(
        &mut self,
        now: Time,
        profile: &Profile,
        rng: &mut Rng,
        effects: &mut Vec<Effect>,
    ) -> Option<Time> {
        if self.waiting.is_empty() {
            self.awake = false;
            return None;
        }
        self.round += 1;
        self.visited.clear();
        let mut batch = std::mem::replace(&mut self.waiting, std::mem::take(&mut self.batch));
        let (mut shared_ps, mut end_ps) = (0, 0);
        for work in batch.drain(..) {
            let ready_ps = self.work(now, work, &mut shared_ps, profile, rng, effects);
            end_ps = end_ps.max(ready_ps);
        }
        self.batch = batch;
        let end = now.plus_ps(end_ps);
        self.finish(end, profile.adapter.acknowledged_max, effects);
        let random = profile.adapter.pause_random;
        let pause = 1.0 - random + random * rng.exponential();
        Some(end.plus_ps((profile.adapter.pause_ns.ps_f64() * pause) as u64))
    }

    /// Does one piece of work. Returns the picoseconds from the beginning of the round to its end.
    fn work(
        &mut self,
        now: Time,
        Work { pair, kind }: Work,
        shared_ps: &mut u64,
        profile: &Profile,
        rng: &mut Rng,
        effects: &mut Vec<Effect>,
    ) -> u64 {
        let costs = &profile.adapter;
        let visit = &mut self.visits[pair.index()];
        if visit.round != self.round {
            *visit = Visit { round: self.round, ..Visit::default() };
            self.visited.push(pair);
            *shared_ps += costs.visit_ns.ps();
        }
        *shared_ps += cost_ps(&costs.shared, kind);
        visit.busy_ps += cost_ps(&costs.queue_pair, kind);
        let ready_ps = visit.busy_ps.max(*shared_ps);
        let ready = now.plus_ps(ready_ps);
        match kind {
            Kind::Send { bytes } => {
                let link = &profile.link;
                let on_lane = profile.staged_ps(link.lanes.into(), bytes + link.overhead_bytes);
                self.lanes_free.resize(link.lanes as usize, Time::ZERO);
                let lane = &mut self.lanes_free[rng.below(link.lanes.into()) as usize];
                *lane = ready.max(*lane).plus_ps(on_lane);
                effects.push(Effect { at: *lane, pair, outcome: Outcome::Sent { bytes } });
            }
            Kind::Receive { bytes } => {
                visit.received += 1;
                self.memory_free = match profile.link.memory_ns_per_byte {
                    // Written while it arrives.
                    Some(each) => ready.max(self.memory_free.plus_ps(each.of(bytes))),
                    None => ready.max(self.memory_free).plus_ps(profile.staged_ps(1.0, bytes)),
                };
                effects.push(Effect { at: self.memory_free, pair, outcome: Outcome::Received });
            }
            Kind::Complete { packets } => visit.completed += packets,
        }
        ready_ps
    }

    /// Adds acknowledgements and completions of a round that ends.
    fn finish(&mut self, end: Time, acknowledged_max: u32, effects: &mut Vec<Effect>) {
        for &pair in &self.visited {
            let Visit { mut received, completed, .. } = self.visits[pair.index()];
            while received > 0 {
                let packets = received.min(acknowledged_max);
                let outcome = Outcome::Acknowledge { packets };
                effects.push(Effect { at: end, pair, outcome });
                received -= packets;
            }
            if completed > 0 {
                let outcome = Outcome::Completed { packets: completed };
                effects.push(Effect { at: end, pair, outcome });
            }
        }
    }

    /// Makes room for one queue pair more.
    pub(super) fn add_pair(&mut self) {
        self.visits.push(Visit::default());
    }
}

fn cost_ps(costs: &PerPacket, kind: Kind) -> u64 {
    match kind {
        Kind::Send { .. } => costs.send_ns.ps(),
        Kind::Receive { .. } => costs.receive_ns.ps(),
        Kind::Complete { packets } => costs.complete_ns.of(packets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one round of work on an adapter with `pairs` queue pairs.
    fn round(profile: &Profile, pairs: u32, works: &[(u32, Kind)]) -> (Vec<Effect>, Time) {
        let (mut adapter, mut rng) = (Adapter::default(), Rng::new(1));
        (0..pairs).for_each(|_| adapter.add_pair());
        let mut start = None;
        for &(pair, kind) in works {
            let work = Work { pair: PairId(pair), kind };
            let at = adapter.add(Time::ZERO, work, profile, &mut rng);
            assert_eq!(at.is_some(), start.is_none(), "work wakes an idle adapter, once");
            start = start.or(at);
        }
        let mut effects = Vec::new();
        let now = start.expect("work was added");
        let next = adapter.run_round(now, profile, &mut rng, &mut effects);
        let again = adapter.run_round(next.expect("a round"), profile, &mut rng, &mut effects);
        assert_eq!(again, None, "nothing is left");
        (effects, now)
    }

    #[test]
    fn a_round_acknowledges_once_per_queue_pair_at_its_end() {
        let profile = Profile::built_in("c5n").expect("built in");
        let receive = Kind::Receive { bytes: 64 };
        let (effects, start) = round(&profile, 2, &[(0, receive), (1, receive), (0, receive)]);
        let acknowledged: Vec<_> = effects
            .iter()
            .filter(|effect| matches!(effect.outcome, Outcome::Acknowledge { .. }))
            .map(|effect| (effect.at.ps_since(start), effect.pair.0, effect.outcome))
            .collect();
        // Two visits and three packets in the shared part take longer than two packets of a pair.
        let costs = &profile.adapter;
        let end_ps = 2 * costs.visit_ns.ps() + 3 * costs.shared.receive_ns.ps();
        assert!(end_ps > 2 * costs.queue_pair.receive_ns.ps());
        let expected = |pair, packets| (end_ps, pair, Outcome::Acknowledge { packets });
        assert_eq!(acknowledged, [expected(0, 2), expected(1, 1)]);
    }

    #[test]
    fn queue_pairs_are_worked_on_in_parallel() {
        let profile = Profile::built_in("c5n").expect("built in");
        let last = |works: &[(u32, Kind)]| {
            let (effects, start) = round(&profile, 8, works);
            let ends = effects.iter().map(|effect| effect.at.ps_since(start));
            ends.max().expect("completions")
        };
        let complete = Kind::Complete { packets: 8 };
        let one_pair = last(&[(0, complete); 2]);
        let two_pairs = last(&[(0, complete), (1, complete)]);
        assert_eq!(one_pair, 16 * profile.adapter.queue_pair.complete_ns.ps());
        assert!(two_pairs < one_pair, "{two_pairs} {one_pair}");
    }
}
