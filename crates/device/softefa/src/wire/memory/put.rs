//! Writes batches into rings: each datagram becomes a record, or many equal ones share one.

use srd::Instant;

use super::MemoryWire;
use super::out::Record;
use super::outbox::Put;
use super::ring::{TRAIN_BYTES_MAX, TRAIN_DATAGRAMS_MAX};
use crate::host;
use crate::memory::Piece;
use crate::status::Status;
use crate::wire::batch::{Impossible, Packet, Via};
use crate::wire::{Batch, Sent};

impl MemoryWire {
    /// Writes into rings what they accept, and sets the rest aside for the kernel.
    pub(super) fn put(&mut self, now: Instant, batch: &Batch, sent: &mut Sent) {
        let captured_at = self.tap.is_on().then(host::epoch_ns);
        self.left.clear();
        let mut packets = batch.packets();
        while let Some((packet, later)) = packets.split_first() {
            if let Some(count) = self.put_train(now, packets, batch.pieces()) {
                let (train, behind) = packets.split_at(count);
                self.note_put(train, captured_at, batch.pieces(), sent);
                packets = behind;
                continue;
            }
            match self.put_one(now, packet, batch.pieces()) {
                Put::Done => {
                    let one = std::slice::from_ref(packet);
                    self.note_put(one, captured_at, batch.pieces(), sent);
                }
                Put::Full if matches!(packet.via, Via::Patient(_)) => {
                    sent.blocked += 1;
                    if !self.waiting.keep(now, batch, packet) {
                        self.impossible.push(gone(packet));
                    }
                }
                Put::NotHere | Put::Full if matches!(packet.via, Via::Memory(_)) => {
                    sent.errors += 1;
                }
                Put::NotHere | Put::Full => self.left.push(*packet),
                Put::Gone => self.impossible.push(gone(packet)),
            }
            packets = later;
        }
    }

    fn put_one(&mut self, now: Instant, packet: &Packet, pieces: &[Piece]) -> Put {
        let pieces = &pieces[packet.iov_start..packet.iov_end];
        let record = Record { len: packet.len, segment: packet.len, via: packet.via };
        match packet.via {
            // A datagram that was not sealed may overtake others, because it must not go through
            // the kernel.
            Via::Memory(_) if self.has_key => self.outbox.put(now, &packet.to, record, pieces),
            Via::Path(_)
            | Via::Stream(_)
            | Via::Acknowledgement(_)
            | Via::Memory(_)
            | Via::Patient(_)
                if self.is_behind(packet) =>
            {
                Put::NotHere
            }
            Via::Patient(_) if self.waiting.has(packet.to) => Put::Full,
            Via::Path(_)
            | Via::Stream(_)
            | Via::Acknowledgement(_)
            | Via::Memory(_)
            | Via::Patient(_) => self.outbox.put(now, &packet.to, record, pieces),
            Via::Kernel(_) => {
                self.outbox.doubt(now, packet.to);
                Put::NotHere
            }
            Via::Behind(_) => {
                self.outbox.prepare(now, packet.to);
                Put::NotHere
            }
            Via::OwnSocket => Put::NotHere,
        }
    }

    /// Writes the first of `packets` that are alike into a ring as one record, if its reader
    /// accepts that (SRD-12.3). Returns how many; `None` if each has to go by itself.
    #[inline]
    fn put_train(&mut self, now: Instant, packets: &[Packet], pieces: &[Piece]) -> Option<usize> {
        let first = packets.first()?;
        let (count, piece) = train_of(packets, pieces)?;
        if self.is_behind(first) || !self.outbox.takes_trains(&first.to) {
            return None;
        }
        let record = Record { len: piece.len, segment: first.len, via: first.via };
        let put = self.outbox.put(now, &first.to, record, &[piece]);
        (put == Put::Done).then_some(count)
    }

    /// Returns true if the preceding datagram to the same peer goes through the kernel. If this one
    /// overtook it, a connection would have to repeat all of them.
    #[inline]
    fn is_behind(&self, packet: &Packet) -> bool {
        self.left.last().is_some_and(|left| left.to == packet.to)
    }

    fn note_put(
        &self,
        packets: &[Packet],
        captured_at: Option<u64>,
        pieces: &[Piece],
        sent: &mut Sent,
    ) {
        let Some(first) = packets.first() else { return };
        let count = packets.len() as u64;
        let is_unsealed = self.has_key && matches!(first.via, Via::Memory(_));
        sent.pkts += count;
        sent.memory_pkts += count;
        sent.unsealed_pkts += if is_unsealed { count } else { 0 };
        sent.bytes += packets.iter().map(|packet| packet.len as u64).sum::<u64>();
        // Only sealed datagrams are shown, because a capture may have just begun.
        if let Some(time_ns) = captured_at.filter(|_| !is_unsealed) {
            self.tap.sent(time_ns, packets, pieces);
        }
    }
}

/// Finds the longest prefix of `packets` that can be one record: packets to one peer by one way, of
/// one length except the last, which may be shorter, and contiguous in the arena of the batch.
/// Returns how many there are, if there are several, and where.
#[inline]
fn train_of(packets: &[Packet], pieces: &[Piece]) -> Option<(usize, Piece)> {
    let (first, later) = packets.split_first()?;
    let whole = |packet: &Packet| {
        (packet.iov_end == packet.iov_start + 1).then(|| pieces[packet.iov_start])
    };
    if !matches!(first.via, Via::Path(_) | Via::Stream(_) | Via::Memory(_)) || first.len == 0 {
        return None;
    }
    let (mut train, mut count) = (whole(first)?, 1);
    for packet in later.iter().take(TRAIN_DATAGRAMS_MAX - 1) {
        let is_like = packet.via == first.via && packet.to == first.to;
        let is_short = packet.len < first.len;
        let Some(piece) = whole(packet) else { break };
        let is_next = piece.addr == train.addr + train.len as u64;
        let fits = packet.len <= first.len && train.len + piece.len <= TRAIN_BYTES_MAX;
        if !is_like || !is_next || !fits || packet.len == 0 {
            break;
        }
        (train.len, count) = (train.len + piece.len, count + 1);
        if is_short {
            break;
        }
    }
    (count > 1).then_some((count, train))
}

/// Returns the failure of a packet whose memory is gone.
fn gone(packet: &Packet) -> Impossible {
    Impossible { place: packet.place, status: Status::LocalInvalidLkey }
}
