//! The quick plan: the same measurements on several fabrics, beside published hardware.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use report::Progress;

use crate::affinity;
use crate::child::{self, ServerChild};
use crate::cli::{PlanArgs, millis};
use crate::compare;
use crate::fabric_name::FabricName;
use crate::failure::Failure;
use crate::output;
use crate::page;
use crate::paper;
use crate::record::Run;
use crate::spec::parse_list;

const SIZES: &str = "1..8192";
const DEPTHS: &str = "1..1024";
/// Blocks per point: the middle one of three survives one disturbance.
const BLOCKS: usize = 3;
const SWEEP_DEPTH: &str = "256";

/// One client run of the plan, the same on every fabric.
#[derive(Debug)]
struct Step {
    benchmark: &'static str,
    sizes: &'static str,
    depths: &'static str,
}

const STEPS: [Step; 4] = [
    Step { benchmark: "latency", sizes: SIZES, depths: "1" },
    Step { benchmark: "bandwidth", sizes: SIZES, depths: SWEEP_DEPTH },
    Step { benchmark: "bandwidth", sizes: "16", depths: DEPTHS },
    Step { benchmark: "bandwidth", sizes: "8192", depths: DEPTHS },
];

impl Step {
    /// Number of measurements: points times blocks.
    fn measurements(&self) -> usize {
        let count = |list: &str| parse_list(list).map_or(0, |v| v.len());
        count(self.sizes) * count(self.depths) * BLOCKS
    }

    fn arguments(&self, fabric: &FabricPlan, duration_s: f64) -> Vec<String> {
        let name = fabric.fabric.to_string();
        let mut words = vec!["--fabric", &name, "--sizes", self.sizes];
        if self.benchmark == "bandwidth" {
            words.extend(["--depth", self.depths]);
        }
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        words.extend(["--blocks".to_owned(), BLOCKS.to_string()]);
        words.extend(["-t".to_owned(), duration_s.to_string()]);
        words.extend(["-w".to_owned(), (duration_s / 4.0).to_string()]);
        words
    }
}

/// One fabric of the plan.
#[derive(Debug, Clone)]
struct FabricPlan {
    name: String,
    fabric: FabricName,
    start: Start,
}

/// How processes on a fabric are started.
#[derive(Debug, Clone)]
enum Start {
    /// Just so.
    Plain,
    /// Behind these words.
    Prefix(Vec<String>),
    /// Behind `softefa run`, with counters.
    Softefa(PathBuf),
}

/// Side of a measurement; each is a host of its own for Soft-EFA.
#[derive(Debug, Clone, Copy)]
enum Side {
    Server,
    Client,
}

impl FabricPlan {
    /// "tcp", "libfabric:shm", "libfabric:efa=softefa run --".
    fn parse(text: &str) -> Result<Self, Failure> {
        let (fabric, prefix) = text.split_once('=').unwrap_or((text, ""));
        let fabric: FabricName = fabric.parse().map_err(|reason| {
            Failure::Usage(format!("--fabric {text}: {reason}, or FABRIC='COMMAND --'"))
        })?;
        let words: Vec<String> = prefix.split_whitespace().map(str::to_owned).collect();
        let start = if words.is_empty() { Start::Plain } else { Start::Prefix(words) };
        Ok(Self { name: fabric.label(), fabric, start })
    }

    fn prefix(&self, side: Side, counters: &Path) -> Vec<String> {
        match &self.start {
            Start::Plain => Vec::new(),
            Start::Prefix(words) => words.clone(),
            Start::Softefa(program) => {
                let address = match side {
                    Side::Server => "127.0.0.1",
                    Side::Client => "127.0.0.2",
                };
                vec![
                    program.display().to_string(),
                    "run".to_owned(),
                    "--device".to_owned(),
                    format!("rdmap0s6={address}"),
                    "--counters".to_owned(),
                    counters.display().to_string(),
                    "--".to_owned(),
                ]
            }
        }
    }

    /// The command that repeats a step by itself.
    fn command(&self, step: &Step, duration_s: f64) -> String {
        let mut words = match &self.start {
            Start::Plain => Vec::new(),
            Start::Prefix(words) => words.clone(),
            Start::Softefa(program) => {
                vec![program.display().to_string(), "run".to_owned(), "--".to_owned()]
            }
        };
        words.extend(["efa-bench", "local", step.benchmark].map(str::to_owned));
        words.extend(step.arguments(self, duration_s));
        words.iter().map(|w| report::shell_word(w)).collect::<Vec<_>>().join(" ")
    }
}

/// What the plan found.
#[derive(Default)]
struct Found {
    runs: Vec<Run>,
    warnings: Vec<String>,
    failures: Vec<String>,
}

