//! A fuzz target whose input is what a hostile writer does to its rings, before, between and after
//! the accesses of their reader, which also reads the ring of an honest writer (SRD-12.3,
//! SRD-12.4).
//!
//! The records that the reader takes are compared with those in the ring, which a model of the
//! document reads here. Then they are processed like all datagrams: check, engine, copy. The
//! datagrams of the honest writer all arrive, once and in order.

mod far;
mod model;

use std::fs::File;
use std::net::SocketAddr;

use srd::Instant;

use super::inbox::{Inbox, LENT_BYTES_MIN, Taken};
use super::ring::{Corrupt, LINE_BYTES, Writer, words_for};
use super::ring_listener::OfferedRing;
use super::segment::Segment;
use crate::address::NOWHERE;
use crate::framing::{Framing, Layout};
use crate::memory::Piece;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::wire::Sleep;
use far::FarEngine;
use model::{HEAD_WORDS, LINES, PUBLISHED, Ring, SKIP};

/// The most operations of an input.
const OPS_MAX: usize = 400;
/// The most rings that the enemy hands in, all of one memory.
const ENEMIES_MAX: usize = 3;
const FRIEND_PORT: u16 = 1;
const FIRST_ENEMY_PORT: u16 = 2;
/// The most datagrams of the friend that may lie in its ring, which they do not fill.
const FRIEND_MAX: u64 = 400;
/// The number of consecutive datagrams of the friend with the same length.
const SAME: u64 = 4;

thread_local! {
    /// The memories of the enemy and the friend, which are cleared between inputs.
    static MEMORIES: [Ring; 2] = [Ring::new(), Ring::new()];
}

/// Runs one input.
///
/// # Panics
/// The reader behaved wrongly.
pub(crate) fn ring(input: &[u8]) {
    crate::memory::signals::install();
    MEMORIES.with(|[enemy, friend]| {
        let mut play = Play::new(enemy, friend);
        let mut bytes = Bytes(input);
        for _ in 0..OPS_MAX {
            if bytes.0.is_empty() {
                break;
            }
            play.step(&mut bytes);
        }
        play.end();
        let Play { friend_writer, .. } = play;
        enemy.clear();
        friend.touch(0, friend_writer.at as usize * LINE_BYTES);
        friend.clear();
    });
}

/// The rest of the input, followed by zeros.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let own = self.some(N);
        array[..own.len()].copy_from_slice(own);
        array
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    fn short(&mut self) -> usize {
        usize::from(u16::from_le_bytes(self.array()))
    }

    /// Returns at most `len` bytes.
    fn some(&mut self, len: usize) -> &'a [u8] {
        let (own, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        own
    }
}

struct Play<'a> {
    enemy: &'a Ring,
    friend: &'a Ring,
    inbox: Inbox,
    buffer: Vec<u8>,
    far: FarEngine,
    /// The ports of the enemy's rings.
    admitted: Vec<u16>,
    /// The port of the enemy's next ring.
    next_port: u16,
    /// The line where the enemy writes next.
    write_line: u64,
    lent: Option<Lent>,
    friend_writer: Writer,
    /// Number of datagrams of the friend that were put in.
    put: u64,
    /// Number of datagrams of the friend that were taken out.
    taken: u64,
    /// A ring whose reader is the enemy.
    victim: (Writer, Vec<AtomicU64>),
}

/// The datagram that was lent last, and still is.
struct Lent {
    headers: Vec<u8>,
    rest: Piece,
}

impl<'a> Play<'a> {
    fn new(enemy: &'a Ring, friend: &'a Ring) -> Self {
        let mut play = Self {
            enemy,
            friend,
            inbox: Inbox::default(),
            buffer: Vec::new(),
            far: FarEngine::new(),
            admitted: Vec::new(),
            next_port: FIRST_ENEMY_PORT,
            write_line: 0,
            lent: None,
            friend_writer: Writer::default(),
            put: 0,
            taken: 0,
            victim: (Writer::default(), victim_words()),
        };
        play.inbox.admit(Instant::ZERO, friend.offered(FRIEND_PORT));
        play.admit();
        play
    }

