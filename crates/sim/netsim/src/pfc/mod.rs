//! Priority flow control (IEEE 802.1Qbb): switches that would run out of buffer pause the sender
//! of a link instead of losing its packets. All traffic of a run is in the one lossless class.
//!
//! A switch counts for each of its incoming links the bytes that it still holds, up to their last
//! bit on the way out. Above XOFF it sends a pause frame against the link's direction, at XON one
//! that lets the sender go on. The frame waits for the packet that the port is sending, travels,
//! and stops a switch's port or a host's adapter after the packet it has begun. Frames take no
//! bandwidth from the packets beside them, are not lost by a cable that loses some, and have no
//! time-out, as if they were refreshed in time. When a cable is mended or changes its rate, both of
//! its ends agree anew, and no frame waits for a packet begun at the old rate: headroom that is
//! enough at each rate is enough in between.
//!
//! A paused port needs a real queue, so a hop costs two events instead of one.

mod deadlock;
mod headroom;
#[cfg(test)]
mod tests;

pub(crate) use headroom::PfcSetup;

use crate::id::LinkId;
use crate::link::LossCause;
use crate::network::{Event, Network};
use crate::packet::{PacketId, Transit};
use crate::time::Time;
use crate::topology::Fabric;
use headroom::{PAUSE_BYTES, Thresholds};
use serde::{Deserialize, Serialize};

/// Interval of the checks for a deadlock, while anything is paused.
const CHECK_PS: u64 = 1_000_000_000;

/// A link that was paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausedLink {
    /// Name of the link, in the direction of the packets.
    pub link: String,
    /// Number of pauses.
    pub pauses: u64,
    /// Time of all pauses together, in picoseconds.
    pub paused_ps: u64,
}

/// The part of a switch's buffer that a packet occupies which a port sends or will send.
#[derive(Clone, Copy, Debug)]
struct BufferedPacket {
    /// Link that the packet came by.
    from: LinkId,
    bytes: u32,
}

/// A link: the port that feeds it, and the share of the switch at its end that it fills.
#[derive(Debug)]
struct Port {
    /// First of the packets that wait; `Pfc::waiting` links them.
    first: Option<PacketId>,
    /// Last of the packets that wait.
    last: Option<PacketId>,
    sending: Option<BufferedPacket>,
    /// Begin of the present pause.
    paused_at: Option<Time>,
    pauses: u64,
    paused_ps: u64,
    /// Whether a host's adapter waits until it may go on.
    host_waits: bool,
    /// Other direction of the cable; a cable may have none.
    reverse: Option<LinkId>,
    thresholds: Thresholds,
    /// Number of bytes that came by this link and are still in the switch.
    share_bytes: u32,
    /// Whether the switch has asked for a pause.
    stopping: bool,
    /// Number of times that the cable was cut, was mended or got another rate: older frames mean
    /// nothing.
    changes: u16,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    packet: Transit,
    next: Option<PacketId>,
    /// Link that the packet came by.
    from: LinkId,
}

/// A link whose share of its switch did not fit: a fault of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow {
    pub(crate) at: Time,
    pub(crate) link: LinkId,
}

/// A link whose share is not what waits and is being sent of it: a fault of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Miscount {
    pub(crate) link: LinkId,
    pub(crate) share_bytes: u32,
    pub(crate) found_bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Pfc {
    /// Ports, indexed by link.
    ports: Vec<Port>,
    /// Waiting packets, indexed by packet.
    waiting: Vec<Waiting>,
    /// Bytes that a switch keeps for each link into it.
    buffer_bytes: u32,
    /// The longest packet of the run.
    packet_bytes: u32,
    checks: bool,
    /// The first share that did not fit.
    pub(crate) overflow: Option<Overflow>,
}

impl Pfc {
    pub(crate) fn new(fabric: &Fabric, setup: &PfcSetup) -> Self {
        let reverse = fabric.reverse_links();
        let ports = fabric.links.iter().zip(reverse).map(|(link, reverse)| Port {
            first: None,
            last: None,
            sending: None,
            paused_at: None,
            pauses: 0,
            paused_ps: 0,
            host_waits: false,
            reverse,
            thresholds: setup.thresholds(link),
            share_bytes: 0,
            stopping: false,
            changes: 0,
        });
        Self {
            ports: ports.collect(),
            waiting: Vec::new(),
            buffer_bytes: setup.buffer_bytes,
            packet_bytes: setup.packet_bytes,
            checks: false,
            overflow: None,
        }
    }

    fn port(&mut self, link: LinkId) -> &mut Port {
        &mut self.ports[link.index()]
    }

