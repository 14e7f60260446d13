//! The network section of a scenario file.

use super::field::{Bounded, Gbps};
use crate::link::{Link, Marking};
use crate::packet::{FRAME_BYTES, UDP_BYTES};
use crate::pfc::PfcSetup;
use crate::topology::{Clos3Size, Fabric, PortKind, Tiers, clos3, leaf_spine, ring};
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

const HOSTS_MAX: u64 = 65_536;
const LINKS_MAX: u64 = 2_000_000;
/// Length of the longest packet that is no data packet: an acknowledgement with all its bits.
const ACK_BYTES_MAX: u32 = FRAME_BYTES + UDP_BYTES + srd::HEADER_MAX as u32;

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Topologies")]
pub(crate) enum Topology {
    LeafSpine(LeafSpine),
    Clos3(Clos3),
    Ring(Ring),
}

/// The topologies, of which a scenario has one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, as [topology.leaf_spine]")]
struct Topologies {
    leaf_spine: Option<LeafSpine>,
    clos3: Option<Clos3>,
    ring: Option<Ring>,
}

impl TryFrom<Topologies> for Topology {
    type Error = &'static str;

    fn try_from(all: Topologies) -> Result<Self, Self::Error> {
        match (all.leaf_spine, all.clos3, all.ring) {
            (Some(shape), None, None) => Ok(Self::LeafSpine(shape)),
            (None, Some(shape), None) => Ok(Self::Clos3(shape)),
            (None, None, Some(shape)) => Ok(Self::Ring(shape)),
            _ => Err("one of leaf_spine, clos3 and ring is needed, and no more than one"),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [topology.leaf_spine]")]
pub(crate) struct LeafSpine {
    racks: Bounded<1, 4096>,
    hosts_per_rack: Bounded<1, 1024>,
    spines: Bounded<1, 1024>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [topology.clos3]")]
pub(crate) struct Clos3 {
    pods: Bounded<1, 256>,
    edges_per_pod: Bounded<1, 128>,
    aggs_per_pod: Bounded<1, 128>,
    hosts_per_edge: Bounded<1, 1024>,
    cores_per_agg: Bounded<1, 128>,
}

/// Switches that send one way round a circle: with `network.pfc` they can stand still.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [topology.ring]")]
pub(crate) struct Ring {
    switches: Bounded<2, 256>,
    hosts_per_switch: Bounded<1, 256>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [network]")]
pub(crate) struct Network {
    gbps: Gbps,
    /// Delay of a cable and the switch at its end.
    hop_ns: HopNs,
    /// Buffer of each port; with `pfc`, the buffer that a switch keeps for each link into it.
    buffer_bytes: Bounded<10_000, 1_000_000_000>,
    /// Queue length above which packets that meet it are marked.
    pub(super) mark_above_bytes: Option<Spanned<Bounded<0, 1_000_000_000>>>,
    /// Queue length up to which only a share of them is marked, which rises evenly.
    mark_all_above_bytes: Option<Spanned<Bounded<1, 1_000_000_000>>>,
    /// Largest such share. Both are given, or none.
    mark_most_percent: Option<Spanned<Bounded<1, 100>>>,
    /// Priority flow control: switches pause senders instead of losing packets.
    pfc: Option<Spanned<Pfc>>,
    /// Links between hosts and the switches of their racks, where they differ.
    host_links: Option<Spanned<Links>>,
    /// Links between those switches and the tier above, where they differ.
    rack_links: Option<Spanned<Links>>,
    /// Links between that tier and the core, where they differ.
    core_links: Option<Spanned<Links>>,
}

/// Properties of the links of a tier; missing ones are as `network` has them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table, as [network.host_links]")]
struct Links {
    gbps: Option<Gbps>,
    hop_ns: Option<HopNs>,
}

impl Links {
    fn is_empty(&self) -> bool {
        self.gbps.is_none() && self.hop_ns.is_none()
    }
}

type HopNs = Bounded<1, 1_000_000>;

/// Thresholds of pauses. Missing ones follow from buffer, delay and rate.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [network.pfc], which may be empty")]
struct Pfc {
    /// Bytes of a link's packets in the switch above which it is paused; at most the buffer less
    /// the headroom.
    xoff_bytes: Option<Bounded<1, 1_000_000_000>>,
    /// Bytes of a link's packets at which it may go on.
    xon_bytes: Option<Bounded<0, 1_000_000_000>>,
}

/// Place, field, and what is wrong.
pub(super) type Wrong = (Range<usize>, &'static str, String);

impl Topology {
    /// Returns the problem of a topology that is too small or too large.
    pub(super) fn check(&self) -> Result<(), String> {
        let (hosts, links) = match self {
            Self::LeafSpine(t) => {
                let (racks, spines) = (u64::from(t.racks.get()), u64::from(t.spines.get()));
                let hosts = racks * u64::from(t.hosts_per_rack.get());
                (hosts, 2 * (hosts + racks * spines))
            }
            Self::Clos3(t) => {
                let (pods, edges) = (u64::from(t.pods.get()), u64::from(t.edges_per_pod.get()));
                let (aggs, cores) =
                    (u64::from(t.aggs_per_pod.get()), u64::from(t.cores_per_agg.get()));
                let hosts = pods * edges * u64::from(t.hosts_per_edge.get());
                (hosts, 2 * (hosts + pods * aggs * (edges + cores)))
            }
            Self::Ring(t) => {
                let hosts = u64::from(t.switches.get() * t.hosts_per_switch.get());
                (hosts, 2 * hosts + u64::from(t.switches.get()))
            }
        };
        if hosts < 2 {
            return Err("it has 1 host; at least 2 are needed".to_owned());
        }
        if hosts > HOSTS_MAX {
            return Err(format!("it has {hosts} hosts; at most {HOSTS_MAX} are allowed"));
        }
        if links > LINKS_MAX {
            return Err(format!("it has {links} links; at most {LINKS_MAX} are allowed"));
        }
        Ok(())
    }

    /// Returns the number of links into the switch that has the most.
    fn links_into_a_switch(&self) -> u32 {
        match self {
            Self::LeafSpine(t) => {
                let leaf = t.hosts_per_rack.get() + t.spines.get();
                leaf.max(t.racks.get())
            }
            Self::Clos3(t) => {
                let edge = t.hosts_per_edge.get() + t.aggs_per_pod.get();
                let agg = t.edges_per_pod.get() + t.cores_per_agg.get();
                edge.max(agg).max(t.pods.get())
            }
            Self::Ring(t) => t.hosts_per_switch.get() + 1,
        }
    }

    /// Returns whether it has a third tier.
    fn has_core(&self) -> bool {
        matches!(self, Self::Clos3(_))
    }

    fn build(&self, tiers: Tiers) -> Fabric {
        match self {
            Self::LeafSpine(t) => {
                leaf_spine(t.racks.get(), t.hosts_per_rack.get(), t.spines.get(), tiers)
            }
            Self::Clos3(t) => clos3(
                Clos3Size {
                    pods: t.pods.get(),
                    edges_per_pod: t.edges_per_pod.get(),
                    aggs_per_pod: t.aggs_per_pod.get(),
                    hosts_per_edge: t.hosts_per_edge.get(),
                    cores_per_agg: t.cores_per_agg.get(),
                },
                tiers,
            ),
            Self::Ring(t) => ring(t.switches.get(), t.hosts_per_switch.get(), tiers),
        }
    }
}

impl Network {
    /// Builds the network in a given shape.
    pub(super) fn build(&self, topology: &Topology) -> Fabric {
        topology.build(self.tiers())
    }

    /// Returns the rate of the hosts' links.
    pub(super) fn host_gbps(&self) -> Gbps {
        self.host_links.as_ref().and_then(|links| links.get_ref().gbps).unwrap_or(self.gbps)
    }

    fn tiers(&self) -> Tiers {
        let tier = |links: &Option<Spanned<Links>>| {
            let links = links.as_ref().map_or_else(Links::default, |links| *links.get_ref());
            PortKind {
                ps_per_byte: links.gbps.unwrap_or(self.gbps).ps_per_byte(),
                delay_ps: links.hop_ns.unwrap_or(self.hop_ns).get() * 1000,
                buffer_bytes: self.buffer_bytes.get(),
                marking: self.marking(),
            }
        };
        Tiers {
            host: tier(&self.host_links),
            rack: tier(&self.rack_links),
            core: tier(&self.core_links),
        }
    }

    /// Returns the settings of pauses, if there are any, for packets of at most `packet_bytes`.
    pub(super) fn pfc_setup(&self, packet_bytes: u32) -> Option<PfcSetup> {
        self.pfc.as_ref().map(|pfc| PfcSetup {
            buffer_bytes: self.buffer_bytes.get(),
            xoff_bytes: pfc.get_ref().xoff_bytes.map(Bounded::get),
            xon_bytes: pfc.get_ref().xon_bytes.map(Bounded::get),
            packet_bytes: packet_bytes.max(ACK_BYTES_MAX),
        })
    }

    /// Finds settings that do not fit together.
    pub(super) fn check(&self, topology: &Topology, packet_bytes: u32) -> Result<(), Wrong> {
        self.check_marks()?;
        let tiers = [
            ("network.host_links", &self.host_links),
            ("network.rack_links", &self.rack_links),
            ("network.core_links", &self.core_links),
        ];
        for (field, links) in tiers {
            let empty = |links: &&Spanned<Links>| links.get_ref().is_empty();
            if let Some(links) = links.as_ref().filter(empty) {
                let problem = "it changes nothing without gbps or hop_ns".to_owned();
                return Err((links.span(), field, problem));
            }
        }
        if let Some(links) = self.core_links.as_ref().filter(|_| !topology.has_core()) {
            let problem = "only clos3 has links of a core; those above racks are rack_links";
            return Err((links.span(), "network.core_links", problem.to_owned()));
        }
        self.check_pfc(topology, packet_bytes)
    }

    /// Finds settings of paused links that would lose packets, stand still or not be counted.
    fn check_pfc(&self, topology: &Topology, packet_bytes: u32) -> Result<(), Wrong> {
        let pfc = self.pfc_setup(packet_bytes).zip(self.pfc.as_ref());
        let Some((setup, pfc)) = pfc else { return Ok(()) };
        let Tiers { host, rack, core } = self.tiers();
        for port in [host, rack, core] {
            let link = Link::new(port.ps_per_byte, port.delay_ps);
            setup.check(&link).map_err(|(field, problem)| (pfc.span(), field, problem))?;
        }
        // A port may have to send all that its switch holds, and counts that in 32 bits.
        let links = topology.links_into_a_switch();
        if setup.buffer_bytes.checked_mul(links).is_none() {
            let most = u32::MAX / links;
            let problem = format!(
                "{} for each of the {links} links into a switch are too many; at most {most}",
                setup.buffer_bytes
            );
            return Err((pfc.span(), "network.buffer_bytes", problem));
        }
        Ok(())
    }

    /// Finds settings of marking queues that do not fit together.
    fn check_marks(&self) -> Result<(), Wrong> {
        let above = self.mark_above_bytes.as_ref().map(|above| above.get_ref().get());
        if let Some(all) = &self.mark_all_above_bytes {
            let rises = above.is_some_and(|above| above < all.get_ref().get());
            if !rises || self.mark_most_percent.is_none() {
                let problem = "it needs a smaller mark_above_bytes, and mark_most_percent";
                return Err((all.span(), "network.mark_all_above_bytes", problem.to_owned()));
            }
        } else if let Some(most) = &self.mark_most_percent {
            let problem = "it needs mark_all_above_bytes, or changes nothing".to_owned();
            return Err((most.span(), "network.mark_most_percent", problem));
        }
        let buffer_bytes = self.buffer_bytes.get();
        // With pauses, a queue holds shares of several links.
        match &self.mark_above_bytes {
            Some(above) if above.get_ref().get() >= buffer_bytes && self.pfc.is_none() => {
                let problem = format!(
                    "no queue gets there: buffer_bytes is {buffer_bytes}, which is not more"
                );
                Err((above.span(), "network.mark_above_bytes", problem))
            }
            _ => Ok(()),
        }
    }

    fn marking(&self) -> Marking {
        let Some(above) = &self.mark_above_bytes else { return Marking::NONE };
        let above_bytes = above.get_ref().get();
        let all_above_bytes = self.mark_all_above_bytes.as_ref().map(|all| all.get_ref().get());
        let most_percent = self.mark_most_percent.as_ref().map_or(0, |most| most.get_ref().get());
        Marking {
            above_bytes,
            all_above_bytes: all_above_bytes.unwrap_or(above_bytes),
            most_ppm: most_percent * 10_000,
        }
    }
}
