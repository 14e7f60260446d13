//! A ring of records between one writer and one reader, in words that both processes map
//! (SRD-12.3).
//!
//! ```text
//! words:  head of the ring (see below) | line 0 | line 1 | ... | line L-1
//! record: a word (0, or PUBLISHED and the lengths), then the bytes, rounded up to lines of 64 bytes
//! ```
//! The reader checks one word, the one where the next record will begin. An idle check thus touches
//! nothing that changes, and a short record costs one transfer of a cache line for the word and its
//! first bytes together. The writer clears the word behind a record before it publishes the record.
//!
//! Neither side trusts the other: an impossible value is [`Corrupt`], and the ring is given up
//! (SRD-12.4). `loom/` tries all orders of the accesses below.

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Number of words of a line, the unit that processors exchange.
const LINE_WORDS: usize = 8;
pub(super) const LINE_BYTES: usize = LINE_WORDS * 8;
/// The position of the number of lines that the reader has freed, in a line of its own.
pub(super) const FREED_AT: usize = 0;
/// The position of the state of the reader, in another line.
const READER_AT: usize = LINE_WORDS;
/// The position of the word that says that the writer is gone, in another line.
const WRITER_AT: usize = 2 * LINE_WORDS;
/// The position beside the state of the reader.
const TRAINS_AT: usize = READER_AT + 1;
/// The position beside the proofs of both ends (SRD-12.9).
const CAPTURED_AT: usize = 4 * LINE_WORDS - 2;
/// Number of words before the first line.
const HEAD_WORDS: usize = 4 * LINE_WORDS;

/// The mark of the first word of a record. The length is in the low half, the length of each
/// datagram of a train in the 16 bits above.
pub(super) const PUBLISHED: u64 = 1 << 63;
const SEGMENT_SHIFT: u32 = 32;
const SEGMENT_MAX: usize = 0xFFFF;
/// The mark that the rest of the ring is not used in this round.
pub(super) const SKIP: u64 = 1 << 62;

/// The most bytes of a train.
pub(super) const TRAIN_BYTES_MAX: usize = 16 << 10;
/// The most datagrams of a train.
pub(super) const TRAIN_DATAGRAMS_MAX: usize = 64;

/// The state that the reader publishes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ReaderState {
    /// The reader has not mapped the ring yet.
    Absent,
    /// The reader polls the ring.
    #[default]
    Awake,
    /// The reader waits on its socket.
    Asleep,
    /// The reader will not look at the ring again.
    Gone,
    /// The reader waits on its socket, to which the writer has sent a datagram to wake it.
    Called,
    /// The reader waits as in [`ReaderState::Asleep`], but acknowledgements need no call.
    LightlyAsleep,
}

impl ReaderState {
    fn of(word: u64) -> Self {
        match word {
            0 => Self::Absent,
            1 => Self::Awake,
            2 => Self::Asleep,
            4 => Self::Called,
            5 => Self::LightlyAsleep,
            _ => Self::Gone,
        }
    }
}

/// The kinds of records that the reader may not have seen yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Published {
    /// Acknowledgements only.
    Acknowledgements,
    /// Any records.
    Anything,
}

/// The error of a ring in which the other side has stored an impossible value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Corrupt;

/// Returns the number of words of a ring with `bytes` for records.
pub(super) const fn words_for(bytes: usize) -> usize {
    HEAD_WORDS + bytes / LINE_BYTES * LINE_WORDS
}

fn line_count(words: &[AtomicU64]) -> u64 {
    ((words.len() - HEAD_WORDS) / LINE_WORDS) as u64
}

/// Returns the number of lines that a record of `len` bytes takes.
fn lines_of(len: usize) -> u64 {
    (size_of::<u64>() + len).div_ceil(LINE_BYTES) as u64
}

/// Returns the first word of line `at`, counted from the beginning of the ring.
fn word_at(words: &[AtomicU64], at: u64) -> usize {
    HEAD_WORDS + (at % line_count(words)) as usize * LINE_WORDS
}

/// Returns true if such a train can be written and is worthwhile.
const fn is_train_possible(len: usize, segment: usize) -> bool {
    0 < segment
        && segment < len
        && segment <= SEGMENT_MAX
        && len <= TRAIN_BYTES_MAX
        && len.div_ceil(segment) <= TRAIN_DATAGRAMS_MAX
}

/// The writing side of a ring.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// The number of lines written since the beginning.
    pub(super) at: u64,
    /// The number of these lines that the reader is known to have freed.
    pub(super) freed: u64,
}

