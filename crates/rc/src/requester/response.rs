//! Answers to READs and atomics (RC-3.7).

use super::Requester;
use super::queue::Entry;
use crate::endpoint::Shared;
use crate::wire::{Headers, Kind, Syndrome};
use crate::{Arrival, DropReason, Instant, Operation, ReadData, Reject, Status};

impl Requester {
    /// Takes an answer. The host stores what it brought and says so.
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
        // It acknowledges all before it.
        if !self.advance(now, seq, shared) {
            shared.stats.rx_implied_naks += 1;
            self.repeat_missing(now, shared);
            return Err(DropReason::Missing);
        }
        let Some(entry) = self.queue.front().copied() else { return Err(DropReason::Ghost) };
        let Some(brought) = self.judge(&entry, headers, payload_len, shared) else {
            self.failure = Some(Status::BadResponse);
            return Err(DropReason::BadResponse);
        };
        self.is_answering = brought.is_some();
        if brought.is_none() {
            self.pass(now, entry.end(), shared);
        }
        Ok(brought)
    }

    /// What the answer to the number `una` brings, which belongs to `entry`; `None` when it does not fit.
    fn judge(
        &self,
        entry: &Entry,
        headers: &Headers,
        payload_len: u32,
        shared: &Shared,
    ) -> Option<Option<Arrival>> {
        let kind = headers.bth.opcode.kind;
        if kind.has_aeth() && !matches!(headers.aeth.syndrome, Syndrome::Ack(_)) {
            return None;
        }
        let id = entry.request.id;
        match entry.request.op {
            Operation::Read(_) if kind.is_read_response() => {
                let next = self.una.plus(1);
                let offset = entry.offset(self.una.since(entry.first), shared.mtu);
                let len = entry.offset(next.since(entry.first), shared.mtu) - offset;
                let is_end = next == entry.piece_end(self.una, &shared.config);
                let fits = payload_len == len && is_end == kind.is_end();
                fits.then_some(Some(Arrival::ReadData(ReadData { id, offset, len })))
            }
            Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => {
                let original = headers.original;
                (kind == Kind::AtomicAcknowledge)
                    .then_some(Some(Arrival::AtomicData { id, original }))
            }
            Operation::Flush(..) | Operation::AtomicWrite(_) => {
                (kind == Kind::ReadResponseOnly && payload_len == 0).then_some(None)
            }
            _ => None,
        }
    }

    /// The host has stored what came.
    pub(crate) fn accept(&mut self, now: Instant, shared: &mut Shared) {
        if core::mem::take(&mut self.is_answering) && self.failure.is_none() {
            self.pass(now, self.una.plus(1), shared);
        }
    }

    /// The host could not store what came.
    pub(crate) fn reject(&mut self, why: Reject) {
        if core::mem::take(&mut self.is_answering) {
            self.failure = Some(match why {
                Reject::Local(status) => status,
                Reject::TooLong => Status::LocalLength,
                _ => Status::LocalProtection,
            });
        }
    }

    /// What came last was not answered: it counts as lost.
    pub(crate) fn forget_arrival(&mut self) {
        self.is_answering = false;
    }
}
