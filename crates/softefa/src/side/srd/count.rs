//! What the engine counted, for those who look from outside.

use srd::{OrderStats, StrangerStats};

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
        self.synced = new;
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
