//! Unreliable datagrams of RoCE v2. They need no engine: each is one packet, with a 40-byte routing
//! header in front of the payload.

use std::collections::VecDeque;
use std::net::IpAddr;

use rc::ud::{self, GROUP_QPN, Receiver, Sender as Numbers};
use rc::wire::{DEFAULT_PKEY, grh};
use rc::{HEADER_MAX, Mtu, Psn};
use srd::Instant;

use crate::UD_GRH_BYTES;
use crate::address::to_v6;
use crate::async_event::AsyncEventKind;
use crate::completion::Sender;
use crate::counters::Counter;
use crate::datagram::Datagram;
use crate::lint::{Pitfall, lint};
use crate::memory::Gone;
use crate::qp_state::QpState;
use crate::request::{SendOp, SendWr};
use crate::rq::{NoReceive, RecvWqe};
use crate::shell::{Shell, Side};
use crate::status::Status;
use crate::trace::TraceEvent;
use crate::wire::{MAX_PACKETS, Via};

/// A work request whose queue key has this bit uses that of its queue pair.
const OWN_QKEY: u32 = 1 << 31;
/// The service level of received packets with a UDP header over IPv4 (mlx5's reference manual). UCX
/// drops datagrams of the other kind.
const SL_IPV4: u8 = 0b1010;
/// The same over IPv6.
const SL_IPV6: u8 = 0b1001;
/// The length of the UDP header in front of a packet.
const UDP_BYTES: usize = 8;
/// The hop limit that other hosts of a Linux network use.
const HOP_LIMIT: u8 = 64;

/// The UD transport of a queue pair of a RoCE device.
pub(super) struct RoceUdSide {
    shell: Shell,
    /// The slots of the datagrams that wait for the next burst.
    queue: VecDeque<u32>,
    numbers: Numbers,
    mtu: Mtu,
    path: u16,
}

impl RoceUdSide {
    pub(super) fn new(shell: Shell, path: u16) -> Self {
        let mtu = match shell.device.attr().packet_max_bytes() {
            4096.. => Mtu::B4096,
            2048.. => Mtu::B2048,
            1024.. => Mtu::B1024,
            512.. => Mtu::B512,
            _ => Mtu::B256,
        };
        let numbers = Numbers::new(shell.qpn, DEFAULT_PKEY, mtu, Psn::new(0));
        Self { shell, queue: VecDeque::new(), numbers, mtu, path }
    }

    /// Adds the datagram in slot `index` to the burst. One that cannot be sent stops the send
    /// queue.
    fn push(&mut self, index: u32) {
        let (own_qkey, state) = (self.shell.attrs.qkey, self.shell.attrs.state);
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        if matches!(state, QpState::SendQueueError | QpState::Error) {
            slot.fault = Some(Status::Flushed);
            return;
        }
        if slot.fault.is_some() || !slot.is_readable(&mut self.shell.send_mrs) {
            // Deregistered between posting and this burst.
            slot.fault.get_or_insert(Status::LocalInvalidLkey);
            self.stop();
            return;
        }
        let imm = if let SendOp::SendImm(imm) = slot.op { Some(imm) } else { None };
        let qkey = if slot.qkey & OWN_QKEY == 0 { slot.qkey } else { own_qkey };
        let (dest_qpn, len, is_solicited) = (slot.dest_qpn, slot.len, slot.is_solicited);
        let (to, datagram) = (slot.to, ud::Datagram { dest_qpn, qkey, len, imm, is_solicited });
        let mut header = [0; HEADER_MAX];
        // Longer than the path allows: done, and not sent (IBTA C10-93.1.1).
        let Some((header_len, _)) = self.numbers.packet(&datagram, &mut header) else { return };
        if self.shell.is_traced() {
            let peer = Sender { addr: to.ip(), qpn: dest_qpn };
            self.shell.write_trace_of(
                TraceEvent::Transmit,
                Some(peer),
                format_args!("op=UD_SEND len={len}"),
            );
        }
        let via = Via::Patient(self.path);
        let pushed = self.shell.push_slot(to, via, &header[..header_len], index);
        if pushed.is_err() {
            if let Some(slot) = self.shell.sq.get_mut(index) {
                slot.fault = Some(Status::LocalInvalidLkey);
                self.stop();
            }
        }
    }

