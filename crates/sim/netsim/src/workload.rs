//! Workloads: the flows of a run, their begin, and the best time that each could take.

mod ideal;
mod incast;
mod poisson;
mod trace;

use crate::flow::{FlowSpec, Round};
use crate::id::{Ends, HostId, Process};
use crate::rng::{Purpose, Rng};
use crate::scenario::{JitterUs, RackToRack, Rounds, TransferBytes, Workloads};
use crate::time::Time;
use crate::topology::Fabric;
use crate::transport::Kind;
use std::ops::Range;
use toml::Spanned;

/// Maximum number of transfers of a run: each takes some hundred bytes to a few kilobytes.
pub(crate) const FLOWS_MAX: u64 = 2_000_000;

/// The settings that workloads are planned for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) ps_per_byte: u32,
    /// Length of a full packet on the wire.
    pub(crate) packet_bytes: u32,
    /// Transport of flows whose workload names none.
    pub(crate) transport: Kind,
    /// Whether queues mark packets.
    pub(crate) marks: bool,
}

/// A workload that does not fit the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) span: Range<usize>,
    pub(crate) field: &'static str,
    pub(crate) problem: String,
}

/// A field and what is wrong with it.
type Wrong = (&'static str, String);

/// Plans all flows of all workloads.
pub(crate) fn flows(
    workloads: &Workloads,
    plan: &Plan<'_>,
    root: &Rng,
) -> Result<Vec<FlowSpec>, Refusal> {
    let mut rng = root.fork(Purpose::Transfers);
    let mut starts = root.fork(Purpose::Starts);
    let mut planner = Planner { plan, all: Vec::new(), count: 0 };
    let all_of = |parts: &[u32]| parts.iter().map(|&part| u64::from(part)).product::<u64>();
    let rounds = |rounds: Option<Rounds>| rounds.map_or(1, Rounds::get);
    let Workloads { incast, persistent_incast, permutation, .. } = workloads;
    planner.each(
        "workload.incast",
        incast,
        |spec| all_of(&[spec.servers.get(), spec.processes.get(), rounds(spec.rounds)]),
        |plan, spec| {
            let flows = plan.with(spec.transport)?.incast(spec, &mut rng)?;
            Ok(jittered(flows, spec.jitter_us, &mut starts))
        },
    )?;
    planner.each(
        "workload.persistent_incast",
        persistent_incast,
        |spec| all_of(&[spec.servers.get(), spec.processes.get()]),
        |plan, spec| plan.with(spec.transport)?.persistent_incast(spec, &mut rng),
    )?;
    planner.each(
        "workload.permutation",
        permutation,
        |_| u64::from(plan.fabric.hosts()),
        |plan, spec| {
            let flows = plan.with(spec.transport)?.permutation(spec.bytes, &mut rng);
            Ok(jittered(flows, spec.jitter_us, &mut starts))
        },
    )?;
    let Workloads { rack_to_rack, all_to_all, poisson, trace, .. } = workloads;
    planner.each(
        "workload.rack_to_rack",
        rack_to_rack,
        |spec| all_of(&[spec.hosts.get(), spec.processes.get(), rounds(spec.rounds)]),
        |plan, spec| {
            let flows = plan.with(spec.transport)?.rack_to_rack(spec)?;
            Ok(jittered(flows, spec.jitter_us, &mut starts))
        },
    )?;
    planner.each(
        "workload.all_to_all",
        all_to_all,
        |spec| all_of(&[spec.hosts.get(), spec.hosts.get() - 1]),
        |plan, spec| {
            let flows = plan.with(spec.transport)?.all_to_all(spec.hosts.get(), spec.bytes)?;
            Ok(jittered(flows, spec.jitter_us, &mut starts))
        },
    )?;
    planner.each(
        "workload.poisson",
        poisson,
        |spec| plan.poisson_count(spec) as u64,
        |plan, spec| plan.with(spec.transport)?.poisson(spec, &mut rng),
    )?;
    planner.each(
        "workload.trace",
        trace,
        |spec| spec.transfers.len() as u64,
        |plan, spec| plan.with(spec.transport)?.trace(spec),
    )?;
    planner.finish()
}

/// Collects the flows of workloads, one after the other.
struct Planner<'a> {
    plan: &'a Plan<'a>,
    all: Vec<FlowSpec>,
    /// Number of flows so far, where they come at random the expected number: whether a scenario is
    /// refused does not depend on its seed.
    count: u64,
}

