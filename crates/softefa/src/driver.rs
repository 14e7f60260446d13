//! One turn of a queue pair: acknowledge, receive, time out, complete, transmit.
//!
//! ```text
//! post_send --> sq --> srd::Endpoint --poll_transmit--> Batch --> Wire
//! Wire --> buffer --> srd::Endpoint --Arrival--> rq --copy--> program, Completion --> Cq
//! ```
//! The engine sees descriptors, never payload. Acknowledgements of a turn wait until the next one:
//! a program that answers at once carries them on its answer.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use srd::wire::Header;
use srd::{Address, Arrival, Endpoint, Event, Instant, Message, MsgId, Reject};

use crate::AHN_UNKNOWN;
use crate::counters::Counter;
use crate::cq::{Completion, CompletionOp, Cq, Credits};
use crate::device::Device;
use crate::host;
use crate::mr::MrCache;
use crate::qp::{
    PostError, QpInit, QpKind, QpQuery, QpState, SendData, SendOp, SendWr, socket_addr,
};
use crate::rq::{RecvQueue, RecvWqe};
use crate::sq::{SendQueue, SendSlot};
use crate::status::Status;
use crate::wire::{Batch, Faulty, MAX_PACKETS, PathSockets, Run, Sent, UdpWire, Wire};

/// Runs received in one turn at most, so that a flood cannot keep a program from its completions.
const RUNS_PER_TURN: usize = 16;
/// A run this long, or so many messages in flight, is a stream: look for another run. Otherwise
/// the second look would find nothing and cost a ping-pong a system call. Streams need it: a
/// sender that takes one acknowledgement per turn answers it with as few messages, and bursts
/// that have become short stay short.
const STREAM_BYTES: usize = 4096;
const STREAM_MESSAGES: usize = 8;
/// Posted and not yet offered to the wire, from which on posting transmits by itself.
const UNSENT_MESSAGES: u32 = 64;
const UNSENT_BYTES: u32 = 56 << 10;
/// Largest datagram train the kernel hands over at once.
const BUFFER_BYTES: usize = 1 << 16;
/// Immediate data is present (the engine carries the flag for us).
pub(crate) const FLAG_IMM: u8 = 1;
/// The one operation there is: a message. Others are a later generation's.
pub(crate) const OP_SEND: u8 = 0;

/// The part of a queue pair that its lock protects.
pub(crate) struct Core {
    pub(crate) attrs: QpQuery,
    pub(super) kind: QpKind,
    pub(super) device: Arc<Device>,
    pub(super) paths: Arc<PathSockets>,
    pub(super) qpn: u16,
    endpoint: Endpoint,
    pub(super) sq: SendQueue,
    pub(super) rq: RecvQueue,
    send_mrs: MrCache,
    pub(super) recv_mrs: MrCache,
    pub(super) wire: Box<dyn Wire>,
    pub(super) batch: Batch,
    buffer: Vec<u8>,
    pub(super) ud_queue: VecDeque<crate::ud::Queued>,
    pub(super) sends_done: Vec<Completion>,
    pub(super) recvs_done: Vec<Completion>,
    unsent_messages: u32,
    unsent_bytes: u32,
    credits: Credits,
    send_owner: u16,
    recv_owner: u16,
    last_ahn: LastAhn,
    last_turn: Instant,
    synced: srd::Stats,
}

/// The last look-up of a sender's address handle number.
#[derive(Debug, Clone, Copy)]
struct LastAhn {
    addr: Ipv4Addr,
    generation: u64,
    ahn: u16,
}

impl Core {
    pub(crate) fn new(
        device: &Arc<Device>,
        init: &QpInit,
        qpn: u16,
        wire: UdpWire,
        credits: Credits,
        [send_owner, recv_owner]: [u16; 2],
    ) -> Self {
        let paths = wire.paths();
        let endpoint = new_endpoint(device, qpn, &wire);
        let stream = device.streams.fetch_add(1, Ordering::Relaxed);
        let mut wire: Box<dyn Wire> = Box::new(wire);
        if device.faults.is_active() {
            wire = Box::new(Faulty::new(wire, device.faults, stream));
        }
        let unspecified = Ipv4Addr::UNSPECIFIED;
        Self {
            attrs: QpQuery { rnr_retry: 7, ..QpQuery::default() },
            kind: init.kind,
            device: Arc::clone(device),
            paths,
            qpn,
            endpoint,
            sq: SendQueue::new(init.sq_depth),
            rq: RecvQueue::new(init.rq_depth),
            send_mrs: MrCache::new(Arc::clone(&device.mrs)),
            recv_mrs: MrCache::new(Arc::clone(&device.mrs)),
            wire,
            batch: Batch::new(),
            buffer: vec![0; BUFFER_BYTES],
            ud_queue: VecDeque::new(),
            sends_done: Vec::new(),
            recvs_done: Vec::new(),
            unsent_messages: 0,
            unsent_bytes: 0,
            credits,
            send_owner,
            recv_owner,
            last_ahn: LastAhn { addr: unspecified, generation: u64::MAX, ahn: AHN_UNKNOWN },
            last_turn: host::now(),
            synced: srd::Stats::default(),
        }
    }

