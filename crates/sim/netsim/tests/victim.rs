//! A transfer that passes an incast on its way to somewhere else: in a network that pauses links,
//! it stands behind packets that it has nothing to do with.
#![allow(clippy::unwrap_used, reason = "tests")]

use netsim::{Outcome, Scenario};
use std::fs;
use std::path::Path;

fn run(name: &str, seed: u64) -> Outcome {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let scenario = Scenario::parse_in(&text, &folder).unwrap();
    scenario.run(seed).unwrap_or_else(|broken| panic!("{name} --seed {seed}: {broken}"))
}

/// Returns the completion time over the ideal one of the last flow of the trace.
fn victim(outcome: &Outcome) -> f64 {
    let flow = outcome.flows.last().unwrap();
    assert_eq!((flow.src_host, flow.dst_host), (15, 24));
    flow.completion_ps.unwrap() as f64 / flow.ideal_ps as f64
}

#[test]
fn pauses_spread_to_a_flow_that_srd_lets_pass() {
    for seed in 1..=3 {
        let (srd, roce) = (run("victim.toml", seed), run("victim-roce.toml", seed));
        let (free, held) = (victim(&srd), victim(&roce));
        assert!(free < 1.3 && held > 2.0, "seed {seed}: {free:.2} beside SRD, {held:.2} by pauses");
        assert_eq!((roce.lost_queue_full, srd.paused_links.len()), (0, 0));
        // The pauses went back all the way to the victim's adapter.
        let names: Vec<&str> = roce.paused_links.iter().map(|link| link.link.as_str()).collect();
        assert!(names.contains(&"host15-leaf1"), "seed {seed}: {names:?}");
    }
}
