//! Whole transfers between two ranks, cut into messages that may come in any order. A transfer is
//! known by the number of the operation and its step in it. What comes before its turn stays in its
//! receive slot.

use std::collections::VecDeque;
use std::ops::Range;

use crate::exchange::Signals;
use crate::link::Arrival;
use crate::measure::Random;
use crate::watch::{Idle, Watch};
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::pace::gave_up;
use crate::workload::prelude::*;

/// The header of a part: that of all messages (the call is the operation), step, place, and a check
/// of these three. A part of another operation or step is kept for later, so that a damaged one
/// that looked like it would be waited for in vain.
pub(super) const PART_HEADER_BYTES: usize = HEADER_BYTES + 12;
/// A rank may be so many operations ahead of another.
const AHEAD: u32 = 1;

/// The place that a part belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    operation: u32,
    step: u32,
    offset: usize,
}

impl Part {
    /// Reads that of a message; answers the bytes, too.
    #[inline]
    fn read(message: &[u8]) -> Option<(Self, &[u8])> {
        let Header { call: operation, code: Code::Part, .. } = Header::read(message)? else {
            return None;
        };
        let (place, rest) = message[HEADER_BYTES..].split_first_chunk()?;
        let (check, bytes) = rest.split_first_chunk()?;
        let place = u64::from_le_bytes(*place);
        let part = Self { operation, step: place as u32, offset: (place >> 32) as usize };
        (part.check() == u32::from_le_bytes(*check)).then_some((part, bytes))
    }

    /// Writes it to the front of a message of this length.
    #[inline]
    fn write(self, message: &mut [u8], len_bytes: usize) {
        Header { len_bytes, call: self.operation, code: Code::Part }.write(message);
        let (place, check) = message[HEADER_BYTES..PART_HEADER_BYTES].split_at_mut(8);
        place.copy_from_slice(&self.place().to_le_bytes());
        check.copy_from_slice(&self.check().to_le_bytes());
    }

    /// Step and place in one word.
    #[inline]
    fn place(self) -> u64 {
        (self.offset as u64) << 32 | u64::from(self.step)
    }

    /// Follows from all of it.
    #[inline]
    fn check(self) -> u32 {
        let place = Random::new(self.place()).next();
        Random::new(place ^ u64::from(self.operation)).next() as u32
    }
}

/// A transfer that comes from another rank.
#[derive(Debug, Clone, Copy)]
struct Incoming {
    endpoint: usize,
    step: u32,
    len_bytes: usize,
    /// Parts from this one on stay where they are.
    parts_end: usize,
}

/// A transfer to one rank and another from one, in the same step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) step: u32,
    pub(super) to: usize,
    pub(super) sent_bytes: usize,
    pub(super) from: usize,
    pub(super) received_bytes: usize,
}

/// The endpoints of one rank to all others.
pub(super) struct Mesh<'a, B> {
    links: &'a mut [Link<B>],
    signals: &'a Signals,
    pub(super) rank: usize,
    pub(super) ranks: usize,
    part_bytes: usize,
    operation: u32,
    /// The messages that came before their turn, by endpoint.
    early: Vec<VecDeque<Arrival>>,
    /// Parts of the present transfer that have come.
    seen: Vec<bool>,
}

impl<'a, B: Backend> Mesh<'a, B> {
    /// Makes a mesh for transfers of at most `bytes`.
    pub(super) fn new(
        links: &'a mut [Link<B>],
        signals: &'a Signals,
        rank: usize,
        part_bytes: usize,
        bytes: usize,
    ) -> Self {
        let early = links.iter().map(|link| VecDeque::with_capacity(link.backend().rx_slots()));
        Self {
            early: early.collect(),
            ranks: links.len() + 1,
            links,
            signals,
            rank,
            part_bytes,
            operation: 0,
            seen: vec![false; bytes.div_ceil(part_bytes).max(1)],
        }
    }

    /// All ranks go on to the next operation.
    #[inline]
    pub(super) const fn next_operation(&mut self) {
        self.operation = self.operation.wrapping_add(1);
    }

    /// The endpoint to a rank.
    #[inline]
    const fn endpoint(&self, rank: usize) -> usize {
        if rank < self.rank { rank } else { rank - 1 }
    }

