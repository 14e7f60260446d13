//! Random scenarios in two phases: faults, in which nothing may be delivered twice or lost
//! silently, and a healed network, in which everything must end well within a bound.
//!
//! `NETSIM_CASES=10000` for the long run; a failure prints the command that repeats it.

use netsim::{Outcome, Scenario};
use std::fmt::Write;

/// Time at which all faults have ended.
const HEALED_US: u64 = 400;
/// Time at which every flow must have ended.
const LIMIT_MS: u64 = 50;

/// The generator of the scenarios (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len() as u64) as usize]
    }
}

fn scenario_text(seed: u64) -> String {
    let mut dice = Dice(seed);
    let mut text = format!("title = \"random {seed}\"\nseeds = [{seed}]\nlimit_ms = {LIMIT_MS}\n");
    let targets = if dice.below(2) == 0 {
        text.push_str("[topology.leaf_spine]\nracks = 3\nhosts_per_rack = 4\nspines = 3\n");
        ["leaf0-spine1", "leaf1-spine0", "spine2", "leaf2", "host0-leaf0", "host5"]
    } else {
        text.push_str("[topology.clos3]\npods = 3\nedges_per_pod = 2\naggs_per_pod = 2\n");
        text.push_str("hosts_per_edge = 2\ncores_per_agg = 2\n");
        ["edge0-agg0", "agg2-core1", "core3", "agg1", "host0-edge0", "host5"]
    };
    let gbps = dice.pick(&["25", "100", "400"]);
    let pauses = dice.below(3) == 0;
    let buffer = if pauses { 70_000 } else { 20_000 } + dice.below(600_000);
    let _ = writeln!(text, "[network]\ngbps = {gbps}\nhop_ns = 500\nbuffer_bytes = {buffer}");
    let (every, paths) = (1 + dice.below(4), 1 + dice.below(64));
    let kind = dice.pick(&["srd", "srd", "tcp", "dctcp", "roce"]);
    let _ = writeln!(text, "mark_above_bytes = {}", buffer / 5);
    text.push_str(if pauses { "pfc = {}\n" } else { "" });
    let _ = writeln!(text, "[transport]\nkind = \"{kind}\"");
    let _ = writeln!(text, "ack_every_packets = {every}\npaths = {paths}");
    let (congestion, delayed) = (dice.pick(&["cubic", "newreno"]), dice.below(4) == 0);
    let _ = writeln!(text, "[transport.tcp]\nmin_rto_ms = 1\ncongestion = \"{congestion}\"");
    let _ = writeln!(text, "delayed_ack = {delayed}\nrack = {}", dice.below(2) == 0);
    let congestion = dice.pick(&["none", "dcqcn", "window"]);
    let _ = writeln!(text, "[transport.roce]\ncongestion = \"{congestion}\"\ntimeout_us = 1_000");
    let _ = writeln!(text, "ack_every_packets = {every}");
    let bytes = 1 + dice.below(400_000);
    let _ = match dice.below(3) {
        0 => writeln!(text, "[[workload.incast]]\nservers = 6\nprocesses = 2\nbytes = {bytes}"),
        1 => writeln!(text, "[[workload.all_to_all]]\nhosts = 6\nbytes = {bytes}"),
        _ => writeln!(text, "[[workload.permutation]]\nbytes = {bytes}"),
    };
    if dice.below(3) == 0 {
        let (other, rounds) = (dice.pick(&["srd", "tcp", "dctcp", "roce"]), 1 + dice.below(3));
        let _ = writeln!(text, "[[workload.rack_to_rack]]\nfrom_rack = 0\nto_rack = 1\nhosts = 2");
        let _ = writeln!(text, "processes = 2\nbytes = 60_000\nrounds = {rounds}");
        let _ = writeln!(text, "transport = \"{other}\"");
    }
    text.push_str(&faults_text(&mut dice, &targets));
    text
}

/// Writes one to four faults of cables that end in time.
fn faults_text(dice: &mut Dice, targets: &[&str]) -> String {
    let mut text = String::new();
    for _ in 0..=dice.below(4) {
        let at_us = dice.below(HEALED_US - 1);
        let until_us = at_us + 1 + dice.below(HEALED_US - at_us);
        let target = dice.pick(targets);
        let kind = dice.pick(&[
            "cut = true",
            "cut = true\nrepair = { detect_us = 5, converge_us = 20 }",
            "flap = { down_us = 9, up_us = 8 }\nrepair = { detect_us = 8, converge_us = 3 }",
            "flap = { down_us = 7, up_us = 13 }",
            "gbps = 5",
            "gbps = 1",
            "loss_ppm = 50_000",
            "gbps = 10\nloss_ppm = 5_000",
            "gbps = 10\nloss_ppm = 5_000\nrepair = { detect_us = 30, converge_us = 40 }",
        ]);
        let _ = writeln!(text, "[[fault]]\ntarget = \"{target}\"\nat_us = {at_us}");
        let _ = writeln!(text, "until_us = {until_us}\n{kind}");
    }
    text
}

fn run(seed: u64, text: &str) -> Outcome {
    let again = format!("NETSIM_SEED={seed} NETSIM_CASES=1 cargo test -p netsim --test random");
    let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{again}: {error}\n{text}"));
    let outcome = scenario.run(seed).unwrap_or_else(|broken| panic!("{again}: {broken}\n{text}"));
    assert!(outcome.is_complete(), "{again}: healed, but not all flows ended well\n{text}");
    outcome
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn random_faults_lose_nothing_and_heal() {
    let first = variable("NETSIM_SEED", 1);
    let (mut lost, mut paused) = (0, 0);
    for seed in first..first + variable("NETSIM_CASES", 60) {
        let text = scenario_text(seed);
        let outcome = run(seed, &text);
        assert_eq!(run(seed, &text), outcome, "NETSIM_SEED={seed} does not repeat");
        lost += outcome.lost_cut + outcome.lost_grey + outcome.lost_queue_full;
        paused += outcome.paused_links.len();
    }
    assert!(lost > 0 && paused > 0, "the faults hit nothing, or nothing was paused");
}
