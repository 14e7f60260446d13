//! Tests of the verdicts that runs lead to.

use super::*;
use crate::command::paper::experiment;
use crate::command::record::Run;
use netsim::{FlowOutcome, Outcome};

/// An experiment that was made, and the microseconds that its flows took; those without a number
/// did not end.
struct Made<'a> {
    figure: Figure,
    protocol: Protocol,
    bytes: u64,
    completions_us: &'a [Option<u64>],
}

/// Returns the verdicts on statements that begin with `statement`, after one run of some
/// experiments.
fn verdicts(statement: &str, made: &[Made<'_>]) -> Vec<Verdict> {
    let mut experiments = experiment::all(true).unwrap();
    for made in made {
        let is_it = |e: &&mut Experiment| {
            (e.figure, e.protocol, e.bytes) == (made.figure, made.protocol, made.bytes)
        };
        let experiment = experiments.iter_mut().find(is_it).unwrap();
        let flow = |us: &Option<u64>| FlowOutcome {
            completion_ps: us.map(|us| us * 1_000_000),
            ideal_ps: 7_800_000_000,
            ..FlowOutcome::default()
        };
        let flows = made.completions_us.iter().map(flow).collect();
        let outcome = Outcome { seed: 1, flows, ..Outcome::default() };
        experiment.point.runs.push(Run::of(&experiment.scenario, outcome, None));
    }
    let claims = judge(&experiments);
    let judged = claims.iter().filter(|claim| claim.statement.starts_with(statement));
    judged.map(|claim| claim.verdict).collect()
}

/// The flows that had ended were once judged alone.
#[test]
fn figure_3_needs_runs_that_ended() {
    let of = |completions_us: &[Option<u64>]| {
        let (figure, protocol) = (Figure::Burst, Protocol::Cubic);
        let burst = Made { figure, protocol, bytes: CDF_BYTES, completions_us };
        verdicts("TCP CUBIC, 2 MB", &[burst])
    };
    assert_eq!(of(&[Some(30_000), Some(60_000)]), [Verdict::Holds; 2]);
    assert_eq!(of(&[Some(30_000), Some(60_000), None]), [Verdict::NotMeasured; 2]);
}

/// Flows that ended 5 ms after the start once counted as waiting, whatever for.
#[test]
fn flows_waited_if_only_the_cut_makes_them_end_after_routing_has_converged() {
    let of = |cut: &[Option<u64>], uncut: Option<&[Option<u64>]>| {
        let made =
            |figure, protocol, completions_us| Made { figure, protocol, bytes: 0, completions_us };
        let uncut = uncut.map(|uncut| made(Figure::Imbalance, Protocol::Cubic, uncut));
        let cut = made(Figure::Failure, Protocol::Rack, cut);
        let made: Vec<Made<'_>> = [cut].into_iter().chain(uncut).collect();
        verdicts("TCP RACK: flows over a link that fails wait", &made)
    };
    let early = &[Some(2_600), Some(2_700)][..];
    let late = &[Some(2_600), Some(51_000)][..];
    assert_eq!(of(late, Some(early)), [Verdict::Holds]);
    assert_eq!(of(late, Some(late)), [Verdict::Fails], "they are late anyway");
    assert_eq!(of(&[Some(2_600), Some(5_400)], Some(early)), [Verdict::Fails], "too soon");
    assert_eq!(of(&[Some(2_600), None], Some(early)), [Verdict::NotMeasured]);
    assert_eq!(of(late, None), [Verdict::NotMeasured]);
}
