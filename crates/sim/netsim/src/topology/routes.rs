//! What switches know of bad links, and the ways that are left.
//!
//! A switch knows first of its own links; later, when routing has converged, all switches know.
//! Until then others go on sending to a switch that has no way left. Tables are computed for
//! what is asked: a change makes all of them unknown again.

use crate::id::{LinkId, RackId, SwitchId};

/// Who knows that a link is bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KnownTo {
    #[default]
    Nobody,
    /// The switches at its two ends.
    Ends,
    /// All switches: routing has converged.
    All,
}

/// What routing thinks of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) known_to: KnownTo,
    /// It carries nothing; otherwise it is drained, and used when there is no other way.
    pub(crate) dead: bool,
}

impl Verdict {
    /// The reach of a way over this link, for those who know if the others are at most `unaware`.
    pub(super) fn limit(self, unaware: KnownTo, reach: Reach) -> Reach {
        match (self.known_to > unaware, self.dead) {
            (false, _) => reach,
            (true, false) => reach.min(Reach::LastResort),
            (true, true) => Reach::Never,
        }
    }
}

/// How good a way to a rack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Never,
    /// Over a drained link.
    LastResort,
    Normal,
}

/// Group number of a switch's ways to a rack that nobody has asked for since the last change.
const UNKNOWN: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Routes {
    /// By link.
    verdicts: Vec<Verdict>,
    /// Links that somebody knows to be bad.
    bad: u32,
    racks: u32,
    /// How often everything was forgotten, and how many entries that were known.
    pub(super) forgotten: u64,
    pub(super) forgotten_entries: u64,
    /// Entries of `own` and of `told` that are known: few of all that there could be.
    known_own: Vec<u32>,
    known_told: Vec<u32>,
    /// By switch and rack: the group of links that the switch itself uses.
    own: Vec<u32>,
    /// By switch and rack: how good a way others think that it has.
    told: Vec<Option<Reach>>,
    /// Each different group once: few, whatever the number of switches and racks.
    groups: Vec<Box<[LinkId]>>,
}

impl Routes {
    pub(super) fn add_link(&mut self) {
        self.verdicts.push(Verdict::default());
    }

    /// Nobody knows of a bad link.
    #[inline]
    pub(super) fn all_good(&self) -> bool {
        self.bad == 0
    }

    pub(super) fn verdict(&self, link: LinkId) -> Verdict {
        self.verdicts[link.index()]
    }

    /// Takes verdicts on links, and forgets once, however many they are, what followed from others.
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

    /// Takes time by what was known, and the first time by switches and racks.
    fn forget(&mut self, switches: usize, racks: u32) {
        self.forgotten += 1;
        self.forgotten_entries += (self.known_own.len() + self.known_told.len()) as u64;
        self.racks = racks;
        for place in self.known_own.drain(..) {
            self.own[place as usize] = UNKNOWN;
        }
        for place in self.known_told.drain(..) {
            self.told[place as usize] = None;
        }
        let entries = switches * racks as usize;
        self.own.resize(entries, UNKNOWN);
        self.told.resize(entries, None);
        self.groups.clear();
    }

    fn place(&self, switch: SwitchId, rack: RackId) -> usize {
        switch.index() * self.racks as usize + rack.index()
    }

    /// The links that a switch itself uses to a rack; `None` when nobody has asked before.
    pub(super) fn own(&self, switch: SwitchId, rack: RackId) -> Option<&[LinkId]> {
        let group = self.own[self.place(switch, rack)];
        (group != UNKNOWN).then(|| &*self.groups[group as usize])
    }

    /// Takes the best of a switch's ways to a rack.
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

    /// The way to a rack that others think a switch has; `None` when nobody has asked.
    pub(super) fn told(&self, switch: SwitchId, rack: RackId) -> Option<Reach> {
        self.told[self.place(switch, rack)]
    }

    pub(super) fn set_told(&mut self, switch: SwitchId, rack: RackId, reach: Reach) {
        let place = self.place(switch, rack);
        let before = self.told[place].replace(reach);
        self.known_told.extend(before.is_none().then_some(place as u32));
    }
}
