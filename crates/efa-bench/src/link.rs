//! A fabric node with its slots managed, as the benchmarks use it.

use std::time::{Duration, Instant};

use fabric::{
    Completion, CompletionKind, EndpointType, Features, Hints, MessageKind, Node, NodeConfig, Post,
    Prepared,
};

use crate::control::{Control, Pending};
use crate::failure::Failure;
use crate::record::FabricRecord;
use crate::spec::{EndpointKind, JobSpec, Operation};

/// The tag of every message; one flow needs only one.
const TAG: u64 = 0x0efa;
const BURST: usize = 64;

/// A message that arrived and waits in its slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) slot: usize,
    pub(crate) len_bytes: usize,
}

/// One side of the endpoint pair.
pub(crate) struct Link {
    node: Node,
    operation: Operation,
    tx_free: Vec<usize>,
    /// Messages that arrived and were not handled; room for every posted receive, so that it
    /// never grows.
    pub(crate) arrived: Vec<Arrival>,
    found: [Completion; BURST],
}

/// How many sends and receives a side needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depths {
    pub(crate) tx: usize,
    pub(crate) rx: usize,
}

/// Opens the local half for a job.
pub(crate) fn prepare(
    job: &JobSpec,
    depths: Depths,
    source: Option<String>,
) -> Result<Prepared, Failure> {
    let config = NodeConfig {
        hints: Hints {
            provider: Some(job.provider.clone()),
            domain: job.domain.clone(),
            endpoint: match job.endpoint {
                EndpointKind::Rdm => EndpointType::Rdm,
                EndpointKind::Dgram => EndpointType::Dgram,
            },
            messages: match job.operation {
                Operation::Tagged => MessageKind::Tagged,
                Operation::Send | Operation::Inject => MessageKind::Plain,
            },
            features: Features::NONE,
            source,
        },
        tx_slots: depths.tx.max(1),
        rx_slots: depths.rx.max(1),
        payload_bytes: job.max_size_bytes,
    };
    Ok(Node::prepare(&config)?)
}

/// The fabric of a prepared node, for the record.
pub(crate) fn describe(info: &fabric::Info) -> FabricRecord {
    FabricRecord {
        provider: info.provider(),
        fabric: info.fabric_name(),
        domain: info.domain_name(),
        mtu_bytes: info.mtu_bytes().filter(|m| *m > 0),
        max_message_bytes: info.max_message_bytes(),
        inject_bytes: info.inject_bytes(),
        tx_depth: info.tx_depth(),
        rx_depth: info.rx_depth(),
        text: info.describe(),
    }
}

impl Link {
    /// Takes a connected node and posts all its receives.
    pub(crate) fn new(node: Node, operation: Operation) -> Result<Self, Failure> {
        let (tx, rx) = (node.tx_slots(), node.rx_slots());
        let mut this = Self {
            node,
            operation,
            tx_free: (0..tx).rev().collect(),
            arrived: Vec::with_capacity(rx + BURST),
            found: [Completion::NONE; BURST],
        };
        for slot in tx..tx + rx {
            this.repost(slot)?;
        }
        Ok(this)
    }

    pub(crate) const fn node(&self) -> &Node {
        &self.node
    }

    /// Sends in flight are bounded by this.
    pub(crate) const fn tx_slots(&self) -> usize {
        self.node.tx_slots()
    }

    /// Sends in flight now.
    pub(crate) fn in_flight(&self) -> usize {
        self.node.tx_slots() - self.tx_free.len()
    }

