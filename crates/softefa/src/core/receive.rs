//! What arrives: datagrams to the engine, messages into posted receives.

use std::net::{Ipv4Addr, SocketAddrV4};

use srd::{Arrival, Instant, Received, Reject};

use super::{Core, FLAG_IMM, LastAhn, OP_SEND, rdma};
use crate::AHN_UNKNOWN;
use crate::counters::Counter;
use crate::cq::{Completion, CompletionOp};
use crate::memory::Gone;
use crate::qp::{PostError, QpKind, QpState, socket_addr};
use crate::rq::RecvWqe;
use crate::status::Status;
use crate::wire::{MAX_PACKETS, Run, is_intact};

/// Runs received in one turn at most, so that a flood cannot keep a program from its completions.
const RUNS_PER_TURN: usize = 16;
/// A run this long, or so many messages in flight, is a stream: look for another run. Otherwise
/// the second look would find nothing and cost a ping-pong a system call. Streams need it: a
/// sender that takes one acknowledgement per turn answers it with as few messages, and bursts
/// that have become short stay short.
const STREAM_BYTES: usize = 4096;
const STREAM_MESSAGES: usize = 8;

impl Core {
    /// Takes a receive.
    pub(crate) fn post_recv(&mut self, wqe: RecvWqe) -> Result<(), PostError> {
        if self.rq.push(wqe) { Ok(()) } else { Err(PostError::Full) }
    }

