//! One turn of a queue pair: acknowledge, receive, time out, complete, transmit.
//!
//! ```text
//! post_send --> sq --> srd::Endpoint --poll_transmit--> Batch --> Wire
//! Wire --> buffer --> srd::Endpoint --Arrival--> rq --copy--> program, Completion --> Cq
//! ```
//! The engine sees descriptors, never payload. Acknowledgements of a turn wait until the next one:
//! a program that answers at once carries them on its answer.

mod answering;
mod count;
mod end;
mod rdma;
mod receive;
mod resend;
mod send;
mod trace;
mod ud;

pub(crate) use rdma::Transfer;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use srd::wire::Header;
use srd::{Endpoint, Instant};

use crate::AHN_UNKNOWN;
use crate::config::Integrity;
use crate::counters::Counter;
use crate::cq::{Completion, Unpolled};
use crate::device::Device;
use crate::fault::{Dice, Refusals, stream_of};
use crate::host;
use crate::mr::MrCache;
use crate::pd::{Pd, PdId};
use crate::qp::{QpInit, QpKind, QpQuery};
use crate::rq::RecvQueue;
use crate::sq::SendQueue;
use crate::wire::{Batch, Cover, Faulty, PathSockets, UdpWire, Unplugged, Wire};

use answering::Answering;

/// Peers of one queue pair: strangers who open connections must not take all memory.
const PEERS_MAX: usize = 16_384;
/// Refused datagrams are looked for this often at most while nobody answers.
const COLLECT_NS: u64 = 1_000_000;
/// Largest datagram train the kernel hands over at once.
const BUFFER_BYTES: usize = 1 << 16;
/// Immediate data is present (the engine carries the flags for us).
const FLAG_IMM: u8 = 1;
/// A message for a posted receive.
const OP_SEND: u8 = 0;
/// Has the message arrived whose bytes its sender has no more? Never taken as new (SRD-6.7).
const OP_GONE: u8 = 19;

/// The part of a queue pair that its lock protects.
pub(crate) struct Core {
    pub(crate) attrs: QpQuery,
    kind: QpKind,
    device: Arc<Device>,
    pd: PdId,
    paths: Arc<PathSockets>,
    qpn: u16,
    endpoint: Endpoint,
    sq: SendQueue,
    rq: RecvQueue,
    rdma: rdma::Rdma,
    send_mrs: MrCache,
    rdma_mrs: MrCache,
    recv_mrs: MrCache,
    wire: Box<dyn Wire>,
    refusals: Refusals,
    batch: Batch,
    /// Bytes of a message that is sent again; grows to the longest one.
    again: Vec<u8>,
    buffer: Vec<u8>,
    ud_queue: VecDeque<ud::Queued>,
    sends_done: Vec<Completion>,
    recvs_done: Vec<Completion>,
    unsent_messages: u32,
    unsent_bytes: u32,
    unpolled: Arc<Unpolled>,
    /// How WRITEs with immediate are received.
    write_recv: rdma::WriteRecv,
    send_owner: u16,
    recv_owner: u16,
    last_ahn: LastAhn,
    last_turn: Instant,
    /// When the latest message was accepted, whose acknowledgement may have to be repeated.
    last_accepted: Option<Instant>,
    has_received: bool,
    answering: Answering,
    last_collection: Instant,
    sends: Tally,
    synced: srd::Stats,
    /// `None` unless the user asked for one.
    trace: Option<Box<trace::Trace>>,
}

