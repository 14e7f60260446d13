//! Counts beside a measurement, from whichever device or system has counters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts by name.
pub type Counts = BTreeMap<String, u64>;

/// The counts of one side up to now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The source of the counts: "device rdmap0s6", "IP of the network namespace".
    pub of: String,
    pub counts: Counts,
}

/// The counters of sent bytes, of all sources, and the number of bytes that each counts
/// (InfiniBand's port counters count words of four bytes).
const WIRE_BYTES: [(&str, u64); 3] =
    [("tx_bytes", 1), ("port_xmit_data", 4), ("IpExt.OutOctets", 1)];
/// The counters of sent packets, and the number of packets that each counts.
const PACKETS: [(&str, u64); 3] = [("tx_pkts", 1), ("port_xmit_packets", 1), ("Ip.OutRequests", 1)];
/// The counters of packets that were sent again, likewise.
const RETRANSMITTED: [(&str, u64); 3] =
    [("retrans_pkts", 1), ("packet_seq_err", 1), ("Tcp.RetransSegs", 1)];

/// The counts beside one block of a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The number of messages that the client sent in the block, warm-up and tail included; 0: not
    /// known.
    pub messages: u64,
    /// True if a server has the client's source, whose counts are then those of both directions.
    pub is_shared: bool,
    /// The counts of each node, the client first; `None` if a node has no counters.
    pub nodes: Vec<Option<Snapshot>>,
}

/// The snapshots of all nodes, the client's first, as far as there are any.
#[derive(Debug, Clone, Default)]
pub struct Reading(pub Vec<Option<Snapshot>>);

impl Counted {
    /// Returns the counts between two readings; `None` if no node has counters.
    pub fn between(before: &Reading, after: &Reading, messages: u64) -> Option<Self> {
        let pairs = before.0.iter().zip(&after.0);
        let nodes: Vec<_> =
            pairs.map(|(before, after)| difference(before.as_ref(), after.as_ref())).collect();
        let (client, servers) = nodes.split_first()?;
        // Two devices that have counted exactly the same do not exist.
        let is_shared = client.is_some() && servers.contains(client);
        nodes.iter().any(Option::is_some).then_some(Self { messages, is_shared, nodes })
    }

    /// Returns the counts of the client's side.
    pub fn client(&self) -> Option<&Snapshot> {
        self.nodes.first()?.as_ref()
    }

    fn sent(&self, names: &[(&str, u64)]) -> Option<u64> {
        let counts = &self.client()?.counts;
        names.iter().find_map(|(name, unit)| Some(counts.get(*name)? * unit))
    }

    /// Returns the number of bytes that the client's side sent, headers and repetitions included.
    pub fn wire_bytes(&self) -> Option<u64> {
        self.sent(&WIRE_BYTES)
    }

    /// Returns the number of packets that the client's side sent.
    pub fn packets(&self) -> Option<u64> {
        self.sent(&PACKETS)
    }

    /// Returns the number of packets that the client's side sent again.
    pub fn retransmitted(&self) -> Option<u64> {
        self.sent(&RETRANSMITTED)
    }

    /// Returns `of` divided by the number of messages.
    pub fn per_message(&self, of: Option<u64>) -> Option<f64> {
        of.filter(|_| self.messages > 0).map(|count| count as f64 / self.messages as f64)
    }
}

/// Returns the counts that have grown, and zeros of counters that are reported; `None` if the
/// source is not the same.
fn difference(before: Option<&Snapshot>, after: Option<&Snapshot>) -> Option<Snapshot> {
    let (before, after) = (before?, after?);
    if before.of != after.of {
        return None;
    }
    let grown = after.counts.iter().map(|(name, count)| {
        let start = before.counts.get(name).copied().unwrap_or(0);
        (name.clone(), count.wrapping_sub(start))
    });
    let summed = [WIRE_BYTES, PACKETS, RETRANSMITTED].concat();
    let is_told = |name: &str| summed.iter().any(|(one, _)| *one == name);
    let counts = grown.filter(|(name, count)| *count > 0 || is_told(name)).collect();
    Some(Snapshot { of: after.of.clone(), counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(of: &str, counts: &[(&str, u64)]) -> Snapshot {
        let counts = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Snapshot { of: of.to_owned(), counts }
    }

    fn both(client: Snapshot, server: Option<Snapshot>) -> Reading {
        Reading(vec![Some(client), server])
    }

    #[test]
    fn counts_are_those_in_between() {
        let before = both(snapshot("a", &[("tx_bytes", 100), ("tx_pkts", 1), ("idle", 7)]), None);
        let after = both(snapshot("a", &[("tx_bytes", 1100), ("tx_pkts", 11), ("idle", 7)]), None);
        let counted = Counted::between(&before, &after, 5).expect("counts");
        assert_eq!((counted.wire_bytes(), counted.packets()), (Some(1000), Some(10)));
        assert_eq!(counted.retransmitted(), None);
        assert_eq!(counted.per_message(counted.wire_bytes()), Some(200.0));
        assert!(!counted.is_shared);
        let named: Vec<&str> = counted
            .client()
            .into_iter()
            .flat_map(|c| c.counts.keys())
            .map(String::as_str)
            .collect();
        assert_eq!(named, ["tx_bytes", "tx_pkts"]);
        assert_eq!(Counted::between(&Reading::default(), &after, 5), None);
        let other = both(snapshot("b", &[("tx_bytes", 9)]), None);
        assert_eq!(Counted::between(&before, &other, 5), None);
    }

    #[test]
    fn words_are_four_bytes_and_no_message_is_no_quotient() {
        let before = both(snapshot("mlx5_0", &[("port_xmit_data", 0)]), None);
        let after = both(snapshot("mlx5_0", &[("port_xmit_data", 25)]), None);
        let counted = Counted::between(&before, &after, 0).expect("counts");
        assert_eq!(counted.wire_bytes(), Some(100));
        assert_eq!(counted.per_message(counted.wire_bytes()), None);
    }

    #[test]
    fn one_device_for_both_sides_is_noticed() {
        let (start, end) = (snapshot("a", &[("x", 1)]), snapshot("a", &[("x", 4)]));
        let before = both(start.clone(), Some(start));
        let after = both(end.clone(), Some(end));
        assert!(Counted::between(&before, &after, 1).is_some_and(|counted| counted.is_shared));
    }
}
