//! The statements of the paper, each with its measurement and verdict.
//!
//! The bound is ours and stands beside the statement where the paper has no number ("close to the
//! optimum").

mod failure;
#[cfg(test)]
mod tests;

use super::experiment::{CDF_BYTES, Experiment, Figure, Protocol, each_second};
use super::of;
use report::Table;
use std::fmt::Write;

/// Bound for "close to the optimum": within 10 %.
const CLOSE: f64 = 1.10;
/// Bound for "very low jitter": the largest times of the seeds differ by at most 5 %.
const JITTER: f64 = 0.05;
/// Minimum number of seeds for a statement on jitter; one seed does not differ from itself.
const JITTER_SEEDS: usize = 2;
/// Bound for "a large number of samples": at least every tenth.
const MANY: f64 = 0.10;
/// Bound for "consistent and close to ideal": samples within 10 % of the fair share.
const CONSISTENT: f64 = 0.10;
/// Bound for "oscillates wildly": the samples of a flow differ by a factor of 2.
const WILD: f64 = 2.0;
/// Bound for "much lower average": at most 3/4 of the fair share.
const MUCH_LOWER: f64 = 0.75;
/// Bound for "slightly higher": up to 1.5 times.
const SLIGHTLY: f64 = 1.5;

/// The verdict on a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    /// The statement holds for some of the cases.
    Partly,
    Fails,
    /// Runs that it needs did not end, or were not made.
    NotMeasured,
}

impl Verdict {
    const fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Partly => "partly",
            Self::Fails => "DOES NOT HOLD",
            Self::NotMeasured => "NOT MEASURED",
        }
    }
}

/// One statement of the paper.
#[derive(Debug)]
pub(super) struct Claim {
    /// Place of the statement in the paper.
    pub(super) place: &'static str,
    pub(super) statement: String,
    pub(super) measured: String,
    pub(super) verdict: Verdict,
}

impl Claim {
    pub(super) fn holds(&self) -> bool {
        self.verdict == Verdict::Holds
    }

    fn new(place: &'static str, statement: &str, result: Option<(bool, String)>) -> Self {
        let (verdict, measured) = match result {
            Some((true, measured)) => (Verdict::Holds, measured),
            Some((false, measured)) => (Verdict::Fails, measured),
            None => (Verdict::NotMeasured, "some runs did not end".to_owned()),
        };
        Self { place, statement: statement.to_owned(), measured, verdict }
    }
}

/// Returns the statements as a table.
pub(super) fn table(claims: &[Claim]) -> Table {
    let titles = ["verdict", "paper", "statement", "measured"];
    let table = Table::new("What the SRD paper says, and what was measured here", &titles, 4);
    let mut table = table.with_prose(2).with_prose(3);
    for claim in claims {
        let verdict = claim.verdict.text().to_owned();
        let place = claim.place.to_owned();
        table.push(vec![verdict, place, claim.statement.clone(), claim.measured.clone()]);
    }
    table
}

/// Returns the statements as paragraphs, for terminals.
pub(super) fn text(claims: &[Claim]) -> String {
    let mut text = String::new();
    for claim in claims {
        let (verdict, place) = (claim.verdict.text(), claim.place);
        let _ = writeln!(text, "{verdict:<13}  {place:<12}  {}", claim.statement);
        let _ = writeln!(text, "{:29}{}", "", claim.measured);
    }
    text
}

