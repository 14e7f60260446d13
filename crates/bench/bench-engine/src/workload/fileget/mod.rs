//! A file transfer: the client asks for a name, the server streams the file in chunks, as many at a
//! time as the client has room for, and tells its checksum.

mod client;
mod content;
mod server;

use std::ops::Range;

use bench_record::workload::Source;

use self::content::Content;
use super::message::HEADER_BYTES;
use super::room::{self};
use crate::measure::Random;
use crate::workload::prelude::*;

/// The most requests (and grants) that may be on their way.
const REQUESTS: usize = 16;
/// The length of the longest body of a request in bytes.
const REQUEST_BYTES: usize = NAME.len();

/// The name that is asked for.
const NAME: [u8; 16] = *b"file-0000000.dat";

/// A lane of the workload.
pub(super) enum FileGet {
    /// The client, which asks for files.
    Client(Random),
    /// The server, which has a file in a certain place.
    Server(Content, Source),
}

impl Workload for FileGet {
    // The depth is that of the chunks.
    const SENDS_DEPTH: bool = false;

    fn depths(job: &JobSpec, side: Side, _thread: usize) -> (usize, usize) {
        match side {
            Side::Client => (REQUESTS, room::twice(job)),
            Side::Server => (room::twice(job), REQUESTS),
        }
    }

    fn message_bytes(_job: &JobSpec, _size_bytes: usize, chunk_bytes: usize) -> usize {
        chunk_bytes.max(REQUEST_BYTES).saturating_add(HEADER_BYTES)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        let source = task.job.work.source;
        Ok(match task.side {
            Side::Client => Self::Client(task.random()),
            Side::Server => Self::Server(Content::new(source, task.job.max_size_bytes)?, source),
        })
    }

    fn begin<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        point: PointSpec,
    ) -> Result<(), Failure> {
        let Self::Server(content, source) = self else { return Ok(()) };
        if content.begin(point.size_bytes)? && *source == Source::Sendfile {
            for link in links {
                link.attach_file(content.descriptor()?)?;
            }
        }
        Ok(())
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self {
            Self::Client(random) => client::get(part, random),
            Self::Server(content, source) => server::serve(part, content, *source),
        }
    }
}

/// The chunks that a file is cut into.
#[derive(Debug, Clone, Copy)]
struct Chunks {
    file_bytes: usize,
    chunk_bytes: usize,
}

impl Chunks {
    fn of(point: PointSpec) -> Self {
        Self { file_bytes: point.size_bytes, chunk_bytes: point.parameter.max(1) }
    }

    const fn count(self) -> usize {
        self.file_bytes.div_ceil(self.chunk_bytes)
    }

    /// Returns the bytes of a chunk; `None` if the file has no chunk with this number.
    fn place(self, number: usize) -> Option<Range<usize>> {
        let start =
            number.checked_mul(self.chunk_bytes).filter(|start| *start < self.file_bytes)?;
        Some(start..self.file_bytes.min(start + self.chunk_bytes))
    }
}

/// The total number of chunks of a file that may be sent, and the number of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grant {
    file: u32,
    limit: u32,
}

impl Grant {
    /// Returns the bytes of a grant: its numbers, and the same inverted, so that damage is noticed.
    /// A damaged grant would otherwise be waited for in vain.
    fn bytes(self) -> [u8; 16] {
        let word = u64::from(self.file) << 32 | u64::from(self.limit);
        (u128::from(word) << 64 | u128::from(!word)).to_le_bytes()
    }

    /// Reads a grant; `None` if it is damaged.
    fn read(body: &[u8]) -> Option<Self> {
        let both = u128::from_le_bytes(body.try_into().ok()?);
        let word = (both >> 64) as u64;
        let whole = Self { file: (word >> 32) as u32, limit: word as u32 };
        (both as u64 == !word).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_survive_and_damage_is_noticed() {
        let grant = Grant { file: 7, limit: u32::MAX };
        let bytes = grant.bytes();
        assert_eq!(Grant::read(&bytes), Some(grant));
        assert_eq!(Grant::read(&bytes[..15]), None);
        for bit in 0..128 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Grant::read(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn chunks_cover_the_file_once() {
        for (file_bytes, chunk_bytes, count) in [(1, 8, 1), (16, 8, 2), (17, 8, 3), (7, 64, 1)] {
            let chunks = Chunks { file_bytes, chunk_bytes };
            assert_eq!(chunks.count(), count);
            let places: Vec<_> = (0..count).filter_map(|n| chunks.place(n)).collect();
            assert_eq!((places[0].start, places[count - 1].end), (0, file_bytes));
            assert!(places.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!(chunks.place(count), None);
            assert_eq!(chunks.place(usize::MAX), None);
        }
    }
}
