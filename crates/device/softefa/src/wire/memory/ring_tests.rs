//! Tests of the ring alone. They are in a file of their own, because `loom/` compiles the ring with
//! other atomics.

use super::ring::{Corrupt, FREED_AT, LINE_BYTES, PUBLISHED, Reader, SKIP, Writer, words_for};
use crate::sync::atomic::{AtomicU64, Ordering};

fn words(lines: usize) -> Vec<AtomicU64> {
    (0..words_for(lines * LINE_BYTES)).map(|_| AtomicU64::new(0)).collect()
}

fn put(writer: &mut Writer, words: &[AtomicU64], len: usize, mark: u64) -> bool {
    let Some(at) = writer.claim(words, len).unwrap() else { return false };
    for word in &words[at..at + len.div_ceil(8)] {
        word.store(mark, Ordering::Relaxed);
    }
    writer.publish(words, len, len);
    true
}

fn take(reader: &mut Reader, words: &[AtomicU64]) -> Option<(usize, u64)> {
    let found = reader.find(words).unwrap()?;
    let marks: Vec<u64> = words[found.word..found.word + found.len.div_ceil(8)]
        .iter()
        .map(|word| word.load(Ordering::Relaxed))
        .collect();
    assert!(marks.iter().all(|mark| *mark == marks[0]), "{marks:?}");
    reader.pass(words, found);
    Some((found.len, marks.first().copied().unwrap_or_default()))
}

/// Records have all lengths (SRD-12.3) and cross the end of the ring everywhere; marks resemble
/// words of records.
#[test]
fn records_come_out_as_they_went_in() {
    for lines in [8, 13, 64] {
        let words = words(lines);
        let (mut writer, mut reader) = (Writer::default(), Reader::default());
        let (mut put_count, mut taken) = (0u64, 0u64);
        let len_of = |i: u64| 1 + (i * 37 % (lines as u64 * 16)) as usize;
        while taken < 5000 {
            for _ in 0..=put_count % 3 {
                let mark = PUBLISHED | (8 + put_count % 60);
                put_count += u64::from(put(&mut writer, &words, len_of(put_count), mark));
            }
            for _ in 0..=taken % 4 {
                if let Some((len, mark)) = take(&mut reader, &words) {
                    assert_eq!((len, mark), (len_of(taken), PUBLISHED | (8 + taken % 60)));
                    taken += 1;
                }
            }
        }
        assert!(put_count - taken <= lines as u64);
    }
}

#[test]
fn a_full_ring_takes_nothing_and_goes_on_when_freed() {
    let words = words(16);
    let (mut writer, mut reader) = (Writer::default(), Reader::default());
    let count = (0..100).take_while(|i| put(&mut writer, &words, 56, *i)).count();
    assert_eq!(count, 15, "one line stays free for the word behind");
    assert!(!put(&mut writer, &words, 1, 7));
    assert_eq!(take(&mut reader, &words), Some((56, 0)));
    assert_eq!(take(&mut reader, &words), Some((56, 1)));
    assert!(put(&mut writer, &words, 56, 15));
    assert_eq!(std::iter::from_fn(|| take(&mut reader, &words)).count(), 14);
}

/// SRD-12.3: a train is one record, and a word that no train can have ends the ring.
#[test]
fn the_word_of_a_train_tells_its_parts() {
    let words = words(64);
    let (mut writer, mut reader) = (Writer::default(), Reader::default());
    for (len, segment) in [(320, 80), (321, 80), (79, 80), (80, 80), (64, 1)] {
        writer.claim(&words, len).unwrap().unwrap();
        writer.publish(&words, len, segment);
        let found = reader.find(&words).unwrap().unwrap();
        assert_eq!((found.len, found.segment), (len, segment.min(len)));
        reader.pass(&words, found);
    }
    let first = words_for(0);
    for (segment, len) in [(80, 80), (80, 79), (1, 65), (300, 16_385), (0x1_0000, 0x1_0001)] {
        words[first].store(PUBLISHED | segment << 32 | len, Ordering::Relaxed);
        let found = Reader::default().find(&words);
        assert_eq!(found, Err(Corrupt), "{len} bytes in pieces of {segment}");
    }
}

/// Whatever another process stores in any word, the reader finds only records that lie in the ring,
/// and terminates.
#[test]
fn a_hostile_writer_leads_nowhere() {
    let seed = std::env::var("SOFTEFA_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut state: u64 = seed.unwrap_or(1);
    println!("SOFTEFA_SEED={state}");
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 20
    };
    let words = words(16);
    let mut corrupt = 0;
    for _ in 0..20_000 {
        for word in &words {
            let value = match next() % 6 {
                0 => 0,
                1 => SKIP,
                2 => PUBLISHED | (next() % 2000),
                3 => PUBLISHED | next() << 30,
                4 => PUBLISHED | ((next() % 300) << 32) | (next() % 900),
                _ => next() << 20 | next(),
            };
            word.store(value, Ordering::Relaxed);
        }
        let mut reader = Reader { at: next() % 1000, freed: 0 };
        for _ in 0..40 {
            match reader.find(&words) {
                Ok(Some(found)) => {
                    assert!(found.word + found.len.div_ceil(8) <= words.len(), "{found:?}");
                    assert!(found.segment <= found.len, "{found:?}");
                    assert!(found.len == 0 || found.len.div_ceil(found.segment) <= 64, "{found:?}");
                    reader.pass(&words, found);
                }
                Ok(None) => break,
                Err(Corrupt) => {
                    corrupt += 1;
                    break;
                }
            }
        }
    }
    assert!(corrupt > 1000, "{corrupt}");
}

#[test]
fn a_hostile_reader_is_found_out() {
    for freed in [u64::MAX, 1000, 3] {
        let words = words(16);
        let mut writer = Writer { at: 10, freed: 4 };
        words[FREED_AT].store(freed, Ordering::Relaxed);
        assert_eq!(writer.claim(&words, 900), Err(Corrupt), "{freed}");
    }
}
