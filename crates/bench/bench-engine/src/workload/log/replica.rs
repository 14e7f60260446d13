//! A replica, which puts groups in their places in its log and answers each.

use bench_record::ReceiverCount;
use bench_record::workload::{Ack, LogSpec};

use super::NUMBER_BYTES;
use super::memory::Memory;
use crate::bench::stream;
use crate::link::Arrival;
use crate::pattern::{self, Overtaken, Seen};
use crate::sleeper::Sleeper;
use crate::watch::Watch;
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::prelude::*;
use crate::workload::server::Cost;

/// The number of rounds between two looks for the end.
const ROUNDS_PER_LOOK: u32 = 64;

/// The replica of one thread within a point.
struct Replica<'a> {
    memory: &'a mut Memory,
    point: PointSpec,
    answers: bool,
    cost: Cost,
    /// The numbers of groups, by their low bits.
    seen: Seen,
    overtaken: Overtaken,
    groups: u64,
}

/// Runs a server's side of a point.
pub(super) fn replicate<B: Backend>(
    part: Part<'_, B>,
    spec: LogSpec,
    memory: &mut Memory,
) -> Outcome {
    let Part { links, port, point } = part;
    let answers = spec.ack == Ack::Message;
    let (cost, seen, overtaken) = (Cost::default(), Seen::new(), Overtaken::default());
    let mut replica = Replica { memory, point, answers, cost, seen, overtaken, groups: 0 };
    let mut watch = Watch::new(&port.signals, "waiting for the rest of the log");
    let mut sleeper = Sleeper::new();
    let mut records = None;
    let mut rounds = 0_u32;
    while records.is_none_or(|records| replica.cost.served() < records) {
        let mut moved = false;
        for link in links.iter_mut() {
            moved |= link.poll()? > 0;
            moved |= replica.take(link)?;
        }
        rounds += 1;
        let is_time = rounds % ROUNDS_PER_LOOK == 0 || (!moved && port.signals.sleeps());
        if records.is_none() && is_time {
            records = port.sent()?;
        }
        if moved {
            watch.progress();
        } else if records.is_some() {
            watch.idle_on(links)?;
        } else {
            sleeper.pause(links, &port.signals)?;
        }
    }
    stream::finish(links, &port.signals)?;
    Ok(Measured::Received(replica.count()))
}

impl Replica<'_> {
    /// Appends the groups that have arrived, as far as there is room for answers.
    #[inline]
    fn take<B: Backend>(&mut self, link: &mut Link<B>) -> Result<bool, Failure> {
        let mut moved = false;
        while let Some(group) = link.arrived.front().copied() {
            let slot = link.next_tx();
            if self.answers && slot.is_none() {
                break;
            }
            let number = self.append(link, group)?;
            if let (true, Some(slot)) = (self.answers, slot) {
                let len_bytes = HEADER_BYTES;
                Header { len_bytes, call: number, code: Code::Appended }
                    .write(link.payload_mut(slot)?);
                // A group whose answer the fabric does not take now is appended again, to the same
                // place.
                if !link.try_post(len_bytes, false)? {
                    break;
                }
            }
            self.note(number, group);
            link.arrived.pop_front();
            link.repost(group.slot)?;
            moved = true;
        }
        Ok(moved)
    }

    /// Puts a group in its place. Returns its number.
    #[inline]
    fn append<B: Backend>(&mut self, link: &Link<B>, group: Arrival) -> Result<u32, Failure> {
        let size_bytes = self.point.size_bytes;
        let payload = link.message(group)?;
        let header = Header::read(payload).filter(|header| header.code == Code::Append);
        let header = header.ok_or_else(|| wrong("arrived damaged"))?;
        let (first, records) = payload[HEADER_BYTES..]
            .split_first_chunk::<NUMBER_BYTES>()
            .filter(|(_, records)| records.len() % size_bytes == 0)
            .ok_or_else(|| wrong("has no whole records"))?;
        let first = u64::from_le_bytes(*first);
        if self.point.validate {
            let numbers = records.chunks(size_bytes).zip(first..);
            for (record, number) in numbers {
                if pattern::check(record) != Ok(Some(number)) {
                    return Err(wrong("holds another record than it should"));
                }
            }
        }
        self.memory.put(first, records, size_bytes);
        Ok(header.call)
    }

    #[inline]
    fn note(&mut self, number: u32, group: Arrival) {
        // The window of remembered numbers is far smaller than 32 bits.
        let number = pattern::widened(number, self.groups);
        self.seen.note(number);
        self.overtaken.note(number);
        self.groups += 1;
        let records = (group.len_bytes - HEADER_BYTES - NUMBER_BYTES) / self.point.size_bytes;
        self.cost.note(records as u64);
    }

    fn count(self) -> ReceiverCount {
        let Self { point, cost, seen, overtaken, groups, .. } = self;
        ReceiverCount {
            duplicates: seen.duplicates,
            overtaken: overtaken.count,
            farthest: overtaken.farthest,
            numbered: groups,
            ..cost.count(point.validate)
        }
    }
}

fn wrong(what: &str) -> Failure {
    Failure::Data(format!("a group of log records {what}: the fabric damages data"))
}
