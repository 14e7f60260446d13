//! The comparisons of a plan: which of its tasks have the figures, and what their rounds found.

use bench_record::Run;
use bench_record::comparison::{Block, Bound, Comparison, Figure};
use bench_record::failure::Failure;
use bench_report::comparisons::Judged;

use super::fabric::Fabric;
use super::outcome::Findings;
use super::source::{ComparisonSource, SideSource, Source};
use super::task::Task;

/// A comparison, and the tasks that fill it.
#[derive(Debug)]
pub(super) struct Planned {
    /// The comparison without figures.
    empty: Comparison,
    ours: usize,
    reference: Option<usize>,
}

/// Returns the comparisons of a plan whose tasks are there.
pub(super) fn of_plan(
    source: &Source,
    tasks: &[Task],
    fabrics: &[Fabric],
) -> Result<Vec<Planned>, Failure> {
    if let (Some(first), None) = (source.comparisons.first(), source.rounds) {
        let what = "it compares rounds of the whole plan: write rounds = 3 above its tables";
        return Err(Failure::Usage(format!("plan {}: {what}", first.place)));
    }
    source.comparisons.iter().map(|own| planned(own, tasks, fabrics)).collect()
}

fn planned(
    source: &ComparisonSource,
    tasks: &[Task],
    fabrics: &[Fabric],
) -> Result<Planned, Failure> {
    let wrong = |what: String| Failure::Usage(format!("plan {}: {what}", source.place));
    let task = |side: &SideSource| {
        let is_it = |task: &Task| {
            task.id.as_deref() == Some(&side.step) && fabrics[task.fabric].name == side.on
        };
        let found = tasks.iter().position(is_it).ok_or_else(|| {
            wrong(format!("no step with id = \"{}\" goes with a fabric `{}`", side.step, side.on))
        })?;
        match tasks[found].points() {
            1 => Ok(found),
            points => Err(wrong(format!(
                "step {} measures {points} points: write a step of one for what is compared",
                side.step
            ))),
        }
    };
    Ok(Planned {
        ours: task(&source.ours)?,
        reference: source.beside.as_ref().map(task).transpose()?,
        empty: Comparison {
            section: source.section.clone(),
            what: source.what.clone(),
            figure: source.figure,
            ours: Vec::new(),
            beside: source.beside.as_ref().map_or_else(String::new, |side| side.name.clone()),
            reference: Vec::new(),
            bound: source.bound,
            aim: source.aim,
        },
    })
}

impl Planned {
    /// Returns the name: "UDP (--wire udp): `ib_send_lat` 64 B, bare UDP".
    fn name(&self) -> String {
        let Comparison { section, what, beside, .. } = &self.empty;
        let section = if section.is_empty() { String::new() } else { format!("{section}: ") };
        let beside = if beside.is_empty() { String::new() } else { format!(", {beside}") };
        format!("{section}{what}{beside}")
    }

    fn tasks(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.ours).chain(self.reference)
    }

    /// Returns the comparison with the figures found so far.
    fn filled(&self, findings: &Findings) -> Comparison {
        let of = |task| blocks(findings, task, self.empty.figure);
        let reference = self.reference.map(of).unwrap_or_default();
        Comparison { ours: of(self.ours), reference, ..self.empty.clone() }
    }
}

/// Returns the figures of a task's rounds.
fn blocks(findings: &Findings, task: usize, figure: Figure) -> Vec<Block> {
    let rounds = findings.rounds.get(&task).map_or(&[][..], Vec::as_slice);
    let block = |(round, runs): &(usize, Vec<Run>)| {
        let point = runs.first()?.points.first()?;
        Some(Block { round: *round, figure: figure.of(point)?, phase: point.phase() })
    };
    rounds.iter().filter_map(block).collect()
}

/// Returns all comparisons with the figures found so far.
pub(super) fn found(all: &[Planned], findings: &Findings) -> Vec<Comparison> {
    all.iter().map(|own| own.filled(findings)).collect()
}

/// Returns the tasks whose comparison is not decided by the rounds so far, but may be by more. If
/// one side has failed, no round will decide it.
pub(super) fn undecided(all: &[Planned], findings: &Findings, active: &[usize]) -> Vec<usize> {
    let is_open = |own: &&Planned| {
        if !own.tasks().all(|task| active.contains(&task)) {
            return false;
        }
        let filled = own.filled(findings);
        let judged = Judged(&filled);
        judged.is_apart() || judged.is_undecided()
    };
    all.iter().filter(is_open).flat_map(Planned::tasks).collect()
}

/// Fails if comparisons that must agree do not; comparisons that only have a bound to reach are
/// judged in the table.
pub(super) fn verdict(found: &[Comparison]) -> Result<(), Failure> {
    let must_agree =
        |own: &&Comparison| matches!(own.bound, Bound::RatioWithin(_)) && !Judged(own).passes();
    let failing = found.iter().filter(must_agree);
    let (open, apart): (Vec<_>, Vec<_>) = failing.partition(|own| Judged(own).is_undecided());
    let names = |all: &[&Comparison]| {
        let name = |own: &&Comparison| format!("{} and {}", own.what, own.beside);
        all.iter().map(name).collect::<Vec<_>>().join("; ")
    };
    match (apart.is_empty(), open.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(Failure::Check(format!("two tools differ: {}", names(&apart)))),
        (true, false) => Err(Failure::Inconclusive(format!(
            "the rounds do not tell whether these agree: {}: end what else runs on this machine, or \
             take more --rounds",
            names(&open)
        ))),
    }
}

/// Keeps only what has one of these texts in its name: comparisons with their tasks, and tasks.
pub(super) fn only(
    patterns: &[String],
    tasks: Vec<Task>,
    comparisons: Vec<Planned>,
) -> Result<(Vec<Task>, Vec<Planned>), Failure> {
    if patterns.is_empty() {
        return Ok((tasks, comparisons));
    }
    let patterns: Vec<String> = patterns.iter().map(|own| own.to_lowercase()).collect();
    let is_wanted = |name: &str| {
        let name = name.to_lowercase();
        patterns.iter().any(|pattern| name.contains(pattern))
    };
    let wanted: Vec<bool> = comparisons.iter().map(|own| is_wanted(&own.name())).collect();
    let mut is_kept: Vec<bool> = tasks.iter().map(|task| is_wanted(&task.title)).collect();
    for (own, _) in comparisons.iter().zip(&wanted).filter(|(_, wanted)| **wanted) {
        own.tasks().for_each(|task| is_kept[task] = true);
    }
    if !is_kept.contains(&true) {
        let mut names: Vec<String> = comparisons.iter().map(Planned::name).collect();
        if names.is_empty() {
            names = tasks.iter().map(|task| task.title.clone()).collect();
            names.dedup();
        }
        return Err(Failure::Usage(format!(
            "--only: nothing of this plan has '{}' in its name; there are:\n  {}",
            patterns.join("' or '"),
            names.join("\n  ")
        )));
    }
    let number = |task: usize| is_kept[..task].iter().filter(|kept| **kept).count();
    // A comparison whose tasks are there for others may stay, but half a comparison is none.
    let kept = comparisons
        .into_iter()
        .zip(&wanted)
        .filter(|(own, wanted)| **wanted || own.tasks().all(|task| is_kept[task]));
    let kept = kept.map(|(own, _)| {
        let (ours, reference) = (number(own.ours), own.reference.map(number));
        Planned { ours, reference, ..own }
    });
    let kept = kept.collect();
    let tasks = tasks.into_iter().zip(&is_kept).filter(|(_, kept)| **kept);
    Ok((tasks.map(|(task, _)| task).collect(), kept))
}
