//! Counting what happens, for the counters file.

use super::Shell;
use crate::counters::Counter;
use crate::request::SendOp;
use crate::wire::Sent;

impl Shell {
    pub(super) fn count_sent(&mut self, sent: &Sent) {
        let &Sent { pkts, memory_pkts, unsealed_pkts, bytes, syscalls, .. } = sent;
        let counters = &self.device.counters;
        counters.add(Counter::TxPkts, pkts);
        counters.add(Counter::TxMemoryPkts, memory_pkts);
        counters.add(Counter::TxUnsealedPkts, unsealed_pkts);
        counters.add(Counter::TxBytes, bytes);
        counters.add(Counter::TxSyscalls, syscalls);
        if *sent != (Sent { pkts, memory_pkts, unsealed_pkts, bytes, syscalls, ..Sent::default() })
        {
            self.count_troubles(sent);
        }
    }

    #[inline(never)]
    fn count_troubles(&mut self, sent: &Sent) {
        let counters = &self.device.counters;
        counters.add(Counter::TxErrors, sent.errors);
        counters.add(Counter::TxRefused, sent.refused);
        counters.add(Counter::TxBlocked, sent.blocked);
        self.deal(&[
            (Counter::FaultLost, sent.lost),
            (Counter::FaultReordered, sent.reordered),
            (Counter::FaultDuplicated, sent.duplicated),
            (Counter::FaultBlackholed, sent.blackholed),
            (Counter::FaultMangled, sent.mangled),
            (Counter::FaultCorrupted, sent.corrupted),
        ]);
    }

    /// Adds the posted sends to the device's counters.
    pub(super) fn count_sends(&mut self) {
        let sends = std::mem::take(&mut self.sends);
        self.device.counters.add(Counter::SendWrs, sends.count);
        self.device.counters.add(Counter::SendBytes, sends.bytes);
        self.carried.sent_bytes += sends.bytes;
    }

    /// Counts a work request that ended with an error.
    pub(super) fn count_failed(&self, op: SendOp) {
        match op {
            SendOp::Send
            | SendOp::SendImm(_)
            | SendOp::SendInvalidate(_)
            | SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::Flush(..)
            | SendOp::LocalInvalidate(_)
            | SendOp::BindWindow(_) => {}
            SendOp::Read(_) => self.device.counters.add(Counter::RdmaReadWrErr, 1),
            SendOp::Write(_) | SendOp::WriteImm(..) | SendOp::AtomicWrite(_) => {
                self.device.counters.add(Counter::RdmaWriteWrErr, 1);
            }
        }
    }
}
