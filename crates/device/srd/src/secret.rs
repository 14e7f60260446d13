//! What strangers cannot guess: numbers from SipHash-2-4 under a key of the endpoint's own.

use crate::rng::{self, Rng};
use crate::siphash::siphash_2_4;
use crate::{Address, Instant, Psn};
use core::fmt;

/// A cookie is good for the rest of the slot it was made in and for the next one: longer than a
/// sender goes on (SRD-7.5), shorter than a receiver remembers (SRD-3.6), so that no cookie
/// outlives the memory that it was used (SRD-3.4).
const COOKIE_SLOT_NS: u64 = 10_000_000_000;

/// The source of an endpoint's unguessable numbers and of its random choices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    key: [u64; 2],
    generator: u64,
}

impl Seed {
    /// Entropy of the system, never the same twice: who knows it, or meets it again, can speak for
    /// the endpoint's peers.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        let [a, b, c, d] =
            [0, 8, 16, 24].map(|at| u64::from_le_bytes(crate::wire::take(&bytes, at)));
        Self { key: [a, b], generator: c ^ d }
    }

    /// A seed for simulations and tests, which are to repeat and have no strangers.
    #[must_use]
    pub const fn from_u64(n: u64) -> Self {
        let key = [rng::mix(n), rng::mix(!n)];
        // Where the generator began when its numbers were the tokens: figures of simulations stay.
        let generator = (n ^ rng::mix(rng::STEP.wrapping_add(1))).wrapping_add(rng::STEP);
        Self { key, generator }
    }

    /// The generator of choices that nobody need be kept from guessing.
    pub(crate) fn rng(&self) -> Rng {
        Rng::new(self.generator)
    }

    pub(crate) fn secret(&self) -> Secret {
        Secret(self.key)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// The endpoint's key, and what is made with it. Each purpose has inputs of its own.
#[derive(Clone, Copy)]
pub(crate) struct Secret([u64; 2]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The opening that a cookie proves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// The opener's address.
    pub(crate) from: Address,
    /// The token it wants to open.
    pub(crate) conn: u64,
    /// The token of the connection that is to be replaced, 0 for none.
    pub(crate) current: u64,
}

impl Secret {
    /// A connection token (SRD-3.1). The generator's number, which never comes twice, makes it
    /// another one each time and does not show in it.
    pub(crate) fn token(&self, rng: &mut Rng) -> u64 {
        self.number(1, [rng.next(), 0, 0, 0, 0]).max(1)
    }

    /// The first sequence number toward a peer.
    pub(crate) fn first_psn(&self, rng: &mut Rng) -> Psn {
        Psn(self.number(2, [rng.next(), 0, 0, 0, 0]) as u32)
    }

    /// The cookie to challenge an opener with (SRD-3.10).
    pub(crate) fn cookie(&self, now: Instant, what: &Opening) -> u64 {
        self.cookie_of(now.as_ns() / COOKIE_SLOT_NS, what)
    }

    /// The opener was sent this cookie for what it wants, lately.
    pub(crate) fn is_cookie(&self, now: Instant, what: &Opening, cookie: u64) -> bool {
        let slot = now.as_ns() / COOKIE_SLOT_NS;
        let is_of = |slot| self.cookie_of(slot, what) == cookie;
        cookie != 0 && (is_of(slot) || slot > 0 && is_of(slot - 1))
    }

    fn cookie_of(&self, slot: u64, what: &Opening) -> u64 {
        let Opening { from, conn, current } = *what;
        self.number(3, [from.host, u64::from(from.qpn), conn, current, slot]).max(1)
    }

    /// A number for an address, another one each second.
    pub(crate) fn place(&self, now: Instant, host: u64, qpn: u16) -> u64 {
        let second = now.as_ns() / 1_000_000_000;
        self.number(5, [host, u64::from(qpn), second, 0, 0])
    }

    /// A number for a machine.
    pub(crate) fn machine(&self, host: u64) -> u64 {
        self.number(6, [host, 0, 0, 0, 0])
    }

    /// The key of a table's hash.
    pub(crate) fn table_key(&self) -> [u128; 3] {
        let half = |i| u128::from(self.number(4, [i, 0, 0, 0, 0]));
        [0, 2, 4].map(|i| half(i) << 64 | half(i + 1))
    }

    fn number(&self, purpose: u64, words: [u64; 5]) -> u64 {
        let mut bytes = [0; 48];
        let (first, rest) = bytes.split_at_mut(8);
        first.copy_from_slice(&purpose.to_le_bytes());
        for (out, word) in rest.chunks_exact_mut(8).zip(words) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        siphash_2_4(self.0, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: Opening = Opening { from: Address { host: 1, qpn: 2 }, conn: 3, current: 4 };

    #[test]
    fn a_cookie_is_good_for_one_opening_and_a_while() {
        let (secret, other) = (Seed::from_u64(1).secret(), Seed::from_u64(2).secret());
        let at = |s: u64| Instant::from_ns(s * 1_000_000_000);
        let cookie = secret.cookie(at(5), &WHAT);
        let is_good = |s, what: &Opening| secret.is_cookie(at(s), what, cookie);
        assert!(is_good(5, &WHAT) && is_good(19, &WHAT), "it outlasts a sender's patience");
        assert!(!is_good(20, &WHAT), "it does not outlast a receiver's memory");
        assert!(!other.is_cookie(at(5), &WHAT, cookie));
        for what in [
            Opening { from: Address { host: 9, ..WHAT.from }, ..WHAT },
            Opening { from: Address { qpn: 9, ..WHAT.from }, ..WHAT },
            Opening { conn: 9, ..WHAT },
            Opening { current: 9, ..WHAT },
        ] {
            assert!(!is_good(5, &what), "{what:?}");
        }
        assert!(!secret.is_cookie(at(5), &WHAT, 0));
    }

    #[test]
    fn seeds_give_other_numbers_and_do_not_show() {
        let mut bytes = [7; 32];
        let first = Seed::new(bytes);
        bytes[31] = 8;
        let token = |seed: Seed| seed.secret().token(&mut seed.rng());
        assert_eq!(token(first), token(Seed::new([7; 32])));
        assert_ne!(token(first), token(Seed::new(bytes)));
        assert_ne!(token(Seed::from_u64(1)), token(Seed::from_u64(2)));
        assert_eq!(format!("{first:?} {:?}", first.secret()), "Seed(..) Secret(..)");
    }
}
