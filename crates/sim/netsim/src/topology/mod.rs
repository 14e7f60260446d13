//! Folded Clos networks: hosts, switches, links, and which link a packet takes next.

mod clos3;
mod leaf_spine;
mod names;
mod ring;
mod routes;
mod wiring;

pub(crate) use clos3::{Clos3Size, clos3};
pub(crate) use leaf_spine::leaf_spine;
pub(crate) use ring::ring;
pub(crate) use routes::{KnownTo, Verdict};

use crate::id::{Ends, HostId, LinkId, RackId, SwitchId};
use crate::link::{Link, Marking};
use crate::packet::Transit;
use crate::rng::mix;
use crate::transport::Kind;
use routes::{Reach, Routes};

/// A host or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Host(HostId),
    Switch(SwitchId),
}

/// Properties that the links of a tier have in common, in both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortKind {
    pub(crate) ps_per_byte: u32,
    /// Delay of a cable and the switch at its end, in picoseconds.
    pub(crate) delay_ps: u32,
    pub(crate) buffer_bytes: u32,
    pub(crate) marking: Marking,
}

/// Properties of links, from the hosts up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiers {
    /// Links between hosts and the switches of their racks.
    pub(crate) host: PortKind,
    /// Links between the rack switches and the tier above.
    pub(crate) rack: PortKind,
    /// Links between that tier and the core.
    pub(crate) core: PortKind,
}

impl From<PortKind> for Tiers {
    fn from(all: PortKind) -> Self {
        Self { host: all, rack: all, core: all }
    }
}

/// Consecutive hosts with all the links that lead away from them, which are alike: a host, a rack
/// or a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) hosts: u32,
    /// Number of links upwards, of all switches at the top of the group together.
    pub(crate) links: u32,
    pub(crate) ps_per_byte: u32,
}

/// A switch of a folded Clos network. Below it lie consecutive hosts, evenly spread over its
/// down links; everything else is up.
#[derive(Clone, Copy, Debug)]
struct Switch {
    first_host: HostId,
    hosts: u32,
    hosts_per_down_link: u32,
    /// First of the switch's links, which are consecutive: the down links first.
    first_link: LinkId,
    down_links: u32,
    up_links: u32,
    /// Salt that makes each switch hash in its own way.
    salt: u32,
}

impl Switch {
    fn down_link(&self, host: HostId) -> Option<LinkId> {
        let offset = host.0.wrapping_sub(self.first_host.0);
        let link = || LinkId(self.first_link.0 + offset / self.hosts_per_down_link);
        (offset < self.hosts).then(link)
    }

    fn first_up_link(&self) -> LinkId {
        LinkId(self.first_link.0 + self.down_links)
    }
}

/// A network of hosts, switches and links.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) links: Vec<Link>,
    /// Node at which each link begins.
    begins: Vec<Node>,
    /// Node to which each link leads.
    ends: Vec<Node>,
    switches: Vec<Switch>,
    names: Vec<String>,
    hosts: u32,
    hosts_per_rack: u32,
    groups: Vec<Group>,
    routes: Routes,
}

impl Fabric {
    pub(crate) fn hosts(&self) -> u32 {
        self.hosts
    }

    pub(crate) fn hosts_per_rack(&self) -> u32 {
        self.hosts_per_rack
    }

    pub(crate) fn racks(&self) -> u32 {
        self.hosts / self.hosts_per_rack
    }

    /// Returns the node to which a link leads.
    #[inline]
    pub(crate) fn end_of(&self, link: LinkId) -> Node {
        self.ends[link.index()]
    }

    /// Returns both ends of each link.
    fn cables(&self) -> impl Iterator<Item = (Node, Node)> {
        self.begins.iter().copied().zip(self.ends.iter().copied())
    }

    /// Returns the link from a host into the network.
    #[inline]
    pub(crate) fn host_link(&self, host: HostId) -> LinkId {
        LinkId(host.0)
    }

    /// Returns the first link that leaves a switch; all links from there on do.
    pub(crate) fn first_switch_link(&self) -> LinkId {
        LinkId(self.hosts)
    }

    /// Returns the switch that the hosts of a rack are connected to.
    fn switch_of(&self, rack: RackId) -> SwitchId {
        SwitchId(rack.0)
    }

    /// Returns the rack that a host is in.
    #[inline]
    fn rack_of(&self, host: HostId) -> RackId {
        RackId(host.0 / self.hosts_per_rack)
    }

