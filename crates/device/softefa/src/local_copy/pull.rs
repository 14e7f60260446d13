//! READs whose bytes are being copied out of another process, piece by piece.
//!
//! The turn of the queue pair takes pieces from the oldest READ on. If there are many, the copier
//! thread ([`super::copier`]) takes pieces from the newest on, because adjacent pages share the
//! locks of their page tables. Before memory goes back to the program, no thread holds a piece of
//! it any more: [`Pulls::cancel`], [`Pulls::clear`] and [`Pulls::wait`] ensure that.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{CopyError, Stretch};
use crate::mr::Region;

/// Bytes copied between two checks for other work: long enough that the cost of the system call is
/// negligible, short enough to stay in a core's second cache and to end soon (25 us at 10 GB/s).
pub(crate) const PIECE_BYTES: u32 = 1 << 18;
/// The number of bytes from which on the copier's help is worthwhile.
const SPARE_BYTES: u32 = 2 * PIECE_BYTES;

/// The id of a READ: its slot, and a number that differs from those of its successors there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PullId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// The reason why a READ cannot be copied (to the end).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullError {
    /// The bytes cannot be copied from there.
    Copy(CopyError),
    /// The memory that the READ goes to was deregistered.
    Deregistered,
}

/// A READ.
#[derive(Debug)]
struct Pull {
    id: PullId,
    from: Stretch,
    to: u64,
    /// The region that holds `to`.
    region: Arc<Region>,
    /// Number of bytes whose pieces were taken by a thread.
    taken: u32,
    copied: u32,
    /// Number of pieces that are being copied.
    in_hand: u32,
    failed: Option<PullError>,
}

impl Pull {
    fn remaining(&self) -> u32 {
        if self.failed.is_some() { 0 } else { self.from.len() - self.taken }
    }

    fn is_over(&self) -> bool {
        self.in_hand == 0 && (self.failed.is_some() || self.copied == self.from.len())
    }
}

/// A part of a READ, held by the thread that took it.
#[derive(Debug)]
pub(crate) struct Piece {
    id: PullId,
    from: Stretch,
    offset: u32,
    len: u32,
    to: u64,
    region: Arc<Region>,
}

impl Piece {
    fn copy(&self) -> Result<(), PullError> {
        if !self.region.is_live() {
            return Err(PullError::Deregistered);
        }
        self.from.copy(self.offset, self.to, self.len).map_err(PullError::Copy)
    }
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Pull>,
    in_hand: u32,
    /// Number of pieces put back so far.
    returned: u64,
    /// A thread waits for the next piece to be put back.
    is_awaited: bool,
    /// Number of READs that are over.
    over: u32,
    /// The copier was called and has not left.
    is_attended: bool,
    /// The READ of which the copier took its last piece.
    attended: Option<PullId>,
    /// Number of bytes copied since the last question.
    uncounted_bytes: u64,
}

/// The thread that copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullDriver {
    /// The queue pair's own turn.
    Turn,
    /// The copier thread.
    Copier,
}

impl State {
    fn take(&mut self, driver: PullDriver) -> Option<Piece> {
        let mut open = self.queue.iter_mut().filter(|pull| pull.remaining() > 0);
        let pull = match driver {
            PullDriver::Turn => open.next()?,
            PullDriver::Copier => {
                let begun = self.attended;
                let pull =
                    open.rev().reduce(|new, old| if begun == Some(old.id) { old } else { new })?;
                self.attended = Some(pull.id);
                pull
            }
        };
        let (offset, len) = (pull.taken, pull.remaining().min(PIECE_BYTES));
        pull.taken += len;
        pull.in_hand += 1;
        self.in_hand += 1;
        let (id, from, region) = (pull.id, pull.from, Arc::clone(&pull.region));
        let to = pull.to + u64::from(offset);
        Some(Piece { id, from, offset, len, to, region })
    }

