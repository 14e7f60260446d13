//! Short messages beside the buffers. Each carries a checksum, so that damage is noticed: a wrong
//! credit could hold a shuffle up for good.

use crate::measure::Random;
use crate::workload::message::{self, Code, HEADER_BYTES, Header};
use crate::workload::prelude::*;

/// The number of numbers in a word.
const NUMBERS: usize = 3;
/// The length behind the header in bytes: the numbers and their sum.
pub(super) const WORD_BYTES: usize = (NUMBERS + 1) * 8;

/// A word: its kind, and the numbers of that kind.
///
/// * `Go`: tuples may be sent.
/// * `Grant`: the total number of buffers that may be sent.
/// * `Last`: the number of all buffers, and the number and the sum of their tuples.
/// * `Done`: all buffers were taken; the number of grants that were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) code: Code,
    pub(super) numbers: [u64; NUMBERS],
}

impl Word {
    /// Reads the word of a message with this header; `None` if it is damaged.
    #[inline]
    pub(super) fn read(header: Header, message: &[u8]) -> Option<Self> {
        let mut numbers = [0; NUMBERS];
        let (mut own, sum) = message.get(HEADER_BYTES..)?.split_last_chunk()?;
        for number in &mut numbers {
            let (bytes, rest) = own.split_first_chunk()?;
            (*number, own) = (u64::from_le_bytes(*bytes), rest);
        }
        if !own.is_empty() {
            return None;
        }
        let word = Self { code: header.code, numbers };
        (word.sum() == u64::from_le_bytes(*sum) && header.call == 0).then_some(word)
    }

    /// Sends the word. Returns false if the fabric is full.
    #[inline]
    pub(super) fn post<B: Backend>(self, link: &mut Link<B>) -> Result<bool, Failure> {
        Ok(message::post(link, 0, self.code, &self.body())?.is_some())
    }

    fn body(self) -> [u8; WORD_BYTES] {
        let mut body = [0; WORD_BYTES];
        let [first, second, third] = self.numbers;
        for (bytes, number) in body.chunks_exact_mut(8).zip([first, second, third, self.sum()]) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        body
    }

    /// Returns the sum of the word.
    fn sum(self) -> u64 {
        let start = self.code as u64;
        self.numbers.into_iter().fold(start, |sum, number| Random::new(sum ^ number).next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_and_damage_is_noticed() {
        let word = Word { code: Code::Last, numbers: [7, u64::MAX, 1 << 40] };
        let len_bytes = HEADER_BYTES + WORD_BYTES;
        let mut message = vec![0; len_bytes];
        Header { len_bytes, call: 0, code: word.code }.write(&mut message);
        message[HEADER_BYTES..].copy_from_slice(&word.body());
        let read = |message: &[u8]| Word::read(Header::read(message)?, message);
        assert_eq!(read(&message), Some(word));
        for bit in 0..len_bytes * 8 {
            message[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&message), None, "bit {bit}");
            message[bit / 8] ^= 1 << (bit % 8);
        }
        let header = Header::read(&message).expect("whole");
        assert_eq!(Word::read(header, &message[..len_bytes - 8]), None);
    }
}
