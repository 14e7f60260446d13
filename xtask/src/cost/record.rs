//! Recorded costs: the compiler, then a line for each cost, number first, name last.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use super::callgrind::output;

/// A file of recorded costs, and how it is compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Path below the root.
    pub(super) path: &'static str,
    /// Thing for each of which a number of instructions is recorded.
    pub(super) unit: &'static str,
    /// Maximum deviation from the recorded cost that counts as equal.
    pub(super) tolerance_percent: f64,
    /// Environment variable that is set to write the record instead of comparing with it.
    pub(super) bless: &'static str,
}

impl Record {
    /// Compares costs with the recorded ones, or records them. The costs of another compiler
    /// differ: then both are shown, and nothing is judged.
    pub(super) fn compare(&self, root: &Path, measured: &[(&str, f64)]) -> Result<()> {
        let Self { path, unit, tolerance_percent, bless } = self;
        let compiler = compiler()?;
        let file = root.join(path);
        if env::var_os(bless).is_some() {
            let text = render(&compiler, measured);
            return fs::write(file, text).with_context(|| format!("writing {path}"));
        }
        let text = fs::read_to_string(file).with_context(|| format!("reading {path}"))?;
        let mut apart = Vec::new();
        for (name, cost) in measured {
            let recorded = recorded(&text, name).with_context(|| format!("reading {path}"))?;
            let change_percent = 100.0 * (cost / recorded - 1.0);
            println!(
                "{name}: {cost:.0} instructions for each {unit}, recorded {recorded:.0} \
                 ({change_percent:+.1} %)"
            );
            if change_percent.abs() > *tolerance_percent {
                apart.push(*name);
            }
        }
        let recorder = text.lines().next().unwrap_or_default();
        if recorder != compiler {
            println!("not judged: {path} was recorded with {recorder}, this is {compiler}");
            return Ok(());
        }
        ensure!(
            apart.is_empty(),
            "{} more than {tolerance_percent} % from {path}; if that is meant, put {bless}=1 before \
             the same command",
            apart.join(", ")
        );
        Ok(())
    }
}

fn render(compiler: &str, measured: &[(&str, f64)]) -> String {
    let lines = measured.iter().map(|(name, cost)| format!("{cost:.0} {name}\n"));
    format!("{compiler}\n{}", lines.collect::<String>())
}

/// Returns the number before a name.
fn recorded(text: &str, name: &str) -> Result<f64> {
    let line = text.lines().skip(1).find(|line| line.split_whitespace().last() == Some(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let cost = number.with_context(|| format!("there is no number for {name}"))?;
    ensure!(cost >= 1.0, "{cost} instructions for {name}");
    Ok(cost)
}

/// Returns the compiler that builds here: "rustc 1.90.0".
fn compiler() -> Result<String> {
    let said = output(Command::new("rustc").arg("--version"), 0)?;
    let text = String::from_utf8_lossy(&said.stdout);
    Ok(text.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_a_number_for_each_cost() {
        let text = render("rustc 1.90.0", &[("latency-client", 60.4), ("stream-sender", 35.0)]);
        assert_eq!(text, "rustc 1.90.0\n60 latency-client\n35 stream-sender\n");
        assert_eq!(recorded(&text, "latency-client").ok(), Some(60.0));
        let wrong = [("r\n60 x\n", "y"), ("r\nfew x\n", "x"), ("r\n0 x\n", "x"), ("60 x\n", "x")];
        for (text, name) in wrong {
            assert!(recorded(text, name).is_err(), "{text} {name}");
        }
    }

    #[test]
    fn what_costs_more_or_less_than_recorded_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let record =
            Record { path: "costs", unit: "thing", tolerance_percent: 2.0, bless: "XTASK_UNSET" };
        let file = folder.path().join("costs");
        fs::write(&file, render(&compiler().unwrap(), &[("a", 1000.0), ("b", 1000.0)])).unwrap();
        let compare = |a, b| record.compare(folder.path(), &[("a", a), ("b", b)]);
        assert!(compare(1019.0, 981.0).is_ok());
        for (a, b, named) in [(1021.0, 1000.0, "a"), (1000.0, 979.0, "b")] {
            let said = compare(a, b).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{named} more than 2 % from costs")), "{said}");
        }
        fs::write(&file, render("rustc 0.1.0", &[("a", 1.0), ("b", 1.0)])).unwrap();
        assert!(compare(1000.0, 1000.0).is_ok(), "nobody knows what that compiler makes of it");
    }
}
