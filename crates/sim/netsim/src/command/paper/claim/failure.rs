//! Statements of section II: the cost of a broken cable.

use super::{CLOSE, Claim, range};
use crate::command::paper::experiment::{CONVERGED_AFTER_US, CUT_AT_US, Experiment, Protocol};
use netsim::Outcome;

const PS_PER_US: u64 = 1_000_000;

pub(super) fn srd(cut: Option<&Experiment>) -> Claim {
    let result = cut.and_then(|cut| {
        let worst = cut.worst()?;
        let ms = cut.summaries().map(|s| s.max_us).fold(0.0, f64::max) / 1000.0;
        let repeated: u64 = cut.outcomes().map(|outcome| outcome.repeated_packets).max()?;
        let measured = format!(
            "cable cut, routing never learns: slowest {worst:.3} x ideal ({ms:.2} ms), \
             {repeated} packets sent again"
        );
        Some((worst <= CLOSE, measured))
    });
    let statement = format!(
        "after a link fails, packets take another path at once, without waiting for routing \
         (slowest at most {CLOSE} x ideal)"
    );
    Claim::new("II.A", &statement, result)
}

/// Judges the statement on TCP. `uncut` has the same flows in a network that stays whole.
pub(super) fn tcp(tcp: Protocol, cut: Option<&Experiment>, uncut: Option<&Experiment>) -> Claim {
    let result = cut.zip(uncut).and_then(|(cut, uncut)| waited(cut, uncut));
    let statement = format!(
        "{}: flows over a link that fails wait until routing has converged ({} ms later)",
        tcp.name(),
        ms(CONVERGED_AFTER_US)
    );
    Claim::new("II.A", &statement, result)
}

/// Decides whether flows waited for routing: some end after it has converged, and none would have
/// done so anyway.
fn waited(cut: &Experiment, uncut: &Experiment) -> Option<(bool, String)> {
    if !(cut.point.is_complete() && uncut.point.is_complete()) {
        return None;
    }
    let (least, most) = range(cut.outcomes().map(|outcome| late(outcome) as f64));
    let late_anyway = |outcome: &Outcome| {
        let same_seed = uncut.outcomes().find(|other| other.seed == outcome.seed);
        same_seed.map(late)
    };
    let anyway: usize = cut.outcomes().map(late_anyway).sum::<Option<usize>>()?;
    let slowest_ms = cut.summaries().map(|s| s.max_us).reduce(f64::max)? / 1000.0;
    let count = if least < most { format!("{least} to {most}") } else { least.to_string() };
    let measured = format!(
        "cable cut after {} ms, routing converged {} ms later: {count} of 128 flows ended after \
         that, {anyway} without the cut; the slowest took {slowest_ms:.1} ms ({:.1} x ideal)",
        ms(CUT_AT_US),
        ms(CONVERGED_AFTER_US),
        cut.worst()?
    );
    Some((least > 0.0 && anyway == 0, measured))
}

/// Counts flows that end after routing has converged.
fn late(outcome: &Outcome) -> usize {
    let converged_ps = u64::from(CUT_AT_US + CONVERGED_AFTER_US) * PS_PER_US;
    let ends_ps = outcome.flows.iter().filter_map(|flow| Some(flow.start_ps + flow.completion_ps?));
    ends_ps.filter(|&end_ps| end_ps >= converged_ps).count()
}

fn ms(us: u32) -> f64 {
    f64::from(us) / 1000.0
}
