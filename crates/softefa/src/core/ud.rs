//! Unreliable datagrams: no engine, one header, a 40-byte routing header in front of the payload.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use srd::wire::ud::UdRepr;
use srd::{Instant, PathId};

use super::send::imm_of;
use super::{Core, FLAG_IMM, OP_SEND};
use crate::UD_GRH_BYTES;
use crate::gid::Gid;
use crate::qp::{QpState, SendWr};
use crate::status::Status;
use crate::trace::TraceEvent;

/// A datagram that waits for the next burst.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queued {
    index: u32,
    to: SocketAddrV4,
    qkey: u32,
}

impl Core {
    pub(super) fn queue_ud(&mut self, index: u32, wr: &SendWr<'_>) {
        let to = SocketAddrV4::new(wr.ah.addr(), wr.remote_qpn);
        self.ud_queue.push_back(Queued { index, to, qkey: wr.remote_qkey });
    }

    /// Sends all that waits; a datagram is done when the operating system has it.
    pub(super) fn transmit_ud(&mut self, now: Instant) {
        while !self.ud_queue.is_empty() {
            let burst = self.ud_queue.len().min(crate::wire::MAX_PACKETS);
            for at in 0..burst {
                let queued = self.ud_queue[at];
                self.push_ud(&queued);
            }
            self.send_batch(now);
            for _ in 0..burst {
                if let Some(queued) = self.ud_queue.pop_front() {
                    self.finish_send(queued.index, Status::Ok);
                }
            }
        }
    }

    /// What waits to leave for `addr` completes as flushed.
    pub(super) fn flush_ud_toward(&mut self, addr: Ipv4Addr) {
        let queue = std::mem::take(&mut self.ud_queue);
        let (flushed, kept) = queue.into_iter().partition(|queued| *queued.to.ip() == addr);
        self.ud_queue = kept;
        let flushed: VecDeque<Queued> = flushed;
        for queued in flushed {
            self.finish_send(queued.index, Status::Flushed);
        }
    }

    fn push_ud(&mut self, queued: &Queued) {
        let Some(slot) = self.sq.get_mut(queued.index) else { return };
        if !slot.is_readable(&mut self.send_mrs) {
            // Deregistered between posting and this burst.
            slot.fault = Some(Status::LocalInvalidLkey);
            return;
        }
        let (flags, imm) = imm_of(slot.op);
        let path = PathId(self.qpn % self.paths.paths());
        let repr = UdRepr {
            path,
            src_qpn: self.qpn,
            dst_qpn: queued.to.port(),
            qkey: queued.qkey,
            imm,
            op: OP_SEND,
            flags,
            len: u16::try_from(slot.len).unwrap_or(u16::MAX),
        };
        let mut header = [0; UdRepr::LEN];
        repr.emit(&mut header);
        if self.trace.is_some() {
            self.trace_ud(TraceEvent::Transmit, queued.to, &repr);
        }
        let pushed = self.batch.push(queued.to, path.0, &header, self.sq.payload(queued.index));
        if pushed.is_err()
            && let Some(slot) = self.sq.get_mut(queued.index)
        {
            slot.fault = Some(Status::LocalInvalidLkey);
        }
    }

    /// Puts a datagram into the next posted receive, or drops it.
    pub(super) fn receive_ud(&mut self, from: Ipv4Addr, datagram: &[u8]) {
        if self.try_receive_ud(from, datagram).is_none() {
            self.drop_datagram(u64::from(u32::from(from)), "nobody takes it");
        }
    }

    fn try_receive_ud(&mut self, from: Ipv4Addr, datagram: &[u8]) -> Option<()> {
        let up = !matches!(self.attrs.state, QpState::Reset | QpState::Init | QpState::Error);
        let repr = UdRepr::parse(datagram, datagram.len()).ok()?;
        if !up || repr.dst_qpn != self.qpn || repr.qkey != self.attrs.qkey || repr.op != OP_SEND {
            return None;
        }
        if self.trace.is_some() {
            self.trace_ud(TraceEvent::Receive, SocketAddrV4::new(from, repr.src_qpn), &repr);
        }
        let payload = &datagram[UdRepr::LEN..];
        let wqe = self.next_receive()?;
        let len = UD_GRH_BYTES + payload.len();
        if len > wqe.capacity as usize {
            return None;
        }
        self.rq.pop();
        let routing = routing_header(from, self.device.addr(), payload.len());
        if wqe.fill(0, &routing).and_then(|()| wqe.fill(UD_GRH_BYTES, payload)).is_err() {
            self.fail_recv(&wqe, Status::LocalInvalidLkey);
            return None;
        }
        let imm = (repr.flags & FLAG_IMM != 0).then_some(repr.imm);
        let src = SocketAddrV4::new(from, repr.src_qpn);
        self.complete_recv(wqe.wr_id, src, len, imm, true);
        Some(())
    }
}

/// Global routing header as InfiniBand lays it out: version and flow label, payload length, next
/// header 0x1b, hop limit, source and destination GID.
fn routing_header(from: Ipv4Addr, to: Ipv4Addr, payload_len: usize) -> [u8; UD_GRH_BYTES] {
    let mut header = [0; UD_GRH_BYTES];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&u16::try_from(payload_len).unwrap_or(u16::MAX).to_be_bytes());
    header[6] = 0x1b;
    header[7] = 0xff;
    header[8..24].copy_from_slice(&Gid::from_addr(from).0);
    header[24..].copy_from_slice(&Gid::from_addr(to).0);
    header
}
