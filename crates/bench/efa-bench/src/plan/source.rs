//! The text of a plan: TOML, read and checked as a whole before anything runs.
//!
//! The keys of a step are the options of `efa-bench run` (`post-list` or `post_list`), so that a
//! new option is at once one of plans. Errors name the line, the key, and what is allowed.

mod comparisons;
mod fabrics;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use bench_record::failure::Failure;
use bench_record::names::Name;
use clap::{CommandFactory, ValueEnum};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(super) use self::comparisons::{ComparisonSource, SideSource};
pub(super) use self::fabrics::{FabricSource, Runner};
use super::mpi;
use super::tool::{self, ToolSource};
use crate::cli::Cli;
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

/// The key for the number of nodes that take part in a step.
pub(super) const NODES: &str = "nodes";
/// Options that a plan sets itself.
const OWN_OPTIONS: [&str; 18] = [
    "host",
    "port",
    "fabric",
    "provider",
    "json",
    "csv",
    "html",
    "quiet",
    "no-host-checks",
    "name",
    "assert",
    "no-pin",
    "help",
    "softefa",
    "mpicc",
    "mpirun",
    "work-dir",
    "until-stdin-closes",
];
const KEYS: [&str; 7] = ["about", "rounds", "rounds_max", "defaults", "fabric", "step", "compare"];
/// Options whose value may be a list: an array for one of them is one run. An array for another
/// option is a run for each element.
const LISTS: [&str; 7] = ["sizes", "depth", "ranks", "rate", "order", "cpu", "server-cpu"];
/// The greatest number of runs that the arrays of a step may make.
const VARIANTS_MAX: usize = 1000;
const STEP_KEYS: [&str; 4] = ["benchmark", "fabrics", "figures", "id"];
const MPI_KEYS: [&str; 4] = ["mpi", "fabrics", "figures", "id"];
/// The greatest number of rounds; more would take days.
const ROUNDS_MAX: usize = 100;

/// Reads the text of the plan `file`.
pub(super) fn read(file: &str, text: &str) -> Result<Source, Failure> {
    let reader = Reader { file, text };
    let table = DeTable::parse(text).map_err(|error| {
        reader.wrong(&error.span().unwrap_or(0..0), &error.message().replace('\n', " "))
    })?;
    let table = table.get_ref();
    reader.known(table, &KEYS)?;
    let about = reader.text_at(table, "about")?.unwrap_or_default();
    let rounds = reader.rounds(table)?;
    let options = option_list("run");
    let mut defaults = Options::default();
    if let Some((span, table)) = reader.table_at(table, "defaults")? {
        let all = reader.variants(table, &options, &[], &Options::default())?;
        let [one] = &all[..] else {
            return Err(reader.wrong(&span, "defaults: an array here would be a run for each"));
        };
        defaults = one.clone();
    }
    let mut fabrics = Vec::new();
    for (_, table) in reader.tables_at(table, "fabric")? {
        fabrics.push(reader.fabric(table)?);
    }
    let mut steps = Vec::new();
    for (span, table) in reader.tables_at(table, "step")? {
        steps.push(reader.step(&span, table, &options, &defaults)?);
    }
    let mut comparisons = Vec::new();
    for (span, table) in reader.tables_at(table, "compare")? {
        comparisons.push(reader.comparison(&span, table)?);
    }
    if steps.is_empty() {
        return Err(reader.wrong(&(0..0), "no step: write [[step]] and what to do in it"));
    }
    Ok(Source { about, rounds, fabrics, steps, comparisons })
}

/// Returns the options of a command of efa-bench, and whether each takes a value.
fn option_list(name: &str) -> Vec<(String, bool)> {
    let command = Cli::command();
    let Some(run) = command.find_subcommand(name) else { return Vec::new() };
    let named = run.get_arguments().filter_map(|argument| {
        Some((argument.get_long()?.to_owned(), argument.get_action().takes_values()))
    });
    let named = named.filter(|(name, _)| !OWN_OPTIONS.contains(&name.as_str()));
    // This option is one of `efa-bench local`, which starts the servers.
    named.chain([(NODES.to_owned(), true)]).collect()
}

/// Reads a plan, and reports errors by their place.
pub(super) struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

type Table<'a> = DeTable<'a>;