    /// Chooses the link that a packet takes out of a switch: ECMP by the hash of its 5-tuple.
    /// `None` when the switch knows of no way.
    #[inline]
    pub(crate) fn next_link(&mut self, switch: SwitchId, packet: &Transit) -> Option<LinkId> {
        let hash = self.hash_at(switch, packet.flow_hash);
        if self.routes.all_good() {
            return Some(self.shortest(switch, packet.dst_host, hash));
        }
        self.next_around(switch, packet.dst_host, hash)
    }

    /// Mixes a packet's hash with the salt of the switch.
    #[inline]
    fn hash_at(&self, switch: SwitchId, flow_hash: u32) -> u64 {
        mix(u64::from(flow_hash) << 32 | u64::from(self.switches[switch.index()].salt)) >> 32
    }

    /// Chooses the next link while all links are good.
    #[inline]
    fn shortest(&self, switch: SwitchId, dst_host: HostId, hash: u64) -> LinkId {
        let at = &self.switches[switch.index()];
        at.down_link(dst_host).unwrap_or_else(|| {
            let choice = (hash * u64::from(at.up_links)) >> 32;
            LinkId(at.first_up_link().0 + choice as u32)
        })
    }

    /// Chooses the next link while some are bad: among the best ways that the switch knows of.
    fn next_around(&mut self, switch: SwitchId, dst_host: HostId, hash: u64) -> Option<LinkId> {
        let down = self.switches[switch.index()].down_link(dst_host);
        if let Some(link) = down.filter(|&link| matches!(self.end_of(link), Node::Host(_))) {
            let reach = self.routes.verdict(link).limit(KnownTo::Nobody, Reach::Normal);
            return (reach > Reach::Never).then_some(link);
        }
        let rack = self.rack_of(dst_host);
        if self.routes.own(switch, rack).is_none() {
            let ways: Vec<(LinkId, Reach)> = self
                .ways(switch, dst_host)
                .map(|link| (link, self.reach_over(link, dst_host, KnownTo::Nobody)))
                .collect();
            self.routes.set_own(switch, rack, &ways);
        }
        let ways = self.routes.own(switch, rack)?;
        let choice = (hash * ways.len() as u64) >> 32;
        ways.get(choice as usize).copied()
    }

    /// Returns the links of a switch that lie on shortest ways.
    fn ways(&self, switch: SwitchId, dst_host: HostId) -> impl Iterator<Item = LinkId> + use<> {
        let at = &self.switches[switch.index()];
        match at.down_link(dst_host) {
            Some(link) => link.range(1),
            None => at.first_up_link().range(at.up_links),
        }
    }

    /// Returns the reach over a link in the eyes of a switch that knows of a bad link only where
    /// more than `unaware` know.
    fn reach_over(&mut self, link: LinkId, dst_host: HostId, unaware: KnownTo) -> Reach {
        let beyond = match self.end_of(link) {
            Node::Host(_) => Reach::Normal,
            Node::Switch(switch) => self.reach_of(switch, dst_host),
        };
        self.routes.verdict(link).limit(unaware, beyond)
    }

    /// Returns the reach that a switch has in the eyes of the others.
    fn reach_of(&mut self, switch: SwitchId, dst_host: HostId) -> Reach {
        let rack = self.rack_of(dst_host);
        if let Some(reach) = self.routes.advertised(switch, rack) {
            return reach;
        }
        // In a network with circles, a way that comes back here is none.
        self.routes.set_advertised(switch, rack, Reach::Never);
        let reach = if self.switch_of(rack) == switch {
            Reach::Normal
        } else {
            let ways = self.ways(switch, dst_host);
            let reaches = ways.map(|link| self.reach_over(link, dst_host, KnownTo::Ends));
            reaches.max().unwrap_or(Reach::Never)
        };
        self.routes.set_advertised(switch, rack, reach);
        reach
    }

    /// Tells routing the state of links.
    pub(crate) fn judge(&mut self, verdicts: &[(LinkId, Verdict)]) {
        let (switches, racks) = (self.switches.len(), self.racks());
        self.routes.judge(verdicts, switches, racks);
    }

    /// Returns the host whose adapter feeds a link; the link must be a host's.
    pub(crate) fn host_of(&self, host_link: LinkId) -> HostId {
        HostId(host_link.0)
    }