    /// Sends a transfer; returns when its last message is posted.
    pub(super) fn send(&mut self, to: usize, step: u32, bytes: &[u8]) -> Result<(), Failure> {
        let endpoint = self.endpoint(to);
        let mut offset = 0;
        let mut watch = Watch::new(self.signals, "waiting for room for a message");
        // One without bytes is a message, too.
        loop {
            let end = bytes.len().min(offset + self.part_bytes);
            let part = Part { operation: self.operation, step, offset };
            if self.try_part(endpoint, part, &bytes[offset..end])? {
                if end == bytes.len() {
                    return Ok(());
                }
                offset = end;
                watch.progress();
            } else if self.poll()? > 0 {
                watch.progress();
            } else {
                self.wait(&mut watch)?;
            }
        }
    }

    /// Posts a part; false when there is no room.
    #[inline]
    fn try_part(&mut self, endpoint: usize, part: Part, bytes: &[u8]) -> Result<bool, Failure> {
        let link = &mut self.links[endpoint];
        let Some(slot) = link.next_tx() else { return Ok(false) };
        let len_bytes = PART_HEADER_BYTES + bytes.len();
        let message = &mut link.payload_mut(slot)?[..len_bytes];
        part.write(message, len_bytes);
        message[PART_HEADER_BYTES..].copy_from_slice(bytes);
        link.try_message(len_bytes, false)
    }

