//! Counts of the engine, for the counters file.

use rc::Stats;

use super::RcSide;
use crate::counters::{Counter, Gauge, PathGauge};
use crate::shell::Carried;

/// The part of the engine's counters that the device's counters already include.
#[derive(Debug, Default)]
pub(super) struct Synced(Stats);

/// Expired loss timers, of the connection and of the last measurement.
fn timeouts(stats: &Stats) -> u64 {
    stats.timeouts + stats.early_timeouts
}

impl RcSide {
    /// Adds what the engine has counted since last time to the device's counters.
    #[inline]
    pub(super) fn move_counts(&mut self) {
        let (new, old) = (self.endpoint.stats(), &self.synced.0);
        let counters = &self.shell.device.counters;
        counters.add(Counter::RetransPkts, new.tx_repeated - old.tx_repeated);
        counters.add(Counter::RetransTimeoutEvents, timeouts(new) - timeouts(old));
        counters.add(Counter::RxDuplicates, new.rx_duplicates - old.rx_duplicates);
        counters.add(Counter::RxRnr, new.tx_rnr_naks - old.tx_rnr_naks);
        counters.add(Counter::AckPkts, new.tx_acks - old.tx_acks);
        counters.add(Counter::RxSequenceNaks, new.rx_sequence_naks - old.rx_sequence_naks);
        counters.add(Counter::TxSequenceNaks, new.tx_sequence_naks - old.tx_sequence_naks);
        counters.add(Counter::RxRnrNaks, new.rx_rnr_naks - old.rx_rnr_naks);
        self.synced.0.clone_from(new);
    }

    /// Returns the gauges. Everything uses one path.
    pub(super) fn gauge_of_engine(&self) -> Gauge {
        let (stats, Carried { sent_bytes, received_bytes }) = (self.endpoint.stats(), self.carried);
        let path = PathGauge {
            sent_pkts: stats.tx_packets,
            rtt_ns: self.endpoint.rtt_ns().unwrap_or_default(),
            is_avoided: false,
        };
        Gauge {
            peers: u64::from(self.peer.is_some()),
            sent_bytes,
            received_bytes,
            repeated_pkts: stats.tx_repeated,
            paths: vec![path],
        }
    }
}
