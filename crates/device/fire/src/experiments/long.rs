//! Trials that other programs of this project run at length: the engine's random sequences and the
//! fuzzers. Their figures add up over runs.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Context, NotTried};
use crate::interrupt;
use crate::machine;
use crate::record::Record;
use crate::rng::Rng;
use crate::tool;

/// The tests of random sequences.
const TESTS: [&str; 2] =
    ["any_sequence_keeps_every_promise", "the_same_sequence_runs_the_same_way"];
/// Cases in one call of the test, which is what an interruption loses.
const SLICE: u64 = 2000;

/// The engine's random sequences with their oracle: every message once, everything ends.
pub(super) fn engine(context: &Context) -> Result<Vec<Record>> {
    let mut record = Record::new(
        "random sequences of operations, faulty network (srd/tests/sequences.rs)",
        "sequences",
    );
    record.adds_up = true;
    // The short form runs beside the tests, which have tried some cases.
    let wanted = number("FIRE_ENGINE_CASES").unwrap_or_else(|| context.pick(0, 250_000));
    if wanted == 0 {
        return Err(not_asked_for("FIRE_ENGINE_CASES").into());
    }
    let mut rng = Rng::new(context.seed, "engine");
    let workers = context.pick(1, machine::processors() as u64);
    'all: while record.times < wanted {
        let each = SLICE.min((wanted - record.times).div_ceil(workers));
        let mut runs = Vec::new();
        for _ in 0..workers {
            let seed = rng.next() >> 16;
            let mut command = cargo(context);
            command.args(["--package", "srd", "--test", "all", "--"]).args(TESTS);
            command.env("SRD_CASES", each.to_string()).env("SRD_SEED", seed.to_string());
            runs.push((seed, Job::start(&command)?));
        }
        for (seed, mut run) in runs {
            let finished = run.finish();
            // The cases that were tried before the interruption count.
            if interrupt::is_requested() {
                break 'all;
            }
            let (is_good, text) = finished?;
            record.times += each;
            // To cargo, a name that no test has is no failure.
            if !is_good || !text.contains(&format!(" {} passed", TESTS.len())) {
                let mut lines = text.lines().rev();
                let told = lines.clone().find(|line| line.contains("SRD_SEED"));
                let told = told.or_else(|| lines.find(|line| !line.is_empty()));
                let told = told.unwrap_or("it says nothing");
                record.fail(format!(
                    "SRD_SEED={seed} SRD_CASES={each} cargo test -p srd --test all sequences: {told}"
                ));
            }
        }
    }
    record.result = "every message once, everything ends (both tests of the file)".to_owned();
    Ok(if record.times > 0 { vec![record] } else { Vec::new() })
}

/// Runs each fuzzer for the same time.
pub(super) fn fuzz(context: &Context) -> Result<Vec<Record>> {
    let seconds = number("FIRE_FUZZ_SECONDS").unwrap_or_else(|| context.pick(0, 120));
    if seconds == 0 {
        return Err(not_asked_for("FIRE_FUZZ_SECONDS").into());
    }
    let mut records = Vec::new();
    for target in targets()? {
        let mut record = Record::new(format!("fuzz/run {target}"), "CPU seconds");
        record.adds_up = true;
        let mut command = Command::new("fuzz/run");
        command.args([&target, &seconds.to_string()]);
        let mut job = Job::start(&command)?;
        let finished = job.finish();
        if interrupt::is_requested() {
            break;
        }
        let (is_good, text) = finished?;
        record.times = job.cpu_s;
        let stat = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim_start_matches(':').trim().parse::<f64>().ok())
        };
        record.set_figure("inputs", stat("stat::number_of_executed_units").unwrap_or_default());
        record.result = "no crash".to_owned();
        if !is_good {
            let last: Vec<&str> = text.lines().rev().take(3).collect();
            record.result = "a crash; the input is in fuzz/artifacts".to_owned();
            record.fail(format!("fuzz/run {target} {seconds}: {}", last.join(" / ")));
        }
        records.push(record);
    }
    Ok(records)
}

fn not_asked_for(variable: &str) -> NotTried {
    NotTried(format!("it has no short form; set {variable} to more than 0"))
}

/// Returns the names of all targets.
fn targets() -> Result<Vec<String>> {
    let mut command = Command::new("fuzz/run");
    command.arg("--list");
    let (is_good, text) = Job::start(&command)?.finish()?;
    ensure!(is_good && !text.is_empty(), "fuzz/run --list: {text}");
    Ok(text.lines().map(str::to_owned).collect())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn cargo(context: &Context) -> Command {
    let mut command = nested_cargo::command();
    command.args(["test", "--quiet"]);
    command.args(context.pick(None, Some("--release")));
    command
}

/// A program whose output is collected. It has a process group of its own, which ends with this
/// value, because cargo starts further processes.
struct Job {
    child: std::process::Child,
    out: std::fs::File,
    /// Processor time as last seen, without that of its children.
    cpu_s: u64,
    has_ended: bool,
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // It may have ended by itself a moment ago; then its group is gone, too.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Job {
    fn start(command: &Command) -> Result<Self> {
        let mut command = tool::ending_with_fire(command);
        let out = tempfile::NamedTempFile::new()?;
        let (write, read) = (out.reopen()?, out.reopen()?);
        command.stdin(std::process::Stdio::null()).stdout(write.try_clone()?).stderr(write);
        command.process_group(0);
        let child =
            command.spawn().with_context(|| format!("{command:?}; run it in the repository"))?;
        Ok(Self { child, out: read, cpu_s: 0, has_ended: false })
    }

    /// Waits for its end; returns whether it succeeded, and its output.
    fn finish(&mut self) -> Result<(bool, String)> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            self.cpu_s = cpu_s(self.child.id()).unwrap_or(self.cpu_s);
            interrupt::sleep(Duration::from_millis(50))?;
        };
        self.has_ended = true;
        let text = std::io::read_to_string(&mut self.out)?;
        ensure!(!text.contains("could not find `Cargo.toml`"), "run it in the repository");
        Ok((status.success(), text))
    }
}

/// Returns the processor time of a process in seconds (proc_pid_stat(5): fields 14 and 15, in
/// hundredths).
fn cpu_s(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields = stat.rsplit_once(") ")?.1;
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    Some(ticks.sum::<Result<u64, _>>().ok()? / 100)
}
