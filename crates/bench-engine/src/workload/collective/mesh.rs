//! Whole transfers between two ranks, cut into messages that may come in any order. A transfer is
//! known by the number of the operation and its step in it. What comes before its turn stays in its
//! receive slot.

use std::collections::VecDeque;

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
        let endpoint = self.endpoint(from);
        let mut missing = len_bytes.div_ceil(self.part_bytes).max(1);
        self.seen[..missing].fill(false);
        for _ in 0..self.early[endpoint].len() {
            let Some(arrival) = self.early[endpoint].pop_front() else { break };
            missing -= self.take_part(endpoint, (step, len_bytes), arrival, &mut take)?;
        }
        let mut watch = Watch::new(self.signals, "waiting for another rank");
        while missing > 0 {
            if let Some(arrival) = self.links[endpoint].arrived.pop_front() {
                missing -= self.take_part(endpoint, (step, len_bytes), arrival, &mut take)?;
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
        endpoint: usize,
        (step, len_bytes): (u32, usize),
        arrival: Arrival,
        take: &mut impl FnMut(usize, &[u8]),
    ) -> Result<usize, Failure> {
        let link = &mut self.links[endpoint];
        let (part, bytes) =
            Part::read(link.message(arrival)?).ok_or_else(|| wrong("is damaged"))?;
        let ahead = part.operation.wrapping_sub(self.operation);
        if ahead > AHEAD {
            return Err(wrong("belongs to no operation that goes on"));
        }
        if ahead > 0 || part.step != step {
            self.early[endpoint].push_back(arrival);
            return Ok(0);
        }
        let number = part.offset / self.part_bytes;
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
