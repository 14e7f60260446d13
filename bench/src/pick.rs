//! The rows that were asked for.

use anyhow::{Result, bail};
use clap::Args;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Pick {
    /// Measure only rows in whose name or reference one of these texts stands (in ratios and floor
    /// also in their wire), for example 'READ' or 'udp ib_send'; may be repeated or separated by
    /// commas.
    #[arg(long = "rows", value_delimiter = ',', value_name = "PATTERN")]
    patterns: Vec<String>,
}

impl Pick {
    /// These patterns.
    #[cfg(test)]
    pub(crate) fn of(patterns: &[&str]) -> Self {
        Self { patterns: patterns.iter().map(|&own| own.to_owned()).collect() }
    }

    /// The rows in whose name a pattern stands; without patterns all.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn choose<T>(&self, rows: Vec<T>, name: impl Fn(&T) -> String) -> Result<Vec<T>> {
        let patterns: Vec<String> = self.patterns.iter().map(|own| own.to_lowercase()).collect();
        let is_asked_for = |name: &str| {
            let name = name.to_lowercase();
            patterns.is_empty() || patterns.iter().any(|text| name.contains(text))
        };
        let names: Vec<String> = rows.iter().map(&name).collect();
        let picked: Vec<T> = rows.into_iter().filter(|row| is_asked_for(&name(row))).collect();
        if picked.is_empty() {
            bail!(
                "no row is named '{}' there: give a part of one of these:\n  {}",
                self.patterns.join("', '"),
                names.join("\n  ")
            );
        }
        Ok(picked)
    }
}
