//! A ring of records in a file, with one writer and any number of readers, none of which waits.
//!
//! ```text
//! header: magic | words of the ring | start of the writer | head | tail | next serial number
//! record: words of it and bytes in it | serial number | head (6 words) | bytes ...
//! ```
//! `head` and `tail` count words since the beginning; a record lies at its count modulo the size.
//! The writer moves `tail` past what it is going to overwrite *before* it does, and readers look at
//! `tail` again *after* they have copied: a copy that was overwritten meanwhile is thrown away.
//! Neither side trusts the file, because another process may write to it by mistake. A record that
//! makes no sense is given up with all behind it, and readers miss their serial numbers.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::record::{HEAD_WORDS, Record};
use crate::mapped::{self, Mapped};

const MAGIC: u64 = u64::from_ne_bytes(*b"SEFACAP2");
/// Positions of the words of the header.
mod place {
    pub(super) const MAGIC: usize = 0;
    pub(super) const SIZE: usize = 1;
    pub(super) const START: usize = 2;
    pub(super) const HEAD: usize = 3;
    pub(super) const TAIL: usize = 4;
    pub(super) const SERIAL: usize = 5;
    pub(super) const RECORDS: usize = 8;
}
/// The number of words in front of a head: the lengths and the serial number.
const PREFIX_WORDS: usize = 2;
const WORD_BYTES: usize = size_of::<u64>();
/// The number of bytes by which the allocated part of the file grows, because most rings stay
/// short.
const RESERVED_BYTES: u64 = 256 << 10;
/// The largest valid count of words. No ring gets that far, so that adding to a count never
/// overflows.
const COUNT_MAX: u64 = u64::MAX / 2;

/// Checks the header of an existing ring.
fn check(words: &[AtomicU64]) -> io::Result<()> {
    let load = |at: usize| words[at].load(Ordering::Acquire);
    let size = words.len() - place::RECORDS;
    if load(place::MAGIC) == MAGIC && load(place::SIZE) == size as u64 {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "not a capture ring of this version"))
    }
}

/// The writing end of a ring.
#[derive(Debug)]
pub(super) struct Writer {
    words: Mapped,
    file: File,
    /// The number of bytes of the file that are allocated on the disk.
    reserved_bytes: u64,
    head: u64,
    tail: u64,
    serial: u64,
    scratch: Vec<u8>,
}