impl Writer {
    /// Makes room for a record of `len` bytes, and returns the first word for its bytes; `None` if
    /// there is no room now.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub(super) fn claim(
        &mut self,
        words: &[AtomicU64],
        len: usize,
    ) -> Result<Option<usize>, Corrupt> {
        let (lines, needed) = (line_count(words), lines_of(len));
        let to_end = lines - self.at % lines;
        let skipped = if needed > to_end { to_end } else { 0 };
        // The line behind the record is needed, too, because its word is cleared.
        let end = self.at + skipped + needed + 1;
        if end > self.freed + lines {
            self.read_freed(words)?;
            if end > self.freed + lines {
                return Ok(None);
            }
        }
        if skipped > 0 {
            let next = self.at + skipped;
            words[word_at(words, next)].store(0, Ordering::Relaxed);
            words[word_at(words, self.at)].store(SKIP, Ordering::Release);
            self.at = next;
        }
        Ok(Some(word_at(words, self.at) + 1))
    }

    /// Publishes the record of `len` bytes that was claimed last. It consists of datagrams of
    /// `segment` bytes each, of which the last may be shorter, or of one datagram that is not
    /// longer than `segment`.
    #[inline]
    pub(super) fn publish(&mut self, words: &[AtomicU64], len: usize, segment: usize) {
        let next = self.at + lines_of(len);
        words[word_at(words, next)].store(0, Ordering::Relaxed);
        let is_train = segment < len;
        assert!(!is_train || is_train_possible(len, segment), "{len} in pieces of {segment}");
        let segment = if is_train { (segment as u64) << SEGMENT_SHIFT } else { 0 };
        words[word_at(words, self.at)].store(PUBLISHED | segment | len as u64, Ordering::Release);
        self.at = next;
    }

    /// Returns true if the reader accepts trains.
    #[inline]
    pub(super) fn takes_trains(words: &[AtomicU64]) -> bool {
        words[TRAINS_AT].load(Ordering::Relaxed) != 0
    }

    /// Returns the number of free bytes, as far as is known if that is half of the ring, otherwise
    /// as the reader says now.
    #[inline]
    pub(super) fn room_bytes(&mut self, words: &[AtomicU64]) -> usize {
        let lines = line_count(words);
        // A corrupt value is reported when a record is written.
        if self.at - self.freed > lines / 2 && self.read_freed(words).is_err() {
            return 0;
        }
        (lines - (self.at - self.freed)) as usize * LINE_BYTES
    }

    fn read_freed(&mut self, words: &[AtomicU64]) -> Result<(), Corrupt> {
        let freed = words[FREED_AT].load(Ordering::Acquire);
        if !(self.freed..=self.at).contains(&freed) {
            return Err(Corrupt);
        }
        self.freed = freed;
        Ok(())
    }

    /// Returns the state that the reader has published, before something is written.
    #[inline]
    pub(super) fn reader(words: &[AtomicU64]) -> ReaderState {
        ReaderState::of(words[READER_AT].load(Ordering::Acquire))
    }

    /// Returns true if the reader needs a datagram to see what was just published, which the caller
    /// must send. Otherwise the reader sees the record before it sleeps, or need not see it soon
    /// (SRD-12.5).
    #[inline]
    pub(super) fn must_call(words: &[AtomicU64], published: Published) -> bool {
        fence(Ordering::SeqCst);
        let state = Self::reader(words);
        match state {
            ReaderState::Awake | ReaderState::Called => false,
            ReaderState::Absent | ReaderState::Gone => true,
            ReaderState::LightlyAsleep if published == Published::Acknowledgements => false,
            ReaderState::Asleep | ReaderState::LightlyAsleep => {
                let (asleep, called) = (state as u64, ReaderState::Called as u64);
                let order = Ordering::SeqCst;
                // This fails if the reader wakes up or leaves; then one datagram more does no harm.
                let _ = words[READER_AT].compare_exchange(asleep, called, order, order);
                true
            }
        }
    }

    /// Notes that the datagram for which [`Writer::must_call`] asked was not sent, so that the next
    /// record asks for one again.
    pub(super) fn take_back_call(words: &[AtomicU64]) {
        let (called, asleep) = (ReaderState::Called as u64, ReaderState::Asleep as u64);
        let order = Ordering::SeqCst;
        // This fails if the reader has woken up by itself.
        let _ = words[READER_AT].compare_exchange(called, asleep, order, order);
    }

    /// Returns true if a capture reads what the reader receives.
    #[inline]
    pub(super) fn is_captured(words: &[AtomicU64]) -> bool {
        words[CAPTURED_AT].load(Ordering::Relaxed) != 0
    }

    /// Checks that the reader has taken all records; otherwise returns how far it has got.
    pub(super) fn is_drained(&self, words: &[AtomicU64]) -> Result<(), u64> {
        let freed = words[FREED_AT].load(Ordering::Acquire);
        if freed == self.at { Ok(()) } else { Err(freed) }
    }

    /// Publishes that the writer will not publish anything more.
    pub(super) fn close(words: &[AtomicU64]) {
        words[WRITER_AT].store(1, Ordering::Release);
    }
}

