//! Counts of the engine, for the counters file.

use srd::{OrderStats, PathStats, Stats, StrangerStats};

use super::SrdSide;
use crate::counters::{Counter, GAUGE_PATHS_MAX, Gauge, PathGauge};

/// The counts that are compared in each turn. At least one of them changes with each of the counts
/// below.
type Marks = [u64; 12];

/// The part of the engine's counters that the device's counters already include.
#[derive(Debug, Default)]
pub(super) struct Synced {
    marks: Marks,
    stats: Stats,
}

fn marks_of(stats: &Stats) -> Marks {
    let told = &stats.strangers;
    [
        stats.retrans_pkts,
        stats.retrans_timeout_events,
        stats.unresponsive_remote_events,
        stats.impaired_remote_conn_events,
        stats.rx_duplicates,
        stats.rx_rnr,
        stats.tx_pure_acks,
        stats.rx_challenges,
        stats.rx_unanswered,
        stats.rx_order.out_of_sequence,
        told.resets + told.refused + told.challenges,
        told.unanswered + told.turned_away,
    ]
}

impl SrdSide {
    /// Adds what the engine has counted since last time to the device's counters.
    #[inline]
    pub(super) fn move_counts(&mut self) {
        let marks = marks_of(self.endpoint.stats());
        if marks != self.synced.marks {
            self.synced.marks = marks;
            self.move_changed_counts();
        }
    }

    /// Returns the gauges.
    pub(super) fn gauge_of_engine(&self) -> Gauge {
        let stats = self.endpoint.stats();
        let mut totals = [PathStats::default(); GAUGE_PATHS_MAX];
        let count = totals.len().min(self.paths.paths().into());
        let peers = self.endpoint.path_totals(&mut totals[..count]);
        let path = |path: &PathStats| PathGauge {
            sent_pkts: path.tx_packets,
            rtt_ns: path.rtt_ns,
            is_avoided: path.quarantined,
        };
        Gauge {
            peers: peers as u64,
            sent_bytes: stats.tx_payload_bytes.saturating_sub(stats.retrans_bytes),
            received_bytes: stats.rx_accepted_bytes,
            repeated_pkts: stats.retrans_pkts,
            paths: totals[..count].iter().map(path).collect(),
        }
    }

    #[inline(never)]
    fn move_changed_counts(&mut self) {
        let (new, old) = (*self.endpoint.stats(), self.synced.stats);
        let counters = &self.shell.device.counters;
        for (counter, new, old) in [
            (Counter::RetransPkts, new.retrans_pkts, old.retrans_pkts),
            (Counter::RetransBytes, new.retrans_bytes, old.retrans_bytes),
            (Counter::RetransTimeoutEvents, new.retrans_timeout_events, old.retrans_timeout_events),
            (
                Counter::UnresponsiveRemoteEvents,
                new.unresponsive_remote_events,
                old.unresponsive_remote_events,
            ),
            (
                Counter::ImpairedRemoteConnEvents,
                new.impaired_remote_conn_events,
                old.impaired_remote_conn_events,
            ),
            (Counter::RxDuplicates, new.rx_duplicates, old.rx_duplicates),
            (Counter::RxRnr, new.rx_rnr, old.rx_rnr),
            (Counter::AckPkts, new.tx_pure_acks, old.tx_pure_acks),
            (Counter::ConnChallenged, new.rx_challenges, old.rx_challenges),
            (Counter::RefusalsUnanswered, new.rx_unanswered, old.rx_unanswered),
        ] {
            counters.add(counter, new - old);
        }
        if new.rx_order.out_of_sequence != old.rx_order.out_of_sequence {
            self.sync_order(&new.rx_order, &old.rx_order);
        }
        if new.strangers != old.strangers {
            self.sync_strangers(&new.strangers, &old.strangers);
        }
        self.synced.stats = new;
    }

    #[cold]
    fn sync_strangers(&self, new: &StrangerStats, old: &StrangerStats) {
        let counters = &self.shell.device.counters;
        counters.add(Counter::StrangerResets, new.resets - old.resets);
        counters.add(Counter::StrangerRefusals, new.refused - old.refused);
        counters.add(Counter::StrangerChallenges, new.challenges - old.challenges);
        counters.add(Counter::StrangersUnanswered, new.unanswered - old.unanswered);
        counters.add(Counter::StrangersTurnedAway, new.turned_away - old.turned_away);
    }

    fn sync_order(&self, new: &OrderStats, old: &OrderStats) {
        let counters = &self.shell.device.counters;
        counters.add(Counter::OutOfSequence, new.out_of_sequence - old.out_of_sequence);
        counters.raise(Counter::OutOfSequenceMax, u64::from(new.behind_max));
        let classes = new.behind.iter().zip(&old.behind);
        for (counter, (new, old)) in Counter::OUT_OF_SEQUENCE.into_iter().zip(classes) {
            counters.add(counter, new - old);
        }
    }
}
