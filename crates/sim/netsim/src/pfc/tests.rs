//! Pauses, packet by packet: hosts that send whenever they may, and nothing above them.

use super::*;
use crate::fault::Faults;
use crate::id::{HostId, SocketId};
use crate::packet::{Body, Packet};
use crate::rng::Rng;
use crate::topology::tests::PORT;
use crate::topology::{Node, PortKind, leaf_spine, ring};

const PACKET_BYTES: u32 = 4150;
const PACKET_PS: u64 = PACKET_BYTES as u64 * 80;
const HOP_PS: u64 = 1_000_000;
const APART_PS: u64 = 80;
const FIRST_LINK: LinkId = LinkId(0);

/// Packets that a host has left to send to another.
#[derive(Clone, Copy)]
struct Train {
    src: HostId,
    dst: HostId,
    packets: u32,
}

/// Creates a train of so many packets from one host to another.
fn train((src, dst, packets): (u32, u32, u32)) -> Train {
    Train { src: HostId(src), dst: HostId(dst), packets }
}

/// Hosts with packets left to send, each to one other.
struct Blast {
    network: Network,
    now: Time,
    left: Vec<Train>,
    /// Arrival time of the last packet.
    last_at: Time,
    deadlock: Option<String>,
}

impl Blast {
    fn new(fabric: Fabric, setup: &PfcSetup, left: &[Train]) -> Self {
        let mut network = Network::new(fabric, Rng::new(1));
        network.use_pfc(setup);
        left.iter().for_each(|&Train { src: host, .. }| {
            // A little apart, so that no two packets arrive at the same time.
            let at = Time::from_ps(u64::from(host.0) * APART_PS);
            network.queue.push(at, Event::LinkIdle { host });
        });
        Self { network, now: Time::ZERO, left: left.to_vec(), last_at: Time::ZERO, deadlock: None }
    }

    /// Runs until nothing happens any more.
    fn run(&mut self) {
        while self.deadlock.is_none() && self.step() {}
        let pfc = self.network.pfc.as_ref().unwrap();
        assert_eq!(pfc.miscounted(), None);
    }

    fn step(&mut self) -> bool {
        let Some((at, event)) = self.network.queue.pop() else { return false };
        self.now = at;
        self.handle(event);
        true
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        let network = &mut self.network;
        match event {
            Event::Arrive { link, packet } => {
                if network.arrive(now, link, packet) {
                    network.packets.remove(packet.id);
                    self.last_at = now;
                }
            }
            Event::LinkIdle { host } => self.send(host),
            Event::PortIdle { link } => {
                network.with_pfc(|network, pfc| network.port_idle(pfc, now, link));
            }
            Event::Pause { link, stop, changes } => {
                network.with_pfc(|network, pfc| network.pause(pfc, now, link, stop, changes));
            }
            Event::PauseCheck => {
                let found = network.with_pfc(|network, pfc| network.check_pauses(pfc, now));
                self.deadlock = found.flatten();
            }
            Event::Fault { step } => network.step_fault(now, step),
            _ => unreachable!("{event:?}"),
        }
    }

    fn send(&mut self, host: HostId) {
        let idle_at = self.network.host_idle_at(host);
        let train = self.left.iter_mut().find(|train| train.src == host && train.packets > 0);
        let Some(train) = train else { return };
        if idle_at > self.now {
            if idle_at < Time::FAR {
                self.network.queue.push(idle_at, Event::LinkIdle { host });
            }
            return;
        }
        train.packets -= 1;
        let packet = Packet {
            wire_bytes: PACKET_BYTES,
            flow_hash: train.packets,
            src_host: train.src,
            dst_host: train.dst,
            dst_socket: SocketId(0),
            payload: None,
            marked: false,
        };
        self.network.send(self.now, packet, Body::Engine(&[]));
        self.send(host);
    }

    fn port(&self, link: LinkId) -> &Port {
        &self.network.pfc.as_ref().unwrap().ports[link.index()]
    }

    fn pauses_of_host(&self, host: HostId) -> u64 {
        self.port(self.network.fabric.host_link(host)).pauses
    }

    fn lost(&self) -> u64 {
        self.network.tally.lost.iter().sum()
    }
}

