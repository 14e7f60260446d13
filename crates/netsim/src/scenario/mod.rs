//! Scenario files: what is simulated, as TOML. A wrong file is refused with the line, the field
//! and what is allowed.

mod fault;
mod field;
mod setup;
mod spec;

pub(crate) use fault::{Fault, Repair};
pub(crate) use field::Gbps;
pub(crate) use spec::{Incast, Poisson, RackToRack, TransferBytes, Workloads};

use crate::fault::Faults;
use crate::flow::FlowSpec;
use crate::outcome::{Outcome, Summary};
use crate::rng::Rng;
use crate::sample::{Sampler, Samples};
use crate::sim::Sim;
use crate::time::Time;
use crate::topology::{Fabric, PortKind, clos3, leaf_spine};
use crate::workload::{Plan, Refusal};
use crate::{Violation, workload};
use spec::{File, Topology};
use std::ops::Range;
use thiserror::Error;

const HOSTS_MAX: u64 = 65_536;
const LINKS_MAX: u64 = 2_000_000;

/// Why a scenario file is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, {field}: {problem}")]
pub struct ScenarioError {
    /// Line of the file, from 1.
    pub line: usize,
    /// The field, or the text of the line.
    pub field: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    file: File,
}

impl Scenario {
    /// Reads a scenario file and checks that it can be run.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let file: File = toml::from_str(text).map_err(|error| ScenarioError {
            line: line_of(text, error.span().unwrap_or(0..0)),
            field: line_at(text, error.span().unwrap_or(0..0)),
            problem: error.message().replace('\n', " "),
        })?;
        let refuse = |span: Range<usize>, field: &str, problem: String| ScenarioError {
            line: line_of(text, span),
            field: field.to_owned(),
            problem,
        };
        if file.seeds.get_ref().is_empty() {
            let problem = "empty; at least one seed is needed".to_owned();
            return Err(refuse(file.seeds.span(), "seeds", problem));
        }
        check_size(file.topology.get_ref())
            .map_err(|problem| refuse(file.topology.span(), "topology", problem))?;
        let scenario = Self { file };
        let fabric = scenario.fabric();
        scenario.plan(&fabric, &Rng::new(0)).map_err(|refusal| {
            let Refusal { span, field, problem } = refusal;
            refuse(span, field, problem)
        })?;
        for fault in &scenario.file.fault {
            if let Err((field, problem)) = fault.check(&fabric) {
                return Err(refuse(fault.target.span(), field, problem));
            }
        }
        Ok(scenario)
    }

    /// One line on what it shows.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.file.title
    }

    /// Seeds of its runs.
    #[must_use]
    pub fn seeds(&self) -> &[u64] {
        self.file.seeds.get_ref()
    }

    /// Number of flows in a run (of Poisson arrivals: with the first seed).
    #[must_use]
    pub fn flows(&self) -> usize {
        let seed = self.seeds().first().copied().unwrap_or_default();
        self.plan(&self.fabric(), &Rng::new(seed)).map_or(0, |flows| flows.len())
    }

    /// Runs it once.
    ///
    /// # Errors
    /// A rule of every run was broken; the scenario and the seed repeat it.
    pub fn run(&self, seed: u64) -> Result<Outcome, Violation> {
        Ok(Outcome::of(&self.simulate(seed, None)?, seed))
    }

    /// Runs it once and looks at flows, queues and uplinks every `interval_us` of virtual time
    /// (at least 1). The outcome is the same as without.
    ///
    /// # Errors
    /// As [`Scenario::run`].
    pub fn run_sampled(
        &self,
        seed: u64,
        interval_us: u32,
    ) -> Result<(Outcome, Samples), Violation> {
        let mut sim = self.simulate(seed, Some(interval_us))?;
        let (now, sampler) = (sim.now, sim.sampler.take());
        let samples = sampler.map(|sampler| sampler.finish(now, &sim.flows, &sim.network.fabric));
        Ok((Outcome::of(&sim, seed), samples.unwrap_or_default()))
    }

    fn simulate(&self, seed: u64, sample_us: Option<u32>) -> Result<Sim, Violation> {
        let root = Rng::new(seed);
        let fabric = self.fabric();
        #[expect(clippy::expect_used, reason = "parse() planned with another seed, same sizes")]
        let flows = self.plan(&fabric, &root).expect("the workloads fit the topology");
        let faults = Faults::new(&self.file.fault, self.file.network.gbps, &fabric);
        let setup = setup::of(&self.file, &fabric);
        let mut sim = Sim::new(fabric, &flows, setup, &root);
        sim.network.add_faults(faults);
        if let Some(interval_us) = sample_us {
            sim.start_sampling(Sampler::new(interval_us, sim.flows.len(), &sim.network.fabric));
        }
        sim.run(Time::from_us(u64::from(self.file.limit_ms.get()) * 1000))?;
        Ok(sim)
    }

    /// What runs do not keep of what the file expects of their means, one line each.
    #[must_use]
    pub fn missed(&self, outcomes: &[Outcome]) -> Vec<String> {
        let summaries: Vec<Summary> = outcomes.iter().filter_map(Outcome::summary).collect();
        let mean = |field: fn(&Summary) -> f64| {
            summaries.iter().map(field).sum::<f64>() / summaries.len().max(1) as f64
        };
        let expect = &self.file.expect;
        let (most, least) = (mean(|s| s.max_to_ideal), mean(|s| s.min_to_ideal));
        let repeated = mean(|s| s.repeated_percent);
        let mut missed = Vec::new();
        if let Some(bound) = expect.max_to_ideal.filter(|&bound| most > bound) {
            missed.push(format!("max/ideal is {most:.3}, expected at most {bound}"));
        }
        if let Some(bound) = expect.min_to_ideal.filter(|&bound| least < bound) {
            missed.push(format!("min/ideal is {least:.3}, expected at least {bound}"));
        }
        if let Some(bound) = expect.repeated_percent.filter(|&bound| repeated > bound) {
            missed.push(format!("{repeated:.2} % are repeated, expected at most {bound} %"));
        }
        missed
    }

    fn fabric(&self) -> Fabric {
        let network = &self.file.network;
        let port = PortKind {
            ps_per_byte: network.gbps.ps_per_byte(),
            delay_ps: network.hop_ns.get() * 1000,
            buffer_bytes: network.buffer_bytes.get(),
            mark_above_bytes: network.mark_above_bytes.map(field::Bounded::get),
        };
        match self.file.topology.get_ref() {
            Topology::LeafSpine(t) => {
                leaf_spine(t.racks.get(), t.hosts_per_rack.get(), t.spines.get(), port)
            }
            Topology::Clos3(t) => clos3(
                [
                    t.pods.get(),
                    t.edges_per_pod.get(),
                    t.aggs_per_pod.get(),
                    t.hosts_per_edge.get(),
                    t.cores_per_agg.get(),
                ],
                port,
            ),
        }
    }

    fn plan(&self, fabric: &Fabric, root: &Rng) -> Result<Vec<FlowSpec>, Refusal> {
        let plan = Plan {
            fabric,
            ps_per_byte: self.file.network.gbps.ps_per_byte(),
            packet_bytes: setup::packet_bytes(&self.file),
            transport: self.file.transport.kind,
            marks: self.file.network.mark_above_bytes.is_some(),
        };
        workload::flows(&self.file.workload, &plan, &root.fork(4))
    }
}

