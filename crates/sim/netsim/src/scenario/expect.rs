//! Expectations of a scenario about its runs: the means over its seeds, and the worst of them.

use super::field::Limit;
use super::network::Wrong;
use crate::outcome::{FlowOutcome, Outcome, Summary};
use crate::share::ShareSummary;
use crate::transport::Kind;
use serde::Deserialize;
use toml::Spanned;

/// Bounds on the means over all seeds, and for one figure on the worst of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table, [expect]")]
pub(crate) struct Expect {
    /// Transport of the flows that are judged; without it all flows are.
    transport: Option<Spanned<Kind>>,
    /// Upper bound on the largest completion time over the ideal one.
    max_to_ideal: Option<Limit>,
    /// Lower bound on the same figure: what is compared with must be as bad as it is known to be.
    max_to_ideal_least: Option<Limit>,
    /// Upper bound on the same figure of the worst seed, instead of the mean over the seeds.
    worst_to_ideal: Option<Limit>,
    /// Lower bound on the smallest completion time over the ideal one.
    min_to_ideal: Option<Limit>,
    /// Upper bound on repeated packets per hundred first transmissions, of all transports together.
    repeated_percent: Option<Spanned<Limit>>,
    /// Lower bound on Jain's index of the mean throughput of flows that send all the time.
    jain: Option<Limit>,
    /// Lower bound on the lowest throughput of such a flow in any interval over the fair share.
    min_to_fair: Option<Limit>,
    /// Upper bound on the same figure, for what is compared with.
    min_to_fair_most: Option<Limit>,
    /// Upper bound on the median completion time over the ideal one.
    p50_to_ideal: Option<Limit>,
    /// Upper bound on the 99th percentile of the completion times over the ideal one.
    p99_to_ideal: Option<Limit>,
    /// Lower bound on the same figure.
    p99_to_ideal_least: Option<Limit>,
    /// Lower bound on the ideal time of all transfers over their actual time, in percent.
    goodput_percent: Option<Limit>,
    /// Upper bound on the same figure.
    goodput_percent_most: Option<Limit>,
}

/// A figure of some runs, with the bounds that the scenario sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Name of the figure, as in tables: "max/ideal".
    pub figure: &'static str,
    /// Mean over the runs, or the worst of them, as the name says; `None` when not all runs show
    /// it.
    pub mean: Option<f64>,
    /// Upper bound, if there is one.
    pub most: Option<f64>,
    /// Lower bound, if there is one.
    pub least: Option<f64>,
    /// Reason why it is unknown, if it is.
    obstacle: &'static str,
}

/// The contribution of one run to the figures that its scenario may expect something of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Statistics of the flows that are judged and ended well.
    summary: Option<Summary>,
    /// Whether all flows that are judged ended well, and there is one.
    is_complete: bool,
    /// Shares among the flows that are judged and send all the time.
    shares: Option<ShareSummary>,
}

impl Expect {
    fn means(&self, kind: Kind) -> bool {
        self.transport.as_ref().is_none_or(|wanted| *wanted.get_ref() == kind)
    }