fn setup(xoff_bytes: u32, xon_bytes: u32) -> PfcSetup {
    PfcSetup {
        buffer_bytes: xoff_bytes + 2 * 12_500 + 3 * PACKET_BYTES + PAUSE_BYTES,
        xoff_bytes: Some(xoff_bytes),
        xon_bytes: Some(xon_bytes),
        packet_bytes: PACKET_BYTES,
    }
}

fn one_rack() -> Fabric {
    leaf_spine(1, 4, 1, PORT)
}

#[test]
fn a_host_stops_when_the_frame_is_there_and_not_before() {
    // Two hosts send to a third: its port halves their rates, so their shares grow.
    let flows = [(0, 2, 100), (1, 2, 100)].map(train);
    let mut blast = Blast::new(one_rack(), &setup(4 * PACKET_BYTES, PACKET_BYTES), &flows);
    while !blast.port(FIRST_LINK).stopping {
        assert!(blast.port(FIRST_LINK).share_bytes <= 4 * PACKET_BYTES && blast.step());
    }
    assert_eq!(blast.port(FIRST_LINK).share_bytes, 5 * PACKET_BYTES);
    let effect = blast.now.plus_ps(HOP_PS + u64::from(PAUSE_BYTES) * 80);
    while blast.port(FIRST_LINK).paused_at.is_none() {
        assert!(blast.now < effect && blast.step());
    }
    assert_eq!(blast.port(FIRST_LINK).paused_at, Some(effect));
    let left = blast.left[0].packets;
    while blast.port(FIRST_LINK).stopping {
        assert!(blast.step());
    }
    let effect = blast.now.plus_ps(HOP_PS + u64::from(PAUSE_BYTES) * 80);
    assert_eq!((blast.port(FIRST_LINK).share_bytes, blast.left[0].packets), (PACKET_BYTES, left));
    while blast.left[0].packets == left {
        assert!(blast.now <= effect && blast.step());
    }
    assert_eq!((blast.now, blast.lost()), (effect, 0));
}

#[test]
fn nothing_is_lost_everything_arrives_and_pauses_end() {
    for xoff_packets in [1, 2, 5, 50] {
        let xoff = xoff_packets * PACKET_BYTES;
        let flows = [(0, 3, 300), (1, 3, 300), (2, 3, 300)].map(train);
        let mut blast = Blast::new(one_rack(), &setup(xoff, xoff / 2), &flows);
        blast.run();
        assert_eq!((blast.lost(), blast.network.tally.delivered), (0, 900));
        assert!(
            HostId(0).range(3).all(|host| blast.pauses_of_host(host) > 0),
            "{xoff_packets} packets"
        );
        assert!(blast.network.pfc.as_ref().unwrap().ports.iter().all(|p| p.paused_at.is_none()));
        // The port of host 3 never ran dry: pauses cost nothing there.
        let ideal_ps = 2 * HOP_PS + 901 * PACKET_PS;
        if xoff_packets > 10 {
            assert_eq!(blast.last_at.as_ps(), ideal_ps);
        }
    }
}

#[test]
fn headroom_is_needed() {
    let flows = [(0, 3, 300), (1, 3, 300), (2, 3, 300)].map(train);
    let all = PfcSetup { xoff_bytes: Some(60_000), buffer_bytes: 70_000, ..setup(0, 0) };
    let mut blast = Blast::new(one_rack(), &all, &flows);
    blast.run();
    assert!(blast.lost() > 0 && blast.network.pfc.as_ref().unwrap().overflow.is_some());
}

#[test]
fn pauses_spread_backwards_and_hit_who_has_no_part() {
    // Hosts of two racks send to one of a third; host 5 to another, over the same uplink.
    let fabric = leaf_spine(3, 4, 1, PORT);
    let flows = [(4, 0, 400), (8, 0, 400), (5, 9, 400)].map(train);
    let mut blast = Blast::new(fabric, &setup(40_000, 20_000), &flows);
    blast.run();
    assert_eq!((blast.lost(), blast.network.tally.delivered), (0, 1200));
    let uplink = blast.network.fabric.links_named("leaf1-spine0").unwrap()[0];
    assert!(blast.port(uplink).pauses > 0, "the spine paused the leaf");
    assert!(blast.pauses_of_host(HostId(5)) > 0, "a victim");
}

