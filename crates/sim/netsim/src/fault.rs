//! Faults of a scenario: their effects on links while they last, alone and together.

use crate::id::{LinkId, StepId};
use crate::link::Condition;
use crate::scenario::{Fault, Repair};
use crate::time::Time;
use crate::topology::{Fabric, KnownTo, Verdict};

/// The effect of a fault on its links for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Cut,
    Slow { ps_per_byte: u32 },
    Loss { ppm: u32 },
    Bad(Verdict),
}

#[derive(Debug)]
struct Part {
    /// Links of the fault, sorted.
    links: Vec<LinkId>,
    effect: Effect,
    active: bool,
}

/// The moment at which a part of a fault begins or ends.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: Time,
    part: usize,
    begins: bool,
}

/// All faults of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    parts: Vec<Part>,
    steps: Vec<Step>,
    /// Links that have faults, sorted, each with its rate when it is healthy.
    normal_ps_per_byte: Vec<(LinkId, u32)>,
}

/// Begin and end of a state; without an end it lasts for ever.
type Span = (Time, Option<Time>);

impl Faults {
    /// Creates the faults whose targets are in `fabric`.
    pub(crate) fn new(faults: &[Fault], fabric: &Fabric) -> Self {
        let mut all = Self::default();
        for fault in faults {
            let links = fabric.links_named(fault.target.get_ref()).unwrap_or_default();
            all.add(fault, &links);
            let rate = |&link: &LinkId| (link, fabric.links[link.index()].ps_per_byte());
            all.normal_ps_per_byte.extend(links.iter().map(rate));
        }
        all.normal_ps_per_byte.sort_unstable();
        all.normal_ps_per_byte.dedup();
        all
    }

    /// Creates cuts of links of 100 Gbit/s, each from when until when in microseconds.
    #[cfg(test)]
    pub(crate) fn cuts(links: &[LinkId], spans_us: &[(u64, u64)]) -> Self {
        Self::all(links, spans_us, Effect::Cut)
    }

    /// Creates phases in which links of 100 Gbit/s are slow, each from when until when in
    /// microseconds.
    #[cfg(test)]
    pub(crate) fn slow(links: &[LinkId], spans_us: &[(u64, u64)], ps_per_byte: u32) -> Self {
        Self::all(links, spans_us, Effect::Slow { ps_per_byte })
    }

    #[cfg(test)]
    fn all(links: &[LinkId], spans_us: &[(u64, u64)], effect: Effect) -> Self {
        let normal_ps_per_byte = links.iter().map(|&link| (link, 80)).collect();
        let mut all = Self { normal_ps_per_byte, ..Self::default() };
        let span = |&(from, until)| (Time::from_us(from), Some(Time::from_us(until)));
        all.during(&spans_us.iter().map(span).collect::<Vec<_>>(), links, effect);
        all
    }

    fn add(&mut self, fault: &Fault, links: &[LinkId]) {
        let at = Time::from_us(u64::from(fault.at_us.get()));
        let until = fault.until_us.map(|us| Time::from_us(u64::from(us.get())));
        let whole = [(at, until)];
        let spans = match fault.flap.zip(until) {
            Some((flap, until)) => {
                let ps = |us: u32| Time::from_us(u64::from(us)).as_ps();
                flaps(at, until, ps(flap.down_us.get()), ps(flap.up_us.get()))
            }
            None => whole.to_vec(),
        };
        if fault.cut {
            self.during(&whole, links, Effect::Cut);
        }
        if fault.flap.is_some() {
            self.during(&spans, links, Effect::Cut);
        }
        if let Some(gbps) = fault.gbps {
            self.during(&whole, links, Effect::Slow { ps_per_byte: gbps.ps_per_byte() });
        }
        if let Some(ppm) = fault.loss_ppm {
            self.during(&whole, links, Effect::Loss { ppm: ppm.get() });
        }
        if let Some(Repair { detect_us, converge_us }) = fault.repair {
            let ps = |us: u32| Time::from_us(u64::from(us)).as_ps();
            let noticed = noticed(&spans, ps(detect_us.get()));
            let dead = fault.cut || fault.flap.is_some();
            let bad = |known_to| Effect::Bad(Verdict { known_to, dead });
            self.during(&noticed, links, bad(KnownTo::Ends));
            let late = |at: Time| at.plus_ps(ps(converge_us.get()));
            let told: Vec<Span> =
                noticed.iter().map(|&(from, until)| (late(from), until.map(late))).collect();
            self.during(&told, links, bad(KnownTo::All));
        }
    }