    fn admit(&mut self) {
        if self.admitted.len() < ENEMIES_MAX {
            let port = self.next_port;
            self.next_port += 1;
            self.inbox.admit(Instant::ZERO, self.enemy.offered(port));
            self.admitted.push(port);
            self.write_line = 0;
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 12 {
            0 => self.take([None, Some(Layout::Srd), Some(Layout::Sealed)][bytes.short() % 3]),
            1 => self.store(bytes),
            2 => self
                .enemy
                .store(usize::from(bytes.byte()) % HEAD_WORDS, u64::from_le_bytes(bytes.array())),
            3 | 4 => self.record(bytes),
            5 | 6 => self.datagram(bytes),
            7 => self.tamper(bytes),
            8 => self.befriend(bytes.byte()),
            9 => self.sleep_or_tidy(bytes.byte()),
            10 => self.write_line = bytes.short() as u64,
            _ => self.lead_astray(bytes),
        }
    }

    /// Stores any word near the place where the enemy writes.
    fn store(&mut self, bytes: &mut Bytes<'_>) {
        let line = self.write_line + u64::from(bytes.byte());
        let word = model::word_of(line) + usize::from(bytes.byte() % 8);
        let value = match bytes.byte() % 5 {
            0 => 0,
            1 => SKIP,
            2 => PUBLISHED | bytes.short() as u64,
            3 => PUBLISHED | (bytes.short() as u64) << 32 | bytes.short() as u64,
            _ => u64::from_le_bytes(bytes.array()),
        };
        self.enemy.store(word, value);
    }

    /// Writes a record whose lengths are not those of its bytes.
    fn record(&mut self, bytes: &mut Bytes<'_>) {
        let (len, own_len, segment) = (bytes.short(), bytes.byte(), bytes.short());
        let own = bytes.some(usize::from(own_len));
        self.publish(own, len, segment % 512);
    }

    /// Writes a record with a datagram whose check is right, if its headers can be parsed.
    fn datagram(&mut self, bytes: &mut Bytes<'_>) {
        let (kind, headers_len, len) = (bytes.byte(), bytes.byte(), bytes.short() % 12_000);
        let mut own = bytes.some(usize::from(headers_len)).to_vec();
        own.resize(own.len() + len, kind);
        if let Some(covered) = Layout::Srd.lent_from(&own, false) {
            Framing::Headers.finish_headers(&mut own[..covered]);
        } else if own.len() >= srd::wire::Header::LEN {
            let nowhere = SocketAddr::new(NOWHERE, 0);
            Framing::All.finish_whole(nowhere, &mut own, 0);
        }
        let len = own.len();
        self.publish(&own, len, 0);
    }

    /// Publishes a record like an honest writer, except for the lengths, and for the words that are
    /// there already.
    fn publish(&mut self, own: &[u8], len: usize, segment: usize) {
        let lines = (8 + len as u64).div_ceil(LINE_BYTES as u64);
        if self.write_line % LINES + lines > LINES {
            self.enemy.store(model::word_of(self.write_line), SKIP);
            self.write_line += LINES - self.write_line % LINES;
        }
        let word = model::word_of(self.write_line);
        self.enemy.write(word + 1, own);
        self.enemy.store(word, PUBLISHED | (segment as u64) << 32 | len as u64);
        self.write_line += lines;
    }

    /// Changes the lent bytes, of which the headers are the reader's copy, and continues with them.
    fn tamper(&mut self, bytes: &mut Bytes<'_>) {
        let (skipped, len) = (bytes.short(), bytes.byte());
        let own = bytes.some(usize::from(len));
        let Some(lent) = &self.lent else { return };
        let from = self.enemy.byte_of(lent.rest.addr).expect("it is in the ring");
        let word = from.saturating_sub(64 + skipped % 512) / 8;
        self.enemy.write(word.max(HEAD_WORDS), own);
        self.far.take(&lent.headers, lent.rest);
    }

    fn befriend(&mut self, count: u8) {
        for _ in 0..=count % 8 {
            if self.put - self.taken >= FRIEND_MAX {
                return;
            }
            // All remaining datagrams of one length become one record.
            let count = if count & 8 == 0 { 1 } else { SAME - self.put % SAME };
            let segment = friendly(self.put).len();
            let bytes: Vec<u8> = (0..count).flat_map(|i| friendly(self.put + i)).collect();
            let words = self.friend.words();
            let word = self.friend_writer.claim(words, bytes.len()).expect("its head is its own");
            let Some(word) = word else { return };
            self.friend.write_unseen(word, &bytes);
            self.friend_writer.publish(words, bytes.len(), segment);
            self.put += count;
        }
    }

    fn sleep_or_tidy(&mut self, how: u8) {
        self.lent = None;
        match how % 4 {
            0 => {
                let sleep = if how & 4 == 0 { Sleep::Sound } else { Sleep::Light };
                let has_some = self.inbox.sleep(sleep);
                assert!(has_some || self.put == self.taken, "it sleeps over what is there");
            }
            1 => self.inbox.wake(),
            2 => self.admit(),
            _ => {
                self.inbox.hurry();
                self.inbox.tidy(Instant::ZERO);
                let inbox = &self.inbox;
                self.admitted.retain(|port| inbox.next_line(*port).is_some());
                assert!(inbox.next_line(FRIEND_PORT).is_some(), "an honest ring was given up");
            }
        }
    }

    fn take(&mut self, layout: Option<Layout>) {
        self.lent = None;
        let before: Vec<(u16, u64)> = self
            .admitted
            .iter()
            .filter_map(|port| Some((*port, self.inbox.next_line(*port)?)))
            .collect();
        let Some(taken) = self.inbox.take(Instant::ZERO, layout, &mut self.buffer) else {
            assert_eq!(self.put, self.taken, "it does not see what is there");
            return;
        };
        assert!(taken.segment > 0);
        if taken.from.port() == FRIEND_PORT {
            return self.take_friendly(&taken);
        }
        let known = before.iter().find(|(port, _)| *port == taken.from.port());
        let (_, line) = *known.expect("it comes from a ring that was handed in");
        self.enemy.check(line, &taken, &self.buffer, layout);
        let rest = taken.rest.unwrap_or_default();
        for headers in self.buffer.chunks(taken.segment) {
            self.far.take(headers, rest);
        }
        if taken.rest.is_some() {
            self.lent = Some(Lent { headers: self.buffer.clone(), rest });
        }
    }

    fn take_friendly(&mut self, taken: &Taken) {
        assert!(taken.rest.is_none(), "a part of it was never looked at");
        for datagram in self.buffer.chunks(taken.segment) {
            assert_eq!(datagram, friendly(self.taken), "number {} comes otherwise", self.taken);
            self.taken += 1;
        }
    }

    /// Checks that all datagrams of the friend arrive, whatever else there is.
    fn end(&mut self) {
        for _ in 0..10_000 {
            if self.put == self.taken {
                return;
            }
            self.take(None);
        }
        panic!("{} of {} honest datagrams wait for others", self.put - self.taken, self.put);
    }

    /// Plays a reader that stores any value in its words, and checks that the writer stays in the
    /// ring.
    fn lead_astray(&mut self, bytes: &mut Bytes<'_>) {
        let (writer, words) = &mut self.victim;
        let (len, is_freed) = (bytes.short() % 4096, bytes.byte() % 2 == 0);
        let said = if is_freed { writer.at } else { u64::from_le_bytes(bytes.array()) };
        words[super::ring::FREED_AT].store(said, Ordering::Relaxed);
        match writer.claim(words, len) {
            Ok(Some(word)) => {
                assert!(word + len.div_ceil(8) <= words.len(), "{len} bytes at word {word}");
                writer.publish(words, len, len);
            }
            Ok(None) => {}
            Err(Corrupt) => self.victim = (Writer::default(), victim_words()),
        }
    }
}

fn victim_words() -> Vec<AtomicU64> {
    (0..words_for(32 * LINE_BYTES)).map(|_| AtomicU64::new(0)).collect()
}

/// Returns a datagram of the friend: any length, some of the same length in a row, and its number
/// in each word. The first byte is 0, which is no header, so that it is never lent.
fn friendly(number: u64) -> Vec<u8> {
    let len = 1 + (number / SAME * 389 % 2500) as usize;
    number.to_be_bytes().iter().copied().cycle().take(len).collect()
}

#[cfg(test)]
mod tests {
    /// The seeds of the fuzz target are run with every run of the tests.
    #[test]
    fn seeds_of_the_fuzz_target_pass() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus/ring");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            super::ring(&std::fs::read(&path).unwrap());
            count += 1;
        }
        assert!(count > 0, "no seed in {folder}");
    }
}