/// Runs the quick plan and writes its three files.
pub(crate) fn quick(options: &PlanArgs) -> Result<(), Failure> {
    millis("--duration", options.duration, 0.01)?;
    let fabrics = fabrics(options)?;
    let scratch = Scratch::new(&options.out)?;
    let points: usize = STEPS.iter().map(Step::measurements).sum();
    let mut progress = Progress::new(points * fabrics.len(), options.quiet);
    let mut found = Found { warnings: crate::host::doubts(), ..Found::default() };
    for fabric in &fabrics {
        if let Err(error) = measure(fabric, options.duration, &scratch, &mut progress, &mut found) {
            found.failures.push(format!("{}: {error}", fabric.name));
        }
    }
    drop(progress);
    drop(scratch);
    let mut names: Vec<String> = fabrics.iter().map(|f| f.name.clone()).collect();
    names.retain(|n| found.runs.iter().any(|r| r.name == *n));
    found.runs.extend(paper::runs());
    names.push(paper::EFA.to_owned());
    finish(&options.out, &names, found)
}

fn finish(out: &Path, names: &[String], found: Found) -> Result<(), Failure> {
    let Found { runs, mut warnings, failures } = found;
    warnings.extend(failures.iter().map(|f| format!("Failed: {f}")));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let table = compare::table(&runs, &names);
    let results = output::results(runs, warnings);
    let headline = compare::sentences(&results.runs, &names);
    output::print(&format!("{}\n{}", table.caption, table.text()))?;
    for warning in &results.warnings {
        output::print(&format!("warning: {warning}\n"))?;
    }
    output::write(&out.join("results.json"), &output::json(&results)?)?;
    output::write(&out.join("results.csv"), &output::csv(&results.runs))?;
    let page = page::page(&results, headline, None);
    output::write(&out.join("index.html"), &report::html(&page))?;
    let (index, rest) = (out.join("index.html"), "results.json and results.csv beside it");
    output::print(&format!("\nreport: {} ({rest})\n", index.display()))?;
    if failures.is_empty() {
        return Ok(());
    }
    Err(Failure::Check(failures.join("; ")))
}

/// The fabrics that were asked for, else Soft-EFA and tcp.
fn fabrics(options: &PlanArgs) -> Result<Vec<FabricPlan>, Failure> {
    if !options.fabric.is_empty() {
        return options.fabric.iter().map(|text| FabricPlan::parse(text)).collect();
    }
    let softefa = match &options.softefa {
        Some(path) if path.is_file() => path.clone(),
        Some(path) => {
            return Err(Failure::Usage(format!(
                "--softefa {}: there is no such program",
                path.display()
            )));
        }
        None => find_softefa().ok_or_else(|| {
            Failure::Usage(
                "no softefa command beside efa-bench or in PATH: build it (`cargo build -p \
                 softefa-cli`), name it with --softefa, or choose fabrics with --fabric"
                    .to_owned(),
            )
        })?,
    };
    Ok(vec![
        FabricPlan {
            name: "Soft-EFA".to_owned(),
            fabric: FabricName::Libfabric("efa".to_owned()),
            start: Start::Softefa(softefa),
        },
        FabricPlan {
            name: "libfabric tcp".to_owned(),
            fabric: FabricName::Libfabric("tcp".to_owned()),
            start: Start::Plain,
        },
    ])
}

fn find_softefa() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name("softefa");
    if beside.is_file() {
        return Some(beside);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("softefa")).find(|p| p.is_file())
}

/// Runs all steps on one fabric with one server.
fn measure(
    fabric: &FabricPlan,
    duration_s: f64,
    scratch: &Scratch,
    progress: &mut Progress,
    found: &mut Found,
) -> Result<(), Failure> {
    let server_counters = scratch.file("server-counters.json");
    progress.starting(&format!("starting {}", fabric.name));
    let mut server = ServerChild::start(&fabric.prefix(Side::Server, &server_counters))?;
    let first = found.runs.len();
    for step in &STEPS {
        match one_step(fabric, step, &server, duration_s, scratch, progress) {
            Ok((runs, warnings)) => {
                for run in &runs {
                    if let Some(error) = &run.error {
                        found.failures.push(format!("{}: {error}", run.name));
                    }
                }
                found.runs.extend(runs);
                found.warnings.extend(warnings);
            }
            Err(error) => {
                let words = server.last_words();
                found.failures.push(format!("{} {}: {error}{words}", fabric.name, step.benchmark));
            }
        }
    }
    server.end();
    if matches!(fabric.start, Start::Softefa(_)) {
        let counters = read_counters(&server_counters)?;
        let runs = &mut found.runs[first..];
        check_counters("server", &counters, 0)?;
        if let Some(run) = runs.first_mut() {
            run.counters.insert("server, all runs".to_owned(), counters);
        }
    }
    Ok(())
}