    /// Makes progress: completed sends free their slots, arrivals go to `arrived`. Answers how
    /// many completions there were.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<usize, Failure> {
        let count = self.node.poll(&mut self.found)?;
        for done in &self.found[..count] {
            match done.kind {
                CompletionKind::Send => self.tx_free.push(done.slot),
                CompletionKind::Receive => {
                    self.arrived.push(Arrival { slot: done.slot, len_bytes: done.len_bytes });
                }
                // Of operations that no job posts.
                _ => {}
            }
        }
        Ok(count)
    }

    /// A slot to fill for the next send, if one is free.
    #[inline]
    pub(crate) fn next_tx(&self) -> Option<usize> {
        self.tx_free.last().copied()
    }

    /// The payload of a free slot, to fill it.
    #[inline]
    pub(crate) fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Failure> {
        Ok(self.node.buffers_mut().payload_mut(slot)?)
    }

    /// The payload of a free slot.
    #[inline]
    pub(crate) fn payload(&self, slot: usize) -> Result<&[u8], Failure> {
        Ok(self.node.buffers().payload(slot)?)
    }

    /// Tries to send the slot that `next_tx` answered; false when the provider is full.
    #[inline]
    pub(crate) fn try_send(&mut self, len_bytes: usize) -> Result<bool, Failure> {
        let Some(slot) = self.next_tx() else { return Ok(false) };
        let post = match self.operation {
            Operation::Inject => self.node.inject(slot, len_bytes, TAG)?,
            Operation::Send | Operation::Tagged => {
                let post = self.node.post_send(slot, len_bytes, TAG)?;
                if post == Post::Done {
                    self.tx_free.pop();
                }
                post
            }
        };
        Ok(post == Post::Done)
    }

    /// Copies a free slot's payload into another free slot.
    #[inline]
    pub(crate) fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Failure> {
        Ok(self.node.buffers_mut().copy(from, to, len_bytes)?)
    }

    /// Makes progress for the peer's sake until a control message is there.
    pub(crate) fn poll_until_message(
        &mut self,
        control: &Control,
        doing: &'static str,
    ) -> Result<(), Failure> {
        let mut watch = Watch::new(control, doing);
        while control.pending() != Pending::Message {
            for _ in 0..SPINS_PER_LOOK {
                if self.poll()? > 0 {
                    watch.progress();
                } else if watch.idle()? == Idle::Message {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Posts a receive slot again.
    #[inline]
    pub(crate) fn repost(&mut self, slot: usize) -> Result<(), Failure> {
        loop {
            if self.node.post_receive(slot, TAG, 0)? == Post::Done {
                return Ok(());
            }
            self.poll()?;
        }
    }
}

/// What a loop that found nothing should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Go on polling.
    Spin,
    /// A control message is waiting.
    Message,
    /// Nothing for as long as `resend_after`.
    Quiet,
}

/// Notices, at almost no cost, that nothing happens any more.
pub(crate) struct Watch<'a> {
    control: &'a Control,
    doing: &'static str,
    spins: u32,
    last_progress: Option<Instant>,
    last_look: Option<Instant>,
}

/// Empty polls between two clock reads. Few: some providers yield the processor in each, which on
/// a busy machine costs milliseconds.
const SPINS_PER_LOOK: u32 = 16;
/// Silence before the control connection is looked at, and between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Silence after which a datagram counts as lost.
const QUIET_AFTER: Duration = Duration::from_millis(100);

impl<'a> Watch<'a> {
    pub(crate) const fn new(control: &'a Control, doing: &'static str) -> Self {
        Self { control, doing, spins: 0, last_progress: None, last_look: None }
    }

    /// Something happened.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.spins = 0;
        self.last_progress = None;
        self.last_look = None;
    }

    /// Nothing happened in this turn.
    #[inline]
    pub(crate) fn idle(&mut self) -> Result<Idle, Failure> {
        self.spins += 1;
        if self.spins < SPINS_PER_LOOK {
            return Ok(Idle::Spin);
        }
        self.spins = 0;
        self.look()
    }

    #[cold]
    fn look(&mut self) -> Result<Idle, Failure> {
        let now = Instant::now();
        let silent_since = *self.last_progress.get_or_insert(now);
        if now - *self.last_look.get_or_insert(now) < LOOK_EVERY {
            return Ok(Idle::Spin);
        }
        self.last_look = Some(now);
        match self.control.pending() {
            Pending::Message => return Ok(Idle::Message),
            Pending::Closed => {
                return Err(Failure::PeerGone {
                    doing: self.doing.to_owned(),
                    reason: "it closed the control connection".to_owned(),
                });
            }
            Pending::Nothing => {}
        }
        let silent = now - silent_since;
        if silent >= self.control.timeout() {
            let seconds = self.control.timeout().as_secs_f64();
            return Err(Failure::Timeout { doing: self.doing.to_owned(), seconds });
        }
        Ok(if silent >= QUIET_AFTER { Idle::Quiet } else { Idle::Spin })
    }
}
