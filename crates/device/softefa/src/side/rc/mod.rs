//! Reliable, extended reliable and unreliable connections of RoCE v2: the engine `rc` between the
//! shell's queues and the wire.
//!
//! ```text
//! post_send --> post --> engine --> transmit --> Batch
//! Datagram --> receive --> engine --> serve (memory, receives) --> engine --> transmit
//! engine --> harvest: completions, the end of the connection
//! ```
//! The engine sees headers and lengths, never payload. Acknowledgements of a turn that completed
//! receives wait for the next turn, so that they leave together with the answer of a program that
//! answers at once.

mod connect;
mod count;
mod harvest;
mod kernel_traffic;
mod lapses;
mod lint;
mod plain;
mod post;
mod receive;
mod serve;
#[cfg(test)]
mod tests;
mod trace;
mod transmit;
mod unreachable;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rc::Endpoint;
use srd::Instant;

use crate::address::NOWHERE;
use crate::completion::Sender;
use crate::counters::Gauge;
use crate::datagram::Datagram;
use crate::qp_state::{QpKind, QpState};
use crate::request::{SendOp, SendWr};
use crate::rq::RecvWqe;
use crate::seal::Notice;
use crate::shell::{Carried, Shell, Side};
use crate::status::Status;
use crate::wire::{MAX_PACKETS, PathSockets};

use count::Synced;
use kernel_traffic::KernelTraffic;
use transmit::Leaving;

/// The number of work requests in flight that make a stream, whose acknowledgements are sent
/// separately.
const STREAM_REQUESTS: usize = 8;
/// The length of an acknowledgement with its ICRC.
const ACK_BYTES: usize = rc::wire::Bth::LEN + rc::wire::Aeth::LEN + rc::wire::icrc::LEN;

/// The RC, XRC or UC transport of a queue pair.
pub(super) struct RcSide {
    shell: Shell,
    endpoint: Endpoint,
    /// It is RC or XRC, not UC.
    is_reliable: bool,
    paths: Arc<PathSockets>,
    /// The path that everything uses, because order matters.
    path: u16,
    kernel_traffic: KernelTraffic,
    /// Packets currently go through the kernel.
    takes_kernel: bool,
    /// The address of the peer, from RTR on.
    peer: Option<SocketAddr>,
    /// The peer as completions name it.
    peer_name: Sender,
    /// The peer sends messages that use receives.
    takes_receives: bool,
    /// The receive of the message that has begun.
    current: Option<RecvWqe>,
    /// The owners of the bytes in the batch, by their places.
    leaving: Vec<Leaving>,
    /// The last turn has completed receives, whose acknowledgements may wait one more turn.
    holds_acks: bool,
    /// Messages that are longer than a packet may be in flight, or be requested.
    has_long: bool,
    /// The peer has changed memory of this side.
    is_written: bool,
    /// The program has destroyed the queue pair: only acknowledgements of accepted messages are
    /// repeated.
    is_closing: bool,
    last_accepted: Option<Instant>,
    last_collection: Instant,
    synced: Synced,
    /// The payload of packets, whatever they belong to.
    carried: Carried,
}

/// Converts a time to that of the engine, which has the same clock.
#[inline]
fn time(now: Instant) -> rc::Instant {
    rc::Instant::from_ns(now.as_ns())
}

impl RcSide {
    pub(super) fn new(shell: Shell, paths: Arc<PathSockets>, kind: QpKind) -> Self {
        let endpoint = connect::new_endpoint(&shell.device, shell.qpn, kind);
        let path = paths.path_of(shell.port);
        Self {
            shell,
            endpoint,
            is_reliable: kind != QpKind::Uc,
            paths,
            path,
            kernel_traffic: KernelTraffic::default(),
            takes_kernel: false,
            peer: None,
            peer_name: Sender { addr: NOWHERE, qpn: 0 },
            takes_receives: false,
            current: None,
            leaving: Vec::with_capacity(MAX_PACKETS),
            holds_acks: false,
            has_long: false,
            is_written: false,
            is_closing: false,
            last_accepted: None,
            last_collection: Instant::ZERO,
            synced: Synced::default(),
            carried: Carried::default(),
        }
    }

    /// Sends what waits to leave with other packets, before the end: hardware would have sent it.
    fn send_held(&mut self, now: Instant) {
        if std::mem::take(&mut self.holds_acks) {
            self.transmit_packets(now);
        }
    }

    fn is_ready_to_receive(&self) -> bool {
        !matches!(self.shell.attrs.state, QpState::Reset | QpState::Init | QpState::Error)
    }
}

impl Side for RcSide {
    #[inline]
    fn shell(&self) -> &Shell {
        &self.shell
    }

