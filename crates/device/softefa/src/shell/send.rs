//! Sends from posting to completion, and bursts to the wire.

use std::net::SocketAddr;

use srd::Instant;

use super::Shell;
use crate::completion::CompletionOp;
use crate::config::Adapter;
use crate::memory::{Gone, Piece};
use crate::qp_state::QpKind;
use crate::request::{SendData, SendOp, SendWr};
use crate::sq::{Ended, SendSlot};
use crate::status::Status;
use crate::wire::{Batch, Impossible, Via};

/// The number of posted messages, not yet offered to the wire, from which on a post transmits by
/// itself.
const UNSENT_MESSAGES: u32 = 64;
/// The number for a connection through memory, and the least through the kernel, where a call costs
/// as much as twenty posts. Its window is 128 packets: a quarter of them is in flight, one is being
/// received and one acknowledged while the program posts the last one.
const UNSENT_MESSAGES_OF_CONNECTION: u32 = 32;
/// The number for SRD through the kernel, with a queue twice as deep: several messages share a
/// datagram, and the other half is in flight meanwhile.
const UNSENT_MESSAGES_OF_KERNEL: u32 = 128;
const UNSENT_BYTES: u32 = 56 << 10;
/// A message with a completion behind so many without ends a burst: the program waits for it.
const UNSIGNALED_MESSAGES: u32 = 32;

/// The number of unsent messages from which on a queue transmits by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnsentMax {
    memory: u32,
    kernel: u32,
    /// The bound for the way that the last messages took.
    now: u32,
}

impl UnsentMax {
    /// Makes the bounds for a queue of this kind and depth.
    pub(super) fn new(kind: QpKind, sq_depth: u32) -> Self {
        let (memory, kernel) = match kind {
            QpKind::Srd => {
                let of_kernel = (sq_depth / 2).clamp(UNSENT_MESSAGES, UNSENT_MESSAGES_OF_KERNEL);
                (UNSENT_MESSAGES, of_kernel)
            }
            QpKind::Ud => (UNSENT_MESSAGES, UNSENT_MESSAGES),
            QpKind::Rc | QpKind::Uc | QpKind::XrcInitiator | QpKind::XrcTarget => {
                let of_kernel =
                    (sq_depth / 2).clamp(UNSENT_MESSAGES_OF_CONNECTION, UNSENT_MESSAGES);
                (UNSENT_MESSAGES_OF_CONNECTION, of_kernel)
            }
        };
        Self { memory, kernel, now: memory }
    }
}

/// Returns true if the posts fill a burst.
pub(super) fn is_burst(shell: &Shell) -> bool {
    shell.unsent_messages >= shell.unsent_max.now
        || shell.unsent_bytes >= UNSENT_BYTES
        || shell.ends_row
}

impl Shell {
    /// Returns the reason why a transport of datagrams cannot do a send of `len` bytes. `has_rdma`
    /// says whether the transport has READs and WRITEs.
    pub(crate) fn check_send(
        &mut self,
        wr: &SendWr<'_>,
        len: u32,
        has_rdma: bool,
    ) -> Option<Status> {
        if self.deal_internal_error(|| wr.target.map(|to| to.ah.addr())) {
            return Some(Status::LocalQpInternalError);
        }
        let attr = self.device.attr();
        let (possible, max_bytes) = match wr.op {
            SendOp::Send | SendOp::SendImm(_) => (true, attr.max_msg_bytes),
            SendOp::SendInvalidate(_)
            | SendOp::AtomicWrite(_)
            | SendOp::Flush(..)
            | SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::LocalInvalidate(_)
            | SendOp::BindWindow(_) => (false, 0),
            SendOp::Read(_) => (attr.caps.rdma_read && has_rdma, attr.max_rdma_bytes),
            SendOp::Write(_) | SendOp::WriteImm(..) => {
                (attr.caps.rdma_write && has_rdma, attr.max_rdma_bytes)
            }
        };
        if !possible {
            return Some(Status::LocalUnsupportedOp);
        }
        if !wr.target.is_some_and(|to| to.ah.serves(self.pd)) {
            return Some(Status::LocalInvalidAh);
        }
        if len > max_bytes {
            return Some(Status::LocalBadLength);
        }
        let is_read = matches!(wr.op, SendOp::Read(_));
        let SendData::Sges(sges) = wr.data else {
            return is_read.then_some(Status::LocalUnsupportedOp);
        };
        if wr.op.is_rdma() && sges.len() > 1 {
            return Some(Status::LocalUnsupportedOp);
        }
        let allowed = sges.iter().all(|sge| sge.len == 0 || self.send_mrs.allows(sge, is_read));
        (!allowed).then_some(Status::LocalInvalidLkey)
    }

