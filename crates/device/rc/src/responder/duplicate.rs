//! Repeated requests (RC-5.6).

use super::{AckDue, Answer, Responder};
use crate::DropReason;
use crate::endpoint::Shared;
use crate::id::Seq;
use crate::wire::{Kind, Packet};

impl Responder {
    /// Answers a request that was executed before, without executing it again.
    pub(super) fn repeat(&mut self, seq: Seq, packet: &Packet, shared: &Shared) -> DropReason {
        let headers = &packet.headers;
        let kind = headers.bth.opcode.kind;
        if kind.is_send() || kind.is_write() {
            self.ack = AckDue::Now;
            return DropReason::Stale;
        }
        let Some(resource) = self.resources.find(seq) else { return DropReason::Duplicate };
        let is_same = match resource.answer {
            Answer::Read(range) => {
                let reth = &headers.reth;
                let skipped = seq.since(resource.first) * u64::from(shared.mtu.bytes());
                kind == Kind::ReadRequest
                    && reth.rkey == range.remote.rkey
                    && reth.va == range.remote.va.wrapping_add(skipped)
                    && u64::from(reth.dma_len) + skipped == u64::from(range.len)
            }
            Answer::Original(_) => kind.is_atomic(),
            Answer::Empty => matches!(kind, Kind::Flush | Kind::AtomicWrite),
        };
        if !is_same {
            return DropReason::Duplicate;
        }
        self.resources.rewind(seq);
        DropReason::Stale
    }
}
