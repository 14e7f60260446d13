//! Unreliable datagrams of an EFA. They need no engine: one header, and a 40-byte routing header in
//! front of the payload.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use srd::wire::ud::UdRepr;
use srd::{Instant, PathId};

use super::{FLAG_IMM, imm_of};
use crate::UD_GRH_BYTES;
use crate::datagram::Datagram;
use crate::gid::Gid;
use crate::qp_state::QpState;
use crate::request::SendOp;
use crate::shell::{Shell, Side};
use crate::status::Status;
use crate::trace::TraceEvent;
use crate::wire::{MAX_PACKETS, Via};

/// A message for a posted receive.
const OP_SEND: u8 = 0;

/// The UD transport of a queue pair.
pub(super) struct UdSide {
    shell: Shell,
    /// The slots of the datagrams that wait for the next burst.
    queue: VecDeque<u32>,
    paths: u16,
}

impl UdSide {
    pub(super) fn new(shell: Shell, paths: u16) -> Self {
        Self { shell, queue: VecDeque::new(), paths }
    }

    fn push_ud(&mut self, index: u32) {
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        let to = slot.to;
        if !slot.is_readable(&mut self.shell.send_mrs) {
            // Deregistered between posting and this burst.
            slot.fault = Some(Status::LocalInvalidLkey);
            return;
        }
        let (flags, imm) = imm_of(slot.op);
        let path = PathId(self.shell.port % self.paths);
        let repr = UdRepr {
            path,
            src_qpn: self.shell.port,
            dst_qpn: to.port(),
            qkey: slot.qkey,
            imm,
            op: OP_SEND,
            flags,
            len: u16::try_from(slot.len).unwrap_or(u16::MAX),
        };
        let mut header = [0; UdRepr::LEN];
        repr.emit(&mut header);
        if self.shell.is_traced() {
            self.trace(TraceEvent::Transmit, to, &repr);
        }
        let pushed = self.shell.push_slot(to, Via::Path(path.0), &header, index);
        if pushed.is_err() {
            if let Some(slot) = self.shell.sq.get_mut(index) {
                slot.fault = Some(Status::LocalInvalidLkey);
            }
        }
    }

    /// Puts a datagram into the next posted receive; `None` if that is impossible.
    fn try_receive(&mut self, from: IpAddr, datagram: &Datagram<'_>) -> Option<()> {
        let up = !matches!(self.shell.attrs.state, QpState::Reset | QpState::Init | QpState::Error);
        let repr = UdRepr::parse(datagram.head, datagram.len()).ok()?;
        if !up
            || repr.dst_qpn != self.shell.port
            || repr.qkey != self.shell.attrs.qkey
            || repr.op != OP_SEND
        {
            return None;
        }
        if self.shell.is_traced() {
            self.trace(TraceEvent::Receive, SocketAddr::new(from, repr.src_qpn), &repr);
        }
        let payload = datagram.payload(UdRepr::LEN);
        let wqe = self.shell.next_receive()?;
        let len = UD_GRH_BYTES + payload.len();
        if len > wqe.capacity as usize {
            return None;
        }
        self.shell.rq.pop();
        let routing = routing_header(from, self.shell.device.addr(), payload.len());
        if wqe.fill(0, routing[..].into()).and_then(|()| wqe.fill(UD_GRH_BYTES, payload)).is_err() {
            self.shell.fail_recv(&wqe, Status::LocalInvalidLkey);
            return None;
        }
        let imm = (repr.flags & FLAG_IMM != 0).then_some(repr.imm);
        let src = SocketAddr::new(from, repr.src_qpn);
        self.shell.complete_recv(wqe.wr_id, &src.into(), len, imm, true);
        Some(())
    }

    /// Traces a datagram that is about to leave, or has arrived.
    #[cold]
    fn trace(&mut self, event: TraceEvent, peer: SocketAddr, repr: &UdRepr) {
        let UdRepr { path, len, .. } = *repr;
        let path = path.0;
        self.shell.write_trace(event, Some(peer), format_args!("op=UD_SEND path={path} len={len}"));
    }
}

impl Side for UdSide {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn set_qkey(&mut self, qkey: u32) {
        self.shell.attrs.qkey = qkey;
    }

    fn has_rdma(&self) -> bool {
        false
    }

    fn start(&mut self, _now: Instant, index: u32) {
        self.queue.push_back(index);
    }

    fn is_idle(&self, unpolled: u32, _op: SendOp) -> bool {
        // Datagrams are done as soon as they left: what is unpolled tells a stream.
        unpolled == 0
    }

    /// Datagrams without a receive are lost, so they are left in the kernel until the program has
    /// posted more.
    fn has_enough(&self) -> bool {
        self.shell.rq.len() < MAX_PACKETS
    }

    fn is_streaming(&self) -> bool {
        false
    }

    fn begin_turn(&mut self, _now: Instant) {}

    fn flush_acks(&mut self, _now: Instant) {}

    fn take(&mut self, _now: Instant, from: IpAddr, datagram: &Datagram<'_>) {
        if self.try_receive(from, datagram).is_none() {
            // For lack of a receive others would be lost, too.
            self.shell.useless += u64::from(self.shell.rq.len() > 0);
            self.shell.drop_datagram(from, &"nobody takes it");
        }
    }

    fn note_turn(&mut self, _has_received: bool) {}

    fn advance(&mut self, _now: Instant) {}

    /// Sends everything that waits. A datagram is done when the operating system has it.
    fn send_out(&mut self, now: Instant) {
        while !self.queue.is_empty() && !self.shell.is_blocked() {
            let burst = self.queue.len().min(MAX_PACKETS);
            for at in 0..burst {
                self.push_ud(self.queue[at]);
            }
            self.shell.send_batch(now);
            // Unreliable: what cannot leave is lost like any other.
            while self.shell.take_impossible().is_some() {}
            for _ in 0..burst {
                if let Some(index) = self.queue.pop_front() {
                    self.shell.finish_send(index, Status::Ok);
                }
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        None
    }

    fn cancel(&mut self, _now: Instant) {
        self.queue.clear();
    }

    fn abandon(&mut self) {
        self.queue.clear();
    }

    fn cancel_toward(&mut self, _now: Instant, addr: IpAddr) {
        let shell = &mut self.shell;
        self.queue.retain(|index| {
            let is_kept = shell.sq.get(*index).is_some_and(|slot| slot.to.ip() != addr);
            if !is_kept {
                shell.finish_send(*index, Status::Flushed);
            }
            is_kept
        });
    }

    fn begin_close(&mut self, _now: Instant) {}

    fn final_acks(&mut self, now: Instant) {
        self.transmit(now);
    }

    fn last_accepted(&self) -> Option<Instant> {
        None
    }

    fn retire(&mut self, _key: u32) {}

    fn sync_counters(&mut self) {}
}

/// Makes a global routing header in InfiniBand's layout: version and flow label, payload length,
/// next header 0x1b, hop limit, source and destination GID.
fn routing_header(from: IpAddr, to: IpAddr, payload_len: usize) -> [u8; UD_GRH_BYTES] {
    let mut header = [0; UD_GRH_BYTES];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&u16::try_from(payload_len).unwrap_or(u16::MAX).to_be_bytes());
    header[6] = 0x1b;
    header[7] = 0xff;
    header[8..24].copy_from_slice(&Gid::of_efa(from).0);
    header[24..].copy_from_slice(&Gid::of_efa(to).0);
    header
}