    /// Takes a send; `false` when the queue is full.
    pub(crate) fn post_send(&mut self, mut slot: SendSlot, wr: &SendWr<'_>) -> bool {
        // Nothing in taking a message depends on the time since the last turn.
        let now = self.last_turn;
        if let Some(status) = self.check_send(&slot, wr) {
            self.complete_send(&slot, status);
            return true;
        }
        let (len, op) = (slot.len, slot.op);
        let host = u64::from(u32::from(wr.ah.addr()));
        if self.kind == QpKind::Srd {
            slot.peer = Some(self.endpoint.peer(now, Address { host, qpn: wr.remote_qpn }));
        }
        let peer = slot.peer;
        let Some(index) = self.sq.insert(slot) else { return false };
        self.device.counters.add(Counter::SendWrs, 1);
        self.device.counters.add(Counter::SendBytes, u64::from(len));
        self.unsent_messages += 1;
        self.unsent_bytes = self.unsent_bytes.saturating_add(len);
        let Some(peer) = peer else {
            self.queue_ud(index, wr);
            return true;
        };
        let (flags, imm) = imm_of(op);
        let message = Message {
            id: MsgId(u64::from(index)),
            len,
            op: OP_SEND,
            flags,
            qkey: wr.remote_qkey,
            imm,
            rnr_retry: self.attrs.rnr_retry,
        };
        if self.endpoint.send(now, peer, message).is_err() {
            // Lengths and counts were checked; what is left is the engine refusing on principle.
            self.finish_send(index, Status::LocalQpInternalError);
        }
        true
    }

    fn check_send(&mut self, slot: &SendSlot, wr: &SendWr<'_>) -> Option<Status> {
        if slot.len > self.device.attr().max_msg_bytes {
            return Some(Status::LocalBadLength);
        }
        let SendData::Sges(sges) = wr.data else { return None };
        let allowed = sges.iter().all(|sge| sge.len == 0 || self.send_mrs.allows(sge, false));
        (!allowed).then_some(Status::LocalInvalidLkey)
    }

    /// Takes a receive.
    pub(crate) fn post_recv(&mut self, wqe: RecvWqe, init: &QpInit) -> Result<(), PostError> {
        if self.attrs.state == QpState::Error {
            self.flush_recv(&wqe);
            self.publish(init);
            return Ok(());
        }
        if self.rq.push(wqe) { Ok(()) } else { Err(PostError::Full) }
    }

    /// Enough was posted to fill a burst.
    pub(crate) fn should_transmit(&self) -> bool {
        self.unsent_messages >= UNSENT_MESSAGES || self.unsent_bytes >= UNSENT_BYTES
    }

    /// Hands finished work requests to the completion queues.
    pub(crate) fn publish(&mut self, init: &QpInit) {
        publish(&init.send_cq, &mut self.sends_done);
        publish(&init.recv_cq, &mut self.recvs_done);
    }

    /// One turn while the program polls.
    pub(crate) fn turn(&mut self, now: Instant) {
        self.last_turn = now;
        self.endpoint.flush_acks(now);
        let received = self.receive(now);
        self.expire(now);
        self.harvest();
        self.transmit(now);
        if received {
            self.sync_counters();
        }
    }

    /// One turn while nobody polls: acknowledges at once.
    pub(crate) fn service_turn(&mut self, now: Instant) {
        self.last_turn = now;
        self.receive(now);
        self.endpoint.flush_acks(now);
        self.expire(now);
        self.harvest();
        self.transmit(now);
        self.sync_counters();
        self.device.counters.add(Counter::ServiceTurns, 1);
    }

