//! The primary, which appends records, ships groups to each replica, and commits them in order.
//!
//! Closed loop: a full group follows as soon as fewer groups than the depth are uncommitted. Open
//! loop: records come by a schedule, and those that have come are shipped when there is room, as a
//! group commit does. A record is timed from its append (or when it was due) to its commit.

use std::time::Instant;

use bench_record::workload::{Ack, Commit, LogSpec};

use super::ring::Ring;
use super::{NUMBER_BYTES, message_bytes};
use crate::measure::Random;
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::pace::{Activity, Names, Pace};
use crate::workload::prelude::*;

/// The number of depths by which the slowest replica may be behind, if a majority commits.
const LAG_DEPTHS: usize = 8;

/// The log of one thread.
struct Primary {
    spec: LogSpec,
    point: PointSpec,
    needed: u32,
    replicas: usize,
    ring: Ring,
    /// The next group to ship, by replica.
    next: Vec<u64>,
    /// The low bits of the group in each transmit slot, by replica.
    in_slot: Vec<Vec<u32>>,
    /// The number of transmit slots that were free at the last look, by replica.
    free: Vec<usize>,
    list: usize,
}

/// Runs the client's side of a point.
pub(super) fn lead<B: Backend>(part: Part<'_, B>, spec: LogSpec, random: &mut Random) -> Outcome {
    let Part { links, port, point } = part;
    let mut primary = Primary::new(links, port, point, spec)?;
    let pace = Pace::new(point, port, random.next(), Names::of(&["record"]))?;
    pace.run(links, port, &mut primary)
}

impl<B: Backend> Activity<B> for Primary {
    #[inline]
    fn collect(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        replica: usize,
    ) -> Result<usize, Failure> {
        let moved = link.poll()?;
        if moved == 0 {
            return Ok(0);
        }
        pace.now = Instant::now();
        if self.spec.ack == Ack::Completion {
            for &slot in link.freed_since(self.free[replica]) {
                let group = self.in_slot[replica][slot];
                if !self.ring.acknowledge(group, replica) {
                    return Err(wrong("completed twice"));
                }
            }
            self.free[replica] = link.free_tx();
        }
        link.take_arrived(|answer| {
            let group = Header::read(answer).filter(|header| header.code == Code::Appended);
            let group = group.ok_or_else(|| wrong("was answered by something else"))?;
            if !self.ring.acknowledge(group.call, replica) {
                return Err(wrong("was answered twice, or was never sent"));
            }
            pace.message(answer.len());
            Ok(())
        })?;
        self.commit(pace);
        Ok(moved)
    }

    #[inline]
    fn issue(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        replica: usize,
    ) -> Result<usize, Failure> {
        Ok(self.append(pace) + self.ship(pace, link, replica)?)
    }

    fn is_idle(&self, _replica: usize) -> bool {
        self.ring.is_empty()
    }
}

impl Primary {
    fn new<B: Backend>(
        links: &[Link<B>],
        port: &Port,
        point: PointSpec,
        spec: LogSpec,
    ) -> Result<Self, Failure> {
        let lag = if spec.commit == Commit::All { 1 } else { LAG_DEPTHS };
        let ring = Ring::new(point.depth.saturating_mul(lag), spec.group, point.size_bytes)?;
        Ok(Self {
            spec,
            point,
            needed: spec.needed(links.len()),
            replicas: links.len(),
            ring,
            next: vec![0; links.len()],
            in_slot: links.iter().map(|link| vec![0; link.backend().tx_slots()]).collect(),
            free: links.iter().map(Link::free_tx).collect(),
            list: port.flow.post_list,
        })
    }

    /// Appends groups, as long as there is room and something to append. Returns their number.
    #[inline]
    fn append(&mut self, pace: &mut Pace) -> usize {
        let mut appended = 0;
        while self.ring.has_room(self.point.depth) {
            let mut records = 0;
            while records < self.spec.group {
                let Some(due) = pace.due() else { break };
                self.ring.append(due, self.point.validate);
                pace.start();
                pace.ask(1);
                records += 1;
            }
            if records == 0 {
                break;
            }
            self.ring.complete();
            appended += 1;
        }
        appended
    }

    /// Ships the groups that a replica has not been sent, as far as there is room. Returns their
    /// number.
    #[inline]
    fn ship<B: Backend>(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        replica: usize,
    ) -> Result<usize, Failure> {
        let mut shipped = 0;
        while self.next[replica] < self.ring.end() {
            let Some(slot) = link.next_tx() else { break };
            let number = self.next[replica];
            let (first, records) = self.ring.content(number);
            let len_bytes = HEADER_BYTES + NUMBER_BYTES + records.len();
            debug_assert!(len_bytes <= message_bytes(self.spec, self.point.size_bytes));
            let message = &mut link.payload_mut(slot)?[..len_bytes];
            Header { len_bytes, call: number as u32, code: Code::Append }.write(message);
            let (number_bytes, body) = message[HEADER_BYTES..].split_at_mut(NUMBER_BYTES);
            number_bytes.copy_from_slice(&first.to_le_bytes());
            body.copy_from_slice(records);
            let follows = number + 1 < self.ring.end() && link.free_tx() > 1;
            let more = self.list > 1 && follows && (number + 1) % (self.list as u64) != 0;
            if !link.try_post(len_bytes, more)? {
                break;
            }
            self.in_slot[replica][slot] = number as u32;
            self.free[replica] = link.free_tx();
            self.next[replica] += 1;
            pace.message(len_bytes);
            shipped += 1;
        }
        Ok(shipped)
    }

    /// Commits the groups that enough replicas have.
    #[inline]
    fn commit(&mut self, pace: &mut Pace) {
        while let Some(due) = self.ring.commit(self.needed) {
            match due {
                // All records of a group were appended at once.
                [first, ..] if !pace.is_open_loop() => pace.end(0, *first, due.len() as u64),
                due => due.iter().for_each(|due| pace.end(0, *due, 1)),
            }
        }
        self.ring.forget(self.replicas);
    }
}

fn wrong(what: &str) -> Failure {
    Failure::Data(format!("a group {what}: the fabric damages data"))
}
