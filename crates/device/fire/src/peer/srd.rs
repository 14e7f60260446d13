//! Traffic over a Soft-EFA device.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;
use softefa::counters::Counter;
use softefa::{Completion, CompletionOp, SendOp, Status};

use super::descriptors;
use super::endpoint::{Endpoint, Target};
use super::guest::Guests;
use super::ledger::{Ledger, Verdict};
use super::pattern;
use super::series::Series;
use crate::args::{Op, PeerArgs};

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Free,
    /// A message or a WRITE of this number.
    Sent(u64),
    /// A READ of memory with this source and number.
    Reading(u64, u64),
}

struct Peer<'a> {
    args: &'a PeerArgs,
    end: Endpoint,
    target: Option<Target>,
    guests: Option<Guests>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    is_going: bool,
    is_ended: bool,
    next: u64,
    /// Operations that ended with status 0 and the right contents.
    done: u64,
    statuses: BTreeMap<u8, u64>,
    first_error: Option<Instant>,
    ledgers: BTreeMap<u64, Ledger>,
    duplicates: u64,
    /// Descriptions of the first errors.
    errors: Vec<String>,
    /// The number of all errors.
    error_count: u64,
    series: Series,
    opened: BTreeMap<String, u64>,
}

pub(super) fn run(args: &PeerArgs, commands: &Receiver<String>) -> Result<()> {
    let end = Endpoint::open(args.depth, args.bytes)?;
    let (memory, rkey) = end.memory();
    let depth = args.depth as usize;
    let mut peer = Peer {
        args,
        target: None,
        guests: None,
        slots: vec![Slot::Free; depth],
        free: (0..depth).collect(),
        is_going: false,
        is_ended: true,
        next: 0,
        done: 0,
        statuses: BTreeMap::new(),
        first_error: None,
        ledgers: BTreeMap::new(),
        duplicates: 0,
        errors: Vec::new(),
        error_count: 0,
        series: Series::default(),
        opened: descriptors::open(),
        end,
    };
    let address = format!("{} {} {memory} {rkey}", peer.end.device.addr(), peer.end.qp.qpn());
    super::emit(&json!({
        "event": "hello", "address": address, "bytes": peer.end.bytes(), "pid": std::process::id(),
    }))?;
    while peer.step(commands)? {}
    peer.report()
}

