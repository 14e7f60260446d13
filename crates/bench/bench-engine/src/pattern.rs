//! Message contents that can be checked, because every byte follows from the sequence number.

use crate::measure::Random;

/// The number of bytes at the front that carry the sequence number, if the message has room for
/// them.
pub const SEQUENCE_BYTES: usize = 8;

/// Fills `payload` with the contents of message number `sequence`.
pub(crate) fn fill(payload: &mut [u8], sequence: u64) {
    if payload.len() < SEQUENCE_BYTES {
        let first = sequence.to_le_bytes()[0];
        for (index, byte) in payload.iter_mut().enumerate() {
            *byte = first.wrapping_add(index.to_le_bytes()[0]);
        }
        return;
    }
    write_number(payload, sequence);
    let body = &mut payload[SEQUENCE_BYTES..];
    let mut words = Random::new(sequence);
    for chunk in body.chunks_mut(8) {
        let word = words.next().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Checks a message and returns its sequence number; `None` if it is too short to carry one.
pub(crate) fn check(payload: &[u8]) -> Result<Option<u64>, ()> {
    if payload.len() < SEQUENCE_BYTES {
        let Some(first) = payload.first() else { return Ok(None) };
        let good = payload
            .iter()
            .enumerate()
            .all(|(index, byte)| *byte == first.wrapping_add(index.to_le_bytes()[0]));
        return if good { Ok(None) } else { Err(()) };
    }
    let (sequence, body) = (number(payload).ok_or(())?, &payload[SEQUENCE_BYTES..]);
    let mut words = Random::new(sequence);
    let good = body.chunks(8).all(|chunk| words.next().to_le_bytes()[..chunk.len()] == *chunk);
    if good { Ok(Some(sequence)) } else { Err(()) }
}

/// Writes the number of a message to where `number` and `check` read it; writes nothing if there is
/// no room for it.
#[inline]
pub(crate) fn write_number(payload: &mut [u8], sequence: u64) {
    if let Some(head) = payload.first_chunk_mut() {
        *head = sequence.to_le_bytes();
    }
}

/// Reads the number of a message.
#[inline]
pub(crate) fn number(payload: &[u8]) -> Option<u64> {
    payload.first_chunk().map(|head| u64::from_le_bytes(*head))
}

/// A count of the messages that a later one has overtaken.
#[derive(Debug, Default)]
pub(crate) struct Overtaken {
    /// The highest number so far.
    highest: u64,
    pub(crate) count: u64,
    /// The greatest distance of an overtaken message from the highest number.
    pub(crate) farthest: u64,
}

impl Overtaken {
    #[inline]
    pub(crate) fn note(&mut self, sequence: u64) {
        if sequence < self.highest {
            self.count += 1;
            self.farthest = self.farthest.max(self.highest - sequence);
        } else {
            self.highest = sequence;
        }
    }
}

/// Returns the number nearest to `about` whose low bits are `low`.
#[inline]
pub(crate) fn widened(low: u32, about: u64) -> u64 {
    let distance = i64::from(low.wrapping_sub(about as u32) as i32);
    about.saturating_add_signed(distance)
}

/// The messages seen within a window, which shows messages that come twice, in any order.
#[derive(Debug)]
pub(crate) struct Seen {
    bits: Vec<u64>,
    /// The number below which every message was seen or given up.
    base: u64,
    pub(crate) duplicates: u64,
}

/// The number of messages that are remembered: far more than the messages that overtake each other
/// on any provider.
const WINDOW: u64 = 1 << 17;

impl Seen {
    pub(crate) fn new() -> Self {
        Self { bits: vec![0; (WINDOW / 64) as usize], base: 0, duplicates: 0 }
    }

    /// Notes a message. A number that is older than the window is a duplicate, or was lost for so
    /// long that it counts as one.
    pub(crate) fn note(&mut self, sequence: u64) {
        if sequence < self.base {
            self.duplicates += 1;
            return;
        }
        while sequence - self.base >= WINDOW {
            if sequence - self.base >= 2 * WINDOW {
                // No number that was seen stays in the window: a damaged number may have any value.
                self.bits.fill(0);
                self.base = sequence / 64 * 64 - (WINDOW - 64);
                break;
            }
            // The window slides by one word and forgets the oldest 64 numbers.
            let word = (self.base / 64 % (WINDOW / 64)) as usize;
            self.bits[word] = 0;
            self.base += 64;
        }
        let word = (sequence / 64 % (WINDOW / 64)) as usize;
        let bit = 1_u64 << (sequence % 64);
        if self.bits[word] & bit != 0 {
            self.duplicates += 1;
        }
        self.bits[word] |= bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_flipped_bit_is_found() {
        for len in [1_usize, 2, 7, 8, 9, 16, 100] {
            let mut payload = vec![0; len];
            fill(&mut payload, 0x0123_4567_89ab);
            let number = (len >= 8).then_some(0x0123_4567_89ab);
            assert_eq!(check(&payload), Ok(number), "length {len}");
            // A single byte and a bare number carry nothing to check.
            for bit in 0..if len > 1 && len != 8 { len * 8 } else { 0 } {
                payload[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(check(&payload), Ok(number), "length {len}, bit {bit}");
                payload[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn numbers_are_widened_round_the_end_of_their_low_bits() {
        let about = 0x7_0000_0002;
        for number in [about - 5, about, about + 9, about - (1 << 31), about + (1 << 31) - 1] {
            assert_eq!(widened(number as u32, about), number);
        }
        assert_eq!(widened(u32::MAX, 0), 0, "there is none below");
    }

    #[test]
    fn duplicates_are_counted_in_any_order() {
        let mut seen = Seen::new();
        for sequence in [0, 2, 1, 2, WINDOW + 70, 0, WINDOW + 69, WINDOW + 70] {
            seen.note(sequence);
        }
        assert_eq!(seen.duplicates, 3);
    }

    /// A large number must not make the window slide there 64 numbers at a time.
    #[test]
    fn a_damaged_number_moves_the_window_at_once() {
        let mut seen = Seen::new();
        for sequence in [0, 1 << 60, 1] {
            seen.note(sequence);
        }
        assert_eq!(seen.duplicates, 1, "what came before the window counts as one");
        for sequence in [(1 << 60) - 1, (1 << 60) - 1, 1 << 60, u64::MAX, u64::MAX, u64::MAX - 1] {
            seen.note(sequence);
        }
        assert_eq!(seen.duplicates, 4);
    }

    #[test]
    fn messages_that_were_overtaken_are_counted_with_their_distance() {
        let mut overtaken = Overtaken::default();
        for sequence in [0, 1, 5, 2, 3, 6, 4, 7] {
            overtaken.note(sequence);
        }
        assert_eq!((overtaken.count, overtaken.farthest), (3, 3));
    }
}
