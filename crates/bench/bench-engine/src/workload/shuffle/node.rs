//! One thread's part of a point: it makes tuples until it is told that it is enough, and takes the
//! tuples of its partition until all have come.

use std::time::Instant;

use bench_record::{ReceiverCount, ShuffleCount};

use super::Shuffle;
use super::clock::{Clock, Totals};
use super::flow::Flow;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::partition::{Partition, Sum};
use super::source::{Drawn, Source};
use crate::bench::{rma, stream};
use crate::refusal::Refusal;
use crate::shared_clock::shared_s;
use crate::watch::{Idle, Watch};
use crate::workload::pace::gave_up;
use crate::workload::prelude::*;

/// The node that tells the others when to begin, and whose threads are the client's.
const LEADER: usize = 0;

/// The tuples of this node's partition that it made itself: they go through a buffer, too, but
/// stay.
struct Local {
    buffer: Vec<u8>,
    filled_bytes: usize,
    made: Sum,
    taken: Sum,
}

/// One thread of a node.
struct Node<'a> {
    source: Source<'a>,
    partition: Partition,
    /// The flows by endpoint: by node, without this one.
    flows: Vec<Flow>,
    local: Local,
    /// A tuple that was drawn and has no room yet.
    waiting: Option<Drawn>,
    totals: Totals,
    /// The clock; `None`: the node must not begin yet.
    clock: Option<Clock>,
    /// True if all tuples are made.
    is_last: bool,
}

/// Runs one thread's part of a point; servers stay until the client has had what it needs.
pub(super) fn take_part<B: Backend>(part: Part<'_, B>, own: &mut Shuffle) -> Outcome {
    let Part { links, port, point } = part;
    let number = own.node;
    let mut node = Node::new(links.len() + 1, point, own)?;
    let partition_ns = node.run(links, port, point)?;
    stream::finish(links, &port.signals)?;
    if number != LEADER {
        rma::serve(links, port)?;
    }
    Ok(Measured::Received(node.count(partition_ns)))
}

impl<'a> Node<'a> {
    fn new(partitions: usize, point: PointSpec, own: &'a mut Shuffle) -> Result<Self, Failure> {
        let (number, tuple_bytes, validate) = (own.node, point.size_bytes, point.validate);
        let (buffer_bytes, depth) = (point.parameter, point.depth.max(1));
        if tuple_bytes < bench_record::workload::TUPLE_BYTES_MIN || tuple_bytes > buffer_bytes {
            return Err(Refusal::Tuples { tuple_bytes, buffer_bytes }.into());
        }
        let flow = || Flow {
            outgoing: Outgoing::new(tuple_bytes, buffer_bytes, depth),
            incoming: Incoming::new(depth),
            is_to_go: number == LEADER,
            may_go: false,
        };
        Ok(Self {
            source: Source::new(&mut own.demand, partitions, tuple_bytes, validate),
            partition: Partition { number, partitions, tuple_bytes, validate },
            flows: (1..partitions).map(|_| flow()).collect(),
            local: Local {
                buffer: vec![0; buffer_bytes],
                filled_bytes: 0,
                made: Sum::default(),
                taken: Sum::default(),
            },
            waiting: None,
            totals: Totals::default(),
            clock: (number == LEADER).then(|| Clock::start(point)),
            is_last: false,
        })
    }

