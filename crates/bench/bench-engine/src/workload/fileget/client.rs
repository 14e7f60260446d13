//! The client's side: asks for the file, puts its chunks in their places in whatever order they
//! come, allows the server to send more, and compares the checksum.

use std::time::Instant;

use super::content::{checksum, is_part};
use super::{Chunks, Grant, NAME};
use crate::measure::Random;
use crate::workload::caller::wrong;
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::pace::{Activity, Names, Pace};
use crate::workload::prelude::*;

const KINDS: [&str; 1] = ["get"];
const GET: usize = 0;
/// The number of files before the window, if a number of files is asked for.
const WARMUP_FILES: u64 = 1;

/// A file whose chunks are arriving.
#[derive(Debug, Clone, Copy)]
struct Get {
    since: Instant,
    /// The number of chunks that have come.
    come: usize,
    /// The number of chunks of which the server knows that they have come.
    granted: usize,
    /// The checksum of the chunks that have come.
    checksum: u64,
    /// The checksum of the whole file by the server's word; `None`: not known yet.
    promised: Option<u64>,
}

/// The download of an endpoint, one file after the other.
struct Download {
    /// The number of the last file that was asked for.
    number: u32,
    get: Option<Get>,
    /// The file, as far as it has come.
    file: Vec<u8>,
    seen: Vec<bool>,
}

/// The state of one thread of the client within a point.
struct Getter {
    chunks: Chunks,
    /// The number of chunks that the server may send before it hears of those that have come.
    window: usize,
    downloads: Vec<Download>,
}

/// Runs the client's side of a point.
pub(super) fn get<B: Backend>(part: Part<'_, B>, random: &mut Random) -> Outcome {
    let Part { links, port, point } = part;
    let chunks = Chunks::of(point);
    let mut downloads = Vec::with_capacity(links.len());
    for _ in &mut *links {
        let size_bytes = point.size_bytes;
        let file = filled(size_bytes, 0, format_args!("a file of {size_bytes} bytes"))?;
        // Numbers start at random in each point, so that a grant for a file of an earlier point
        // cannot be meant.
        let number = random.next() as u32;
        downloads.push(Download { number, get: None, file, seen: vec![false; chunks.count()] });
    }
    let pace = Pace::new(point, port, random.next(), Names::of(&KINDS))?.with_warmup(WARMUP_FILES);
    let mut getter = Getter { chunks, window: point.depth, downloads };
    pace.run(links, port, &mut getter)
}

impl<B: Backend> Activity<B> for Getter {
    fn collect(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let (download, chunks) = (&mut self.downloads[number], self.chunks);
        let moved = pace.collect(link, |pace, reply| download.take(pace, chunks, reply))?;
        if moved > 0 {
            // The clock is read after the bytes were put in their places: only then the file is
            // there.
            pace.now = Instant::now();
            download.end_if_whole(pace, chunks)?;
        }
        Ok(moved)
    }

    fn issue(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let download = &mut self.downloads[number];
        match download.get {
            Some(get) => {
                // The server may already be allowed to send all chunks.
                let is_needed = get.granted + self.window < self.chunks.count();
                if !is_needed || get.come - get.granted < (self.window / 4).max(1) {
                    return Ok(0);
                }
                let limit = u32::try_from(get.come + self.window).unwrap_or(u32::MAX);
                let grant = Grant { file: download.number, limit }.bytes();
                if !pace.post(link, download.number, Code::Grant, &grant)? {
                    return Ok(0);
                }
                download.get = Some(Get { granted: get.come, ..get });
            }
            None => {
                let Some(since) = pace.due() else { return Ok(0) };
                let number = download.number.wrapping_add(1);
                if !pace.post(link, number, Code::File, &NAME)? {
                    return Ok(0);
                }
                download.number = number;
                download.seen.fill(false);
                download.get =
                    Some(Get { since, come: 0, granted: 0, checksum: 0, promised: None });
                pace.start();
                pace.ask(1);
            }
        }
        Ok(1)
    }

    fn is_idle(&self, number: usize) -> bool {
        self.downloads[number].get.is_none()
    }

    /// Keeps the window open until a whole file has come; before that it has no figure.
    fn may_close(&self, pace: &Pace) -> bool {
        pace.counted(GET) > 0
    }
}

impl Download {
    /// Takes a chunk, or the server's word about the whole file.
    fn take(&mut self, pace: &mut Pace, chunks: Chunks, reply: &[u8]) -> Result<(), Failure> {
        let Some(get) = &mut self.get else { return Err(wrong("comes without being asked for")) };
        if let Some(Header { call, code: Code::Chunk, .. }) = Header::read(reply) {
            let (number, part) = (call as usize, &reply[HEADER_BYTES..]);
            let place = chunks.place(number).filter(|place| place.len() == part.len());
            let place = place.ok_or_else(|| wrong("is no chunk of the file"))?;
            if std::mem::replace(&mut self.seen[number], true) {
                return Err(wrong("is a chunk that has come already"));
            }
            if pace.point.validate && !is_part(part, place.start) {
                return Err(wrong("holds other bytes than those of the file"));
            }
            get.checksum = get.checksum.wrapping_add(checksum(part, place.start));
            get.come += 1;
            pace.traffic.chunks += 1;
            pace.traffic.content_bytes += part.len() as u64;
            self.file[place].copy_from_slice(part);
            return Ok(());
        }
        let (header, body) = Header::of_reply(reply)?;
        let checksum = body.first_chunk().filter(|_| header.call == self.number);
        let checksum = checksum.ok_or_else(|| wrong("is about another file"))?;
        get.promised = Some(u64::from_le_bytes(*checksum));
        Ok(())
    }

    fn end_if_whole(&mut self, pace: &mut Pace, chunks: Chunks) -> Result<(), Failure> {
        let Some(Get { since, come, checksum, promised: Some(promised), .. }) = self.get else {
            return Ok(());
        };
        if come < chunks.count() {
            return Ok(());
        }
        if checksum != promised {
            return Err(Failure::Data(format!(
                "a file arrived with checksum {checksum:#018x} instead of {promised:#018x}: the \
                 fabric damages data"
            )));
        }
        pace.end(GET, since, 1);
        self.get = None;
        Ok(())
    }
}
