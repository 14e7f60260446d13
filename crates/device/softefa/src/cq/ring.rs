//! Completions that have not been polled.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::completion::{Completion, CompletionTime, Polled, Unpolled};

/// The entries of a completion queue, and their lock.
#[derive(Debug, Default)]
pub(super) struct Ring {
    entries: Mutex<Entries>,
    /// The number of entries, stored under the lock. A poll that reads zero need not take the lock.
    len: AtomicUsize,
    /// The program has been notified of completions and has not polled since.
    is_notified: AtomicBool,
}

/// The completions, oldest first, and their owners.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// Entry number `n` is at `n % slots.len()`; the number of slots is 0 or a power of two.
    slots: Vec<Completion>,
    /// The number of the oldest entry.
    first: usize,
    /// The number behind that of the newest entry.
    end: usize,
    owners: Vec<Option<Arc<Unpolled>>>,
    /// The times of these completions, if the program asked for them.
    times: Option<VecDeque<CompletionTime>>,
    /// The time of the completion that was taken last.
    last_time: CompletionTime,
}

impl Ring {
    /// Hands up to `max` entries to `take` and returns how many.
    #[inline]
    pub(super) fn drain(&self, max: usize, take: &mut impl FnMut(&Completion)) -> usize {
        self.note_polled_write();
        if self.is_empty() {
            return 0;
        }
        self.hold(|entries| {
            let count = entries.len().min(max);
            entries.pop_many(count, take);
            count
        })
    }

    /// Takes the oldest entry.
    #[inline]
    pub(super) fn take_one(&self) -> Option<Completion> {
        self.note_polled_write();
        if self.is_empty() {
            return None;
        }
        self.hold(|entries| (entries.len() > 0).then(|| entries.pop(|completion| *completion)))
    }

    /// Takes as [`Ring::take_one`] does, and returns the time of the completion, too.
    pub(super) fn take_one_timed(&self) -> Option<(Completion, CompletionTime)> {
        self.note_polled_write();
        if self.is_empty() {
            return None;
        }
        self.hold(|entries| {
            let is_there = entries.len() > 0;
            is_there.then(|| (entries.pop(|completion| *completion), entries.last_time))
        })
    }