    /// Runs from the first tuple to the last. Returns how long it took until the partition was
    /// complete.
    fn run<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
        point: PointSpec,
    ) -> Result<u64, Failure> {
        let mut watch = Watch::new(&port.signals, "waiting for the tuples of another node");
        let mut partition_ns = None;
        loop {
            let mut moved = 0;
            for (number, link) in links.iter_mut().enumerate() {
                moved += self.exchange(link, number)?;
            }
            moved += self.make(links)?;
            if moved > 0 {
                watch.progress();
            } else if watch.idle()? == Idle::Message && self.partition.number == LEADER {
                // Messages to servers only say that the client goes on.
                return Err(gave_up());
            }
            let now = Instant::now();
            self.advance(now, point)?;
            let Some(clock) = &mut self.clock else { continue };
            if !self.is_last || !self.flows.iter().all(|flow| flow.incoming.is_closed()) {
                continue;
            }
            let own_ns = *partition_ns.get_or_insert_with(|| now - clock.started());
            clock.close(now, self.totals);
            if self.flows.iter().all(Flow::is_closed) {
                return Ok(u64::try_from(own_ns.as_nanos()).unwrap_or(u64::MAX));
            }
        }
    }

    /// Handles the messages that have come over an endpoint, and sends those that are due.
    #[inline]
    fn exchange<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let Self { flows, partition, totals, is_last, .. } = self;
        let flow = &mut flows[number];
        let moved = link.poll()?;
        link.take_arrived(|message| flow.take(message, partition, totals))?;
        Ok(moved + flow.send(link, *is_last, totals)?)
    }

    /// Makes some tuples, as far as there is room. Returns their number.
    #[inline]
    fn make<B: Backend>(&mut self, links: &mut [Link<B>]) -> Result<usize, Failure> {
        let Some(clock) = self.clock.as_ref().filter(|_| !self.is_last) else { return Ok(0) };
        let batch = clock.batch(self.totals.tuples_made);
        for made in 0..batch {
            let drawn = self.waiting.take().unwrap_or_else(|| self.source.draw());
            if !self.add(links, drawn)? {
                self.waiting = Some(drawn);
                return Ok(made as usize);
            }
            self.totals.tuples_made += 1;
        }
        Ok(batch as usize)
    }

    /// Puts a tuple into the buffer of its partition. Returns false if there is no room for it.
    #[inline]
    fn add<B: Backend>(&mut self, links: &mut [Link<B>], drawn: Drawn) -> Result<bool, Failure> {
        let own = self.partition.number;
        if drawn.partition == own {
            self.keep(drawn)?;
            return Ok(true);
        }
        let endpoint = if drawn.partition < own { drawn.partition } else { drawn.partition - 1 };
        let outgoing = &mut self.flows[endpoint].outgoing;
        outgoing.add(&mut links[endpoint], &self.source, drawn, &mut self.totals)
    }

    /// Copies a tuple that stays at this node.
    #[inline]
    fn keep(&mut self, drawn: Drawn) -> Result<(), Failure> {
        let (Local { buffer, filled_bytes, made, .. }, tuple_bytes) =
            (&mut self.local, self.partition.tuple_bytes);
        self.source.write(drawn, &mut buffer[*filled_bytes..*filled_bytes + tuple_bytes]);
        made.note(drawn.hash);
        *filled_bytes += tuple_bytes;
        if *filled_bytes + tuple_bytes > buffer.len() { self.take_local() } else { Ok(()) }
    }

    /// Takes the tuples that stayed, as if they had come from another node.
    fn take_local(&mut self) -> Result<(), Failure> {
        let Local { buffer, filled_bytes, taken, .. } = &mut self.local;
        let before = taken.tuples;
        self.partition.take(&buffer[..*filled_bytes], taken)?;
        self.totals.tuples_taken += taken.tuples - before;
        *filled_bytes = 0;
        Ok(())
    }

    /// Begins when the node is told to, and ends when enough tuples are made.
    #[inline]
    fn advance(&mut self, now: Instant, point: PointSpec) -> Result<(), Failure> {
        let Some(clock) = &mut self.clock else {
            self.clock = self.flows[LEADER].may_go.then(|| Clock::start(point));
            return Ok(());
        };
        if self.is_last || !clock.advance(now, self.totals) {
            return Ok(());
        }
        self.is_last = true;
        self.flows.iter_mut().for_each(|flow| flow.outgoing.close());
        if self.local.filled_bytes > 0 {
            self.take_local()?;
        }
        if self.local.made != self.local.taken {
            let text = "tuples that stayed at their node have changed there";
            return Err(Failure::Data(text.to_owned()));
        }
        Ok(())
    }

    /// Returns the count of this thread.
    fn count(&self, partition_ns: u64) -> ReceiverCount {
        let Some((from, to)) = self.clock.as_ref().and_then(Clock::window) else {
            return ReceiverCount::default();
        };
        let within = |of: fn(&Totals) -> u64| of(&to.totals) - of(&from.totals);
        let validated = if self.partition.validate { self.totals.tuples_taken } else { 0 };
        let mut count = ReceiverCount {
            messages: within(|totals| totals.buffers_taken),
            bytes: within(|totals| totals.bytes_taken),
            seconds: (to.at - from.at).as_secs_f64(),
            opened_s: shared_s(from.at),
            total: self.totals.tuples_made,
            validated,
            cpu_ns: to.cpu_ns - from.cpu_ns,
            process_cpu_ns: to.process_cpu_ns - from.process_cpu_ns,
            shuffle: Some(ShuffleCount {
                made: within(|totals| totals.tuples_made),
                taken: within(|totals| totals.tuples_taken),
                buffers_sent: within(|totals| totals.buffers_sent),
                bytes_sent: within(|totals| totals.bytes_sent),
                partition_ns,
            }),
            ..ReceiverCount::default()
        };
        self.flows.iter().for_each(|flow| flow.incoming.count(&mut count));
        count
    }
}