impl Writer {
    /// Makes a ring of `bytes` in a new file, or continues that of the same process.
    ///
    /// # Errors
    /// The file cannot be mapped, or is the ring of another process.
    pub(super) fn open(file: &File, bytes: usize, start_ticks: u64) -> io::Result<Self> {
        let is_new = file.metadata()?.len() == 0;
        if is_new {
            mapped::check_size(bytes as u64)?;
            mapped::reserve(file, 0, RESERVED_BYTES)?;
            file.set_len(bytes as u64)?;
        }
        let words = Mapped::new(file, bytes / WORD_BYTES)?;
        if is_new {
            let size = words.len() - place::RECORDS;
            words[place::SIZE].store(size as u64, Ordering::Relaxed);
            words[place::START].store(start_ticks, Ordering::Relaxed);
            words[place::MAGIC].store(MAGIC, Ordering::Release);
        }
        check(&words)?;
        if words[place::START].load(Ordering::Relaxed) != start_ticks {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another process's ring"));
        }
        let [head, tail, serial] = [place::HEAD, place::TAIL, place::SERIAL]
            .map(|place| words[place].load(Ordering::Relaxed));
        if head > COUNT_MAX || serial > COUNT_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a ring that was overwritten"));
        }
        let (file, reserved_bytes, scratch) = (file.try_clone()?, 0, Vec::new());
        let ring = Self { words, file, reserved_bytes, head, tail, serial, scratch };
        let is_whole = tail <= head && head - tail <= ring.size() as u64;
        Ok(if is_whole { ring } else { Self { tail: head, ..ring } })
    }

    /// Adds a record with at most `max_bytes` of the bytes that `copy` appends.
    ///
    /// # Errors
    /// The disk has no room for the record.
    pub(super) fn push(
        &mut self,
        head: &Record,
        max_bytes: usize,
        copy: impl FnOnce(usize, &mut Vec<u8>),
    ) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        copy(max_bytes, &mut bytes);
        bytes.truncate(max_bytes);
        let written = self.write(head, &mut bytes);
        self.scratch = bytes;
        written
    }

    fn write(&mut self, head: &Record, bytes: &mut Vec<u8>) -> io::Result<()> {
        let len = bytes.len();
        bytes.resize(len.next_multiple_of(WORD_BYTES), 0);
        let data = bytes.chunks_exact(WORD_BYTES);
        let needed = PREFIX_WORDS + HEAD_WORDS + data.len();
        if needed > self.size() {
            return Ok(());
        }
        self.reserve(needed)?;
        self.make_room(needed);
        let prefix = [(len as u64) << 32 | needed as u64, self.serial];
        let data = data.filter_map(<[u8]>::first_chunk).map(|chunk| u64::from_ne_bytes(*chunk));
        for (at, word) in (self.head..).zip(prefix.into_iter().chain(head.head()).chain(data)) {
            self.at(at).store(word, Ordering::Relaxed);
        }
        self.head += needed as u64;
        self.serial += 1;
        self.words[place::SERIAL].store(self.serial, Ordering::Relaxed);
        self.words[place::HEAD].store(self.head, Ordering::Release);
        Ok(())
    }

    /// Allocates room in the file for the next `needed` words, and some more.
    fn reserve(&mut self, needed: usize) -> io::Result<()> {
        let all_bytes = (self.words.len() * WORD_BYTES) as u64;
        let end = (place::RECORDS + needed) as u64 + self.head.min(all_bytes);
        let end_bytes = (end * WORD_BYTES as u64).min(all_bytes);
        if end_bytes > self.reserved_bytes {
            let upto = end_bytes.next_multiple_of(RESERVED_BYTES).min(all_bytes);
            mapped::reserve(&self.file, self.reserved_bytes, upto - self.reserved_bytes)?;
            self.reserved_bytes = upto;
        }
        Ok(())
    }

    /// Gives up the oldest records until `needed` words are free.
    fn make_room(&mut self, needed: usize) {
        let end = self.head + needed as u64;
        while end - self.tail > self.size() as u64 {
            let oldest = lengths(self.at(self.tail).load(Ordering::Relaxed));
            let next = oldest.map(|(words, _)| self.tail + words).filter(|next| *next <= self.head);
            // If this is no record, the beginning of the next one is unknown.
            self.tail = next.unwrap_or(self.head);
        }
        self.words[place::TAIL].store(self.tail, Ordering::Relaxed);
        // No reader sees the words that follow before it sees the tail.
        fence(Ordering::Release);
    }

    fn size(&self) -> usize {
        self.words.len() - place::RECORDS
    }

    fn at(&self, count: u64) -> &AtomicU64 {
        at(&self.words, count)
    }
}

/// Returns the number of words of a record and of bytes in it, from its first word; `None` if they
/// contradict each other.
fn lengths(prefix: u64) -> Option<(u64, u64)> {
    let (words, bytes) = (prefix & 0xffff_ffff, prefix >> 32);
    let data_words = words.checked_sub((PREFIX_WORDS + HEAD_WORDS) as u64)?;
    let is_record = bytes <= u64::from(u16::MAX) && bytes.div_ceil(WORD_BYTES as u64) == data_words;
    is_record.then_some((words, bytes))
}

#[expect(clippy::cast_possible_truncation, reason = "less than the size of the ring")]
fn at(words: &[AtomicU64], count: u64) -> &AtomicU64 {
    let size = words.len() - place::RECORDS;
    &words[place::RECORDS + (count % size as u64) as usize]
}

/// The reading end of a ring.
#[derive(Debug)]
pub(super) struct Reader {
    words: Mapped,
    next: u64,
    serial: u64,
    lost: u64,
}

