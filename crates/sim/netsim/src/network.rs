//! Packets on their way: from a host's link through switches to a host.

use crate::census::Census;
use crate::fault::Faults;
use crate::id::{FlowId, HostId, LinkId, SocketId, StepId};
use crate::link::{LossCause, Offer};
use crate::packet::{Body, Packet, PacketId, Packets, Transit};
use crate::pfc::{Pfc, PfcSetup};
use crate::rng::Rng;
use crate::time::Time;
use crate::topology::{Fabric, Node};
use crate::wheel::Wheel;

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The last bit of a packet reaches the end of a link.
    Arrive { link: LinkId, packet: Transit },
    /// A socket's timer expires.
    Timer { socket: SocketId },
    /// A host's adapter has sent its packet.
    LinkIdle { host: HostId },
    /// A flow begins.
    Start { flow: FlowId },
    /// A flow that sends until now stops.
    Stop { flow: FlowId },
    /// An interval of the flows' shares ends.
    Share,
    /// A step of the scenario's faults is due.
    Fault { step: StepId },
    /// A port that can be paused has sent a packet.
    PortIdle { link: LinkId },
    /// A pause frame reaches the sender of a link; `changes` is the link's count of changes when it
    /// was sent.
    Pause { link: LinkId, stop: bool, changes: u16 },
    /// A check is due of whether pauses last for ever.
    PauseCheck,
    /// A sample is taken; nothing changes.
    Sample,
}

/// Packets by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Packets that hosts sent.
    pub(crate) sent: u64,
    /// Packets that reached their host.
    pub(crate) delivered: u64,
    /// Packets lost, indexed by [`LossCause`].
    pub(crate) lost: [u64; LossCause::COUNT],
    /// Packets that a switch marked.
    pub(crate) marked: u64,
}

#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) fabric: Fabric,
    pub(crate) packets: Packets,
    pub(crate) queue: Wheel<Event>,
    pub(crate) tally: Tally,
    pub(crate) census: Census,
    /// State of priority flow control, if it is used.
    pub(crate) pfc: Option<Box<Pfc>>,
    faults: Faults,
    /// Whether some link has been cut in this run.
    any_cut: bool,
    pub(crate) rng: Rng,
}

impl Network {
    pub(crate) fn new(fabric: Fabric, rng: Rng) -> Self {
        Self {
            census: Census::new(&fabric.links),
            fabric,
            packets: Packets::new(),
            queue: Wheel::default(),
            tally: Tally::default(),
            pfc: None,
            faults: Faults::default(),
            any_cut: false,
            rng,
        }
    }

    /// Makes switches pause links from now on, instead of losing packets.
    pub(crate) fn use_pfc(&mut self, setup: &PfcSetup) {
        self.pfc = Some(Box::new(Pfc::new(&self.fabric, setup)));
    }

    /// Returns the time at which a host's adapter can send its next packet; [`Time::FAR`] when an
    /// event will tell.
    pub(crate) fn host_idle_at(&mut self, host: HostId) -> Time {
        let link = self.fabric.host_link(host);
        let idle_at = self.fabric.links[link.index()].idle_at();
        match &mut self.pfc {
            None => idle_at,
            Some(pfc) => pfc.host_idle_at(link, idle_at),
        }
    }

    /// Sends a packet from its host.
    pub(crate) fn send(&mut self, now: Time, packet: Packet, body: Body<'_>) {
        let link = self.fabric.host_link(packet.src_host);
        let transit = self.packets.insert(packet, body);
        self.tally.sent += 1;
        self.offer(now, link, transit);
    }

    /// Handles a packet that reaches the end of a link. Returns true when that is its host, which
    /// takes it out.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Time, link: LinkId, packet: Transit) -> bool {
        if self.any_cut && self.fabric.links[link.index()].cuts() != packet.link_cuts {
            self.lose(packet.id, LossCause::Cut);
            return false;
        }
        self.census.leaves(link, packet.wire_bytes());
        let switch = match self.fabric.end_of(link) {
            Node::Host(_) => {
                self.tally.delivered += 1;
                return true;
            }
            Node::Switch(switch) => switch,
        };
        match self.fabric.next_link(switch, &packet) {
            Some(next) if self.pfc.is_some() => {
                self.with_pfc(|network, pfc| {
                    network.forward_lossless(pfc, now, next, packet, link);
                });
            }
            Some(next) => self.offer(now, next, packet),
            None => self.lose(packet.id, LossCause::NoRoute),
        }
        false
    }

    /// Lets pauses and packets act on each other; does nothing where nothing is ever paused.
    pub(crate) fn with_pfc<T>(&mut self, act: impl FnOnce(&mut Self, &mut Pfc) -> T) -> Option<T> {
        let mut pfc = self.pfc.take()?;
        let result = act(self, &mut pfc);
        self.pfc = Some(pfc);
        Some(result)
    }

    /// Puts a packet on a link, or loses it.
    #[inline]
    pub(crate) fn offer(&mut self, now: Time, link: LinkId, mut packet: Transit) {
        let at = &mut self.fabric.links[link.index()];
        match at.offer(now, packet.wire_bytes(), &mut self.rng) {
            Offer::Arrives { at: arrival, mark } => {
                packet.link_cuts = at.cuts();
                packet.marked |= mark;
                self.tally.marked += u64::from(mark);
                self.census.enters(link, packet.wire_bytes());
                self.queue.push(arrival, Event::Arrive { link, packet });
            }
            Offer::Lost(cause) => self.lose(packet.id, cause),
        }
    }

    pub(crate) fn lose(&mut self, id: PacketId, cause: LossCause) {
        self.tally.lost[cause as usize] += 1;
        self.packets.remove(id);
    }

    /// Adds the scenario's faults.
    pub(crate) fn add_faults(&mut self, faults: Faults) {
        for (step, at) in StepId::all().zip(faults.times()) {
            self.queue.push(at, Event::Fault { step });
        }
        self.faults = faults;
    }

    /// Begins or ends a part of a fault.
    pub(crate) fn step_fault(&mut self, now: Time, step: StepId) {
        let links = self.faults.take(step).to_vec();
        let mut verdicts = Vec::with_capacity(links.len());
        for link in links {
            let (condition, verdict) = self.faults.now(link);
            let at = &mut self.fabric.links[link.index()];
            let before = (at.is_up(), at.ps_per_byte());
            at.set_condition(now, condition);
            if !at.is_up() {
                self.any_cut = true;
                self.census.empties(link);
            }
            if (at.is_up(), at.ps_per_byte()) != before {
                self.with_pfc(|network, pfc| network.cable_changed(pfc, now, link));
            }
            verdicts.push((link, verdict));
        }
        self.fabric.judge(&verdicts);
    }
}
