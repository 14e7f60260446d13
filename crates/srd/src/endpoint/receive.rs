//! What a received datagram does.

use super::{Endpoint, make_ready};
use crate::wire::{AckView, DataRepr, Datagram, Flags, Header, Kind, control};
use crate::{Address, Arrival, DropReason, Instant, PathId, PeerId, Psn, Received, Reject};

/// A new message between `handle_datagram` and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    peer: PeerId,
    psn: Psn,
    bytes: u32,
    final_try: bool,
}

impl Endpoint {
    #[inline]
    pub(super) fn receive(
        &mut self,
        now: Instant,
        from_host: u64,
        bytes: &[u8],
        datagram_len: usize,
    ) -> Result<Received, DropReason> {
        self.arrival = None;
        let header = Header::parse(bytes)?;
        if header.dst_qpn != self.qpn {
            return Err(DropReason::WrongQpn);
        }
        let from = Address { host: from_host, qpn: header.src_qpn };
        match header.kind {
            Kind::Ud => return Err(DropReason::Kind),
            Kind::Reset => return self.receive_reset(now, from, bytes, datagram_len),
            Kind::Srd => {}
        }
        let datagram = Datagram::parse(header, bytes, datagram_len)?;
        let index = self.sender_of(now, from, &datagram)?;
        let mut result = Ok(None);
        if let Some(ack) = &datagram.ack {
            result = self.receive_ack(now, index, ack).map(|()| None);
        }
        if let Some(data) = &datagram.data {
            result = self.receive_data(now, index, header.flags, header.path, data);
        }
        let data = result?;
        #[expect(clippy::expect_used, reason = "sender_of() found or made it")]
        let peer = self.peers.at(index).expect("the peer exists").id;
        Ok(Received { peer, header_len: datagram.header_len, data })
    }

    /// The peer a datagram comes from; a stranger is let in when it opens a connection.
    #[inline]
    fn sender_of(
        &mut self,
        now: Instant,
        from: Address,
        datagram: &Datagram<'_>,
    ) -> Result<u32, DropReason> {
        if let Some(index) = self.peers.find(from) {
            return Ok(index);
        }
        let Some(data) = &datagram.data else { return Err(DropReason::UnknownConn) };
        if data.epoch.is_none() {
            self.resets.ask(now, from, data.conn, datagram.header.path);
            return Err(DropReason::UnknownConn);
        }
        if self.peers.len() >= self.shared.config.peers_max {
            return Err(DropReason::UnknownConn);
        }
        Ok(self.find_or_make(now, from))
    }

    fn receive_ack(
        &mut self,
        now: Instant,
        index: u32,
        ack: &AckView<'_>,
    ) -> Result<(), DropReason> {
        let Some(peer) = self.peers.at(index) else { return Ok(()) };
        if ack.conn() != peer.send.conn() || ack.conn() == 0 {
            self.shared.stats.rx_stale_acks += 1;
            return Ok(());
        }
        peer.send.on_ack(ack, &mut self.shared.context(now, peer.id))?;
        if peer.send.has_work() {
            make_ready(&mut self.ready, peer);
        }
        if peer.send.is_paused() {
            self.arm(now, index);
        }
        Ok(())
    }

    #[inline]
    fn receive_data(
        &mut self,
        now: Instant,
        index: u32,
        flags: Flags,
        path: PathId,
        data: &DataRepr,
    ) -> Result<Option<Arrival>, DropReason> {
        let Some(peer) = self.peers.at(index) else { return Err(DropReason::UnknownConn) };
        if let Err(reason) = peer.recv.admit(data) {
            if reason == DropReason::UnknownConn {
                let addr = peer.addr;
                self.resets.ask(now, addr, data.conn, path);
            }
            return Err(reason);
        }
        let config = &self.shared.config;
        let is_new = peer.recv.on_data(now, data, flags, path, config)?;
        if !is_new {
            self.shared.stats.rx_duplicates += 1;
            self.schedule_ack(now, index);
            return Ok(None);
        }
        let peer = peer.id;
        self.arrival = Some(Unanswered {
            peer,
            psn: data.psn,
            bytes: u32::from(data.len) + config.overhead_bytes,
            final_try: flags.has(Flags::FINAL_TRY),
        });
        if self.closing {
            self.answer(now, peer, data.psn, Some(Reject::BadDestQpn));
            return Ok(None);
        }
        Ok(Some(Arrival {
            peer,
            psn: data.psn,
            op: data.op,
            flags: data.flags,
            qkey: data.qkey,
            imm: data.imm,
            len: u32::from(data.len),
        }))
    }

