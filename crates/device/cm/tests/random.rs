//! Programs that make random calls, over a network that loses, duplicates and reorders; then the
//! network heals, and everything must have ended.
//!
//! `CM_CASES=100000 CM_SEED=5 cargo test -p cm --test all random` goes on for longer.

use crate::common::net::{Faults, MS, Net, offer};
use crate::common::{Rng, number};
use cm::mad::reason;
use cm::{ConnId, Event};
use std::collections::BTreeMap;
use std::time::Duration;

const PROGRAMS: usize = 2;

/// The state of a connection from its program's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Requested,
    Accepted,
    Answered,
    Established,
    /// The peer asked for the end, and the program has not agreed.
    Ending,
    Disconnected,
    Over,
    Destroyed,
}

#[derive(Debug)]
struct Side {
    stage: Stage,
    /// The parameters of the requester's REQ; the same on both sides.
    tag: u64,
    history: Vec<String>,
    /// The program refused or left before the connection was established on both sides.
    refused: bool,
    wants_end: bool,
    /// The last event.
    was_rejected: bool,
    was_unreachable: bool,
}

struct World {
    net: Net,
    rng: Rng,
    sides: BTreeMap<(usize, ConnId), Side>,
    tags: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut net = Net::new(PROGRAMS, seed);
        for i in 0..PROGRAMS {
            net.listen(i, 3);
        }
        let mut rng = Rng::new(seed.wrapping_mul(31));
        net.faults =
            Faults { loss: rng.below(400), duplicate: rng.below(300), reorder: rng.below(500) };
        Self { net, rng, sides: BTreeMap::new(), tags: 0 }
    }

    fn connect(&mut self) {
        let from = self.rng.below(PROGRAMS as u64) as usize;
        self.tags += 1;
        let (tag, qpn) = (self.tags, 0x100 + self.tags as u32);
        let conn = self.net.connect(from, 1 - from, qpn, &tag.to_be_bytes());
        self.sides.insert((from, conn), Side::new(Stage::Connecting, tag));
    }

    /// One program performs a random call on one of its connections.
    fn act(&mut self) {
        let alive = |(_, side): &(&(usize, ConnId), &Side)| {
            !matches!(side.stage, Stage::Over | Stage::Destroyed)
        };
        let alive: Vec<_> = self.sides.iter().filter(alive).map(|(key, _)| *key).collect();
        if alive.is_empty() {
            return;
        }
        let key = alive[self.rng.below(alive.len() as u64) as usize];
        let choice = self.rng.below(100);
        self.decide(key, choice);
    }

    fn decide(&mut self, key: (usize, ConnId), choice: u64) {
        let (i, conn) = key;
        let now = self.net.now;
        let agent = &mut self.net.agents[i];
        let side = self.sides.get_mut(&key).expect("what a test does is allowed");
        let next = match (side.stage, choice) {
            (_, 0..4) => {
                side.refused |= matches!(side.stage, Stage::Requested | Stage::Answered);
                agent.destroy(now, conn);
                Stage::Destroyed
            }
            (Stage::Requested | Stage::Accepted | Stage::Answered, 4..10) => {
                agent
                    .reject(now, conn, reason::CONSUMER_DEFINED, &[])
                    .expect("what a test does is allowed");
                side.refused = true;
                Stage::Over
            }
            (Stage::Requested, _) => {
                agent.taken(conn);
                let qpn = 0x1_0000 + side.tag as u32;
                agent
                    .accept(now, conn, offer(qpn), &side.tag.to_be_bytes())
                    .expect("what a test does is allowed");
                Stage::Answered
            }
            (Stage::Accepted, _) => {
                agent.ready(now, conn).expect("what a test does is allowed");
                Stage::Established
            }
            (Stage::Established, 0..30) => {
                // Refused because it was asked before.
                let _ = agent.disconnect(now, conn);
                side.wants_end = true;
                return;
            }
            (Stage::Ending, _) => {
                // Refused because the peer did not ask but was given up.
                let _ = agent.disconnect(now, conn);
                Stage::Disconnected
            }
            _ => return,
        };
        side.history.push(format!("{next:?} by choice"));
        side.stage = next;
    }

    fn hear(&mut self) {
        for i in 0..PROGRAMS {
            for event in self.net.events(i) {
                self.on(i, &event);
            }
        }
    }

    fn on(&mut self, i: usize, event: &Event) {
        let key = (i, event.conn());
        if let Event::Requested { request, .. } = event {
            let tag = u64::from_be_bytes(
                request.private_data[..8].try_into().expect("what a test does is allowed"),
            );
            let old = self.sides.insert(key, Side::new(Stage::Requested, tag));
            assert!(old.is_none(), "an id came twice");
            return;
        }
        let side = self.sides.get_mut(&key).expect("events of known connections only");
        side.history.push(format!("{event:?}").chars().take(40).collect());
        side.was_rejected |= matches!(event, Event::Rejected { .. });
        side.was_unreachable |= matches!(event, Event::Unreachable { .. });
        let next = match (side.stage, event) {
            (Stage::Connecting, Event::Accepted { private_data, .. }) => {
                assert_eq!(private_data[..8], side.tag.to_be_bytes(), "another's answer");
                Stage::Accepted
            }
            (Stage::Answered, Event::Established { .. }) => Stage::Established,
            (
                Stage::Connecting | Stage::Requested | Stage::Accepted | Stage::Answered,
                Event::Rejected { .. },
            ) => Stage::Over,
            (Stage::Connecting | Stage::Answered, Event::Unreachable { .. }) => Stage::Over,
            (Stage::Established, Event::Disconnected { .. }) if side.wants_end => {
                Stage::Disconnected
            }
            (Stage::Established, Event::Disconnected { .. }) => Stage::Ending,
            (Stage::Ending | Stage::Disconnected, Event::TimewaitExit { .. }) => Stage::Over,
            (stage, event) => panic!("{event:?} in {stage:?}: {:#?}", side.history),
        };
        side.stage = next;
    }

    fn run(&mut self, time: Duration) {
        let until = self.net.now + time;
        while self.net.step(until) {
            self.hear();
        }
        self.hear();
    }

    /// Every program accepts the connections that it has not decided on.
    fn settle(&mut self) {
        for _ in 0..4 {
            let keys: Vec<_> = self.sides.keys().copied().collect();
            for key in keys {
                let stage = self.sides[&key].stage;
                if matches!(stage, Stage::Requested | Stage::Accepted | Stage::Ending) {
                    self.decide(key, 99);
                }
            }
            self.run(Duration::from_secs(120));
        }
    }

    /// Established on one side means established on the other, unless a program refused.
    fn check_agreement(&self) {
        for (key, side) in &self.sides {
            if side.stage != Stage::Established {
                continue;
            }
            let others: Vec<_> =
                self.sides.iter().filter(|(k, s)| s.tag == side.tag && *k != key).collect();
            let agrees = others.iter().any(|(_, other)| other.stage == Stage::Established);
            let refused = others.iter().any(|(_, other)| other.refused);
            assert!(
                agrees || refused || side.wants_end,
                "{key:?} alone: {side:#?}, others {others:#?}"
            );
        }
    }

    /// A connection is refused only if a program refused or left, or one side gave the other up.
    fn check_refusals(&self) {
        for (key, side) in self.sides.iter().filter(|(_, side)| side.was_rejected) {
            let is_cause = |(other, s): (&(usize, ConnId), &Side)| {
                other != key
                    && s.tag == side.tag
                    && (s.refused || s.was_unreachable || s.stage == Stage::Destroyed)
            };
            assert!(self.sides.iter().any(is_cause), "{key:?} refused by nobody: {side:#?}");
        }
    }

    fn end_all(&mut self) {
        let established: Vec<_> = self
            .sides
            .iter()
            .filter(|(_, s)| s.stage == Stage::Established)
            .map(|(k, _)| *k)
            .collect();
        for (i, conn) in established {
            // The peer may have been first.
            let _ = self.net.agents[i].disconnect(self.net.now, conn);
        }
        self.run(Duration::from_secs(120));
        self.settle();
    }
}

impl Side {
    fn new(stage: Stage, tag: u64) -> Self {
        Self {
            stage,
            tag,
            history: Vec::new(),
            refused: false,
            wants_end: false,
            was_rejected: false,
            was_unreachable: false,
        }
    }
}

fn case(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..30 {
        match world.rng.below(4) {
            0 => world.connect(),
            _ => world.act(),
        }
        let pause = MS * world.rng.below(3000) as u32;
        world.run(pause);
    }
    world.net.faults = Faults::default();
    world.settle();
    world.check_agreement();
    world.end_all();
    for (key, side) in &world.sides {
        let is_over = matches!(side.stage, Stage::Over | Stage::Destroyed);
        assert!(is_over, "{key:?} never ended: {side:#?}");
    }
    world.check_refusals();
    world.net.assert_nothing_is_left();
}

#[test]
fn every_connection_ends_as_it_must() {
    let (cases, first) = (number("CM_CASES", 300), number("CM_SEED", 1));
    for seed in first..first + cases {
        let outcome = std::panic::catch_unwind(|| case(seed));
        assert!(outcome.is_ok(), "CM_SEED={seed} CM_CASES=1 cargo test -p cm --test all random");
    }
}