    /// Returns the number of entries, as far as this thread knows.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns true if there are no entries, as far as this thread knows.
    #[inline]
    fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    #[inline]
    fn note_polled_write(&self) {
        if self.is_notified() {
            self.is_notified.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that the program is notified. It is called under the lock.
    #[inline]
    pub(super) fn note_notified(&self) {
        self.is_notified.store(true, Ordering::Relaxed);
    }

    /// Returns true if the program has been notified and has not polled since.
    #[inline]
    pub(super) fn is_notified(&self) -> bool {
        self.is_notified.load(Ordering::Relaxed)
    }

    /// Runs `body` under the lock.
    #[inline]
    pub(super) fn hold<R>(&self, body: impl FnOnce(&mut Entries) -> R) -> R {
        let mut entries: MutexGuard<'_, Entries> =
            self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let result = body(&mut entries);
        self.len.store(entries.len(), Ordering::Relaxed);
        result
    }
}

impl Entries {
    #[inline]
    fn len(&self) -> usize {
        self.end.wrapping_sub(self.first)
    }

    /// Returns true if there is an entry for which `is_wanted` returns true.
    pub(super) fn has(&self, is_wanted: impl Fn(&Completion) -> bool) -> bool {
        let mask = self.slots.len().wrapping_sub(1);
        (0..self.len()).any(|nth| is_wanted(&self.slots[self.first.wrapping_add(nth) & mask]))
    }

    /// Takes the oldest entry, which must exist, and hands it to `take` in place.
    #[inline]
    fn pop<R>(&mut self, take: impl FnOnce(&Completion) -> R) -> R {
        let completion = &self.slots[self.first & (self.slots.len() - 1)];
        self.first = self.first.wrapping_add(1);
        if let Some(times) = &mut self.times {
            self.last_time = times.pop_front().unwrap_or_default();
        }
        let mut polled = Polled::default();
        polled.add(completion.op);
        forget(&self.owners, completion.owner, polled);
        take(completion)
    }

    /// Takes the oldest `count` entries, which must exist, as [`Entries::pop`] does. The counter of
    /// an owner is updated once for several entries in a row.
    #[inline]
    fn pop_many(&mut self, count: usize, take: &mut impl FnMut(&Completion)) {
        if count == 0 {
            return;
        }
        let mask = self.slots.len() - 1;
        let (mut owner, mut polled) = (self.slots[self.first & mask].owner, Polled::default());
        for _ in 0..count {
            let completion = &self.slots[self.first & mask];
            self.first = self.first.wrapping_add(1);
            if let Some(times) = &mut self.times {
                self.last_time = times.pop_front().unwrap_or_default();
            }
            if completion.owner != owner {
                forget(&self.owners, owner, std::mem::take(&mut polled));
                owner = completion.owner;
            }
            polled.add(completion.op);
            take(completion);
        }
        forget(&self.owners, owner, polled);
    }

    /// Appends and empties `done`.
    #[inline]
    pub(super) fn take_in(&mut self, done: &mut Vec<Completion>) {
        if done.len() > self.slots.len() - self.len() {
            self.grow(done.len());
        }
        let mask = self.slots.len().wrapping_sub(1);
        for completion in done.iter() {
            self.slots[self.end & mask] = *completion;
            self.end = self.end.wrapping_add(1);
        }
        if self.times.is_some() {
            self.note_time(done.len());
        }
        done.clear();
    }

    /// Records the time of each completion from now on.
    pub(super) fn keep_times(&mut self) {
        let len = self.len();
        self.times.get_or_insert_with(|| vec![CompletionTime::now(); len].into());
    }

    /// Records the time of the newest `count` completions.
    #[cold]
    fn note_time(&mut self, count: usize) {
        let now = CompletionTime::now();
        self.times.get_or_insert_default().extend(std::iter::repeat_n(now, count));
    }

    /// Makes room for `more` entries.
    #[cold]
    fn grow(&mut self, more: usize) {
        let capacity = (self.len() + more).next_power_of_two();
        let mut slots = self.all();
        self.end = slots.len();
        self.first = 0;
        slots.resize(capacity, Completion::VACANT);
        self.slots = slots;
    }

    /// Returns all entries, oldest first.
    fn all(&self) -> Vec<Completion> {
        let mask = self.slots.len().wrapping_sub(1);
        (0..self.len()).map(|nth| self.slots[self.first.wrapping_add(nth) & mask]).collect()
    }

    /// Registers an owner, and returns the number that marks its completions.
    pub(super) fn join(&mut self, unpolled: &Arc<Unpolled>) -> u16 {
        let vacant = self.owners.iter().position(Option::is_none);
        let place = vacant.unwrap_or_else(|| {
            self.owners.push(None);
            self.owners.len() - 1
        });
        self.owners[place] = Some(Arc::clone(unpolled));
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    /// Frees the number of an owner.
    pub(super) fn leave(&mut self, owner: u16) {
        if let Some(place) = self.owners.get_mut(owner as usize) {
            *place = None;
        }
    }

    /// Forgets the completions of an owner.
    pub(super) fn purge(&mut self, owner: u16) {
        let all = self.all();
        self.end = self.first;
        let mut times = self.times.take();
        if let Some(times) = &mut times {
            let mut stay = all.iter().map(|done| done.owner != owner);
            times.retain(|_| stay.next().unwrap_or_default());
        }
        let mut others: Vec<_> = all.into_iter().filter(|done| done.owner != owner).collect();
        self.take_in(&mut others);
        self.times = times;
    }
}

/// Notes that completions of this owner were taken.
#[inline]
fn forget(owners: &[Option<Arc<Unpolled>>], owner: u16, polled: Polled) {
    if let Some(Some(unpolled)) = owners.get(owner as usize) {
        unpolled.forget(polled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(wr_id: u64, owner: u16) -> Completion {
        Completion { wr_id, owner, ..Completion::VACANT }
    }

    fn push(ring: &Ring, all: impl IntoIterator<Item = (u64, u16)>) {
        let mut done = all.into_iter().map(|(wr_id, owner)| completion(wr_id, owner)).collect();
        ring.hold(|entries| entries.take_in(&mut done));
        assert!(done.is_empty());
    }

    fn take(ring: &Ring, max: usize) -> Vec<u64> {
        let mut taken = Vec::new();
        let count = ring.drain(max, &mut |completion: &Completion| taken.push(completion.wr_id));
        assert_eq!(count, taken.len());
        taken
    }

    #[test]
    fn what_goes_in_comes_out_in_order_however_full_it_was() {
        let ring = Ring::default();
        let (mut next_in, mut next_out) = (0, 0);
        for round in 0..200_usize {
            let many = round * 7 % 13;
            push(&ring, (next_in..next_in + many as u64).map(|wr_id| (wr_id, 0)));
            next_in += many as u64;
            if round % 5 == 0 {
                let one = ring.take_one().map(|completion| completion.wr_id);
                assert_eq!(one, (next_out < next_in).then_some(next_out));
                next_out += u64::from(one.is_some());
            }
            let taken = take(&ring, round * 5 % 11);
            assert_eq!(taken, (next_out..next_out + taken.len() as u64).collect::<Vec<_>>());
            next_out += taken.len() as u64;
        }
        assert_eq!(take(&ring, usize::MAX), (next_out..next_in).collect::<Vec<_>>());
        assert!(ring.take_one().is_none() && take(&ring, 1).is_empty());
    }

    #[test]
    fn each_keeps_the_time_when_it_completed() {
        let ring = Ring::default();
        push(&ring, [(0, 0)]);
        ring.hold(Entries::keep_times);
        let mut before = CompletionTime::default();
        for round in 0..50 {
            push(&ring, (0..round % 5).map(|wr_id| (wr_id, (wr_id % 2) as u16)));
            if round % 7 == 0 {
                ring.hold(|entries| entries.purge(1));
            }
            for _ in 0..round % 3 {
                let Some((_, time)) = ring.take_one_timed() else { break };
                assert!(time.device_ns >= before.device_ns && time.wall_ns > 0, "{time:?}");
                before = time;
            }
            let all =
                ring.hold(|entries| (entries.len(), entries.times.as_ref().map(VecDeque::len)));
            assert_eq!(all.1, Some(all.0), "one for each");
        }
        let late = CompletionTime::now();
        push(&ring, [(7, 0)]);
        let last = std::iter::from_fn(|| ring.take_one_timed()).last();
        assert!(
            last.is_some_and(|(done, time)| done.wr_id == 7 && time.device_ns >= late.device_ns)
        );
    }

    #[test]
    fn what_an_owner_leaves_is_forgotten_and_the_rest_stays_in_order() {
        let ring = Ring::default();
        push(&ring, (0..5).map(|wr_id| (wr_id, 0)));
        assert_eq!(take(&ring, 3), [0, 1, 2]);
        push(&ring, (5..11).map(|wr_id| (wr_id, (wr_id % 2) as u16)));
        ring.hold(|entries| entries.purge(1));
        assert_eq!(take(&ring, usize::MAX), [3, 4, 6, 8, 10]);
        push(&ring, [(11, 1)]);
        ring.hold(|entries| entries.purge(1));
        assert!(ring.take_one().is_none());
    }
}