    /// Receives a transfer of so many bytes; `take` gets each part of it and its place.
    pub(super) fn receive(
        &mut self,
        from: usize,
        step: u32,
        len_bytes: usize,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<(), Failure> {
        let (incoming, missing) = self.begin_receiving(from, step, len_bytes);
        self.receive_rest(incoming, missing, &mut take)
    }

    /// Sends a transfer while another one comes. Ranks that all send first would wait for each
    /// other's receives once those are full. `out` gives bytes of the first, and `take` gets each
    /// part of the second and its place, which has been sent before if both are the same memory.
    pub(super) fn exchange<D: ?Sized>(
        &mut self,
        exchange: Exchange,
        data: &mut D,
        out: impl Fn(&D, Range<usize>) -> &[u8],
        take: impl Fn(&mut D, usize, &[u8]),
    ) -> Result<(), Failure> {
        let Exchange { step, to, sent_bytes, from, received_bytes } = exchange;
        let (mut incoming, mut missing) = self.begin_receiving(from, step, received_bytes);
        incoming.parts_end = 0;
        let endpoint = self.endpoint(to);
        let (mut offset, mut looked_at) = (0, usize::MAX);
        let mut watch = Watch::new(self.signals, "waiting for room for a message");
        // One without bytes is a message, too.
        loop {
            let end = sent_bytes.min(offset + self.part_bytes);
            let part = Part { operation: self.operation, step, offset };
            if self.try_part(endpoint, part, out(data, offset..end))? {
                if end == sent_bytes {
                    break;
                }
                (offset, incoming.parts_end) = (end, incoming.parts_end + 1);
                watch.progress();
                continue;
            }
            let mut take = |at: usize, bytes: &[u8]| take(data, at, bytes);
            let mut came = self.take_arrived(incoming, &mut take)?;
            // What has waited can only be taken when more has been sent.
            if looked_at != incoming.parts_end {
                looked_at = incoming.parts_end;
                came += self.take_early(incoming, &mut take)?;
            }
            missing -= came;
            if came > 0 || self.poll()? > 0 {
                watch.progress();
            } else {
                self.wait(&mut watch)?;
            }
        }
        incoming.parts_end = usize::MAX;
        self.receive_rest(incoming, missing, &mut |at, bytes| take(data, at, bytes))
    }

    /// Nothing of a transfer has come; it, and how many parts are missing.
    fn begin_receiving(&mut self, from: usize, step: u32, len_bytes: usize) -> (Incoming, usize) {
        let missing = len_bytes.div_ceil(self.part_bytes).max(1);
        self.seen[..missing].fill(false);
        let endpoint = self.endpoint(from);
        (Incoming { endpoint, step, len_bytes, parts_end: usize::MAX }, missing)
    }

    /// Takes the parts of a transfer that came before their turn and may be taken now; how many.
    fn take_early(
        &mut self,
        incoming: Incoming,
        take: &mut impl FnMut(usize, &[u8]),
    ) -> Result<usize, Failure> {
        let mut taken = 0;
        for _ in 0..self.early[incoming.endpoint].len() {
            let Some(arrival) = self.early[incoming.endpoint].pop_front() else { break };
            taken += self.take_part(incoming, arrival, take)?;
        }
        Ok(taken)
    }

    /// Takes the parts of a transfer that have just come and may be taken; how many.
    fn take_arrived(
        &mut self,
        incoming: Incoming,
        take: &mut impl FnMut(usize, &[u8]),
    ) -> Result<usize, Failure> {
        let mut taken = 0;
        while let Some(arrival) = self.links[incoming.endpoint].arrived.pop_front() {
            taken += self.take_part(incoming, arrival, take)?;
        }
        Ok(taken)
    }

    fn receive_rest(
        &mut self,
        incoming: Incoming,
        mut missing: usize,
        take: &mut impl FnMut(usize, &[u8]),
    ) -> Result<(), Failure> {
        missing -= self.take_early(incoming, take)?;
        let mut watch = Watch::new(self.signals, "waiting for another rank");
        while missing > 0 {
            if let Some(arrival) = self.links[incoming.endpoint].arrived.pop_front() {
                missing -= self.take_part(incoming, arrival, take)?;
            } else if self.poll()? > 0 {
                watch.progress();
            } else {
                self.wait(&mut watch)?;
            }
        }
        Ok(())
    }

    /// Takes a message if it is a part of this transfer, else keeps it; answers how many parts it
    /// was.
    #[inline]
    fn take_part(
        &mut self,
        incoming: Incoming,
        arrival: Arrival,
        take: &mut impl FnMut(usize, &[u8]),
    ) -> Result<usize, Failure> {
        let Incoming { endpoint, step, len_bytes, parts_end } = incoming;
        let link = &mut self.links[endpoint];
        let (part, bytes) =
            Part::read(link.message(arrival)?).ok_or_else(|| wrong("is damaged"))?;
        let ahead = part.operation.wrapping_sub(self.operation);
        if ahead > AHEAD {
            return Err(wrong("belongs to no operation that goes on"));
        }
        let number = part.offset / self.part_bytes;
        if ahead > 0 || part.step != step || number >= parts_end {
            self.early[endpoint].push_back(arrival);
            return Ok(0);
        }
        let wanted = self.part_bytes.min(len_bytes.saturating_sub(part.offset));
        let is_place = part.offset % self.part_bytes == 0 && number < self.seen.len();
        if !is_place || bytes.len() != wanted || (wanted == 0 && len_bytes > 0) {
            return Err(wrong("is no part of its transfer"));
        }
        if std::mem::replace(&mut self.seen[number], true) {
            return Err(wrong("came twice"));
        }
        take(part.offset, bytes);
        link.repost(arrival.slot)?;
        Ok(1)
    }

    /// Lets all endpoints make progress; answers how many completions there were.
    #[inline]
    fn poll(&mut self) -> Result<usize, Failure> {
        let mut moved = 0;
        for link in self.links.iter_mut() {
            moved += link.poll()?;
        }
        Ok(moved)
    }

    /// Nothing happens; fails when that is for good.
    #[inline]
    fn wait(&self, watch: &mut Watch<'_>) -> Result<(), Failure> {
        // Servers only hear that the client goes on.
        match watch.idle()? {
            Idle::Message if self.rank == 0 => Err(gave_up()),
            _ => Ok(()),
        }
    }
}

pub(super) fn wrong(what: &str) -> Failure {
    Failure::Data(format!("a message of another rank {what}: the fabric damages data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_and_damaged_or_other_messages_are_none() {
        let mut message = [7; PART_HEADER_BYTES + 3];
        let len_bytes = message.len();
        let part = Part { operation: u32::MAX, step: 9, offset: 1 << 30 };
        part.write(&mut message, len_bytes);
        assert_eq!(Part::read(&message), Some((part, &[7; 3][..])));
        assert_eq!(Part::read(&message[..PART_HEADER_BYTES]), None, "shorter than it says");
        for bit in 0..PART_HEADER_BYTES * 8 {
            message[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Part::read(&message), None, "bit {bit}");
            message[bit / 8] ^= 1 << (bit % 8);
        }
        Header { len_bytes, call: 1, code: Code::Done }.write(&mut message);
        assert_eq!(Part::read(&message), None);
    }
}
