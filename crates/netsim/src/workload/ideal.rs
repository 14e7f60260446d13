//! How long transfers take at best.
//!
//! Packets follow each other without a gap on the first link, the last one, which may be short,
//! takes the rest of the way, and its acknowledgement comes back. A transfer alone is no faster,
//! whatever paths its packets take. Of transfers that begin together, the last ends at best when the
//! busier of its hosts' links has carried all of them.

use super::Plan;
use crate::flow::{FlowSpec, Round};
use crate::transport::Kind;

/// Time that the hosts' links are busy with flows: out and in, by host.
struct Busy(Vec<[u64; 2]>);

impl Busy {
    fn of<'a>(plan: &Plan<'_>, flows: impl Iterator<Item = &'a FlowSpec>) -> Self {
        let mut busy = vec![[0; 2]; plan.fabric.hosts() as usize];
        for flow in flows {
            let ps = plan.transfer_ps(flow.transport, flow.bytes);
            busy[flow.src_host as usize][0] += ps;
            busy[flow.dst_host as usize][1] += ps;
        }
        Self(busy)
    }

    /// The busier of a flow's two links.
    fn longest_ps(&self, flow: &FlowSpec) -> u64 {
        self.0[flow.src_host as usize][0].max(self.0[flow.dst_host as usize][1])
    }
}

impl Plan<'_> {
    /// Time that a transfer's packets take on one link.
    pub(super) fn transfer_ps(&self, transport: Kind, bytes: u64) -> u64 {
        let message_bytes = transport.message_bytes(self.packet_bytes);
        let packets = bytes.div_ceil(u64::from(message_bytes)).max(1);
        let overhead = u64::from(transport.overhead_bytes());
        (bytes + packets * overhead) * u64::from(self.ps_per_byte)
    }

    /// From the last bit of a flow on its first link to the acknowledgement.
    pub(super) fn tail_ps(&self, flow: &FlowSpec) -> u64 {
        let message_bytes = u64::from(flow.transport.message_bytes(self.packet_bytes));
        let last_bytes = flow.bytes - flow.bytes.saturating_sub(1) / message_bytes * message_bytes;
        let packet_bytes = flow.transport.packet_bytes(last_bytes as u32);
        let (src, dst) = (flow.src_host, flow.dst_host);
        let there_ps = self.fabric.way_ps(src, dst, packet_bytes);
        let back_ps = self.fabric.way_ps(dst, src, flow.transport.ack_bytes());
        there_ps - u64::from(packet_bytes) * u64::from(self.ps_per_byte) + back_ps
    }

    /// Best completion time of a flow in a network that does nothing else.
    pub(super) fn alone_ps(&self, flow: &FlowSpec) -> u64 {
        self.transfer_ps(flow.transport, flow.bytes) + self.tail_ps(flow)
    }

    /// Fills in the best completion times that are zero: of flows that begin together, those of all
    /// workloads. A round after the first shares its links with itself only.
    pub(super) fn share(&self, flows: &mut [FlowSpec]) {
        let shares = |flow: &&FlowSpec| flow.ideal_ps == 0;
        let is_first = |flow: &&FlowSpec| flow.round.is_none_or(|round| round.number == 0);
        let together = Busy::of(self, flows.iter().filter(shares).filter(is_first));
        let mut own = Busy(Vec::new());
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
                    own.longest_ps(&flow) + self.tail_ps(&flow)
                }
                Some(Round { number: 2.., flows: count, .. }) => {
                    flows[number - count as usize].ideal_ps
                }
                _ => together.longest_ps(&flow) + self.tail_ps(&flow),
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
        assert!(permutation.iter().all(|&(_, ps)| ps < packets_ps + 10_000_000));
        let once = ideals(INCAST)[0].1;
        assert!(once > 48 * 100_000 * 80);
        // Twice the same, as two workloads, and of two transports.
        let twice = ideals(&format!("{INCAST}{INCAST}transport = \"tcp\"\n"));
        assert!(twice.iter().all(|&(_, ps)| ps > 2 * 48 * 100_000 * 80), "{:?}", twice[0]);
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
