//! Workloads: which flows begin when, and how long each would take at best.

mod trace;

use crate::flow::{FlowSpec, Round};
use crate::rng::Rng;
use crate::scenario::{
    Incast, PersistentIncast, Poisson, RackToRack, Rounds, TransferBytes, Workloads,
};
use crate::time::Time;
use crate::topology::Fabric;
use crate::transport::Kind;
use std::ops::Range;

/// What workloads are planned for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) ps_per_byte: u32,
    /// A full packet on the wire.
    pub(crate) packet_bytes: u32,
    /// What flows use whose workload names no transport.
    pub(crate) transport: Kind,
    /// Queues mark packets.
    pub(crate) marks: bool,
}

/// A workload that does not fit the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) span: Range<usize>,
    pub(crate) field: &'static str,
    pub(crate) problem: String,
}

/// A host and a process of it.
type Process = (u32, u16);

/// A field and what is wrong with it.
type Wrong = (&'static str, String);

/// All flows of all workloads.
pub(crate) fn flows(
    workloads: &Workloads,
    plan: &Plan<'_>,
    root: &Rng,
) -> Result<Vec<FlowSpec>, Refusal> {
    let mut all = Vec::new();
    let mut rng = root.fork(0);
    let mut add = |span: Range<usize>, flows: Result<Vec<FlowSpec>, Wrong>| match flows {
        Ok(flows) => {
            all.extend(flows);
            Ok(())
        }
        Err((field, problem)) => Err(Refusal { span, field, problem }),
    };
    for spec in &workloads.incast {
        let (span, spec) = (spec.span(), spec.get_ref());
        add(span, plan.with(spec.transport).and_then(|plan| plan.incast(spec, &mut rng)))?;
    }
    for spec in &workloads.persistent_incast {
        let (span, spec) = (spec.span(), spec.get_ref());
        add(
            span,
            plan.with(spec.transport).and_then(|plan| plan.persistent_incast(spec, &mut rng)),
        )?;
    }
    for spec in &workloads.permutation {
        let (span, spec) = (spec.span(), spec.get_ref());
        add(span, plan.with(spec.transport).map(|plan| plan.permutation(spec.bytes, &mut rng)))?;
    }
    for spec in &workloads.rack_to_rack {
        let (span, spec) = (spec.span(), spec.get_ref());
        add(span, plan.with(spec.transport).and_then(|plan| plan.rack_to_rack(spec)))?;
    }
    for spec in &workloads.all_to_all {
        let (span, spec) = (spec.span(), spec.get_ref());
        let (hosts, bytes) = (spec.hosts.get(), spec.bytes);
        add(span, plan.with(spec.transport).and_then(|plan| plan.all_to_all(hosts, bytes)))?;
    }
    for spec in &workloads.poisson {
        let (span, spec) = (spec.span(), spec.get_ref());
        add(span, plan.with(spec.transport).and_then(|plan| plan.poisson(spec, &mut rng)))?;
    }
    for spec in &workloads.trace {
        let (span, spec) = (spec.span(), spec.get_ref());
        add(span, plan.with(spec.transport).and_then(|plan| plan.trace(spec)))?;
    }
    if all.is_empty() {
        let problem = "nothing to do: add [[workload.permutation]] or another".to_owned();
        return Err(Refusal { span: 0..0, field: "workload", problem });
    }
    Ok(all)
}

impl Plan<'_> {
    /// The same for a workload that names its transport, or does not.
    fn with(&self, transport: Option<Kind>) -> Result<Self, Wrong> {
        let transport = transport.unwrap_or(self.transport);
        if transport == Kind::Dctcp && !self.marks {
            let problem = "\"dctcp\" reacts to marks: set network.mark_above_bytes".to_owned();
            return Err(("transport", problem));
        }
        Ok(Self { transport, ..*self })
    }

    fn flow(&self, src: Process, dst: Process, bytes: TransferBytes) -> FlowSpec {
        self.flow_of(src, dst, u64::from(bytes.get()))
    }

    fn flow_of(&self, src: Process, dst: Process, bytes: u64) -> FlowSpec {
        FlowSpec {
            transport: self.transport,
            src_host: src.0,
            dst_host: dst.0,
            src_process: src.1,
            dst_process: dst.1,
            bytes,
            start: Time::ZERO,
            until: None,
            round: None,
            ideal_ps: 0,
        }
    }

    fn incast(&self, spec: &Incast, rng: &mut Rng) -> Result<Vec<FlowSpec>, Wrong> {
        let pairs = self.incast_pairs(spec.servers.get(), spec.processes.get(), rng);
        let pairs = pairs.map_err(|problem| ("workload.incast.servers", problem))?;
        let flows = pairs.into_iter().map(|(src, dst)| self.flow(src, dst, spec.bytes));
        Ok(repeated(self.with_shared_ideal(flows.collect()), spec.rounds))
    }

    fn persistent_incast(
        &self,
        spec: &PersistentIncast,
        rng: &mut Rng,
    ) -> Result<Vec<FlowSpec>, Wrong> {
        let pairs = self.incast_pairs(spec.servers.get(), spec.processes.get(), rng);
        let pairs = pairs.map_err(|problem| ("workload.persistent_incast.servers", problem))?;
        let until = Time::from_us(u64::from(spec.until_ms.get()) * 1000);
        // More than a link can carry in that time.
        let bytes = until.as_ps() / u64::from(self.ps_per_byte);
        let flow = |(src, dst): (Process, Process)| {
            let ideal_ps = until.as_ps() + self.rtt_ps(src.0, dst.0);
            FlowSpec { until: Some(until), ideal_ps, ..self.flow_of(src, dst, bytes) }
        };
        Ok(pairs.into_iter().map(flow).collect())
    }

    /// Processes of servers in other racks, each with the process of host 0.
    fn incast_pairs(
        &self,
        wanted: u32,
        processes: u32,
        rng: &mut Rng,
    ) -> Result<Vec<(Process, Process)>, String> {
        let mut servers: Vec<u32> = (self.fabric.hosts_per_rack()..self.fabric.hosts()).collect();
        let there = servers.len();
        if wanted as usize > there {
            return Err(format!("{wanted} servers; the other racks have {there} hosts"));
        }
        rng.shuffle(&mut servers);
        let of_server =
            |&server: &u32| (0..processes as u16).map(move |process| ((server, process), (0, 0)));
        Ok(servers[..wanted as usize].iter().flat_map(of_server).collect())
    }

    /// One cycle through all hosts in a random order (Sattolo).
    fn permutation(&self, bytes: TransferBytes, rng: &mut Rng) -> Vec<FlowSpec> {
        let mut to: Vec<u32> = (0..self.fabric.hosts()).collect();
        for i in (1..to.len()).rev() {
            to.swap(i, rng.below(i as u64) as usize);
        }
        let flows = (0..).zip(to).map(|(src, dst)| self.flow((src, 0), (dst, 0), bytes));
        self.with_shared_ideal(flows.collect())
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
            processes.map(move |process| self.flow((src, process), (dst, process), spec.bytes))
        });
        Ok(repeated(self.with_shared_ideal(flows.collect()), spec.rounds))
    }

    fn all_to_all(&self, hosts: u32, bytes: TransferBytes) -> Result<Vec<FlowSpec>, Wrong> {
        let there = self.fabric.hosts();
        if hosts > there {
            let problem = format!("{hosts} hosts; the topology has {there}");
            return Err(("workload.all_to_all.hosts", problem));
        }
        // Each begins with its neighbour, or host 0 would be everybody's first target.
        let flows = (0..hosts).flat_map(|src| {
            (1..hosts).map(move |step| self.flow((src, 0), ((src + step) % hosts, 0), bytes))
        });
        Ok(self.with_shared_ideal(flows.collect()))
    }

    fn poisson(&self, spec: &Poisson, rng: &mut Rng) -> Result<Vec<FlowSpec>, Wrong> {
        let sizes = Sizes::new(&spec.sizes)?;
        let share = f64::from(spec.load_percent.get()) / 100.0;
        let gap_ps = sizes.mean() * f64::from(self.ps_per_byte) / share;
        let hosts = self.fabric.hosts();
        let end = Time::from_us(u64::from(spec.until_us.get()));
        let mut flows = Vec::new();
        for src in 0..hosts {
            let mut at = Time::ZERO;
            loop {
                at = at.plus_ps((-rng.unit().ln() * gap_ps) as u64);
                if at >= end {
                    break;
                }
                let dst = (src + 1 + rng.below(u64::from(hosts) - 1) as u32) % hosts;
                let bytes = sizes.draw(rng);
                let zero = self.flow((src, 0), (dst, 0), spec.sizes[0].0);
                let ideal_ps = self.transfer_ps(bytes) + self.rtt_ps(src, dst);
                flows.push(FlowSpec { bytes, start: at, ideal_ps, ..zero });
            }
        }
        flows.sort_by_key(|flow| flow.start);
        Ok(flows)
    }

    /// Time that a transfer's packets take on one link.
    fn transfer_ps(&self, bytes: u64) -> u64 {
        let message_bytes = self.transport.message_bytes(self.packet_bytes);
        let packets = bytes.div_ceil(u64::from(message_bytes)).max(1);
        let overhead = u64::from(self.transport.overhead_bytes());
        (bytes + packets * overhead) * u64::from(self.ps_per_byte)
    }

    fn rtt_ps(&self, src: u32, dst: u32) -> u64 {
        self.fabric.base_rtt_ps(src, dst, self.packet_bytes)
    }

    /// Flows that begin together end, at best, when the busier of their two hosts' links has
    /// carried everything of this workload, and the last acknowledgement is back.
    fn with_shared_ideal(&self, mut flows: Vec<FlowSpec>) -> Vec<FlowSpec> {
        let mut busy_ps = vec![[0u64; 2]; self.fabric.hosts() as usize];
        for flow in &flows {
            let ps = self.transfer_ps(flow.bytes);
            busy_ps[flow.src_host as usize][0] += ps;
            busy_ps[flow.dst_host as usize][1] += ps;
        }
        for flow in &mut flows {
            let busiest =
                busy_ps[flow.src_host as usize][0].max(busy_ps[flow.dst_host as usize][1]);
            flow.ideal_ps = busiest + self.rtt_ps(flow.src_host, flow.dst_host);
        }
        flows
    }
}