    /// Returns for each link the other direction of its cable.
    pub(crate) fn reverse_links(&self) -> Vec<Option<LinkId>> {
        let mut by_ends: Vec<((Node, Node), LinkId)> = self.cables().zip(LinkId::all()).collect();
        by_ends.sort_unstable();
        let reverse = |(from, to): (Node, Node)| {
            let place = by_ends.binary_search_by_key(&(to, from), |entry| entry.0).ok()?;
            Some(by_ends[place].1)
        };
        self.cables().map(reverse).collect()
    }

    /// Returns the links from each switch upwards, of those switches that have any.
    pub(crate) fn uplinks(
        &self,
    ) -> impl Iterator<Item = (Node, impl Iterator<Item = LinkId> + Clone)> {
        let above = SwitchId::all().zip(&self.switches).filter(|(_, at)| at.up_links > 0);
        above.map(|(switch, at)| (Node::Switch(switch), at.first_up_link().range(at.up_links)))
    }

    /// Returns the groups that a host is in: itself, its rack, its pod. A group begins at a
    /// multiple of its number of hosts.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Finds the groups of the first host; those of all others are alike.
    fn find_groups(&self) -> Vec<Group> {
        let rate = |link: LinkId| self.links[link.index()].ps_per_byte();
        let alone = rate(self.host_link(HostId(0)));
        let mut groups = vec![Group { hosts: 1, links: 1, ps_per_byte: alone }];
        let (racks, others) = self.switches.split_at(self.racks() as usize);
        for tier in [racks, others] {
            let above = || tier.iter().filter(|at| at.first_host == HostId(0) && at.up_links > 0);
            groups.extend(above().next().map(|at| Group {
                hosts: at.hosts,
                links: above().map(|at| at.up_links).sum(),
                ps_per_byte: rate(at.first_up_link()),
            }));
        }
        groups
    }

    /// Returns the round-trip time of a packet of `bytes` and SRD's acknowledgement in an empty
    /// network.
    pub(crate) fn base_rtt_ps(&self, hosts: Ends<HostId>, bytes: u32) -> u64 {
        self.way_ps(hosts, bytes) + self.way_ps(hosts.reversed(), Kind::Srd.ack_bytes())
    }

