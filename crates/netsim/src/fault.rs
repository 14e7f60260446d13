//! Faults of a scenario, cut into steps that happen at once.

use crate::scenario::{Fault, Gbps};
use crate::time::Time;

/// One change of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Up(bool),
    Rate {
        ps_per_byte: u32,
    },
    Loss {
        ppm: u32,
    },
    /// Routing learns (to avoid it, or not to).
    Avoid(bool),
}

/// The steps of a fault. `normal` is the rate of a healthy link.
pub(crate) fn steps(fault: &Fault, normal: Gbps) -> Vec<(Time, Step)> {
    let mut steps = Vec::new();
    let mut during = |from_us: u64, until_us: Option<u64>, step: Step, after: Step| {
        steps.push((Time::from_us(from_us), step));
        steps.extend(until_us.map(|until_us| (Time::from_us(until_us), after)));
    };
    let (at_us, until_us) = (fault.at_us, fault.until_us);
    if fault.cut {
        during(at_us, until_us, Step::Up(false), Step::Up(true));
        if let Some(repair_us) = fault.repair_us {
            let late = |us: u64| us.saturating_add(repair_us);
            during(late(at_us), until_us.map(late), Step::Avoid(true), Step::Avoid(false));
        }
    }
    if let Some((flap, end_us)) = fault.flap.zip(until_us) {
        let mut down_us = at_us;
        while down_us < end_us {
            let up_us = (down_us + u64::from(flap.down_us.get())).min(end_us);
            during(down_us, Some(up_us), Step::Up(false), Step::Up(true));
            down_us = up_us + u64::from(flap.up_us.get());
        }
    }
    if let Some(gbps) = fault.gbps {
        let rate = |gbps: Gbps| Step::Rate { ps_per_byte: gbps.ps_per_byte() };
        during(at_us, until_us, rate(gbps), rate(normal));
    }
    if let Some(ppm) = fault.loss_ppm {
        during(at_us, until_us, Step::Loss { ppm: ppm.get() }, Step::Loss { ppm: 0 });
    }
    steps
}
