//! A model of the memory of a ring: what its enemy sees, and which records lie in it according to
//! the document (SRD-12.2, SRD-12.3).

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use super::*;

/// Number of words before the first line.
pub(super) const HEAD_WORDS: usize = 32;
pub(super) const LINES: u64 = 32_768;
pub(super) const PUBLISHED: u64 = 1 << 63;
pub(super) const SKIP: u64 = 1 << 62;
const LINE_WORDS: usize = 8;

/// The memory of a ring, which another thread reads, too.
pub(super) struct Ring {
    segment: Segment,
    file: File,
    /// The runs of words that may differ from 0.
    touched: RefCell<Vec<(usize, usize)>>,
}

/// A record according to the document.
struct Record {
    /// The position of the first of its bytes.
    byte: usize,
    len: usize,
    /// The length of each datagram of a train; 0 for a single datagram.
    segment: usize,
    /// The line behind the record.
    behind: u64,
}

/// Returns the first word of a line.
pub(super) fn word_of(line: u64) -> usize {
    HEAD_WORDS + (line % LINES) as usize * LINE_WORDS
}

impl Ring {
    pub(super) fn new() -> Self {
        let (segment, file) = Segment::create().expect("memory for a ring");
        Self { segment, file: file.into(), touched: RefCell::default() }
    }

    /// Hands the memory in, as a ring of the queue pair `port`.
    pub(super) fn offered(&self, port: u16) -> OfferedRing {
        let file: OwnedFd = self.file.try_clone().expect("one descriptor more").into();
        OfferedRing { from: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port), file }
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        self.segment.words()
    }

    pub(super) fn store(&self, word: usize, value: u64) {
        self.touched.borrow_mut().push((word, word + 1));
        self.words()[word].store(value, Ordering::Relaxed);
    }

    /// Writes `bytes` from `word` on, as far as there is memory.
    pub(super) fn write(&self, word: usize, bytes: &[u8]) {
        let words = word..self.words().len().min(word + bytes.len().div_ceil(8));
        self.touched.borrow_mut().push((words.start, words.end));
        for (word, bytes) in self.words()[words].iter().zip(bytes.chunks(8)) {
            let mut value = word.load(Ordering::Relaxed).to_ne_bytes();
            value[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
        }
    }

    /// Writes as [`Self::write`] does, without [`Ring::touch`], which is called later for all
    /// writes.
    pub(super) fn write_unseen(&self, word: usize, bytes: &[u8]) {
        let piece = Piece { addr: bytes.as_ptr() as usize as u64, len: bytes.len() };
        self.segment.write(word, &[piece]).expect("the memory is there");
    }

    /// Notes that the `len` bytes of records from `byte` on may have been written.
    pub(super) fn touch(&self, byte: usize, len: usize) {
        let (first, last) = (HEAD_WORDS + byte / 8, HEAD_WORDS + (byte + len) / 8 + LINE_WORDS);
        self.touched.borrow_mut().push((first, last.min(self.words().len())));
    }

    /// Makes all words 0 again.
    pub(super) fn clear(&self) {
        self.touched.borrow_mut().push((0, HEAD_WORDS));
        for (first, last) in self.touched.borrow_mut().drain(..) {
            self.words()[first..last].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }

    /// Returns the position in the ring of the byte that the reader has at `addr`. Each reader maps
    /// the memory elsewhere, so that only offsets in a page are the same.
    pub(super) fn byte_of(&self, addr: u64) -> Option<usize> {
        let at = LAST_BASE.get().and_then(|base| addr.checked_sub(base))? as usize;
        (at < self.words().len() * 8).then_some(at)
    }

    /// Returns the `len` bytes from `byte` of the memory on.
    fn bytes(&self, byte: usize, len: usize) -> Vec<u8> {
        let words = &self.words()[byte / 8..(byte + len).div_ceil(8)];
        let mut bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        bytes.drain(..byte % 8);
        bytes.truncate(len);
        bytes
    }

    /// Returns the record that begins at `line` or, after a word that says so, with the next round.
    fn record(&self, mut line: u64) -> Record {
        let look = |line| self.words()[word_of(line)].load(Ordering::Relaxed);
        let mut word = look(line);
        if word == SKIP {
            line += LINES - line % LINES;
            word = look(line);
        }
        assert!(word & PUBLISHED != 0, "nothing was published at line {line}: {word:#x}");
        let (len, segment) = ((word & 0xFFFF_FFFF) as usize, (word >> 32 & 0x7FFF_FFFF) as usize);
        let lines = (8 + len).div_ceil(LINE_BYTES) as u64;
        assert!(line % LINES + lines <= LINES, "{len} bytes at line {line} are not in the ring");
        let is_train = segment > 0;
        let is_possible = segment < len && len <= 16_384 && len.div_ceil(segment.max(1)) <= 64;
        assert!(!is_train || is_possible, "{len} bytes in pieces of {segment} are no train");
        Record { byte: word_of(line) * 8 + 8, len, segment, behind: line + lines }
    }

    /// Checks that the bytes taken are those that lie from `line` on, and that no byte was lent
    /// before its headers were known.
    pub(super) fn check(&self, line: u64, taken: &Taken, out: &[u8], layout: Option<Layout>) {
        let Record { byte, len, segment, behind: mut next } = self.record(line);
        let Some(rest) = taken.rest else {
            let is_train = segment > 0;
            assert_eq!(taken.segment, if is_train { segment } else { len.max(1) });
            let mut places = vec![(byte, len)];
            let mut left = out.len() - len;
            assert!(!is_train || left == 0, "something came together with a train");
            while left > 0 {
                let Record { byte, len, segment, behind } = self.record(next);
                assert!(len > 0 && len <= left.min(taken.segment), "{len} bytes of {left}");
                assert_eq!(segment, 0, "a train came together with something");
                places.push((byte, len));
                (left, next) = (left - len, behind);
            }
            let there: Vec<u8> =
                places.into_iter().flat_map(|(byte, len)| self.bytes(byte, len)).collect();
            assert!(there == out, "what was taken does not lie there");
            return;
        };
        let headers_len = layout.and_then(|layout| layout.lent_from(out, false));
        assert_eq!(headers_len, Some(out.len()), "headers are lent");
        assert!(segment == 0 && len >= LENT_BYTES_MIN && taken.segment == out.len());
        assert_eq!(rest.len, len - out.len());
        assert!(self.bytes(byte, out.len()) == out, "what was taken does not lie there");
        let base = rest.addr - (byte + out.len()) as u64;
        assert_eq!(base % 4096, 0, "what is lent does not follow its headers");
        LAST_BASE.set(Some(base));
    }
}

thread_local! {
    /// The address of the memory of the reader that lent a datagram last.
    static LAST_BASE: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}
