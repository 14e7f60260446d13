//! One endpoint whose slots are managed, as the benchmarks use it.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;

use bench_record::failure::Failure;
use bench_record::spec::{JobSpec, Operation};
use rustix::event::PollFd;

use crate::backend::{BURST, Backend, Kind, Lengths, PostFlags, Posted, Work};
use crate::lane::Side;
use crate::measure::Random;

/// The slot that operations without completion share.
const CONSTANT_SLOT: usize = 0;

/// A message that arrived and waits in its slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) slot: usize,
    pub(crate) len_bytes: usize,
}

/// The posted receives. A point has as many as it asks for, whatever other points of its session
/// do: receives that an earlier point has posted beyond that are used up first, and not posted
/// again.
#[derive(Debug, Default)]
struct Receives {
    wanted: usize,
    posted: usize,
    /// The slots that are not posted, with room for all.
    idle: Vec<usize>,
}

/// One side of a pair of endpoints.
pub(crate) struct Link<B> {
    backend: B,
    operation: Operation,
    tx_free: Vec<usize>,
    receives: Receives,
    /// The source of slots and remote places, if memory is used at random.
    random: Option<Random>,
    /// The number of operations of which one completes.
    complete_every: usize,
    /// The number of operations since the last one that asked for a completion; only used if not
    /// every operation completes.
    quiet_posts: usize,
    /// The number of operations that are not known to be complete; only used likewise.
    quiet_in_flight: usize,
    /// The number of this side's operations that have completed, or were done at once.
    pub(crate) completed: u64,
    /// The messages that arrived and were not handled, oldest first. It has room for every posted
    /// receive, so that it never grows.
    pub(crate) arrived: VecDeque<Arrival>,
    /// The slots that were READ into, oldest first, if they are kept, and the slots of completed
    /// atomic operations.
    pub(crate) fetched: VecDeque<usize>,
    /// True for each slot that is being READ into, if these are kept; else empty.
    is_reading: Vec<bool>,
}

impl<B: Backend> Link<B> {
    /// Takes a connected endpoint and posts all its receives. `number` differs from endpoint to
    /// endpoint.
    pub(crate) fn new(
        mut backend: B,
        job: &JobSpec,
        side: Side,
        number: u64,
    ) -> Result<Self, Failure> {
        let (tx, rx) = (backend.tx_slots(), backend.rx_slots());
        // Only the client posts by the rules of the job.
        let complete_every = if side == Side::Client { job.flow.complete_every } else { 1 };
        let mut tx_free: Vec<usize> = (0..tx).rev().collect();
        if complete_every > 1 {
            tx_free.pop();
            backend.freeze(CONSTANT_SLOT)?;
        }
        let mut this = Self {
            backend,
            operation: job.operation,
            tx_free,
            receives: Receives { wanted: rx, posted: 0, idle: Vec::with_capacity(rx) },
            random: (job.memory_bytes > 0).then(|| Random::new(job.seed ^ number)),
            complete_every,
            quiet_posts: 0,
            quiet_in_flight: 0,
            completed: 0,
            arrived: VecDeque::with_capacity(rx + BURST),
            fetched: VecDeque::new(),
            is_reading: Vec::new(),
        };
        for slot in tx..tx + rx {
            this.repost(slot)?;
        }
        Ok(this)
    }

    pub(crate) const fn backend(&self) -> &B {
        &self.backend
    }

    /// Begins a point with messages of these lengths.
    pub(crate) fn begin(&mut self, lengths: Lengths) {
        self.backend.begin(lengths);
    }

    /// Keeps this many receives posted from now on, or all if there are fewer.
    pub(crate) fn keep_posted(&mut self, wanted: usize) -> Result<(), Failure> {
        self.receives.wanted = wanted;
        while self.receives.posted < wanted {
            let Some(slot) = self.receives.idle.pop() else { break };
            self.repost(slot)?;
        }
        Ok(())
    }

    /// Discards messages that have arrived and were not taken, such as late datagrams of an earlier
    /// point, and posts their receives again.
    pub(crate) fn forget_arrived(&mut self) -> Result<(), Failure> {
        // Messages that come while receives are posted again are left over, too, but are not waited
        // for.
        while self.poll()? > 0 {}
        for _ in 0..self.arrived.len() {
            let Some(arrival) = self.arrived.pop_front() else { break };
            self.repost(arrival.slot)?;
        }
        Ok(())
    }

    /// The number of slots that are free for sends.
    #[inline]
    pub(crate) fn free_tx(&self) -> usize {
        self.tx_free.len()
    }

    /// Returns the slots of sends that have completed since `free` slots were free, if nothing was
    /// posted meanwhile.
    #[inline]
    pub(crate) fn freed_since(&self, free: usize) -> &[usize] {
        self.tx_free.get(free..).unwrap_or_default()
    }

