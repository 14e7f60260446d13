//! Receiving: runs from the wire to the transport, and messages into posted receives.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use srd::Instant;

use super::groups::receive_in_groups;
use super::unfit::turn_away;
use super::{Shell, Side};
use crate::AHN_UNKNOWN;
use crate::address::NOWHERE;
use crate::async_event::AsyncEventKind;
use crate::completion::Sender;
use crate::counters::Counter;
use crate::datagram::Datagram;
use crate::rq::{NoReceive, RecvWqe};
use crate::status::Status;
use crate::wire::{Run, Unplugged, Wire};

/// The most runs that one turn receives, so that a flood cannot keep a program from its
/// completions.
pub(super) const RUNS_PER_TURN: usize = 16;
/// The most bytes that one turn receives through memory: the sender waits for the acknowledgement
/// of half a window while it fills the other half.
const MEMORY_BYTES_PER_TURN: u64 = 128 << 10;
/// A run this long is part of a stream, so the turn polls for another run. Otherwise the second
/// poll would find nothing and cost a ping-pong a system call. Streams need it: a sender that gets
/// one acknowledgement per turn answers it with as few messages, and bursts that have become short
/// stay short.
const STREAM_BYTES: usize = 4096;

/// The most turns that wait for the wire to be empty, if there is always more to read.
const UNREAD_TURNS_MAX: u32 = 64;

/// What one turn has received.
#[derive(Default)]
pub(super) struct Received {
    runs: usize,
    /// The packets that came through memory.
    memory_pkts: u64,
    /// The runs that came through memory.
    memory_runs: usize,
    pkts: u64,
    bytes: u64,
}

impl Received {
    /// Notes a datagram of `len` bytes that came by itself.
    pub(super) fn note_one(&mut self, len: usize) {
        self.runs += 1;
        self.pkts += 1;
        self.bytes += len as u64;
    }
}

/// A wire outside of its shell, so that the side can process what the wire lends. It returns even
/// if the side panics, because its socket must be closed with the queue pair.
struct Lender<'a, S: Side + ?Sized> {
    side: &'a mut S,
    wire: Box<dyn Wire>,
}

impl<'a, S: Side + ?Sized> Lender<'a, S> {
    #[inline]
    fn new(side: &'a mut S) -> Self {
        let wire = std::mem::replace(&mut side.shell_mut().wire, Box::new(Unplugged));
        Self { side, wire }
    }
}

impl<S: Side + ?Sized> Drop for Lender<'_, S> {
    #[inline]
    fn drop(&mut self) {
        std::mem::swap(&mut self.side.shell_mut().wire, &mut self.wire);
    }
}

/// Hands what has arrived to `side`; returns whether anything has.
pub(super) fn receive<S: Side + ?Sized>(side: &mut S, now: Instant) -> bool {
    let is_streaming = side.is_streaming();
    let mut received = Received::default();
    let mut lender = Lender::new(side);
    let mut has_read_all = false;
    while received.runs < RUNS_PER_TURN {
        let Some(mut run) = lender.wire.receive(now) else {
            has_read_all = true;
            break;
        };
        let len = run.len();
        received.runs += 1;
        let is_preface = run.is_memory && len <= lender.side.preface_bytes();
        let pkts = run.bytes.len().div_ceil(run.segment) as u64;
        received.pkts += pkts;
        if run.is_memory {
            received.memory_pkts += pkts;
            received.memory_runs += 1;
        }
        received.bytes += len as u64;
        let before = lender.side.shell().useless;
        take_run(lender.side, now, &mut run);
        let is_much = received.memory_runs > 0 && received.bytes >= MEMORY_BYTES_PER_TURN;
        let is_short = len < STREAM_BYTES && !is_streaming && !is_preface;
        // What strangers send must not cost those behind them a turn each.
        let is_useless = lender.side.shell().useless != before;
        let is_enough = is_short || lender.side.has_enough();
        if is_much || (is_enough && !is_useless && !lender.side.shell().takes_all) {
            break;
        }
    }
    drop(lender);
    if side.shell().has_groups() {
        receive_in_groups(side, now, &mut received);
    }
    let shell = side.shell_mut();
    shell.has_received = received.runs > 0;
    let shared = std::mem::take(&mut shell.shared_messages);
    let messages = if received.memory_runs > 0 { received.memory_pkts + shared } else { 0 };
    shell.pace.note(messages, received.bytes);
    shell.unread_turns = if has_read_all { 0 } else { shell.unread_turns + 1 };
    shell.count_received(&received);
    if !shell.notices.is_empty() {
        shell.send_notices(now);
    }
    shell.has_received
}

