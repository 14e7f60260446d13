//! The faults section of a scenario file.

use super::field::{Bounded, Gbps};
use crate::id::LinkId;
use crate::topology::Fabric;
use serde::Deserialize;
use toml::Spanned;

/// Microseconds up to a minute: no run is longer.
type Us = Bounded<0, 60_000_000>;
/// Maximum number of cuts of one flapping cable.
const FLAPS_MAX: u32 = 100_000;

/// A field and what is wrong with it.
type Problem = (&'static str, String);

/// A node ("spine3": all its cables) or a cable ("leaf0-spine3") that breaks, from when, until when
/// (for ever when that is missing), and how: at least one of the other fields.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [[fault]]")]
pub(crate) struct Fault {
    pub(crate) target: Spanned<String>,
    pub(crate) at_us: Us,
    pub(crate) until_us: Option<Us>,
    /// Whether nothing gets through.
    #[serde(default)]
    pub(crate) cut: bool,
    /// Cycle in which the cable is cut and mended again and again.
    pub(crate) flap: Option<Flap>,
    /// Lower rate of the links.
    pub(crate) gbps: Option<Gbps>,
    /// Share of packets that are lost at random without a trace; together with `gbps` a brown-out.
    pub(crate) loss_ppm: Option<Bounded<1, 1_000_000>>,
    /// Time after which routing learns of it, and of its end; never when this is missing. Routing
    /// takes a cable that is cut for dead; one that is slow or loses packets it drains: when there
    /// is no other way, it is still used.
    pub(crate) repair: Option<Repair>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ down_us = 20, up_us = 20 }")]
pub(crate) struct Flap {
    pub(crate) down_us: Bounded<1, 60_000_000>,
    pub(crate) up_us: Bounded<1, 60_000_000>,
}

/// The delay of routing.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ detect_us = 3, converge_us = 10 }")]
pub(crate) struct Repair {
    /// Duration for which a state must last before the switches at both ends notice it and change
    /// their tables.
    pub(crate) detect_us: Us,
    /// Additional time until the tables of all others follow.
    pub(crate) converge_us: Us,
}

impl Fault {
    /// Returns the field and the problem of a fault that cannot be, in runs that end after
    /// `limit_ms`.
    pub(super) fn check(&self, fabric: &Fabric, limit_ms: u32) -> Result<(), Problem> {
        let target = self.target.get_ref();
        let Some(links) = fabric.links_named(target) else {
            let names = fabric.node_names();
            let problem = format!(
                "{target:?} names no cable; nodes are {names}, a cable is two of them with a dash that are connected"
            );
            return Err(("fault.target", problem));
        };
        if !self.cut && self.flap.is_none() && self.gbps.is_none() && self.loss_ppm.is_none() {
            let problem = "one of cut = true, flap, gbps and loss_ppm is needed".to_owned();
            return Err(("fault", problem));
        }
        self.check_rate(fabric, &links)?;
        let at_us = self.at_us.get();
        if u64::from(at_us) >= u64::from(limit_ms) * 1000 {
            let problem = format!("{at_us} is not before limit_ms = {limit_ms}, when a run ends");
            return Err(("fault.at_us", problem));
        }
        let until_us = self.until_us.map(Bounded::get);
        if let Some(until_us) = until_us.filter(|&until_us| until_us <= at_us) {
            let problem = format!("{until_us} is not after at_us, which is {at_us}");
            return Err(("fault.until_us", problem));
        }
        let Some(flap) = self.flap else { return Ok(()) };
        if self.cut {
            let problem = "cut = true is for all of the time: leave one of them out".to_owned();
            return Err(("fault.flap", problem));
        }
        if self.repair.is_some() && (self.gbps.is_some() || self.loss_ppm.is_some()) {
            let problem =
                "routing repairs flaps or a slow or lossy cable, not both: make two faults"
                    .to_owned();
            return Err(("fault.flap", problem));
        }
        let Some(until_us) = until_us else {
            return Err(("fault.until_us", "a flap needs an end".to_owned()));
        };
        let flaps = (until_us - at_us).div_ceil(flap.down_us.get() + flap.up_us.get());
        if flaps > FLAPS_MAX {
            let problem = format!("{flaps} cuts until until_us; at most {FLAPS_MAX} are allowed");
            return Err(("fault.flap", problem));
        }
        Ok(())
    }
    /// Checks that the rate is lower than that of some link, and higher than that of none.
    fn check_rate(&self, fabric: &Fabric, links: &[LinkId]) -> Result<(), Problem> {
        let Some(gbps) = self.gbps else { return Ok(()) };
        let normal = |link: LinkId| fabric.links[link.index()].ps_per_byte();
        if let Some(&link) = links.iter().find(|&&link| gbps.ps_per_byte() < normal(link)) {
            let (name, gbps) = (fabric.link_name(link), 8000 / normal(link));
            let problem = format!("faster than {name}, which has {gbps} Gbit/s: that is no fault");
            return Err(("fault.gbps", problem));
        }
        if links.iter().all(|&link| gbps.ps_per_byte() == normal(link)) {
            let target = self.target.get_ref();
            let problem = format!("it is the rate of every link of {target}: that is no fault");
            return Err(("fault.gbps", problem));
        }
        Ok(())
    }
}
