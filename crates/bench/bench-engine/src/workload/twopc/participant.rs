//! A participant, which prepares, votes, and carries out the decision.

use bench_record::ReceiverCount;

use super::ROW_BYTES;
use super::rows::Rows;
use crate::bench::stream;
use crate::pattern;
use crate::refusal::Refusal;
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::outbox::Outbox;
use crate::workload::prelude::*;
use crate::workload::server::{Cost, until_told};

/// The state of one thread of a server within a point.
struct Participant<'a> {
    rows: &'a mut Rows,
    has_locks: bool,
    point: PointSpec,
    /// The row of each transaction that is prepared, by the transaction's place.
    prepared: Vec<Option<usize>>,
    /// The record of each transaction that is prepared, by the transaction's place.
    records: Vec<u8>,
    out: Outbox,
    cost: Cost,
    committed: u64,
}

/// Runs a server's side of a point.
pub(super) fn take_part<B: Backend>(
    part: Part<'_, B>,
    rows: &mut Rows,
    has_locks: bool,
) -> Outcome {
    let Part { links, port, point } = part;
    if links.len() != 1 {
        return Err(Refusal::Coordinators.into());
    }
    let mut participant = Participant {
        rows,
        has_locks,
        point,
        prepared: vec![None; point.depth],
        records: vec![0; point.depth.saturating_mul(point.size_bytes)],
        out: Outbox::new(point.depth, port.flow.post_list),
        cost: Cost::default(),
        committed: 0,
    };
    // The coordinator has had all answers when it says so.
    until_told(links, port, |links| {
        let mut moved = false;
        for link in links {
            moved |= link.poll()? > 0;
            moved |= participant.take(link)?;
        }
        Ok(moved)
    })?;
    stream::finish(links, &port.signals)?;
    let committed = participant.committed;
    let count = participant.cost.count(point.validate);
    Ok(Measured::Received(ReceiverCount { committed, ..count }))
}

impl Participant<'_> {
    /// Handles the messages that have arrived, and answers as far as there is room.
    #[inline]
    fn take<B: Backend>(&mut self, link: &mut Link<B>) -> Result<bool, Failure> {
        let mut moved = false;
        link.take_arrived(|call| {
            let header = Header::read(call).ok_or_else(|| wrong("is damaged"))?;
            let place = header.call as usize;
            if place >= self.prepared.len() {
                return Err(wrong("is about no transaction"));
            }
            let answer = match header.code {
                Code::Prepare => self.prepare(place, &call[HEADER_BYTES..])?,
                Code::Commit | Code::Abort => self.end(place, header.code == Code::Commit)?,
                _ => return Err(wrong("is none")),
            };
            self.out.push(header.call, answer);
            moved = true;
            Ok(())
        })?;
        let write = |message: &mut [u8], call: u32, code: Code| {
            Header { len_bytes: HEADER_BYTES, call, code }.write(message);
            HEADER_BYTES
        };
        moved |= self.out.flush(link, write, |_| {})? > 0;
        Ok(moved)
    }

    /// Prepares a transaction. Returns the vote.
    #[inline]
    fn prepare(&mut self, place: usize, body: &[u8]) -> Result<Code, Failure> {
        let size_bytes = self.point.size_bytes;
        let (row, record) = body
            .split_first_chunk::<ROW_BYTES>()
            .filter(|(_, record)| record.len() == size_bytes)
            .ok_or_else(|| wrong("has another length than it should"))?;
        let row = usize::try_from(u64::from_le_bytes(*row)).unwrap_or(usize::MAX);
        let is_whole = !self.point.validate || matches!(pattern::check(record), Ok(Some(_)));
        if row >= self.rows.count() || !is_whole {
            return Err(wrong("holds another record than it should"));
        }
        if self.prepared[place].is_some() {
            return Err(wrong("came twice"));
        }
        self.cost.note(1);
        if self.has_locks && !self.rows.lock(row, place as u32) {
            return Ok(Code::No);
        }
        self.prepared[place] = Some(row);
        self.records[place * size_bytes..][..size_bytes].copy_from_slice(record);
        Ok(Code::Yes)
    }

    /// Ends a transaction as decided.
    #[inline]
    fn end(&mut self, place: usize, is_commit: bool) -> Result<Code, Failure> {
        let row = self.prepared[place].take();
        let row = row.ok_or_else(|| wrong("decides what was not prepared"))?;
        if is_commit {
            let size_bytes = self.point.size_bytes;
            self.rows.put(row, &self.records[place * size_bytes..][..size_bytes]);
            self.committed += 1;
        }
        if self.has_locks {
            self.rows.unlock(row);
        }
        Ok(Code::Ended)
    }
}

fn wrong(what: &str) -> Failure {
    Failure::Data(format!("a message of the coordinator {what}: the fabric damages data"))
}