    /// Returns the time at which a host's adapter may send, if the link will be idle at `idle_at`;
    /// never, for now, while it is paused: an event will tell.
    pub(crate) fn host_idle_at(&mut self, link: LinkId, idle_at: Time) -> Time {
        let port = self.port(link);
        port.host_waits = port.paused_at.is_some();
        if port.host_waits { Time::FAR } else { idle_at }
    }

    /// Returns the links that were paused, the longest first.
    pub(crate) fn paused_links(&self, now: Time, fabric: &Fabric) -> Vec<PausedLink> {
        let mut all: Vec<PausedLink> = LinkId::all()
            .zip(&self.ports)
            .filter(|(_, port)| port.pauses > 0)
            .map(|(link, port)| PausedLink {
                link: fabric.link_name(link),
                pauses: port.pauses,
                paused_ps: port.paused_ps + port.paused_at.map_or(0, |at| now.ps_since(at)),
            })
            .collect();
        all.sort_by_key(|paused| u64::MAX - paused.paused_ps);
        all
    }

    /// Returns the first link whose share is miscounted, if there is one.
    pub(crate) fn miscounted(&self) -> Option<Miscount> {
        let mut found = vec![0; self.ports.len()];
        for port in &self.ports {
            for BufferedPacket { from, bytes } in self.queue_of(port).chain(port.sending) {
                found[from.index()] += bytes;
            }
        }
        let mut all =
            LinkId::all().zip(&self.ports).zip(found).map(|((link, port), found_bytes)| Miscount {
                link,
                share_bytes: port.share_bytes,
                found_bytes,
            });
        all.find(|count| count.share_bytes != count.found_bytes)
    }

    /// Returns the packets that wait for a port.
    fn queue_of(&self, port: &Port) -> impl Iterator<Item = BufferedPacket> {
        std::iter::successors(port.first, |id| self.waiting[id.index()].next).map(|id| {
            let waiting = &self.waiting[id.index()];
            BufferedPacket { from: waiting.from, bytes: waiting.packet.wire_bytes() }
        })
    }

    /// Puts a packet at the end of a port's queue.
    fn append(&mut self, link: LinkId, packet: Transit, from: LinkId) {
        let place = packet.id.index();
        let waiting = Waiting { packet, next: None, from };
        if self.waiting.len() <= place {
            self.waiting.resize(place + 1, waiting);
        }
        self.waiting[place] = waiting;
        let port = &mut self.ports[link.index()];
        match port.last.replace(packet.id) {
            Some(before) => self.waiting[before.index()].next = Some(packet.id),
            None => port.first = Some(packet.id),
        }
    }

    /// Takes the first packet of a port's queue, with the link it came by.
    fn take_first(&mut self, link: LinkId) -> Option<(Transit, LinkId)> {
        let port = &mut self.ports[link.index()];
        let Waiting { packet, next, from } = self.waiting[port.first?.index()];
        port.first = next;
        if next.is_none() {
            port.last = None;
        }
        Some((packet, from))
    }
}

impl Port {
    fn pause(&mut self, now: Time) {
        if self.paused_at.is_none() {
            self.paused_at = Some(now);
            self.pauses += 1;
        }
    }

    fn resume(&mut self, now: Time) {
        if let Some(at) = self.paused_at.take() {
            self.paused_ps += now.ps_since(at);
        }
    }
}

impl Network {
    /// Forwards a packet that came by one link to another: it is sent, queued, or lost.
    pub(crate) fn forward_lossless(
        &mut self,
        pfc: &mut Pfc,
        now: Time,
        link: LinkId,
        mut packet: Transit,
        from: LinkId,
    ) {
        if !self.fabric.links[link.index()].is_up() {
            self.lose(packet.id, LossCause::Cut);
            return;
        }
        let bytes = packet.wire_bytes();
        let share = pfc.port(from);
        if share.share_bytes + bytes > pfc.buffer_bytes {
            pfc.overflow.get_or_insert(Overflow { at: now, link: from });
            self.lose(packet.id, LossCause::QueueFull);
            return;
        }
        let share = pfc.port(from);
        share.share_bytes += bytes;
        if share.share_bytes > share.thresholds.xoff_bytes && !share.stopping {
            share.stopping = true;
            self.send_pause(pfc, now, from, true);
        }
        let marked = self.fabric.links[link.index()].hold(now, bytes, &mut self.rng);
        packet.marked |= marked;
        self.tally.marked += u64::from(marked);
        pfc.append(link, packet, from);
        self.send_next(pfc, now, link);
    }

    /// Sends a port's next packet, if the port is neither busy nor paused.
    fn send_next(&mut self, pfc: &mut Pfc, now: Time, link: LinkId) {
        let port = pfc.port(link);
        if port.sending.is_some() || port.paused_at.is_some() {
            return;
        }
        let Some((packet, from)) = pfc.take_first(link) else { return };
        let bytes = packet.wire_bytes();
        self.fabric.links[link.index()].release(bytes);
        self.offer(now, link, packet);
        pfc.port(link).sending = Some(BufferedPacket { from, bytes });
        let idle_at = self.fabric.links[link.index()].idle_at();
        self.queue.push(idle_at, Event::PortIdle { link });
    }