    /// Finds what does not fit together in a scenario whose flows use `transports`.
    pub(super) fn check(&self, transports: impl Iterator<Item = Kind>) -> Result<(), Wrong> {
        let used: Vec<Kind> = transports.collect();
        let used: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| used.contains(kind)).collect();
        let names: Vec<&str> = used.iter().map(|kind| kind.name()).collect();
        if let Some(wanted) = self
            .transport
            .as_ref()
            .filter(|kind| !used.is_empty() && !used.contains(kind.get_ref()))
        {
            let (wanted, span) = (wanted.get_ref().name(), wanted.span());
            let problem = format!("no flow uses {wanted}, only {}", names.join(" and "));
            return Err((span, "expect.transport", problem));
        }
        let Some(repeated) = &self.repeated_percent else { return Ok(()) };
        let Some(other) = used.into_iter().find(|&kind| !self.means(kind)) else { return Ok(()) };
        let problem = format!(
            "packets are counted for all transports together, and some flows use {}: leave out \
             expect.transport, or this",
            other.name()
        );
        Err((repeated.span(), "expect.repeated_percent", problem))
    }

    pub(super) fn figures(&self, outcome: &Outcome) -> Figures {
        let is_meant = |flow: &FlowOutcome| self.means(flow.transport);
        let summary = outcome.summary_of(is_meant);
        let meant = outcome.flows.iter().filter(|flow| is_meant(flow)).count();
        let shares = outcome.shares.as_ref();
        Figures {
            summary,
            is_complete: summary.is_some_and(|summary| summary.done == meant),
            shares: shares.and_then(|shares| shares.summary(|kind| self.means(kind))),
        }
    }

    /// Returns all figures of some runs, always in the same order; `None` is a run that failed. A
    /// figure that not all of the runs show is unknown: the others would speak for them.
    pub(super) fn bounds(&self, runs: &[Option<Figures>]) -> Vec<Bound> {
        let ended = every(runs, |run| run.summary);
        let whole = every(runs, |run| run.summary.filter(|_| run.is_complete));
        let shares = every(runs, |run| run.shares);
        let whole_mean = |field: fn(&Summary) -> f64| mean(whole.as_deref(), field);
        let worst = whole.iter().flatten().map(|s| s.max_to_ideal).max_by(f64::total_cmp);
        let has_failed = runs.iter().any(Option::is_none);
        let obstacle = |other: &'static str| if has_failed { "a run failed" } else { other };
        let bound = |figure, mean, most, least| {
            let (most, least) = (limit(most), limit(least));
            Bound { figure, mean, most, least, obstacle: obstacle("flows did not end") }
        };
        let share = |figure, field: fn(&ShareSummary) -> f64, most, least| {
            let mean = mean(shares.as_deref(), field);
            let obstacle = obstacle("no flow sends all the time");
            Bound { obstacle, ..bound(figure, mean, most, least) }
        };
        let max = whole_mean(|s| s.max_to_ideal);
        let min = mean(ended.as_deref(), |s| s.min_to_ideal);
        let repeated = mean(ended.as_deref(), |s| s.repeated_percent);
        let repeated_most = self.repeated_percent.as_ref().map(|most| *most.get_ref());
        let p50 = whole_mean(|s| s.p50_to_ideal);
        let p99 = whole_mean(|s| s.p99_to_ideal);
        let goodput = whole_mean(|s| s.goodput_percent);
        vec![
            bound("max/ideal", max, self.max_to_ideal, self.max_to_ideal_least),
            bound("worst max/ideal", worst, self.worst_to_ideal, None),
            bound("min/ideal", min, None, self.min_to_ideal),
            bound("repeated %", repeated, repeated_most, None),
            share("Jain", |s| s.jain, None, self.jain),
            share("min/fair", |s| s.min_to_fair, self.min_to_fair_most, self.min_to_fair),
            bound("p50/ideal", p50, self.p50_to_ideal, None),
            bound("p99/ideal", p99, self.p99_to_ideal, self.p99_to_ideal_least),
            bound("goodput %", goodput, self.goodput_percent_most, self.goodput_percent),
        ]
    }
}

fn limit(of: Option<Limit>) -> Option<f64> {
    of.map(|Limit(number)| number)
}

