//! One node, which leads its turns, answers in those of others, and is quiet otherwise, so that it
//! takes no processor from a pair on its machine.

use std::thread;
use std::time::{Duration, Instant};

use super::turn::Found;
use super::word::{FIGURES, Kind, WORD_BYTES, Word, damaged, words};
use crate::exchange::Pending;
use crate::watch::{Idle, Silence, Watch};
use crate::workload::gave_up;
use crate::workload::prelude::*;

/// The length of a silence after which a node looks for messages only now and then.
const QUIET_AFTER: Duration = Duration::from_millis(5);
/// The time between two of these looks.
const NAP: Duration = Duration::from_micros(100);
/// The longest time between two looks, unless the process was stopped.
const STEP_MAX: Duration = Duration::from_millis(50);
/// The number of looks at the peer that spoke last between two looks at all others.
const LOOKS_PER_ROUND: u32 = 64;

/// A stream that comes from another node.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    came: u64,
    /// The number of messages of the stream, once its sender has said it.
    of: Option<u64>,
}

/// The work that a message causes at a node, beside the answer.
#[derive(Debug)]
pub(super) enum Event {
    /// A round trip or a stream of this node has ended; the number of its answer.
    Answered(Kind, u64),
    /// It is this node's turn, with that node.
    Lead(usize),
    /// The figures of another node's turn.
    Figures(usize, Box<Found>),
    GoesOn,
    End,
}

/// The endpoints of one node to all others.
pub(super) struct Node<'a, B> {
    pub(super) links: &'a mut [Link<B>],
    pub(super) port: &'a Port,
    pub(super) rank: usize,
    pub(super) point: PointSpec,
    streams: Vec<Stream>,
    /// The endpoint over which the last message came.
    active: usize,
}

impl<'a, B: Backend> Node<'a, B> {
    pub(super) fn new(part: Part<'a, B>, rank: usize) -> Self {
        let Part { links, port, point } = part;
        let streams = vec![Stream::default(); links.len()];
        Self { links, port, rank, point, streams, active: 0 }
    }

    /// Returns the endpoint to a node; `node` is the inverse.
    #[inline]
    pub(super) const fn endpoint(&self, node: usize) -> usize {
        if node < self.rank { node } else { node - 1 }
    }

    const fn node(&self, endpoint: usize) -> usize {
        if endpoint < self.rank { endpoint } else { endpoint + 1 }
    }

    /// Posts a message of this length. Returns false if there is no room.
    #[inline]
    pub(super) fn try_say(
        &mut self,
        endpoint: usize,
        word: Word,
        len_bytes: usize,
    ) -> Result<bool, Failure> {
        let link = &mut self.links[endpoint];
        let Some(slot) = link.next_tx() else { return Ok(false) };
        word.write(link.payload_mut(slot)?, len_bytes);
        link.try_message(len_bytes, false)
    }

    /// Sends a message of this length.
    #[inline]
    pub(super) fn say(
        &mut self,
        endpoint: usize,
        word: Word,
        len_bytes: usize,
    ) -> Result<(), Failure> {
        let mut watch = Watch::new(&self.port.signals, "sending to another node");
        while !self.try_say(endpoint, word, len_bytes)? {
            if self.links[endpoint].poll()? > 0 {
                watch.progress();
            } else {
                self.wait(&mut watch)?;
            }
        }
        Ok(())
    }

    /// Sends the client the figures of this node's turn.
    pub(super) fn report(&mut self, found: &Found) -> Result<(), Failure> {
        let figures = found.to_words();
        let number = Found::check(&figures);
        let endpoint = self.endpoint(0);
        let len_bytes = WORD_BYTES + FIGURES * 8;
        let mut watch = Watch::new(&self.port.signals, "telling the client what was found");
        loop {
            if let Some(slot) = self.links[endpoint].next_tx() {
                let payload = self.links[endpoint].payload_mut(slot)?;
                let body = payload[WORD_BYTES..len_bytes].chunks_exact_mut(8);
                for (place, figure) in body.zip(figures) {
                    place.copy_from_slice(&figure.to_le_bytes());
                }
            }
            if self.try_say(endpoint, Word { kind: Kind::Figures, number }, len_bytes)? {
                return Ok(());
            }
            if self.links[endpoint].poll()? == 0 {
                self.wait(&mut watch)?;
            }
        }
    }

