//! Which options are given.
//!
//! Each benchmark's room of the record says which of them it reads. An option that does nothing for
//! a benchmark is refused: whoever gives it believes that it does something.

use bench_record::failure::Failure;
use bench_record::names::Name;
use clap::parser::ValueSource;
use clap::{ArgMatches, ValueEnum};

/// The options that were given, by their names in code.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenOptions(Vec<String>);

/// An option that does nothing without one of some others, where the benchmark has none of its own.
const NEEDS: [(&str, &[&str]); 2] =
    [("arrivals", &["rate", "ramp"]), ("flush_us", &["rate", "ramp"])];

/// Options of which the second makes the first do nothing, and why.
const REPLACED: [(&str, &str, &str); 1] =
    [("warmup", "iterations", "a tenth of the iterations, at least 100, is the warm-up")];

/// `--rx-depth` of `rx_depth`.
fn long(option: &str) -> String {
    match option {
        "assertions" => "--assert".to_owned(),
        option => format!("--{}", option.replace('_', "-")),
    }
}

/// Who reads an option, where that is few.
fn readers(option: &str) -> String {
    const FEW: usize = 6;
    let all = Name::value_variants().iter().filter(|name| name.reads(option));
    let names: Vec<String> = all.map(|name| name.text()).collect();
    if names.len() > FEW { String::new() } else { format!(": it is for {}", names.join(", ")) }
}

impl GivenOptions {
    /// Of a command's words.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let given = matches.ids().map(clap::Id::as_str).filter(|id| {
            // Groups are in the list, too.
            let is_option = matches.try_contains_id(id).is_ok();
            is_option && matches.value_source(id) == Some(ValueSource::CommandLine)
        });
        Self(given.map(str::to_owned).collect())
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.0.iter().any(|own| own == option)
    }

    /// Refuses what none of `names` reads.
    pub(crate) fn check(&self, names: &[Name]) -> Result<(), Failure> {
        let what = names.iter().map(|name| name.text()).collect::<Vec<_>>().join(", ");
        let wrong = |text: String| Err(Failure::Usage(format!("{what}: {text}")));
        for option in &self.0 {
            if !names.iter().any(|name| name.reads(option)) {
                let (option, readers) = (long(option), readers(option));
                return wrong(format!("{option} is not for this benchmark{readers}"));
            }
        }
        for (option, others) in NEEDS {
            let is_idle = |name: &Name| name.reads(option) && name.preset().rates.is_empty();
            let has_other = others.iter().any(|other| self.has(other));
            if self.has(option) && !has_other && names.iter().all(is_idle) {
                let others: Vec<String> = others.iter().map(|other| long(other)).collect();
                let (option, others) = (long(option), others.join(" or "));
                return wrong(format!("{option} does nothing without {others}"));
            }
        }
        for (option, other, why) in REPLACED {
            if self.has(option) && self.has(other) {
                let (option, other) = (long(option), long(other));
                return wrong(format!("{option} does nothing with {other}: {why}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