    /// Stores a send until its end; `None` if the queue is full.
    pub(crate) fn insert(&mut self, wr: &SendWr<'_>, signaled: bool, len: u32) -> Option<u32> {
        let index = self.sq.insert(wr, signaled, len)?;
        self.unsent_messages += 1;
        if signaled {
            self.ends_row |= self.unsignaled >= UNSIGNALED_MESSAGES;
            self.unsignaled = 0;
        } else {
            self.unsignaled = self.unsignaled.saturating_add(1);
        }
        self.unsent_bytes = self.unsent_bytes.saturating_add(len);
        if !wr.op.is_rdma() {
            self.sends.count += 1;
            self.sends.bytes += u64::from(len);
        }
        Some(index)
    }

    /// Notes a post that begins to wait at the time that `now` returns.
    #[inline]
    pub(crate) fn note_post(&mut self, now: impl FnOnce() -> Instant) {
        self.holding.note_post(now, self.unpolled.taken());
    }

    /// Notes a post that leaves at once.
    #[inline]
    pub(crate) fn note_sent_post(&mut self, now: Instant) {
        self.update_faults(now);
        self.holding.note_sent(now, self.unpolled.taken());
    }

    /// Notes that the post of [`Shell::note_sent_post`] has left at the time that `now` returns.
    #[inline]
    pub(crate) fn note_left(&mut self, now: impl FnOnce() -> Instant) {
        self.holding.note_left(now);
    }