    /// Returns the time that a packet of `bytes` takes from host to host in an empty network.
    pub(crate) fn way_ps(&self, hosts: Ends<HostId>, bytes: u32) -> u64 {
        let mut link = self.host_link(hosts.src);
        let mut way_ps = 0;
        loop {
            way_ps += self.links[link.index()].transit_ps(bytes);
            let Node::Switch(switch) = self.end_of(link) else { return way_ps };
            link = self.shortest(switch, hosts.dst, self.hash_at(switch, 0));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const PORT: PortKind = PortKind {
        ps_per_byte: 80,
        delay_ps: 1_000_000,
        buffer_bytes: 539_500,
        marking: Marking::NONE,
    };

    fn walk(fabric: &mut Fabric, src: HostId, dst: HostId, hash: u32) -> Option<Vec<LinkId>> {
        let mut path = vec![fabric.host_link(src)];
        while let Node::Switch(switch) = fabric.end_of(path[path.len() - 1]) {
            let hash = fabric.hash_at(switch, hash);
            path.push(if fabric.routes.all_good() {
                fabric.shortest(switch, dst, hash)
            } else {
                fabric.next_around(switch, dst, hash)?
            });
            assert!(path.len() < 10, "a packet does not go in circles");
        }
        let end = fabric.end_of(path[path.len() - 1]);
        assert_eq!(end, Node::Host(dst));
        Some(path)
    }

    const FIRST: HostId = HostId(0);
    const CLOS3: Clos3Size = Clos3Size {
        pods: 3,
        edges_per_pod: 2,
        aggs_per_pod: 4,
        hosts_per_edge: 2,
        cores_per_agg: 2,
    };

    fn last_host(fabric: &Fabric) -> HostId {
        HostId(fabric.hosts() - 1)
    }

    fn fabrics() -> [Fabric; 2] {
        [leaf_spine(4, 3, 2, PORT), clos3(CLOS3, PORT)]
    }

    #[test]
    fn every_host_reaches_every_other_whatever_the_hash() {
        for mut fabric in fabrics() {
            let hosts = HostId(0).range(fabric.hosts());
            for src in hosts.clone() {
                for dst in hosts.clone().filter(|&dst| dst != src) {
                    (0..20).for_each(|hash| assert!(walk(&mut fabric, src, dst, hash).is_some()));
                }
            }
        }
    }

    #[test]
    fn hashes_spread_over_all_paths() {
        for (mut fabric, expected) in fabrics().into_iter().zip([2, 8]) {
            let dst = last_host(&fabric);
            let mut paths: Vec<_> =
                (0..1000).filter_map(|hash| walk(&mut fabric, FIRST, dst, hash)).collect();
            paths.sort_unstable();
            paths.dedup();
            assert_eq!(paths.len(), expected);
        }
    }

    /// Counts, of 200 packets to the last host, those that meet one of `links` and those that find
    /// no way.
    fn met(fabric: &mut Fabric, src: HostId, links: &[LinkId]) -> (usize, usize) {
        let dst = last_host(fabric);
        let walks: Vec<_> = (0..200).map(|hash| walk(fabric, src, dst, hash)).collect();
        let meets = |path: &Vec<LinkId>| path.iter().any(|link| links.contains(link));
        let lost = walks.iter().filter(|path| path.is_none()).count();
        (walks.iter().flatten().filter(|path| meets(path)).count(), lost)
    }

    fn judge(fabric: &mut Fabric, links: &[LinkId], known_to: KnownTo, dead: bool) {
        let all: Vec<_> = links.iter().map(|&link| (link, Verdict { known_to, dead })).collect();
        let before = fabric.routes.forgotten;
        fabric.judge(&all);
        assert_eq!(fabric.routes.forgotten, before + 1, "once for all links");
    }

    #[test]
    fn routing_goes_around_what_it_avoids_and_says_when_it_cannot() {
        for (mut fabric, cable) in fabrics().into_iter().zip(["spine0-leaf3", "agg8-core0"]) {
            let cut = fabric.links_named(cable).unwrap();
            assert_eq!(cut.len(), 2, "both directions");
            assert!(met(&mut fabric, FIRST, &cut).0 > 0);
            judge(&mut fabric, &cut, KnownTo::All, true);
            assert_eq!(met(&mut fabric, FIRST, &cut), (0, 0));
            judge(&mut fabric, &cut, KnownTo::Nobody, false);
            assert!(fabric.routes.all_good());
            let dst = last_host(&fabric);
            let last = fabric.links_named(&format!("host{dst}")).unwrap();
            judge(&mut fabric, &last, KnownTo::All, true);
            assert_eq!(walk(&mut fabric, FIRST, dst, 1), None);
        }
    }

    /// The cost of a change once grew with switches times racks; with flaps it was most of a run's.
    #[test]
    fn a_change_forgets_what_was_asked_for() {
        for (mut fabric, cable) in fabrics().into_iter().zip(["spine0-leaf3", "agg8-core0"]) {
            let cut = fabric.links_named(cable).expect("a cable");
            judge(&mut fabric, &cut, KnownTo::All, true);
            assert_eq!(fabric.routes.forgotten_entries, 0, "nobody has asked");
            assert_eq!(met(&mut fabric, FIRST, &cut), (0, 0));
            judge(&mut fabric, &cut, KnownTo::Nobody, false);
            // Ways to one rack, of each switch at most its own and what others think of it.
            let most = 2 * fabric.switches.len() as u64;
            let forgotten = fabric.routes.forgotten_entries;
            assert!((1..=most).contains(&forgotten), "{forgotten} of {most}");
            judge(&mut fabric, &cut, KnownTo::All, true);
            assert_eq!(met(&mut fabric, FIRST, &cut), (0, 0), "it is known again");
        }
    }

    #[test]
    fn a_switch_knows_its_own_links_before_others_do() {
        // Downwards, the switch above the cut has no other way, and nobody else knows yet.
        for (mut fabric, cable) in fabrics().into_iter().zip(["spine0-leaf3", "agg8-core0"]) {
            let cut = fabric.links_named(cable).unwrap();
            let (meet, _) = met(&mut fabric, FIRST, &cut);
            judge(&mut fabric, &cut, KnownTo::Ends, true);
            assert_eq!(met(&mut fabric, FIRST, &cut), (0, meet));
        }
        // Upwards, the switch at the cut chooses among the others at once.
        for (mut fabric, cable) in fabrics().into_iter().zip(["spine0-leaf0", "agg0-core0"]) {
            let cut = fabric.links_named(cable).unwrap();
            assert!(met(&mut fabric, FIRST, &cut).0 > 0);
            judge(&mut fabric, &cut, KnownTo::Ends, true);
            assert_eq!(met(&mut fabric, FIRST, &cut), (0, 0));
        }
    }

    #[test]
    fn a_drained_link_is_the_last_resort() {
        for (mut fabric, cable) in fabrics().into_iter().zip(["spine0-leaf3", "agg8-core0"]) {
            let drained = fabric.links_named(cable).unwrap();
            let (meet, _) = met(&mut fabric, FIRST, &drained);
            judge(&mut fabric, &drained, KnownTo::Ends, false);
            assert_eq!(met(&mut fabric, FIRST, &drained), (meet, 0), "packets still come");
            judge(&mut fabric, &drained, KnownTo::All, false);
            assert_eq!(met(&mut fabric, FIRST, &drained), (0, 0));
            let dst = last_host(&fabric);
            let last = fabric.links_named(&format!("host{dst}")).unwrap();
            judge(&mut fabric, &last, KnownTo::All, false);
            assert_eq!(met(&mut fabric, FIRST, &last), (200, 0), "there is no other");
        }
    }

    #[test]
    fn groups_are_hosts_racks_and_pods() {
        let tier = |ps_per_byte| PortKind { ps_per_byte, ..PORT };
        let tiers = Tiers { host: tier(320), rack: tier(80), core: tier(20) };
        let sizes = |fabric: &Fabric| -> Vec<[u32; 3]> {
            fabric.groups().iter().map(|g| [g.hosts, g.links, g.ps_per_byte]).collect()
        };
        assert_eq!(sizes(&leaf_spine(4, 3, 2, tiers)), [[1, 1, 320], [3, 2, 80]]);
        let clos = clos3(CLOS3, tiers);
        assert_eq!(sizes(&clos), [[1, 1, 320], [2, 4, 80], [4, 8, 20]]);
        // Both directions of a cable are alike.
        for (name, ps_per_byte) in [("edge0-host1", 320), ("edge0-agg2", 80), ("agg3-core7", 20)] {
            let links = clos.links_named(name).unwrap();
            let rates = links.iter().map(|&link| clos.links[link.index()].ps_per_byte());
            assert_eq!(rates.collect::<Vec<_>>(), [ps_per_byte; 2], "{name}");
        }
        assert_eq!(sizes(&leaf_spine(2, 1, 2, PORT)), [[1, 1, 80], [1, 2, 80]]);
        let narrow = clos3(Clos3Size { edges_per_pod: 1, hosts_per_edge: 1, ..CLOS3 }, PORT);
        assert_eq!(sizes(&narrow), [[1, 1, 80], [1, 4, 80], [1, 8, 80]]);
    }

    #[test]
    fn names_and_round_trip_times() {
        let [leaf_spine, clos] = fabrics();
        assert_eq!(leaf_spine.node_names(), "host0..host11, leaf0..leaf3, spine0..spine1");
        assert_eq!(clos.node_names(), "host0..host11, edge0..edge5, agg0..agg11, core0..core7");
        let rate = "100 Gbit/s";
        assert_eq!(
            clos.describe(),
            format!("12 hosts at {rate}; racks of 2, 4 x {rate} up; pods of 4, 8 x {rate} up")
        );
        let text =
            format!("12 hosts at {rate}; racks of 3, 2 x {rate} up, oversubscribed 1.500 : 1");
        assert_eq!(leaf_spine.describe(), text);
        assert_eq!(leaf_spine.links_named("spine1").unwrap().len(), 8);
        for none in ["leaf0-leaf1", "host12", "host01", "host+1", "spine2", "", "-", "leaf0-"] {
            assert!(leaf_spine.links_named(none).is_none(), "{none}");
        }
        let there_and_back =
            |hops: u64| hops * (2_000_000 + 80 * (4150 + u64::from(Kind::Srd.ack_bytes())));
        let to = |dst: u32| Ends { src: FIRST, dst: HostId(dst) };
        assert_eq!(leaf_spine.base_rtt_ps(to(11), 4150), there_and_back(4));
        assert_eq!(leaf_spine.base_rtt_ps(to(1), 4150), there_and_back(2));
        assert_eq!(clos.base_rtt_ps(to(11), 4150), there_and_back(6));
        assert_eq!(clos.base_rtt_ps(to(2), 4150), there_and_back(4));
    }
}
