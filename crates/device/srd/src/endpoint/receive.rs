//! Handling of a received datagram.

use super::{Endpoint, make_ready};
use crate::recv::ListGrowth;
use crate::wire::{AckView, DataRepr, Datagram, Flags, Header, Kind};
use crate::{Address, Arrival, DropReason, Instant, PathId, PeerId, Psn, Received, Reject};

/// Refusals that an endpoint remembers, not counting those for the last peer (SRD-6.8).
const RANGES_MAX: usize = 65_536;

/// A new message between `handle_datagram` and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    pub(super) peer: PeerId,
    pub(super) psn: Psn,
    pub(super) bytes: u32,
    pub(super) final_try: bool,
    /// The message is the oldest one that its sender has not resolved.
    pub(super) is_oldest: bool,
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
        if let Some(left) = self.arrival.take() {
            // The host left it unanswered, but its datagram may have asked for an acknowledgement.
            self.schedule_ack(now, left.peer.index);
        }
        self.end_frame(now);
        let header = Header::parse(bytes)?;
        if header.dst_qpn != self.qpn {
            return Err(DropReason::WrongQpn);
        }
        let from = Address { host: from_host, qpn: header.src_qpn };
        if !matches!(header.kind, Kind::Srd | Kind::Frame) {
            return self.receive_control(now, from, header.kind, bytes, datagram_len);
        }
        let datagram = Datagram::parse(header, bytes, datagram_len)?;
        let index = self.sender_of(now, from, &datagram)?;
        let mut result = Ok(None);
        if let Some(ack) = &datagram.ack {
            result = self.receive_ack(now, index, ack).map(|()| None);
        }
        if let Some(data) = &datagram.data {
            let (flags, path) = (header.flags, header.path);
            result = if header.kind == Kind::Frame {
                let opened = self.open_frame(now, index, (flags, path), data, datagram.header_len);
                opened.map(|()| None)
            } else {
                self.receive_data(now, index, flags, path, data)
            };
        }
        let data = result?;
        #[expect(clippy::expect_used, reason = "sender_of() found or made it")]
        let peer = self.peers.by_index_mut(index).expect("the peer exists").id;
        let is_frame = header.kind == Kind::Frame;
        Ok(Received { peer, header_len: datagram.header_len, data, is_frame })
    }

    /// Returns the peer that a datagram comes from; a stranger is admitted when it opens a
    /// connection.
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
        self.admit(now, from, datagram.header.path, data)
    }

    fn receive_ack(
        &mut self,
        now: Instant,
        index: u32,
        ack: &AckView<'_>,
    ) -> Result<(), DropReason> {
        let Some(peer) = self.peers.by_index_mut(index) else { return Ok(()) };
        if ack.conn() != peer.send.conn() || ack.conn() == 0 {
            self.shared.stats.rx_stale_acks += 1;
            return Ok(());
        }
        peer.send.on_ack(ack, &mut self.shared.context(now, peer.id))?;
        // Most often everything is acknowledged, and nothing follows.
        if peer.send.has_work() || peer.send.is_waiting() {
            self.schedule_send(now, index);
        }
        Ok(())
    }

    /// Schedules what an acknowledgement allows: new transmissions, and a timeout that may now be
    /// earlier.
    pub(super) fn schedule_send(&mut self, now: Instant, index: u32) {
        let Some(peer) = self.peers.by_index_mut(index) else { return };
        if peer.send.has_work() {
            // The timer is set once everything that may leave has left.
            make_ready(&mut self.ready, peer);
        } else if peer.send.is_waiting() {
            self.arm(now, index);
        }
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
        let Some(peer) = self.peers.by_index_mut(index) else {
            return Err(DropReason::UnknownConn);
        };
        if peer.recv.conn() != data.conn || data.conn == 0 {
            let addr = peer.addr;
            self.admit(now, addr, path, data)?;
        }
        let Some(peer) = self.peers.by_index_mut(index) else {
            return Err(DropReason::UnknownConn);
        };
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
            is_oldest: data.oldest == 0,
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
                peer.recv.hold_ack(now.plus_ns(self.shared.config.ack_hold_ns));
                stats.rx_accepted += 1;
                stats.rx_accepted_bytes +=
                    u64::from(arrival.bytes - self.shared.config.overhead_bytes);
            }
            Some(why) => self.refuse(id.index, &arrival, why),
        }
        if self.frame.is_none() {
            self.schedule_ack(now, id.index);
        }
    }

    /// Refuses the message for the host. Beyond the limits it is left unanswered (SRD-6.8).
    #[cold]
    fn refuse(&mut self, index: u32, arrival: &Unanswered, why: Reject) {
        let growth = match arrival {
            Unanswered { is_oldest: true, .. } => ListGrowth::Forced,
            _ if self.ranges < RANGES_MAX => ListGrowth::Limited,
            _ => ListGrowth::Allocated,
        };
        let Some(peer) = self.peers.by_index_mut(index) else { return };
        let stats = &mut self.shared.stats;
        if !peer.recv.reject(arrival.psn, why, arrival.final_try, growth) {
            stats.rx_unanswered += 1;
        } else if why == Reject::Rnr {
            stats.rx_rnr += 1;
        } else {
            stats.rx_rejected += 1;
        }
        self.count_ranges(index);
    }

    /// Brings the endpoint's count of remembered refusals up to date with a peer.
    pub(super) fn count_ranges(&mut self, index: u32) {
        let Some(peer) = self.peers.by_index_mut(index) else { return };
        let capacity = peer.recv.ranges_capacity();
        self.ranges = self.ranges - peer.ranges_counted + capacity;
        peer.ranges_counted = capacity;
    }

    /// Ensures that a wanted acknowledgement leaves in time and with the right hint.
    #[inline]
    pub(super) fn schedule_ack(&mut self, now: Instant, index: u32) {
        let Some(peer) = self.peers.by_index_mut(index) else { return };
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
}