/// Sends posted since the last turn: counted here, because a device's counters are shared by all
/// its queue pairs.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: u64,
    bytes: u64,
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
        pd: &Pd,
        init: &QpInit,
        qpn: u16,
        wire: UdpWire,
        unpolled: Arc<Unpolled>,
        [send_owner, recv_owner]: [u16; 2],
    ) -> Self {
        let (device, pd) = (pd.device(), pd.id());
        let paths = wire.paths();
        let endpoint = new_endpoint(device, qpn, &wire);
        let stream = device.streams.fetch_add(1, Ordering::Relaxed);
        let tap = wire.tap();
        let mut wire: Box<dyn Wire> = Box::new(wire);
        let stream = stream_of(stream);
        if device.faults.is_on_the_wire() {
            let dice = Dice::new(&device.faults, stream);
            wire = Box::new(Faulty::new(wire, tap, dice, device.blackholes()));
        }
        let unspecified = Ipv4Addr::UNSPECIFIED;
        Self {
            attrs: QpQuery { rnr_retry: 7, ..QpQuery::default() },
            kind: init.kind,
            device: Arc::clone(device),
            pd,
            paths,
            qpn,
            endpoint,
            sq: SendQueue::new(init.sq_depth, device.local_key.is_some()),
            rq: RecvQueue::new(init.rq_depth),
            rdma: rdma::Rdma::default(),
            rdma_mrs: MrCache::new(Arc::clone(&device.mrs), pd),
            send_mrs: MrCache::new(Arc::clone(&device.mrs), pd),
            recv_mrs: MrCache::new(Arc::clone(&device.mrs), pd),
            wire,
            refusals: Refusals::new(&device.faults, stream),
            batch: new_batch(device),
            again: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            ud_queue: VecDeque::new(),
            sends_done: Vec::new(),
            recvs_done: Vec::new(),
            unsent_messages: 0,
            unsent_bytes: 0,
            unpolled,
            write_recv: rdma::WriteRecv::of(init),
            send_owner,
            recv_owner,
            last_ahn: LastAhn { addr: unspecified, generation: u64::MAX, ahn: AHN_UNKNOWN },
            last_turn: host::now(),
            last_accepted: None,
            has_received: false,
            answering: Answering::default(),
            last_collection: Instant::ZERO,
            sends: Tally::default(),
            synced: srd::Stats::default(),
            trace: device.tracer(qpn).map(|tracer| Box::new(trace::Trace::new(tracer))),
        }
    }

    /// Hands finished work requests to the completion queues, for sends and for receives; which of
    /// them must be told ([`crate::Cq::tell`]).
    pub(crate) fn publish(&mut self, init: &QpInit) -> [bool; 2] {
        if self.trace.is_some() {
            self.trace_completions();
        }
        [init.send_cq.push(&mut self.sends_done), init.recv_cq.push(&mut self.recvs_done)]
    }

    /// One turn while the program polls.
    pub(crate) fn turn(&mut self, now: Instant) {
        self.last_turn = now;
        self.count_sends();
        if self.answering.are_acks_due() {
            self.endpoint.flush_acks(now);
        }
        self.has_received = self.receive(now);
        self.answering.note_turn(self.has_received);
        self.expire(now);
        self.harvest(now);
        self.advance_copies(now);
        self.feed(now);
        self.transmit(now);
        if self.has_received {
            self.sync_counters();
        }
    }

    /// One turn while nobody polls: acknowledges at once, unless what it completes wakes a program,
    /// whose answer may carry the acknowledgement.
    pub(crate) fn service_turn(&mut self, now: Instant, is_awaited: bool) {
        self.last_turn = now;
        self.count_sends();
        self.has_received = self.receive(now);
        if !is_awaited || self.recvs_done.is_empty() {
            self.endpoint.flush_acks(now);
        }
        self.expire(now);
        self.harvest(now);
        self.advance_copies(now);
        self.feed(now);
        self.transmit(now);
        self.sync_counters();
        self.device.counters.add(Counter::ServiceTurns, 1);
    }

    /// As [`Core::next_timeout`], but at once while posts wait to be transmitted.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        if self.unsent_messages > 0 { Some(Instant::ZERO) } else { self.next_timeout() }
    }

    /// When the latest message was accepted; `None` when there was none.
    pub(crate) fn last_accepted(&self) -> Option<Instant> {
        self.last_accepted
    }

    /// Something arrived in the last turn: more may follow, and its acknowledgement may wait.
    pub(crate) fn has_received(&self) -> bool {
        self.has_received
    }

    /// When a turn is needed even if nothing arrives.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        if self.rdma.has_copies() {
            return Some(self.last_turn);
        }
        let engine = self.endpoint.poll_timeout();
        [engine, self.wire.next_release(), self.rdma.next_probe()].into_iter().flatten().min()
    }

    /// Timers, refused datagrams, and what the faulty wire held back.
    fn expire(&mut self, now: Instant) {
        let is_due = self.endpoint.poll_timeout().is_some_and(|at| at <= now);
        // Before a timer draws conclusions: somebody may have said why nobody answers. Not for
        // each acknowledgement's timer, because looking costs a system call per path.
        if is_due
            && self.endpoint.in_flight() > 0
            && now.ns_since(self.last_collection) >= COLLECT_NS
        {
            self.last_collection = now;
            self.paths.collect_refusals(now);
        }
        self.take_refusals(now);
        if is_due {
            let before = self.endpoint.stats().retrans_timeout_events;
            self.endpoint.handle_timeout(now);
            if self.trace.is_some() {
                self.trace_timer(self.endpoint.stats().retrans_timeout_events - before);
            }
            self.sync_counters();
        }
        self.probe_reads(now);
        if self.wire.next_release().is_some_and(|at| at <= now) {
            let sent = self.wire.release(now);
            self.count_sent(&sent);
        }
    }

    fn take_refusals(&mut self, now: Instant) {
        let qpn = self.qpn;
        let mine = |quote: &[u8]| Header::parse(quote).is_ok_and(|header| header.src_qpn == qpn);
        for quote in self.paths.take_refused(now, mine) {
            let quoted = &quote.bytes[..quote.len];
            if self.trace.is_some() {
                self.trace_refused(quoted);
            }
            self.endpoint.handle_unreachable(now, quoted);
        }
    }

    /// Closes the socket: from now on the kernel answers for this number.
    pub(crate) fn unplug(&mut self) {
        self.wire = Box::new(Unplugged);
    }

    /// Puts another network in the place of its own.
    #[cfg(test)]
    pub(crate) fn rewire(&mut self, other: impl FnOnce(Box<dyn Wire>) -> Box<dyn Wire>) {
        self.wire = other(std::mem::replace(&mut self.wire, Box::new(Unplugged)));
    }

    /// Repeats the last acknowledgements.
    pub(crate) fn final_acks(&mut self, now: Instant) {
        self.endpoint.final_acks(now);
        self.transmit(now);
        self.sync_counters();
    }
}

fn new_batch(device: &Device) -> Batch {
    let cover = match device.integrity {
        Integrity::Headers => Cover::Headers,
        Integrity::Crc32c => Cover::All,
    };
    Batch::new(cover, device.attr().max_msg_bytes as usize)
}

fn new_endpoint(device: &Device, qpn: u16, wire: &UdpWire) -> Endpoint {
    let mut config = srd::Config::socket();
    config.max_message_bytes = device.attr().max_msg_bytes;
    config.paths = wire.paths().paths();
    config.peers_max = PEERS_MAX;
    config.report_losses = device.is_traced();
    // The peer's kernel queues about as much for us as ours does for it; beyond that it drops.
    let room = u32::try_from(wire.receive_buffer_bytes() / 5 * 2).unwrap_or(u32::MAX);
    config.window_max_bytes = config.window_max_bytes.min(room).max(config.window_min_bytes);
    config.window_initial_bytes = config.window_initial_bytes.min(config.window_max_bytes);
    Endpoint::new(config, qpn, host::epoch_ns(), host::random_u64())
}