impl Reader {
    /// Opens a ring at the oldest record that is still there, and counts those before it as lost.
    ///
    /// # Errors
    /// The file cannot be mapped, or holds no ring of this version.
    pub(super) fn open(file: &File) -> io::Result<Self> {
        let words = usize::try_from(file.metadata()?.len()).unwrap_or(0) / WORD_BYTES;
        if words <= place::RECORDS {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let words = Mapped::new(file, words)?;
        check(&words)?;
        Ok(Self { words, next: 0, serial: 0, lost: 0 })
    }

    /// Skips all records that are there now.
    pub(super) fn skip(&mut self) {
        self.next = self.words[place::HEAD].load(Ordering::Acquire);
        self.serial = self.words[place::SERIAL].load(Ordering::Relaxed);
    }

    /// Returns the number of records that were overwritten before they were read.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the next record, or `None` if there is none yet.
    pub(super) fn next(&mut self) -> Option<Record> {
        loop {
            let head = self.words[place::HEAD].load(Ordering::Acquire).min(COUNT_MAX);
            let tail = self.tail().min(head);
            // The writer corrects both with its next record.
            if head - tail > self.size() {
                return None;
            }
            self.next = self.next.clamp(tail, head);
            if self.next == head {
                return None;
            }
            let copy = self.copy(head);
            // A reader that saw an overwriting word sees the tail that was stored before it.
            fence(Ordering::Acquire);
            if self.tail() > self.next {
                continue;
            }
            let Some((words, serial, record)) = copy else {
                // The record was not overwritten and makes no sense: another process writes to the
                // file.
                self.next = head;
                return None;
            };
            self.next += words;
            self.lost = self.lost.saturating_add(serial.saturating_sub(self.serial));
            self.serial = serial.saturating_add(1);
            return Some(record);
        }
    }

    /// Returns the length in words, the serial number and the contents of the record at `next`;
    /// `None` if it contradicts itself, as half-overwritten records do.
    fn copy(&self, head: u64) -> Option<(u64, u64, Record)> {
        let word = |at: u64| self.at(self.next + at).load(Ordering::Relaxed);
        let (words, bytes) = lengths(word(0))?;
        if self.next + words > head {
            return None;
        }
        let record_head = std::array::from_fn(|at| word((PREFIX_WORDS + at) as u64));
        let data_at = (PREFIX_WORDS + HEAD_WORDS) as u64;
        let mut data: Vec<u8> = (data_at..words).flat_map(|at| word(at).to_ne_bytes()).collect();
        data.truncate(usize::try_from(bytes).ok()?);
        Some((words, word(1), Record::from_head(&record_head, data)?))
    }

    fn size(&self) -> u64 {
        (self.words.len() - place::RECORDS) as u64
    }

    fn tail(&self) -> u64 {
        self.words[place::TAIL].load(Ordering::Relaxed)
    }

    fn at(&self, count: u64) -> &AtomicU64 {
        at(&self.words, count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fate, Protocol};
    use super::*;

    const BYTES: usize = 4096;

    fn record(number: u64, len: usize) -> Record {
        let at = "127.0.0.1:7".parse().unwrap();
        let bytes = (0..len).map(|i| (i as u64 * 7 + number) as u8).collect();
        Record {
            time_ns: number,
            fate: Fate::Sent,
            protocol: Protocol::Srd,
            src: at,
            dst: at,
            len: len as u16,
            bytes,
        }
    }

    fn push(writer: &mut Writer, record: &Record) {
        writer.push(record, 65_535, |_, bytes| bytes.extend_from_slice(&record.bytes)).unwrap();
    }

    fn ring() -> (Writer, Reader, File) {
        let file = tempfile::tempfile().unwrap();
        let writer = Writer::open(&file, BYTES, 1).unwrap();
        (writer, Reader::open(&file).unwrap(), file)
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        let (mut writer, mut reader, _) = ring();
        for number in 0..200 {
            let record = record(number, number as usize * 3);
            push(&mut writer, &record);
            assert_eq!(reader.next(), Some(record));
            assert_eq!(reader.next(), None);
        }
        writer.push(&record(0, 100), 10, |max, bytes| bytes.extend(vec![5; max.min(100)])).unwrap();
        let cut = reader.next().unwrap();
        assert_eq!((cut.len, cut.bytes), (100, vec![5; 10]));
        assert_eq!(reader.lost(), 0);
    }

    #[test]
    fn what_was_overwritten_is_counted() {
        let (mut writer, mut reader, file) = ring();
        for number in 0..1000 {
            push(&mut writer, &record(number, 50));
        }
        let read: Vec<u64> = std::iter::from_fn(|| reader.next()).map(|r| r.time_ns).collect();
        assert_eq!(read.last(), Some(&999));
        assert!(read.len() > 30, "the ring is full: {}", read.len());
        assert_eq!(reader.lost(), 1000 - read.len() as u64);
        let mut late = Reader::open(&file).unwrap();
        late.skip();
        push(&mut writer, &record(1000, 0));
        assert_eq!((late.next().unwrap().time_ns, late.lost()), (1000, 0));
    }

    #[test]
    fn a_reader_that_is_overtaken_sees_no_mixture() {
        let (mut writer, mut reader, _) = ring();
        const RECORDS: u64 = 200_000;
        let thread = std::thread::spawn(move || {
            for number in 0..RECORDS {
                push(&mut writer, &record(number, 40 + number as usize % 90));
            }
        });
        let mut seen = 0;
        let mut last = None;
        while last != Some(RECORDS - 1) {
            let Some(read) = reader.next() else { continue };
            assert_eq!(read, record(read.time_ns, read.bytes.len()));
            assert!(last < Some(read.time_ns), "in order");
            last = Some(read.time_ns);
            seen += 1;
        }
        thread.join().unwrap();
        assert_eq!(seen + reader.lost(), RECORDS);
    }

    /// Words that only the writer should write may hold anything: the writer continues with its own
    /// copy of its state, and readers see whole records or none.
    #[test]
    fn words_that_others_wrote_neither_stop_nor_mislead() {
        const ROUNDS: u64 = 300;
        let base = std::env::var("SOFTEFA_SEED").ok().and_then(|seed| seed.parse().ok());
        for seed in base.map_or(1..=ROUNDS, |seed: u64| seed..=seed) {
            println!("SOFTEFA_SEED={seed} cargo test -p softefa words_that_others_wrote");
            let mut state = seed;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
                state >> 32
            };
            let (mut writer, mut reader, file) = ring();
            let words = Mapped::new(&file, BYTES / WORD_BYTES).unwrap();
            for number in 0..200 {
                push(&mut writer, &record(number, 1 + random() as usize % 90));
                // The magic and the size stay, because a file without them is no ring.
                let at = place::START + 1 + random() as usize % (words.len() - place::HEAD);
                let nonsense = [0, 1, u64::MAX, random(), random() << 32 | random()];
                words[at].store(nonsense[random() as usize % 5], Ordering::Relaxed);
                while let Some(read) = reader.next() {
                    assert!(read.bytes.len() <= usize::from(u16::MAX));
                }
                if number % 20 == 0 {
                    // The device is closed and opened again.
                    match Writer::open(&file, BYTES, 1) {
                        Ok(again) => writer = again,
                        Err(error) => assert_eq!(error.kind(), io::ErrorKind::InvalidData),
                    }
                }
            }
            // Once it is left alone, the file is a ring again.
            for number in 0..100 {
                push(&mut writer, &record(number, 60));
            }
            let mut late = Reader::open(&file).unwrap();
            let read = std::iter::from_fn(|| late.next()).last();
            assert_eq!(read, Some(record(99, 60)), "SOFTEFA_SEED={seed}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_given_up_and_counted() {
        let (mut writer, mut reader, file) = ring();
        for number in 0..3 {
            push(&mut writer, &record(number, 1000));
        }
        let words = Mapped::new(&file, BYTES / WORD_BYTES).unwrap();
        // This is the length of the first record, which the next one overwrites.
        words[place::RECORDS].store(0, Ordering::Relaxed);
        push(&mut writer, &record(3, 1000));
        push(&mut writer, &record(4, 1000));
        let read: Vec<u64> = std::iter::from_fn(|| reader.next()).map(|r| r.time_ns).collect();
        assert_eq!((read, reader.lost()), (vec![3, 4], 3));
    }

    #[test]
    fn a_ring_belongs_to_one_process_and_a_foreign_file_is_refused() {
        let file = tempfile::tempfile().unwrap();
        drop(Writer::open(&file, BYTES, 1).unwrap());
        let mut reader = Reader::open(&file).unwrap();
        for number in 0..2 {
            // The ring is closed and opened again, and continues.
            push(&mut Writer::open(&file, BYTES, 1).unwrap(), &record(number, 9));
        }
        let read: Vec<u64> = std::iter::from_fn(|| reader.next()).map(|r| r.time_ns).collect();
        assert_eq!((read, reader.lost()), (vec![0, 1], 0));
        assert!(Writer::open(&file, BYTES, 2).is_err());
        let foreign = tempfile::tempfile().unwrap();
        foreign.set_len(BYTES as u64).unwrap();
        assert!(Reader::open(&foreign).is_err());
    }
}
