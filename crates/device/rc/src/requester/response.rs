//! Answers to READs and atomics (RC-3.7).

use super::Requester;
use super::queue::Entry;
use crate::endpoint::Shared;
use crate::wire::{Headers, Kind, Syndrome};
use crate::{Arrival, DropReason, Instant, Operation, ReadData, Reject, Status};

/// The meaning of an answer for the oldest operation.
#[derive(Debug)]
enum Answer {
    /// It does not belong to that operation.
    Unrelated,
    /// It contains bytes, which the host stores.
    Bytes(Arrival),
    /// It completes the operation and contains no bytes.
    Done,
}

impl Requester {
    /// Handles an answer. The host stores its bytes and reports that.
    pub(crate) fn on_response(
        &mut self,
        now: Instant,
        headers: &Headers,
        payload_len: u32,
        shared: &mut Shared,
    ) -> Result<Option<Arrival>, DropReason> {
        let seq = self.una.near(headers.bth.psn);
        if seq >= self.sent {
            return Err(DropReason::Ghost);
        }
        if seq < self.una {
            return Err(DropReason::Stale);
        }
        // It acknowledges everything before it.
        if !self.advance(now, seq, shared) {
            shared.stats.rx_implied_naks += 1;
            self.repeat_missing(now, shared);
            return Err(DropReason::Missing);
        }
        if self.failure.is_some() {
            // The host could not perform an earlier request, so this answer ends nothing.
            return Ok(None);
        }
        let Some(entry) = self.queue.front().copied() else { return Err(DropReason::Ghost) };
        let arrival = match self.judge(&entry, headers, payload_len, shared) {
            Answer::Bytes(arrival) => Some(arrival),
            Answer::Done => None,
            Answer::Unrelated => {
                self.failure = Some(Status::BadResponse);
                return Err(DropReason::BadResponse);
            }
        };
        self.answering = if arrival.is_some() { 1 + u64::from(headers.bth.joined) } else { 0 };
        if arrival.is_none() {
            self.advance_to(now, entry.end(), shared);
        }
        Ok(arrival)
    }

    /// Checks the answer to the number `una`, which belongs to `entry`.
    fn judge(&self, entry: &Entry, headers: &Headers, payload_len: u32, shared: &Shared) -> Answer {
        let kind = headers.bth.opcode.kind;
        if kind.has_aeth() && !matches!(headers.aeth.syndrome, Syndrome::Ack(_)) {
            return Answer::Unrelated;
        }
        let id = entry.request.id;
        if headers.bth.joined > 0 && !kind.is_read_response() {
            return Answer::Unrelated;
        }
        match entry.request.op {
            Operation::Read(_) if kind.is_read_response() => {
                let next = self.una.plus(1 + u64::from(headers.bth.joined));
                let offset = entry.offset(self.una.since(entry.first), shared.mtu);
                let len = entry.offset(next.since(entry.first), shared.mtu) - offset;
                let end = entry.piece_end(self.una, &shared.config);
                if payload_len != len || next > end || (next == end) != kind.is_end() {
                    return Answer::Unrelated;
                }
                Answer::Bytes(Arrival::ReadData(ReadData { id, offset, len }))
            }
            Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
                if kind == Kind::AtomicAcknowledge =>
            {
                Answer::Bytes(Arrival::AtomicData { id, original: headers.original })
            }
            Operation::Flush(..) | Operation::AtomicWrite(_)
                if kind == Kind::ReadResponseOnly
                    && payload_len == 0
                    && headers.bth.joined == 0 =>
            {
                Answer::Done
            }
            _ => Answer::Unrelated,
        }
    }

    /// The host has stored the bytes.
    pub(crate) fn accept(&mut self, now: Instant, shared: &mut Shared) {
        let numbers = core::mem::take(&mut self.answering);
        if numbers > 0 && self.failure.is_none() {
            self.advance_to(now, self.una.plus(numbers), shared);
        }
    }

    /// The host could not store the bytes.
    pub(crate) fn reject(&mut self, why: Reject) {
        if core::mem::take(&mut self.answering) > 0 {
            self.failure = Some(match why {
                Reject::Local(status) => status,
                Reject::TooLong => Status::LocalLength,
                _ => Status::LocalProtection,
            });
        }
    }

    /// Forgets the last arrival, which was not answered: it counts as lost.
    pub(crate) fn forget_arrival(&mut self) {
        self.answering = 0;
    }
}
