//! Random sequences of operations, with oracles.
//!
//! `SRD_CASES=10000 SRD_SEED=7 cargo test -p srd --test all sequences` runs more of them, or
//! others.

use crate::common::{Answer, Faults, KEY, Pair};
use proptest::prelude::*;
use proptest::test_runner::{Config as RunnerConfig, RngAlgorithm, TestRng, TestRunner};
use srd::{Config, Message, MsgId, Reject, SendError};

const SECOND_NS: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
enum Op {
    /// The share of messages with a wrong key: none, all, or every second or third.
    Send {
        from: usize,
        count: u16,
        len: u32,
        rnr_retry: u8,
        wrong_every: u16,
    },
    Advance {
        ns: u64,
    },
    Network(Faults),
    Latency {
        ns: u64,
    },
    Answer {
        who: usize,
        answer: Answer,
    },
    Cancel {
        who: usize,
    },
    Close {
        who: usize,
    },
    Restart {
        who: usize,
    },
    HoldAcks {
        on: bool,
    },
    RepeatAcks {
        who: usize,
    },
}

fn faults() -> impl Strategy<Value = Faults> {
    let part = prop_oneof![2 => Just(0u32), 4 => 1..100u32, 2 => 100..500u32, 1 => Just(1000)];
    let dead =
        prop_oneof![4 => Just(0u64), 1 => (0..4).prop_map(|path| 1u64 << path), 1 => 0..16u64];
    (part, 0..200u32, 0..500u32, dead).prop_map(|(loss, duplicate, reorder, dead_paths)| Faults {
        loss,
        duplicate,
        reorder,
        dead_paths,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let who = 0..2usize;
    let count = prop_oneof![4 => 1..5u16, 3 => 5..200u16, 1 => 200..2000u16];
    let wrong = prop_oneof![6 => Just(0u16), 1 => 1..4u16];
    let len = prop_oneof![Just(0u32), 1..100u32, Just(8928)];
    let time = prop_oneof![
        4 => 1..100_000u64,
        4 => 100_000..20_000_000u64,
        2 => 20_000_000..SECOND_NS,
        1 => SECOND_NS..12 * SECOND_NS,
    ];
    let answer = prop_oneof![
        3 => Just(Answer::Accept),
        2 => Just(Answer::Refuse(Reject::Rnr)),
        1 => Just(Answer::Refuse(Reject::BadLength)),
        2 => Just(Answer::Mixed),
        2 => Just(Answer::NoReceive),
    ];
    prop_oneof![
        10 => (who.clone(), count, len, 0..8u8, wrong).prop_map(
            |(from, count, len, rnr_retry, wrong_every)| {
                Op::Send { from, count, len, rnr_retry, wrong_every }
            }
        ),
        10 => time.prop_map(|ns| Op::Advance { ns }),
        5 => faults().prop_map(Op::Network),
        1 => prop_oneof![Just(1000u64), Just(50_000), Just(5_000_000)]
            .prop_map(|ns| Op::Latency { ns }),
        4 => (who.clone(), answer).prop_map(|(who, answer)| Op::Answer { who, answer }),
        1 => who.clone().prop_map(|who| Op::Cancel { who }),
        1 => who.clone().prop_map(|who| Op::Restart { who }),
        1 => who.clone().prop_map(|who| Op::Close { who }),
        1 => any::<bool>().prop_map(|on| Op::HoldAcks { on }),
        1 => who.prop_map(|who| Op::RepeatAcks { who }),
    ]
}

/// A silence of seconds is tens of thousands of timeouts of a simulation, and nothing else. So its
/// seconds are shorter.
const SIMULATION_IS_SHORTER: u64 = 20;

fn simulation() -> Config {
    let config = Config::simulated(12_500, 20_000, 4150);
    Config {
        dead_after_ns: config.dead_after_ns / SIMULATION_IS_SHORTER,
        sender_idle_ns: config.sender_idle_ns / SIMULATION_IS_SHORTER,
        receiver_idle_ns: config.receiver_idle_ns / SIMULATION_IS_SHORTER,
        ..config
    }
}

/// A run of a sequence: the pair, and the next free identifier.
struct Run {
    pair: Pair,
    next_id: u64,
    simulated: bool,
}

impl Run {
    fn new(simulated: bool, seed: u64) -> Self {
        let config = if simulated { simulation() } else { Config::socket() };
        let config = Config { always_challenge: seed % 2 == 1, ..config };
        Self { pair: Pair::new(config, seed), next_id: 0, simulated }
    }

    fn apply(&mut self, op: &Op) {
        let pair = &mut self.pair;
        match *op {
            Op::Send { from, count, len, rnr_retry, wrong_every } => {
                for i in 0..count {
                    let is_wrong = i.checked_rem(wrong_every) == Some(0);
                    self.send(from, len, rnr_retry, KEY + u32::from(is_wrong));
                }
            }
            Op::Advance { ns } if self.simulated && ns > SECOND_NS => {
                pair.run_ns(ns / SIMULATION_IS_SHORTER);
            }
            Op::Advance { ns } => pair.run_ns(ns),
            Op::Network(faults) => pair.faults = faults,
            Op::Latency { ns } => pair.latency_ns = ns,
            Op::Answer { who, answer } => pair.nodes[who].answer = answer,
            Op::Cancel { who } => {
                let peer = pair.peer_of(who);
                pair.nodes[who].engine.cancel_peer(pair.now, peer);
            }
            Op::Close { who } => {
                pair.turn();
                pair.nodes[who].engine.begin_close(pair.now);
                pair.check.closed(who);
            }
            Op::Restart { who } => {
                pair.turn();
                // The host's clock has moved on before the same address is used again.
                pair.now = pair.now.plus_ns(1_000_000);
                let seed = pair.rng.next();
                pair.restart(who, seed);
            }
            Op::HoldAcks { on } => pair.eager_acks = !on,
            Op::RepeatAcks { who } => pair.nodes[who].engine.final_acks(pair.now),
        }
        self.pair.turn();
    }

    fn send(&mut self, from: usize, len: u32, rnr_retry: u8, qkey: u32) {
        let pair = &mut self.pair;
        let len = len.min(pair.config.max_message_bytes);
        let id = MsgId(self.next_id);
        let is_one_sided = id.0 % 3 == 0;
        let op = u8::from(is_one_sided);
        let may_share = id.0 / 8 % 2 == 0;
        let (flags, imm) = (0, 0);
        let msg = Message { id, len, op, flags, qkey, imm, rnr_retry, is_one_sided, may_share };
        self.next_id += 1;
        let peer = pair.peer_of(from);
        match pair.nodes[from].engine.send(pair.now, peer, msg) {
            Ok(()) => pair.check.sent(from, msg.id.0, is_one_sided),
            Err(error) => assert_eq!(error, SendError::Closing),
        }
    }

    /// Heals the network, then requires that every message ends.
    fn heal(&mut self) {
        let pair = &mut self.pair;
        pair.faults = Faults::default();
        pair.latency_ns = 10_000;
        pair.nodes.iter_mut().for_each(|node| node.answer = Answer::Accept);
        assert!(pair.run_until_done(20 * SECOND_NS), "messages do not end on a healthy network");
        assert!(pair.check.all_ended(), "a message was forgotten");
        pair.run_ns(SECOND_NS);
        let quiet = pair.nodes.iter().all(|node| node.engine.is_quiescent());
        assert!(quiet, "something is still waiting");
    }
}

fn run(simulated: bool, seed: u64, ops: &[Op]) -> u64 {
    let mut run = Run::new(simulated, seed);
    ops.iter().for_each(|op| run.apply(op));
    run.heal();
    run.pair.digest()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Sequences, unless `SRD_CASES` says how many.
const CASES: u64 = 500;
/// One in this many runs is repeated, to show that it is deterministic.
const REPEATED: u64 = 16;

/// Runs `test` on random sequences; a failure names the command that repeats it.
fn explore(name: &str, cases: u64, test: impl Fn(bool, u64, &[Op])) {
    let seed = number("SRD_SEED", 1);
    println!("SRD_SEED={seed}, {cases} cases");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = RunnerConfig {
        cases: cases as u32,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..RunnerConfig::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let strategy = (any::<bool>(), any::<u64>(), prop::collection::vec(op(), 1..40));
    let outcome = runner.run(&strategy, |(simulated, seed, ops)| {
        test(simulated, seed, &ops);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!(
            "SRD_SEED={seed} SRD_CASES={} cargo test -p srd --test all {name}\n{error}",
            number("SRD_CASES", CASES)
        );
    }
}

#[test]
fn any_sequence_keeps_every_promise() {
    explore("any_sequence", number("SRD_CASES", CASES), |simulated, seed, ops| {
        run(simulated, seed, ops);
    });
}

#[test]
fn the_same_sequence_runs_the_same_way() {
    let cases = number("SRD_CASES", CASES).div_ceil(REPEATED);
    explore("the_same_sequence", cases, |simulated, seed, ops| {
        assert_eq!(run(simulated, seed, ops), run(simulated, seed, ops));
    });
}

/// SRD-3.9: a sender at its smallest window, which has measured 5 ms, is refused by a receiver that
/// closes, over a network that is quick again. Each refusal is a sample and opens the window.
#[test]
fn refusals_free_a_sender_that_paces() {
    let faults = Faults { duplicate: 111, reorder: 139, ..Faults::default() };
    let ops = [
        Op::Network(faults),
        Op::Send { from: 0, count: 708, len: 8928, rnr_retry: 0, wrong_every: 0 },
        Op::Latency { ns: 5_000_000 },
        Op::Advance { ns: 109_812_743 },
        Op::Restart { who: 1 },
        Op::Close { who: 1 },
    ];
    let mut run = Run::new(true, 0);
    ops.iter().for_each(|op| run.apply(op));
    let healed = run.pair.now;
    run.heal();
    let (took_ns, second) = (run.pair.now.ns_since(healed), SECOND_NS);
    // Healing itself watches for a second whether anything is left.
    assert!(
        took_ns < 2 * second,
        "the last message ended after {} ms",
        (took_ns - second) / 1_000_000
    );
}
