//! Programs that the model runs: the actions of an application's thread between its calls.

use super::node::Node;
use super::profile::Api;
use crate::id::PairId;
use std::collections::VecDeque;

/// A program that keeps messages under way, as `ib_send_bw` and efa-bench do.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) bytes: u32,
    /// Number of messages under way per queue pair.
    pub(super) depth: u32,
    /// Number of messages that have to complete before the window is filled again: 1 slides it.
    pub(super) refill: u32,
    /// Maximum number of completions taken before the thread posts again.
    pub(super) poll_max: u32,
    /// Number of messages that complete with one completion.
    pub(super) moderation: u32,
    /// Wait after each post, for a program that makes a given load.
    pub(super) wait_ps: u64,
    /// Length of the answer that completes a message (READ); without it the acknowledgement does.
    pub(super) answer_bytes: Option<u32>,
}

/// The program of a thread.
#[derive(Clone, Debug)]
pub(super) enum Program {
    Stream(Stream),
    /// Sends when a message arrives; the thread that begins measures.
    PingPong {
        bytes: u32,
        begins: bool,
    },
    /// Answers each message with one of this length (READ, emulated by the other side's program).
    Server {
        bytes: u32,
    },
    /// Takes each message and posts its receive again.
    Sink,
}

/// The next action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Posts a message after `busy_ps`; goes on `wait_ps` later.
    Post { pair: PairId, bytes: u32, busy_ps: u64, wait_ps: u64 },
    /// Goes on after `busy_ps`.
    Compute { busy_ps: u64 },
    /// Has taken a message of `pair` after `busy_ps`, and goes on.
    Take { pair: PairId, busy_ps: u64 },
    /// Has nothing to do until something arrives.
    Poll,
}

/// A range of consecutive connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs {
    pub(super) first: PairId,
    pub(super) count: u32,
}

impl Pairs {
    pub(super) fn all(self) -> impl Iterator<Item = PairId> {
        self.first.range(self.count)
    }

    /// Returns the place of a connection in the range.
    fn place_of(self, pair: PairId) -> usize {
        pair.index() - self.first.index()
    }
}

/// One thread of a program.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) node: Node,
    program: Program,
    api: Api,
    pairs: Pairs,
    /// Whether it is scheduled to go on; an arrival need not wake it.
    pub(super) is_busy: bool,
    /// Number of messages under way, per queue pair.
    under_way: Vec<u32>,
    /// Number of completed messages without a completion yet, per queue pair (moderation).
    silent: Vec<u32>,
    /// Completions to be taken: queue pair, messages.
    completions: VecDeque<(PairId, u32)>,
    /// Messages to be taken: queue pair, processor time.
    received: VecDeque<(PairId, u64)>,
    is_filling: bool,
    /// Number of messages completed since the window was full.
    collected: u32,
    /// Number of messages completed since the start.
    pub(super) completed: u64,
}

impl Thread {
    pub(super) fn new(node: Node, program: Program, api: Api, pairs: Pairs) -> Self {
        let count = pairs.count as usize;
        let mut received = VecDeque::new();
        if let Program::PingPong { begins: true, .. } = program {
            received.push_back((pairs.first, 0));
        }
        Self {
            node,
            program,
            api,
            pairs,
            is_busy: true,
            under_way: vec![0; count],
            silent: vec![0; count],
            completions: VecDeque::new(),
            received,
            is_filling: true,
            collected: 0,
            completed: 0,
        }
    }

    /// Returns whether it measures round trips.
    pub(super) fn measures(&self) -> bool {
        matches!(self.program, Program::PingPong { begins: true, .. })
    }

    /// Returns the time in which the adapter fetches a message of this length.
    pub(super) fn fetch_ps(&self, bytes: u32) -> u64 {
        if bytes > self.api.inline_bytes { self.api.fetch_ns.ps() } else { 0 }
    }

    /// Takes note that the adapter completed messages of `pair`.
    pub(super) fn complete(&mut self, pair: PairId, messages: u32) {
        let Program::Stream(stream) = &self.program else { return };
        if stream.answer_bytes.is_none() {
            let silent = &mut self.silent[self.pairs.place_of(pair)];
            *silent += messages;
            while *silent >= stream.moderation {
                *silent -= stream.moderation;
                self.completions.push_back((pair, stream.moderation));
            }
        }
    }

    /// Takes note that a message of `pair` arrived.
    pub(super) fn receive(&mut self, pair: PairId, bytes: u32, packets: u32) {
        let busy_ps = self.api.receive_ps(bytes, packets);
        match &self.program {
            Program::Stream(stream) => {
                if stream.answer_bytes.is_some() {
                    self.completions.push_back((pair, 1));
                }
            }
            Program::PingPong { .. } | Program::Server { .. } => {
                self.received.push_back((pair, busy_ps));
            }
            Program::Sink => self.received.push_back((pair, busy_ps + self.api.repost_ns.ps())),
        }
    }

    /// Returns whether something waits to be taken.
    pub(super) fn has_work(&self) -> bool {
        !self.completions.is_empty() || !self.received.is_empty()
    }

    /// Advances to the next action.
    pub(super) fn step(&mut self) -> Step {
        match &self.program {
            Program::PingPong { bytes, .. } | Program::Server { bytes } => {
                let bytes = *bytes;
                let Some((pair, taken_ps)) = self.received.pop_front() else { return Step::Poll };
                self.completed += 1;
                let busy_ps = taken_ps + self.api.post_ps(bytes);
                Step::Post { pair, bytes, busy_ps, wait_ps: 0 }
            }
            Program::Sink => {
                let Some((pair, busy_ps)) = self.received.pop_front() else { return Step::Poll };
                Step::Take { pair, busy_ps }
            }
            Program::Stream(stream) => {
                let stream = stream.clone();
                if self.is_filling { self.fill(&stream) } else { self.collect(&stream) }
            }
        }
    }

    fn fill(&mut self, stream: &Stream) -> Step {
        let Some(index) = self.under_way.iter().position(|&n| n < stream.depth) else {
            self.is_filling = false;
            self.collected = 0;
            return self.collect(stream);
        };
        self.under_way[index] += 1;
        let is_full = self.under_way.iter().all(|&n| n >= stream.depth);
        Step::Post {
            pair: PairId::at(self.pairs.first.index() + index),
            bytes: stream.bytes,
            busy_ps: self.api.post_ps(stream.bytes),
            // With a full window the completions come first, then the wait.
            wait_ps: if is_full { 0 } else { stream.wait_ps },
        }
    }

    fn collect(&mut self, stream: &Stream) -> Step {
        let taken = self.completions.len().min(stream.poll_max as usize);
        if taken == 0 {
            return Step::Poll;
        }
        for (pair, messages) in self.completions.drain(..taken) {
            self.under_way[self.pairs.place_of(pair)] -= messages;
            self.collected += messages;
            self.completed += u64::from(messages);
        }
        self.is_filling = self.collected >= stream.refill;
        let wait_ps = if self.is_filling { stream.wait_ps } else { 0 };
        let received = stream.answer_bytes.map(|bytes| self.api.receive_ps(bytes, 1));
        let each_ps = received.unwrap_or_else(|| self.api.poll_ns.ps());
        Step::Compute { busy_ps: taken as u64 * each_ps + wait_ps }
    }
}