impl Bound {
    /// Returns whether it has a bound.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.most.or(self.least).is_some()
    }

    /// Returns the bounds in words, empty when there are none.
    #[must_use]
    pub fn wanted(&self) -> String {
        let least = self.least.map(|bound| format!("at least {bound}"));
        let most = self.most.map(|bound| format!("at most {bound}"));
        least.into_iter().chain(most).collect::<Vec<_>>().join(", ")
    }

    /// Returns how the mean misses its bounds; `None` when it does not.
    #[must_use]
    pub fn missed(&self) -> Option<String> {
        let figure = self.figure;
        if !self.is_bounded() {
            return None;
        }
        let Some(mean) = self.mean else {
            return Some(format!("{figure} is unknown: {}", self.obstacle));
        };
        let over = self.most.filter(|&bound| mean > bound);
        let under = self.least.filter(|&bound| mean < bound);
        over.map(|bound| format!("{figure} is {mean:.3}, expected at most {bound}"))
            .or_else(|| under.map(|b| format!("{figure} is {mean:.3}, expected at least {b}")))
    }
}

/// Returns what each of some runs shows; `None` when one of them does not.
fn every<T>(runs: &[Option<Figures>], shown: impl Fn(&Figures) -> Option<T>) -> Option<Vec<T>> {
    runs.iter().map(|run| shown(run.as_ref()?)).collect()
}

