//! The subject of a page: what was compared, on which machine, in which phase of its processors.

use bench_record::{Results, Run, cores};

use crate::compare::networks;

/// The greatest number of names that a title says.
const NAMES_MAX: usize = 3;

/// The title of the page, and the text below it.
pub(crate) struct About {
    pub(crate) title: String,
    pub(crate) text: Vec<String>,
}

/// Returns the title and the text of a page about these runs.
pub(crate) fn about(results: &Results, runs: &[Run], names: &[&str]) -> About {
    let plan = results.plan.as_ref().map(|plan| plan.name.as_str());
    let is_compared = results.plan.as_ref().is_some_and(|plan| !plan.comparisons.is_empty());
    let who = match names {
        _ if is_compared => "figures beside what they are compared with".to_owned(),
        [] => "published figures".to_owned(),
        [one] => (*one).to_owned(),
        [first, others @ ..] if names.len() <= NAMES_MAX => {
            format!("{first} beside {}", others.join(" and "))
        }
        [first, others @ ..] => format!("{first} beside {} others", others.len()),
    };
    let title = match plan {
        Some(plan) => format!("efa-bench {plan}: {who}"),
        None => format!("efa-bench: {who}"),
    };
    let text = if names.is_empty() { Vec::new() } else { vec![place(results, runs, names)] };
    About { title, text }
}

/// Describes where and when: "Over loopback, on vm (AMD EPYC, 2 cores), 2026-11-22 18:05 UTC; cores
/// near: 112 ns (78 points).".
fn place(results: &Results, runs: &[Run], names: &[&str]) -> String {
    let date = results.date.replace('T', " ");
    let date = date.trim_end_matches('Z').rsplit_once(':').map_or("", |(minutes, _)| minutes);
    let mut facts: Vec<String> = Vec::new();
    match results.hosts().as_slice() {
        [] => {}
        [host] => {
            if !host.name.is_empty() {
                let cores = if host.cores == 1 { "core" } else { "cores" };
                facts.push(format!("on {} ({}, {} {cores})", host.name, host.cpu, host.cores));
            }
            facts.extend((!date.is_empty()).then(|| format!("{date} UTC")));
        }
        // Each has a date of its own.
        several => facts.push(format!("on {} machines", several.len())),
    }
    let what = format!("Over {}", networks(runs, names.iter().copied()));
    let mut text = [vec![what], facts].concat().join(", ");
    // A shown point may stand for several.
    let measured = results.runs.iter().filter(|run| run.source == "measured");
    text += &format!("; {}", cores::words(measured.flat_map(|run| &run.points)));
    if let Some(plan) = results.plan.as_ref().filter(|plan| !plan.complete) {
        text += &format!(". INCOMPLETE: {} of {} steps are done", plan.steps_done, plan.steps);
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use bench_record::cores::Cores;
    use bench_record::spec::Benchmark;
    use bench_record::{Host, PlanRecord, Point};

    use super::*;

    fn results() -> Results {
        let run = Run {
            is_loopback: true,
            ..Run::new("mine", Benchmark::Latency, vec![Point::new(8, 1)])
        };
        let host =
            Host { name: "vm".to_owned(), cpu: "EPYC".to_owned(), cores: 2, ..Host::default() };
        let date = "2026-11-22T18:05:00Z".to_owned();
        Results { host, date, ..Results::of(vec![run], Vec::new()) }
    }

    #[test]
    fn the_title_says_who_and_the_text_where() {
        let own = results();
        let found = about(&own, &own.runs, &["mine"]);
        assert_eq!(found.title, "efa-bench: mine");
        assert_eq!(
            found.text,
            ["Over loopback, on vm (EPYC, 2 cores), 2026-11-22 18:05 UTC; cores: not measured."]
        );
        assert_eq!(about(&own, &own.runs, &["a", "b", "c"]).title, "efa-bench: a beside b and c");
        assert_eq!(
            about(&own, &own.runs, &["a", "b", "c", "d"]).title,
            "efa-bench: a beside 3 others"
        );
        assert_eq!(about(&own, &[], &[]).title, "efa-bench: published figures");
    }

    /// A machine that imported a file has not measured it, and the first of several machines has
    /// not measured all.
    #[test]
    fn only_machines_that_measured_are_named() {
        let mut own = results();
        own.runs[0].source = "imported".to_owned();
        assert_eq!(about(&own, &own.runs, &["mine"]).text, ["Over loopback; cores: not measured."]);
        let other_hosts = vec![Host { name: "db2".to_owned(), ..Host::default() }];
        let own = Results { other_hosts, ..results() };
        let text = about(&own, &own.runs, &["mine"]).text.concat();
        assert_eq!(text, "Over loopback, on 2 machines; cores: not measured.");
    }

    /// The head of a page and its facts count points alike.
    #[test]
    fn the_cores_are_those_of_all_that_was_measured() {
        let at = |ns| Some(Cores::between(ns, ns));
        let point = |ns| Point { cores: at(ns), ..Point::new(8, 1) };
        let run = Run::new("mine", Benchmark::Latency, vec![point(112.0), point(530.0)]);
        let own = Results::of(vec![run.clone()], Vec::new());
        let shown = Run { points: vec![point(112.0), point(112.0)], ..run };
        let text = about(&own, &[shown], &["mine"]).text.concat();
        assert!(text.contains("near: 112 ns (1 point); far: 530 ns (1 point)"), "{text}");
    }

    #[test]
    fn an_interrupted_plan_is_said_to_be_one() {
        let plan = PlanRecord {
            comparisons: Vec::new(),
            name: "quick".to_owned(),
            scale: 1.0,
            steps: 8,
            steps_done: 3,
            skipped: Vec::new(),
            failed: Vec::new(),
            complete: false,
        };
        let own = Results { plan: Some(plan), ..results() };
        let found = about(&own, &own.runs, &["mine"]);
        assert_eq!(found.title, "efa-bench quick: mine");
        assert!(found.text[0].ends_with("INCOMPLETE: 3 of 8 steps are done."), "{:?}", found.text);
    }
}
