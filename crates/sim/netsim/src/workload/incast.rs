//! Incast: many hosts send to one.

use super::{Plan, Wrong, first_process, repeated};
use crate::flow::FlowSpec;
use crate::id::{Ends, HostId, Process};
use crate::rng::Rng;
use crate::scenario::{Incast, PersistentIncast};
use crate::time::Time;

impl Plan<'_> {
    pub(super) fn incast(&self, spec: &Incast, rng: &mut Rng) -> Result<Vec<FlowSpec>, Wrong> {
        let pairs = self.incast_pairs(spec.servers.get(), spec.processes.get(), rng);
        let pairs = pairs.map_err(|problem| ("workload.incast.servers", problem))?;
        let flows = pairs.into_iter().map(|ends| self.flow(ends, spec.bytes));
        Ok(repeated(flows.collect(), spec.rounds))
    }

    pub(super) fn persistent_incast(
        &self,
        spec: &PersistentIncast,
        rng: &mut Rng,
    ) -> Result<Vec<FlowSpec>, Wrong> {
        let pairs = self.incast_pairs(spec.servers.get(), spec.processes.get(), rng);
        let pairs = pairs.map_err(|problem| ("workload.persistent_incast.servers", problem))?;
        if spec.interval_ms.get() > spec.until_ms.get() {
            let problem = "longer than until_ms: no interval would end".to_owned();
            return Err(("workload.persistent_incast.interval_ms", problem));
        }
        let until = Time::from_us(u64::from(spec.until_ms.get()) * 1000);
        // More than a link can carry in that time.
        let bytes = until.as_ps() / u64::from(self.ps_per_byte);
        let messages = bytes.div_ceil(u64::from(self.transport.message_bytes(self.packet_bytes)));
        if messages > u64::from(u32::MAX) {
            let problem = format!(
                "a flow may send {messages} messages until then, each in a packet; at most {} can \
                 be counted",
                u32::MAX
            );
            return Err(("workload.persistent_incast.until_ms", problem));
        }
        let flow = |ends: Ends<Process>| {
            let flow = self.flow_of(ends, bytes);
            let ideal_ps = until.as_ps() + self.tail_ps(&flow);
            FlowSpec { until: Some(until), ideal_ps, ..flow }
        };
        Ok(pairs.into_iter().map(flow).collect())
    }

    /// Pairs processes of servers in other racks with the process of host 0.
    fn incast_pairs(
        &self,
        wanted: u32,
        processes: u32,
        rng: &mut Rng,
    ) -> Result<Vec<Ends<Process>>, String> {
        let (hosts, per_rack) = (self.fabric.hosts(), self.fabric.hosts_per_rack());
        let mut servers: Vec<HostId> = HostId(per_rack).range(hosts - per_rack).collect();
        let there = servers.len();
        if wanted as usize > there {
            return Err(format!("{wanted} servers; the other racks have {there} hosts"));
        }
        rng.shuffle(&mut servers);
        let dst = first_process(HostId(0));
        let of_server = |&host: &HostId| {
            (0..processes as u16).map(move |number| Ends { src: Process { host, number }, dst })
        };
        Ok(servers[..wanted as usize].iter().flat_map(of_server).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parse, with_plan};
    use super::*;

    #[test]
    fn incast_comes_from_other_racks_and_shares_the_last_link() {
        with_plan(|plan| {
            let spec = "servers = 4\nprocesses = 12\nbytes = 100000";
            let flows = plan.incast(&parse(spec), &mut Rng::new(3)).unwrap();
            assert_eq!(flows.len(), 48);
            assert!(
                flows.iter().all(|flow| flow.dst.host == HostId(0) && flow.src.host >= HostId(8))
            );
            let many = "servers = 25\nprocesses = 1\nbytes = 1";
            assert!(plan.incast(&parse(many), &mut Rng::new(3)).is_err());
        });
    }
}
