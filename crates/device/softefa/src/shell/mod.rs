//! What every transport shares: the part of a queue pair that its lock protects.
//!
//! ```text
//! post_send --> sq --> Side::start ... Side::send_out --> Batch --> Wire
//! Wire --> datagram --> Side::take --> rq --copy--> program, Completion --> Cq
//! ```
//! A [`Side`] is one transport. It owns its shell and decides what leaves, what a datagram means
//! and when; the shell keeps work requests, keys, completions, counters and the trace.

mod count;
mod faults;
mod groups;
mod holding;
mod pace;
mod receive;
mod send;
mod side;
mod target;
mod trace;
mod unfit;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use srd::Instant;

use crate::AHN_UNKNOWN;
use crate::address::NOWHERE;
use crate::async_event::{AsyncEventKind, EventSource};
use crate::completion::{Completion, Unpolled};
use crate::config::{Adapter, Integrity};
use crate::counters::Slot;
use crate::device::Device;
use crate::fault::stream_of;
use crate::framing::{Framing, Layout, Packets, RDMA_BLOCK_BYTES, Sealed};
use crate::host;
use crate::ids::{PdId, QpId};
use crate::mr::MrCache;
use crate::numbering::Numbering;
use crate::pd::Pd;
use crate::qp_state::{QpKind, QpQuery};
use crate::rq::RecvQueue;
use crate::sq::SendQueue;
use crate::srq::{Srq, XrcQueues};
use crate::wire::{Batch, DatagramFaults, Faulty, Groups, Sleep, Tap, Unplugged, Via, Wire};

use faults::Faults;
use holding::Holding;
use pace::Pace;
use send::UnsentMax;
use target::Named;
use unfit::OutgoingNotice;

pub(crate) use side::{AckTiming, Side};

/// What a burst puts into a ring at most: 64 packets of a message, or joined ones.
const BURST_BYTES_MAX: usize = 1 << 20;
/// All headers of a datagram of any transport. A frame is nothing else.
const HEADERS_MAX: usize = srd::HEADER_MAX + {
    let (block, frame) = (RDMA_BLOCK_BYTES, srd::wire::frame::FRAME_BYTES_MAX);
    if block > frame { block } else { frame }
};

/// What a queue pair has whatever its transport is.
pub(crate) struct Shell {
    pub(crate) attrs: QpQuery,
    pub(crate) device: Arc<Device>,
    pub(crate) pd: PdId,
    /// The number of the queue pair.
    pub(crate) qpn: u32,
    /// The UDP port of its socket.
    pub(crate) port: u16,
    pub(crate) sq: SendQueue,
    pub(crate) rq: RecvQueue,
    /// The shared receive queue, which replaces `rq`.
    pub(crate) srq: Option<Arc<Srq>>,
    /// The shared queues that peers name, if this is an XRC target.
    named: Option<Named>,
    /// The sources that report its asynchronous events.
    pub(crate) events: Vec<Arc<EventSource>>,
    /// Events that are reported at the end of the turn.
    unreported: Vec<AsyncEventKind>,
    /// The identity that windows are bound through.
    pub(crate) id: QpId,
    /// The regions that sends read, as looked up last.
    pub(crate) send_mrs: MrCache,
    /// The regions that receives write, as looked up last.
    pub(crate) recv_mrs: MrCache,
    /// The regions that peers name, as looked up last.
    pub(crate) remote_mrs: MrCache,
    wire: Box<dyn Wire>,
    /// Which arrivals the socket signals, while the wire sleeps.
    wire_sleeps: Option<Sleep>,
    /// The multicast groups, once it has been a member of one.
    groups: Option<Box<Groups>>,
    /// It does not receive what it sends to these groups itself.
    pub(crate) ignores_itself: bool,
    /// The attachment point of captures.
    tap: Tap,
    pub(crate) faults: Faults,
    /// The sender of the datagram that is being handled.
    arriving_from: IpAddr,
    /// Whether that datagram came through memory.
    pub(crate) is_from_memory: bool,
    pub(crate) framing: Framing,
    batch: Batch,
    /// The receiver of the datagram that was added last, and whether datagrams to it are not
    /// sealed.
    unsealed: Option<(SocketAddr, bool)>,
    /// Notices that are sent after everything that arrived has been handled.
    notices: Vec<OutgoingNotice>,
    /// The sender of the last datagram that this key does not open.
    unreadable: Option<IpAddr>,
    pub(crate) sends_done: Vec<Completion>,
    pub(crate) recvs_done: Vec<Completion>,
    pub(crate) unsent_messages: u32,
    unsent_bytes: u32,
    /// The number of messages without a completion since the last one with a completion.
    unsignaled: u32,
    /// A message with a completion follows many without, and has not been offered to the wire.
    ends_row: bool,
    unsent_max: UnsentMax,
    holding: Holding,
    pub(crate) unpolled: Arc<Unpolled>,
    /// The common fields of the completions of its sends. A completion is filled in from a copy.
    blank_send: Completion,
    /// The common fields of the completions of its receives.
    blank_recv: Completion,
    last_ahn: LastAhn,
    pub(crate) last_turn: Instant,
    has_received: bool,
    pace: Pace,
    /// The number of messages in this turn that shared datagrams.
    pub(crate) shared_messages: u64,
    /// The number of turns since the wire was last emptied.
    unread_turns: u32,
    /// Turns receive everything, not only as much as suits a polling program.
    pub(crate) takes_all: bool,
    /// It was connected before RESET, and its next connection may have the same numbers.
    pub(crate) has_past: bool,
    /// The number of datagrams that belong to no connection.
    pub(crate) useless: u64,
    sends: Tally,
    /// Its slot in the counters file.
    pub(crate) slot: Slot,
    pub(crate) carried: Carried,
    /// The trace, if the user asked for one.
    trace: Option<crate::trace::Tracer>,
}

