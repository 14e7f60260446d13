//! The peers that a process reaches through memory, as other processes see them: words of the
//! counters file.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use crate::address;
use crate::generation::Generation;
use crate::mapped::Words;

/// The most links that are shown.
const MAX: usize = 64;
/// The number of words of a link: both queue pair numbers, and the address of the peer.
const LINK_WORDS: usize = 1 + address::WORDS;
/// The number of words of a device.
pub(super) const WORDS: usize = MAX * LINK_WORDS;
/// The first word of a link whose address is being written.
const BEGUN: u64 = 1;

/// A link of a queue pair to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The number of the queue pair that sends.
    pub qpn: u16,
    /// The queue pair that it sends to.
    pub to: SocketAddr,
}

impl Link {
    /// Returns the word of both numbers, which is never 0, because no queue pair has that number.
    fn numbers(self) -> u64 {
        u64::from(self.qpn) << 16 | u64::from(self.to.port())
    }

    /// Reads the words of one link; `None` if there is none.
    #[expect(clippy::cast_possible_truncation, reason = "the parts of a word")]
    fn of_words(words: &[u64]) -> Option<Self> {
        let &[numbers, high, low] = words else { return None };
        let qpn = (numbers >> 16) as u16;
        let to = SocketAddr::new(address::of_words([high, low]), numbers as u16);
        (qpn != 0).then_some(Self { qpn, to })
    }

    /// Returns all links in these [`WORDS`].
    pub(super) fn all(words: &[u64]) -> Vec<Self> {
        words.chunks_exact(LINK_WORDS).filter_map(Self::of_words).collect()
    }
}

/// The links of a device in this process.
#[derive(Debug, Clone)]
pub(crate) struct Links(Words);

/// A link that is shown until this is dropped.
#[derive(Debug)]
pub(crate) struct Shown {
    words: Words,
    at: usize,
    made: Generation,
}

impl Links {
    /// Makes links that no other process sees.
    pub(crate) fn private() -> Self {
        Self(Words::own(WORDS))
    }

    /// Uses these [`WORDS`] for links.
    pub(super) fn at(words: Words) -> Self {
        Self(words)
    }

    /// Shows a link; returns `None` if there are too many.
    pub(crate) fn show(&self, link: Link) -> Option<Shown> {
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        let is_taken =
            |at: &usize| self.0[*at].compare_exchange(0, BEGUN, order.0, order.1).is_ok();
        let at = (0..WORDS).step_by(LINK_WORDS).find(is_taken)?;
        for (place, word) in (at + 1..).zip(address::to_words(link.to.ip())) {
            self.0[place].store(word, Ordering::Relaxed);
        }
        self.0[at].store(link.numbers(), Ordering::Release);
        Some(Shown { words: self.0.clone(), at, made: Generation::current() })
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // A child shares the file with its parent.
        if self.made.is_current() {
            self.words[self.at].store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_shown_while_they_are_there() {
        let links = Links::private();
        let seen = || -> Vec<Link> {
            let words: Vec<u64> =
                (0..WORDS).map(|at| links.0[at].load(Ordering::Relaxed)).collect();
            Link::all(&words)
        };
        let link = |port: u16| {
            let ip = if port % 2 == 0 { "255.255.255.255" } else { "2001:db8::7" };
            Link { qpn: 65_535, to: SocketAddr::new(ip.parse().unwrap(), port) }
        };
        let shown: Vec<_> = (1..=MAX as u16).map(|port| links.show(link(port))).collect();
        assert!(shown.iter().all(Option::is_some));
        assert!(links.show(link(9)).is_none(), "no room");
        assert_eq!(seen(), (1..=MAX as u16).map(link).collect::<Vec<_>>());
        drop(shown);
        assert_eq!(seen(), []);
        assert!(links.show(link(9)).is_some());
    }
}