    /// When a turn is needed even if nothing arrives.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match (self.endpoint.poll_timeout(), self.wire.next_release()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Something arrived.
    fn receive(&mut self, now: Instant) -> bool {
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

    /// Unreliable datagrams that find no receive are lost: let the program post some first.
    fn is_short_of_receives(&self) -> bool {
        self.kind == QpKind::Ud && self.rq.len() < MAX_PACKETS
    }

    fn receive_run(&mut self, now: Instant, buffer: &[u8], run: Run) {
        let host = u64::from(u32::from(*run.from.ip()));
        for datagram in buffer[..run.len].chunks(run.segment) {
            match self.kind {
                QpKind::Ud => self.receive_ud(*run.from.ip(), datagram),
                QpKind::Srd => self.receive_srd(now, host, datagram),
            }
        }
    }

    fn receive_srd(&mut self, now: Instant, host: u64, datagram: &[u8]) {
        // Not up yet: as if the datagram had come a little later. The sender repeats it.
        if matches!(self.attrs.state, QpState::Reset | QpState::Init) {
            self.device.counters.add(Counter::RxDrops, 1);
            return;
        }
        match self.endpoint.handle_datagram(now, host, datagram, datagram.len()) {
            Err(_) => self.device.counters.add(Counter::RxDrops, 1),
            Ok(received) => {
                if let Some(arrival) = received.data {
                    match self.deliver(&arrival, &datagram[received.header_len..]) {
                        Ok(()) => self.endpoint.accept(now, arrival.peer, arrival.psn),
                        Err(why) => self.endpoint.reject(now, arrival.peer, arrival.psn, why),
                    }
                }
            }
        }
    }

    /// Puts a message into the next posted receive.
    fn deliver(&mut self, arrival: &Arrival, payload: &[u8]) -> Result<(), Reject> {
        if self.attrs.state == QpState::Error || arrival.qkey != self.attrs.qkey {
            // A successor that inherited the number has another key: the peer meant is gone.
            return Err(Reject::BadDestQpn);
        }
        if arrival.op != OP_SEND {
            return Err(Reject::BadStatus);
        }
        let wqe = *self.rq.front().ok_or(Reject::Rnr)?;
        if payload.len() > wqe.capacity as usize {
            return Err(Reject::BadLength);
        }
        if !wqe.is_writable(&mut self.recv_mrs) {
            return Err(Reject::BadAddress);
        }
        self.rq.pop();
        wqe.fill(0, payload);
        let from = self.endpoint.address(arrival.peer).unwrap_or_default();
        let src = socket_addr(from.host, from.qpn);
        let imm = (arrival.flags & FLAG_IMM != 0).then_some(arrival.imm);
        self.complete_recv(wqe.wr_id, src, payload.len(), imm, false);
        Ok(())
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

    fn ahn_of(&mut self, addr: Ipv4Addr) -> u16 {
        let generation = self.device.ahns.generation();
        if self.last_ahn.addr != addr || self.last_ahn.generation != generation {
            self.last_ahn = LastAhn { addr, generation, ahn: self.device.ahns.find(addr) };
        }
        self.last_ahn.ahn
    }

    /// Timers, refused datagrams, and what the faulty wire held back.
    fn expire(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            // Before a timer draws conclusions: somebody may have said why nobody answers.
            self.paths.collect_refusals();
            self.take_refusals(now);
            self.endpoint.handle_timeout(now);
        } else {
            self.take_refusals(now);
        }
        if self.wire.next_release().is_some_and(|at| at <= now) {
            let sent = self.wire.release(now);
            self.count_sent(&sent);
        }
    }

    fn take_refusals(&mut self, now: Instant) {
        let qpn = self.qpn;
        let mine = |quote: &[u8]| Header::parse(quote).is_ok_and(|header| header.src_qpn == qpn);
        for quote in self.paths.take_refused(mine) {
            self.endpoint.handle_unreachable(now, &quote.bytes[..quote.len]);
        }
    }

    /// Turns what the engine finished into completions.
    fn harvest(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            if let Event::Completed { msg, status, .. } = event
                && let Ok(index) = u32::try_from(msg.0)
            {
                self.finish_send(index, status.into());
            }
        }
    }

    pub(super) fn finish_send(&mut self, index: u32, status: Status) {
        if let Some(slot) = self.sq.complete(index) {
            self.complete_send(&slot, status);
        }
    }