    fn during(&mut self, spans: &[Span], links: &[LinkId], effect: Effect) {
        let part = self.parts.len();
        self.parts.push(Part { links: links.to_vec(), effect, active: false });
        for &(from, until) in spans {
            self.steps.push(Step { at: from, part, begins: true });
            self.steps.extend(until.map(|at| Step { at, part, begins: false }));
        }
    }

    /// Returns the time of each step.
    pub(crate) fn times(&self) -> impl Iterator<Item = Time> {
        self.steps.iter().map(|step| step.at)
    }

    /// Takes a step and returns the links that it changes.
    pub(crate) fn take(&mut self, step: StepId) -> &[LinkId] {
        let Step { part, begins, .. } = self.steps[step.index()];
        self.parts[part].active = begins;
        &self.parts[part].links
    }

    /// Returns the condition of a link and the verdict of routing on it, with all faults that are
    /// active: cut by any, the slowest rate, losses that know nothing of each other. The link has
    /// faults.
    pub(crate) fn now(&self, link: LinkId) -> (Condition, Verdict) {
        let healthy = self.normal_ps_per_byte.binary_search_by_key(&link, |entry| entry.0);
        let ps_per_byte = healthy.map_or(0, |place| self.normal_ps_per_byte[place].1);
        let mut condition = Condition { ps_per_byte, loss_ppm: 0, up: true };
        let mut verdict = Verdict::default();
        let here = |part: &&Part| part.active && part.links.binary_search(&link).is_ok();
        for part in self.parts.iter().filter(here) {
            match part.effect {
                Effect::Cut => condition.up = false,
                Effect::Slow { ps_per_byte } => {
                    condition.ps_per_byte = condition.ps_per_byte.max(ps_per_byte);
                }
                Effect::Loss { ppm } => {
                    let (a, b) = (u64::from(condition.loss_ppm), u64::from(ppm));
                    condition.loss_ppm = (a + b - a * b / 1_000_000) as u32;
                }
                Effect::Bad(Verdict { known_to, dead }) => {
                    verdict.known_to = verdict.known_to.max(known_to);
                    verdict.dead |= dead;
                }
            }
        }
        (condition, verdict)
    }
}

/// Returns the spans in which a flapping link is down: down for a while, up for a while, until the
/// end, when it is up.
fn flaps(begin: Time, end: Time, down_ps: u64, up_ps: u64) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut at = begin;
    while at < end {
        let until = at.plus_ps(down_ps).min(end);
        spans.push((at, Some(until)));
        at = until.plus_ps(up_ps);
    }
    spans
}