fn take_run<S: Side + ?Sized>(side: &mut S, now: Instant, run: &mut Run<'_>) {
    let from = run.from.ip();
    let shell = side.shell_mut();
    (shell.arriving_from, shell.is_from_memory) = (from, run.is_memory);
    let (rest, writer) = (run.rest.unwrap_or_default(), run.from);
    for datagram in run.bytes.chunks_mut(run.segment) {
        let framing = &mut side.shell_mut().framing;
        if framing.is_plain(from, datagram, rest) {
            side.take(now, from, &Datagram::new(datagram, rest));
            continue;
        }
        if run.is_proven && framing.is_clear(writer, datagram) {
            side.take(now, from, &Datagram::new(datagram, rest));
            continue;
        }
        match framing.open(from, datagram) {
            Ok(inner) => side.take(now, from, &Datagram::from(&datagram[inner])),
            Err(unfit) => {
                side.shell_mut().useless += 1;
                turn_away(side, now, from, datagram, unfit);
            }
        }
    }
}

impl Shell {
    /// Begins a turn, of a polling program or of a thread in its place.
    pub(super) fn begin_turn(&mut self, now: Instant, is_polled: bool) {
        self.last_turn = now;
        self.update_faults(now);
        self.holding.note_turn(now, is_polled, self.unpolled.taken());
        self.count_sends();
    }

    /// Returns true if everything that is known to have arrived was read. What is still unread may
    /// be the answer that a timer waits for, or the last one of a peer that is gone.
    pub(crate) fn has_read_all(&self) -> bool {
        self.unread_turns == 0 || self.unread_turns >= UNREAD_TURNS_MAX
    }

    /// Returns true if the last turn found the wire empty.
    pub(crate) fn has_emptied_wire(&self) -> bool {
        self.unread_turns == 0
    }

    /// Makes the next turn read every source.
    pub(crate) fn poll_everything(&mut self) {
        self.wire.poll_everything();
    }

    fn count_received(&mut self, received: &Received) {
        if received.runs == 0 {
            return;
        }
        let counters = &self.device.counters;
        counters.add(Counter::RxPkts, received.pkts);
        counters.add(Counter::RxBytes, received.bytes);
        counters.add(Counter::RxMemoryPkts, received.memory_pkts);
        counters.add(Counter::RxSyscalls, (received.runs - received.memory_runs) as u64);
        counters.add(Counter::RecvWrs, self.recvs_done.len() as u64);
        let delivered = self.recvs_done.iter().map(|c| u64::from(c.byte_len)).sum();
        counters.add(Counter::RecvBytes, delivered);
        self.carried.received_bytes += delivered;
    }

    /// Returns the sender of the datagram that is being handled.
    pub(crate) fn arriving_from(&self) -> IpAddr {
        self.arriving_from
    }

    /// Counts and traces a datagram from `from` that is not used.
    pub(crate) fn drop_datagram(&mut self, from: IpAddr, why: &dyn Display) {
        self.device.counters.add(Counter::RxDrops, 1);
        if self.is_traced() {
            self.trace_drop(SocketAddr::new(from, 0), why);
        }
    }

