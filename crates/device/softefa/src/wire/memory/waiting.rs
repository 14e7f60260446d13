//! Datagrams that wait for room in a ring, because nobody would send them again (SRD-12.8).

use std::collections::VecDeque;
use std::net::SocketAddr;

use srd::Instant;

use crate::framing::Framing;
use crate::memory::Piece;
use crate::wire::batch::{MAX_PACKETS, Packet, Via};
use crate::wire::{Batch, Sent};

/// Bytes of a datagram that are copied into the batch it is tried again in.
const HEAD_BYTES: usize = 320;
/// How long they wait before the ring is tried again: a reader takes much of it in that time.
const RETRY_NS: u64 = 50_000;

/// Copies, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    held: VecDeque<BlockedDatagram>,
    next_try: Option<Instant>,
}

#[derive(Debug)]
struct BlockedDatagram {
    to: SocketAddr,
    via: Via,
    bytes: Vec<u8>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Some wait for `to`, and nothing may overtake them.
    pub(super) fn has(&self, to: SocketAddr) -> bool {
        self.held.iter().any(|held| held.to == to)
    }

    /// When [`Waiting::take`] is worth a call.
    pub(super) fn next_try(&self) -> Option<Instant> {
        self.next_try.filter(|_| !self.held.is_empty())
    }

    /// Keeps a copy; `false` when the memory of its payload is gone.
    #[cold]
    pub(super) fn keep(&mut self, now: Instant, batch: &Batch, packet: &Packet) -> bool {
        let Some(bytes) = batch.copy(packet) else { return false };
        self.held.push_back(BlockedDatagram { to: packet.to, via: packet.via, bytes });
        self.next_try = Some(now.plus_ns(RETRY_NS));
        true
    }

    /// Whom they are for.
    pub(super) fn destinations(&self) -> Vec<SocketAddr> {
        let mut to: Vec<_> = self.held.iter().map(|held| held.to).collect();
        to.dedup();
        to
    }

    /// Hands all that wait to `send` in batches, in their order.
    pub(super) fn take(self, mut send: impl FnMut(&Batch) -> Sent) -> Sent {
        let mut total = Sent::default();
        for held in Vec::from(self.held).chunks(MAX_PACKETS) {
            let mut batch = Batch::new(&Framing::Done, HEAD_BYTES, 0);
            for BlockedDatagram { to, via, bytes } in held {
                let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
                let rest = Piece { addr: rest.as_ptr() as usize as u64, len: rest.len() };
                let pushed = batch.push(&mut Framing::Done, *to, *via, head, [rest].into_iter());
                assert!(pushed.is_ok(), "the bytes are a copy of ours");
            }
            total.add(&send(&batch));
        }
        total
    }
}