/// Returns the mean of a field; `None` when there is nothing to average.
fn mean<T>(of: Option<&[T]>, field: fn(&T) -> f64) -> Option<f64> {
    let all = of.filter(|all| !all.is_empty())?;
    Some(all.iter().map(field).sum::<f64>() / all.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::FlowId;
    use crate::share::{FlowShares, Shares};

    fn flow(transport: Kind, completion_ps: Option<u64>) -> FlowOutcome {
        FlowOutcome { transport, completion_ps, ideal_ps: 100, ..FlowOutcome::default() }
    }

    /// Returns a run with a flow of SRD and one of TCP.
    fn run(srd_ps: Option<u64>, tcp_ps: Option<u64>) -> Outcome {
        let flows = vec![flow(Kind::Srd, srd_ps), flow(Kind::Tcp, tcp_ps)];
        Outcome { flows, ..Outcome::default() }
    }

    /// Returns the bounds in `[expect]` that some runs miss; `None` is a run that failed.
    fn missed_by(text: &str, outcomes: &[Option<Outcome>]) -> Vec<String> {
        let expect = toml::from_str::<Expect>(text).unwrap();
        let figures = |outcome: &Option<Outcome>| outcome.as_ref().map(|o| expect.figures(o));
        let figures: Vec<Option<Figures>> = outcomes.iter().map(figures).collect();
        expect.bounds(&figures).iter().filter_map(Bound::missed).collect()
    }

    #[test]
    fn bounds_hold_for_the_means_of_the_flows_that_are_meant() {
        let outcomes = [Some(run(Some(100), Some(500))), Some(run(Some(120), Some(700)))];
        let missed = |text: &str| missed_by(text, &outcomes);
        assert_eq!(missed("max_to_ideal = 6.0\nmin_to_ideal = 1.1"), [""; 0]);
        assert_eq!(missed("transport = \"srd\"\nmax_to_ideal = 1.1"), [""; 0]);
        assert_eq!(
            missed("transport = \"srd\"\nmax_to_ideal = 1.05"),
            ["max/ideal is 1.100, expected at most 1.05"]
        );
        assert_eq!(missed("max_to_ideal_least = 7.0"), ["max/ideal is 6.000, expected at least 7"]);
        assert_eq!(missed("jain = 0.9"), ["Jain is unknown: no flow sends all the time"]);
        let worst = "transport = \"srd\"\nmax_to_ideal = 1.1\nworst_to_ideal = 1.15";
        assert_eq!(missed(worst), ["worst max/ideal is 1.200, expected at most 1.15"]);
        // The ideals are 100 and 500, the times 120 and 700: nearest rank, and the time that all
        // took.
        let missed_each =
            missed("p50_to_ideal = 1.0\np99_to_ideal_least = 7.0\ngoodput_percent = 30.0");
        let p50 = "p50/ideal is 1.100, expected at most 1";
        let p99 = "p99/ideal is 6.000, expected at least 7";
        let goodput = "goodput % is 28.862, expected at least 30";
        assert_eq!(missed_each, [p50, p99, goodput]);
        for bound in ["nan", "inf", "-1.0"] {
            let text = format!("max_to_ideal = {bound}");
            assert!(toml::from_str::<Expect>(&text).is_err(), "{bound} bounds nothing");
        }
        assert!(toml::from_str::<Expect>("max_to_ideal = 2").is_ok());
        let both =
            toml::from_str::<Expect>("max_to_ideal = 6.0\nmax_to_ideal_least = 3.0").unwrap();
        assert_eq!(both.bounds(&[])[0].wanted(), "at least 3, at most 6");
    }

    /// The flows that had ended once stood for all flows, and the runs that had for those that
    /// broke.
    #[test]
    fn what_not_all_runs_show_is_unknown() {
        let good = || Some(run(Some(100), Some(200)));
        let open = Some(run(Some(100), None));
        let runs = [good(), open];
        for field in ["max", "worst", "p50", "p99"] {
            let bound = format!("{field}_to_ideal = 9.0");
            let figure = if field == "worst" { "worst max" } else { field };
            let unknown = format!("{figure}/ideal is unknown: flows did not end");
            assert_eq!(missed_by(&bound, &runs), [unknown]);
            assert_eq!(missed_by(&format!("{bound}\ntransport = \"srd\""), &runs), [""; 0]);
        }
        let goodput = "goodput % is unknown: flows did not end";
        assert_eq!(missed_by("goodput_percent = 1.0", &runs), [goodput]);
        assert_eq!(missed_by("min_to_ideal = 1.0", &runs), [""; 0], "the fastest has ended");
        let unknown = "min/ideal is unknown: a run failed";
        assert_eq!(missed_by("min_to_ideal = 1.0", &[good(), None]), [unknown]);
        let unknown = "max/ideal is unknown: flows did not end";
        let empty = Outcome::default();
        assert_eq!(missed_by("max_to_ideal = 9.0", &[Some(empty)]), [unknown], "and none began");
    }

    /// Each transport once counted as fair to itself, and one that got nothing was left out.
    #[test]
    fn fairness_is_that_of_all_flows_that_are_meant() {
        let of = |flow, transport, bytes: &[u64]| FlowShares {
            flow: FlowId(flow),
            transport,
            bytes: bytes.to_vec(),
        };
        let flows = vec![of(0, Kind::Srd, &[9, 100, 100]), of(1, Kind::Tcp, &[9, 0, 0])];
        let shares = Some(Shares { interval_ms: 1, flows });
        let run = [Some(Outcome { shares, ..run(Some(100), Some(100)) })];
        let fair = "min_to_fair = 0.5\n";
        let missed = "min/fair is 0.000, expected at least 0.5";
        assert_eq!(missed_by(fair, &run), [missed]);
        assert_eq!(missed_by(&format!("{fair}transport = \"srd\""), &run), [""; 0]);
        assert_eq!(missed_by(&format!("{fair}transport = \"tcp\""), &run), [missed]);
    }

    /// The packets of all transports were once judged.
    #[test]
    fn repetitions_of_one_transport_of_several_are_not_known() {
        let expect = "transport = \"srd\"\nrepeated_percent = 1.0";
        let expect = toml::from_str::<Expect>(expect).unwrap();
        let check = |kinds: &[Kind]| expect.check(kinds.iter().copied());
        assert_eq!(check(&[Kind::Srd, Kind::Srd]), Ok(()));
        let (_, field, problem) = check(&[Kind::Srd, Kind::Tcp]).unwrap_err();
        assert_eq!(field, "expect.repeated_percent");
        assert!(problem.contains("some flows use tcp"), "{problem}");
        let all = toml::from_str::<Expect>("repeated_percent = 1.0").unwrap();
        assert_eq!(all.check([Kind::Srd, Kind::Tcp].into_iter()), Ok(()));
    }
}
