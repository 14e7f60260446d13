//! Opens the datagrams that a queue pair receives.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use super::cache::Cache;
use super::keys::{Direction, DirectionKey};
use super::replay::Taken;
use super::{COUNTER_MAX, Envelope, SealKey, envelope};

/// The most senders whose key and window are kept, about 2 KiB each.
const SENDERS_MAX: usize = 16_384;
/// The most senders that are remembered in the life of a queue pair, about 40 bytes each.
const SENDERS_EVER_MAX: usize = 1 << 20;

/// The reason why a datagram was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The datagram has no envelope: its sender has no key, or it is damaged.
    #[error("it is not sealed")]
    NotSealed,
    /// The length of the datagram is not the one in its envelope.
    #[error("its length is not the one it says")]
    Length,
    /// The datagram is for another queue pair.
    #[error("it is for another queue pair")]
    OtherQueuePair,
    /// The counter of the datagram is 0 or above [`COUNTER_MAX`].
    #[error("its counter is out of range")]
    Counter,
    /// The datagram has been taken before.
    #[error("it has been taken before")]
    Replayed,
    /// The datagram is too far behind to tell whether it has been taken.
    #[error("it is too far behind to tell whether it has been taken")]
    Late,
    /// The key, the sender or the receiver is another one, or the datagram was altered on the way.
    #[error("its tag does not fit")]
    Tag,
    /// The inner datagram contradicts the envelope.
    #[error("what is inside contradicts the envelope")]
    Contradiction,
    /// There are more senders than can be remembered.
    #[error("there were too many senders")]
    TooManySenders,
}

/// A sending queue pair in one of its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sender {
    at: SocketAddr,
    session: u64,
}

#[derive(Debug)]
struct Receiving {
    key: DirectionKey,
    taken: Taken,
}

/// Opens the datagrams that one queue pair receives, each of them once.
#[derive(Debug)]
pub struct Opener {
    key: SealKey,
    local: SocketAddr,
    senders: Cache<Sender, Receiving>,
    /// The highest counter of each sender that has been silent for long. If one returns, all
    /// counters up to that one count as taken, so that no datagram can be replayed (SRD-11.7).
    parked: HashMap<Sender, u64>,
    heard: HashSet<SocketAddr>,
    heard_hosts: HashSet<IpAddr>,
    senders_ever_max: usize,
    /// The inner datagrams are packets of RoCE; see [`Opener::of_packets`].
    has_packets: bool,
}

impl Opener {
    /// Makes the opener of the queue pair whose address and number are `local`.
    #[must_use]
    pub fn new(key: &SealKey, local: SocketAddr) -> Self {
        Self::bounded(key, local, SENDERS_MAX, SENDERS_EVER_MAX)
    }

    fn bounded(key: &SealKey, local: SocketAddr, senders_max: usize, ever_max: usize) -> Self {
        Self {
            key: key.clone(),
            local,
            senders: Cache::new(senders_max),
            parked: HashMap::new(),
            heard: HashSet::new(),
            heard_hosts: HashSet::new(),
            senders_ever_max: ever_max,
            has_packets: false,
        }
    }

    /// Makes it accept packets of RoCE, which do not name their sender, as inner datagrams.
    #[must_use]
    pub fn of_packets(self) -> Self {
        Self { has_packets: true, ..self }
    }

    /// Verifies and decrypts in place a datagram that came from `from`, and returns where in it the
    /// inner datagram lies. A datagram that fails leaves no state behind (SRD-11.7).
    ///
    /// # Errors
    /// [`Refusal`]. After [`Refusal::Tag`] only the envelope is unchanged.
    pub fn open(&mut self, from: IpAddr, datagram: &mut [u8]) -> Result<Range<usize>, Refusal> {
        let envelope = Envelope::parse(datagram).ok_or(Refusal::NotSealed)?;
        if datagram.len() != usize::from(envelope.len) {
            return Err(Refusal::Length);
        }
        if envelope.dst_qpn != self.local.port() {
            return Err(Refusal::OtherQueuePair);
        }
        if !(1..=COUNTER_MAX).contains(&envelope.counter) {
            return Err(Refusal::Counter);
        }
        let at = SocketAddr::new(from, envelope.src_qpn);
        let sender = Sender { at, session: envelope.session };
        let inner = match self.senders.get(&sender) {
            Some(receiving) => receiving.open(&envelope, datagram)?,
            None => self.open_first(sender, &envelope, datagram)?,
        };
        let is_one = self.is_between(at, &datagram[inner.clone()]);
        is_one.then_some(inner).ok_or(Refusal::Contradiction)
    }

    /// Returns true if the datagram `inner`, from the queue pair `from`, names that queue pair and
    /// this one, as far as it names any.
    #[must_use]
    pub fn is_between(&self, from: SocketAddr, inner: &[u8]) -> bool {
        let qpns = (from.port(), self.local.port());
        self.has_packets || envelope::qpns(inner) == Some(qpns)
    }

    /// Opens a datagram of a sender whose key is not at hand, and keeps the key if it is genuine.
    #[cold]
    fn open_first(
        &mut self,
        sender: Sender,
        envelope: &Envelope,
        datagram: &mut [u8],
    ) -> Result<Range<usize>, Refusal> {
        let parked = self.parked.get(&sender).copied();
        if parked.is_none() && self.senders.len() + self.parked.len() >= self.senders_ever_max {
            return Err(Refusal::TooManySenders);
        }
        let taken = Taken::up_to(parked.unwrap_or(0));
        taken.check(envelope.counter)?;
        let direction = Direction { src: sender.at, dst: self.local };
        let key = self.key.derive(sender.session, &direction);
        let mut receiving = Receiving { key, taken };
        let inner = receiving.open(envelope, datagram)?;
        self.parked.remove(&sender);
        self.heard.insert(sender.at);
        self.heard_hosts.insert(sender.at.ip());
        if let Some((gone, receiving)) = self.senders.insert(sender, receiving) {
            self.parked.insert(gone, receiving.taken.highest());
        }
        Ok(inner)
    }

    /// Returns true if a datagram of the queue pair at `peer` was ever opened.
    #[must_use]
    pub fn has_opened_from(&self, peer: SocketAddr) -> bool {
        self.heard.contains(&peer)
    }

    /// Returns true if a datagram of any queue pair at `host` was ever opened.
    #[must_use]
    pub fn has_opened_from_host(&self, host: IpAddr) -> bool {
        self.heard_hosts.contains(&host)
    }
}

impl Receiving {
    /// Opens a datagram. The window is checked first, because that is cheap, and changed last
    /// (SRD-11.6).
    fn open(&mut self, envelope: &Envelope, datagram: &mut [u8]) -> Result<Range<usize>, Refusal> {
        self.taken.check(envelope.counter)?;
        let inner = self.key.open(envelope, datagram).ok_or(Refusal::Tag)?;
        self.taken.take(envelope.counter);
        Ok(inner)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