    /// Notes that nothing happened. Fails when that has lasted too long. Messages to servers only
    /// say that the client goes on.
    #[inline]
    pub(super) fn wait(&self, watch: &mut Watch<'_>) -> Result<(), Failure> {
        match watch.idle()? {
            Idle::Message if self.rank == 0 => Err(gave_up()),
            _ => Ok(()),
        }
    }

    /// Receives messages of one endpoint and answers them, until one needs more than an answer.
    #[inline]
    pub(super) fn attend(&mut self, endpoint: usize) -> Result<(usize, Option<Event>), Failure> {
        let moved = self.links[endpoint].poll()?;
        while let Some(arrival) = self.links[endpoint].arrived.pop_front() {
            self.active = endpoint;
            let message = self.links[endpoint].message(arrival)?;
            let (word, len_bytes) = (Word::read(message)?, message.len());
            let found = match word.kind {
                Kind::Figures => Some(Found::read(word, words(&message[WORD_BYTES..]))?),
                _ => None,
            };
            self.links[endpoint].repost(arrival.slot)?;
            if let Some(event) = self.answer(endpoint, word, len_bytes, found)? {
                return Ok((moved, Some(event)));
            }
        }
        Ok((moved, None))
    }

    #[inline]
    fn answer(
        &mut self,
        endpoint: usize,
        word: Word,
        len_bytes: usize,
        found: Option<Found>,
    ) -> Result<Option<Event>, Failure> {
        let stream = &mut self.streams[endpoint];
        match word.kind {
            Kind::Ping => {
                self.say(endpoint, Word { kind: Kind::Echo, ..word }, len_bytes)?;
                return Ok(None);
            }
            Kind::Data => stream.came += 1,
            Kind::Last => stream.of = Some(word.number),
            Kind::Echo | Kind::Done => return Ok(Some(Event::Answered(word.kind, word.number))),
            Kind::GoesOn => return Ok(Some(Event::GoesOn)),
            Kind::End => return Ok(Some(Event::End)),
            Kind::Lead => {
                let node = usize::try_from(word.number).unwrap_or(usize::MAX);
                let is_other = node != self.rank && node <= self.links.len();
                return is_other.then_some(Some(Event::Lead(node))).ok_or_else(damaged);
            }
            Kind::Figures => {
                let node = self.node(endpoint);
                return Ok(found.map(|found| Event::Figures(node, Box::new(found))));
            }
        }
        let Stream { came, of } = *stream;
        if of.is_some_and(|of| came > of) {
            return Err(Failure::Data(format!(
                "{came} messages of a stream of {} came from node {}: the fabric repeats some",
                of.unwrap_or_default(),
                self.node(endpoint)
            )));
        }
        if of == Some(came) {
            *stream = Stream::default();
            self.say(endpoint, Word { kind: Kind::Done, number: came }, WORD_BYTES)?;
        }
        Ok(None)
    }

    /// Answers messages until one needs more than an answer. Fails after a silence of `at_most`;
    /// `None`: waits for as long as the client goes on.
    pub(super) fn serve(&mut self, at_most: Option<Duration>) -> Result<Event, Failure> {
        let mut silence = Silence::new(Instant::now(), STEP_MAX);
        loop {
            let mut moved = 0;
            for _ in 0..LOOKS_PER_ROUND {
                let (found, event) = self.attend(self.active)?;
                if let Some(event) = event {
                    return Ok(event);
                }
                if found == 0 {
                    self.port.signals.pause();
                }
                moved += found;
            }
            for endpoint in 0..self.links.len() {
                let (found, event) = self.attend(endpoint)?;
                if let Some(event) = event {
                    return Ok(event);
                }
                moved += found;
            }
            let now = Instant::now();
            if moved > 0 {
                silence = Silence::new(now, STEP_MAX);
                continue;
            }
            let silent = silence.goes_on(now);
            if silent > QUIET_AFTER {
                self.look_around(at_most.filter(|at_most| silent > *at_most))?;
                thread::sleep(NAP);
            }
        }
    }

    /// Checks the connections after a silence. Fails if the silence was `too_long`.
    fn look_around(&self, too_long: Option<Duration>) -> Result<(), Failure> {
        let doing = "waiting for the figures of another node";
        match self.port.signals.pending() {
            Pending::Closed => return Err(Failure::closed(doing)),
            Pending::Message if self.rank == 0 => return Err(gave_up()),
            _ => {}
        }
        match too_long {
            Some(silence) => {
                let seconds = silence.as_secs_f64();
                Err(Failure::Timeout { doing: doing.to_owned(), seconds })
            }
            None => Ok(()),
        }
    }
}
