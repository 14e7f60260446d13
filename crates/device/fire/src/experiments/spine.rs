//! A spine's link goes down in the middle of traffic.
//!
//! The link between spine 0 and leaf 0 fails; data flows towards leaf 0. Leaf 0 knows at once; leaf
//! 1 keeps sending a quarter of the paths to the spine that has lost its link, until its routes
//! follow after a second. Each trial is judged by the flow that suffers most.

use std::time::Duration;

use anyhow::Result;

use super::traffic::{Flow, Outcome, sum_series};
use super::{Context, dip};
use crate::args::Transport;
use crate::machine::RealTimePriority;
use crate::network::{Network, Shape};
use crate::record::{Line, Plot, Record};
use crate::rng::Rng;
use crate::stalls::{StallDetector, Stalls};
use crate::{clock, interrupt};

/// SRD must have recovered within this time.
const LIMIT_MS: usize = 20;
/// Traffic is observed for this long before the fault.
const WARM_MS: usize = 1500;
/// The far routes follow this long after the fault.
const CONVERGED_MS: usize = 1000;
/// Traffic is observed for this long after the fault.
const AFTER_MS: usize = 1800;
/// Moments without a fault that are judged as if there were one, to see what the machine does by
/// itself.
const QUIET: [usize; 7] = [600, 700, 800, 900, 1000, 1100, 1200];

/// The reaction of the spine to packets for the dead link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpineReaction {
    /// It drops them.
    Drops,
    /// It answers that the host is unreachable.
    Rejects,
}

/// One trial.
struct Trial {
    /// Bytes of each receiver by millisecond; the fault is at [`WARM_MS`].
    flows: Vec<Vec<u64>>,
    failure: Option<String>,
    taken: u64,
    /// The time of the first millisecond.
    start_ms: u64,
    /// The stalls of the machine.
    stalls: Stalls,
}

impl Trial {
    /// Returns the flow that misses most.
    fn hardest_hit(&self) -> &[u64] {
        let missing = |flow: &&Vec<u64>| missing_us(flow);
        self.flows.iter().max_by_key(missing).map_or(&[], Vec::as_slice)
    }

    /// Returns what that flow misses. Not every trial has a flow on the failing link.
    fn missing_us(&self) -> i64 {
        missing_us(self.hardest_hit())
    }

    /// Returns the longest dip of a flow after `at`.
    fn dip_ms(&self, at: usize) -> usize {
        self.flows.iter().map(|flow| dip::of(flow, at).ms).max().unwrap_or_default()
    }

    /// Returns the longest dip without the time in which the machine stood still.
    fn net_dip_ms(&self, at: usize) -> usize {
        let net = |flow: &Vec<u64>| {
            let dip::Dip { begins_ms, ms, .. } = dip::of(flow, at);
            let begin = self.start_ms + (at + begins_ms) as u64;
            let stalled = self.stalls.within_ms(&(begin..begin + ms as u64));
            ms - usize::try_from(stalled).map_or(ms, |stalled| stalled.min(ms))
        };
        self.flows.iter().map(net).max().unwrap_or_default()
    }
}

fn missing_us(flow: &[u64]) -> i64 {
    (dip::of(flow, WARM_MS).missing_ms * 1000.0) as i64
}

pub(super) fn run(context: &Context) -> Result<Vec<Record>> {
    let _first = RealTimePriority::take();
    let mut records = Vec::new();
    for (mtu_bytes, spine) in
        [(1500, SpineReaction::Drops), (1500, SpineReaction::Rejects), (9000, SpineReaction::Drops)]
    {
        if context.is_short && (mtu_bytes, spine) != (1500, SpineReaction::Drops) {
            continue;
        }
        records.extend(case(context, mtu_bytes, spine)?);
    }
    Ok(records)
}

fn case(context: &Context, mtu_bytes: u32, spine: SpineReaction) -> Result<Vec<Record>> {
    let shape = Shape::of(mtu_bytes);
    let network = Network::clos(shape)?;
    if spine == SpineReaction::Rejects {
        network.set("s0", "ipv4/conf/l0/ignore_routes_with_linkdown", 1)?;
    }
    let what = match spine {
        SpineReaction::Drops => "drops",
        SpineReaction::Rejects => "answers host unreachable",
    };
    let mut rng = Rng::new(context.seed, "spine");
    let mut shown = Vec::new();
    let mut records = Vec::new();
    for transport in [Transport::Srd, Transport::Tcp] {
        let name = transport.name().to_uppercase();
        let mut record =
            Record::new(format!("{name}, MTU {mtu_bytes}, the spine {what}"), "link failures");
        context.log_case(&record.case);
        let mut trials = Vec::new();
        for _ in 0..context.pick(1, 10) {
            // The kernel takes real-time priority away at its own moments, so the phase must vary.
            let phase = Duration::from_millis(rng.below(700));
            let trial = trial(&network, shape, transport, phase)?;
            record.count_trial(trial.failure.clone());
            trials.push(trial);
        }
        judge(context, transport, &trials, &mut record);
        shown.extend(trials.into_iter().max_by_key(Trial::missing_us));
        records.push(record);
    }
    records[0].plots.push(plot(shape, what, &shown));
    Ok(records)
}

