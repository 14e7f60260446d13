//! Scenario files: the description of a simulation, as TOML. A wrong file is refused with the line,
//! the field and what is allowed.

mod data;
mod expect;
mod fault;
mod field;
mod network;
mod setup;
mod spec;

pub use expect::{Bound, Figures};

pub(crate) use data::{Trace, Transfer};
pub(crate) use fault::{Fault, Repair};
pub(crate) use spec::{
    Incast, JitterUs, PersistentIncast, Poisson, RackToRack, Rounds, TransferBytes, Workloads,
};

use crate::fault::Faults;
use crate::flow::FlowSpec;
use crate::outcome::Outcome;
use crate::rng::{Purpose, Rng};
use crate::sample::{Sampler, Samples};
use crate::sim::Sim;
use crate::time::Time;
use crate::topology::Fabric;
use crate::workload::{Plan, Refusal};
use crate::{Violation, workload};
use spec::File;
use std::ops::Range;
use std::path::Path;
use thiserror::Error;

/// The reason why a scenario file is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, {field}: {problem}")]
pub struct ScenarioError {
    /// Line of the file, from 1.
    pub line: usize,
    /// The field, or the text of the line.
    pub field: String,
    /// The problem: what is wrong, and what is allowed.
    pub problem: String,
}

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    file: File,
    /// Texts of the data files it names.
    data: Vec<String>,
}

