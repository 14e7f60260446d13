//! A backend without a fabric, so that only the cost of the benchmark is left. It serves to count
//! instructions (`bench::own_cost`), not to measure.

use std::collections::VecDeque;

use bench_record::FabricRecord;
use bench_record::failure::Failure;
use fabric::OutOfBand;
use rustix::event::PollFd;

use super::{Backend, Completion, Kind, Lengths, PostFlags, Posted, Wants, Work};
use crate::backend::unable::Unable;

/// The most completions that one poll finds: as many as perftest asks a queue for.
const FOUND: usize = 16;

/// The behaviour of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Receives messages, and sends nothing.
    Takes,
    /// Sends each message back.
    Echoes,
    /// Sends each message back, but loses the echoes of messages `first` to `last`, counted from 1.
    Loses { first: u64, last: u64 },
    /// Sends each message back with its content, but loses the first `lost` messages.
    #[cfg(test)]
    Repeats { lost: u64 },
    /// Sends this many messages, each when the one before has come back; the last one has 1 in its
    /// first byte.
    Pings(u64),
    /// Sends as many messages as there are receives.
    Streams,
}

/// An endpoint without a fabric.
pub(crate) struct Null {
    peer: Peer,
    memory: Vec<u8>,
    stride_bytes: usize,
    tx: usize,
    rx: usize,
    offered: VecDeque<usize>,
    done: VecDeque<Completion>,
    /// The number of messages that were sent.
    pub(crate) taken: u64,
    /// The number of messages that arrived.
    pub(crate) delivered: u64,
}

impl Null {
    pub(crate) fn new(peer: Peer, tx: usize, rx: usize, stride_bytes: usize) -> Self {
        Self {
            peer,
            memory: vec![0; (tx + rx) * stride_bytes],
            stride_bytes,
            tx,
            rx,
            offered: VecDeque::with_capacity(rx),
            done: VecDeque::with_capacity(tx + rx),
            taken: 0,
            delivered: 0,
        }
    }

    #[inline]
    fn deliver(&mut self) -> bool {
        let Some(slot) = self.offered.pop_front() else { return false };
        self.delivered += 1;
        self.done.push_back(Completion {
            kind: Kind::Received,
            slot,
            len_bytes: self.stride_bytes,
        });
        true
    }

    /// Delivers the content of this slot.
    #[cfg(test)]
    fn repeat(&mut self, slot: usize) {
        let Some(to) = self.offered.front() else { return };
        let from = slot * self.stride_bytes;
        self.memory.copy_within(from..from + self.stride_bytes, to * self.stride_bytes);
        self.deliver();
    }

    /// Delivers the next ping, if there is one left.
    #[inline]
    fn ping(&mut self) {
        let Peer::Pings(left) = self.peer else { return };
        if left == 0 {
            return;
        }
        if left == 1 {
            if let Some(slot) = self.offered.front() {
                self.memory[slot * self.stride_bytes] = 1;
            }
        }
        if self.deliver() {
            self.peer = Peer::Pings(left - 1);
        }
    }
}

impl Backend for Null {
    type Prepared = std::convert::Infallible;

    fn prepare(_wants: &Wants) -> Result<Self::Prepared, Failure> {
        Err(Unable::ByHand.into())
    }

    fn describe(prepared: &Self::Prepared) -> FabricRecord {
        match *prepared {}
    }

    fn connect(prepared: Self::Prepared, _oob: &mut dyn OutOfBand) -> Result<Self, Failure> {
        match prepared {}
    }

    fn setup_us(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    fn tx_depth(&self) -> usize {
        self.tx
    }

    fn tx_slots(&self) -> usize {
        self.tx
    }

    fn rx_slots(&self) -> usize {
        self.rx
    }

    fn begin(&mut self, _lengths: Lengths) {}

    #[inline]
    fn payload(&self, slot: usize) -> Result<&[u8], Failure> {
        Ok(&self.memory[slot * self.stride_bytes..][..self.stride_bytes])
    }

    #[inline]
    fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Failure> {
        Ok(&mut self.memory[slot * self.stride_bytes..][..self.stride_bytes])
    }

    #[inline]
    fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Failure> {
        let from = from * self.stride_bytes;
        self.memory.copy_within(from..from + len_bytes, to * self.stride_bytes);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, slot: usize) -> Result<Posted, Failure> {
        self.offered.push_back(slot);
        if self.delivered == 0 {
            self.ping();
        }
        Ok(Posted::Done)
    }

    fn freeze(&mut self, _slot: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn write_window(&mut self, _bytes: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns zeros: no peer writes the memory.
    fn read_window(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        bytes.fill(0);
        Ok(())
    }

    fn remote_bytes(&self) -> u64 {
        0
    }

    #[expect(
        clippy::inline_always,
        reason = "what is counted is the loop around it, in every build"
    )]
    #[inline(always)]
    fn post(
        &mut self,
        _work: Work,
        slot: usize,
        _len_bytes: usize,
        _how: PostFlags,
    ) -> Result<Posted, Failure> {
        self.taken += 1;
        self.done.push_back(Completion { kind: Kind::Sent, slot, len_bytes: 0 });
        match self.peer {
            Peer::Echoes => {
                self.deliver();
            }
            Peer::Loses { first, last } => {
                if !(first..=last).contains(&self.taken) {
                    self.deliver();
                }
            }
            #[cfg(test)]
            Peer::Repeats { lost } => {
                if self.taken > lost {
                    self.repeat(slot);
                }
            }
            Peer::Pings(_) => self.ping(),
            Peer::Takes | Peer::Streams => {}
        }
        Ok(Posted::Done)
    }

    #[inline]
    fn poll(&mut self, each: impl FnMut(Completion)) -> Result<usize, Failure> {
        if self.peer == Peer::Streams {
            while self.done.len() < FOUND && self.deliver() {}
        }
        let count = self.done.len().min(FOUND);
        self.done.drain(..count).for_each(each);
        Ok(count)
    }

    fn arm(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn event(&self) -> Result<Option<PollFd<'_>>, Failure> {
        Ok(None)
    }
}
