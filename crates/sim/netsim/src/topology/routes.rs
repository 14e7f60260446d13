//! Routing state: the bad links that switches know of, and the ways that are left.
//!
//! A switch knows first of its own links; later, when routing has converged, all switches know.
//! Until then others go on sending to a switch that has no way left. Tables are computed for
//! what is asked: a change makes all of them unknown again.

use crate::id::{LinkId, RackId, SwitchId};

/// The set of switches that know that a link is bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KnownTo {
    #[default]
    Nobody,
    /// The switches at its two ends.
    Ends,
    /// All switches: routing has converged.
    All,
}

/// The state of a link in the eyes of routing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) known_to: KnownTo,
    /// Whether the link carries nothing. Otherwise it is drained: it is used when there is no other
    /// way.
    pub(crate) dead: bool,
}

impl Verdict {
    /// Returns the reach of a way over this link, which leads to `reach` beyond it, in the eyes of
    /// a switch that knows of the link's state only where more than `unaware` know.
    pub(super) fn limit(self, unaware: KnownTo, reach: Reach) -> Reach {
        match (self.known_to > unaware, self.dead) {
            (false, _) => reach,
            (true, false) => reach.min(Reach::LastResort),
            (true, true) => Reach::Never,
        }
    }
}

/// Quality of a way to a rack, from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Never,
    /// The way leads over a drained link.
    LastResort,
    Normal,
}

/// Group number of a switch's ways to a rack that were not computed since the last change.
const UNKNOWN: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Routes {
    /// Verdicts, indexed by link.
    verdicts: Vec<Verdict>,
    /// Number of links that at least one switch knows to be bad.
    bad: u32,
    racks: u32,
    /// Number of times that the tables were forgotten.
    pub(super) forgotten: u64,
    /// Number of known entries that were lost thereby.
    pub(super) forgotten_entries: u64,
    /// Places of the known entries in `own`: few of all that there could be.
    known_own: Vec<u32>,
    /// Places of the known entries in `advertised`.
    known_advertised: Vec<u32>,
    /// Group of links that a switch itself uses, indexed by switch and rack.
    own: Vec<u32>,
    /// Reach that a switch has in the eyes of the others, indexed by switch and rack.
    advertised: Vec<Option<Reach>>,
    /// Each distinct group once: few, whatever the number of switches and racks.
    groups: Vec<Box<[LinkId]>>,
}

impl Routes {
    pub(super) fn add_link(&mut self) {
        self.verdicts.push(Verdict::default());
    }

    /// Returns whether no switch knows of a bad link.
    #[inline]
    pub(super) fn all_good(&self) -> bool {
        self.bad == 0
    }

    pub(super) fn verdict(&self, link: LinkId) -> Verdict {
        self.verdicts[link.index()]
    }

    /// Takes verdicts on links. Tables that followed from other verdicts are forgotten once,
    /// however many links there are.
    pub(super) fn judge(&mut self, verdicts: &[(LinkId, Verdict)], switches: usize, racks: u32) {
        let mut changed = false;
        for &(link, verdict) in verdicts {
            let before = std::mem::replace(&mut self.verdicts[link.index()], verdict);
            changed |= before != verdict;
            self.bad -= u32::from(before.known_to != KnownTo::Nobody);
            self.bad += u32::from(verdict.known_to != KnownTo::Nobody);
        }
        if changed {
            self.forget(switches, racks);
        }
    }

    /// Forgets all tables. The cost depends on the entries that were known, and the first time on
    /// the number of switches and racks.
    fn forget(&mut self, switches: usize, racks: u32) {
        self.forgotten += 1;
        self.forgotten_entries += (self.known_own.len() + self.known_advertised.len()) as u64;
        self.racks = racks;
        for place in self.known_own.drain(..) {
            self.own[place as usize] = UNKNOWN;
        }
        for place in self.known_advertised.drain(..) {
            self.advertised[place as usize] = None;
        }
        let entries = switches * racks as usize;
        self.own.resize(entries, UNKNOWN);
        self.advertised.resize(entries, None);
        self.groups.clear();
    }

    fn place(&self, switch: SwitchId, rack: RackId) -> usize {
        switch.index() * self.racks as usize + rack.index()
    }

    /// Returns the links that a switch itself uses to a rack; `None` when they were not computed
    /// since the last change.
    pub(super) fn own(&self, switch: SwitchId, rack: RackId) -> Option<&[LinkId]> {
        let group = self.own[self.place(switch, rack)];
        (group != UNKNOWN).then(|| &*self.groups[group as usize])
    }

    /// Stores the best of a switch's ways to a rack.
    pub(super) fn set_own(&mut self, switch: SwitchId, rack: RackId, ways: &[(LinkId, Reach)]) {
        let best = ways.iter().map(|way| way.1).max().filter(|&reach| reach > Reach::Never);
        let best = ways.iter().filter(|way| Some(way.1) == best);
        let links: Box<[LinkId]> = best.map(|way| way.0).collect();
        let known = self.groups.iter().position(|group| *group == links);
        let group = known.unwrap_or_else(|| {
            self.groups.push(links);
            self.groups.len() - 1
        });
        let place = self.place(switch, rack);
        let before = std::mem::replace(&mut self.own[place], group as u32);
        self.known_own.extend((before == UNKNOWN).then_some(place as u32));
    }

    /// Returns the reach to a rack that other switches believe this one to have; `None` when it was
    /// not computed since the last change.
    pub(super) fn advertised(&self, switch: SwitchId, rack: RackId) -> Option<Reach> {
        self.advertised[self.place(switch, rack)]
    }

    pub(super) fn set_advertised(&mut self, switch: SwitchId, rack: RackId, reach: Reach) {
        let place = self.place(switch, rack);
        let before = self.advertised[place].replace(reach);
        self.known_advertised.extend(before.is_none().then_some(place as u32));
    }
}
