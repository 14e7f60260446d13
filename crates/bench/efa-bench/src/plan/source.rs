//! The text of a plan: TOML, read and checked as a whole before anything runs.
//!
//! The keys of a step are the options of `efa-bench run` (`post-list` or `post_list`), so that a
//! new option is at once one of plans. Errors name the line, the key, and what is allowed.

mod comparisons;
mod fabrics;
mod reader;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bench_record::failure::Failure;
use bench_record::names::Name;
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

pub(super) use self::comparisons::{ComparisonSource, SideSource};
pub(super) use self::fabrics::{FabricSource, Runner};
pub(super) use self::reader::{Positive, Words};
use self::reader::{Reader, Value};
pub(super) use self::steps::NODES;
use super::tool::ToolSource;
use crate::mpi::Test;

/// A plan as it is written.
#[derive(Debug)]
pub(super) struct Source {
    /// The purpose of the plan, in a line.
    pub(super) about: String,
    /// The rounds of the whole plan; `None` if only steps on several fabrics take turns.
    pub(super) rounds: Option<Rounds>,
    pub(super) fabrics: Vec<FabricSource>,
    pub(super) steps: Vec<StepSource>,
    pub(super) comparisons: Vec<ComparisonSource>,
}

/// Rounds of everything that a plan measures, a block of each step in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rounds {
    pub(super) least: usize,
    /// The greatest number of rounds, including those of steps whose comparison is not decided
    /// before.
    pub(super) most: usize,
}

/// A step of a plan.
#[derive(Debug)]
pub(super) struct StepSource {
    /// The place of the step in the text: "quick:12".
    pub(super) place: String,
    /// The name of the step in comparisons.
    pub(super) id: Option<String>,
    /// The fabrics that the step goes with; `*` at the end stands for anything.
    pub(super) fabrics: Vec<String>,
    pub(super) work: WorkSource,
}

impl StepSource {
    /// Returns the number of variants that the step runs on each fabric.
    pub(super) fn variants(&self) -> usize {
        match &self.work {
            WorkSource::Benchmark(_, variants) | WorkSource::Mpi(_, variants) => variants.len(),
            WorkSource::Tool(_) => 1,
        }
    }
}

/// The work of a step.
#[derive(Debug)]
pub(super) enum WorkSource {
    /// A benchmark, once with each of these options.
    Benchmark(Name, Vec<Options>),
    /// A test of MPI, likewise with options of `efa-bench mpi`.
    Mpi(Test, Vec<Options>),
    Tool(ToolSource),
}

/// Options of `efa-bench run` by name; `None` for an option without a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options(BTreeMap<String, Option<String>>);

impl Options {
    pub(super) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), Some(value));
    }

    /// Returns these options with another one.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut with = self.clone();
        with.set(name, value.to_owned());
        with
    }

    /// Returns the options that are among `known`.
    fn only(&self, known: &[(String, bool)]) -> Self {
        let is_known = |name: &String| known.iter().any(|(own, _)| own == name);
        let own = self.0.iter().filter(|(name, _)| is_known(name));
        Self(own.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Removes an option that is not one of `efa-bench run`, and returns its value.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).flatten()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn words(&self) -> Vec<String> {
        let each = self.0.iter().map(|(name, value)| {
            let name = format!("--{name}");
            value.as_ref().map_or_else(|| vec![name.clone()], |v| vec![name.clone(), v.clone()])
        });
        each.flatten().collect()
    }
}

/// The greatest number of rounds; more would take days.
const ROUNDS_MAX: usize = 100;

/// The keys of a plan.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    about: String,
    rounds: Option<usize>,
    rounds_max: Option<usize>,
    // These are read one by one, with their places.
    #[serde(rename = "defaults")]
    _defaults: Option<reader::AnyTable>,
    #[serde(default, deserialize_with = "reader::array", rename = "fabric")]
    _fabrics: Vec<reader::AnyTable>,
    #[serde(default, deserialize_with = "reader::array", rename = "step")]
    _steps: Vec<reader::AnyTable>,
    #[serde(default, deserialize_with = "reader::array", rename = "compare")]
    _comparisons: Vec<reader::AnyTable>,
}

/// Reads the text of the plan `file`.
pub(super) fn read(file: &str, text: &str) -> Result<Source, Failure> {
    let reader = Reader { file, text };
    let table = DeTable::parse(text).map_err(|error| reader.refused(&error, 0..0))?;
    let (span, table) = (table.span(), table.into_inner());
    let plan = Value::new(span, DeValue::Table(table));
    let keys: Keys = reader.read(&plan)?;
    let rounds = reader.rounds(&plan, &keys)?;
    let fabrics = reader::tables(&plan, "fabric").map(|own| reader.fabric(own));
    let fabrics = fabrics.collect::<Result<_, _>>()?;
    let steps = reader.steps(&plan)?;
    if steps.is_empty() {
        return Err(reader.wrong(&(0..0), "no step: write [[step]] and what to do in it"));
    }
    let comparisons = reader::tables(&plan, "compare").map(|own| reader.comparison(own));
    let comparisons = comparisons.collect::<Result<_, _>>()?;
    Ok(Source { about: keys.about, rounds, fabrics, steps, comparisons })
}

impl Reader<'_> {
    /// Returns the rounds of the whole plan.
    fn rounds(&self, plan: &Value<'_>, keys: &Keys) -> Result<Option<Rounds>, Failure> {
        for (key, count) in [("rounds", keys.rounds), ("rounds_max", keys.rounds_max)] {
            if count.is_some_and(|own| !(1..=ROUNDS_MAX).contains(&own)) {
                let what = format!("write a whole number from 1 to {ROUNDS_MAX}");
                return Err(self.wrong_at(plan, key, &what));
            }
        }
        match (keys.rounds, keys.rounds_max) {
            (None, None) => Ok(None),
            (Some(least), most) if most.is_none_or(|most| most >= least) => {
                Ok(Some(Rounds { least, most: most.unwrap_or(least) }))
            }
            _ => Err(self.wrong_at(
                plan,
                "rounds_max",
                "it needs `rounds`, and is no less than that",
            )),
        }
    }
}