    /// Handles the end of a packet on a port, or of one that a cut has swallowed.
    pub(crate) fn port_idle(&mut self, pfc: &mut Pfc, now: Time, link: LinkId) {
        if self.fabric.links[link.index()].idle_at() > now {
            return;
        }
        if let Some(sent) = pfc.port(link).sending.take() {
            self.give_back(pfc, now, sent);
            self.send_next(pfc, now, link);
        }
    }

    /// Gives back the buffer of a packet that has left its switch.
    fn give_back(&mut self, pfc: &mut Pfc, now: Time, left: BufferedPacket) {
        let share = pfc.port(left.from);
        share.share_bytes -= left.bytes;
        if share.stopping && share.share_bytes <= share.thresholds.xon_bytes {
            share.stopping = false;
            self.send_pause(pfc, now, left.from, false);
        }
    }

    /// Tells the sender of a link to stop, or to go on.
    fn send_pause(&mut self, pfc: &mut Pfc, now: Time, link: LinkId, stop: bool) {
        let cable = &self.fabric.links[link.index()];
        let Port { reverse, changes, .. } = *pfc.port(link);
        let back = reverse.map_or(cable, |back| &self.fabric.links[back.index()]);
        // It waits for a packet that the port has begun, if the other direction has a port.
        let packet_ps = u64::from(pfc.packet_bytes) * u64::from(back.ps_per_byte());
        let idle_at = reverse.map_or(now, |_| back.idle_at());
        let free_at = idle_at.max(now).min(now.plus_ps(packet_ps));
        if cable.is_up() {
            let at = free_at.plus_ps(back.transit_ps(PAUSE_BYTES));
            self.queue.push(at, Event::Pause { link, stop, changes });
        }
    }

    /// Handles a pause frame that reaches the sender of a link.
    pub(crate) fn pause(
        &mut self,
        pfc: &mut Pfc,
        now: Time,
        link: LinkId,
        stop: bool,
        changes: u16,
    ) {
        if pfc.port(link).changes != changes {
            return;
        }
        if stop {
            self.stop(pfc, now, link);
        } else {
            self.resume(pfc, now, link);
        }
    }

    fn stop(&mut self, pfc: &mut Pfc, now: Time, link: LinkId) {
        pfc.port(link).pause(now);
        if !pfc.checks {
            pfc.checks = true;
            self.queue.push(now.plus_ps(CHECK_PS), Event::PauseCheck);
        }
    }

    fn resume(&mut self, pfc: &mut Pfc, now: Time, link: LinkId) {
        let port = pfc.port(link);
        port.resume(now);
        if std::mem::take(&mut port.host_waits) {
            let idle_at = self.fabric.links[link.index()].idle_at().max(now);
            self.queue.push(idle_at, Event::LinkIdle { host: self.fabric.host_of(link) });
        }
        self.send_next(pfc, now, link);
    }

    /// Handles a link that has been cut, was mended, or has another rate.
    pub(crate) fn cable_changed(&mut self, pfc: &mut Pfc, now: Time, link: LinkId) {
        let port = pfc.port(link);
        port.changes = port.changes.wrapping_add(1);
        if self.fabric.links[link.index()].is_up() {
            // Both ends agree anew, at once, on whether the sender is to stop.
            if port.stopping {
                self.stop(pfc, now, link);
            } else {
                self.resume(pfc, now, link);
            }
            return;
        }
        if let Some(cut_off) = pfc.port(link).sending.take() {
            self.give_back(pfc, now, cut_off);
        }
        while let Some((packet, from)) = pfc.take_first(link) {
            let bytes = packet.wire_bytes();
            self.fabric.links[link.index()].release(bytes);
            self.lose(packet.id, LossCause::Cut);
            self.give_back(pfc, now, BufferedPacket { from, bytes });
        }
        self.resume(pfc, now, link);
    }

    /// Checks whether links wait for each other in a circle, for ever; returns their names, in
    /// order.
    pub(crate) fn check_pauses(&mut self, pfc: &mut Pfc, now: Time) -> Option<String> {
        pfc.checks = pfc.ports.iter().any(|port| port.paused_at.is_some());
        if pfc.checks {
            self.queue.push(now.plus_ps(CHECK_PS), Event::PauseCheck);
        }
        let circle = pfc.deadlock()?;
        let names: Vec<String> = circle.iter().map(|&link| self.fabric.link_name(link)).collect();
        Some(names.join(" waits for "))
    }
}