    /// Puts a piece back, and returns true if a thread waited for that.
    fn put_back(&mut self, piece: &Piece, copied: Result<(), PullError>) -> bool {
        self.in_hand -= 1;
        self.returned += 1;
        if copied.is_ok() {
            self.uncounted_bytes += u64::from(piece.len);
        }
        if let Some(pull) = self.queue.iter_mut().find(|pull| pull.id == piece.id) {
            pull.in_hand -= 1;
            match copied {
                Ok(()) => pull.copied += piece.len,
                Err(why) => {
                    pull.failed.get_or_insert(why);
                }
            }
            self.over += u32::from(pull.is_over());
        }
        std::mem::take(&mut self.is_awaited)
    }
}

/// The READs of a queue pair.
#[derive(Debug, Default)]
pub(crate) struct Pulls {
    state: Mutex<State>,
    bell: Condvar,
}

impl Pulls {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a READ of all of `from` into `to`, which `region` holds.
    pub(crate) fn push(&self, id: PullId, from: Stretch, to: u64, region: Arc<Region>) {
        let (taken, copied, in_hand, failed) = (0, 0, 0, None);
        let pull = Pull { id, from, to, region, taken, copied, in_hand, failed };
        self.lock().queue.push_back(pull);
    }

    /// Copies pieces until `enough_bytes` are copied or none is left to take, and returns how many
    /// bytes were in them.
    pub(crate) fn copy(&self, driver: PullDriver, enough_bytes: u32) -> u32 {
        let mut bytes = 0;
        let mut state = self.lock();
        while bytes < enough_bytes {
            let Some(piece) = state.take(driver) else { break };
            drop(state);
            let copied = piece.copy();
            state = self.lock();
            if state.put_back(&piece, copied) {
                self.bell.notify_all();
            }
            bytes += piece.len;
        }
        bytes
    }

    /// Removes a READ of which nothing is left to copy, and returns its result.
    pub(crate) fn pop_over(&self) -> Option<(PullId, Result<(), PullError>)> {
        let mut state = self.lock();
        if state.over == 0 {
            return None;
        }
        let place = state.queue.iter().position(Pull::is_over)?;
        let pull = state.queue.remove(place)?;
        state.over -= 1;
        Some((pull.id, pull.failed.map_or(Ok(()), Err)))
    }

    /// Returns the number of bytes copied since the last call.
    pub(crate) fn take_uncounted(&self) -> u64 {
        std::mem::take(&mut self.lock().uncounted_bytes)
    }

    /// Returns true if there is work for the copier, which then counts as called.
    pub(crate) fn wants_help(&self) -> bool {
        let mut state = self.lock();
        let wants = !state.is_attended && {
            let mut spare: u32 = 0;
            // A few of them are enough to tell.
            for pull in state.queue.iter().take(4) {
                spare = spare.saturating_add(pull.remaining());
            }
            spare >= SPARE_BYTES
        };
        state.is_attended |= wants;
        wants
    }

    /// Lets the copier leave, and returns true, unless there is something left to take.
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.lock();
        state.is_attended = state.queue.iter().any(|pull| pull.remaining() > 0);
        !state.is_attended
    }

    /// Forgets a READ, if it is here. Afterwards no thread writes to its memory.
    pub(crate) fn cancel(&self, id: PullId) -> bool {
        let mut state = self.lock();
        let place = state.queue.iter().position(|pull| pull.id == id);
        let gone = place.and_then(|place| state.queue.remove(place));
        state.over -= u32::from(gone.as_ref().is_some_and(Pull::is_over));
        self.wait_for_all(state);
        gone.is_some()
    }

    /// Forgets all READs. Afterwards no thread writes to their memory.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.queue.clear();
        state.over = 0;
        self.wait_for_all(state);
    }

    /// Returns when all pieces have been put back that were taken before.
    pub(crate) fn wait(&self) {
        self.wait_for_all(self.lock());
    }

    /// Waits until the pieces that are being copied have been put back. The caller holds the queue
    /// pair, so that the only piece can be the copier's, which has one at a time: after the next
    /// return it is another one.
    fn wait_for_all(&self, mut state: MutexGuard<'_, State>) {
        let before = state.returned;
        while state.in_hand > 0 && state.returned == before {
            state.is_awaited = true;
            state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests;