/// Judges all statements, in the order of the paper.
pub(super) fn judge(experiments: &[Experiment]) -> Vec<Claim> {
    let one = |figure, protocol| of(experiments, figure, protocol).next();
    let bursts =
        |protocol| -> Vec<&Experiment> { of(experiments, Figure::Burst, protocol).collect() };
    // Flows that did not end would be its tail.
    let has_cdf = |e: &&&Experiment| e.bytes == CDF_BYTES && e.point.is_complete();
    let cdf = |all: &[&Experiment]| all.iter().find(has_cdf).map(|e| cdf_us(e));
    let srd = bursts(Protocol::Srd);
    let mut claims = vec![failure::srd(one(Figure::Failure, Protocol::Srd))];
    // Without the cut no packet is lost, so kinds of TCP do not differ, and one of them was run.
    let uncut = one(Figure::Imbalance, Protocol::Cubic);
    claims.extend(Protocol::TCP.map(|tcp| failure::tcp(tcp, one(Figure::Failure, tcp), uncut)));
    claims.extend([srd_close(&srd), srd_jitter(&srd)]);
    claims.extend(Protocol::TCP.map(|tcp| tcp_range(tcp, &bursts(tcp))));
    for tcp in Protocol::TCP {
        let all = bursts(tcp);
        claims.extend(tcp_tail(tcp, cdf(&all), ideal_us(&all)));
    }
    claims.extend(persistent_srd(one(Figure::Persistent, Protocol::Srd)));
    for tcp in Protocol::TCP {
        claims.extend(persistent_tcp(tcp, one(Figure::Persistent, tcp)));
    }
    let both = |protocol| (one(Figure::Imbalance, protocol), one(Figure::FewFlows, protocol));
    let ((srd, srd_few), (tcp, tcp_few)) = (both(Protocol::Srd), both(Protocol::Cubic));
    claims.extend(imbalance_tcp(tcp, tcp_few));
    claims.push(imbalance_srd(srd, srd_few));
    claims.push(conclusion(srd_few, tcp_few));
    claims
}

fn srd_close(srd: &[&Experiment]) -> Claim {
    let statement =
        format!("SRD: largest completion time close to the optimum (at most {CLOSE} x)");
    by_size(&statement, "x ideal", srd, Experiment::worst, |ratio| ratio <= CLOSE)
}

fn srd_jitter(srd: &[&Experiment]) -> Claim {
    let jitter = |experiment: &Experiment| {
        let (least, most) = range(experiment.summaries().map(|s| s.max_us));
        experiment.worst().map(|_| most / least)
    };
    let statement = format!("SRD: very low jitter (seeds within {:.0} %)", JITTER * 100.0);
    let what = "slowest over fastest seed";
    let claim = by_size(&statement, what, srd, jitter, |ratio| ratio <= 1.0 + JITTER);
    if srd.iter().all(|experiment| experiment.seeds.len() >= JITTER_SEEDS) {
        return claim;
    }
    let measured = "two seeds are needed, and some sizes ran with one".to_owned();
    Claim { verdict: Verdict::NotMeasured, measured, ..claim }
}

fn tcp_range(tcp: Protocol, bursts: &[&Experiment]) -> Claim {
    let statement = format!("{}: largest completion time 3 to 20 x the ideal", tcp.name());
    by_size(&statement, "x ideal", bursts, Experiment::worst, |ratio| (3.0..=20.0).contains(&ratio))
}

/// Judges a statement of figure 2 on some value, which holds for some sizes, all or none.
fn by_size(
    statement: &str,
    what: &str,
    experiments: &[&Experiment],
    value: impl Fn(&Experiment) -> Option<f64>,
    fits: impl Fn(f64) -> bool,
) -> Claim {
    let values = experiments.iter().map(|e| Some((e.bytes, value(e)?)));
    let values: Vec<(u64, f64)> = values.collect::<Option<_>>().unwrap_or_default();
    let fitting = values.iter().filter(|(_, value)| fits(*value)).count();
    let each: Vec<String> =
        values.iter().map(|(bytes, value)| format!("{} {value:.2}", size(*bytes))).collect();
    let measured = format!("{what}: {}", each.join(", "));
    let result = (!values.is_empty()).then_some((fitting == values.len(), measured));
    let claim = Claim::new("IV.A, fig. 2", statement, result);
    let partly = 0 < fitting && fitting < values.len();
    if partly { Claim { verdict: Verdict::Partly, ..claim } } else { claim }
}

