//! The file that is asked for: its place, its contents, and its checksum.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use bench_record::workload::Source;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::measure::Random;
use crate::refusal::Refusal;
use crate::workload::prelude::*;

const WORD_BYTES: usize = 8;
/// The number of bytes that are made at once.
const PIECE_BYTES: usize = 1 << 20;

/// Returns word number `index` of every file.
#[inline]
const fn word(index: u64) -> u64 {
    Random::new(index).next()
}

/// Returns the checksum of the part of a file that begins at byte `offset`, a multiple of 8. The
/// sum of the checksums of all parts, in any order, is that of the file. Each word counts as often
/// as an odd number that differs from word to word, so that every single damaged word, and every
/// word in another's place, is noticed.
#[inline]
pub(super) fn checksum(part: &[u8], offset: usize) -> u64 {
    let weigh = |sum: u64, word: [u8; WORD_BYTES], at: u64| {
        sum.wrapping_add(u64::from_le_bytes(word).wrapping_mul(2 * at + 1))
    };
    let (mut sum, mut at, mut left) = (0, (offset / WORD_BYTES) as u64, part);
    while let Some((word, rest)) = left.split_first_chunk() {
        (sum, at, left) = (weigh(sum, *word, at), at + 1, rest);
    }
    // The last word is filled up with zeros.
    let mut last = [0; WORD_BYTES];
    last[..left.len()].copy_from_slice(left);
    weigh(sum, last, at)
}

/// Returns true if this is the part of the file that begins at byte `offset`.
pub(super) fn is_part(part: &[u8], offset: usize) -> bool {
    let first = (offset / WORD_BYTES) as u64;
    part.chunks(WORD_BYTES)
        .zip(first..)
        .all(|(own, at)| *own == word(at).to_le_bytes()[..own.len()])
}

fn fill(bytes: &mut [u8], first: u64) {
    for (own, at) in bytes.chunks_mut(WORD_BYTES).zip(first..) {
        own.copy_from_slice(&word(at).to_le_bytes()[..own.len()]);
    }
}

enum Storage {
    Memory(Vec<u8>),
    Cache(File),
}

/// The server's file.
pub(in crate::workload) struct Content {
    place: Storage,
    len_bytes: usize,
    checksum: u64,
}

impl Content {
    /// Makes a file with room for `max_bytes`, none of which belong to it yet.
    pub(super) fn new(source: Source, max_bytes: usize) -> Result<Self, Failure> {
        let place = match source {
            Source::Memory => {
                let mut bytes = filled(max_bytes, 0, whole(max_bytes))?;
                fill(&mut bytes, 0);
                Storage::Memory(bytes)
            }
            Source::PageCache | Source::Sendfile => Storage::Cache(in_cache(max_bytes)?),
        };
        Ok(Self { place, len_bytes: 0, checksum: 0 })
    }

    /// Sets the length of the file from now on. Returns false if it had this length already.
    pub(super) fn begin(&mut self, len_bytes: usize) -> Result<bool, Failure> {
        if self.len_bytes == len_bytes {
            return Ok(false);
        }
        let mut piece = vec![0; PIECE_BYTES];
        self.len_bytes = len_bytes;
        self.checksum = 0;
        for start in (0..len_bytes).step_by(PIECE_BYTES) {
            let count = PIECE_BYTES.min(len_bytes - start);
            self.read(start, &mut piece[..count])?;
            self.checksum = self.checksum.wrapping_add(checksum(&piece[..count], start));
        }
        Ok(true)
    }

    pub(super) const fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Returns the checksum of the whole file.
    pub(super) const fn checksum(&self) -> u64 {
        self.checksum
    }

    /// Copies a part of the file.
    #[inline]
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Failure> {
        match &self.place {
            Storage::Memory(bytes) => {
                into.copy_from_slice(&bytes[offset..offset + into.len()]);
                Ok(())
            }
            Storage::Cache(file) => file.read_exact_at(into, offset as u64).map_err(|error| {
                Failure::Check(format!(
                    "the file cannot be read: {}",
                    bench_record::failure::plain(&error)
                ))
            }),
        }
    }

    /// Returns a descriptor for the kernel to send from.
    pub(super) fn descriptor(&self) -> Result<OwnedFd, Failure> {
        let failed = |reason: String| Failure::Check(format!("the file cannot be sent: {reason}"));
        match &self.place {
            Storage::Memory(_) => Err(failed("it is not in the page cache".to_owned())),
            Storage::Cache(file) => match file.try_clone() {
                Ok(file) => Ok(file.into()),
                Err(error) => Err(failed(bench_record::failure::plain(&error))),
            },
        }
    }
}

fn whole(bytes: usize) -> String {
    format!("a file of {bytes} bytes per thread: give smaller --sizes")
}

/// Makes a file without a name, in the page cache only.
fn in_cache(len_bytes: usize) -> Result<File, Failure> {
    let file = memfd_create("efa-bench-file", MemfdFlags::CLOEXEC)
        .map_err(|error| Failure::Check(format!("no file in the page cache: {error}")))?;
    let mut file = File::from(file);
    let mut piece = vec![0; PIECE_BYTES];
    for start in (0..len_bytes).step_by(PIECE_BYTES) {
        let count = PIECE_BYTES.min(len_bytes - start);
        fill(&mut piece, (start / WORD_BYTES) as u64);
        let written = file.write_all(&piece[..count]);
        written.map_err(|_| Refusal::Memory(whole(len_bytes)))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_page_cache_hold_the_same_file() {
        for len_bytes in [1, 8, 1000, PIECE_BYTES, PIECE_BYTES + 13] {
            let mut sums = Vec::new();
            for source in [Source::Memory, Source::PageCache] {
                let mut content = Content::new(source, PIECE_BYTES + 100).expect("room");
                content.begin(len_bytes).expect("a file");
                let mut bytes = vec![0; len_bytes];
                content.read(0, &mut bytes).expect("its bytes");
                assert!(is_part(&bytes, 0), "{source:?} {len_bytes}");
                sums.push((content.checksum(), checksum(&bytes, 0)));
                assert_eq!(content.descriptor().is_ok(), source != Source::Memory);
            }
            assert!(sums.iter().all(|sum| *sum == (sums[0].0, sums[0].0)), "{len_bytes}: {sums:?}");
        }
    }

    #[test]
    fn parts_add_up_in_any_order_and_damage_shows() {
        let mut bytes = vec![0; 1003];
        fill(&mut bytes, 0);
        let whole = checksum(&bytes, 0);
        let parts = |bytes: &[u8]| {
            let sums = [(400..1003), (0..160), (160..400)];
            sums.map(|part| checksum(&bytes[part.clone()], part.start))
                .into_iter()
                .fold(0, u64::wrapping_add)
        };
        assert_eq!(parts(&bytes), whole);
        for bit in [0, 9, 1003 * 8 - 1, 400 * 8] {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(parts(&bytes), whole, "bit {bit}");
            assert!(!is_part(&bytes, 0), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        // A word is in another's place.
        let (low, high) = bytes.split_at_mut(8);
        low.swap_with_slice(&mut high[..8]);
        assert_ne!(checksum(&bytes, 0), whole);
    }
}
