//! The facts about a workload that the command line, plans and reports need.

use super::{WorkArgs, WorkSpec};
use crate::names::Preset;
use crate::spec::{EndpointKind, Flow, JobSpec, Operation};
use crate::topology::Topology;

/// The facts about a workload that need no fabric.
#[derive(Debug)]
pub struct About {
    /// The name of the workload in tables and on pages.
    pub name: &'static str,
    /// The names by which the user asks for the workload, and their meanings.
    pub names: &'static [Preset],
    /// True if the workload is a data system's: calls that a server answers.
    pub is_workload: bool,
    /// The nodes that talk to each other.
    pub topology: Topology,
    /// True if more than two nodes can take part.
    pub is_for_groups: bool,
    /// The number of directions in which messages go at the same time: 1 or 2.
    pub directions: usize,
    /// The kind of figures that the points hold, which decides on tables and verdicts.
    pub figures: Figures,
    /// Returns the specification in words; `None`: a group of nodes.
    pub words: fn(&WorkSpec) -> Option<String>,
    /// The name of the workload's parameter, for the head of a column; `None`: it has none.
    pub parameter: Option<&'static str>,
    /// The options that the workload reads, beside those that all workloads read.
    pub reads: &'static [&'static [&'static str]],
    /// Returns the values of the workload's parameter, one after the other.
    pub parameters: fn(&WorkArgs) -> Result<Vec<usize>, String>,
    /// Returns the operation that moves bytes, if an option of the workload decides that.
    pub operation: fn(&WorkArgs) -> Option<Operation>,
    /// Returns the specification that the options ask for.
    pub spec: fn(&WorkArgs, &Preset) -> Result<WorkSpec, String>,
    /// Refuses requests that contradict themselves or cannot be done, beyond the rules for all
    /// workloads.
    pub check: fn(&JobRequest<'_>) -> Result<(), String>,
}

/// The kind of figures that the points of a benchmark hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figures {
    /// Half round trips.
    RoundTrips,
    /// Response times, and service times.
    Responses,
    /// A goodput.
    Stream,
    /// Operations on 8 bytes, and their times if they come one at a time.
    Atomics,
    /// Operations, their times and their cost.
    Calls,
    /// Connections, and the parts of their times.
    Connections,
    /// Operations, their times, their cost, and READs.
    Lookups,
    /// Operations, their times and their cost, with several operations to a message.
    Records,
    /// Operations that move many bytes each.
    Files,
    /// Flows into one node.
    Incast,
    /// Tuples that all nodes got.
    Shuffle,
    /// Times of operations of all ranks.
    Collective,
    /// Round trips and goodput of each pair of nodes.
    Matrix,
}

/// A job that is asked for, to be checked.
#[derive(Debug)]
pub struct JobRequest<'a> {
    pub job: &'a JobSpec,
    pub sizes: &'a [usize],
    /// The least of the depths.
    pub shortest: usize,
    pub validate: bool,
}

/// The options that all streams read.
pub(super) const STREAM: &[&str] = &[
    "threads",
    "endpoints",
    "depth",
    "window",
    "complete_every",
    "memory",
    "post_list",
    "iterations",
];
/// The option of workloads whose two sides can sleep while they wait.
pub(super) const SLEEPS: &[&str] = &["events"];
/// The options that all workloads read whose operations may come by the clock.
pub(super) const CALLS: &[&str] =
    &["threads", "depth", "rate", "ramp", "arrivals", "validate", "iterations", "watch"];

impl About {
    /// The defaults of a benchmark between two nodes, which sends messages.
    pub(super) const MESSAGES: Self = Self {
        name: "",
        names: &[],
        is_workload: false,
        topology: Topology::Star,
        is_for_groups: false,
        directions: 1,
        figures: Figures::Stream,
        words: |_| None,
        parameter: None,
        reads: &[],
        parameters: |_| Ok(vec![0]),
        operation: |_| None,
        spec: |_, _| Ok(WorkSpec::NONE),
        check: two_sided,
    };
    /// The defaults of a workload of one server and a client.
    pub(super) const CALLS: Self =
        Self { is_workload: true, figures: Figures::Calls, check: |_| Ok(()), ..Self::MESSAGES };
    /// The defaults of a workload of several nodes.
    pub(super) const GROUP: Self = Self { is_for_groups: true, ..Self::CALLS };

    /// Returns true if an option changes what is measured.
    pub fn reads(&self, option: &str) -> bool {
        self.reads.iter().any(|group| group.contains(&option))
    }

    /// Refuses requests that contradict themselves or cannot be done; the text of the error belongs
    /// after the name.
    pub fn check(&self, asked: &JobRequest<'_>) -> Result<(), String> {
        let Flow { complete_every, post_list, .. } = asked.job.flow;
        for (option, value) in [("--complete-every", complete_every), ("--post-list", post_list)] {
            if value == 0 || value > asked.shortest {
                let shortest = asked.shortest;
                return Err(format!("{option} {value}: give 1 to the depth, {shortest}"));
            }
        }
        if self.is_workload {
            answerable(asked.job)?;
        }
        (self.check)(asked)
    }
}

/// Refuses one-sided operations.
pub(super) fn two_sided(asked: &JobRequest<'_>) -> Result<(), String> {
    let operation = asked.job.operation;
    match operation.is_one_sided() {
        true => Err(format!("--op {} is not for this benchmark", operation.name())),
        false => Ok(()),
    }
}

/// Refuses a stream whose messages cannot be told apart as the options require.
pub(super) fn stream(asked: &JobRequest<'_>) -> Result<(), String> {
    let JobRequest { job, validate, .. } = *asked;
    let (Flow { complete_every, post_list, .. }, operation) = (job.flow, job.operation);
    if complete_every > 1 && (operation.is_injected() || operation == Operation::Read) {
        return Err(format!("--op {} has no say in its completion", operation.name()));
    }
    if complete_every > 1 && job.memory_bytes > 0 {
        return Err("--memory needs to know when each operation is complete".to_owned());
    }
    if post_list > 1 && operation.is_injected() {
        return Err(format!("--op {} is not posted in lists", operation.name()));
    }
    if validate && complete_every > 1 {
        return Err("--validate needs messages of their own content: not possible here".to_owned());
    }
    if job.memory_bytes > 0 && job.memory_bytes / job.max_size_bytes.max(1) < job.tx_depth {
        return Err(format!("--memory {}: too little for the depth", job.memory_bytes));
    }
    Ok(())
}

/// Refuses jobs that no server could answer.
fn answerable(job: &JobSpec) -> Result<(), String> {
    if job.endpoint == EndpointKind::Dgram {
        return Err("calls need a reliable fabric: datagrams are not asked for again".to_owned());
    }
    let reads = job.work.way != super::LookupMethod::Rpc;
    if reads != (job.operation == Operation::Read) {
        return Err("--op is not for this way".to_owned());
    }
    if !reads && !matches!(job.operation, Operation::Send | Operation::Tagged) {
        return Err(format!("--op {} is not for calls", job.operation.name()));
    }
    Ok(())
}