/// A record that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// The first word of the record's bytes.
    pub(super) word: usize,
    pub(super) len: usize,
    /// The length of each datagram, of which the last may be shorter; the whole length for a single
    /// datagram.
    pub(super) segment: usize,
}

#[cfg(any(test, fuzzing))]
impl Found {
    /// Returns the number of lines of the record.
    pub(super) fn lines(self) -> u64 {
        lines_of(self.len)
    }
}

/// The reading side of a ring.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) at: u64,
    /// The number of freed lines that the writer was told of.
    pub(super) freed: u64,
}

impl Reader {
    /// Returns the next record, which belongs to the reader until [`Reader::pass`].
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub(super) fn find(&mut self, words: &[AtomicU64]) -> Result<Option<Found>, Corrupt> {
        let mut word = words[word_at(words, self.at)].load(Ordering::Acquire);
        if word == SKIP {
            let lines = line_count(words);
            self.at += lines - self.at % lines;
            word = words[word_at(words, self.at)].load(Ordering::Acquire);
        }
        if word == 0 {
            // A writer that doubts whether the ring is read checks this value.
            if self.freed != self.at {
                self.free(words);
            }
            return Ok(None);
        }
        let len = (word & u64::from(u32::MAX)) as usize;
        let to_end = line_count(words) - self.at % line_count(words);
        if len >= words.len() * 8 || lines_of(len) > to_end {
            return Err(Corrupt);
        }
        let segment = match word >> SEGMENT_SHIFT ^ PUBLISHED >> SEGMENT_SHIFT {
            0 => len,
            segment if is_train_possible(len, segment as usize) => segment as usize,
            _ => return Err(Corrupt),
        };
        Ok(Some(Found { word: word_at(words, self.at) + 1, len, segment }))
    }

    /// Removes the record that was found last.
    #[inline]
    pub(super) fn pass(&mut self, words: &[AtomicU64], found: Found) {
        self.at += lines_of(found.len);
        // The lines are not published each time, because the writer would have to fetch the cache
        // line each time.
        if self.at - self.freed >= line_count(words) / 8 {
            self.free(words);
        }
    }

    /// Publishes the freed lines to the writer.
    fn free(&mut self, words: &[AtomicU64]) {
        self.freed = self.at;
        words[FREED_AT].store(self.at, Ordering::Release);
    }

    /// Publishes that this side accepts trains.
    pub(super) fn store_accepts_trains(words: &[AtomicU64]) {
        words[TRAINS_AT].store(1, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn forget_trains(words: &[AtomicU64]) {
        words[TRAINS_AT].store(0, Ordering::Relaxed);
    }

    /// Returns true if the writer does not know this state of the reader, or has called it since.
    pub(super) fn has_other_state(words: &[AtomicU64], state: ReaderState) -> bool {
        words[READER_AT].load(Ordering::Relaxed) != state as u64
    }

    /// Publishes the state of the reader. After [`ReaderState::Asleep`] and
    /// [`ReaderState::LightlyAsleep`] the reader must check once more: the writer may have
    /// published something before it could know.
    pub(super) fn store_state(words: &[AtomicU64], state: ReaderState) {
        words[READER_AT].store(state as u64, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Publishes whether a capture reads what this side receives: packets must then be as on a
    /// network.
    pub(super) fn store_captured(words: &[AtomicU64], is_captured: bool) {
        words[CAPTURED_AT].store(is_captured.into(), Ordering::Relaxed);
    }

    /// Returns true if the writer will not publish anything more.
    pub(super) fn is_writer_gone(words: &[AtomicU64]) -> bool {
        words[WRITER_AT].load(Ordering::Acquire) != 0
    }
}