    /// Something arrived.
    pub(super) fn receive(&mut self, now: Instant) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        let is_streaming = self.endpoint.in_flight() >= STREAM_MESSAGES;
        let mut runs = 0;
        let mut pkts = 0;
        let mut bytes = 0;
        while runs < RUNS_PER_TURN
            && let Some(run) = self.wire.receive(&mut buffer)
        {
            runs += 1;
            pkts += run.len.div_ceil(run.segment) as u64;
            bytes += run.len as u64;
            self.receive_run(now, &buffer, run);
            let is_short = run.len < STREAM_BYTES && !is_streaming;
            if is_short || self.is_short_of_receives() {
                break;
            }
        }
        self.buffer = buffer;
        if runs > 0 {
            let counters = &self.device.counters;
            counters.add(Counter::RxPkts, pkts);
            counters.add(Counter::RxBytes, bytes);
            counters.add(Counter::RxSyscalls, runs as u64);
            counters.add(Counter::RecvWrs, self.recvs_done.len() as u64);
            let delivered = self.recvs_done.iter().map(|c| u64::from(c.byte_len)).sum();
            counters.add(Counter::RecvBytes, delivered);
        }
        runs > 0
    }

    pub(super) fn receive_run(&mut self, now: Instant, buffer: &[u8], run: Run) {
        let host = u64::from(u32::from(*run.from.ip()));
        for datagram in buffer[..run.len].chunks(run.segment) {
            if !is_intact(datagram) {
                self.device.counters.add(Counter::RxCrcErrors, 1);
                self.drop_datagram(host, "its check does not fit");
                continue;
            }
            match self.kind {
                QpKind::Ud => self.receive_ud(*run.from.ip(), datagram),
                QpKind::Srd => self.receive_srd(now, host, datagram),
            }
        }
    }

    /// A datagram of `host` is not used.
    pub(super) fn drop_datagram(&mut self, host: u64, why: &str) {
        self.device.counters.add(Counter::RxDrops, 1);
        if self.trace.is_some() {
            self.trace_drop(host, None, &why);
        }
    }

    /// Unreliable datagrams that find no receive are lost: what is still in the kernel waits there
    /// until the program has posted more.
    pub(super) fn is_short_of_receives(&self) -> bool {
        self.kind == QpKind::Ud && self.rq.len() < MAX_PACKETS
    }

    pub(super) fn receive_srd(&mut self, now: Instant, host: u64, datagram: &[u8]) {
        // Not up yet: as if the datagram had come a little later. The sender repeats it.
        if matches!(self.attrs.state, QpState::Reset | QpState::Init) {
            self.drop_datagram(host, "the queue pair is not ready to receive");
            return;
        }
        let result = self.endpoint.handle_datagram(now, host, datagram, datagram.len());
        if self.trace.is_some() {
            self.trace_receive(host, datagram, &result);
        }
        match result {
            Err(_) => self.device.counters.add(Counter::RxDrops, 1),
            Ok(Received { data: Some(arrival), header_len, .. }) => {
                let answer = self.deliver(now, &arrival, &datagram[header_len..]);
                if self.trace.is_some() {
                    self.trace_answer(&arrival, answer);
                }
                match answer {
                    Ok(()) => {
                        self.last_accepted = Some(now);
                        self.endpoint.accept(now, arrival.peer, arrival.psn);
                    }
                    Err(why) => self.endpoint.reject(now, arrival.peer, arrival.psn, why),
                }
            }
            Ok(_) => {}
        }
    }

    /// Does what a new message asks for.
    fn deliver(&mut self, now: Instant, arrival: &Arrival, payload: &[u8]) -> Result<(), Reject> {
        if self.attrs.state == QpState::Error || arrival.qkey != self.attrs.qkey {
            // A successor that inherited the number has another key: the peer meant is gone.
            return Err(Reject::BadDestQpn);
        }
        match arrival.op {
            OP_SEND => self.deliver_send(arrival, payload),
            rdma::OP_WRITE => self.serve_write(arrival, payload),
            rdma::OP_READ => self.serve_read(now, arrival, payload),
            rdma::OP_READ_DATA => self.take_read_data(arrival, payload),
            rdma::OP_READ_FAIL => self.take_read_fail(arrival, payload),
            rdma::OP_WRITE_LOCAL => self.serve_write_local(arrival, payload),
            rdma::OP_READ_GRANT => self.take_read_grant(now, arrival, payload),
            rdma::OP_READ_CONFIRM => self.serve_read_confirm(payload),
            rdma::OP_PROBE => self.serve_probe(now, arrival, payload),
            // GONE among them: had the message arrived before, the engine would have said so.
            _ => Err(Reject::BadStatus),
        }
    }

    /// Puts a message into the next posted receive.
    fn deliver_send(&mut self, arrival: &Arrival, payload: &[u8]) -> Result<(), Reject> {
        let wqe = loop {
            let wqe = self.next_receive().ok_or(Reject::Rnr)?;
            if payload.len() > wqe.capacity as usize {
                return Err(Reject::BadLength);
            }
            self.rq.pop();
            match wqe.fill(0, payload) {
                Ok(()) => break wqe,
                Err(Gone) => self.fail_recv(&wqe, Status::LocalInvalidLkey),
            }
        };
        let from = self.endpoint.address(arrival.peer).unwrap_or_default();
        let src = socket_addr(from.host, from.qpn);
        let imm = (arrival.flags & FLAG_IMM != 0).then_some(arrival.imm);
        self.complete_recv(wqe.wr_id, src, payload.len(), imm, false);
        Ok(())
    }

    /// The receive the next message goes to. One whose memory is not writable (any more) completes
    /// with its own error instead of standing in the way of those behind it.
    pub(super) fn next_receive(&mut self) -> Option<RecvWqe> {
        if self.is_not_ready_on_purpose() {
            return None;
        }
        while let Some(wqe) = self.rq.front().copied() {
            if wqe.is_writable(&mut self.recv_mrs) {
                return Some(wqe);
            }
            self.rq.pop();
            self.fail_recv(&wqe, Status::LocalInvalidLkey);
        }
        None
    }

    /// A fault wants this message to find no receive.
    #[inline]
    pub(super) fn is_not_ready_on_purpose(&mut self) -> bool {
        let hit = self.refusals.is_not_ready();
        if hit {
            self.device.counters.add(Counter::FaultRnr, 1);
        }
        hit
    }

    pub(super) fn complete_recv(
        &mut self,
        wr_id: u64,
        src: SocketAddrV4,
        byte_len: usize,
        imm: Option<u32>,
        has_grh: bool,
    ) {
        let completion = Completion {
            wr_id,
            status: Status::Ok,
            op: CompletionOp::Recv,
            qpn: self.qpn,
            src_qpn: src.port(),
            ahn: self.ahn_of(*src.ip()),
            src_addr: *src.ip(),
            byte_len: u32::try_from(byte_len).unwrap_or(u32::MAX),
            imm,
            has_grh,
            owner: self.recv_owner,
        };
        self.recvs_done.push(completion);
    }

    pub(super) fn ahn_of(&mut self, addr: Ipv4Addr) -> u16 {
        let generation = self.device.ahns.generation();
        if self.last_ahn.addr != addr || self.last_ahn.generation != generation {
            let ahn = self.device.ahns.find((self.pd, addr));
            self.last_ahn = LastAhn { addr, generation, ahn };
        }
        self.last_ahn.ahn
    }

    pub(super) fn flush_recv(&mut self, wqe: &RecvWqe) {
        self.fail_recv(wqe, Status::Flushed);
    }

    pub(super) fn fail_recv(&mut self, wqe: &RecvWqe, status: Status) {
        let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        self.complete_recv(wqe.wr_id, nowhere, 0, None, false);
        if let Some(completion) = self.recvs_done.last_mut() {
            completion.status = status;
            completion.ahn = AHN_UNKNOWN;
        }
    }
}
