//! The steps in the text of a plan, and the options that they set.

use bench_record::failure::Failure;
use bench_record::names::Name;
use clap::{CommandFactory, ValueEnum};
use serde::Deserialize;
use toml::de::DeTable;

use super::reader::{self, Reader, Value, Words};
use super::{Options, StepSource, WorkSource};
use crate::cli::Cli;
use crate::mpi::Test;

/// The key for the number of nodes that take part in a step.
pub(in crate::plan) const NODES: &str = "nodes";
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
/// Options whose value may be a list: an array for one of them is one run. An array for another
/// option is a run for each element.
const LISTS: [&str; 7] = ["sizes", "depth", "ranks", "rate", "order", "cpu", "server-cpu"];
/// The greatest number of runs that the arrays of a step may make.
const VARIANTS_MAX: usize = 1000;
/// The keys of steps that are no options. `figures` is for the reader of the plan.
const STEP_KEYS: [&str; 3] = ["fabrics", "figures", "id"];
const BENCHMARK_KEYS: [&str; 4] = ["benchmark", "fabrics", "figures", "id"];
const MPI_KEYS: [&str; 4] = ["mpi", "fabrics", "figures", "id"];

/// The keys that every step may have.
#[derive(Deserialize)]
struct Keys {
    id: Option<String>,
    fabrics: Option<Words>,
    benchmark: Option<Text<Name>>,
    mpi: Option<Text<Test>>,
}

/// A value that is one of several words.
struct Text<T>(T);

impl<'de, T: ValueEnum> Deserialize<'de> for Text<T> {
    fn deserialize<D: serde::Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        let text = String::deserialize(text)?;
        let wrong = |_| {
            let all = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let all: Vec<String> = all.map(|own| own.get_name().to_owned()).collect();
            serde::de::Error::custom(format!(
                "`{text}` is unknown: write one of {}",
                all.join(", ")
            ))
        };
        T::from_str(&text, true).map(Self).map_err(wrong)
    }
}

/// The keys that a table may have.
struct Allowed {
    /// The keys that are no options.
    keys: &'static [&'static str],
    /// The names of the options, and whether each takes a value.
    options: Vec<(String, bool)>,
    /// The options that are set without being in the table.
    defaults: Options,
}

impl Allowed {
    /// Returns the options of a command of efa-bench, and no other key.
    fn options_of(command: &str) -> Self {
        let all = Cli::command();
        let arguments =
            all.find_subcommand(command).into_iter().flat_map(|own| own.get_arguments());
        let named = arguments.filter_map(|argument| {
            Some((argument.get_long()?.to_owned(), argument.get_action().takes_values()))
        });
        let named = named.filter(|(name, _)| !OWN_OPTIONS.contains(&name.as_str()));
        // This option is one of `efa-bench local`, which starts the servers.
        let options = named.chain([(NODES.to_owned(), true)]).collect();
        Self { keys: &[], options, defaults: Options::default() }
    }
}

impl Reader<'_> {
    /// Reads all steps of a plan.
    pub(super) fn steps(&self, plan: &Value<'_>) -> Result<Vec<StepSource>, Failure> {
        let (mut run, mut mpi) = (Allowed::options_of("run"), Allowed::options_of("mpi"));
        if let Some(value) = plan.get_ref().get("defaults") {
            let [one] = &self.variants(value, &run)?[..] else {
                let what = "defaults: an array here would be a run for each";
                return Err(self.wrong(&value.span(), what));
            };
            mpi.defaults = one.only(&mpi.options);
            run.defaults = one.clone();
        }
        (run.keys, mpi.keys) = (&BENCHMARK_KEYS, &MPI_KEYS);
        reader::tables(plan, "step").map(|own| self.step(own, &run, &mpi)).collect()
    }

    fn step(&self, own: &Value<'_>, run: &Allowed, mpi: &Allowed) -> Result<StepSource, Failure> {
        let keys: Keys = self.read(own)?;
        let work = match (keys.benchmark, keys.mpi) {
            _ if own.get_ref().get("tool").is_some() => {
                WorkSource::Tool(self.read(&reader::without(own, &STEP_KEYS))?)
            }
            (_, Some(Text(test))) => WorkSource::Mpi(test, self.variants(own, mpi)?),
            (Some(Text(name)), None) => WorkSource::Benchmark(name, self.variants(own, run)?),
            (None, None) => {
                let what = "a step without `benchmark = \"NAME\"` or `tool = \"PROGRAM\"`";
                return Err(self.wrong(&own.span(), what));
            }
        };
        let fabrics = keys.fabrics.map_or_else(|| vec!["*".to_owned()], |own| own.0);
        Ok(StepSource { place: self.place(&own.span()), id: keys.id, fabrics, work })
    }

    /// Returns the options that a table sets, on top of the defaults: one set for each combination
    /// of arrays.
    fn variants(&self, table: &Value<'_>, allowed: &Allowed) -> Result<Vec<Options>, Failure> {
        let mut all = vec![allowed.defaults.clone()];
        for (key, value) in table.get_ref().as_table().into_iter().flat_map(DeTable::iter) {
            let written = key.get_ref().as_ref();
            if allowed.keys.contains(&written) {
                continue;
            }
            let name = written.replace('_', "-");
            let known = allowed.options.iter().find(|(own, _)| *own == name);
            let Some((_, takes_value)) = known else {
                let names: Vec<&str> =
                    allowed.options.iter().map(|(own, _)| own.as_str()).collect();
                let what = format!(
                    "`{written}` is no key of a step: write {}, or an option: {}",
                    allowed.keys.join(", "),
                    names.join(", ")
                );
                return Err(self.wrong(&key.span(), &what));
            };
            let choices = self.choices(&name, *takes_value, value)?;
            let count = all.len() * choices.len();
            if count > VARIANTS_MAX {
                return Err(self.wrong(&key.span(), &format!(
                    "{written}: {count} runs of this step up to here; at most {VARIANTS_MAX} are \
                     allowed"
                )));
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
        value: &Value<'_>,
    ) -> Result<Vec<Choice>, Failure> {
        if !takes_value {
            let is_wanted: bool = self.read(value)?;
            return Ok(vec![if is_wanted { Choice::Flag } else { Choice::Absent }]);
        }
        let Words(words) = self.read(value)?;
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
