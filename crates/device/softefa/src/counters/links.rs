//! Whom a process reaches through memory, for those who look from outside: words of the counters
//! file.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::Ordering;

use crate::generation::Generation;
use crate::mapped::Words;

/// Words it takes; more links than that are not shown.
pub(super) const WORDS: usize = 64;

/// A link of a queue pair to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Number of the queue pair that sends.
    pub qpn: u16,
    /// The queue pair it sends to.
    pub to: SocketAddrV4,
}

impl Link {
    /// Never 0, because no queue pair has that number.
    fn to_word(self) -> u64 {
        let addr = u64::from(u32::from(*self.to.ip()));
        u64::from(self.qpn) << 48 | addr << 16 | u64::from(self.to.port())
    }

    /// The link in a word; `None` in an empty one.
    #[expect(clippy::cast_possible_truncation, reason = "the parts of a word")]
    pub(super) fn of_word(word: u64) -> Option<Self> {
        let to = SocketAddrV4::new(Ipv4Addr::from((word >> 16) as u32), word as u16);
        (word != 0).then_some(Self { qpn: (word >> 48) as u16, to })
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
    /// Links that nobody sees.
    pub(crate) fn private() -> Self {
        Self(Words::own(WORDS))
    }

    /// The links in these [`WORDS`].
    pub(super) fn at(words: Words) -> Self {
        Self(words)
    }

    /// Shows a link; `None` when there are too many.
    pub(crate) fn show(&self, link: Link) -> Option<Shown> {
        let word = link.to_word();
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        let is_taken = |at: &usize| self.0[*at].compare_exchange(0, word, order.0, order.1).is_ok();
        let at = (0..WORDS).find(is_taken)?;
        Some(Shown { words: self.0.clone(), at, made: Generation::current() })
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // The file of a child is the parent's, too.
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
            (0..WORDS).filter_map(|at| Link::of_word(links.0[at].load(Ordering::Relaxed))).collect()
        };
        let link = |port| Link { qpn: 65_535, to: SocketAddrV4::new(Ipv4Addr::BROADCAST, port) };
        let shown: Vec<_> = (1..=WORDS as u16).map(|port| links.show(link(port))).collect();
        assert!(shown.iter().all(Option::is_some));
        assert!(links.show(link(9)).is_none(), "no room");
        assert_eq!(seen(), (1..=WORDS as u16).map(link).collect::<Vec<_>>());
        drop(shown);
        assert_eq!(seen(), []);
        assert!(links.show(link(9)).is_some());
    }
}
