//! The choice of a fabric: by a race, by a cost, or by the rate that it holds.

use bench_record::Point;
use bench_record::cores::{Phase, are_apart};
use report::{Better, Change, middle, ratio_interval};

use crate::held::{KeptRate, Ladder};
use crate::verdicts::race::Race;
use crate::verdicts::words::{Standing, standing};

const BEST: &str = "▲";
const TIE: &str = "=";
const OPEN: &str = "?";
/// Differences of processor time and of connections up to this many percent are noise.
const COST_NOISE_PERCENT: f64 = 20.0;

/// The fabric to take, and how clear the choice is.
#[derive(Default)]
pub(in crate::verdicts) struct Chosen<'a> {
    pub(in crate::verdicts) best: &'a str,
    /// The number of fabrics that were measured.
    count: usize,
    ties: Vec<&'a str>,
    /// The fabrics of which nobody can tell whether they are better.
    open: Vec<&'a str>,
    /// Remarks on the choice.
    but: String,
}

impl Chosen<'_> {
    pub(in crate::verdicts) fn words(&self) -> String {
        let Self { best, count, ties, open, but } = self;
        let own = match (ties.len(), open.len()) {
            _ if *count == 1 => format!("only {best} was measured"),
            (0, 0) => (*best).to_owned(),
            (ties, 0) if ties + 1 == *count => "any: a near tie of all".to_owned(),
            (_, 0) => format!("near tie: {best}; {}", ties.join("; ")),
            (0, _) => format!("undecided: {best}; {}", open.join("; ")),
            _ => format!("near tie: {best}; {}. Undecided: {}", ties.join("; "), open.join("; ")),
        };
        own + but
    }

    /// Returns whether the best fabric is better than all others.
    pub(in crate::verdicts) fn is_clear(&self) -> bool {
        self.count > 1 && self.ties.is_empty() && self.open.is_empty()
    }

    /// Renders the figure of a fabric, with a sign for its standing.
    pub(super) fn signed(&self, name: &str, figure: &str) -> String {
        let is_best = name == self.best;
        let sign = match (self.ties.is_empty(), self.open.is_empty()) {
            _ if self.count == 1 => "",
            (true, true) if is_best => BEST,
            (false, _) if is_best || self.ties.contains(&name) => TIE,
            (_, false) if is_best || self.open.contains(&name) => OPEN,
            _ => "",
        };
        format!("{sign} {figure}").trim_start().to_owned()
    }
}

/// Names the fabrics that nobody may compare with the best.
fn elsewhere(apart: &[&str]) -> String {
    match apart {
        [] => String::new(),
        names => format!(". Not to be compared, the cores were elsewhere: {}", names.join("; ")),
    }
}

/// Chooses from a race, by its first aspect. Fabrics that may not be compared with the best may be
/// better.
pub(in crate::verdicts) fn choose<'a>(race: &Race<'a>) -> Chosen<'a> {
    let Some(first) = race.aspects.first() else { return Chosen::default() };
    let value = |entry: &&(&'a str, &'a Point)| (first.of)(entry.1).unwrap_or_default();
    let sorted = race.entries.iter().max_by(|a, b| first.compare(value(a), value(b)));
    let Some(&(best, point)) = sorted else { return Chosen::default() };
    let others = || race.entries.iter().filter(|(name, _)| *name != best);
    let of = |wanted: Standing| -> Vec<&'a str> {
        let own = others().filter(|(_, other)| standing(first, point, other) == wanted);
        own.map(|(name, _)| *name).collect()
    };
    let (ties, mut open, apart) = (of(Standing::Tie), of(Standing::Open), of(Standing::Apart));
    open.extend(&apart);
    let mut but = String::new();
    let is_clear = ties.is_empty() && open.is_empty();
    if let (true, Some(tail)) = (is_clear, race.aspects.get(1).filter(|own| !own.is_cost)) {
        let is_ahead = |(_, other): &&(&str, &Point)| tail.is_clearly_better(other, point);
        let ahead: Vec<&str> = others().filter(is_ahead).map(|(name, _)| *name).collect();
        if !ahead.is_empty() {
            but += &format!(". Better {}: {}", tail.at, ahead.join("; "));
        }
    }
    but += &elsewhere(&apart);
    let count = race.entries.len();
    if count > 1 && race.entries.iter().any(|(_, own)| own.blocks.len() < 2) {
        but += ". How certain is not known: some have one block";
    }
    Chosen { best, count, ties, open, but }
}

/// The cost of something on a fabric, measured once or several times.
pub(super) struct KnownCost<'a> {
    pub(super) name: &'a str,
    pub(super) values: Vec<f64>,
    pub(super) phase: Option<Phase>,
}

impl KnownCost<'_> {
    fn middle(&self) -> f64 {
        middle(&self.values).unwrap_or(f64::INFINITY)
    }
}

/// Chooses by a cost.
pub(super) fn choose_by_cost<'a>(costs: &[KnownCost<'a>]) -> Chosen<'a> {
    let least = costs.iter().min_by(|a, b| a.middle().total_cmp(&b.middle()));
    let Some(least) = least else { return Chosen::default() };
    let standing = |other: &KnownCost<'_>| {
        if are_apart(least.phase, other.phase) {
            return Standing::Apart;
        }
        let ratio = ratio_interval(&other.values, &least.values);
        let (base, new) = (other.middle(), least.middle());
        match Change::of(base, new, Better::Less, COST_NOISE_PERCENT, ratio) {
            Change::Same => Standing::Tie,
            Change::Inconclusive => Standing::Open,
            Change::Improved | Change::Regressed => Standing::Behind,
        }
    };
    let with = |wanted: Standing| -> Vec<&'a str> {
        let others = costs.iter().filter(|own| own.name != least.name);
        others.filter(|own| standing(own) == wanted).map(|own| own.name).collect()
    };
    let (ties, mut open, apart) =
        (with(Standing::Tie), with(Standing::Open), with(Standing::Apart));
    open.extend(&apart);
    Chosen { best: least.name, count: costs.len(), ties, open, but: elsewhere(&apart) }
}

/// Chooses the fabric that holds a rate that others were shown not to hold.
pub(super) fn choose_by_rate(ladder: &Ladder<'_>) -> String {
    let all = &ladder.entries;
    let leads = all
        .iter()
        .find(|own| all.iter().all(|other| own.name == other.name || own.is_above(other)));
    let is_beaten = |own: &KeptRate<'_>| all.iter().any(|other| other.is_above(own));
    let rest: Vec<&str> = all.iter().filter(|own| !is_beaten(own)).map(|own| own.name).collect();
    match (all.as_slice(), leads) {
        ([one], _) => format!("only {} was measured", one.name),
        (_, Some(lead)) => lead.name.to_owned(),
        _ if rest.len() == all.len() => "undecided: these rates do not tell them apart".to_owned(),
        _ => format!("undecided between {}", rest.join(", ")),
    }
}
