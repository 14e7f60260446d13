//! The coordinator, which keeps transactions outstanding, counts votes, decides, and times each
//! transaction from its start (or when it was due) to the last participant's message that it has
//! ended.

use std::time::Instant;

use super::{ROW_BYTES, message_bytes};
use crate::pattern;
use crate::workload::demand::Demand;
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::outbox::Outbox;
use crate::workload::outstanding::Outstanding;
use crate::workload::pace::{Activity, Names, Pace};
use crate::workload::prelude::*;

/// The names of the outcomes of transactions.
const KINDS: [&str; 2] = ["commit", "abort"];
const COMMIT: usize = 0;
const ABORT: usize = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Voting,
    Committing,
    Aborting,
}

/// A transaction that has not ended.
#[derive(Debug, Clone, Copy)]
struct Transaction {
    phase: Phase,
    /// The participants whose message is waited for, a bit each.
    waiting: u64,
    /// The participants that voted yes, a bit each.
    yes: u64,
    since: Instant,
    /// The number of the transaction among all.
    number: u64,
}

/// The state of one thread of the client within a point.
struct Coordinator<'a> {
    point: PointSpec,
    demand: &'a mut Demand,
    transactions: Outstanding<Transaction>,
    /// The messages that are to be sent, by participant.
    out: Vec<Outbox>,
    /// All participants, a bit each.
    all: u64,
    begun: u64,
}

/// Runs the client's side of a point.
pub(super) fn coordinate<B: Backend>(part: Part<'_, B>, demand: &mut Demand) -> Outcome {
    let Part { links, port, point } = part;
    let pace = Pace::new(point, port, demand.random.next(), Names::of(&KINDS))?;
    let mut coordinator = Coordinator {
        point,
        demand,
        transactions: Outstanding::new(point.depth),
        out: links.iter().map(|_| Outbox::new(point.depth, port.flow.post_list)).collect(),
        all: u64::MAX >> (u64::BITS as usize - links.len()),
        begun: 0,
    };
    pace.run(links, port, &mut coordinator)
}

impl<B: Backend> Activity<B> for Coordinator<'_> {
    #[inline]
    fn collect(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        participant: usize,
    ) -> Result<usize, Failure> {
        pace.collect(link, |pace, answer| {
            let header = Header::read(answer).ok_or_else(|| wrong("is damaged"))?;
            self.note(header, participant)?;
            self.proceed(pace, header.call);
            Ok(())
        })
    }

    #[inline]
    fn issue(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        participant: usize,
    ) -> Result<usize, Failure> {
        Ok(self.begin(pace) + self.tell(pace, link, participant)?)
    }

    fn is_idle(&self, _participant: usize) -> bool {
        self.transactions.is_empty()
    }
}

impl Coordinator<'_> {
    /// Begins as many transactions as there is room for or are due. Returns their number.
    #[inline]
    fn begin(&mut self, pace: &mut Pace) -> usize {
        let mut begun = 0;
        while let (Some(place), Some(since)) = (self.transactions.next(), pace.due()) {
            let (phase, waiting, number) = (Phase::Voting, self.all, self.begun);
            self.transactions.begin(Transaction { phase, waiting, yes: 0, since, number });
            self.out.iter_mut().for_each(|out| out.push(place, Code::Prepare));
            self.begun += 1;
            pace.start();
            pace.ask(1);
            begun += 1;
        }
        begun
    }

    /// Sends a participant as many messages as there is room for. Returns their number.
    #[inline]
    fn tell<B: Backend>(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        participant: usize,
    ) -> Result<usize, Failure> {
        let Self { out, transactions, demand, point, .. } = self;
        let write = |message: &mut [u8], place: u32, code: Code| {
            let is_prepare = code == Code::Prepare;
            let len_bytes = if is_prepare { message_bytes(point.size_bytes) } else { HEADER_BYTES };
            Header { len_bytes, call: place, code }.write(message);
            if is_prepare {
                let (row, record) = message[HEADER_BYTES..len_bytes].split_at_mut(ROW_BYTES);
                row.copy_from_slice(&demand.draw().to_le_bytes());
                let number = transactions.get(place).map_or(0, |own| own.number);
                match point.validate {
                    true => pattern::fill(record, number),
                    false => record[..8].copy_from_slice(&number.to_le_bytes()),
                }
            }
            len_bytes
        };
        out[participant].flush(link, write, |len_bytes| pace.message(len_bytes))
    }

    /// Notes a participant's message.
    #[inline]
    fn note(&mut self, header: Header, participant: usize) -> Result<(), Failure> {
        let bit = 1 << participant;
        let transaction = self.transactions.get(header.call);
        let transaction = transaction.filter(|transaction| transaction.waiting & bit != 0);
        let transaction = transaction.ok_or_else(|| wrong("was not waited for"))?;
        transaction.waiting &= !bit;
        match (transaction.phase, header.code) {
            (Phase::Voting, Code::Yes) => transaction.yes |= bit,
            (Phase::Voting, Code::No) | (Phase::Committing | Phase::Aborting, Code::Ended) => {}
            _ => return Err(wrong("does not belong to this phase")),
        }
        Ok(())
    }

    /// Decides or ends a transaction once all participants have answered.
    #[inline]
    fn proceed(&mut self, pace: &mut Pace, place: u32) {
        let Some(transaction) = self.transactions.get(place).filter(|own| own.waiting == 0) else {
            return;
        };
        if transaction.phase == Phase::Voting {
            let is_commit = transaction.yes == self.all;
            // A participant that voted no has nothing prepared.
            transaction.waiting = transaction.yes;
            transaction.phase = if is_commit { Phase::Committing } else { Phase::Aborting };
            let code = if is_commit { Code::Commit } else { Code::Abort };
            let yes = transaction.yes;
            let told = self.out.iter_mut().enumerate().filter(|(bit, _)| (yes >> bit) & 1 == 1);
            told.for_each(|(_, out)| out.push(place, code));
            if yes != 0 {
                return;
            }
        }
        let (is_commit, since) = (transaction.phase == Phase::Committing, transaction.since);
        if is_commit {
            pace.commit();
        }
        pace.end(if is_commit { COMMIT } else { ABORT }, since, 1);
        self.transactions.end(place);
    }
}

fn wrong(what: &str) -> Failure {
    Failure::Data(format!("a participant's answer {what}: the fabric damages data"))
}
