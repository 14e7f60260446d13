//! The benchmarks by name: those of the thesis that introduced this suite, and what each means.

use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::spec::{Benchmark, Operation};
use crate::workload::Pattern;

/// The name of a test that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name(&'static Preset);

/// A name, and what it means where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// A line for people.
    pub help: &'static str,
    pub benchmark: Benchmark,
    pub operation: Operation,
    /// "": its messages have no bytes.
    pub sizes: &'static str,
    pub depth: &'static str,
    pub complete_every: usize,
    pub memory_bytes: usize,
    /// Messages per second of a thread; "": as fast as it can.
    pub rates: &'static str,
    pub threads: usize,
    pub endpoints: usize,
    /// Nodes of `local`.
    pub nodes: usize,
    /// The operation of all ranks that it stands for.
    pub pattern: Option<Pattern>,
    /// Options that other names of the benchmark read.
    pub ignores: &'static [&'static str],
}

/// The depth of streams.
pub(crate) const STREAM_DEPTH: &str = "256";
/// Where the size is not what is looked at.
pub(crate) const ONE_SIZE: &str = "64";
pub(crate) const COMPLETE_EVERY: usize = 16;
pub(crate) const MEMORY_BYTES: usize = 256 << 20;

impl Preset {
    /// Messages, one at a time.
    pub(crate) const fn of(benchmark: Benchmark, name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            help,
            benchmark,
            operation: Operation::Send,
            sizes: "1..8192",
            depth: "1",
            complete_every: 1,
            memory_bytes: 0,
            rates: "",
            threads: 1,
            endpoints: 1,
            nodes: 2,
            pattern: None,
            ignores: &[],
        }
    }

    /// The same by another name.
    pub(crate) const fn named(self, name: &'static str, help: &'static str) -> Self {
        Self { name, help, ..self }
    }
}

impl ValueEnum for Name {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Name>> = LazyLock::new(|| {
            Benchmark::ALL.iter().flat_map(|own| own.about().names).map(Name).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let Preset { name, aliases, help, .. } = *self.0;
        Some(PossibleValue::new(name).aliases(aliases).help(help))
    }
}

impl Name {
    /// The first name of a benchmark.
    pub fn of(benchmark: Benchmark) -> Self {
        Self(&benchmark.about().names[0])
    }

    pub fn text(self) -> String {
        self.0.name.to_owned()
    }

    pub const fn preset(self) -> Preset {
        *self.0
    }

    /// Whether an option changes what is measured. One that no benchmark's room names is read by
    /// all.
    pub fn reads(self, option: &str) -> bool {
        let is_of_some = Benchmark::ALL.iter().any(|own| own.about().reads(option));
        let is_read = !is_of_some || self.0.benchmark.about().reads(option);
        is_read && !self.0.ignores.contains(&option)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// In the record's room, in a result and on the command line.
    #[test]
    fn every_benchmark_has_a_room_and_names_of_its_own() {
        let mut seen = BTreeSet::new();
        for benchmark in Benchmark::ALL {
            let about = benchmark.about();
            assert!(!about.names.is_empty(), "{benchmark:?} cannot be asked for");
            assert!(about.names.iter().all(|name| name.benchmark == *benchmark), "{benchmark:?}");
            assert!(about.is_for_groups || about.names.iter().all(|name| name.nodes == 2));
            for name in about.names {
                assert!(!name.help.is_empty() && !name.help.ends_with('.'), "{}", name.name);
                let all = name.aliases.iter().chain([&name.name]);
                all.for_each(|own| assert!(seen.insert(*own), "{own} means two things"));
            }
        }
    }
}