    /// Takes the next receive for `len` bytes. One whose memory is not writable ends with its own
    /// error, so that it does not block those behind it; one that is too short stays the next.
    fn next_receive(&mut self, len: usize) -> Result<RecvWqe, NoReceive> {
        if self.shell.deal_not_ready() {
            return Err(NoReceive::NotPosted);
        }
        loop {
            let wqe = self.shell.take_receive_for(len)?;
            if wqe.is_writable_at(&mut self.shell.recv_mrs, 0, len) {
                return Ok(wqe);
            }
            self.shell.fail_recv(&wqe, Status::LocalInvalidLkey);
        }
    }

    fn take_at(&mut self, from: IpAddr, to: IpAddr, datagram: &Datagram<'_>) {
        if let Err(why) = self.receive(from, to, datagram) {
            // For lack of a receive others would be lost, too.
            self.shell.useless += u64::from(self.shell.receives_left() > 0);
            self.shell.drop_datagram(from, &why);
            lint(|| Pitfall::Dropped { qpn: self.shell.qpn, from, why });
        }
    }

    /// Returns true if something waits that may leave.
    fn has_work(&self) -> bool {
        let is_held = self.shell.attrs.state == QpState::SendQueueDrained;
        !(self.queue.is_empty() || is_held || self.shell.is_blocked())
    }

    /// Stops sending until the program allows it again. Receiving goes on.
    fn stop(&mut self) {
        let (from, to) = (self.shell.attrs.state, QpState::SendQueueError);
        self.shell.attrs.state = to;
        self.shell.trace_state(from, Some(to));
    }

    /// Puts a datagram to address `to`, which may be a group's or the own one (RC-10.4), into the
    /// next posted receive; returns the reason if that is impossible.
    fn receive(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        datagram: &Datagram<'_>,
    ) -> Result<(), &'static str> {
        if matches!(self.shell.attrs.state, QpState::Reset | QpState::Init | QpState::Error) {
            return Err("the queue pair does not receive");
        }
        let qpn = if to.is_multicast() { GROUP_QPN } else { self.shell.qpn };
        let qkey = self.shell.attrs.qkey;
        let receiver = Receiver { qpn, pkey: DEFAULT_PKEY, qkey, mtu: self.mtu };
        let whole = datagram.len();
        let Ok(it) = ud::receive(&receiver, datagram.head, whole) else {
            return Err("not for this queue pair (number, queue key), or malformed");
        };
        let is_own = it.src_qpn == self.shell.qpn && from == self.shell.device.addr();
        if is_own && to.is_multicast() && self.shell.ignores_itself {
            return Ok(());
        }
        let payload = datagram.payload(it.payload_at).split_at(it.payload_len as usize).0;
        let len = UD_GRH_BYTES + payload.len();
        let wqe = match self.next_receive(len) {
            Ok(wqe) => wqe,
            Err(NoReceive::NotPosted) => {
                self.shell.device.counters.add(Counter::RxNoReceive, 1);
                return Err("no receive is posted");
            }
            Err(NoReceive::TooShort) => {
                return Err("the receive is too short; it needs 40 bytes more than the message");
            }
        };
        let udp_len = u16::try_from(whole + UDP_BYTES).unwrap_or(u16::MAX);
        let routing = routing_header(from, to, udp_len);
        let filled = wqe.fill(0, routing[..].into()).and_then(|()| wqe.fill(UD_GRH_BYTES, payload));
        if let Err(Gone) = filled {
            self.shell.fail_recv(&wqe, Status::LocalInvalidLkey);
            return Err("the memory of the receive is gone");
        }
        let src = Sender { addr: from, qpn: it.src_qpn };
        if self.shell.is_traced() {
            self.shell.write_trace_of(
                TraceEvent::Receive,
                Some(src),
                format_args!("op=UD_SEND len={}", it.payload_len),
            );
        }
        self.shell.complete_recv(wqe.wr_id, &src, len, it.imm, true);
        if let Some(done) = self.shell.recvs_done.last_mut() {
            done.is_solicited = it.is_solicited;
            done.sl = if from.is_ipv4() { SL_IPV4 } else { SL_IPV6 };
        }
        Ok(())
    }
}

