//! Seals the datagrams that a queue pair sends.

use std::net::{IpAddr, SocketAddr};

use super::cache::Cache;
use super::keys::{Direction, DirectionKey};
use super::{COUNTER_MAX, Envelope, INNER_MIN_BYTES, Notice, OVERHEAD_BYTES, Opener, SealKey};

/// The most destinations whose keys are kept. The keys of others are derived again, which costs
/// time and nothing else, because the counter belongs to the session.
const DESTINATIONS_MAX: usize = 16_384;

/// The reason why a datagram cannot be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The datagram has no room for envelope, common header and tag, or is longer than 65,535
    /// bytes.
    #[error("{len} bytes cannot be a sealed datagram")]
    Length {
        /// Length of envelope, datagram and tag.
        len: usize,
    },
    /// The cipher refused the datagram.
    #[error("the cipher refused")]
    Cipher,
}

/// Seals the datagrams that one queue pair sends.
#[derive(Debug)]
pub struct Sealer {
    key: SealKey,
    local: SocketAddr,
    session: u64,
    /// The counter of the datagram that was sealed last, to any destination.
    counter: u64,
    destinations: Cache<SocketAddr, Destination>,
}

#[derive(Debug)]
struct Destination {
    key: DirectionKey,
    /// The counter of the last datagram to this destination.
    last: u64,
}

impl Sealer {
    /// Makes the sealer of the queue pair whose address and number are `local`. The caller draws
    /// `session` at random from the operating system for this queue pair alone (SRD-11.4).
    #[must_use]
    pub fn new(key: &SealKey, local: SocketAddr, session: u64) -> Self {
        let destinations = Cache::new(DESTINATIONS_MAX);
        Self { key: key.clone(), local, session, counter: 0, destinations }
    }

    /// Seals in place a datagram for the queue pair `to.port()` at `to.ip()`. `datagram` has
    /// [`ENVELOPE_BYTES`](super::ENVELOPE_BYTES) in front and [`TAG_BYTES`](super::TAG_BYTES)
    /// behind, which are written here.
    ///
    /// # Errors
    /// [`SealError`]; the bytes must not be sent.
    pub fn seal(&mut self, to: SocketAddr, datagram: &mut [u8]) -> Result<(), SealError> {
        let too_long = SealError::Length { len: datagram.len() };
        let len = u16::try_from(datagram.len()).map_err(|_| too_long)?;
        if datagram.len() < OVERHEAD_BYTES + INNER_MIN_BYTES {
            return Err(too_long);
        }
        let counter = self.count();
        let (session, local) = (self.session, self.local);
        let (src_qpn, dst_qpn) = (local.port(), to.port());
        let envelope = Envelope { len, src_qpn, dst_qpn, session, counter };
        if self.destinations.get(&to).is_none() {
            let key = self.key.derive(session, &Direction { src: local, dst: to });
            self.destinations.insert(to, Destination { key, last: 0 });
        }
        let destination = self.destinations.get(&to).ok_or(SealError::Cipher)?;
        destination.last = counter;
        destination.key.seal(&envelope, datagram).then_some(()).ok_or(SealError::Cipher)
    }

    /// Returns a counter that was never used in this session (SRD-11.5).
    fn count(&mut self) -> u64 {
        if self.counter == COUNTER_MAX {
            // The next session follows, because no other queue pair has drawn a number so near.
            self.session = self.session.wrapping_add(1);
            self.counter = 0;
            self.destinations.clear();
        }
        self.counter += 1;
        self.counter
    }

    /// Returns the destination at `host` of the datagram that begins with `quote`, if this queue
    /// pair sent it: the session is this one's, and the counter one used for that destination
    /// (SRD-11.8). A peer that saw none of our datagrams cannot know these.
    #[must_use]
    pub fn destination_of(&self, quote: &[u8], host: IpAddr) -> Option<SocketAddr> {
        let envelope = Envelope::parse(quote)?;
        let to = SocketAddr::new(host, envelope.dst_qpn);
        let is_ours = envelope.session == self.session && envelope.src_qpn == self.local.port();
        let last = self.destinations.peek(&to)?.last;
        (is_ours && (1..=last).contains(&envelope.counter)).then_some(to)
    }

    /// Returns the queue pair that cannot open our datagrams, if `notice`, which came from `from`,
    /// is credible (SRD-11.10).
    #[must_use]
    pub fn refused_by(&self, notice: &Notice, from: IpAddr, opener: &Opener) -> Option<SocketAddr> {
        let to = self.destination_of(&notice.quote, from)?;
        (!opener.has_opened_from(to)).then_some(to)
    }

    #[cfg(test)]
    pub(super) fn at_counter(mut self, counter: u64) -> Self {
        self.counter = counter;
        self
    }
}