    #[inline]
    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn changed(&mut self, now: Instant, from: QpState, to: QpState) {
        self.connect(now, from, to);
    }

    fn set_qkey(&mut self, _qkey: u32) {}

    fn has_rdma(&self) -> bool {
        true
    }

    fn start(&mut self, now: Instant, index: u32) {
        self.start_request(now, index);
    }

    fn is_idle(&self, _unpolled: u32, _op: SendOp) -> bool {
        self.endpoint.in_flight() <= self.shell.unsent_messages as usize
    }

    fn awaits_answers(&self) -> bool {
        self.endpoint.in_flight() > 0
    }

    fn has_waiting(&self) -> bool {
        self.endpoint.has_unsent() || self.shell.attrs.state == QpState::SendQueueDrained
    }

    fn distrust_times(&mut self) {
        self.endpoint.discard_timing();
    }

    /// An unreliable connection loses messages without a receive, so they are left in the wire
    /// until the program has posted more.
    fn has_enough(&self) -> bool {
        self.takes_receives && !self.is_reliable && self.shell.receives_left() < MAX_PACKETS
    }

    fn is_streaming(&self) -> bool {
        self.endpoint.in_flight() >= STREAM_REQUESTS
    }

    /// The length of an acknowledgement: its turn must not end before that of the request after it
    /// (RC-6.5).
    fn preface_bytes(&self) -> usize {
        ACK_BYTES
    }

    fn begin_turn(&mut self, _now: Instant) {
        self.holds_acks = false;
    }

    fn flush_acks(&mut self, _now: Instant) {
        self.holds_acks = false;
    }

    #[inline]
    fn take(&mut self, now: Instant, from: IpAddr, datagram: &Datagram<'_>) {
        self.receive_packet(now, from, datagram);
    }

    fn take_notice(&mut self, now: Instant, from: IpAddr, notice: &Notice) {
        self.take_notice_rc(now, from, notice);
    }

    fn take_written(&mut self) -> bool {
        std::mem::take(&mut self.is_written)
    }

    fn note_turn(&mut self, has_received: bool) {
        let messages = self.shell.recvs_done.len();
        self.holds_acks = has_received && (1..STREAM_REQUESTS).contains(&messages);
    }

    fn advance(&mut self, now: Instant) {
        self.expire(now);
        self.harvest(now);
    }

    fn send_out(&mut self, now: Instant) {
        self.transmit_packets(now);
    }

    fn is_draining(&self) -> bool {
        self.endpoint.is_draining()
    }

    fn next_due(&self) -> Option<Instant> {
        if self.endpoint.has_backlog() {
            return Some(self.shell.last_turn);
        }
        self.endpoint.poll_timeout().map(|at| Instant::from_ns(at.as_ns()))
    }

    /// Ends everything in flight with the connection.
    fn cancel(&mut self, now: Instant) {
        if !self.is_closing || self.endpoint.in_flight() > 0 {
            self.endpoint.fail(time(now));
            while self.endpoint.poll_event().is_some() {}
        }
        self.current = None;
    }

    fn abandon(&mut self) {
        self.end_receives(None);
    }

    /// A connection does not depend on address handles.
    fn cancel_toward(&mut self, _now: Instant, _addr: IpAddr) {}

    fn begin_close(&mut self, _now: Instant) {
        self.is_closing = true;
    }

    fn final_acks(&mut self, now: Instant) {
        self.holds_acks = false;
        self.endpoint.final_ack(time(now));
        self.transmit(now);
        self.sync_counters();
    }

    fn last_accepted(&self) -> Option<Instant> {
        self.last_accepted
    }

    fn retire(&mut self, _key: u32) {}

    fn sync_counters(&mut self) {
        self.move_counts();
    }

    fn gauge(&self) -> Gauge {
        self.gauge_of_engine()
    }

    /// A work request that is impossible ends in its turn, and with it the connection.
    fn post_send(&mut self, wr: &SendWr<'_>, signaled: bool) -> bool {
        self.post_request(wr, signaled)
    }

    /// Work requests end in order, and their completions tell whether they were done.
    fn flush(&mut self, now: Instant) {
        self.send_held(now);
        self.endpoint.fail(time(now));
        self.harvest(now);
        self.end_receives(None);
        self.shell.end_all(Status::Flushed);
    }

    fn reset(&mut self, now: Instant) {
        self.send_held(now);
        self.cancel(now);
        if !self.is_closing {
            self.endpoint.reset();
            self.kernel_traffic = KernelTraffic::default();
            self.peer = None;
            if let Some(sealed) = self.shell.framing.sealed_mut() {
                sealed.listen_to(None);
            }
        }
        self.shell.forget_all();
    }
}