    fn complete_send(&mut self, slot: &SendSlot, status: Status) {
        if !slot.signaled && status == Status::Ok {
            self.credits.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        self.sends_done.push(Completion {
            wr_id: slot.wr_id,
            status,
            op: CompletionOp::Send,
            qpn: self.qpn,
            src_qpn: 0,
            ahn: AHN_UNKNOWN,
            src_addr: Ipv4Addr::UNSPECIFIED,
            byte_len: 0,
            imm: None,
            has_grh: false,
            owner: self.send_owner,
        });
    }

    fn flush_recv(&mut self, wqe: &RecvWqe) {
        let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        self.complete_recv(wqe.wr_id, nowhere, 0, None, false);
        if let Some(completion) = self.recvs_done.last_mut() {
            completion.status = Status::Flushed;
            completion.ahn = AHN_UNKNOWN;
        }
    }

    /// Sends what may be sent now.
    pub(crate) fn transmit(&mut self, now: Instant) {
        (self.unsent_messages, self.unsent_bytes) = (0, 0);
        if self.kind == QpKind::Ud {
            self.transmit_ud(now);
            return;
        }
        let mut header = [0; srd::HEADER_MAX];
        loop {
            while !self.batch.is_full()
                && let Some(out) = self.endpoint.poll_transmit(now, &mut header)
            {
                let to = socket_addr(out.addr.host, out.addr.qpn);
                let index =
                    out.msg.map_or(u32::MAX, |msg| u32::try_from(msg.0).unwrap_or(u32::MAX));
                let payload = self.sq.payload(index);
                self.batch.push(to, out.path.0, &header[..out.header_len], payload);
            }
            let is_last = !self.batch.is_full();
            if !self.batch.is_empty() {
                self.send_batch(now);
            }
            if is_last {
                break;
            }
        }
    }

    pub(super) fn send_batch(&mut self, now: Instant) {
        let sent = self.wire.send(now, &mut self.batch);
        assert!(self.batch.is_empty(), "a wire sends or drops the whole batch");
        self.count_sent(&sent);
    }

    fn count_sent(&self, sent: &Sent) {
        let counters = &self.device.counters;
        counters.add(Counter::TxPkts, sent.pkts);
        counters.add(Counter::TxBytes, sent.bytes);
        counters.add(Counter::TxSyscalls, sent.syscalls);
        counters.add(Counter::TxErrors, sent.errors);
        counters.add(Counter::FaultLost, sent.lost);
        counters.add(Counter::FaultReordered, sent.reordered);
        counters.add(Counter::FaultDuplicated, sent.duplicated);
    }

    /// Moves what the engine counted since last time to the device's counters.
    fn sync_counters(&mut self) {
        let (new, old) = (*self.endpoint.stats(), self.synced);
        let counters = &self.device.counters;
        for (counter, new, old) in [
            (Counter::RetransPkts, new.retrans_pkts, old.retrans_pkts),
            (Counter::RetransBytes, new.retrans_bytes, old.retrans_bytes),
            (Counter::RetransTimeoutEvents, new.retrans_timeout_events, old.retrans_timeout_events),
            (
                Counter::UnresponsiveRemoteEvents,
                new.unresponsive_remote_events,
                old.unresponsive_remote_events,
            ),
            (
                Counter::ImpairedRemoteConnEvents,
                new.impaired_remote_conn_events,
                old.impaired_remote_conn_events,
            ),
            (Counter::RxDuplicates, new.rx_duplicates, old.rx_duplicates),
            (Counter::RxRnr, new.rx_rnr, old.rx_rnr),
            (Counter::AckPkts, new.tx_pure_acks, old.tx_pure_acks),
        ] {
            counters.add(counter, new - old);
        }
        self.synced = new;
    }

    /// Error state: everything posted completes as flushed.
    pub(crate) fn flush(&mut self, now: Instant) {
        self.restart_engine(now);
        for slot in self.sq.drain() {
            self.complete_send(&slot, Status::Flushed);
        }
        while let Some(wqe) = self.rq.pop() {
            self.flush_recv(&wqe);
        }
    }

    /// Reset state: everything posted is forgotten.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.restart_engine(now);
        self.sq.drain();
        while self.rq.pop().is_some() {}
        self.sends_done.clear();
        self.recvs_done.clear();
    }

    fn restart_engine(&mut self, now: Instant) {
        self.ud_queue.clear();
        for peer in self.sq.peers() {
            self.endpoint.cancel_peer(now, peer);
        }
        while self.endpoint.poll_event().is_some() {}
    }

    /// The queue pair is destroyed: only acknowledgements go on.
    pub(crate) fn close(&mut self, now: Instant) {
        self.endpoint.begin_close(now);
        self.reset(now);
        self.final_acks(now);
        self.attrs.state = QpState::Error;
    }

    /// Repeats the last acknowledgements.
    pub(crate) fn final_acks(&mut self, now: Instant) {
        self.endpoint.final_acks(now);
        self.transmit(now);
        self.sync_counters();
    }
}

fn publish(cq: &Cq, done: &mut Vec<Completion>) {
    cq.push(done);
}

pub(crate) fn imm_of(op: SendOp) -> (u8, u32) {
    match op {
        SendOp::Send => (0, 0),
        SendOp::SendImm(imm) => (FLAG_IMM, imm),
    }
}

fn new_endpoint(device: &Device, qpn: u16, wire: &UdpWire) -> Endpoint {
    let mut config = srd::Config::socket();
    config.max_message_bytes = device.attr().max_msg_bytes;
    config.paths = wire.paths().paths();
    // The peer's kernel queues about as much for us as ours does for it; beyond that it drops.
    let room = u32::try_from(wire.receive_buffer_bytes() / 5 * 2).unwrap_or(u32::MAX);
    config.window_max_bytes = config.window_max_bytes.min(room).max(config.window_min_bytes);
    config.window_initial_bytes = config.window_initial_bytes.min(config.window_max_bytes);
    Endpoint::new(config, qpn, host::epoch_ns(), host::random_u64())
}
