//! The benchmarks by name: the names in the thesis that introduced this suite, and their meanings.

use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::spec::{Benchmark, Operation};
use crate::workload::Pattern;

/// The name of a test that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name(&'static Preset);

/// A name, and the values of options that are not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// A line of help.
    pub help: &'static str,
    pub benchmark: Benchmark,
    pub operation: Operation,
    /// The sizes of messages; "": messages have no bytes.
    pub sizes: &'static str,
    pub depth: &'static str,
    pub complete_every: usize,
    pub memory_bytes: usize,
    /// The numbers of messages per second of a thread; "": as fast as it can.
    pub rates: &'static str,
    pub threads: usize,
    pub endpoints: usize,
    /// The number of nodes in the command `local`.
    pub nodes: usize,
    /// The operation of all ranks that the name stands for.
    pub pattern: Option<Pattern>,
    /// The options that other names of the benchmark read, but not this one.
    pub ignores: &'static [&'static str],
}

/// The depth of streams.
pub(crate) const STREAM_DEPTH: &str = "256";
/// The size of messages in benchmarks that do not look at the size.
pub(crate) const ONE_SIZE: &str = "64";
pub(crate) const COMPLETE_EVERY: usize = 16;
pub(crate) const MEMORY_BYTES: usize = 256 << 20;

impl Preset {
    /// Makes the preset of a benchmark that sends messages one at a time.
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

    /// Returns the same preset with another name.
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
    /// Returns the first name of a benchmark.
    pub fn of(benchmark: Benchmark) -> Self {
        Self(&benchmark.about().names[0])
    }

    pub fn text(self) -> String {
        self.0.name.to_owned()
    }

    pub const fn preset(self) -> Preset {
        *self.0
    }

    /// Returns true if an option changes what is measured. An option that no benchmark's room names
    /// is read by all.
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

    /// The rooms are those of the record, and the names are those in results and on the command
    /// line.
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
