//! Best possible completion times of transfers.
//!
//! Packets follow each other without a gap on the first link, the last one, which may be short,
//! takes the rest of the way, and its acknowledgement comes back. A transfer alone is no faster,
//! whatever paths its packets take. Of transfers that begin together, the last ends at best when
//! the busier of its hosts' links has carried all of them, and all links out of its racks and pods
//! together have carried what crosses them: where they are too few for their hosts, these decide.
//! A transport with one path uses only one link of each tier, which may be slower than its hosts'.

use super::Plan;
use crate::flow::{FlowSpec, Round};
use crate::id::HostId;
use crate::topology::Group;
use crate::transport::Kind;

/// Bytes that flows send out of and into each host, rack and pod.
struct Busy<'a> {
    groups: &'a [Group],
    bytes: Vec<Vec<[u64; 2]>>,
}

impl<'a> Busy<'a> {
    fn of<'b>(plan: &Plan<'a>, flows: impl Iterator<Item = &'b FlowSpec>) -> Self {
        let groups = plan.fabric.groups();
        let of_kind = |group: &Group| vec![[0; 2]; (plan.fabric.hosts() / group.hosts) as usize];
        let mut bytes: Vec<Vec<[u64; 2]>> = groups.iter().map(of_kind).collect();
        for flow in flows {
            let wire_bytes = plan.wire_bytes(flow.transport, flow.bytes);
            for (group, bytes) in groups.iter().zip(&mut bytes) {
                if let Some((from, to)) = group.left_by(flow) {
                    bytes[from][0] += wire_bytes;
                    bytes[to][1] += wire_bytes;
                }
            }
        }
        Self { groups, bytes }
    }

    /// Returns the time for what shares the busiest of a flow's links.
    fn longest_ps(&self, flow: &FlowSpec) -> u64 {
        let times = self.groups.iter().zip(&self.bytes).filter_map(|(group, bytes)| {
            let (from, to) = group.left_by(flow)?;
            Some(group.time_ps(bytes[from][0].max(bytes[to][1])))
        });
        times.max().unwrap_or(0)
    }
}

impl Group {
    /// Returns the groups of this kind that a flow leaves and enters; `None` when it stays within
    /// one.
    fn left_by(&self, flow: &FlowSpec) -> Option<(usize, usize)> {
        let place = |host: HostId| host.index() / self.hosts as usize;
        let (from, to) = (place(flow.src.host), place(flow.dst.host));
        (from != to).then_some((from, to))
    }

    /// Returns the time that its links together take for some bytes.
    fn time_ps(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.ps_per_byte) / u128::from(self.links)) as u64
    }
}

