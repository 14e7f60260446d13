//! Numbers that strangers cannot guess, from SipHash-2-4 under the endpoint's key.

use crate::rng::{self, Rng};
use crate::siphash::siphash_2_4;
use crate::{Address, Instant, Psn};
use core::fmt;

/// A cookie is valid for the rest of the slot in which it was made and for the next one. That is
/// longer than a sender keeps trying (SRD-7.5) and shorter than a receiver remembers (SRD-3.6), so
/// that no cookie outlives the record of its use (SRD-3.4).
const COOKIE_SLOT_NS: u64 = 10_000_000_000;

/// The source of an endpoint's unguessable numbers and of its random choices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    key: [u64; 2],
    generator: u64,
}

impl Seed {
    /// Takes entropy of the system, which must never repeat: an attacker who knows it, or sees it
    /// used again, can impersonate the endpoint's peers.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        let [a, b, c, d] =
            [0, 8, 16, 24].map(|at| u64::from_le_bytes(crate::wire::take(&bytes, at)));
        Self { key: [a, b], generator: c ^ d }
    }

    /// Returns a seed for simulations and tests, which must repeat and have no attackers.
    #[must_use]
    pub const fn from_u64(n: u64) -> Self {
        let key = [rng::mix(n), rng::mix(!n)];
        // The state in which the generator began when its numbers were the tokens, so that figures
        // of simulations stay as they are.
        let generator = (n ^ rng::mix(rng::STEP.wrapping_add(1))).wrapping_add(rng::STEP);
        Self { key, generator }
    }

    /// Returns the generator for choices that an attacker may predict.
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

/// The endpoint's key, and the numbers derived from it. Each purpose has inputs of its own.
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
    /// Returns a connection token (SRD-3.1). The generator's number never repeats, so no token
    /// does, and the token does not reveal it.
    pub(crate) fn token(&self, rng: &mut Rng) -> u64 {
        self.hash(1, [rng.next(), 0, 0, 0, 0]).max(1)
    }

    /// Returns the first sequence number toward a peer.
    pub(crate) fn first_psn(&self, rng: &mut Rng) -> Psn {
        Psn(self.hash(2, [rng.next(), 0, 0, 0, 0]) as u32)
    }

    /// Returns the cookie to challenge an opener with (SRD-3.10).
    pub(crate) fn cookie(&self, now: Instant, what: &Opening) -> u64 {
        self.cookie_of(now.as_ns() / COOKIE_SLOT_NS, what)
    }

    /// Returns whether the opener was sent this cookie for the same opening lately.
    pub(crate) fn is_cookie(&self, now: Instant, what: &Opening, cookie: u64) -> bool {
        let slot = now.as_ns() / COOKIE_SLOT_NS;
        let is_of = |slot| self.cookie_of(slot, what) == cookie;
        cookie != 0 && (is_of(slot) || slot > 0 && is_of(slot - 1))
    }

    fn cookie_of(&self, slot: u64, what: &Opening) -> u64 {
        let Opening { from, conn, current } = *what;
        self.hash(3, [from.host, u64::from(from.qpn), conn, current, slot]).max(1)
    }

    /// Hashes an address; the result changes every second.
    pub(crate) fn hash_address(&self, now: Instant, host: u64, qpn: u16) -> u64 {
        let second = now.as_ns() / 1_000_000_000;
        self.hash(5, [host, u64::from(qpn), second, 0, 0])
    }

    /// Hashes a machine.
    pub(crate) fn hash_machine(&self, host: u64) -> u64 {
        self.hash(6, [host, 0, 0, 0, 0])
    }

    /// Returns the key of a table's hash.
    pub(crate) fn table_key(&self) -> [u128; 3] {
        let half = |i| u128::from(self.hash(4, [i, 0, 0, 0, 0]));
        [0, 2, 4].map(|i| half(i) << 64 | half(i + 1))
    }

    fn hash(&self, purpose: u64, words: [u64; 5]) -> u64 {
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