impl Scenario {
    /// Reads a scenario file and checks that it can be run. Data files that it names are read from
    /// the current folder.
    ///
    /// # Errors
    /// Returns the first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        Self::parse_in(text, Path::new(""))
    }

    /// Reads a scenario file as [`Scenario::parse`] does, with data files relative to `folder`,
    /// which is the scenario file's.
    ///
    /// # Errors
    /// Fails as [`Scenario::parse`] does.
    pub fn parse_in(text: &str, folder: &Path) -> Result<Self, ScenarioError> {
        let mut file: File = toml::from_str(text).map_err(|error| wrong_text(text, &error))?;
        let refuse = |span: Range<usize>, field: &str, problem: String| ScenarioError {
            line: line_of(text, span),
            field: field.to_owned(),
            problem,
        };
        if file.seeds.get_ref().is_empty() {
            let problem = "empty; at least one seed is needed".to_owned();
            return Err(refuse(file.seeds.span(), "seeds", problem));
        }
        let mut seeds = file.seeds.get_ref().clone();
        seeds.sort_unstable();
        if let Some(pair) = seeds.windows(2).find(|pair| pair[0] == pair[1]) {
            let problem = format!("{} is there twice, and would give the same run", pair[0].0);
            return Err(refuse(file.seeds.span(), "seeds", problem));
        }
        let topology = &file.topology;
        let checked = topology.get_ref().check();
        checked.map_err(|problem| refuse(topology.span(), "topology", problem))?;
        let loaded = file.workload.load(folder);
        let data = loaded.map_err(|(span, field, problem)| refuse(span, field, problem))?;
        let scenario = Self { file, data };
        let File { network, topology, .. } = &scenario.file;
        let checked = network.check(topology.get_ref(), setup::packet_bytes(&scenario.file));
        checked
            .and_then(|()| setup::check(&scenario.file))
            .and_then(|()| scenario.file.expect.check(scenario.file.transports()))
            .map_err(|(span, field, problem)| refuse(span, field, problem))?;
        let fabric = scenario.fabric();
        scenario.plan(&fabric, &Rng::new(0)).map_err(|refusal| {
            let Refusal { span, field, problem } = refusal;
            refuse(span, field, problem)
        })?;
        for fault in &scenario.file.fault {
            if let Err((field, problem)) = fault.check(&fabric, scenario.limit_ms()) {
                return Err(refuse(fault.target.span(), field, problem));
            }
        }
        Ok(scenario)
    }

    /// Returns the texts of the data files that it names: with its own text, all that its runs
    /// depend on.
    #[must_use]
    pub fn data(&self) -> &[String] {
        &self.data
    }

    /// Returns a line that says what it shows.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.file.title
    }

    /// Describes its network in a line: hosts, uplinks, rates, and how far these are
    /// oversubscribed.
    #[must_use]
    pub fn network(&self) -> String {
        self.fabric().describe()
    }

    /// Returns the seeds of its runs.
    #[must_use]
    pub fn seeds(&self) -> Vec<u64> {
        self.file.seeds.get_ref().iter().map(|seed| seed.0).collect()
    }

    /// Says why a field of its transports, named from the top of the file, changes nothing for its
    /// flows; `None` if it does, and for all other fields.
    #[must_use]
    pub fn idle_because(&self, field: &str) -> Option<String> {
        setup::idle_because(&self.file, field)
    }

    /// Returns the virtual time after which a run ends in any case.
    #[must_use]
    pub fn limit_ms(&self) -> u32 {
        self.file.limit_ms.get()
    }

    /// Returns the bytes that all flows of a run move (for Poisson arrivals: with the first seed).
    /// Flows that send until a given time count as one, because they share a link.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let seed = self.seeds().first().copied().unwrap_or_default();
        let flows = self.plan(&self.fabric(), &Rng::new(seed)).unwrap_or_default();
        let (endless, finite): (Vec<&FlowSpec>, Vec<&FlowSpec>) =
            flows.iter().partition(|flow| flow.until.is_some());
        let shared = endless.iter().map(|flow| flow.bytes).max().unwrap_or(0);
        shared + finite.iter().map(|flow| flow.bytes).sum::<u64>()
    }

    /// Returns the number of hosts of its network, and of transfers of a run with the first seed.
    /// The fuzz target picks small scenarios by them.
    #[cfg(fuzzing)]
    #[must_use]
    pub fn size(&self) -> (u32, usize) {
        let fabric = self.fabric();
        let seed = self.seeds().first().copied().unwrap_or_default();
        let flows = self.plan(&fabric, &Rng::new(seed)).unwrap_or_default();
        (fabric.hosts(), flows.len())
    }

    /// Runs it once.
    ///
    /// # Errors
    /// Returns a rule of every run that was violated; the scenario and the seed repeat it.
    pub fn run(&self, seed: u64) -> Result<Outcome, Violation> {
        Ok(Outcome::of(&self.simulate(seed, None)?, seed))
    }

    /// Runs it once and looks at flows, queues and uplinks every `interval_us` of virtual time (at
    /// least 1). The outcome is the same as without.
    ///
    /// # Errors
    /// Fails as [`Scenario::run`] does.
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
        let faults = Faults::new(&self.file.fault, &fabric);
        let setup = setup::of(&self.file, &fabric);
        let mut sim = Sim::new(fabric, &flows, setup, &root);
        sim.network.add_faults(faults);
        if let Some(pfc) = self.file.network.pfc_setup(setup::packet_bytes(&self.file)) {
            sim.network.use_pfc(&pfc);
        }
        if let Some(interval_ms) = self.file.workload.share_interval_ms() {
            sim.start_shares(interval_ms);
        }
        if let Some(interval_us) = sample_us {
            sim.start_sampling(Sampler::new(interval_us, sim.flows.len(), &sim.network.fabric));
        }
        sim.run(Time::from_us(u64::from(self.file.limit_ms.get()) * 1000))?;
        Ok(sim)
    }

    /// Returns what a run adds to the figures that the file may expect something of.
    #[must_use]
    pub fn figures(&self, outcome: &Outcome) -> Figures {
        self.file.expect.figures(outcome)
    }

    /// Returns the figures that a file may expect something of, over some runs: always the same, in
    /// the same order. `None` is a run that failed, so that nothing is known of all.
    #[must_use]
    pub fn bounds(&self, runs: &[Option<Figures>]) -> Vec<Bound> {
        self.file.expect.bounds(runs)
    }

    /// Returns the bounds of the file that the means of runs do not keep, one line each.
    #[must_use]
    pub fn missed(&self, outcomes: &[Outcome]) -> Vec<String> {
        let figures: Vec<Option<Figures>> =
            outcomes.iter().map(|outcome| Some(self.figures(outcome))).collect();
        self.bounds(&figures).iter().filter_map(Bound::missed).collect()
    }

    fn fabric(&self) -> Fabric {
        self.file.network.build(self.file.topology.get_ref())
    }

    fn plan(&self, fabric: &Fabric, root: &Rng) -> Result<Vec<FlowSpec>, Refusal> {
        let plan = Plan {
            fabric,
            ps_per_byte: self.file.network.host_gbps().ps_per_byte(),
            packet_bytes: setup::packet_bytes(&self.file),
            transport: self.file.transport.kind,
            marks: self.file.network.mark_above_bytes.is_some(),
        };
        workload::flows(&self.file.workload, &plan, &root.fork(Purpose::Workloads))
    }
}

/// Converts an error of TOML's reader about a text that is no scenario.
fn wrong_text(text: &str, error: &toml::de::Error) -> ScenarioError {
    let span = error.span().unwrap_or(0..0);
    let problem = error.message().replace('\n', " ");
    // Its place would be that of the table around it.
    let missing = problem.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    ScenarioError {
        line: line_of(text, span.clone()),
        field: missing.map_or_else(|| line_at(text, span), str::to_owned),
        problem: missing.map_or_else(|| problem.clone(), |_| "missing".to_owned()),
    }
}

pub(crate) fn line_of(text: &str, span: Range<usize>) -> usize {
    text.get(..span.start).unwrap_or(text).matches('\n').count() + 1
}

pub(crate) fn line_at(text: &str, span: Range<usize>) -> String {
    let line = text.lines().nth(line_of(text, span) - 1).unwrap_or_default();
    format!("\"{}\"", line.trim())
}
