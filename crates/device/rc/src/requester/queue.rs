//! Work requests between posting and completion.

use crate::id::Seq;
use crate::{Config, Mtu, Operation, Psn, SendRequest, Status, WrId};

/// A posted work request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) request: SendRequest,
    /// The number of its first packet.
    pub(super) first: Seq,
    /// Numbers that it takes: those of its packets, or of the answer's.
    pub(super) packets: u32,
    /// The status with which it ends when its turn comes, because the host cannot perform it.
    pub(super) fault: Option<Status>,
    /// The progress of a local request.
    pub(super) local: LocalStep,
}

/// The progress of a request that the host performs itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalStep {
    /// Its turn has not come, or it is not local.
    Waiting,
    /// The host was notified.
    Notified,
    Done,
}

impl Entry {
    pub(super) const VACANT: Self = Self {
        request: SendRequest::new(WrId(0), Operation::Send, 0),
        first: Seq::first(Psn::new(0)),
        packets: 0,
        fault: None,
        local: LocalStep::Waiting,
    };

    /// Fills in a vacant entry in place: copying what was just written stalls the processor.
    #[inline]
    pub(super) fn set(&mut self, request: &SendRequest, first: Seq, packets: u32) {
        let SendRequest { id, ref op, len, is_fenced, is_solicited, srq } = *request;
        (self.request.id, self.request.len, self.request.srq) = (id, len, srq);
        (self.request.is_fenced, self.request.is_solicited) = (is_fenced, is_solicited);
        if !matches!(op, Operation::Send) {
            self.request.op = *op;
        }
        (self.first, self.packets) = (first, packets);
    }

    pub(super) const fn end(&self) -> Seq {
        self.first.plus(self.packets as u64)
    }

    /// Returns the offset of packet `index`; after the last packet, the message's length.
    #[inline]
    pub(super) fn offset(&self, index: u64, mtu: Mtu) -> u32 {
        let at = index.saturating_mul(u64::from(mtu.bytes()));
        u32::try_from(at).unwrap_or(u32::MAX).min(self.request.len)
    }

    /// Returns the bytes of the numbers from `from` to `to`: payload, or what a READ requests.
    #[inline]
    pub(super) fn bytes(&self, from: Seq, to: Seq, mtu: Mtu) -> u64 {
        if matches!(self.request.op, Operation::Flush(..)) {
            return 0;
        }
        if self.packets == 1 && from < to {
            return u64::from(self.request.len);
        }
        let at = |seq: Seq| self.offset(seq.since(self.first), mtu);
        u64::from(at(to)) - u64::from(at(from))
    }

    /// Returns the end of the READ request that `seq` belongs to. A long READ is split into several
    /// requests, always at the same offsets, so that repetitions ask for a part of an earlier
    /// request (RC-3.6).
    pub(super) fn piece_end(&self, seq: Seq, config: &Config) -> Seq {
        let piece = u64::from(config.read_packets_max.clamp(1, 1 << 22));
        let index = seq.since(self.first);
        self.first.plus((index / piece + 1) * piece).min(self.end())
    }
}