    /// Returns true if a post may wait for more posts, or for a poll.
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        self.holding.may_wait()
    }

    /// Notes that all posts are offered to the wire.
    pub(super) fn begin_transmitting(&mut self) {
        (self.unsent_messages, self.unsent_bytes, self.ends_row) = (0, 0, false);
    }

    /// Returns how a datagram to `to` leaves that would leave by `via`. A device with a key does
    /// not seal datagrams through a ring whose reader has proved that it has the key, too
    /// (SRD-12.9).
    #[inline]
    fn as_sealed(&mut self, to: SocketAddr, via: Via) -> Via {
        if self.framing.sealed().is_none() { via } else { self.as_sealed_for(to, via) }
    }

    fn as_sealed_for(&mut self, to: SocketAddr, via: Via) -> Via {
        let path = match via {
            Via::Path(path) | Via::Stream(path) | Via::Acknowledgement(path) => path,
            Via::Memory(_) => return via,
            Via::Patient(_) | Via::Kernel(_) | Via::Behind(_) | Via::OwnSocket => {
                // What follows it must not overtake it.
                self.unsealed = Some((to, false));
                return via;
            }
        };
        let known = self.unsealed.filter(|(known, _)| !self.batch.is_empty() && *known == to);
        let (_, is_unsealed) = known.unwrap_or_else(|| (to, self.has_ring_for_burst(to, via)));
        self.unsealed = Some((to, is_unsealed));
        if is_unsealed { Via::Memory(path) } else { via }
    }

    /// Adds a datagram to the batch; see [`Batch::push`].
    #[inline]
    pub(crate) fn push(
        &mut self,
        to: SocketAddr,
        via: Via,
        header: &[u8],
        payload: impl Iterator<Item = Piece> + Clone,
    ) -> Result<usize, Gone> {
        let via = self.as_sealed(to, via);
        self.batch.push(&mut self.framing, to, via, header, payload)
    }

    /// Adds a datagram as [`Shell::push`] does, with the payload of the work request in slot
    /// `index`.
    #[inline]
    pub(crate) fn push_slot(
        &mut self,
        to: SocketAddr,
        via: Via,
        header: &[u8],
        index: u32,
    ) -> Result<usize, Gone> {
        let via = self.as_sealed(to, via);
        self.batch.push(&mut self.framing, to, via, header, self.sq.payload(index))
    }

    /// Adds a datagram as [`Shell::push_slot`] does, with a part of the payload.
    #[inline]
    pub(crate) fn push_part(
        &mut self,
        to: SocketAddr,
        via: Via,
        header: &[u8],
        index: u32,
        (offset, len): (u32, u32),
    ) -> Result<usize, Gone> {
        let via = self.as_sealed(to, via);
        self.batch.push(&mut self.framing, to, via, header, self.sq.part(index, offset, len))
    }

    /// Adds a datagram as [`Shell::push`] does, whose payload is one piece; see
    /// [`Batch::push_plain`].
    #[inline]
    pub(crate) fn push_plain<const N: usize>(
        &mut self,
        to: &SocketAddr,
        via: Via,
        header: &[u8; N],
        payload: Piece,
    ) -> Result<usize, Gone> {
        self.batch.push_plain(&mut self.framing, to, via, header, payload)
    }

    /// Returns the batch.
    #[inline]
    pub(crate) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Returns the next datagram of the last batch that can never be sent.
    pub(crate) fn take_impossible(&mut self) -> Option<Impossible> {
        self.batch.take_impossible()
    }

    /// Returns true if the network has no room, so that datagrams wait for a later turn.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.wire.is_blocked()
    }

    /// Sends and empties the batch. Returns true if the kernel has none of it, and will not get it
    /// later.
    pub(crate) fn send_batch(&mut self, now: Instant) -> bool {
        let sent = self.wire.send(now, &mut self.batch);
        assert!(self.batch.is_empty(), "a wire sends or drops the whole batch");
        self.count_sent(&sent);
        self.pace.note_sent(sent.bytes);
        if sent.pkts > 0 {
            let max = &mut self.unsent_max;
            max.now = if sent.memory_pkts == 0 { max.kernel } else { max.memory };
        }
        sent.memory_pkts == sent.pkts && sent.blocked == 0 && sent.held == 0
    }

    /// Completes the send in slot `index`, with its own error if it has one.
    #[inline]
    pub(crate) fn finish_send(&mut self, index: u32, status: Status) {
        if let Some(ended) = self.sq.complete(index) {
            // Who refuses GONE has not got what was asked for, and cannot get it any more.
            let is_lost = ended.is_gone && status == Status::RemoteBadStatus;
            let status = if is_lost { Status::LocalInvalidLkey } else { status };
            self.complete_send(ended, ended.fault.unwrap_or(status));
        }
    }

    #[inline]
    pub(crate) fn complete_send(&mut self, ended: Ended, status: Status) {
        let Ended { wr_id, op, len, signaled, .. } = ended;
        if status != Status::Ok {
            self.count_failed(op);
        }
        if !signaled && status == Status::Ok {
            self.unpolled.take_back();
            return;
        }
        let (op, byte_len) = self.completion_of(op, len, status);
        self.sends_done.push(self.blank_send);
        if let Some(done) = self.sends_done.last_mut() {
            (done.wr_id, done.status, done.op, done.byte_len) = (wr_id, status, op, byte_len);
        }
    }

    /// Returns the operation of a completion, and the number of bytes that it brought.
    #[inline]
    fn completion_of(&self, op: SendOp, len: u32, status: Status) -> (CompletionOp, u32) {
        let brought = if status == Status::Ok { len } else { 0 };
        match op {
            SendOp::Write(_) | SendOp::WriteImm(..) => (CompletionOp::Write, 0),
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_) => {
                (CompletionOp::Send, 0)
            }
            SendOp::Read(_) if self.device.adapter() == Adapter::Efa => (CompletionOp::Send, 0),
            SendOp::Read(_) => (CompletionOp::Read, brought),
            SendOp::AtomicWrite(_) => (CompletionOp::AtomicWrite, 0),
            SendOp::Flush(..) => (CompletionOp::Flush, 0),
            SendOp::CompareSwap { .. } => (CompletionOp::CompareSwap, brought),
            SendOp::FetchAdd { .. } => (CompletionOp::FetchAdd, brought),
            SendOp::LocalInvalidate(_) => (CompletionOp::LocalInvalidate, 0),
            SendOp::BindWindow(_) => (CompletionOp::BindWindow, 0),
        }
    }

    /// Completes everything that was posted: sends with `status`, receives as flushed.
    pub(crate) fn end_all(&mut self, status: Status) {
        for ended in self.sq.drain() {
            self.complete_send(ended, status);
        }
        while let Some(wqe) = self.rq.pop() {
            self.fail_recv(&wqe, Status::Flushed);
        }
    }

    /// Forgets all posted work requests and all completions.
    pub(crate) fn forget_all(&mut self) {
        self.sq.drain();
        while self.rq.pop().is_some() {}
        self.sends_done.clear();
        self.recvs_done.clear();
        if let Some(named) = &mut self.named {
            named.forget();
        }
    }

    /// Returns true if a send or a WRITE has not ended yet, or not left.
    pub(crate) fn owes_data(&self) -> bool {
        let is_owed = |slot: &SendSlot| slot.fault.is_none() && !matches!(slot.op, SendOp::Read(_));
        self.is_blocked() || self.sq.iter().any(is_owed)
    }
}
