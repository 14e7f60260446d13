//! Work requests between posting and completion.

use crate::id::Seq;
use crate::{Config, Mtu, Operation, Psn, SendRequest, Status, WrId};

/// A posted work request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) request: SendRequest,
    /// The number of its first packet.
    pub(super) first: Seq,
    /// Numbers it takes: those of its packets, or of the answer's.
    pub(super) packets: u32,
    /// The host cannot do it: it ends like that when its turn has come.
    pub(super) fault: Option<Status>,
    /// The progress of the host with it, if it is the host's to do.
    pub(super) local: LocalStep,
}

/// The progress of the host with what it does itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalStep {
    /// Its turn has not come, or it is not the host's to do.
    Waiting,
    /// The host was told.
    Told,
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

    /// Makes a vacant one that of a request, where it lies: a copy of what was just written stalls
    /// the processor.
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

    /// Returns where the bytes of packet `index` begin; the message's length behind the last one.
    #[inline]
    pub(super) fn offset(&self, index: u64, mtu: Mtu) -> u32 {
        let at = index.saturating_mul(u64::from(mtu.bytes()));
        u32::try_from(at).unwrap_or(u32::MAX).min(self.request.len)
    }

    /// Bytes that belong to the numbers from `from` to `to`: payload, or what a READ asks for.
    #[inline]
    pub(super) fn bytes(&self, from: Seq, to: Seq, mtu: Mtu) -> u64 {
        if matches!(self.request.op, Operation::Flush(..)) {
            return 0;
        }
        let at = |seq: Seq| self.offset(seq.since(self.first), mtu);
        u64::from(at(to)) - u64::from(at(from))
    }

    /// The end of the READ request that `seq` belongs to: a long READ is asked for in several,
    /// always cut at the same places, so that repetitions ask for a part of what was asked for
    /// (RC-3.6).
    pub(super) fn piece_end(&self, seq: Seq, config: &Config) -> Seq {
        let piece = u64::from(config.read_packets_max.clamp(1, 1 << 22));
        let index = seq.since(self.first);
        self.first.plus((index / piece + 1) * piece).min(self.end())
    }
}
