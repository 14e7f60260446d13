//! Datagrams without data (RESET, REFUSED, CHALLENGE) and ICMP errors.

use super::Endpoint;
use crate::context::Context;
use crate::send::SendHalf;
use crate::wire::control::{Challenge, Refused, parse_reset};
use crate::wire::{AckView, Flags, Header, Kind};
use crate::{Address, DropReason, Instant, Received};

impl Endpoint {
    /// Handles a datagram that carries neither data nor an acknowledgement.
    #[cold]
    pub(super) fn receive_control(
        &mut self,
        now: Instant,
        from: Address,
        kind: Kind,
        bytes: &[u8],
        datagram_len: usize,
    ) -> Result<Received, DropReason> {
        match kind {
            Kind::Reset => {
                let conn = parse_reset(bytes, datagram_len)?;
                self.with_connection(now, from, conn, datagram_len, |send, cx| {
                    send.on_reset(cx);
                    true
                })
            }
            Kind::Refused => {
                let Refused { conn, range } = Refused::parse(bytes, datagram_len)?;
                self.with_connection(now, from, conn, datagram_len, |send, cx| {
                    send.on_refused(&range, cx)
                })
            }
            Kind::Challenge => {
                let Challenge { conn, cookie } = Challenge::parse(bytes, datagram_len)?;
                self.with_connection(now, from, conn, datagram_len, |send, cx| {
                    send.on_challenge(cookie, cx)
                })
            }
            Kind::Srd | Kind::Frame | Kind::Ud => Err(DropReason::Kind),
        }
    }

    /// Calls `apply` with the connection toward `from` if `conn` is its token. Only a host that has
    /// read our datagrams knows that token.
    fn with_connection(
        &mut self,
        now: Instant,
        from: Address,
        conn: u64,
        datagram_len: usize,
        apply: impl FnOnce(&mut SendHalf, &mut Context<'_>) -> bool,
    ) -> Result<Received, DropReason> {
        let index = self.peers.find(from).ok_or(DropReason::UnknownConn)?;
        let peer =
            self.peers.by_index_mut(index).filter(|peer| conn != 0 && peer.send.conn() == conn);
        let Some(peer) = peer else { return Err(DropReason::UnknownConn) };
        if !apply(&mut peer.send, &mut self.shared.context(now, peer.id)) {
            return Err(DropReason::UnknownConn);
        }
        let id = peer.id;
        self.schedule_send(now, index);
        Ok(Received { peer: id, header_len: datagram_len, data: None, is_frame: false })
    }

    /// Finds the peer by the token in the quoted datagram and ends its messages (SRD-3.7).
    pub(super) fn unreachable(&mut self, now: Instant, bytes: &[u8]) {
        let Some((qpn, conn)) = quoted_conn(bytes, self.qpn) else { return };
        for index in 0..self.peers.end() {
            let Some(peer) = self.peers.by_index_mut(index) else { continue };
            if peer.addr.qpn == qpn && peer.send.conn() == conn {
                peer.send.on_unreachable(&mut self.shared.context(now, peer.id));
                return;
            }
        }
    }

    /// Ends the messages to an address that the host found to be gone (SRD-3.7).
    pub(super) fn unreachable_at(&mut self, now: Instant, addr: Address) {
        let Some(index) = self.peers.find(addr) else { return };
        if let Some(peer) = self.peers.by_index_mut(index).filter(|peer| peer.send.conn() != 0) {
            peer.send.on_unreachable(&mut self.shared.context(now, peer.id));
        }
    }
}

/// Returns the destination and the connection token of our datagram that an ICMP error quotes.
fn quoted_conn(bytes: &[u8], own_qpn: u16) -> Option<(u16, u64)> {
    let header = Header::parse(bytes).ok()?;
    if !matches!(header.kind, Kind::Srd | Kind::Frame) || header.src_qpn != own_qpn {
        return None;
    }
    let mut at = Header::LEN;
    if header.flags.has(Flags::HAS_ACK) {
        at += AckView::parse(bytes.get(at..)?).ok()?.len();
    }
    if !header.flags.has(Flags::HAS_DATA) {
        return None;
    }
    let conn: &[u8; 8] = bytes.get(at..)?.first_chunk()?;
    let conn = u64::from_be_bytes(*conn);
    (conn != 0).then_some((header.dst_qpn, conn))
}