fn trial(network: &Network, shape: Shape, transport: Transport, phase: Duration) -> Result<Trial> {
    let stalls = StallDetector::begin();
    let mut flows = Flow::start_across(network, shape, transport)?;
    let mut ip_batch = network.ip_batch("l0")?;
    flows.iter_mut().try_for_each(|flow| flow.source.send_command("go"))?;
    interrupt::sleep(Duration::from_millis(WARM_MS as u64 + 300) + phase)?;
    let fault_ms = clock::now_ms();
    ip_batch.run("link set s0 down")?;
    interrupt::sleep(Duration::from_millis(CONVERGED_MS as u64))?;
    network.route(1, &[1, 2, 3])?;
    interrupt::sleep(Duration::from_millis((AFTER_MS - CONVERGED_MS) as u64 + 20))?;
    ip_batch.run("link set s0 up")?;
    drop(ip_batch);
    network.route(0, &[0, 1, 2, 3])?;
    network.route(1, &[0, 1, 2, 3])?;
    let outcomes: Vec<Outcome> = flows.iter_mut().map(Flow::finish).collect::<Result<_>>()?;
    let stalls = stalls.end();
    let start_ms = fault_ms - WARM_MS as u64;
    let failure = (0..).zip(&outcomes).find_map(|(pair, outcome)| outcome.failure(pair));
    let series = |outcome: &Outcome| sum_series(&[outcome.series()], start_ms, WARM_MS + AFTER_MS);
    let taken = outcomes.iter().map(Outcome::taken).sum();
    Ok(Trial { flows: outcomes.iter().map(series).collect(), failure, taken, start_ms, stalls })
}

fn judge(context: &Context, transport: Transport, trials: &[Trial], record: &mut Record) {
    let mut dips: Vec<usize> = trials.iter().map(|trial| trial.dip_ms(WARM_MS)).collect();
    dips.sort_unstable();
    let (median, worst) = (dips[dips.len() / 2], dips[dips.len() - 1]);
    let net = trials.iter().map(|trial| trial.net_dip_ms(WARM_MS)).max().unwrap_or_default();
    let quiet = trials.iter().flat_map(|trial| QUIET.map(|at| trial.net_dip_ms(at)));
    let quiet = quiet.max().unwrap_or_default();
    let hardest: Vec<_> = trials.iter().map(|t| dip::of(t.hardest_hit(), WARM_MS)).collect();
    let count = hardest.len() as f64;
    let usual_mbps = hardest.iter().map(|dip| dip.usual).sum::<f64>() / count * 8.0 / 1000.0;
    let missing_ms = hardest.iter().map(|dip| dip.missing_ms).sum::<f64>() / count;
    record.set_figure("dip_median_ms", median as f64);
    record.set_figure("dip_worst_ms", worst as f64);
    record.set_figure("dip_worst_own_ms", net as f64);
    record.set_figure("dip_without_fault_ms", quiet as f64);
    record.set_figure("missing_ms", missing_ms);
    record.set_figure("usual_mbps", usual_mbps);
    let taken: u64 = trials.iter().map(|trial| trial.taken).sum();
    let but = if net == worst {
        String::new()
    } else {
        format!(" (at most {net} without the time in which the machine stood still)")
    };
    let unit = if transport == Transport::Srd { "messages" } else { "bytes" };
    let still = if dips[0] >= AFTER_MS - dip::BEGINS_MS { " (it lasts to the end)" } else { "" };
    record.result = format!(
        "dip of the flow that is hit hardest: {median} ms, at worst {worst}{still}{but}; without a fault up to {quiet}; \
         {missing_ms:.0} ms of its {usual_mbps:.0} Mbit/s missing in the first second; {taken} {unit}, each once"
    );
    if transport == Transport::Srd && !context.is_short {
        if net > LIMIT_MS.max(quiet) {
            record.fail(format!("the dip lasted {net} ms, not {LIMIT_MS} at most"));
        } else if quiet > LIMIT_MS {
            record.result += &format!("; the machine was too busy to judge {LIMIT_MS} ms");
        }
    }
}

fn plot(shape: Shape, what: &str, trials: &[Trial]) -> Plot {
    /// Milliseconds shown.
    const SHOWN: std::ops::Range<usize> = WARM_MS - 200..WARM_MS + 1600;
    /// Each point is the mean of this many milliseconds.
    const STEP: usize = 10;
    let line = |(name, trial): (&str, &Trial)| {
        let flow = trial.hardest_hit();
        let points = SHOWN.step_by(STEP).map(|at| {
            let bytes: u64 = flow[at..at + STEP].iter().sum();
            ((at - SHOWN.start) as f64, (bytes * 8) as f64 / 1000.0 / STEP as f64)
        });
        Line { name: name.to_owned(), is_mark: false, points: points.collect() }
    };
    let mark = |name: &str, at: usize| {
        let at = (at - SHOWN.start) as f64;
        Line {
            name: name.to_owned(),
            is_mark: true,
            points: vec![(at, 0.0), (at, f64::from(shape.host_mbps) * 1.2)],
        }
    };
    let mut lines: Vec<Line> = ["SRD", "TCP"].into_iter().zip(trials).map(line).collect();
    lines.push(mark("link down", WARM_MS));
    lines.push(mark("routes follow", WARM_MS + CONVERGED_MS));
    Plot {
        title: format!("A spine's link goes down, MTU {}, the spine {what}", shape.mtu_bytes),
        description: "Goodput of the flow that is hit hardest of all tries, SRD and TCP one after the other, means of 10 ms."
            .to_owned(),
        x: "time (ms)".to_owned(),
        y: "goodput (Mbit/s)".to_owned(),
        lines,
    }
}