    /// The number of operations in flight. Operations without a completion count until a later one
    /// has completed.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        let constant = usize::from(self.complete_every > 1);
        self.backend.tx_slots() - constant - self.tx_free.len() + self.quiet_in_flight
    }

    /// Returns true if all operations have completed that will complete.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight() < self.complete_every
    }

    /// Makes progress: completed operations free their slots, and arrivals go to `arrived`. Returns
    /// the number of completions.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<usize, Failure> {
        let Self { backend, is_reading, fetched, completed, tx_free, arrived, .. } = self;
        let posted = &mut self.receives.posted;
        let (complete_every, quiet_in_flight) = (self.complete_every, &mut self.quiet_in_flight);
        backend.poll(|done| match done.kind {
            // The adapter of EFA reports a READ as a send; the slot tells which it was.
            Kind::Sent | Kind::Read if is_reading.get(done.slot) == Some(&true) => {
                is_reading[done.slot] = false;
                fetched.push_back(done.slot);
                *completed += 1;
            }
            Kind::Sent | Kind::Read | Kind::Written => {
                if complete_every > 1 && done.slot == CONSTANT_SLOT {
                    *quiet_in_flight -= complete_every;
                    *completed += complete_every as u64;
                } else {
                    tx_free.push(done.slot);
                    *completed += 1;
                }
            }
            Kind::Received => {
                *posted -= 1;
                arrived.push_back(Arrival { slot: done.slot, len_bytes: done.len_bytes });
            }
            Kind::Atomic => {
                fetched.push_back(done.slot);
                *completed += 1;
            }
            Kind::Other => {}
        })
    }

    /// Asks to be woken by the next completion; see [`Backend::arm`].
    pub(crate) fn arm(&mut self) -> Result<(), Failure> {
        self.backend.arm()
    }

    /// Returns the event to sleep for; see [`Backend::event`].
    pub(crate) fn event(&self) -> Result<Option<PollFd<'_>>, Failure> {
        self.backend.event()
    }

    /// Returns the slot to fill for the next send, if one is free.
    #[inline]
    pub(crate) fn next_tx(&self) -> Option<usize> {
        self.tx_free.last().copied()
    }

    /// Returns the payload of a free slot, to fill it.
    #[inline]
    pub(crate) fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Failure> {
        self.backend.payload_mut(slot)
    }

    /// Returns the bytes of a message that arrived.
    #[inline]
    pub(crate) fn message(&self, arrival: Arrival) -> Result<&[u8], Failure> {
        let payload = self.backend.payload(arrival.slot)?;
        Ok(&payload[..arrival.len_bytes.min(payload.len())])
    }

    /// Hands each message that has arrived to `take`, oldest first, and posts its receive again.
    #[inline]
    pub(crate) fn take_arrived(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        while let Some(arrival) = self.arrived.pop_front() {
            take(self.message(arrival)?)?;
            self.repost(arrival.slot)?;
        }
        Ok(())
    }

    /// Returns the payload of a free slot.
    #[inline]
    pub(crate) fn payload(&self, slot: usize) -> Result<&[u8], Failure> {
        self.backend.payload(slot)
    }

    /// Tries to send the slot from `next_tx` as a separate message. Returns false if the fabric is
    /// full.
    #[inline]
    pub(crate) fn try_send(&mut self, len_bytes: usize) -> Result<bool, Failure> {
        let Some(slot) = self.next_tx() else { return Ok(false) };
        let work = if self.operation == Operation::Inject { Work::Inject } else { Work::Send };
        self.try_slot(work, slot, len_bytes, false)
    }

    /// Tries to send the slot from `next_tx` as a message, by whichever operation the job moves
    /// bytes. `more`: another one follows at once.
    #[inline]
    pub(crate) fn try_message(&mut self, len_bytes: usize, more: bool) -> Result<bool, Failure> {
        let Some(slot) = self.next_tx() else { return Ok(false) };
        self.try_slot(Work::Send, slot, len_bytes, more)
    }

    /// Takes out a free slot, to be filled in parts, until `try_taken` or `put_back`.
    #[inline]
    pub(crate) fn take_tx(&mut self) -> Option<usize> {
        self.tx_free.pop()
    }

    /// Gives back a slot from `take_tx`.
    #[inline]
    pub(crate) fn put_back(&mut self, slot: usize) {
        self.tx_free.push(slot);
    }

    /// Tries to send a slot from `take_tx`. Returns false if the fabric is full. `more`: another
    /// one follows at once.
    #[inline]
    pub(crate) fn try_taken(
        &mut self,
        slot: usize,
        len_bytes: usize,
        more: bool,
    ) -> Result<bool, Failure> {
        match self.backend.post(
            Work::Send,
            slot,
            len_bytes,
            PostFlags { more, ..PostFlags::PLAIN },
        )? {
            Posted::Full => return Ok(false),
            Posted::Free => {
                self.completed += 1;
                self.put_back(slot);
            }
            Posted::Done => {}
        }
        Ok(true)
    }

    /// Keeps the slots with bytes that were READ in `fetched` from now on, until `put_back`.
    pub(crate) fn keep_reads(&mut self) {
        self.is_reading.resize(self.backend.tx_slots(), false);
        self.fetched.reserve(self.backend.tx_slots());
    }

    /// Tries to READ bytes of the peer's memory. Returns the slot that will hold the bytes; `None`
    /// if the fabric is full. `more`: another one follows at once.
    #[inline]
    pub(crate) fn try_read(
        &mut self,
        offset: u64,
        len_bytes: usize,
        more: bool,
    ) -> Result<Option<usize>, Failure> {
        let Some(slot) = self.next_tx() else { return Ok(None) };
        let how = PostFlags { more, ..PostFlags::PLAIN };
        let posted = self.backend.post(Work::Read { offset }, slot, len_bytes, how)?;
        if posted == Posted::Full {
            return Ok(None);
        }
        self.tx_free.pop();
        self.is_reading[slot] = true;
        Ok(Some(slot))
    }

    /// Lets `try_file` send parts of this file from now on.
    pub(crate) fn attach_file(&mut self, file: OwnedFd) -> Result<(), Failure> {
        self.backend.attach_file(file)
    }

    /// Tries to send the front of the slot from `next_tx`, followed by a part of the file, as one
    /// message. Returns false if the fabric is full.
    #[inline]
    pub(crate) fn try_file(
        &mut self,
        head_bytes: usize,
        part: Range<usize>,
    ) -> Result<bool, Failure> {
        let Some(slot) = self.next_tx() else { return Ok(false) };
        if self.backend.post_file(slot, head_bytes, part)? == Posted::Full {
            return Ok(false);
        }
        self.tx_free.pop();
        Ok(true)
    }

    /// Copies bytes into the memory that the peer reads, while nothing is in flight.
    pub(crate) fn write_window(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.backend.write_window(bytes)
    }

    /// Tries to send or move bytes by the operation of the job. `more`: another one follows at
    /// once.
    #[inline]
    pub(crate) fn try_post(&mut self, len_bytes: usize, more: bool) -> Result<bool, Failure> {
        if self.complete_every > 1 {
            return self.try_quiet(len_bytes, more);
        }
        let Some(slot) = self.next_tx() else { return Ok(false) };
        let work = self.work(slot, len_bytes);
        self.try_slot(work, slot, len_bytes, more)
    }

    #[inline]
    fn try_slot(
        &mut self,
        work: Work,
        slot: usize,
        len_bytes: usize,
        more: bool,
    ) -> Result<bool, Failure> {
        let posted =
            self.backend.post(work, slot, len_bytes, PostFlags { more, ..PostFlags::PLAIN })?;
        match posted {
            Posted::Full => return Ok(false),
            Posted::Free => self.completed += 1,
            Posted::Done => {
                self.tx_free.pop();
            }
        }
        if let Some(random) = &mut self.random {
            if let Some(last) = self.tx_free.len().checked_sub(1) {
                let next = random.below(last + 1);
                self.tx_free.swap(last, next);
            }
        }
        Ok(true)
    }

    /// Posts from the constant slot, and asks for a completion only now and then.
    #[inline]
    fn try_quiet(&mut self, len_bytes: usize, more: bool) -> Result<bool, Failure> {
        let quiet = self.quiet_posts + 1 < self.complete_every;
        let work = self.work(CONSTANT_SLOT, len_bytes);
        let posted =
            self.backend.post(work, CONSTANT_SLOT, len_bytes, PostFlags { more, quiet })?;
        if posted == Posted::Full {
            return Ok(false);
        }
        self.quiet_posts = if quiet { self.quiet_posts + 1 } else { 0 };
        self.quiet_in_flight += 1;
        Ok(true)
    }

    #[inline]
    fn work(&mut self, slot: usize, len_bytes: usize) -> Work {
        match self.operation {
            Operation::Send | Operation::Tagged => Work::Send,
            Operation::Inject => Work::Inject,
            Operation::Read => Work::Read { offset: self.remote_place(slot, len_bytes) },
            Operation::Write => Work::Write { offset: self.remote_place(slot, len_bytes) },
            // Atomics are posted elsewhere (`atomic`).
            Operation::InjectWrite
            | Operation::FetchAdd
            | Operation::CompareSwap
            | Operation::Add => Work::InjectWrite { offset: self.remote_place(slot, len_bytes) },
        }
    }

    /// Chooses a place in the peer's memory, in whole messages: at random, or always the same one
    /// for a slot.
    #[inline]
    fn remote_place(&mut self, slot: usize, len_bytes: usize) -> u64 {
        let places = self.backend.remote_bytes() as usize / len_bytes.max(1);
        let place = match &mut self.random {
            Some(random) => random.below(places),
            None => slot % places.max(1),
        };
        (place * len_bytes) as u64
    }

    /// Copies a free slot's payload into another free slot.
    #[inline]
    pub(crate) fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Failure> {
        self.backend.copy(from, to, len_bytes)
    }

    /// Posts a receive slot again, unless enough are posted.
    #[inline]
    pub(crate) fn repost(&mut self, slot: usize) -> Result<(), Failure> {
        if self.receives.posted >= self.receives.wanted {
            self.receives.idle.push(slot);
            return Ok(());
        }
        // The receive is counted before: it may complete while the loop polls for room.
        self.receives.posted += 1;
        loop {
            if self.backend.receive(slot)? == Posted::Done {
                return Ok(());
            }
            self.poll()?;
        }
    }
}

mod atomic;
#[cfg(test)]
mod tests;