/// The flows of one round, in each of `rounds`.
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

/// A distribution of sizes, linear between its points.
#[derive(Debug)]
struct Sizes(Vec<(f64, f64)>);

impl Sizes {
    fn new(points: &[(TransferBytes, f64)]) -> Result<Self, Wrong> {
        let points: Vec<(f64, f64)> =
            points.iter().map(|&(bytes, percent)| (f64::from(bytes.get()), percent)).collect();
        let rises = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
        let ends = points.first().is_some_and(|first| first.1 >= 0.0)
            && points.last().is_some_and(|last| last.1 == 100.0);
        if rises && ends {
            return Ok(Self(points));
        }
        let problem = "sizes and percentages must both rise, and the last must be 100.0";
        Err(("workload.poisson.sizes", problem.to_owned()))
    }

    fn mean(&self) -> f64 {
        let first = self.0[0].0 * self.0[0].1;
        let rest = self.0.windows(2).map(|p| (p[0].0 + p[1].0) / 2.0 * (p[1].1 - p[0].1));
        (first + rest.sum::<f64>()) / 100.0
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let percent = rng.unit() * 100.0;
        let above = self.0.iter().position(|point| point.1 >= percent).unwrap_or(0);
        if above == 0 {
            return self.0[0].0 as u64;
        }
        let ((from, low), (to, high)) = (self.0[above - 1], self.0[above]);
        (from + (to - from) * (percent - low) / (high - low)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::leaf_spine;
    use crate::topology::tests::PORT;

    fn with_plan<T>(test: impl FnOnce(&Plan<'_>) -> T) -> T {
        let fabric = leaf_spine(4, 8, 4, PORT);
        test(&Plan {
            fabric: &fabric,
            ps_per_byte: 80,
            packet_bytes: 4150,
            transport: Kind::Srd,
            marks: false,
        })
    }

    fn parse<T: serde::de::DeserializeOwned>(text: &str) -> T {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_permutation_uses_every_host_once_each_way() {
        with_plan(|plan| {
            let bytes = parse::<Incast>("servers = 1\nprocesses = 1\nbytes = 2000000").bytes;
            let flows = plan.permutation(bytes, &mut Rng::new(3));
            let mut targets: Vec<u32> = flows.iter().map(|flow| flow.dst_host).collect();
            targets.sort_unstable();
            assert_eq!(targets, (0..32).collect::<Vec<_>>());
            assert!(flows.iter().all(|flow| flow.src_host != flow.dst_host));
            let packets_ps = (2_000_000 + 493 * 90) * 80;
            assert!(flows.iter().all(|flow| flow.ideal_ps > packets_ps));
            assert!(flows.iter().all(|flow| flow.ideal_ps < packets_ps + 11_000_000));
        });
    }

    #[test]
    fn incast_comes_from_other_racks_and_shares_the_last_link() {
        with_plan(|plan| {
            let spec = "servers = 4\nprocesses = 12\nbytes = 100000";
            let flows = plan.incast(&parse(spec), &mut Rng::new(3)).unwrap();
            assert_eq!(flows.len(), 48);
            assert!(flows.iter().all(|flow| flow.dst_host == 0 && flow.src_host >= 8));
            assert!(flows[0].ideal_ps > 48 * 100_000 * 80);
            let many = "servers = 25\nprocesses = 1\nbytes = 1";
            assert!(plan.incast(&parse(many), &mut Rng::new(3)).is_err());
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
            for (number, flow) in (0..).zip(&flows) {
                let round = flow.round.unwrap();
                assert_eq!(round.first_flow(number), round.number * 6);
                assert_eq!(round.is_last(), number >= 18);
                assert_eq!(FlowSpec { round: None, ..*flow }, once[number as usize % 6]);
            }
        });
    }

    #[test]
    fn poisson_reaches_its_load() {
        with_plan(|plan| {
            let spec =
                "load_percent = 40\nuntil_us = 20000\nsizes = [[1000, 50.0], [200000, 100.0]]";
            let flows = plan.poisson(&parse(spec), &mut Rng::new(3)).unwrap();
            let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
            let load = bytes as f64 * 80.0 / (32.0 * 20e9);
            assert!((0.37..0.43).contains(&load), "{load}");
            assert!(flows.is_sorted_by_key(|flow| flow.start));
            let falls = "load_percent = 40\nuntil_us = 1\nsizes = [[1000, 50.0], [900, 100.0]]";
            assert!(plan.poisson(&parse(falls), &mut Rng::new(3)).is_err());
        });
    }
}