/// The parts of a shell.
pub(crate) struct ShellInit<'a> {
    pub(crate) pd: &'a Pd,
    pub(crate) kind: QpKind,
    pub(crate) qpn: u32,
    pub(crate) port: u16,
    /// The UDP port that it sends from.
    pub(crate) src_port: u16,
    pub(crate) wire: Box<dyn Wire>,
    pub(crate) tap: Tap,
    /// The session of its keys, if the device has a key.
    pub(crate) session: u64,
    pub(crate) unpolled: Arc<Unpolled>,
    /// The owner numbers in the completion queues for sends and for receives.
    pub(crate) owners: [u16; 2],
    pub(crate) sq_depth: u32,
    pub(crate) rq_depth: u32,
    pub(crate) srq: Option<Arc<Srq>>,
    /// The queues of its domain, if this is an XRC target.
    pub(crate) queues: Option<Arc<XrcQueues>>,
    pub(crate) events: Option<Arc<EventSource>>,
}

/// Sends that were posted since the last turn. They are counted here first, because all queue pairs
/// of a device share its counters.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: u64,
    bytes: u64,
}

/// The payload that a queue pair has carried, each byte counted once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carried {
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

/// The last look-up of a sender's address handle number.
#[derive(Debug, Clone, Copy)]
struct LastAhn {
    addr: IpAddr,
    generation: u64,
    ahn: u16,
}

