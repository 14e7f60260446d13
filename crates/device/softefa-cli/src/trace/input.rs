//! Files with events: traces, and captures converted to traces.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::line::Line;
use super::packets::Packets;
use crate::failure::Failure;

/// The most bytes of a line; a longer line is no event.
const LINE_MAX: u64 = 64 << 10;
/// The number of bytes within which a trace has its first event, because standard error may contain
/// earlier output of a program.
const PREFACE_MAX: u64 = 4 << 20;
/// The first bytes of captures: pcapng, and the older formats in both byte orders.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const PCAP: [[u8; 4]; 4] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
];

/// The other contents of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rest {
    /// The number of lines that are no events.
    pub(super) lines: u64,
    /// The number of packets that are sealed, or belong to no queue pair.
    pub(super) packets: u64,
    /// The file ends in the middle of a line or of a block.
    pub(super) is_cut: bool,
}

/// A file that is being read, with its first event.
#[derive(Debug)]
pub(super) struct Input {
    lines: Lines,
    first: Option<String>,
}

#[derive(Debug)]
enum Lines {
    Trace(Text),
    Capture(Box<Packets<BufReader<File>>>),
}

impl Input {
    /// Opens a trace or a capture and reads its first event.
    ///
    /// # Errors
    /// The file cannot be read, or is neither.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failed = |error: io::Error| Failure::new(format!("{shown} cannot be read: {error}"));
        let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(failed)?);
        let begin = file.fill_buf().map_err(failed)?;
        let magic: Option<[u8; 4]> = begin.first_chunk().copied();
        if begin.is_empty() {
            return Err(Failure::new(format!("{shown} is empty: there is no event in it")));
        }
        if magic.is_some_and(|magic| PCAP.contains(&magic)) {
            return Err(Failure::new(format!(
                "{shown} is a capture of the format before pcapng; editcap -F pcapng {shown} NEW converts it"
            )));
        }
        let mut lines = match magic {
            Some(PCAPNG) => Lines::Capture(Box::new(Packets::new(file))),
            _ => Lines::Trace(Text::new(file)),
        };
        let first = lines.next().map_err(failed)?;
        match (first, &lines) {
            (Some(first), _) => Ok(Self { lines, first: Some(first) }),
            (None, Lines::Capture(_)) => Err(Failure::new(format!(
                "{shown} is a capture without a packet of a queue pair that can be read (softefa pcap --key-file opens sealed ones)"
            ))),
            (None, Lines::Trace(_)) => Err(Failure::new(format!(
                "{shown} is neither a trace nor a capture: softefa run --trace FILE writes one, --pcap FILE the other"
            ))),
        }
    }

    /// Returns the time of the first event.
    pub(super) fn begins_ns(&self) -> u64 {
        self.first.as_deref().and_then(Line::parse).map_or(0, |line| line.time_ns)
    }

    /// Returns true if the file is a capture, which has packets and no work requests.
    pub(super) fn is_capture(&self) -> bool {
        matches!(self.lines, Lines::Capture(_))
    }

    /// Returns the next line with an event; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<String>> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.lines.next(),
        }
    }

    /// Returns the other contents.
    pub(super) fn rest(&self) -> Rest {
        match &self.lines {
            Lines::Trace(text) => Rest { lines: text.others, packets: 0, is_cut: text.is_cut },
            Lines::Capture(packets) => {
                Rest { lines: 0, packets: packets.silent(), is_cut: packets.is_cut() }
            }
        }
    }
}

impl Lines {
    fn next(&mut self) -> io::Result<Option<String>> {
        match self {
            Self::Trace(text) => text.next(),
            Self::Capture(packets) => packets.next(),
        }
    }
}

/// Lines of text.
#[derive(Debug)]
struct Text {
    file: BufReader<File>,
    /// Number of bytes read, which is limited until the first event.
    preface: u64,
    has_events: bool,
    others: u64,
    is_cut: bool,
}

impl Text {
    fn new(file: BufReader<File>) -> Self {
        Self { file, preface: 0, has_events: false, others: 0, is_cut: false }
    }

    fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            if !self.has_events && self.preface > PREFACE_MAX {
                return Ok(None);
            }
            let mut line = Vec::new();
            let read = self.file.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(None);
            }
            self.preface += read as u64;
            let is_ended = line.ends_with(b"\n");
            if is_ended {
                line.pop();
            }
            let text = String::from_utf8(line).ok().filter(|text| Line::parse(text).is_some());
            match text {
                // The last line may be cut where it still makes sense, for example in a number.
                Some(text) if is_ended => {
                    self.has_events = true;
                    return Ok(Some(text));
                }
                _ if is_ended => self.others += 1,
                _ if (read as u64) < LINE_MAX => self.is_cut = true,
                _ => {
                    self.others += 1;
                    // A file without lines may have no end.
                    let mut rest = self.file.by_ref().take(PREFACE_MAX);
                    self.preface += rest.skip_until(b'\n')? as u64;
                }
            }
        }
    }
}
