//! Opens captured datagrams.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use super::cache::Cache;
use super::keys::{Direction, DirectionKey};
use super::{Envelope, Refusal, SealKey};

/// The most keys that are kept; others are derived again.
const KEYS_MAX: usize = 4096;

/// Opens datagrams between any two queue pairs, as often as they are presented.
#[derive(Debug)]
pub struct Reader {
    key: SealKey,
    keys: Cache<(Direction, u64), DirectionKey>,
}

impl Reader {
    /// Makes a reader of datagrams that were sealed with `key`.
    #[must_use]
    pub fn new(key: &SealKey) -> Self {
        Self { key: key.clone(), keys: Cache::new(KEYS_MAX) }
    }

    /// Verifies and decrypts in place a datagram that went from `src` to `dst`, and returns where
    /// in it the inner datagram lies.
    ///
    /// # Errors
    /// [`Refusal`]: the datagram is not sealed, cut short, or sealed with another key. After
    /// [`Refusal::Tag`] only the envelope is unchanged.
    pub fn open(
        &mut self,
        src: IpAddr,
        dst: IpAddr,
        datagram: &mut [u8],
    ) -> Result<Range<usize>, Refusal> {
        let envelope = Envelope::parse(datagram).ok_or(Refusal::NotSealed)?;
        if datagram.len() != usize::from(envelope.len) {
            return Err(Refusal::Length);
        }
        let direction = Direction {
            src: SocketAddr::new(src, envelope.src_qpn),
            dst: SocketAddr::new(dst, envelope.dst_qpn),
        };
        let place = (direction, envelope.session);
        if self.keys.get(&place).is_none() {
            self.keys.insert(place, self.key.derive(envelope.session, &direction));
        }
        let key = self.keys.get(&place).ok_or(Refusal::Tag)?;
        key.open(&envelope, datagram).ok_or(Refusal::Tag)
    }
}
