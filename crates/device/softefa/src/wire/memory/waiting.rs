//! Datagrams that wait for room in a ring, because they are never repeated (SRD-12.8).

use std::collections::VecDeque;
use std::net::SocketAddr;

use srd::Instant;

use crate::framing::Framing;
use crate::memory::Piece;
use crate::wire::batch::{MAX_PACKETS, Packet, Via};
use crate::wire::{Batch, Sent};

/// The bytes of a datagram that are copied into the batch in which it is tried again.
const HEAD_BYTES: usize = 320;
/// How long datagrams wait before the ring is tried again. A reader frees much of it in that time.
const RETRY_NS: u64 = 50_000;

/// The copies, oldest first.
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
    since: Instant,
}

/// The datagrams that wait for one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) to: SocketAddr,
    /// The time since which the first of them waits.
    pub(super) since: Instant,
    count: usize,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns true if some wait for `to`, which nothing may overtake.
    pub(super) fn has(&self, to: SocketAddr) -> bool {
        self.held.iter().any(|held| held.to == to)
    }

    /// Returns when [`Waiting::take`] is worth a call.
    pub(super) fn next_try(&self) -> Option<Instant> {
        self.next_try.filter(|_| !self.held.is_empty())
    }

    /// Keeps a copy; returns false if the memory of its payload is gone.
    #[cold]
    pub(super) fn keep(&mut self, now: Instant, batch: &Batch, packet: &Packet) -> bool {
        let Some(bytes) = batch.copy(packet) else { return false };
        let Packet { to, via, .. } = *packet;
        self.held.push_back(BlockedDatagram { to, via, bytes, since: now });
        self.next_try = Some(now.plus_ns(RETRY_NS));
        true
    }

    /// Returns the peers for which datagrams wait.
    pub(super) fn queues(&self) -> Vec<Queue> {
        let mut queues: Vec<Queue> = Vec::new();
        for &BlockedDatagram { to, since, .. } in &self.held {
            match queues.iter_mut().find(|queue| queue.to == to) {
                Some(queue) => queue.count += 1,
                None => queues.push(Queue { to, since, count: 1 }),
            }
        }
        queues
    }

    /// Gives the first datagram for each peer its waiting time back, if all that were tried again
    /// wait again.
    pub(super) fn keep_times(&mut self, before: &[Queue]) {
        let now = self.queues();
        for old in before
            .iter()
            .filter(|old| now.iter().any(|new| new.to == old.to && new.count == old.count))
        {
            if let Some(first) = self.held.iter_mut().find(|held| held.to == old.to) {
                first.since = old.since;
            }
        }
    }

    /// Passes all waiting datagrams to `send` in batches, in their order.
    pub(super) fn take(self, mut send: impl FnMut(&Batch) -> Sent) -> Sent {
        let mut total = Sent::default();
        for held in Vec::from(self.held).chunks(MAX_PACKETS) {
            let mut batch = Batch::new(&Framing::Done, HEAD_BYTES, 0);
            for BlockedDatagram { to, via, bytes, .. } in held {
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