impl Side for RoceUdSide {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn changed(&mut self, _now: Instant, from: QpState, to: QpState) {
        if (from, to) == (QpState::ReadyToReceive, QpState::ReadyToSend) {
            let first = Psn::new(self.shell.attrs.sq_psn);
            self.numbers = Numbers::new(self.shell.qpn, DEFAULT_PKEY, self.mtu, first);
        }
        // What has left is done, and what has not waits for its return.
        let is_drained = from == QpState::ReadyToSend && to == QpState::SendQueueDrained;
        if is_drained && self.shell.attrs.sqd_notify {
            self.shell.report(AsyncEventKind::SqDrained);
        }
    }

    /// Work requests end in the order of posting (RC-8.4).
    fn flush(&mut self, now: Instant) {
        while let Some(index) = self.queue.pop_front() {
            if let Some(slot) = self.shell.sq.get_mut(index) {
                slot.fault = Some(Status::Flushed);
            }
            self.shell.finish_send(index, Status::Flushed);
        }
        self.cancel(now);
        self.shell.end_all(Status::Flushed);
        if self.shell.srq.is_some() {
            self.shell.report(AsyncEventKind::QpLastWqeReached);
        }
    }

    /// A work request that is impossible ends in its turn, and stops the send queue.
    fn post_send(&mut self, wr: &SendWr<'_>, signaled: bool) -> bool {
        let (now, len) = (self.shell.last_turn, wr.data.len_bytes());
        let fault = self.shell.check_send(wr, len, self.has_rdma());
        let Some(index) = self.shell.insert(wr, signaled, len) else { return false };
        if self.shell.is_traced() {
            self.shell.trace_post(len, wr, signaled);
        }
        if let Some(slot) = self.shell.sq.get_mut(index) {
            slot.fault = fault;
        }
        self.start(now, index);
        true
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
        self.shell.receives_left() < MAX_PACKETS
    }

    fn is_streaming(&self) -> bool {
        false
    }

    fn begin_turn(&mut self, _now: Instant) {}

    fn flush_acks(&mut self, _now: Instant) {}

    fn take(&mut self, _now: Instant, from: IpAddr, datagram: &Datagram<'_>) {
        self.take_at(from, self.shell.device.addr(), datagram);
    }

    fn take_in_group(&mut self, from: IpAddr, group: IpAddr, datagram: &Datagram<'_>) {
        self.take_at(from, group, datagram);
    }

    fn note_turn(&mut self, _has_received: bool) {}

    fn advance(&mut self, _now: Instant) {}

    /// Sends everything that waits. A datagram is done when the operating system has it.
    fn send_out(&mut self, now: Instant) {
        while self.has_work() {
            let burst = self.queue.len().min(MAX_PACKETS);
            for at in 0..burst {
                self.push(self.queue[at]);
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
        self.has_work().then_some(self.shell.last_turn)
    }

    fn cancel(&mut self, _now: Instant) {
        self.abandon();
    }

    /// There is no engine.
    fn abandon(&mut self) {
        self.queue.clear();
    }

    /// On a RoCE device address handles are only addresses, so posted datagrams leave all the same.
    fn cancel_toward(&mut self, _now: Instant, _addr: IpAddr) {}

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

/// Makes the headers in front of a datagram of `udp_len` bytes (RC-1.6).
fn routing_header(from: IpAddr, to: IpAddr, udp_len: u16) -> [u8; UD_GRH_BYTES] {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => grh::of_ipv4(from, to, 0, HOP_LIMIT, udp_len),
        (from, to) => grh::of_ipv6(to_v6(from), to_v6(to), 0, HOP_LIMIT, udp_len),
    }
}

#[cfg(test)]
mod tests;
