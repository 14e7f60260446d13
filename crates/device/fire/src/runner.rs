//! Runs the experiments.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use report::{Table, shell_word};

use crate::args::RunArgs;
use crate::experiments::{ALL, Context, Experiment, NotTried};
use crate::output::{eprint_line, print_line};
use crate::record::{self, Record};
use crate::{interrupt, machine, stale, tool};

/// Programs that the experiments with networks start, each with its package.
const NETWORK_TOOLS: [(&str, &str); 4] =
    [("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables"), ("chrt", "util-linux")];
const SHORTAGE_TOOLS: [(&str, &str); 4] = [
    ("mount", "mount"),
    ("umount", "mount"),
    ("unshare", "util-linux"),
    ("ib_send_lat", "perftest"),
];

/// Prints the experiments.
pub(crate) fn list() {
    let mut table = Table::new("experiments", &["experiment", "what is tried"], 2);
    for experiment in ALL {
        table.push(vec![experiment.name.to_owned(), experiment.what.to_owned()]);
    }
    print_line!("{}", table.text().trim_end());
}

/// Runs the chosen experiments; returns whether all of them passed.
///
/// # Errors
/// The run cannot begin, or was interrupted.
pub(crate) fn run(args: &RunArgs) -> Result<bool> {
    let chosen = choose(&args.only)?;
    check_tools(&chosen)?;
    interrupt::install()?;
    stale::remove();
    let softefa = softefa(args.softefa.as_deref())?;
    let context = Context { is_short: args.short, seed: args.seed, softefa };
    let started = Instant::now();
    let (mut all, mut not_tried) = (Vec::new(), 0);
    for (number, experiment) in (1..).zip(&chosen) {
        interrupt::check()?;
        let at_s = started.elapsed().as_secs();
        eprint_line!(
            "[{at_s:4} s] {number}/{} {}: {}",
            chosen.len(),
            experiment.name,
            experiment.what
        );
        let Some(records) = run_experiment(&context, experiment)? else {
            not_tried += 1;
            continue;
        };
        records.iter().for_each(print_record);
        if let Some(path) = &args.record {
            record::merge(path, &records)?;
        }
        if args.json {
            records.iter().try_for_each(|record| {
                serde_json::to_string(record).map(|line| print_line!("{line}"))
            })?;
        }
        all.extend(records);
    }
    interrupt::check()?;
    let failed: u64 = all.iter().map(|record| record.failed).sum();
    if !args.json {
        print_line!("{}", table(&all).text().trim_end());
    }
    let seconds = started.elapsed().as_secs();
    eprint_line!("{} cases in {seconds} s, {failed} failures, {not_tried} not tried", all.len());
    // Without `--only`, the short form skips the experiments that have none.
    let is_whole = not_tried == 0 || args.short && args.only.is_empty();
    Ok(failed == 0 && is_whole)
}

fn choose(only: &[String]) -> Result<Vec<&'static Experiment>> {
    let names: Vec<&str> = ALL.iter().map(|experiment| experiment.name).collect();
    for name in only {
        ensure!(
            names.contains(&name.as_str()),
            "there is no experiment '{name}'; there are {}",
            names.join(", ")
        );
    }
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|chosen| chosen == name);
    Ok(ALL.iter().filter(|experiment| is_chosen(experiment.name)).collect())
}

/// Checks that the needed programs exist, before anything is created.
fn check_tools(chosen: &[&Experiment]) -> Result<()> {
    let Some(first) = chosen.iter().find(|experiment| experiment.needs_root) else {
        return Ok(());
    };
    if !rustix::process::getuid().is_root() {
        bail!("'{}' makes namespaces and mounts, which only root may: sudo fire run", first.name);
    }
    let of_shortages = chosen.iter().any(|experiment| experiment.name == "shortages");
    let needed = NETWORK_TOOLS.iter().chain(SHORTAGE_TOOLS.iter().filter(|_| of_shortages));
    for (program, package) in needed {
        ensure!(tool::is_installed(program), "'{program}' is missing; install {package}");
    }
    Ok(())
}

fn softefa(given: Option<&Path>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_path_buf(),
        None => std::env::current_exe()?.with_file_name("softefa"),
    };
    path.canonicalize().with_context(|| {
        format!("no softefa command at {}; build it, or name it with --softefa", path.display())
    })
}

/// Runs one experiment and completes its records. An error counts as a failure of the experiment;
/// `None` if it tries nothing.
fn run_experiment(context: &Context, experiment: &Experiment) -> Result<Option<Vec<Record>>> {
    let others_load = machine::others_load()?;
    let started = Instant::now();
    let mut records = match (experiment.run)(context) {
        Ok(records) => records,
        Err(error) if interrupt::is_requested() => return Err(error),
        Err(error) if error.is::<NotTried>() => {
            eprint_line!("         {error}");
            return Ok(None);
        }
        Err(error) => vec![Record::unfinished(&format!("{error:#}"))],
    };
    let count = records.len().max(1) as f64;
    let seconds = started.elapsed().as_secs_f64() / count;
    for record in &mut records {
        record.experiment = experiment.name.to_owned();
        record.form = context.pick("short", "long").to_owned();
        record.seed = context.seed;
        record.others_load = (others_load * 100.0).round() / 100.0;
        record.seconds = (seconds * 10.0).round() / 10.0;
        record.date = date();
        record.system = machine::describe();
        let again = command(context, experiment.name);
        record
            .failures
            .iter_mut()
            .for_each(|failure| *failure += &format!(" (to repeat: {again})"));
    }
    Ok(Some(records))
}

/// Returns the command that repeats one experiment.
fn command(context: &Context, name: &str) -> String {
    let fire = std::env::args().next().unwrap_or_else(|| "fire".to_owned());
    let short = context.pick(" --short", "");
    format!(
        "{} run{short} --only {name} --seed {} --softefa {}",
        shell_word(&fire),
        context.seed,
        shell_word(&context.softefa.to_string_lossy())
    )
}

/// Returns today's date in UTC.
fn date() -> String {
    tool::run("date", "-u +%F").map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn print_record(record: &Record) {
    let verdict = if record.failed == 0 { "ok" } else { "FAILED" };
    eprint_line!(
        "         {verdict}: {} ({} {}): {}",
        record.case,
        record.times,
        record.unit,
        record.result
    );
    record.failures.iter().for_each(|failure| eprint_line!("         {failure}"));
}

fn table(records: &[Record]) -> Table {
    let titles = ["experiment", "case", "result", "tried", "failed"];
    let mut table = Table::new("what was tried", &titles, 3);
    for record in records {
        table.push(vec![
            record.experiment.clone(),
            record.case.clone(),
            record.result.clone(),
            format!("{} {}", record.times, record.unit),
            record.failed.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither has a short form; no case at all must not count as a success.
    #[test]
    fn an_experiment_that_was_asked_for_and_not_tried_fails() {
        let only = vec!["fuzz".to_owned(), "engine".to_owned()];
        let softefa = std::env::current_exe().ok();
        let args = RunArgs { short: true, seed: 1, only, json: false, record: None, softefa };
        assert!(!run(&args).expect("it runs"), "nothing was tried");
    }
}