fn one_step(
    fabric: &FabricPlan,
    step: &Step,
    server: &ServerChild,
    duration_s: f64,
    scratch: &Scratch,
    progress: &mut Progress,
) -> Result<(Vec<Run>, Vec<String>), Failure> {
    let (json, counters) = (scratch.file("run.json"), scratch.file("client-counters.json"));
    scratch.forget(&[&json, &counters]);
    let mut arguments = vec!["run".to_owned(), step.benchmark.to_owned()];
    arguments.extend(["-H", "127.0.0.1", "--port"].map(str::to_owned));
    arguments.push(server.port.to_string());
    arguments.extend(step.arguments(fabric, duration_s));
    arguments.extend(["--name".to_owned(), fabric.name.clone()]);
    arguments.extend(["--json".to_owned(), json.display().to_string()]);
    arguments.push("--no-doubts".to_owned());
    if let Some((server, client)) = affinity::pair() {
        arguments.extend(["--server-cpu".to_owned(), server.to_string()]);
        arguments.extend(["--cpu".to_owned(), client.to_string()]);
    }
    let mut said: Vec<String> = Vec::new();
    let mut done = 0;
    let code =
        child::run_client(&fabric.prefix(Side::Client, &counters), &arguments, |line| match line
            .strip_prefix('[')
            .and_then(|l| l.split_once("] "))
        {
            Some((_, what)) => {
                progress.point(what);
                done += 1;
            }
            None => said.push(line.to_owned()),
        })?;
    progress.skip(step.measurements().saturating_sub(done));
    if !json.exists() {
        let code = code.map_or_else(|| "a signal".to_owned(), |c| format!("exit code {c}"));
        return Err(Failure::Check(format!("ended with {code}: {}", said.join("; "))));
    }
    let results = output::read(&json)?;
    let mut runs = results.runs;
    for run in &mut runs {
        run.command = fabric.command(step, duration_s);
        if matches!(fabric.start, Start::Softefa(_)) {
            let values = read_counters(&counters)?;
            check_counters("client", &values, messages(run))?;
            run.counters.insert("client".to_owned(), values);
        }
    }
    Ok((runs, results.warnings))
}

/// Messages that a run is known to have sent.
fn messages(run: &Run) -> u64 {
    let of_point = |p: &crate::record::Point| {
        p.latency.map_or(0, |l| l.round_trips) + p.bandwidth.map_or(0, |b| b.messages)
    };
    run.points.iter().map(of_point).sum()
}

/// Reads what `softefa run --counters` wrote.
fn read_counters(path: &Path) -> Result<BTreeMap<String, u64>, Failure> {
    let failed = |reason: String| Failure::Check(format!("no device counters ({reason})"));
    let bytes = std::fs::read(path).map_err(|e| failed(crate::exchange::plain(&e)))?;
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|e| failed(e.to_string()))?;
    let counters = value.get("counters").and_then(serde_json::Value::as_object);
    let counters = counters.ok_or_else(|| failed("the file has none".to_owned()))?;
    Ok(counters.iter().filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect())
}

/// The traffic must have gone through the device, not beside it.
fn check_counters(
    side: &str,
    counters: &BTreeMap<String, u64>,
    messages: u64,
) -> Result<(), Failure> {
    let get = |name: &str| counters.get(name).copied().unwrap_or(0);
    let (tx, rx) = (get("tx_pkts"), get("rx_pkts"));
    if tx == 0 || rx == 0 || tx < messages {
        return Err(Failure::Check(format!(
            "the {side}'s device sent {tx} and received {rx} packets for {messages} messages: the \
             traffic did not go through Soft-EFA"
        )));
    }
    Ok(())
}

/// A folder for the files of the children, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(out: &Path) -> Result<Self, Failure> {
        let folder = out.join(format!(".efa-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| Failure::Output {
            path: folder.display().to_string(),
            reason: crate::exchange::plain(&e),
        })?;
        // Children may run elsewhere: give them absolute names.
        Ok(Self(folder.canonicalize().unwrap_or(folder)))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn forget(&self, files: &[&Path]) {
        debug_assert!(files.iter().all(|f| f.starts_with(&self.0)));
        for file in files {
            // Usually there is none.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fabrics_are_parsed() {
        let plain = FabricPlan::parse("tcp").expect("tcp");
        assert!(matches!(plain.start, Start::Plain));
        let prefixed = FabricPlan::parse("libfabric:efa=softefa run --").expect("efa");
        assert_eq!(prefixed.name, "libfabric efa");
        assert_eq!(prefixed.prefix(Side::Client, Path::new("x")), ["softefa", "run", "--"]);
        assert!(FabricPlan::parse("=x").is_err());
    }

    #[test]
    fn traffic_beside_the_device_is_noticed() {
        let counters = |tx: u64, rx: u64| {
            BTreeMap::from([("tx_pkts".to_owned(), tx), ("rx_pkts".to_owned(), rx)])
        };
        assert!(check_counters("client", &counters(10, 1), 10).is_ok());
        assert!(check_counters("client", &counters(9, 1), 10).is_err());
        assert!(check_counters("client", &counters(10, 0), 0).is_err());
        assert!(check_counters("client", &BTreeMap::new(), 0).is_err());
    }

    #[test]
    fn the_plan_takes_less_than_two_minutes() {
        let points: usize = STEPS.iter().map(Step::measurements).sum();
        let seconds = points as f64 * 2.0 * 0.15 * 1.25;
        assert!(seconds < 80.0, "{points} points, {seconds} s without set-up");
    }
}