impl Plan<'_> {
    /// Returns the bytes of a transfer's packets with their headers.
    fn wire_bytes(&self, transport: Kind, bytes: u64) -> u64 {
        let message_bytes = transport.message_bytes(self.packet_bytes);
        let full_packets = bytes.saturating_sub(1) / u64::from(message_bytes);
        let full_bytes = full_packets * u64::from(transport.packet_bytes(message_bytes));
        full_bytes + u64::from(self.last_packet_bytes(transport, bytes))
    }

    /// Returns the bytes of a transfer's last packet with its headers, which may be short.
    fn last_packet_bytes(&self, transport: Kind, bytes: u64) -> u32 {
        let message_bytes = u64::from(transport.message_bytes(self.packet_bytes));
        let last_bytes = bytes - bytes.saturating_sub(1) / message_bytes * message_bytes;
        transport.packet_bytes(last_bytes as u32)
    }

    /// Returns the time that a transfer's packets take on a host's link.
    pub(super) fn transfer_ps(&self, transport: Kind, bytes: u64) -> u64 {
        self.wire_bytes(transport, bytes) * u64::from(self.ps_per_byte)
    }

    /// Returns the time from the last bit of a flow on its first link to the acknowledgement.
    pub(super) fn tail_ps(&self, flow: &FlowSpec) -> u64 {
        let packet_bytes = self.last_packet_bytes(flow.transport, flow.bytes);
        let hosts = flow.hosts();
        let there_ps = self.fabric.way_ps(hosts, packet_bytes);
        let back_ps = self.fabric.way_ps(hosts.reversed(), flow.transport.ack_bytes());
        there_ps - u64::from(packet_bytes) * u64::from(self.ps_per_byte) + back_ps
    }

    /// Returns the time that a flow's packets take on the slowest link of its way, as far as it is
    /// not in [`Plan::tail_ps`]; 0 for a flow that spreads them over all ways.
    fn one_path_ps(&self, flow: &FlowSpec) -> u64 {
        if !flow.transport.has_one_path() {
            return 0;
        }
        let last_bytes = u64::from(self.last_packet_bytes(flow.transport, flow.bytes));
        let others_bytes = self.wire_bytes(flow.transport, flow.bytes) - last_bytes;
        let crossed = self.fabric.groups().iter().filter(|group| group.left_by(flow).is_some());
        let slowest = crossed.map(|group| u64::from(group.ps_per_byte)).max().unwrap_or(0);
        others_bytes * slowest + last_bytes * u64::from(self.ps_per_byte)
    }

    /// Returns the best completion time of a flow in a network that does nothing else.
    pub(super) fn alone_ps(&self, flow: &FlowSpec) -> u64 {
        let wire_bytes = self.wire_bytes(flow.transport, flow.bytes);
        let crossed = self.fabric.groups().iter().filter(|group| group.left_by(flow).is_some());
        let busiest = crossed.map(|group| group.time_ps(wire_bytes)).max();
        busiest.unwrap_or(0).max(self.one_path_ps(flow)) + self.tail_ps(flow)
    }

    /// Fills in the best completion times that are zero: those of flows of all workloads that begin
    /// together. A round after the first shares its links with itself only.
    pub(super) fn share(&self, flows: &mut [FlowSpec]) {
        let shares = |flow: &&FlowSpec| flow.ideal_ps == 0;
        let is_first = |flow: &&FlowSpec| flow.round.is_none_or(|round| round.number == 0);
        let together = Busy::of(self, flows.iter().filter(shares).filter(is_first));
        let mut own = Busy { groups: &[], bytes: Vec::new() };
        for number in 0..flows.len() {
            let flow = flows[number];
            if flow.ideal_ps > 0 {
                continue;
            }
            flows[number].ideal_ps = match flow.round {
                Some(Round { number: 1, flows: count, place, .. }) => {
                    if place == 0 {
                        own = Busy::of(self, flows[number..number + count as usize].iter());
                    }
                    own.longest_ps(&flow).max(self.one_path_ps(&flow)) + self.tail_ps(&flow)
                }
                Some(Round { number: 2.., flows: count, .. }) => {
                    flows[number - count as usize].ideal_ps
                }
                _ => together.longest_ps(&flow).max(self.one_path_ps(&flow)) + self.tail_ps(&flow),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flows;
    use super::super::tests::{parse, with_plan};
    use crate::flow::FlowSpec;
    use crate::rng::Rng;

    fn ideals(text: &str) -> Vec<(FlowSpec, u64)> {
        with_plan(|plan| {
            let all = flows(&parse(text), plan, &Rng::new(3)).unwrap();
            all.into_iter().map(|flow| (flow, flow.ideal_ps)).collect()
        })
    }

    const INCAST: &str = "[[incast]]\nservers = 4\nprocesses = 12\nbytes = 100000\n";

    #[test]
    fn flows_that_begin_together_share_the_busier_link() {
        let packets_ps = (2_000_000 + 493 * 90) * 80;
        let permutation = ideals("[[permutation]]\nbytes = 2000000\n");
        assert!(permutation.iter().all(|&(_, ps)| ps > packets_ps));
        // At worst all of a rack leave it, over half as many uplinks.
        assert!(permutation.iter().all(|&(_, ps)| ps < 2 * packets_ps + 10_000_000));
        let once = ideals(INCAST)[0].1;
        assert!(once > 48 * 100_000 * 80);
        // Twice the same, as two workloads, and of two transports.
        let twice = ideals(&format!("{INCAST}{INCAST}transport = \"tcp\"\n"));
        assert!(twice.iter().all(|&(_, ps)| ps > 2 * 48 * 100_000 * 80), "{:?}", twice[0]);
    }

    #[test]
    fn racks_with_few_uplinks_share_them() {
        // 8 hosts of 100 Gbit/s below 4 uplinks of 100: twice as much as they carry.
        let rack = "[[rack_to_rack]]\nfrom_rack = 0\nto_rack = 1\nprocesses = 1\nbytes = 2000000\n";
        let packets_ps = (2_000_000 + 493 * 90) * 80;
        let few = ideals(&format!("{rack}hosts = 4\n"))[0].1;
        let all = ideals(&format!("{rack}hosts = 8\n"))[0].1;
        assert!((packets_ps..packets_ps + 10_000_000).contains(&few), "{few}");
        assert_eq!(all - few, packets_ps, "all together take twice the time");
    }

    #[test]
    fn later_rounds_share_with_themselves_only() {
        let rounds = ideals(&format!("{INCAST}rounds = 4\n{INCAST}"));
        let (first, second) = (rounds[0].1, rounds[48].1);
        assert!(first > 2 * 48 * 100_000 * 80 && second < 3 * first / 5, "{first} {second}");
        assert!(rounds[48..4 * 48].iter().all(|&(_, ps)| ps == second));
        assert_eq!(second, ideals(INCAST)[0].1);
    }
}