impl Peer<'_> {
    /// Does one round of work. False when the peer is to quit.
    fn step(&mut self, commands: &Receiver<String>) -> Result<bool> {
        match commands.try_recv() {
            Ok(command) if command == "quit" => return Ok(false),
            Ok(command) => self.run_command(&command)?,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => bail!("the experiment is gone"),
        }
        let mut found = Vec::new();
        self.end.cq.poll(64, |done| found.push(*done));
        for done in &found {
            self.handle_completion(done)?;
        }
        let is_sending = self.is_going && self.first_error.is_none();
        let posted = if is_sending { self.fill()? } else { 0 };
        self.report_end()?;
        if found.is_empty() && posted == 0 {
            if self.args.polite {
                std::thread::sleep(Duration::from_micros(50));
            } else {
                std::thread::yield_now();
            }
        }
        Ok(true)
    }

    fn run_command(&mut self, command: &str) -> Result<()> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["peer", rest @ ..] => {
                self.target = Some(self.end.target(rest)?);
                self.guests = self.args.churn.then(|| Guests::new(self.args.source, rest));
            }
            ["go"] => (self.is_going, self.is_ended) = (true, false),
            ["stop"] => (self.is_going, self.is_ended) = (false, false),
            _ => bail!("unknown command {command}"),
        }
        Ok(())
    }

    /// Posts as many operations as there are free slots; returns their number.
    fn fill(&mut self) -> Result<usize> {
        let Some(target) = &self.target else { return Ok(0) };
        if let Some(guests) = &mut self.guests {
            guests.create_if_due(&self.end)?;
        }
        let mut posted = 0;
        while let Some(slot) = self.free.pop() {
            let number = self.next;
            self.next += 1;
            let op = match self.args.op {
                Op::Read => {
                    self.slots[slot] = Slot::Reading(pattern::EXPOSED, slot as u64);
                    SendOp::Read(self.end.remote(target, slot))
                }
                op => {
                    pattern::fill(self.end.slot(slot), u64::from(self.args.source), number);
                    self.slots[slot] = Slot::Sent(number);
                    match op {
                        Op::Write => SendOp::Write(self.end.remote(target, slot)),
                        _ => SendOp::Send,
                    }
                }
            };
            self.end.post(&self.end.qp, target, op, slot)?;
            posted += 1;
        }
        Ok(posted)
    }

    fn handle_completion(&mut self, done: &Completion) -> Result<()> {
        if done.op == CompletionOp::Recv {
            return self.handle_message(done);
        }
        if self.guests.as_mut().is_some_and(|guests| guests.handle_completion(done)) {
            return Ok(());
        }
        let slot = done.wr_id as usize;
        let was = self.slots[slot];
        if done.status != Status::Ok {
            *self.statuses.entry(done.status.code()).or_default() += 1;
            self.first_error.get_or_insert_with(Instant::now);
            self.release(slot);
            return Ok(());
        }
        match was {
            Slot::Free => self.record_error(format!("slot {slot} completed twice")),
            Slot::Sent(number) if self.args.op == Op::Write && self.first_error.is_none() => {
                return self.read_back(slot, number);
            }
            Slot::Sent(_) => self.done += 1,
            Slot::Reading(source, number) => {
                self.series.add(u64::from(self.end.bytes()));
                match pattern::first_mismatch(self.end.slot(slot), source, number) {
                    None => self.done += 1,
                    Some(word) => {
                        self.record_error(format!("word {word} of READ {number} is wrong"));
                    }
                }
            }
        }
        self.release(slot);
        Ok(())
    }

    /// Reads a WRITE back, which shows that it has arrived.
    fn read_back(&mut self, slot: usize, number: u64) -> Result<()> {
        let Some(target) = &self.target else { return Ok(()) };
        // Otherwise a slot that is not overwritten would look right.
        pattern::fill(self.end.slot(slot), 0, 0);
        self.slots[slot] = Slot::Reading(u64::from(self.args.source), number);
        let op = SendOp::Read(self.end.remote(target, slot));
        self.end.post(&self.end.qp, target, op, slot)
    }

    fn release(&mut self, slot: usize) {
        self.slots[slot] = Slot::Free;
        self.free.push(slot);
    }

    fn handle_message(&mut self, done: &Completion) -> Result<()> {
        let slot = done.wr_id as usize;
        if done.status != Status::Ok {
            self.record_error(format!("a receive ended with status {}", done.status.code()));
            return Ok(());
        }
        let words = self.end.received(slot, done.byte_len);
        let name = pattern::origin(words);
        match name
            .filter(|&(source, number)| pattern::first_mismatch(words, source, number).is_none())
        {
            None => self.record_error(format!("{} bytes arrived damaged", done.byte_len)),
            Some((source, number)) => {
                match self.ledgers.entry(source).or_default().record(number) {
                    Verdict::Fresh => self.series.add(u64::from(done.byte_len)),
                    Verdict::Duplicate => self.duplicates += 1,
                    Verdict::Implausible => {
                        self.record_error(format!("message {number} of {source} is absurd"));
                    }
                }
            }
        }
        self.end.post_recv(slot)
    }

    fn record_error(&mut self, what: String) {
        self.error_count += 1;
        if self.errors.len() < 3 {
            self.errors.push(what);
        }
    }

    /// Emits `ended` once when nothing is under way any more.
    fn report_end(&mut self) -> Result<()> {
        let is_over = !self.is_going || self.first_error.is_some();
        let has_guest = self.guests.as_ref().is_some_and(Guests::is_alive);
        let is_busy = self.free.len() < self.slots.len() || has_guest && self.first_error.is_none();
        if self.is_ended || !is_over || is_busy {
            return Ok(());
        }
        self.is_ended = true;
        let since = self.first_error.map(|at| at.elapsed().as_millis() as u64);
        super::emit(&json!({
            "event": "ended", "statuses": self.statuses, "ms_since_error": since,
        }))
    }

    /// Destroys what belongs to the peer and waits until its descriptors are closed; returns those
    /// left open.
    fn tear_down(&mut self) -> BTreeMap<String, u64> {
        self.guests = None;
        if let Some(target) = self.target.take() {
            target.ah.destroy();
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let mut more = descriptors::more(&self.opened, &descriptors::open());
            descriptors::leave_out_door(&mut more, self.end.device.addr(), self.end.qp.port());
            if more.is_empty() || Instant::now() > deadline {
                return more;
            }
            self.end.cq.poll(64, |_| {});
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn report(mut self) -> Result<()> {
        let guests = self.guests.as_ref().map(|guests| (guests.sent, guests.failed));
        let left_open = self.tear_down();
        let sources: BTreeMap<String, _> = self.ledgers.iter().map(ledger_json).collect();
        let counter = |counter| self.end.device.counters().get(counter);
        let report = json!({
            "event": "report", "begun": self.next, "done": self.done, "statuses": self.statuses,
            "sources": sources, "duplicates": self.duplicates, "wrong": self.errors,
            "wrongs": self.error_count, "left_open": left_open, "series": self.series.json(),
            "guests": guests.map(|(sent, failed)| json!({ "sent": sent, "failed": failed })),
            "repeated": counter(Counter::RetransPkts),
        });
        self.end.qp.destroy();
        super::emit(&report)
    }
}

fn ledger_json((source, ledger): (&u64, &Ledger)) -> (String, serde_json::Value) {
    let numbers = json!({
        "taken": ledger.taken, "missing": ledger.missing(), "late_max": ledger.late_max,
    });
    (source.to_string(), numbers)
}
