//! Scalable Reliable Datagram: the engine between the shell's queues and the wire.
//!
//! The engine sees descriptors, never payload. Acknowledgements of a turn wait until the next one,
//! so that they leave with the answer of a program that answers at once.

mod answering;
mod count;
mod end;
mod frame;
mod rdma;
mod receive;
mod resend;
mod send;
mod trace;
mod unreachable;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use srd::{Address, Endpoint, Instant, MsgId, PeerId, Seed};

use super::SideInit;
use crate::counters::Gauge;
use crate::datagram::Datagram;
use crate::device::Device;
use crate::host;
use crate::request::SendOp;
use crate::seal::Notice;
use crate::shell::{Shell, Side};
use crate::wire::{MAX_PACKETS, PathSockets};

use answering::Answering;
use count::Synced;

/// The most peers of one queue pair: strangers who open connections must not take all memory.
const PEERS_MAX: usize = 16_384;
/// The network 127.0.0.0/8: any program of this machine may send from any of its addresses.
const LOOPBACK: std::ops::Range<u64> = 0x7F00_0000..0x8000_0000;
/// How often refused datagrams are checked at most while a peer does not answer.
const COLLECT_NS: u64 = 1_000_000;
/// If a timer is this late the process has not run, and reads what has arrived before the timer
/// acts.
const LATE_NS: u64 = 1_000_000;
/// A message for a posted receive.
const OP_SEND: u8 = 0;
/// Asks whether a message has arrived whose bytes its sender has no more. It is never taken as new
/// (SRD-6.7).
const OP_GONE: u8 = 19;

/// The SRD transport of a queue pair.
pub(super) struct SrdSide {
    shell: Shell,
    endpoint: Endpoint,
    rdma: rdma::Rdma,
    paths: Arc<PathSockets>,
    /// The messages whose datagrams are in the batch, by their places. For a frame only the
    /// receiver is stored.
    leaving: Vec<Option<(PeerId, Option<MsgId>)>>,
    /// The buffer for headers from the engine. It is kept, because clearing it would cost as much
    /// as writing a header.
    header: Option<Box<[u8; srd::HEADER_MAX]>>,
    /// The bytes of a repeated message. The buffer grows to the longest one.
    again: Vec<u8>,
    /// The frame that is being sent.
    frame: Vec<u8>,
    /// How WRITEs with immediate are received.
    write_recv: rdma::WriteRecv,
    /// Whether what came before the refusals is being read; they wait until all of it was.
    has_looked: bool,
    /// When the latest message was accepted, whose acknowledgement may have to be repeated.
    last_accepted: Option<Instant>,
    answering: Answering,
    last_collection: Instant,
    synced: Synced,
    /// The peers that have been traced.
    heard: HashSet<PeerId>,
}

impl SrdSide {
    pub(super) fn new(shell: Shell, paths: Arc<PathSockets>, init: SideInit) -> Self {
        let endpoint = new_endpoint(&shell.device, shell.port, &paths, init.receive_buffer_bytes);
        Self {
            shell,
            endpoint,
            rdma: rdma::Rdma::default(),
            paths,
            leaving: Vec::with_capacity(MAX_PACKETS),
            header: None,
            again: Vec::new(),
            frame: Vec::new(),
            write_recv: rdma::WriteRecv::new(init.unsolicited_write_recv, init.recv_cq_depth),
            has_looked: false,
            last_accepted: None,
            answering: Answering::default(),
            last_collection: Instant::ZERO,
            synced: Synced::default(),
            heard: HashSet::new(),
        }
    }

    /// Handles timers and refused datagrams.
    fn expire(&mut self, now: Instant) {
        let due = self.endpoint.poll_timeout().filter(|&at| at <= now);
        let is_due = due.is_some();
        if due.is_some_and(|at| now.ns_since(at) >= LATE_NS) && !self.shell.has_read_all() {
            return;
        }
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
            if self.shell.is_traced() {
                self.trace_timer(self.endpoint.stats().retrans_timeout_events - before);
            }
            self.sync_counters();
        }
        self.probe_reads(now);
    }
}

impl Side for SrdSide {
    #[inline]
    fn shell(&self) -> &Shell {
        &self.shell
    }

    #[inline]
    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    /// Sets the key that messages must carry, including those that open a connection.
    fn set_qkey(&mut self, qkey: u32) {
        self.shell.attrs.qkey = qkey;
        self.endpoint.set_qkey(Some(qkey));
    }

    fn has_rdma(&self) -> bool {
        true
    }

