//! Proportional rate reduction (RFC 9937, which replaces RFC 6937). A recovery sends in proportion
//! to what arrives, so that the window reaches its target when all that was in flight has arrived.
//! Without it, a sender is silent until half of that has, and then sends one segment for each.

/// The content of an acknowledgement, as a recovery needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    /// Bytes that have arrived.
    pub(super) bytes: u64,
    /// Whether the hole closes and no further one was found: one segment more than what arrives may
    /// go out (`SafeACK`). While losses go on, that would overrun the queue again.
    pub(super) safe: bool,
}

/// A recovery, from its first segment on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// Bytes in flight before the acknowledgement that began it, without what had arrived out of
    /// order (`RecoverFS`).
    flight_bytes: u64,
    /// Bytes that have arrived since.
    delivered_bytes: u64,
    /// Bytes that were sent since.
    out_bytes: u64,
}

impl Prr {
    pub(super) fn new(flight_bytes: u64) -> Self {
        Self { flight_bytes: flight_bytes.max(1), delivered_bytes: 0, out_bytes: 0 }
    }

    /// Returns the bytes that may be sent after an acknowledgement when `pipe_bytes` are in the
    /// network, on the way to a window of `threshold_bytes`.
    pub(super) fn allowance(
        &mut self,
        arrived: Arrived,
        pipe_bytes: u64,
        threshold_bytes: u64,
        mss_bytes: u64,
    ) -> u64 {
        self.delivered_bytes += arrived.bytes;
        if pipe_bytes > threshold_bytes {
            let share = self.delivered_bytes * threshold_bytes;
            let segments = share.div_ceil(self.flight_bytes * mss_bytes);
            return (segments * mss_bytes).saturating_sub(self.out_bytes);
        }
        let unanswered = self.delivered_bytes.saturating_sub(self.out_bytes).max(arrived.bytes);
        let growth_bytes = if arrived.safe { mss_bytes } else { 0 };
        (threshold_bytes - pipe_bytes).min(unanswered + growth_bytes)
    }

    pub(super) fn sent(&mut self, bytes: u32) {
        self.out_bytes += u64::from(bytes);
    }
}
