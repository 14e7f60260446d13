//! What a scenario expects of its runs: of the means over its seeds, and of the worst of them.

use super::field::Bound;
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
    /// Largest completion time over the ideal one, at most,
    max_to_ideal: Option<Bound>,
    /// and at least: what is compared with must be as bad as it is known to be.
    max_to_ideal_least: Option<Bound>,
    /// The same, not of the mean over the seeds but of the worst of them.
    worst_to_ideal: Option<Bound>,
    /// Smallest completion time over the ideal one, at least.
    min_to_ideal: Option<Bound>,
    /// Repeated packets per hundred first transmissions, at most.
    repeated_percent: Option<Bound>,
    /// Jain's index of the mean throughput of flows that send all the time, at least.
    jain: Option<Bound>,
    /// Lowest throughput of such a flow in any interval over the fair share, at least,
    min_to_fair: Option<Bound>,
    /// and at most, as above.
    min_to_fair_most: Option<Bound>,
}

/// A name, a mean, and its bounds.
struct Bounds<'a> {
    name: &'a str,
    value: Option<f64>,
    most: Option<Bound>,
    least: Option<Bound>,
}

impl Expect {
    /// What `outcomes` do not keep, one line each.
    pub(super) fn missed(&self, outcomes: &[Outcome]) -> Vec<String> {
        let wanted = |kind: Kind| self.transport.is_none_or(|wanted| wanted == kind);
        let summaries: Vec<Summary> = outcomes
            .iter()
            .filter_map(|outcome| outcome.summary_of(|flow| wanted(flow.transport)))
            .collect();
        let kinds = Kind::ALL.into_iter().filter(|&kind| wanted(kind));
        let shares: Vec<ShareSummary> = kinds
            .flat_map(|kind| {
                outcomes.iter().filter_map(move |outcome| outcome.shares.as_ref()?.summary(kind))
            })
            .collect();
        let mean = |field: fn(&Summary) -> f64| mean(summaries.iter().map(field));
        let share = |field: fn(&ShareSummary) -> f64| self::mean(shares.iter().map(field));
        let worst = summaries.iter().map(|s| s.max_to_ideal).max_by(f64::total_cmp);
        let all = [
            Bounds {
                name: "max/ideal",
                value: mean(|s| s.max_to_ideal),
                most: self.max_to_ideal,
                least: self.max_to_ideal_least,
            },
            Bounds {
                name: "worst max/ideal",
                value: worst,
                most: self.worst_to_ideal,
                least: None,
            },
            Bounds {
                name: "min/ideal",
                value: mean(|s| s.min_to_ideal),
                most: None,
                least: self.min_to_ideal,
            },
            Bounds {
                name: "repeated %",
                value: mean(|s| s.repeated_percent),
                most: self.repeated_percent,
                least: None,
            },
            Bounds { name: "Jain", value: share(|s| s.jain), most: None, least: self.jain },
            Bounds {
                name: "min/fair",
                value: share(|s| s.min_to_fair),
                most: self.min_to_fair_most,
                least: self.min_to_fair,
            },
        ];
        all.iter().flat_map(Bounds::missed).collect()
    }
}

impl Bounds<'_> {
    fn missed(&self) -> Vec<String> {
        let name = self.name;
        let Some(value) = self.value else {
            let asked = self.most.or(self.least).is_some();
            return asked
                .then(|| format!("{name} is unknown: no flow ended well"))
                .into_iter()
                .collect();
        };
        let over = self.most.map(|Bound(bound)| bound).filter(|&bound| value > bound);
        let under = self.least.map(|Bound(bound)| bound).filter(|&bound| value < bound);
        over.map(|bound| format!("{name} is {value:.3}, expected at most {bound}"))
            .into_iter()
            .chain(under.map(|bound| format!("{name} is {value:.3}, expected at least {bound}")))
            .collect()
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
        let missed = |text: &str| toml::from_str::<Expect>(text).unwrap().missed(&outcomes);
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
        for bound in ["nan", "inf", "-1.0"] {
            let text = format!("max_to_ideal = {bound}");
            assert!(toml::from_str::<Expect>(&text).is_err(), "{bound} bounds nothing");
        }
        assert!(toml::from_str::<Expect>("max_to_ideal = 2").is_ok());
    }
}
