//! Sealed messages between processes that share a key (RC-1.14). Each socket seals and opens by
//! itself.

use std::net::{IpAddr, SocketAddr};

use softefa::seal::{
    ENVELOPE_BYTES, Envelope, NOTICE_BYTES, Notice, OVERHEAD_BYTES, Opener, Refusal, SealKey,
    Sealer, TAG_BYTES,
};

/// The sealing state of one socket.
#[derive(Debug)]
pub(super) struct Seals {
    sealer: Sealer,
    opener: Opener,
}

impl Seals {
    /// Creates the state for the socket at `local`; `session` is random (SRD-11.4).
    pub(super) fn new(key: &SealKey, local: SocketAddr, session: u64) -> Self {
        let opener = Opener::new(key, local).of_packets();
        Self { sealer: Sealer::new(key, local, session), opener }
    }

    /// Seals `packet`; `None` when that is not possible, and it must not leave.
    pub(super) fn seal(&mut self, to: SocketAddr, packet: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(packet.len() + OVERHEAD_BYTES);
        bytes.extend_from_slice(&[0; ENVELOPE_BYTES]);
        bytes.extend_from_slice(packet);
        bytes.extend_from_slice(&[0; TAG_BYTES]);
        self.sealer.seal(to, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Opens a datagram from `from`, which must be the address that it names, because answers go
    /// there.
    pub(super) fn open(&mut self, from: SocketAddr, came: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut bytes = came.to_vec();
        let inner = self.opener.open(from.ip(), &mut bytes)?;
        if Envelope::parse(came).is_none_or(|envelope| envelope.src_qpn != from.port()) {
            return Err(Refusal::Contradiction);
        }
        bytes.truncate(inner.end);
        bytes.drain(..inner.start);
        Ok(bytes)
    }

    /// Returns whether a datagram from `host` was opened before.
    pub(super) fn has_opened_from_host(&self, host: IpAddr) -> bool {
        self.opener.has_opened_from_host(host)
    }

    /// Returns whether the message that `quote` begins was sent from here to `peer` (SRD-11.8).
    pub(super) fn has_sent(&self, quote: &[u8], peer: SocketAddr) -> bool {
        self.sealer.destination_of(quote, peer.ip()) == Some(peer)
    }

    /// Returns whether a notice from `peer` is authentic.
    pub(super) fn is_refused_by(&self, notice: &Notice, peer: SocketAddr) -> bool {
        self.sealer.refused_by(notice, peer.ip(), &self.opener) == Some(peer)
    }
}

/// Returns the notice about a datagram that could not be opened, unless its sender would not
/// understand it. It is shorter than the datagram.
pub(super) fn notice_about(
    from: SocketAddr,
    to: SocketAddr,
    came: &[u8],
) -> Option<[u8; NOTICE_BYTES]> {
    Envelope::parse(came)?;
    let notice = Notice::about(came)?;
    let is_between = notice.dst_qpn() == from.port() && notice.src_qpn() == to.port();
    is_between.then(|| notice.emit())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const A: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 40_000);
    const B: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 7471);

    fn key(byte: u8) -> SealKey {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, [byte; 32]).unwrap();
        SealKey::read(&path).unwrap()
    }

    #[test]
    fn what_is_sealed_comes_out_once_and_at_its_receiver() {
        let (mut a, mut b) = (Seals::new(&key(1), A, 5), Seals::new(&key(1), B, 6));
        let packet = [7; 280];
        let sealed = a.seal(B, &packet).unwrap();
        assert_eq!(sealed.len(), 320);
        assert!(!sealed.windows(8).any(|part| part == [7; 8]), "nothing of it can be read");
        let elsewhere = SocketAddr::new(A.ip(), 40_001);
        assert_eq!(b.open(B, &sealed), Err(Refusal::Tag), "from another address");
        assert_eq!(b.open(A, &sealed).as_deref(), Ok(&packet[..]));
        assert_eq!(b.open(A, &sealed), Err(Refusal::Replayed));
        let second = a.seal(B, &packet).unwrap();
        assert_eq!(
            b.open(elsewhere, &second),
            Err(Refusal::Contradiction),
            "answers would go there"
        );
        assert!(b.has_opened_from_host(A.ip()));
        let stranger = Seals::new(&key(2), B, 6).open(A, &second);
        assert_eq!(stranger, Err(Refusal::Tag));
        assert_eq!(b.open(A, &packet), Err(Refusal::NotSealed));
    }

    #[test]
    fn a_notice_is_believed_about_what_was_sent() {
        let mut a = Seals::new(&key(1), A, 5);
        let sealed = a.seal(B, &[7; 280]).unwrap();
        let raw = notice_about(A, B, &sealed).unwrap();
        let notice = Notice::parse(&raw).unwrap();
        assert!(a.is_refused_by(&notice, B) && a.has_sent(&sealed, B));
        assert!(!a.is_refused_by(&notice, A) && !a.has_sent(&sealed, A));
        assert!(!Seals::new(&key(1), A, 6).is_refused_by(&notice, B), "another session");
        assert_eq!(notice_about(B, A, &sealed), None, "nobody else is told by way of us");
        assert_eq!(notice_about(A, B, &[0x10; 280]), None, "not sealed");
    }
}