/// Returns the spans in which a link is believed to be bad when each state has to last for
/// `detect_ps` before it is believed.
fn noticed(bad: &[Span], detect_ps: u64) -> Vec<Span> {
    let mut changes: Vec<(Time, bool)> = Vec::new();
    for &(from, until) in bad {
        changes.push((from, true));
        changes.extend(until.map(|until| (until, false)));
    }
    let mut spans: Vec<Span> = Vec::new();
    let mut believed = false;
    for (i, &(at, is_bad)) in changes.iter().enumerate() {
        let seen_at = at.plus_ps(detect_ps);
        let lasts = changes.get(i + 1).is_none_or(|next| next.0 >= seen_at);
        if !lasts || is_bad == believed {
            continue;
        }
        believed = is_bad;
        match spans.last_mut().filter(|_| !is_bad) {
            Some(open) => open.1 = Some(seen_at),
            None => spans.push((seen_at, None)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::leaf_spine;
    use crate::topology::tests::PORT;

    fn faults(text: &str) -> (Faults, Vec<LinkId>) {
        #[derive(serde::Deserialize)]
        struct File {
            fault: Vec<Fault>,
        }
        let fabric = leaf_spine(4, 3, 2, PORT);
        let file: File = toml::from_str(text).unwrap();
        let links = fabric.links_named("leaf0-spine0").unwrap();
        (Faults::new(&file.fault, &fabric), links)
    }

    /// Takes the steps in the order of time, and returns the state of a link after each.
    fn history(faults: &mut Faults, link: LinkId) -> Vec<(u64, Condition, Verdict)> {
        let mut steps: Vec<(Time, StepId)> = faults.times().zip(StepId::all()).collect();
        steps.sort();
        let mut take = |(at, step): (Time, StepId)| {
            faults.take(step);
            let (condition, verdict) = faults.now(link);
            (at.as_ps() / 1_000_000, condition, verdict)
        };
        steps.into_iter().map(&mut take).collect()
    }

    #[test]
    fn overlapping_faults_add_up_and_end_one_by_one() {
        let (mut faults, links) = faults(
            "[[fault]]\ntarget = \"spine0\"\nat_us = 10\nuntil_us = 40\ncut = true\n\
             [[fault]]\ntarget = \"leaf0-spine0\"\nat_us = 20\nuntil_us = 50\ncut = true\n\
             [[fault]]\ntarget = \"leaf0\"\nat_us = 20\ngbps = 25\nloss_ppm = 500_000\n\
             [[fault]]\ntarget = \"spine0\"\nat_us = 30\nuntil_us = 60\ngbps = 50\nloss_ppm = 500_000\n",
        );
        let after: Vec<_> = history(&mut faults, links[0])
            .into_iter()
            .map(|(us, c, _)| (us, c.up, c.ps_per_byte, c.loss_ppm))
            .collect();
        let at = |us: u64| *after.iter().rfind(|state| state.0 == us).unwrap();
        assert_eq!(at(10), (10, false, 80, 0));
        assert_eq!(at(20), (20, false, 320, 500_000));
        assert_eq!(at(30), (30, false, 320, 750_000));
        assert_eq!(at(40), (40, false, 320, 750_000), "the cable is still cut");
        assert_eq!(at(50), (50, true, 320, 750_000));
        assert_eq!(at(60), (60, true, 320, 500_000));
    }

    #[test]
    fn a_fault_is_noticed_then_known_and_so_is_its_end() {
        let (mut faults, links) = faults(
            "[[fault]]\ntarget = \"leaf0-spine0\"\nat_us = 10\nuntil_us = 500\nloss_ppm = 9\n\
             repair = { detect_us = 30, converge_us = 200 }\n",
        );
        let known: Vec<_> = history(&mut faults, links[1])
            .into_iter()
            .map(|(us, _, verdict)| (us, verdict.known_to, verdict.dead))
            .collect();
        use KnownTo::{All, Ends, Nobody};
        let noticed = [(10, Nobody), (40, Ends), (240, All), (500, All), (530, All), (730, Nobody)];
        assert_eq!(known, noticed.map(|(us, known_to)| (us, known_to, false)));
    }

    #[test]
    fn flaps_shorter_than_the_detection_go_unnoticed() {
        let ps = |us: u64| us * 1_000_000;
        let flaps = |down, up| flaps(Time::from_us(100), Time::from_us(200), ps(down), ps(up));
        let us = |spans: Vec<Span>| -> Vec<(u64, Option<u64>)> {
            let us = |at: Time| at.as_ps() / 1_000_000;
            spans.into_iter().map(|(from, until)| (us(from), until.map(us))).collect()
        };
        let short = flaps(10, 40);
        assert_eq!(us(short.clone()), [(100, Some(110)), (150, Some(160))]);
        assert_eq!(noticed(&short, ps(11)), []);
        assert_eq!(us(noticed(&short, ps(10))), [(110, Some(120)), (160, Some(170))]);
        // Down is noticed; up is too short each time, but for the last.
        assert_eq!(us(noticed(&flaps(30, 10), ps(20))), [(120, Some(220))]);
    }
}