impl Shell {
    pub(crate) fn new(init: ShellInit<'_>) -> Self {
        let ShellInit { pd, qpn, port, wire, tap, unpolled, .. } = init;
        let [send_owner, recv_owner] = init.owners;
        let (device, pd) = (pd.device(), pd.id());
        let stream = stream_of(device.streams.fetch_add(1, Ordering::Relaxed));
        let unspecified = NOWHERE;
        let framing = framing(device, (port, init.src_port), init.session);
        let now = host::now();
        let (faults, in_force) = Faults::new(device, now, stream);
        let of_wire = DatagramFaults::new(&in_force, stream);
        let cache = |pd| MrCache::new(Arc::clone(&device.mrs), pd);
        // Receives of a shared queue are of its domain, which may be another one.
        let pd_of_receives = init.srq.as_ref().map_or(pd, |srq| srq.pd().id());
        let mut shell = Self {
            attrs: QpQuery { rnr_retry: 7, ..QpQuery::default() },
            device: Arc::clone(device),
            pd,
            qpn,
            port,
            sq: SendQueue::new(init.sq_depth, device.local_key.is_some(), device.numbering()),
            rq: RecvQueue::new(init.rq_depth),
            srq: init.srq,
            named: init.queues.map(Named::new),
            events: Vec::from_iter(init.events),
            unreported: Vec::new(),
            id: QpId::next(),
            send_mrs: cache(pd),
            recv_mrs: cache(pd_of_receives),
            remote_mrs: cache(pd),
            wire: with_faults(wire, &tap, framing.layout(), of_wire),
            wire_sleeps: None,
            groups: None,
            ignores_itself: false,
            tap,
            faults,
            arriving_from: unspecified,
            is_from_memory: false,
            batch: Batch::new(&framing, HEADERS_MAX, device.attr().packet_max_bytes() as usize),
            framing,
            unsealed: None,
            notices: Vec::new(),
            unreadable: None,
            sends_done: Vec::new(),
            recvs_done: Vec::new(),
            unsent_messages: 0,
            unsent_bytes: 0,
            unsignaled: 0,
            ends_row: false,
            unsent_max: UnsentMax::new(init.kind, init.sq_depth),
            holding: Holding::new(device.sends_at_once),
            unpolled,
            blank_send: Completion::of_sends(qpn, send_owner),
            blank_recv: Completion::of_receives(qpn, recv_owner, device.adapter() == Adapter::Roce),
            last_ahn: LastAhn { addr: unspecified, generation: u64::MAX, ahn: AHN_UNKNOWN },
            last_turn: now,
            has_received: false,
            pace: Pace::default(),
            shared_messages: 0,
            unread_turns: 0,
            takes_all: false,
            has_past: false,
            useless: 0,
            sends: Tally::default(),
            slot: device.counters.gauges().take(qpn, init.kind as u8),
            carried: Carried::default(),
            trace: device.tracer(qpn),
        };
        if in_force.spec.is_active() && shell.is_traced() {
            shell.trace_fault(&in_force);
        }
        shell
    }

    /// Sends what the faulty wire held back and is due.
    fn release(&mut self, now: Instant) {
        if self.wire.next_release().is_some_and(|at| at <= now) {
            let sent = self.wire.release(now);
            self.count_sent(&sent);
        }
    }

    /// Sends all that the faulty wire held back, due or not.
    pub(crate) fn release_all(&mut self, now: Instant) {
        let sent = self.wire.release_all(now);
        self.count_sent(&sent);
    }

    /// What waits for room in the network is not sent any more.
    pub(crate) fn forget_unsent(&mut self) {
        self.wire.forget_unsent();
    }

    /// From now on everything goes through the kernel.
    pub(crate) fn leave_rings(&mut self) {
        self.wire.leave_rings();
    }

    /// Datagrams to `to` that leave through the kernel and are alike leave as one train.
    pub(crate) fn has_trains_to(&self, now: Instant, to: SocketAddr) -> bool {
        self.wire.has_trains_to(now, to)
    }

    /// There is a faster way than the kernel to the queue pair at `to`.
    pub(crate) fn has_ring_to(&self, to: SocketAddr) -> bool {
        self.wire.has_ring_to(to)
    }

    /// Whether all of a burst to `to`, which would else leave by `via`, may be as no network has
    /// it, see [`Via::Memory`]: there is room for it in a ring.
    #[inline]
    pub(crate) fn has_ring_for_burst(&mut self, to: SocketAddr, via: Via) -> bool {
        // What is covered whole lies in the arena, whose room is that of packets.
        let is_covered = self.framing.covers_payload() && self.framing.sealed().is_none();
        let is_possible = !is_covered && !self.faults.lapses.is_active();
        is_possible && self.wire.ring_room_bytes(to, via) >= BURST_BYTES_MAX
    }

    /// Queue pairs of this machine send through rings that are read here.
    pub(crate) fn has_rings(&self) -> bool {
        self.wire.has_rings()
    }

    /// This turn has completed work requests.
    pub(crate) fn has_completed(&self) -> bool {
        !self.sends_done.is_empty() || !self.recvs_done.is_empty()
    }

