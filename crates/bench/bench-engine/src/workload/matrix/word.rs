//! The messages between two nodes: each has a kind, and the numbers that the kind needs.

use crate::measure::Random;
use crate::workload::prelude::*;

/// The length of a message without figures in bytes.
pub(super) const WORD_BYTES: usize = 24;
/// The length of the longest message in bytes.
pub(super) const FIGURES_BYTES: usize = WORD_BYTES + 8 * FIGURES;
/// The number of figures behind the head of `Figures`.
pub(super) const FIGURES: usize = 11;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Send this message back.
    Ping = 1,
    /// A message comes back.
    Echo = 2,
    /// This is a message of a stream.
    Data = 3,
    /// The stream has this many messages, all sent before.
    Last = 4,
    /// All messages of the stream have arrived.
    Done = 5,
    /// From the client: it is your turn, with this node.
    Lead = 6,
    /// To the client: the figures of the turn.
    Figures = 7,
    /// To the client: the turn goes on.
    GoesOn = 8,
    /// From the client: all turns are over.
    End = 9,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Ping,
        Self::Echo,
        Self::Data,
        Self::Last,
        Self::Done,
        Self::Lead,
        Self::Figures,
        Self::GoesOn,
        Self::End,
    ];
}

/// The head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) kind: Kind,
    /// The number of a round trip, of a stream's messages, or of a node.
    pub(super) number: u64,
}

impl Word {
    /// Writes the head to the front of a message of this length.
    #[inline]
    pub(super) fn write(self, message: &mut [u8], len_bytes: usize) {
        let kind = u64::from(self.kind as u32) << 32 | len_bytes as u64;
        for (place, word) in [kind, self.number, check(kind, self.number)].into_iter().enumerate() {
            message[place * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads the head of a message.
    ///
    /// # Errors
    /// It is damaged.
    #[inline]
    pub(super) fn read(message: &[u8]) -> Result<Self, Failure> {
        let found = words(message);
        let word = found.filter(|[kind, number, own]| *own == check(*kind, *number));
        let [kind, number, _] = word.ok_or_else(damaged)?;
        let is_whole = kind as u32 as usize == message.len();
        let kind = Kind::ALL.into_iter().find(|own| u64::from(*own as u32) == kind >> 32);
        let kind = kind.filter(|_| is_whole).ok_or_else(damaged)?;
        Ok(Self { kind, number })
    }
}

/// Returns the words at the front of a message.
#[inline]
pub(super) fn words<const N: usize>(message: &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(message.get(..N * 8)?.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

/// Returns the check of the head.
#[inline]
fn check(kind: u64, number: u64) -> u64 {
    Random::new(kind ^ number.rotate_left(17)).next()
}

pub(super) fn damaged() -> Failure {
    Failure::Data("a message of another node is damaged: the fabric damages data".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_and_damage_is_noticed() {
        for kind in Kind::ALL {
            let word = Word { kind, number: u64::MAX - 3 };
            let mut message = [0; WORD_BYTES + 5];
            let len_bytes = message.len();
            word.write(&mut message, len_bytes);
            assert_eq!(Word::read(&message).ok(), Some(word));
            assert!(Word::read(&message[..WORD_BYTES]).is_err(), "shorter than it says");
            for bit in 0..WORD_BYTES * 8 {
                message[bit / 8] ^= 1 << (bit % 8);
                assert!(Word::read(&message).is_err(), "bit {bit}");
                message[bit / 8] ^= 1 << (bit % 8);
            }
        }
        assert!(Word::read(&[]).is_err());
    }
}