fn tcp_tail(tcp: Protocol, all_us: Option<Vec<f64>>, ideal_us: Option<f64>) -> [Claim; 2] {
    let name = tcp.name();
    let all = all_us.filter(|all| !all.is_empty());
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    let tail = all.as_ref().map(|all| {
        let late = share(all.iter().filter(|us| **us > 50_000.0).count(), all.len());
        (late > 0.0, format!("{:.1} % of the flows take more than 50 ms", late * 100.0))
    });
    let bulk = all.as_ref().zip(ideal_us).map(|(all, ideal_us)| {
        let early: Vec<f64> = all.iter().copied().filter(|us| *us <= 50_000.0).collect();
        let slow = share(early.iter().filter(|us| **us >= 3.0 * ideal_us).count(), early.len());
        let most = early.iter().copied().fold(0.0, f64::max) / ideal_us;
        let measured =
            format!("{:.1} % of them take 3 x ideal or more, at most {most:.1} x", slow * 100.0);
        (slow >= MANY, measured)
    });
    let statement = format!(
        "{name}, 2 MB: of the flows below 50 ms a large number take 3 x the ideal (at least {:.0} %)",
        MANY * 100.0
    );
    let late = format!("{name}, 2 MB: a tail above 50 ms, the least time-out");
    [Claim::new("IV.A, fig. 3", &late, tail), Claim::new("IV.A, fig. 3", &statement, bulk)]
}

fn persistent_srd(experiment: Option<&Experiment>) -> Vec<Claim> {
    let rates = persistent_rates(experiment);
    let sum = rates.as_ref().map(|rates| {
        let total = mean(rates.iter().flatten().copied()) * rates.len() as f64;
        let share = total / rates.len() as f64;
        (total >= 90.0, format!("{total:.1} Gbit/s together, so {share:.2} Gbit/s each"))
    });
    let each = rates.map(|rates| {
        let fair = mean(rates.iter().flatten().copied());
        let (least, most) = range(rates.iter().flatten().copied());
        let inside = least >= fair * (1.0 - CONSISTENT) && most <= fair * (1.0 + CONSISTENT);
        (inside, format!("{}; {least:.2} to {most:.2} Gbit/s", jain(&rates)))
    });
    let statement = format!(
        "SRD: each flow's throughput is consistent and close to the fair share ({}-s samples within \
         {:.0} %)",
        second_s(experiment),
        CONSISTENT * 100.0
    );
    vec![
        Claim::new("IV.A, fig. 4", "48 flows share 100 Gbit/s, about 2 Gbit/s each", sum),
        Claim::new("IV.A, fig. 4", &statement, each),
    ]
}

fn persistent_tcp(tcp: Protocol, experiment: Option<&Experiment>) -> Vec<Claim> {
    let name = tcp.name();
    let rates = persistent_rates(experiment);
    let wild = rates.as_ref().map(|rates| {
        let factor = |flow: &Vec<f64>| {
            let (least, most) = range(flow.iter().copied());
            if least > 0.0 { most / least } else { f64::INFINITY }
        };
        let factors: Vec<f64> = rates.iter().map(factor).collect();
        let wild = factors.iter().filter(|factor| **factor >= WILD).count();
        let (least, most) = range(rates.iter().flatten().copied());
        let measured = format!(
            "{wild} of {} flows change by {WILD} x or more; {least:.2} to {most:.2} Gbit/s",
            rates.len()
        );
        (wild * 2 > rates.len(), measured)
    });
    let low = rates.map(|rates| {
        let fair = mean(rates.iter().flatten().copied());
        let means: Vec<f64> = rates.iter().map(|flow| mean(flow.iter().copied())).collect();
        let (least, most) = range(means.iter().copied());
        let measured = format!("{}; means of flows {least:.2} to {most:.2} Gbit/s", jain(&rates));
        (least <= MUCH_LOWER * fair, measured)
    });
    let wildly = format!(
        "{name}: each flow's throughput oscillates wildly ({}-s samples of most flows differ by {WILD} x)",
        second_s(experiment)
    );
    let lower = format!(
        "{name}: some flows have much lower average throughput (at most {MUCH_LOWER} of the fair share)"
    );
    vec![Claim::new("IV.A, fig. 4", &wildly, wild), Claim::new("IV.A, fig. 4", &lower, low)]
}

