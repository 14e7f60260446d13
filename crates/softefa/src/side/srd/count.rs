//! What the engine counted, for those who look from outside.

use srd::OrderStats;

use super::SrdSide;
use crate::counters::Counter;

impl SrdSide {
    /// Moves what the engine counted since last time to the device's counters.
    pub(super) fn move_counts(&mut self) {
        let (new, old) = (*self.endpoint.stats(), self.synced);
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
        ] {
            counters.add(counter, new - old);
        }
        if new.rx_order.out_of_sequence != old.rx_order.out_of_sequence {
            self.sync_order(&new.rx_order, &old.rx_order);
        }
        self.synced = new;
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