#[test]
fn a_circle_of_pauses_is_found_and_named() {
    let flows = [(0, 2, 400), (1, 3, 400), (2, 0, 400), (3, 1, 400)].map(train);
    let mut blast = Blast::new(ring(4, 1, PORT), &setup(20_000, 10_000), &flows);
    blast.run();
    let names = blast.deadlock.expect("a deadlock");
    let links: Vec<&str> = names.split(" waits for ").collect();
    assert_eq!((links.len(), links[0]), (5, links[4]));
    assert!((0..4).all(|i| names.contains(&format!("switch{i}-switch{}", (i + 1) % 4))), "{names}");
    // Half of them: no circle, whatever is paused for however long.
    let mut blast = Blast::new(ring(4, 1, PORT), &setup(20_000, 10_000), &flows[..3]);
    blast.run();
    assert_eq!((blast.deadlock.clone(), blast.network.tally.delivered), (None, 1200));
}

#[test]
fn a_cut_loses_what_waits_and_lets_others_go_on() {
    let fabric = leaf_spine(2, 4, 1, PORT);
    let links = fabric.links_named("leaf1-host4").unwrap();
    let flows = [(0, 4, 4000), (1, 4, 4000), (2, 5, 2000)].map(train);
    let mut blast = Blast::new(fabric, &setup(40_000, 20_000), &flows);
    blast.network.add_faults(Faults::cuts(&links, &[(100, 150), (300, 400)]));
    blast.run();
    let tally = blast.network.tally;
    assert_eq!(tally.lost[LossCause::QueueFull as usize], 0);
    assert!(tally.lost[LossCause::Cut as usize] > 100);
    assert_eq!(tally.delivered + blast.lost(), 10_000, "everything has an end");
    assert!(blast.network.pfc.as_ref().unwrap().ports.iter().all(|p| p.paused_at.is_none()));
}

#[test]
fn headroom_is_enough_while_rates_change() {
    // A frame that waited for a packet begun at 1 Gbit/s would come 33 us too late at 100.
    for spans in [[(10, 40), (90, 113)], [(20, 61), (62, 95)], [(5, 137), (140, 150)]] {
        let fabric = leaf_spine(3, 4, 1, PORT);
        let links = fabric.links_named("leaf1-spine0").unwrap();
        let flows = [(4, 0, 400), (5, 1, 400), (8, 0, 400), (0, 4, 400), (1, 5, 400), (9, 6, 400)]
            .map(train);
        let mut blast = Blast::new(fabric, &setup(20_000, 10_000), &flows);
        blast.network.add_faults(Faults::slow(&links, &spans, 8000));
        blast.run();
        assert_eq!((blast.lost(), blast.network.tally.delivered), (0, 2400), "{spans:?}");
        assert!(blast.network.pfc.as_ref().unwrap().ports.iter().all(|p| p.paused_at.is_none()));
    }
}

#[test]
fn without_pauses_a_queue_of_packets_is_the_same_as_a_number() {
    let port = PortKind { buffer_bytes: 100_000_000, ..PORT };
    let arrivals = |pfc: bool| {
        let flows = [(0, 4, 300), (1, 4, 200), (2, 5, 500), (6, 1, 100)].map(train);
        let huge = PfcSetup { buffer_bytes: 100_000_000, ..setup(90_000_000, 1) };
        let mut blast = Blast::new(leaf_spine(2, 4, 2, port), &huge, &flows);
        if !pfc {
            blast.network.pfc = None;
        }
        let mut times = Vec::new();
        while let Some((at, event)) = blast.network.queue.pop() {
            blast.now = at;
            if let Event::Arrive { link, packet } = event {
                if let Node::Host(host) = blast.network.fabric.end_of(link) {
                    times.push((at, host, blast.network.packets.open(packet).0.src_host));
                }
            }
            blast.handle(event);
        }
        times.sort_unstable();
        times
    };
    let (with, without) = (arrivals(true), arrivals(false));
    assert_eq!(with.len(), 1100);
    let difference = with.iter().zip(&without).find(|(a, b)| a != b);
    assert_eq!(difference, None);
}