    /// Records the host's answer to the latest new message.
    #[inline]
    pub(super) fn answer(&mut self, now: Instant, id: PeerId, psn: Psn, refuse: Option<Reject>) {
        let Some(arrival) = self.arrival.take() else { return };
        if arrival.peer != id || arrival.psn != psn {
            return;
        }
        let Some(peer) = self.peers.get_mut(id) else { return };
        let stats = &mut self.shared.stats;
        match refuse {
            None => {
                stats.rx_order.note(peer.recv.accept(psn, arrival.bytes));
                stats.rx_accepted += 1;
                stats.rx_accepted_bytes +=
                    u64::from(arrival.bytes - self.shared.config.overhead_bytes);
            }
            Some(why) => {
                peer.recv.reject(psn, why, arrival.final_try);
                if why == Reject::Rnr {
                    stats.rx_rnr += 1;
                } else {
                    stats.rx_rejected += 1;
                }
            }
        }
        self.schedule_ack(now, id.index);
    }

    /// Sees to it that a wanted acknowledgement leaves in time, with the right hint.
    #[inline]
    fn schedule_ack(&mut self, now: Instant, index: u32) {
        let Some(peer) = self.peers.at(index) else { return };
        let owes_more = peer.recv.expects_more();
        self.share.note(now, &mut peer.share_mark, owes_more, &self.shared.config);
        if peer.recv.ack_due() {
            make_ready(&mut self.ready, peer);
        } else if let Some(at) = peer.recv.ack_deadline() {
            if !peer.is_held {
                peer.is_held = true;
                self.held.push(index);
            }
            self.timers.arm(index, at.max(now));
        }
    }

    fn receive_reset(
        &mut self,
        now: Instant,
        from: Address,
        bytes: &[u8],
        datagram_len: usize,
    ) -> Result<Received, DropReason> {
        let conn = control::parse_reset(bytes, datagram_len)?;
        let index = self.peers.find(from).ok_or(DropReason::UnknownConn)?;
        let peer = self.peers.at(index).filter(|peer| conn != 0 && peer.send.conn() == conn);
        let Some(peer) = peer else { return Err(DropReason::UnknownConn) };
        peer.send.on_reset(&mut self.shared.context(now, peer.id));
        if peer.send.has_work() {
            make_ready(&mut self.ready, peer);
        }
        Ok(Received { peer: peer.id, header_len: datagram_len, data: None })
    }

    /// Finds the peer by the token inside a quoted datagram and ends its messages (SRD-3.7).
    pub(super) fn unreachable(&mut self, now: Instant, bytes: &[u8]) {
        let Some((qpn, conn)) = quoted_conn(bytes, self.qpn) else { return };
        for index in 0..self.peers.end() {
            let Some(peer) = self.peers.at(index) else { continue };
            if peer.addr.qpn == qpn && peer.send.conn() == conn {
                peer.send.on_unreachable(&mut self.shared.context(now, peer.id));
                return;
            }
        }
    }
}

/// Destination and data token of a datagram of ours, as an ICMP message quotes it.
fn quoted_conn(bytes: &[u8], own_qpn: u16) -> Option<(u16, u64)> {
    let header = Header::parse(bytes).ok()?;
    if header.kind != Kind::Srd || header.src_qpn != own_qpn {
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