    fn start(&mut self, now: Instant, index: u32) {
        self.start_send(now, index);
    }

    fn is_idle(&self, _unpolled: u32, op: SendOp) -> bool {
        // The bytes of others come first in the next turn, and what it confirms then leaves
        // together with this: waking who sleeps there costs as much as copying 100 KiB.
        let waits_for_copies = matches!(op, SendOp::Read(_)) && self.rdma.has_copies();
        !waits_for_copies && self.endpoint.in_flight() <= self.shell.unsent_messages as usize
    }

    fn has_enough(&self) -> bool {
        false
    }

    fn is_streaming(&self) -> bool {
        self.awaits_many()
    }

    fn begin_turn(&mut self, now: Instant) {
        if self.answering.are_acks_due() {
            self.endpoint.flush_acks(now);
        }
    }

    fn flush_acks(&mut self, now: Instant) {
        self.endpoint.flush_acks(now);
    }

    #[inline]
    fn take(&mut self, now: Instant, from: IpAddr, datagram: &Datagram<'_>) {
        self.receive_srd(now, from, datagram);
    }

    fn take_notice(&mut self, now: Instant, from: IpAddr, notice: &Notice) {
        self.take_notice_srd(now, from, notice);
    }

    fn note_turn(&mut self, has_received: bool) {
        self.answering.note_turn(has_received);
    }

    fn advance(&mut self, now: Instant) {
        self.expire(now);
        self.harvest(now);
        self.advance_copies(now);
        self.feed(now);
    }

    fn send_out(&mut self, now: Instant) {
        self.transmit_srd(now);
    }

    fn next_due(&self) -> Option<Instant> {
        if self.rdma.has_copies() {
            return Some(self.shell.last_turn);
        }
        [self.endpoint.poll_timeout(), self.rdma.next_probe()].into_iter().flatten().min()
    }

    fn cancel(&mut self, now: Instant) {
        self.restart_engine(now);
    }

    fn abandon(&mut self) {
        self.rdma.clear();
    }

    fn cancel_toward(&mut self, now: Instant, addr: IpAddr) {
        self.flush_toward(now, addr);
    }

    fn begin_close(&mut self, now: Instant) {
        self.endpoint.begin_close(now);
    }

    fn final_acks(&mut self, now: Instant) {
        self.endpoint.final_acks(now);
        self.transmit(now);
        self.sync_counters();
    }

    fn last_accepted(&self) -> Option<Instant> {
        self.last_accepted
    }

    fn retire(&mut self, key: u32) {
        self.shell.sq.end_leases_of(key);
        self.rdma.wait_for_copies();
    }

    fn sync_counters(&mut self) {
        self.move_counts();
    }

    fn gauge(&self) -> Gauge {
        self.gauge_of_engine()
    }
}

fn new_endpoint(
    device: &Device,
    qpn: u16,
    paths: &PathSockets,
    receive_buffer_bytes: usize,
) -> Endpoint {
    let mut config = srd::Config::socket();
    config.max_message_bytes = device.attr().max_msg_bytes;
    config.paths = paths.paths();
    config.peers_max = PEERS_MAX;
    // Datagrams recorded for a predecessor with the same number open here, too (SRD-11.7).
    config.always_challenge = device.sealing.key().is_some();
    config.own_hosts = LOOPBACK;
    config.report_losses = device.is_traced();
    // The peer's kernel queues about as much for us as ours does for it; beyond that it drops.
    let room = u32::try_from(receive_buffer_bytes / 5 * 2).unwrap_or(u32::MAX);
    config.window_max_bytes = config.window_max_bytes.min(room).max(config.window_min_bytes);
    config.window_initial_bytes = config.window_initial_bytes.min(config.window_max_bytes);
    Endpoint::new(config, qpn, Seed::new(host::random_bytes()))
}

/// Returns the address of a queue pair of another device.
fn socket_addr(host: u64, qpn: u16) -> SocketAddr {
    #[expect(clippy::cast_possible_truncation, reason = "hosts are IPv4 addresses")]
    let addr = Ipv4Addr::from(host as u32);
    SocketAddr::new(addr.into(), qpn)
}

/// Returns the engine's id of a host. EFAs have IPv4 addresses only.
#[inline]
fn host_at(addr: IpAddr) -> u64 {
    match addr {
        IpAddr::V4(addr) => u64::from(addr.to_bits()),
        IpAddr::V6(_) => u64::MAX,
    }
}

/// Returns the engine's id of a queue pair.
fn address(of: SocketAddr) -> Address {
    Address { host: host_at(of.ip()), qpn: of.port() }
}