    /// Something may arrive that the socket does not tell: look soon.
    pub(crate) fn is_eager(&self) -> bool {
        self.has_received || (self.wire_sleeps.is_none() && self.wire.has_rings())
    }

    /// From now on the socket tells of whatever arrives, but for acknowledgements while the sleep
    /// is light; whether something is there that it has not told.
    pub(crate) fn fall_asleep(&mut self, sleep: Sleep) -> bool {
        self.wire_sleeps = Some(sleep);
        self.wire.sleep(sleep)
    }

    /// Goes on sleeping, or sleeps otherwise; whether something is there that the socket has not
    /// told.
    pub(crate) fn sleep_as(&mut self, sleep: Sleep) -> bool {
        if self.wire_sleeps == Some(sleep) { self.sleep_on() } else { self.fall_asleep(sleep) }
    }

    /// Acknowledgements may have lain for a while, because nobody was called for them.
    pub(crate) fn sleeps_lightly(&self) -> bool {
        self.wire_sleeps == Some(Sleep::Light)
    }

    /// After a turn of the service thread that has given it what came: whether the next one should
    /// come at once, because a stream goes on. Until then nobody calls for it.
    pub(crate) fn keep_awake(&mut self, now: Instant) -> bool {
        let stays = self.pace.goes_on(now);
        if stays {
            self.wake_up();
        }
        stays
    }

    /// After a turn of the program beside the sleeping service thread, which may have taken away
    /// what calls that: whether something came that the socket has not told.
    #[inline]
    pub(crate) fn sleep_on(&mut self) -> bool {
        let Some(sleep) = self.wire_sleeps else { return false };
        self.wire.was_called() && self.wire.sleep(sleep)
    }

    /// From now on the program looks.
    #[inline]
    pub(crate) fn wake_up(&mut self) {
        if self.wire_sleeps.take().is_some() {
            self.wire.wake();
        }
    }

    /// Closes the socket: from now on the kernel answers for this number.
    pub(crate) fn unplug(&mut self) {
        self.wire = Box::new(Unplugged);
        self.groups = None;
    }

    /// Puts another network in the place of its own.
    #[cfg(test)]
    pub(crate) fn rewire(&mut self, other: impl FnOnce(Box<dyn Wire>) -> Box<dyn Wire>) {
        self.wire = other(std::mem::replace(&mut self.wire, Box::new(Unplugged)));
    }

    /// The number of the address handle for `addr` in this domain.
    pub(crate) fn ahn_of(&mut self, addr: IpAddr) -> u16 {
        let generation = self.device.ahns.generation();
        if self.last_ahn.addr != addr || self.last_ahn.generation != generation {
            let ahn = self.device.ahns.find((self.pd, addr));
            self.last_ahn = LastAhn { addr, generation, ahn };
        }
        self.last_ahn.ahn
    }
}

fn framing(device: &Device, (port, src_port): (u16, u16), session: u64) -> Framing {
    let is_roce = device.adapter() == Adapter::Roce;
    if let Some(key) = device.sealing.key() {
        let local = SocketAddr::new(device.addr(), port);
        let sealed = Sealed::new(key, local, session);
        let sealed = if is_roce { sealed.of_packets() } else { sealed };
        return Framing::Sealed(Box::new(sealed));
    }
    if let Numbering::Behind(of_network) = device.numbering() {
        return Framing::Packets(Packets::behind_gateway(device.addr(), src_port, of_network));
    }
    if is_roce {
        let has_icrc = device.integrity == Integrity::Crc32c;
        return Framing::Packets(Packets::new(device.addr(), has_icrc));
    }
    match device.integrity {
        Integrity::Headers => Framing::Headers,
        Integrity::Crc32c => Framing::All,
    }
}

fn with_faults(
    wire: Box<dyn Wire>,
    tap: &Tap,
    layout: Layout,
    faults: Option<DatagramFaults>,
) -> Box<dyn Wire> {
    match faults {
        None => wire,
        Some(faults) => Box::new(Faulty::new(wire, tap.clone(), layout, faults)),
    }
}
