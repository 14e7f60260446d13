//! The reliability context toward one remote endpoint: both directions, and what the endpoint
//! has to remember about it.

use crate::context::Context;
use crate::hint::{FairShare, ShareMark};
use crate::recv::RecvHalf;
use crate::send::SendHalf;
use crate::wire::{Flags, Header, Kind};
use crate::{Address, Config, HEADER_MAX, Instant, PathId, PeerId, Psn, Transmit};

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) addr: Address,
    pub(crate) send: SendHalf,
    pub(crate) recv: RecvHalf,
    /// It is in the endpoint's list of peers with something to transmit.
    pub(crate) is_ready: bool,
    /// It is in the endpoint's list of peers with a held acknowledgement.
    pub(crate) is_held: bool,
    /// Mark of the fair-share count.
    pub(crate) share_mark: ShareMark,
    /// Refusals that it has memory for, as the endpoint counted them last.
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

    /// The next datagram to this peer.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        src_qpn: u16,
        share: &FairShare,
        header: &mut [u8; HEADER_MAX],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let data = self.send.poll(cx);
        let wanted = if data.is_some() { self.recv.ack_wanted() } else { self.recv.ack_due() };
        if data.is_none() && !wanted {
            return None;
        }
        let path = match &data {
            Some(out) => out.path,
            None => PathId(self.recv.echo_path().0 % cx.config.paths.max(1)),
        };
        cx.stats.tx_datagrams += 1;
        cx.stats.tx_pure_acks += u64::from(data.is_none());
        let common = Header {
            kind: Kind::Srd,
            flags: data.map(|out| out.flags).unwrap_or_default().with_if(wanted, Flags::HAS_ACK),
            path,
            src_qpn,
            dst_qpn: self.addr.qpn,
        };
        let (start, rest) = header.split_at_mut(Header::LEN);
        common.emit(start);
        let mut len = 0;
        if wanted {
            len += self.recv.take_ack(cx.now, share.code(cx.config)).emit(rest);
        }
        if let Some(out) = &data {
            len += out.data.emit(&mut rest[len..]);
        }
        Some(Transmit {
            peer: Some(self.id),
            addr: self.addr,
            path,
            header_len: Header::LEN + len,
            msg: data.map(|out| out.msg),
            payload_len: data.map_or(0, |out| u32::from(out.data.len)),
            retransmission: data.is_some_and(|out| out.flags.has(Flags::RTX)),
        })
    }

    /// When this peer must be looked at again.
    pub(crate) fn deadline(&mut self, now: Instant, config: &Config) -> Option<Instant> {
        let send = self.send.deadline(now, config);
        [send, self.recv.ack_deadline()].into_iter().flatten().min()
    }

    /// Frees what an idle peer does not need. True when the peer can be forgotten (SRD-3.6).
    pub(crate) fn expire(&mut self, now: Instant, config: &Config) -> bool {
        let send_gone = self.send.expire(now, config);
        let recv_idle_ns = now.ns_since(self.recv.last_rx());
        if recv_idle_ns >= 1_000_000_000 {
            self.recv.shrink();
        }
        if self.recv.conn() != 0 && recv_idle_ns >= config.receiver_idle_ns {
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