fn check_size(topology: &Topology) -> Result<(), String> {
    let (hosts, links) = match topology {
        Topology::LeafSpine(t) => {
            let (racks, spines) = (u64::from(t.racks.get()), u64::from(t.spines.get()));
            let hosts = racks * u64::from(t.hosts_per_rack.get());
            (hosts, 2 * (hosts + racks * spines))
        }
        Topology::Clos3(t) => {
            let (pods, edges) = (u64::from(t.pods.get()), u64::from(t.edges_per_pod.get()));
            let (aggs, cores) = (u64::from(t.aggs_per_pod.get()), u64::from(t.cores_per_agg.get()));
            let hosts = pods * edges * u64::from(t.hosts_per_edge.get());
            (hosts, 2 * (hosts + pods * aggs * (edges + cores)))
        }
    };
    if hosts < 2 {
        return Err("it has 1 host; at least 2 are needed".to_owned());
    }
    if hosts > HOSTS_MAX {
        return Err(format!("it has {hosts} hosts; at most {HOSTS_MAX} are allowed"));
    }
    if links > LINKS_MAX {
        return Err(format!("it has {links} links; at most {LINKS_MAX} are allowed"));
    }
    Ok(())
}

fn line_of(text: &str, span: Range<usize>) -> usize {
    text.get(..span.start).unwrap_or(text).matches('\n').count() + 1
}

fn line_at(text: &str, span: Range<usize>) -> String {
    let line = text.lines().nth(line_of(text, span) - 1).unwrap_or_default();
    format!("\"{}\"", line.trim())
}
