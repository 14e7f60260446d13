//! Message memory cut into slots.

use crate::refusal::Refusal;
use std::collections::VecDeque;

use bench_record::failure::Failure;

use crate::backend::{BURST, Completion, Kind, Wants};

const LINE_BYTES: usize = 64;

/// The slots, and the operations that wait in them.
pub(super) struct Slots {
    memory: Vec<u8>,
    stride_bytes: usize,
    pub(super) payload_bytes: usize,
    pub(super) tx_depth: usize,
    pub(super) tx: usize,
    pub(super) rx: usize,
    /// The slots of posted receives, oldest first.
    pub(super) offered: VecDeque<usize>,
    /// The slots of sends that are done and not yet reported.
    pub(super) sent: VecDeque<usize>,
    /// True if the last report of sends left no room for anything else.
    sent_alone: bool,
}

impl Slots {
    pub(super) fn new(wants: &Wants) -> Result<Self, Failure> {
        let &Wants { tx_depth, tx_slots: tx, rx_depth: rx, payload_bytes, .. } = wants;
        // An odd number of lines, so that slots do not all fall into the same cache sets.
        let stride_bytes = (payload_bytes.div_ceil(LINE_BYTES) | 1) * LINE_BYTES;
        let total_bytes = stride_bytes.saturating_mul(tx + rx);
        let mut memory = Vec::new();
        memory
            .try_reserve_exact(total_bytes)
            .map_err(|_| Refusal::Memory(format!("{total_bytes} bytes of messages")))?;
        memory.resize(total_bytes, 0);
        let (offered, sent) = (VecDeque::with_capacity(rx), VecDeque::with_capacity(tx_depth));
        Ok(Self {
            memory,
            stride_bytes,
            payload_bytes,
            tx_depth,
            tx,
            rx,
            offered,
            sent,
            sent_alone: false,
        })
    }

    #[inline]
    pub(super) fn payload(&self, slot: usize) -> &[u8] {
        let start = slot * self.stride_bytes;
        &self.memory[start..start + self.payload_bytes]
    }

    #[inline]
    pub(super) fn payload_mut(&mut self, slot: usize) -> &mut [u8] {
        let start = slot * self.stride_bytes;
        &mut self.memory[start..start + self.payload_bytes]
    }

    pub(super) fn copy(&mut self, from: usize, to: usize, len_bytes: usize) {
        let (from, to) = (from * self.stride_bytes, to * self.stride_bytes);
        self.memory.copy_within(from..from + len_bytes.min(self.payload_bytes), to);
    }

    /// Reports sends that are done, and returns their number. After a report that consisted of
    /// sends only, the next one leaves room for arrivals: otherwise a sender that never has to wait
    /// would receive no message, and two such sides would wait for each other for ever.
    #[inline]
    pub(super) fn report_sent(&mut self, mut each: impl FnMut(Completion)) -> usize {
        let room = if self.sent_alone { BURST / 2 } else { BURST };
        let count = self.sent.len().min(room);
        self.sent_alone = count == BURST;
        for slot in self.sent.drain(..count) {
            each(Completion { kind: Kind::Sent, slot, len_bytes: 0 });
        }
        count
    }
}

/// Implements those methods of a [`Backend`](crate::backend::Backend) that only need its field
/// `slots`.
macro_rules! slot_methods {
    () => {
        fn setup_us(&self) -> Vec<(String, f64)> {
            self.setup_us.clone()
        }

        fn tx_depth(&self) -> usize {
            self.slots.tx_depth
        }

        fn tx_slots(&self) -> usize {
            self.slots.tx
        }

        fn rx_slots(&self) -> usize {
            self.slots.rx
        }

        #[inline]
        fn payload(&self, slot: usize) -> Result<&[u8], Failure> {
            Ok(self.slots.payload(slot))
        }

        #[inline]
        fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Failure> {
            Ok(self.slots.payload_mut(slot))
        }

        fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Failure> {
            self.slots.copy(from, to, len_bytes);
            Ok(())
        }

        #[inline]
        fn receive(&mut self, slot: usize) -> Result<Posted, Failure> {
            self.slots.offered.push_back(slot);
            Ok(Posted::Done)
        }

        fn freeze(&mut self, _slot: usize) -> Result<(), Failure> {
            // `check` has refused requirements that need this.
            Err(Unable::Freezing.into())
        }

        fn write_window(&mut self, _bytes: &[u8]) -> Result<(), Failure> {
            // `check` has refused requirements that need this.
            Err(Unable::Window.into())
        }

        fn remote_bytes(&self) -> u64 {
            0
        }
    };
}
pub(super) use slot_methods;

#[cfg(test)]
mod tests {
    use bench_record::fabric_name::FabricName;

    use super::*;

    #[test]
    fn sends_that_are_always_done_do_not_keep_arrivals_away() {
        let wants = Wants { tx_depth: 4 * BURST, ..Wants::least(FabricName::Tcp) };
        let mut slots = Slots::new(&wants).expect("memory");
        let reports: Vec<usize> = (0..4)
            .map(|_| {
                slots.sent.resize(4 * BURST, 0);
                slots.report_sent(|_| {})
            })
            .collect();
        assert_eq!(reports, [BURST, BURST / 2, BURST, BURST / 2]);
    }
}
