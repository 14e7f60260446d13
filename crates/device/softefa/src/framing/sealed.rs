//! Datagrams inside envelopes (docs/PROTOCOL.md, chapter 11).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use crate::numbering::GROUP_PORT;
use crate::seal::{
    ENVELOPE_BYTES, Envelope, Notice, Opener, Refusal, SealKey, Sealer, TAG_BYTES, datagram_len,
};

/// The most queue pairs with a quoted counter. An attacker who reads our datagrams can name any
/// queue pair in a notice.
const DOUBTS_MAX: usize = 1024;

/// The sealing and opening of the datagrams of one queue pair.
#[derive(Debug)]
pub(crate) struct Sealed {
    key: SealKey,
    sealer: Sealer,
    opener: Opener,
    /// The openers of multicast groups from which something arrived.
    of_groups: HashMap<IpAddr, Opener>,
    /// The queue pairs that could not open a datagram of ours, with the counter that each quoted
    /// first.
    doubts: HashMap<SocketAddr, u64>,
    /// The only queue pair whose datagrams are opened, if this queue pair is connected (RC-1.13).
    only: Option<SocketAddr>,
    /// The sealed datagrams contain RoCE packets.
    pub(super) has_packets: bool,
}

impl Sealed {
    /// Makes the state of the queue pair whose address and number are `local`; see [`Sealer::new`].
    pub(crate) fn new(key: &SealKey, local: SocketAddr, session: u64) -> Self {
        let (sealer, opener) = (Sealer::new(key, local, session), Opener::new(key, local));
        let (of_groups, doubts) = (HashMap::new(), HashMap::new());
        let (key, only) = (key.clone(), None);
        Self { key, sealer, opener, of_groups, doubts, only, has_packets: false }
    }

    /// Makes the queue pair seal and open RoCE packets.
    pub(crate) fn of_packets(self) -> Self {
        Self { opener: self.opener.of_packets(), has_packets: true, ..self }
    }

    /// Sets the only queue pair whose datagrams are opened from now on; `None` for all.
    pub(crate) fn listen_to(&mut self, peer: Option<SocketAddr>) {
        self.only = peer;
    }

    /// Seals the datagram for `to` that lies from `start` to the end of `bytes`, behind room for
    /// its envelope.
    #[inline(never)]
    pub(super) fn seal(&mut self, to: SocketAddr, bytes: &mut Vec<u8>, start: usize) {
        bytes.extend_from_slice(&[0; TAG_BYTES]);
        let sealed = self.sealer.seal(to, &mut bytes[start..]);
        // A failure must not send it in the clear, and the adapter makes no datagram of an invalid
        // length.
        sealed.expect("every datagram can be sealed");
    }

    /// Returns true if `received`, from the ring of the queue pair `from`, is a datagram without
    /// envelope that this queue pair may take.
    pub(super) fn is_clear(&self, from: SocketAddr, received: &[u8]) -> bool {
        let is_peer = self.only.is_none_or(|only| only == from);
        is_peer && !is_enveloped(received) && self.opener.is_between(from, received)
    }

    #[inline(never)]
    pub(super) fn open(
        &mut self,
        from: IpAddr,
        received: &mut [u8],
    ) -> Result<Range<usize>, Refusal> {
        if self.only.is_some() {
            let said = Envelope::parse(received).map(|of| SocketAddr::new(from, of.src_qpn));
            if said.is_some() && said != self.only {
                return Err(Refusal::OtherQueuePair);
            }
        }
        self.opener.open(from, received)
    }

    /// Opens, as [`Sealed::open`] does, a datagram from the socket `from` to a group of which this
    /// queue pair is a member.
    #[inline(never)]
    pub(super) fn open_in_group(
        &mut self,
        from: SocketAddr,
        group: IpAddr,
        received: &mut [u8],
    ) -> Result<Range<usize>, Refusal> {
        let key = &self.key;
        let opener = self
            .of_groups
            .entry(group)
            .or_insert_with(|| Opener::new(key, SocketAddr::new(group, GROUP_PORT)).of_packets());
        opener.open(from.ip(), received)
    }

    /// Returns the destination of our datagram that begins with `quote`; see
    /// [`Sealer::destination_of`].
    pub(crate) fn destination_of(&self, quote: &[u8], host: IpAddr) -> Option<SocketAddr> {
        self.sealer.destination_of(quote, host)
    }

    /// Returns true if a datagram was opened of the queue pair that `datagram`, from `from`, names
    /// as its sender.
    pub(crate) fn has_opened_from(&self, from: IpAddr, datagram: &[u8]) -> bool {
        Envelope::parse(datagram)
            .is_some_and(|of| self.opener.has_opened_from(SocketAddr::new(from, of.src_qpn)))
    }

    /// Returns true if a datagram was opened of any queue pair at `host`.
    pub(crate) fn has_opened_from_host(&self, host: IpAddr) -> bool {
        self.opener.has_opened_from_host(host)
    }

    /// Returns the queue pair that cannot open our datagrams, if `notice`, which came from `from`,
    /// is credible (SRD-11.10). One datagram may have been damaged on the way; two are a reason.
    pub(crate) fn refused_by(&mut self, notice: &Notice, from: IpAddr) -> Option<SocketAddr> {
        let to = self.sealer.refused_by(notice, from, &self.opener)?;
        let counter = Envelope::parse(&notice.quote)?.counter;
        if self.doubts.len() >= DOUBTS_MAX && !self.doubts.contains_key(&to) {
            self.doubts.clear();
        }
        let first = *self.doubts.entry(to).or_insert(counter);
        (first != counter).then_some(to)
    }
}

/// Returns true if the datagram is sealed.
pub(crate) fn is_enveloped(head: &[u8]) -> bool {
    Envelope::parse(head).is_some()
}

/// Returns the length of the datagram at the front of a train, if it is sealed or a notice.
#[inline(never)]
pub(super) fn first_len(train: &[u8]) -> Option<usize> {
    datagram_len(train)
}

/// Returns the number of bytes of `datagram` that are not payload, as far as this is visible
/// without the key.
pub(super) fn headers_len(datagram: &[u8]) -> usize {
    ENVELOPE_BYTES.min(datagram.len())
}
