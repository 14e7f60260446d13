//! Measures programs from outside, on this machine, beside what they are compared with: Soft-EFA
//! over each of its wires beside bare memory, bare UDP and libfabric's `shm` and `tcp`, and
//! `efa-bench` beside the tools that measure the same.
//!
//! Everything is measured in one go: rounds of all floors and all programs, so that a machine that
//! slows down slows everything down. Medians over the rounds are compared.
#![deny(unsafe_code)]

mod agree;
mod block;
mod comparison;
mod effort;
mod floor;
mod pick;
mod ratios;
mod recorded;
mod table;
mod tool;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use comparison::Comparison;
use effort::Effort;
use pick::Pick;
use tool::Tools;

/// The exit code when two tools may differ or not.
const UNDECIDED: u8 = 2;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Soft-EFA over each wire beside bare memory, bare UDP and libfabric's shm and tcp.
    Ratios,
    /// Bare memory and bare UDP alone.
    Floor,
    /// The figures of efa-bench beside perftest and `fi_pingpong` on the same device; exit code 1
    /// when they differ, 2 when the rounds do not tell.
    Agree,
}

/// Ratios within one run on this machine.
#[derive(Debug, Parser)]
struct Args {
    /// What is compared.
    #[arg(value_enum, default_value = "ratios")]
    what: Mode,
    /// The softefa command; efa-bench is expected beside it.
    #[arg(long, default_value = "target/release/softefa")]
    softefa: PathBuf,
    /// Rounds; medians over them are compared. Default: 3, of agree 5 and up to 20 for rows that
    /// are not decided.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Also write all rounds as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A thousandth of the messages, to see that all of it runs.
    #[arg(long)]
    short: bool,
    #[command(flatten)]
    pick: Pick,
    #[command(flatten)]
    ratios: ratios::Choice,
    #[command(flatten)]
    agree: agree::Options,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<ExitCode> {
    let tools = Tools::beside(&args.softefa);
    let effort = if args.short { Effort::Short } else { Effort::Whole };
    let heads = match args.what {
        Mode::Ratios => ["Soft-EFA", "beside"],
        Mode::Floor => ["floor", ""],
        Mode::Agree => ["efa-bench", "other tool"],
    };
    let rows = match args.what {
        Mode::Ratios | Mode::Floor => {
            let is_floor = args.what == Mode::Floor;
            let rounds = args.rounds.unwrap_or(3);
            ratios::measure(&tools, is_floor, rounds, effort, &args.pick, &args.ratios)?
        }
        Mode::Agree => {
            agree::measure(&tools, args.rounds.unwrap_or(5), effort, &args.pick, &args.agree)?
        }
    };
    print!("{}", table::to_text(heads, &rows));
    if args.what == Mode::Ratios {
        print!("{}", recorded::line());
    }
    if let Some(path) = &args.json {
        write_json(path, &rows)?;
    }
    Ok(match args.what {
        Mode::Agree => agreement(&rows),
        Mode::Ratios | Mode::Floor => ExitCode::SUCCESS,
    })
}

fn agreement(rows: &[Comparison]) -> ExitCode {
    let mut failing = rows.iter().filter(|row| !row.passes()).peekable();
    if failing.peek().is_none() {
        return ExitCode::SUCCESS;
    }
    if !failing.all(Comparison::is_undecided) {
        return ExitCode::FAILURE;
    }
    eprintln!(
        "bench: the rounds of a row are too far apart to tell: end what else runs on this machine, \
         or take more --rounds"
    );
    ExitCode::from(UNDECIDED)
}

fn write_json(path: &Path, rows: &[Comparison]) -> Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let text = format!("{:#}\n", table::to_json(rows));
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("all rounds: {}", path.display());
    Ok(())
}
