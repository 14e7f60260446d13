//! The ring between two processes: records come out as they went in, and nobody sleeps over one.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::ring::{Published, Reader, ReaderState, Writer, words_for};

const LINES: usize = 4;

fn words() -> Arc<Vec<AtomicU64>> {
    Arc::new((0..words_for(LINES * 64)).map(|_| AtomicU64::new(0)).collect())
}

/// Puts a record of one word in; `false` when there is no room.
fn put(writer: &mut Writer, words: &[AtomicU64], mark: u64) -> bool {
    let Some(at) = writer.claim(words, 8).unwrap() else { return false };
    words[at].store(mark, Ordering::Relaxed);
    writer.publish(words, 8, 8);
    true
}

fn take(reader: &mut Reader, words: &[AtomicU64]) -> Option<u64> {
    let found = reader.find(words).unwrap()?;
    let mark = words[found.word].load(Ordering::Relaxed);
    reader.pass(words, found);
    Some(mark)
}

/// More records than there is room for at once, so that lines are used again.
#[test]
fn records_come_out_as_they_went_in() {
    loom::model(|| {
        let words = words();
        let theirs = Arc::clone(&words);
        let writing = thread::spawn(move || {
            let mut writer = Writer::default();
            // Wrong as a word of a record, should a reader take one for it.
            (0..6).filter(|i| put(&mut writer, &theirs, u64::MAX - i)).count() as u64
        });
        let mut reader = Reader::default();
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.extend(take(&mut reader, &words));
        }
        let count = writing.join().unwrap() as usize;
        while let Some(mark) = take(&mut reader, &words) {
            taken.push(mark);
        }
        assert_eq!(taken.len(), count);
        assert!(taken.is_sorted_by(|a, b| a > b), "{taken:?}");
    });
}

/// A reader goes from `state` to a sound sleep while something is published: a writer that is told
/// of no sleeper has been seen by the last look.
fn is_not_slept_over(state: ReaderState, published: Published) {
    loom::model(move || {
        let words = words();
        Reader::store_state(&words, state);
        let theirs = Arc::clone(&words);
        let writing = thread::spawn(move || {
            let mut writer = Writer::default();
            assert!(put(&mut writer, &theirs, 7));
            !Writer::must_call(&theirs, published)
        });
        Reader::store_state(&words, ReaderState::Asleep);
        let is_seen = take(&mut Reader::default(), &words).is_some();
        let is_trusted = writing.join().unwrap();
        assert!(is_seen || !is_trusted, "the writer relied on a look that was over");
    });
}

#[test]
fn no_record_is_slept_over() {
    is_not_slept_over(ReaderState::Awake, Published::Anything);
}

/// A light sleeper need not see an acknowledgement, and must once it sleeps deeply.
#[test]
fn no_acknowledgement_is_slept_over() {
    is_not_slept_over(ReaderState::LightlyAsleep, Published::Acknowledgements);
}

/// A sleeper that has answered a call and sleeps again is called again; one that has not sees all
/// when it does.
#[test]
fn no_record_is_slept_over_after_a_call() {
    loom::model(|| {
        let words = words();
        let calls = Arc::new(AtomicU64::new(0));
        Reader::store_state(&words, ReaderState::Asleep);
        let (theirs, socket) = (Arc::clone(&words), Arc::clone(&calls));
        let writing = thread::spawn(move || {
            let mut writer = Writer::default();
            for mark in [8, 7] {
                assert!(put(&mut writer, &theirs, mark));
                if Writer::must_call(&theirs, Published::Anything) {
                    socket.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let mut reader = Reader::default();
        calls.swap(0, Ordering::SeqCst);
        let mut seen = usize::from(take(&mut reader, &words).is_some());
        if Reader::has_other_state(&words, ReaderState::Asleep) {
            Reader::store_state(&words, ReaderState::Asleep);
        }
        seen += std::iter::from_fn(|| take(&mut reader, &words)).count();
        writing.join().unwrap();
        assert!(seen == 2 || calls.load(Ordering::SeqCst) > 0, "{seen} seen, and nobody called");
    });
}
