//! `netsim nic`: the model of an adapter beside published tables.

use crate::command::{Verdict, ensure_free, is_stdout, print};
use anyhow::{Context, Result, bail};
use clap::Args;
use netsim::nic::{Comparison, Profile};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct NicArgs {
    /// Built-in profile (c5n, rc, tcp) or a file; by default, all built-in profiles.
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// Only this table (c3.3), or these (c3).
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    /// Seed of the random numbers of the model.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write everything as JSON to this file; "-" writes it to the terminal instead.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replace the JSON file if it exists.
    #[arg(long, requires = "json")]
    force: bool,
}

pub(crate) fn run(args: &NicArgs) -> Result<Verdict> {
    let file = args.json.as_deref().filter(|path| !is_stdout(path));
    if let Some(path) = file {
        ensure_free(path, args.force)?;
    }
    let profiles = match &args.profile {
        Some(name) => vec![profile(name)?],
        None => Profile::names().map(profile).collect::<Result<_>>()?,
    };
    let comparison = Comparison::run(&profiles, args.table.as_deref(), args.seed);
    if comparison.lines.is_empty() {
        let table = args.table.as_deref().unwrap_or_default();
        bail!("--table {table}: this profile has no such rows; tables are c1 to c10.2");
    }
    if args.json.is_some() {
        let json = serde_json::to_string_pretty(&comparison.record())? + "\n";
        let Some(path) = file else {
            print(&json)?;
            return Ok(Verdict::Good);
        };
        report::write_atomic(path, json.as_bytes())?;
    }
    print(&comparison.text())?;
    Ok(Verdict::Good)
}

/// Returns a profile and its name in tables.
fn profile(name: &str) -> Result<(String, Profile)> {
    if let Some(profile) = Profile::built_in(name) {
        return Ok((name.to_owned(), profile));
    }
    let text = fs::read_to_string(name).with_context(|| {
        let known: Vec<_> = Profile::names().collect();
        format!("--profile {name} is not built in ({}) and no file", known.join(", "))
    })?;
    let profile = Profile::parse(&text).with_context(|| name.to_owned())?;
    let stem = Path::new(name).file_stem().unwrap_or_default();
    Ok((stem.to_string_lossy().into_owned(), profile))
}
