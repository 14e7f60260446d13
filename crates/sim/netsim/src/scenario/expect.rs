//! What a scenario expects of its runs: of the means over its seeds, and of the worst of them.

use super::field::Limit;
use crate::outcome::{Outcome, Summary};
use crate::share::ShareSummary;
use crate::transport::Kind;
use serde::Deserialize;

/// What the means over all seeds must keep, and of one figure the worst.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table, [expect]")]
pub(crate) struct Expect {
    /// Of flows that use this; of all flows when it is missing.
    transport: Option<Kind>,
    /// Largest completion time over the ideal one, at most.
    max_to_ideal: Option<Limit>,
    /// The same at least: what is compared with must be as bad as it is known to be.
    max_to_ideal_least: Option<Limit>,
    /// The same, not of the mean over the seeds but of the worst of them.
    worst_to_ideal: Option<Limit>,
    /// Smallest completion time over the ideal one, at least.
    min_to_ideal: Option<Limit>,
    /// Repeated packets per hundred first transmissions, at most.
    repeated_percent: Option<Limit>,
    /// Jain's index of the mean throughput of flows that send all the time, at least.
    jain: Option<Limit>,
    /// Lowest throughput of such a flow in any interval over the fair share, at least.
    min_to_fair: Option<Limit>,
    /// The same at most, as above.
    min_to_fair_most: Option<Limit>,
    /// Median completion time over the ideal one, at most.
    p50_to_ideal: Option<Limit>,
    /// The 99th percentile of it, at most.
    p99_to_ideal: Option<Limit>,
    /// The same at least.
    p99_to_ideal_least: Option<Limit>,
    /// Ideal time of all transfers over what they took, in percent, at least.
    goodput_percent: Option<Limit>,
    /// The same at most.
    goodput_percent_most: Option<Limit>,
}

/// A figure of some runs, and what the scenario expects of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Its name, as in tables: "max/ideal".
    pub figure: &'static str,
    /// Mean over the runs, or the worst of them, as the name says; `None` when no flow ended well,
    /// or none sent all the time.
    pub mean: Option<f64>,
    /// It is expected not to be larger than this.
    pub most: Option<f64>,
    /// It is expected not to be smaller than this.
    pub least: Option<f64>,
}

/// The contribution of one run to the figures that its scenario may expect something of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Of the flows that are meant.
    summary: Option<Summary>,
    /// A transport each.
    shares: Vec<ShareSummary>,
}

impl Expect {
    fn means(&self, kind: Kind) -> bool {
        self.transport.is_none_or(|wanted| wanted == kind)
    }

    pub(super) fn figures(&self, outcome: &Outcome) -> Figures {
        let kinds = Kind::ALL.into_iter().filter(|&kind| self.means(kind));
        Figures {
            summary: outcome.summary_of(|flow| self.means(flow.transport)),
            shares: kinds.filter_map(|kind| outcome.shares.as_ref()?.summary(kind)).collect(),
        }
    }

    /// All figures of some runs, always in the same order.
    pub(super) fn bounds(&self, runs: &[Figures]) -> Vec<Bound> {
        let summaries: Vec<Summary> = runs.iter().filter_map(|run| run.summary).collect();
        let shares: Vec<&ShareSummary> = runs.iter().flat_map(|run| &run.shares).collect();
        let mean = |field: fn(&Summary) -> f64| mean(summaries.iter().map(field));
        let share =
            |field: fn(&ShareSummary) -> f64| self::mean(shares.iter().map(|share| field(share)));
        let worst = summaries.iter().map(|s| s.max_to_ideal).max_by(f64::total_cmp);
        let bound = |figure, mean, most, least| {
            let (most, least) = (limit(most), limit(least));
            Bound { figure, mean, most, least }
        };
        let max = mean(|s| s.max_to_ideal);
        let p99 = mean(|s| s.p99_to_ideal);
        let goodput = mean(|s| s.goodput_percent);
        let least_share = share(|s| s.min_to_fair);
        vec![
            bound("max/ideal", max, self.max_to_ideal, self.max_to_ideal_least),
            bound("worst max/ideal", worst, self.worst_to_ideal, None),
            bound("min/ideal", mean(|s| s.min_to_ideal), None, self.min_to_ideal),
            bound("repeated %", mean(|s| s.repeated_percent), self.repeated_percent, None),
            bound("Jain", share(|s| s.jain), None, self.jain),
            bound("min/fair", least_share, self.min_to_fair_most, self.min_to_fair),
            bound("p50/ideal", mean(|s| s.p50_to_ideal), self.p50_to_ideal, None),
            bound("p99/ideal", p99, self.p99_to_ideal, self.p99_to_ideal_least),
            bound("goodput %", goodput, self.goodput_percent_most, self.goodput_percent),
        ]
    }
}

fn limit(of: Option<Limit>) -> Option<f64> {
    of.map(|Limit(number)| number)
}

impl Bound {
    /// Something is expected of it.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.most.or(self.least).is_some()
    }

    /// The bounds in words, empty when there are none.
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
        if !self.is_asked() {
            return None;
        }
        let Some(mean) = self.mean else {
            return Some(format!("{figure} is unknown: no flow ended well"));
        };
        let over = self.most.filter(|&bound| mean > bound);
        let under = self.least.filter(|&bound| mean < bound);
        over.map(|bound| format!("{figure} is {mean:.3}, expected at most {bound}"))
            .or_else(|| under.map(|b| format!("{figure} is {mean:.3}, expected at least {b}")))
    }
}

/// `None` of nothing.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = values.len();
    (count > 0).then(|| values.sum::<f64>() / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::FlowOutcome;

    #[test]
    fn bounds_hold_for_the_means_of_the_flows_that_are_meant() {
        let flow = |transport, completion_ps| FlowOutcome {
            transport,
            completion_ps: Some(completion_ps),
            ideal_ps: 100,
            ..FlowOutcome::default()
        };
        let run = |srd, tcp| Outcome {
            flows: vec![flow(Kind::Srd, srd), flow(Kind::Tcp, tcp)],
            ..Outcome::default()
        };
        let outcomes = [run(100, 500), run(120, 700)];
        let missed = |text: &str| -> Vec<String> {
            let expect = toml::from_str::<Expect>(text).unwrap();
            let figures = outcomes.each_ref().map(|outcome| expect.figures(outcome));
            expect.bounds(&figures).iter().filter_map(Bound::missed).collect()
        };
        assert_eq!(missed("max_to_ideal = 6.0\nmin_to_ideal = 1.1"), [""; 0]);
        assert_eq!(missed("transport = \"srd\"\nmax_to_ideal = 1.1"), [""; 0]);
        assert_eq!(
            missed("transport = \"srd\"\nmax_to_ideal = 1.05"),
            ["max/ideal is 1.100, expected at most 1.05"]
        );
        assert_eq!(missed("max_to_ideal_least = 7.0"), ["max/ideal is 6.000, expected at least 7"]);
        assert_eq!(missed("jain = 0.9"), ["Jain is unknown: no flow ended well"]);
        let worst = "transport = \"srd\"\nmax_to_ideal = 1.1\nworst_to_ideal = 1.15";
        assert_eq!(missed(worst), ["worst max/ideal is 1.200, expected at most 1.15"]);
        // Of 100 and 500, of 120 and 700: nearest rank, and the time that all of them took.
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
        let figures = outcomes.each_ref().map(|outcome| both.figures(outcome));
        assert_eq!(both.bounds(&figures)[0].wanted(), "at least 3, at most 6");
    }
}