fn imbalance_tcp(many: Option<&Experiment>, few: Option<&Experiment>) -> Vec<Claim> {
    let median = |tcp: &Experiment| {
        let ideal_us = ideal_us(&[tcp])?;
        Some(mean(tcp.summaries().map(|s| s.p50_us)) / ideal_us)
    };
    let drops = |tcp: &Experiment| {
        Some(tcp.outcomes().map(|outcome| outcome.lost_queue_full).sum::<u64>() as f64)
    };
    let slightly = format!("TCP: median slightly above the expected time (0.95 to {SLIGHTLY} x)");
    vec![
        by_flows(&slightly, "x ideal", many, few, median, |x| (0.95..=SLIGHTLY).contains(&x)),
        by_flows(
            "TCP: tail 1 to 2 orders of magnitude above it (10 to 200 x)",
            "x ideal, worst seed",
            many,
            few,
            Experiment::worst,
            |x| (10.0..=200.0).contains(&x),
        ),
        by_flows(
            "TCP: drops, though balanced load would fit",
            "packets lost in full queues",
            many,
            few,
            drops,
            |x| x > 0.0,
        ),
    ]
}

fn imbalance_srd(many: Option<&Experiment>, few: Option<&Experiment>) -> Claim {
    let statement = "SRD: largest time at most 15 % above the ideal";
    by_flows(statement, "x ideal, worst seed", many, few, Experiment::worst, |x| x <= 1.15)
}

/// Judges a statement of figure 6 on some value, with the paper's 16 flows per host and with 4 that
/// carry the same.
fn by_flows(
    statement: &str,
    what: &str,
    many: Option<&Experiment>,
    few: Option<&Experiment>,
    value: impl Fn(&Experiment) -> Option<f64>,
    fits: impl Fn(f64) -> bool,
) -> Claim {
    let measured = |experiment: Option<&Experiment>| {
        let experiment = experiment.filter(|experiment| experiment.point.is_complete());
        experiment.and_then(&value)
    };
    let both = measured(many).zip(measured(few));
    let result = both.map(|(many, few)| {
        let number = report::significant;
        let text = format!(
            "{what}: {} with 16 flows per host, {} with 4 that carry the same",
            number(many),
            number(few)
        );
        (fits(many) && fits(few), text)
    });
    let claim = Claim::new("IV.B, fig. 6", statement, result);
    let partly = both.is_some_and(|(many, few)| fits(many) != fits(few));
    if partly { Claim { verdict: Verdict::Partly, ..claim } } else { claim }
}

fn conclusion(srd: Option<&Experiment>, tcp: Option<&Experiment>) -> Claim {
    let worst = srd.and_then(Experiment::worst).zip(tcp.and_then(Experiment::worst));
    let result = worst.map(|(srd, tcp)| {
        let factor = tcp / srd;
        (factor >= 10.0, format!("{factor:.1} x lower, rack to rack, 4 flows per host"))
    });
    Claim::new("V", "SRD: tail latency orders of magnitude below TCP's (10 x)", result)
}

/// Returns the throughput of each flow in each second.
fn persistent_rates(experiment: Option<&Experiment>) -> Option<Vec<Vec<f64>>> {
    let rates = each_second(experiment?.point.runs.first()?);
    (!rates.is_empty() && !rates[0].is_empty()).then_some(rates)
}

/// Returns the length of a sample of [`persistent_rates`].
fn second_s(experiment: Option<&Experiment>) -> f64 {
    experiment.map_or(1.0, Experiment::second_s)
}

/// Returns Jain's index of the samples: mean over the seconds.
fn jain(rates: &[Vec<f64>]) -> String {
    let of_second = |second: usize| report::jain(rates.iter().map(|flow| flow[second]));
    format!("Jain {:.3}", mean((0..rates[0].len()).map(of_second)))
}

/// Returns all completion times of all seeds.
fn cdf_us(experiment: &Experiment) -> Vec<f64> {
    let flows = experiment.outcomes().flat_map(|outcome| &outcome.flows);
    flows.filter_map(|flow| Some(flow.completion_ps? as f64 / 1e6)).collect()
}

/// Returns the best possible time of the flows of 2 MB.
fn ideal_us(experiments: &[&Experiment]) -> Option<f64> {
    let experiment = experiments.iter().find(|e| [0, CDF_BYTES].contains(&e.bytes))?;
    experiment.outcomes().next()?.flows.first().map(|flow| flow.ideal_ps as f64 / 1e6)
}

pub(super) fn size(bytes: u64) -> String {
    if bytes >= 1_000_000 {
        format!("{} MB", bytes / 1_000_000)
    } else {
        format!("{} KB", bytes / 1000)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(value), most.max(value))
    })
}
