//! The reliability context toward one remote endpoint: both directions, and its place in the lists
//! of the endpoint.

use crate::context::Context;
use crate::hint::{FairShare, ShareMark};
use crate::recv::{AckExtras, RecvHalf};
use crate::send::SendHalf;
use crate::wire::ack::TAKES_FRAMES;
use crate::wire::{Flags, Header, Kind};
use crate::{Address, Config, HEADER_MAX, Instant, PathId, PeerId, Psn, Transmit};

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) addr: Address,
    pub(crate) send: SendHalf,
    pub(crate) recv: RecvHalf,
    /// The peer is in the endpoint's list of peers with something to transmit.
    pub(crate) is_ready: bool,
    /// The peer is in the endpoint's list of peers with a held acknowledgement.
    pub(crate) is_held: bool,
    /// The peer's state in the fair-share count.
    pub(crate) share_mark: ShareMark,
    /// Refusals that the peer has memory for, as the endpoint last counted them.
    pub(crate) ranges_counted: usize,
    pub(crate) created: Instant,
}

impl Peer {
    pub(crate) fn new(id: PeerId, addr: Address, now: Instant, config: &Config, psn: Psn) -> Self {
        Self {
            id,
            addr,
            send: SendHalf::new(config, psn),
            recv: RecvHalf::new(),
            is_ready: false,
            is_held: false,
            share_mark: ShareMark::default(),
            ranges_counted: 0,
            created: now,
        }
    }

    /// Returns the next datagram to this peer.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        src_qpn: u16,
        share: &FairShare,
        header: &mut [u8; HEADER_MAX],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let next = self.send.choose(cx);
        let wanted = if next.is_some() { self.recv.ack_wanted() } else { self.recv.ack_due() };
        if next.is_none() && !wanted {
            return None;
        }
        let mut header_len = Header::LEN;
        if wanted {
            let out = &mut header[Header::LEN..];
            let features = if cx.has_frames { TAKES_FRAMES } else { 0 };
            let extras = AckExtras { hint: share.code(cx.config), features };
            header_len += self.recv.write_ack(cx.now, extras, out);
        }
        let mut flags = Flags::default();
        let mut transmit = Transmit {
            peer: Some(self.id),
            addr: self.addr,
            path: PathId(0),
            header_len,
            msg: None,
            payload_len: 0,
            framed: 0,
            retransmission: false,
        };
        if let Some(next) = next {
            let out = self.send.transmit(next, &mut header[header_len..], cx);
            flags = out.flags;
            transmit.header_len += out.len;
            transmit.path = out.path;
            transmit.msg = Some(out.msg);
            transmit.payload_len = out.payload_len;
            transmit.framed = out.framed;
            transmit.retransmission = out.flags.has(Flags::RTX);
        } else {
            transmit.path = PathId(self.recv.echo_path().0 % cx.config.paths.max(1));
            cx.stats.tx_pure_acks += 1;
        }
        cx.stats.tx_datagrams += 1;
        let flags = flags.with_if(wanted, Flags::HAS_ACK);
        let (path, dst_qpn) = (transmit.path, self.addr.qpn);
        let kind = if transmit.framed > 0 { Kind::Frame } else { Kind::Srd };
        Header { kind, flags, path, src_qpn, dst_qpn }.emit(header);
        Some(transmit)
    }

    /// Returns a lower bound of [`Peer::deadline`], which is cheaper to compute.
    #[inline]
    pub(crate) fn earliest_deadline(&self, config: &Config) -> Instant {
        let at = self.recv.ack_deadline().unwrap_or(Instant::FAR);
        at.min(self.send.earliest_deadline(config))
    }

    /// Returns when this peer needs attention next.
    pub(crate) fn deadline(&mut self, now: Instant, config: &Config) -> Option<Instant> {
        let at = self.recv.ack_deadline().unwrap_or(Instant::FAR);
        let at = at.min(self.send.deadline(now, config));
        (at < Instant::FAR).then_some(at)
    }

    /// Frees what an idle peer does not need. True when the peer can be forgotten (SRD-3.6). Its
    /// datagrams may have waited unread until `awake_since`, while the host stood still.
    pub(crate) fn expire(&mut self, now: Instant, awake_since: Instant, config: &Config) -> bool {
        let send_gone = self.send.expire(now, config);
        let recv_idle_ns = now.ns_since(self.recv.last_rx());
        if recv_idle_ns >= 1_000_000_000 {
            self.recv.shrink();
        }
        // After a standstill, owed acknowledgements leave first.
        let is_owed = self.recv.ack_wanted();
        let is_idle = recv_idle_ns.min(now.ns_since(awake_since)) >= config.receiver_idle_ns;
        if self.recv.conn() != 0 && is_idle && !is_owed {
            self.recv = RecvHalf::new();
        }
        let listed = self.is_ready || self.is_held;
        let old = now.ns_since(self.created) >= config.sender_idle_ns;
        send_gone && self.recv.conn() == 0 && old && !listed
    }

    /// Bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.send.heap_bytes() + self.recv.heap_bytes()
    }
}
