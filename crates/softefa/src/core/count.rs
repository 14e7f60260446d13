//! What happened, for those who look from outside.

use srd::OrderStats;

use super::Core;
use crate::counters::Counter;
use crate::qp::SendOp;
use crate::wire::Sent;

impl Core {
    pub(super) fn count_sent(&self, sent: &Sent) {
        let counters = &self.device.counters;
        counters.add(Counter::TxPkts, sent.pkts);
        counters.add(Counter::TxBytes, sent.bytes);
        counters.add(Counter::TxSyscalls, sent.syscalls);
        counters.add(Counter::TxErrors, sent.errors);
        counters.add(Counter::TxRefused, sent.refused);
        counters.add(Counter::FaultLost, sent.lost);
        counters.add(Counter::FaultReordered, sent.reordered);
        counters.add(Counter::FaultDuplicated, sent.duplicated);
        counters.add(Counter::FaultBlackholed, sent.blackholed);
        counters.add(Counter::FaultMangled, sent.mangled);
        counters.add(Counter::FaultCorrupted, sent.corrupted);
    }

    /// Moves what was posted to the device's counters.
    pub(super) fn count_sends(&mut self) {
        let sends = std::mem::take(&mut self.sends);
        self.device.counters.add(Counter::SendWrs, sends.count);
        self.device.counters.add(Counter::SendBytes, sends.bytes);
    }

    /// A work request ended with an error.
    pub(super) fn count_failed(&self, op: SendOp) {
        match op {
            SendOp::Send | SendOp::SendImm(_) => {}
            SendOp::Read(_) => self.device.counters.add(Counter::RdmaReadWrErr, 1),
            SendOp::Write(_) | SendOp::WriteImm(..) => {
                self.device.counters.add(Counter::RdmaWriteWrErr, 1);
            }
        }
    }

    /// Moves what the engine counted since last time to the device's counters.
    pub(super) fn sync_counters(&mut self) {
        let (new, old) = (*self.endpoint.stats(), self.synced);
        let counters = &self.device.counters;
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
        let counters = &self.device.counters;
        counters.add(Counter::OutOfSequence, new.out_of_sequence - old.out_of_sequence);
        counters.raise(Counter::OutOfSequenceMax, u64::from(new.behind_max));
        let classes = new.behind.iter().zip(&old.behind);
        for (counter, (new, old)) in Counter::OUT_OF_SEQUENCE.into_iter().zip(classes) {
            counters.add(counter, new - old);
        }
    }
}