impl Reader<'_> {
    fn place(&self, span: &Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or_default();
        format!("{}:{}", self.file, before.matches('\n').count() + 1)
    }

    pub(super) fn wrong(&self, span: &Range<usize>, what: &str) -> Failure {
        Failure::Usage(format!("plan {}: {what}", self.place(span)))
    }

    /// Refuses all keys that are not among `allowed`.
    pub(super) fn known(&self, table: &Table<'_>, allowed: &[&str]) -> Result<(), Failure> {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if !allowed.contains(&name) {
                let what = format!("`{name}` is no key here: write {}", allowed.join(", "));
                return Err(self.wrong(&key.span(), &what));
            }
        }
        Ok(())
    }

    pub(super) fn text_at(&self, table: &Table<'_>, key: &str) -> Result<Option<String>, Failure> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let text = value.get_ref().as_str().map(str::to_owned);
        text.map(Some)
            .ok_or_else(|| self.wrong(&value.span(), &format!("{key}: write a text in quotes")))
    }

    /// Reads a text, or an array of texts and numbers, as words.
    pub(super) fn words_at(&self, table: &Table<'_>, key: &str) -> Result<Vec<String>, Failure> {
        let Some(value) = table.get(key) else { return Ok(Vec::new()) };
        self.words(key, value)
    }

    fn words(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Failure> {
        let wrong = || {
            let what = format!("{key}: write a number, a text in quotes, or an array of them");
            self.wrong(&value.span(), &what)
        };
        let word = |value: &DeValue<'_>| match value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => Some(number.as_str().to_owned()),
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            _ => None,
        };
        match value.get_ref() {
            DeValue::Array(values) if !values.is_empty() => {
                let words = values.iter().map(|value| word(value.get_ref()));
                words.collect::<Option<Vec<_>>>().ok_or_else(wrong)
            }
            one => word(one).map(|word| vec![word]).ok_or_else(wrong),
        }
    }

    /// Reads a number, if there is one.
    fn number_at(&self, table: &Table<'_>, key: &str) -> Result<Option<f64>, Failure> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let number = number.filter(|own: &f64| own.is_finite() && *own > 0.0);
        let wrong = || self.wrong(&value.span(), &format!("{key}: write a number above 0"));
        number.map(Some).ok_or_else(wrong)
    }

    /// Reads the rounds of the whole plan.
    fn rounds(&self, table: &Table<'_>) -> Result<Option<Rounds>, Failure> {
        let count = |key: &str| {
            let number = self.number_at(table, key)?;
            let is_count = |own: f64| own.fract() == 0.0 && own <= ROUNDS_MAX as f64;
            let span = table.get(key).map_or(0..0, Spanned::span);
            let what = format!("{key}: write a whole number from 1 to {ROUNDS_MAX}");
            match number {
                Some(own) if !is_count(own) => Err(self.wrong(&span, &what)),
                number => Ok(number.map(|own| own as usize)),
            }
        };
        let (least, most) = (count("rounds")?, count("rounds_max")?);
        match (least, most) {
            (None, None) => Ok(None),
            (Some(least), most) if most.is_none_or(|most| most >= least) => {
                Ok(Some(Rounds { least, most: most.unwrap_or(least) }))
            }
            _ => {
                let span = table.get("rounds_max").map_or(0..0, Spanned::span);
                Err(self.wrong(&span, "rounds_max: it needs `rounds`, and is no less than that"))
            }
        }
    }

    fn table_at<'t, 'i>(
        &self,
        table: &'t Table<'i>,
        key: &str,
    ) -> Result<Option<(Range<usize>, &'t Table<'i>)>, Failure> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let found = value.get_ref().as_table().map(|table| (value.span(), table));
        found.map(Some).ok_or_else(|| self.wrong(&value.span(), &format!("write [{key}]")))
    }

    fn tables_at<'t, 'i>(
        &self,
        table: &'t Table<'i>,
        key: &str,
    ) -> Result<Vec<(Range<usize>, &'t Table<'i>)>, Failure> {
        let Some(value) = table.get(key) else { return Ok(Vec::new()) };
        let wrong = || self.wrong(&value.span(), &format!("write [[{key}]]"));
        let values = value.get_ref().as_array().ok_or_else(wrong)?;
        let tables = values.iter().map(|v| Some((v.span(), v.get_ref().as_table()?)));
        tables.collect::<Option<Vec<_>>>().ok_or_else(wrong)
    }

    fn step(
        &self,
        span: &Range<usize>,
        table: &Table<'_>,
        options: &[(String, bool)],
        defaults: &Options,
    ) -> Result<StepSource, Failure> {
        let mut fabrics = self.words_at(table, "fabrics")?;
        if fabrics.is_empty() {
            fabrics.push("*".to_owned());
        }
        let work = if table.contains_key("tool") {
            WorkSource::Tool(tool::read(self, span, table)?)
        } else if let Some(test) = mpi::test(table) {
            let at = table.get("mpi").map_or_else(|| span.clone(), Spanned::span);
            let test = test.map_err(|reason| self.wrong(&at, &reason))?;
            let options = option_list("mpi");
            let defaults = defaults.only(&options);
            WorkSource::Mpi(test, self.variants(table, &options, &MPI_KEYS, &defaults)?)
        } else {
            let name = self.text_at(table, "benchmark")?;
            let name = name.ok_or_else(|| {
                self.wrong(span, "a step without `benchmark = \"NAME\"` or `tool = \"PROGRAM\"`")
            })?;
            let known = Name::from_str(&name, true).map_err(|_| {
                let names: Vec<String> = Name::value_variants().iter().map(|n| n.text()).collect();
                let at = table.get("benchmark").map_or_else(|| span.clone(), Spanned::span);
                self.wrong(&at, &format!("`{name}` is no benchmark: write {}", names.join(", ")))
            })?;
            let variants = self.variants(table, options, &STEP_KEYS, defaults)?;
            WorkSource::Benchmark(known, variants)
        };
        let id = self.text_at(table, "id")?;
        Ok(StepSource { place: self.place(span), id, fabrics, work })
    }

    /// Returns the options that a table sets, on top of `base`: one set for each combination of
    /// arrays.
    fn variants(
        &self,
        table: &Table<'_>,
        options: &[(String, bool)],
        others: &[&str],
        base: &Options,
    ) -> Result<Vec<Options>, Failure> {
        let mut all = vec![base.clone()];
        for (key, value) in table {
            let written = key.get_ref().as_ref();
            if others.contains(&written) {
                continue;
            }
            let name = written.replace('_', "-");
            let Some((_, takes_value)) = options.iter().find(|(own, _)| *own == name) else {
                let names: Vec<&str> = options.iter().map(|(name, _)| name.as_str()).collect();
                let what = format!(
                    "`{written}` is no key of a step: write {}, or an option: {}",
                    if others.is_empty() { &STEP_KEYS } else { others }.join(", "),
                    names.join(", ")
                );
                return Err(self.wrong(&key.span(), &what));
            };
            let choices = self.choices(&name, *takes_value, value)?;
            let count = all.len() * choices.len();
            if count > VARIANTS_MAX {
                let what = format!(
                    "{written}: {count} runs of this step up to here; at most {VARIANTS_MAX} are allowed"
                );
                return Err(self.wrong(&key.span(), &what));
            }
            let with = |options: &Options, choice: &Choice| {
                let mut options = options.clone();
                match choice {
                    Choice::Absent => _ = options.0.remove(&name),
                    Choice::Flag => _ = options.0.insert(name.clone(), None),
                    Choice::Value(value) => options.set(&name, value.clone()),
                }
                options
            };
            all = all.iter().flat_map(|o| choices.iter().map(|c| with(o, c))).collect();
        }
        Ok(all)
    }

    fn choices(
        &self,
        name: &str,
        takes_value: bool,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<Choice>, Failure> {
        if !takes_value {
            let wanted = value.get_ref().as_bool();
            let what = format!("{name}: write true or false");
            let wanted = wanted.ok_or_else(|| self.wrong(&value.span(), &what))?;
            return Ok(vec![if wanted { Choice::Flag } else { Choice::Absent }]);
        }
        let words = self.words(name, value)?;
        if LISTS.contains(&name) {
            return Ok(vec![Choice::Value(words.join(","))]);
        }
        Ok(words.into_iter().map(Choice::Value).collect())
    }
}

/// The value of an option in a step.
enum Choice {
    Absent,
    Flag,
    Value(String),
}
