//! Complete transfers between two ranks, cut into messages that may come in any order. A transfer
//! is identified by the number of the operation and the step in it. A part that comes before its
//! turn stays in its receive slot.

use std::collections::VecDeque;
use std::ops::Range;

use crate::exchange::Signals;
use crate::link::Arrival;
use crate::measure::Random;
use crate::watch::{Idle, Watch};
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::pace::gave_up;
use crate::workload::prelude::*;

/// The length of the header of a part: the header of all messages (whose call is the operation),
/// the step, the place, and a check of all three. A part of another operation or step is kept for
/// later, so that without the check a damaged part that looked like one would be waited for in
/// vain.
pub(super) const PART_HEADER_BYTES: usize = HEADER_BYTES + 12;
/// The number of operations that a rank may be ahead of another.
const AHEAD: u32 = 1;

/// The operation, the step and the place that a part belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    operation: u32,
    step: u32,
    offset: usize,
}

impl Part {
    /// Reads the header of a message. Returns the bytes behind it, too.
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

    /// Writes the header to the front of a message of this length.
    #[inline]
    fn write(self, message: &mut [u8], len_bytes: usize) {
        Header { len_bytes, call: self.operation, code: Code::Part }.write(message);
        let (place, check) = message[HEADER_BYTES..PART_HEADER_BYTES].split_at_mut(8);
        place.copy_from_slice(&self.place().to_le_bytes());
        check.copy_from_slice(&self.check().to_le_bytes());
    }

    /// Returns the step and the place in one word.
    #[inline]
    fn place(self) -> u64 {
        (self.offset as u64) << 32 | u64::from(self.step)
    }

    /// Returns the check of the operation, the step and the place.
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
    /// The number of the first part that may not be taken yet and stays in its slot.
    parts_end: usize,
}

/// A transfer to one rank and another one from a rank, in the same step.
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
    /// True for each part of the present transfer that has come.
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

    /// Goes on to the next operation, as all ranks do.
    #[inline]
    pub(super) const fn next_operation(&mut self) {
        self.operation = self.operation.wrapping_add(1);
    }

    /// Returns the endpoint to a rank.
    #[inline]
    const fn endpoint(&self, rank: usize) -> usize {
        if rank < self.rank { rank } else { rank - 1 }
    }

    /// Sends a transfer. Returns when its last message is posted.
    pub(super) fn send(&mut self, to: usize, step: u32, bytes: &[u8]) -> Result<(), Failure> {
        let endpoint = self.endpoint(to);
        let mut offset = 0;
        let mut watch = Watch::new(self.signals, "waiting for room for a message");
        // A transfer without bytes is a message, too.
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

    /// Posts a part. Returns false if there is no room.
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

    /// Receives a transfer of this many bytes; `take` gets each part with its place.
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

    /// Sends a transfer while another one comes. If all ranks sent first, they would wait for each
    /// other's receives once these are full. `out` returns bytes of the first transfer, and `take`
    /// gets each part of the second one with its place. If both are the same memory, a place is
    /// sent before it is received.
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
        // A transfer without bytes is a message, too.
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
            // A part that waits may only be taken when more has been sent.
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

    /// Begins a transfer of which nothing has come. Returns the transfer and the number of parts
    /// that are missing.
    fn begin_receiving(&mut self, from: usize, step: u32, len_bytes: usize) -> (Incoming, usize) {
        let missing = len_bytes.div_ceil(self.part_bytes).max(1);
        self.seen[..missing].fill(false);
        let endpoint = self.endpoint(from);
        (Incoming { endpoint, step, len_bytes, parts_end: usize::MAX }, missing)
    }

    /// Takes the parts of a transfer that came before their turn and may be taken now. Returns
    /// their number.
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

    /// Takes the parts of a transfer that have just come and may be taken. Returns their number.
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

    /// Takes a message if it is a part of this transfer, otherwise keeps it for later. Returns the
    /// number of parts that were taken.
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

    /// Lets all endpoints make progress. Returns the number of completions.
    #[inline]
    fn poll(&mut self) -> Result<usize, Failure> {
        let mut moved = 0;
        for link in self.links.iter_mut() {
            moved += link.poll()?;
        }
        Ok(moved)
    }

    /// Notes that nothing happened. Fails when that has lasted too long.
    #[inline]
    fn wait(&self, watch: &mut Watch<'_>) -> Result<(), Failure> {
        // Messages to servers only say that the client goes on.
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