impl Planner<'_> {
    /// Adds the flows of all workloads of a kind, which has a `field`. `count` returns their number
    /// before there is memory for them.
    fn each<T>(
        &mut self,
        field: &'static str,
        specs: &[Spanned<T>],
        count: impl Fn(&T) -> u64,
        mut flows: impl FnMut(&Plan<'_>, &T) -> Result<Vec<FlowSpec>, Wrong>,
    ) -> Result<(), Refusal> {
        for spec in specs {
            let refuse = |(field, problem)| Refusal { span: spec.span(), field, problem };
            self.count = self.count.saturating_add(count(spec.get_ref()));
            let planned = self.count;
            if planned > FLOWS_MAX {
                let problem =
                    format!("{planned} transfers up to here; at most {FLOWS_MAX} are allowed");
                return Err(refuse((field, problem)));
            }
            self.all.extend(flows(self.plan, spec.get_ref()).map_err(refuse)?);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<FlowSpec>, Refusal> {
        if self.count == 0 {
            let problem = "nothing to do: add [[workload.permutation]] or another".to_owned();
            return Err(Refusal { span: 0..0, field: "workload", problem });
        }
        self.plan.share(&mut self.all);
        Ok(self.all)
    }
}

impl Plan<'_> {
    /// Returns the plan for a workload that names its transport, or does not.
    fn with(&self, transport: Option<Kind>) -> Result<Self, Wrong> {
        let transport = transport.unwrap_or(self.transport);
        if transport == Kind::Dctcp && !self.marks {
            let problem = "\"dctcp\" reacts to marks: set network.mark_above_bytes".to_owned();
            return Err(("transport", problem));
        }
        Ok(Self { transport, ..*self })
    }

    fn flow(&self, ends: Ends<Process>, bytes: TransferBytes) -> FlowSpec {
        self.flow_of(ends, u64::from(bytes.get()))
    }

    fn flow_of(&self, ends: Ends<Process>, bytes: u64) -> FlowSpec {
        FlowSpec {
            transport: self.transport,
            src: ends.src,
            dst: ends.dst,
            bytes,
            start: Time::ZERO,
            until: None,
            round: None,
            ideal_ps: 0,
        }
    }

    /// Returns one cycle through all hosts in a random order (Sattolo).
    fn permutation(&self, bytes: TransferBytes, rng: &mut Rng) -> Vec<FlowSpec> {
        let hosts = HostId(0).range(self.fabric.hosts());
        let mut to: Vec<HostId> = hosts.clone().collect();
        for i in (1..to.len()).rev() {
            to.swap(i, rng.below(i as u64) as usize);
        }
        hosts.zip(to).map(|(src, dst)| self.flow(first_processes(src, dst), bytes)).collect()
    }

    fn rack_to_rack(&self, spec: &RackToRack) -> Result<Vec<FlowSpec>, Wrong> {
        let (racks, per_rack) = (self.fabric.racks(), self.fabric.hosts_per_rack());
        if spec.from_rack >= racks || spec.to_rack >= racks || spec.from_rack == spec.to_rack {
            let (from, to) = (spec.from_rack, spec.to_rack);
            let problem = format!("{from} to {to}; two different racks of 0 to {}", racks - 1);
            return Err(("workload.rack_to_rack.from_rack, to_rack", problem));
        }
        let (first, hosts) = (spec.first_host, spec.hosts.get());
        if first.saturating_add(hosts) > per_rack {
            let problem = format!("{hosts} hosts from {first} on; a rack has {per_rack}");
            return Err(("workload.rack_to_rack.hosts", problem));
        }
        let flows = (first..first + hosts).flat_map(|host| {
            let (src, dst) = (spec.from_rack * per_rack + host, spec.to_rack * per_rack + host);
            let processes = 0..spec.processes.get() as u16;
            let process = |host: u32, number: u16| Process { host: HostId(host), number };
            processes.map(move |number| {
                let ends = Ends { src: process(src, number), dst: process(dst, number) };
                self.flow(ends, spec.bytes)
            })
        });
        Ok(repeated(flows.collect(), spec.rounds))
    }

    fn all_to_all(&self, hosts: u32, bytes: TransferBytes) -> Result<Vec<FlowSpec>, Wrong> {
        let there = self.fabric.hosts();
        if hosts > there {
            let problem = format!("{hosts} hosts; the topology has {there}");
            return Err(("workload.all_to_all.hosts", problem));
        }
        // Each begins with its neighbour, or host 0 would be everybody's first target.
        let flows = (0..hosts).flat_map(|src| {
            (1..hosts).map(move |step| {
                let dst = HostId((src + step) % hosts);
                self.flow(first_processes(HostId(src), dst), bytes)
            })
        });
        Ok(flows.collect())
    }
}

/// Returns the first process of a host.
fn first_process(host: HostId) -> Process {
    Process { host, number: 0 }
}

/// Returns the first processes of two hosts.
fn first_processes(src: HostId, dst: HostId) -> Ends<Process> {
    Ends { src: first_process(src), dst: first_process(dst) }
}

/// Delays the begin of each flow by a random time of at most `jitter_us`; in rounds anew.
fn jittered(mut flows: Vec<FlowSpec>, jitter_us: Option<JitterUs>, rng: &mut Rng) -> Vec<FlowSpec> {
    if let Some(jitter_us) = jitter_us {
        let most = Time::from_us(u64::from(jitter_us.get())).as_ps();
        flows.iter_mut().for_each(|flow| flow.start = Time::ZERO.plus_ps(rng.below(most + 1)));
    }
    flows
}

/// Repeats the flows of one round in each of `rounds`.
fn repeated(flows: Vec<FlowSpec>, rounds: Option<Rounds>) -> Vec<FlowSpec> {
    let Some(rounds) = rounds.map(Rounds::get).filter(|&rounds| rounds > 1) else { return flows };
    let count = flows.len() as u32;
    let round = |number: u32| {
        (0..).zip(&flows).map(move |(place, &flow)| {
            let round = Round { number, rounds, flows: count, place };
            FlowSpec { round: Some(round), ..flow }
        })
    };
    (0..rounds).flat_map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::FlowId;
    use crate::scenario::Incast;
    use crate::topology::leaf_spine;
    use crate::topology::tests::PORT;

    pub(super) fn with_plan<T>(test: impl FnOnce(&Plan<'_>) -> T) -> T {
        let fabric = leaf_spine(4, 8, 4, PORT);
        test(&Plan {
            fabric: &fabric,
            ps_per_byte: 80,
            packet_bytes: 4150,
            transport: Kind::Srd,
            marks: false,
        })
    }

    pub(super) fn parse<T: serde::de::DeserializeOwned>(text: &str) -> T {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_permutation_uses_every_host_once_each_way() {
        with_plan(|plan| {
            let bytes = parse::<Incast>("servers = 1\nprocesses = 1\nbytes = 2000000").bytes;
            let flows = plan.permutation(bytes, &mut Rng::new(3));
            let mut targets: Vec<u32> = flows.iter().map(|flow| flow.dst.host.0).collect();
            targets.sort_unstable();
            assert_eq!(targets, (0..32).collect::<Vec<_>>());
            assert!(flows.iter().all(|flow| flow.src.host != flow.dst.host));
        });
    }

    #[test]
    fn jitter_spreads_starts_and_draws_nothing_else() {
        with_plan(|plan| {
            let spec = "[[incast]]\nservers = 4\nprocesses = 12\nbytes = 100000\nrounds = 2\n";
            let plain = flows(&parse(spec), plan, &Rng::new(3)).unwrap();
            let jitter = format!("{spec}jitter_us = 10\n");
            let spread = flows(&parse(&jitter), plan, &Rng::new(3)).unwrap();
            let starts: Vec<u64> = spread.iter().map(|flow| flow.start.as_ps()).collect();
            assert!(starts.iter().all(|&ps| ps <= 10_000_000), "{starts:?}");
            let (least, most) = (starts.iter().min().unwrap(), starts.iter().max().unwrap());
            assert!(*least < 1_000_000 && *most > 9_000_000, "{starts:?}");
            assert_ne!(starts[..48], starts[48..], "each round has its own");
            let without: Vec<FlowSpec> =
                spread.iter().map(|flow| FlowSpec { start: Time::ZERO, ..*flow }).collect();
            assert_eq!(without, plain);
            let other = flows(&parse(&jitter), plan, &Rng::new(4)).unwrap();
            assert_ne!(other[0].start, spread[0].start);
        });
    }

    #[test]
    fn rounds_repeat_the_same_flows() {
        with_plan(|plan| {
            let spec = "servers = 2\nprocesses = 3\nbytes = 100000";
            let once = plan.incast(&parse(spec), &mut Rng::new(3)).unwrap();
            let spec = format!("{spec}\nrounds = 4");
            let flows = plan.incast(&parse(&spec), &mut Rng::new(3)).unwrap();
            assert_eq!(flows.len(), 24);
            for (number, flow) in FlowId::all().zip(&flows) {
                let round = flow.round.unwrap();
                assert_eq!(round.first_flow(number), FlowId(round.number * 6));
                assert_eq!(round.is_last(), number >= FlowId(18));
                assert_eq!(FlowSpec { round: None, ..*flow }, once[number.index() % 6]);
            }
        });
    }
}