    /// Returns the receive for the next message.
    pub(crate) fn next_receive(&mut self) -> Option<RecvWqe> {
        if self.has_receive() { self.rq.front().cloned() } else { None }
    }

    /// Returns true if there is a receive for the next message. A receive at the head of the queue
    /// whose memory is not writable (any more) completes with its own error, so that it does not
    /// block those behind it.
    #[inline]
    pub(crate) fn has_receive(&mut self) -> bool {
        if self.deal_not_ready() {
            return false;
        }
        while let Some(wqe) = self.rq.front() {
            if wqe.is_writable(&mut self.recv_mrs) {
                return true;
            }
            self.fail_first_recv(Status::LocalInvalidLkey);
        }
        false
    }

    /// Completes the first receive of the queue, without a message.
    #[cold]
    pub(crate) fn fail_first_recv(&mut self, status: Status) {
        if let Some(wqe) = self.rq.pop() {
            self.fail_recv(&wqe, status);
        }
    }

    /// Takes the next receive of a RoCE queue pair, its own or a shared one, without checking its
    /// memory.
    pub(crate) fn take_receive(&mut self) -> Option<RecvWqe> {
        match (&self.srq, &mut self.named) {
            (None, None) => self.rq.pop(),
            (Some(srq), _) => srq.take(),
            (None, Some(named)) => named.take(),
        }
    }

    /// Takes the next receive of a RoCE queue pair for a message of `len` bytes. One that is too
    /// short stays the next.
    pub(crate) fn take_receive_for(&mut self, len: usize) -> Result<RecvWqe, NoReceive> {
        if let Some(srq) = &self.srq {
            return srq.take_for(len);
        }
        NoReceive::check(self.rq.front(), len)?;
        self.rq.pop().ok_or(NoReceive::NotPosted)
    }

    /// Returns true if the receives of a RoCE queue pair are in its own queue.
    #[inline]
    pub(crate) fn has_own_receives(&self) -> bool {
        self.srq.is_none() && self.named.is_none()
    }

    /// Returns the number of receives for a RoCE queue pair. Other queue pairs may share them.
    pub(crate) fn receives_left(&self) -> usize {
        self.srq.as_ref().map_or(self.rq.len(), |srq| srq.len())
    }

    /// Reports an asynchronous event at the end of the turn, when the completions before it can be
    /// polled.
    #[cold]
    pub(crate) fn report(&mut self, kind: AsyncEventKind) {
        self.unreported.push(kind);
    }

    #[inline]
    pub(crate) fn has_reports(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// Delivers the reported events to the program.
    #[cold]
    pub(crate) fn deliver_events(&mut self) {
        for kind in self.unreported.drain(..) {
            self.events.iter().for_each(|events| events.report(kind));
        }
    }

    pub(crate) fn complete_recv(
        &mut self,
        wr_id: u64,
        src: &Sender,
        byte_len: usize,
        imm: Option<u32>,
        has_grh: bool,
    ) {
        let ahn = self.ahn_of(src.addr);
        self.recvs_done.push(self.blank_recv);
        let Some(done) = self.recvs_done.last_mut() else { return };
        if let Some(named) = &mut self.named {
            done.owner = named.note_completed();
        }
        (done.wr_id, done.src_qpn, done.src_addr, done.ahn) = (wr_id, src.qpn, src.addr, ahn);
        done.byte_len = u32::try_from(byte_len).unwrap_or(u32::MAX);
        (done.imm, done.has_grh) = (imm, has_grh);
    }

    /// Completes a receive without a message.
    pub(crate) fn fail_recv(&mut self, wqe: &RecvWqe, status: Status) {
        let nowhere = Sender { addr: NOWHERE, qpn: 0 };
        self.complete_recv(wqe.wr_id, &nowhere, 0, None, false);
        if let Some(completion) = self.recvs_done.last_mut() {
            completion.status = status;
            completion.ahn = AHN_UNKNOWN;
        }
    }
}
