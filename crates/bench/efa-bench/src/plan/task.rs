//! The tasks of a plan: each step on each fabric that it goes with, checked as a whole before any
//! runs.

use bench_engine::client::MeasureRequest;
use bench_engine::measure::Until;
use bench_engine::target::Target;
use bench_record::Ramp;
use bench_record::failure::Failure;
use bench_record::names::Name;
use bench_record::spec::Limit;

use super::fabric::Fabric;
use super::mpi::{self, MpiWork};
use super::source::{NODES, Options, Rounds, Source, StepSource, WorkSource};
use super::tool::ToolSource;
use crate::cli::{Cli, Command, MeasureArgs};

/// One step on one fabric.
#[derive(Debug)]
pub(super) struct Task {
    /// The index of the fabric in the plan.
    pub(super) fabric: usize,
    /// The number of the group: tasks of one group measure the same on several fabrics.
    pub(super) group: usize,
    /// The name of the step in comparisons.
    pub(super) id: Option<String>,
    /// The rounds in which the task takes turns with others of its group; `None` if it is measured
    /// as a whole.
    pub(super) rounds: Option<usize>,
    /// The number of times that the work is done, by the estimate.
    turns: usize,
    pub(super) work: Work,
    /// The estimated time in seconds.
    pub(super) estimate_s: f64,
    /// The command that repeats the task by itself.
    pub(super) command: String,
    /// For example "latency on Soft-EFA".
    pub(super) title: String,
}

impl Task {
    /// Returns the time in seconds of one turn if the whole plan goes round; else that of the whole
    /// task.
    pub(super) fn turn_s(&self) -> f64 {
        self.estimate_s / self.turns as f64
    }

    /// Returns the number of points that the task measures.
    pub(super) fn points(&self) -> usize {
        match &self.work {
            Work::Benchmark(work) => work.points,
            Work::Mpi(work) => work.points,
            Work::Tool(tool) => tool.sizes().len(),
        }
    }

    /// Creates a task that is not of a group yet.
    pub(super) const fn new(work: Work, estimate_s: f64, command: String, title: String) -> Self {
        let (id, rounds, turns) = (None, None, 1);
        Self { fabric: 0, group: 0, id, rounds, turns, work, estimate_s, command, title }
    }
}

/// The work of a task.
#[derive(Debug)]
pub(super) enum Work {
    Benchmark(BenchmarkWork),
    Mpi(MpiWork),
    Tool(ToolSource),
}

/// A benchmark, for `efa-bench run`.
#[derive(Debug)]
pub(super) struct BenchmarkWork {
    pub(super) benchmark: Name,
    /// The number of nodes that take part, the client included.
    pub(super) nodes: usize,
    /// The options, fabric included.
    pub(super) words: Vec<String>,
    /// The number of points times that of blocks.
    pub(super) measurements: usize,
    pub(super) points: usize,
    /// Whether the plan may choose where the threads run, because nobody said it.
    pub(super) may_be_pinned: bool,
    pub(super) threads: usize,
}

impl BenchmarkWork {
    /// Returns the command that repeats the work by itself: against a server, or else on this
    /// machine.
    fn command(&self, fabric: &Fabric, target: Option<&Target>) -> String {
        let mut command = fabric.short_prefix();
        let how = if target.is_some() { "run" } else { "local" };
        command.extend(["efa-bench".to_owned(), how.to_owned(), self.benchmark.text()]);
        if let Some(target) = target {
            command.extend(["-H".to_owned(), target.to_string()]);
        } else if self.nodes != self.benchmark.preset().nodes {
            command.extend(["--nodes".to_owned(), self.nodes.to_string()]);
        }
        command.extend(self.words.iter().cloned());
        let command: Vec<String> = command.iter().map(|word| report::shell_word(word)).collect();
        command.join(" ")
    }
}

/// The estimated time to start a client and to open both sides, in seconds.
const START_S: f64 = 0.6;
/// The estimated time of a block's barrier, draining and counting, and of a look at the processors,
/// in seconds.
pub(super) const BLOCK_S: f64 = 0.02;
/// The estimated time of a block that counts messages instead of time, in seconds.
const COUNTED_BLOCK_S: f64 = 0.2;
/// The shortest time of a block in seconds; shorter blocks measure nothing.
const DURATION_MIN_S: f64 = 0.01;

/// The greatest number of tasks of a plan; more would take days.
const TASKS_MAX: usize = 2000;

/// Returns all tasks of a plan, step after step. The tasks of one step on several fabrics are a
/// group: their blocks take turns, so that a machine that gets slower does not make a difference
/// between fabrics.
pub(super) fn all(source: &Source, fabrics: &[Fabric], scale: f64) -> Result<Vec<Task>, Failure> {
    let mut tasks: Vec<Task> = Vec::new();
    for step in &source.steps {
        let mut variants: Vec<Vec<Task>> = Vec::new();
        for (number, fabric) in fabrics.iter().enumerate() {
            let fits = step.fabrics.iter().any(|pattern| fabric.fits(pattern));
            if !fits {
                continue;
            }
            let planned =
                tasks.len() + variants.iter().map(Vec::len).sum::<usize>() + step.variants();
            if planned > TASKS_MAX {
                return Err(Failure::Usage(format!(
                    "plan {}: {planned} measurements up to here; at most {TASKS_MAX} are allowed",
                    step.place
                )));
            }
            let own = of_step(step, fabric, scale, source.rounds);
            let own = own.map_err(|e| Failure::Usage(format!("plan {}: {e}", step.place)))?;
            variants.resize_with(own.len().max(variants.len()), Vec::new);
            for (group, task) in variants.iter_mut().zip(own) {
                group.push(Task { fabric: number, id: step.id.clone(), ..task });
            }
        }
        for group in variants {
            add_group(&mut tasks, group);
        }
    }
    if let Some(rounds) = source.rounds {
        tasks.iter_mut().for_each(|task| task.take_turns_with_all(rounds));
    }
    if tasks.is_empty() {
        let names: Vec<String> = fabrics.iter().map(|f| f.fabric.to_string()).collect();
        return Err(Failure::Usage(format!(
            "no step of this plan goes with {}: name other fabrics with --fabric",
            names.join(", ")
        )));
    }
    Ok(tasks)
}

/// Names the server in the commands of all tasks that can be measured against one.
pub(super) fn run_against(tasks: &mut [Task], fabrics: &[Fabric], target: &Target) {
    for task in tasks {
        let Work::Benchmark(work) = &task.work else { continue };
        // One server is one other node.
        if let Some(fabric) = fabrics.get(task.fabric).filter(|_| work.nodes <= 2) {
            task.command = work.command(fabric, Some(target));
        }
    }
}

fn add_group(tasks: &mut Vec<Task>, group: Vec<Task>) {
    let number = tasks.last().map_or(0, |task| task.group + 1);
    // Each round is a session of its own.
    let has_rounds = group.len() > 1 && group.iter().all(|task| task.rounds.is_some());
    tasks.extend(group.into_iter().map(|mut task| {
        task.group = number;
        match task.rounds {
            Some(rounds) if has_rounds => task.estimate_s += START_S * (rounds - 1) as f64,
            _ => task.rounds = None,
        }
        task
    }));
}

fn of_step(
    step: &StepSource,
    fabric: &Fabric,
    scale: f64,
    rounds: Option<Rounds>,
) -> Result<Vec<Task>, Failure> {
    // Each round is a block.
    let in_blocks = |options: &Options| match rounds {
        Some(_) => options.with("blocks", "1"),
        None => options.clone(),
    };
    match &step.work {
        WorkSource::Tool(tool) => {
            let tool = tool.clone().scaled(scale);
            let title = format!("{} on {}", tool.program, fabric.name);
            let (estimate_s, command) = (tool.estimate_s(), tool.command(fabric));
            Ok(vec![Task::new(Work::Tool(tool), estimate_s, command, title)])
        }
        WorkSource::Mpi(test, variants) => variants
            .iter()
            .map(|options| mpi::task(*test, &in_blocks(options), fabric, scale))
            .collect(),
        WorkSource::Benchmark(name, variants) => variants
            .iter()
            .map(|options| of_benchmark(*name, &in_blocks(options), fabric, scale))
            .collect(),
    }
}

impl Task {
    /// Makes the task one of those that the rounds of the whole plan measure.
    fn take_turns_with_all(&mut self, rounds: Rounds) {
        self.group = 0;
        self.rounds = Some(rounds.least);
        self.turns = rounds.least;
        self.estimate_s *= rounds.least as f64;
    }
}

fn of_benchmark(
    benchmark: Name,
    options: &Options,
    fabric: &Fabric,
    scale: f64,
) -> Result<Task, Failure> {
    let mut options = options.clone();
    let usual = benchmark.preset().nodes;
    let nodes = match options.take(NODES) {
        None => usual,
        Some(text) => {
            let wrong = |_| Failure::Usage(format!("nodes = {text}: write a number"));
            text.parse().map_err(wrong)?
        }
    };
    options.set("fabric", fabric.fabric.to_string());
    if scale != 1.0 {
        let (measure, _) = understood(benchmark, nodes, &options)?;
        if let Some(count) = measure.iterations {
            options.set("iterations", scaled_count(count, scale).to_string());
        } else {
            // Watching and searching need a block of this length.
            let least_s = measure.ramp.map_or(0.0, Ramp::block_min_s);
            let least_s = least_s.max(measure.watch.unwrap_or(0.0));
            let duration = (measure.duration * scale).max(least_s);
            set_times(&mut options, duration, measure.warmup * scale);
        }
    }
    let (_, request) = understood(benchmark, nodes, &options)?;
    let rounds = match request.until {
        // Each step of a ramp follows from the one before.
        _ if request.ramp.is_some() => None,
        Until::Blocks(count) => (count > 1).then_some(count),
        Until::Interval { .. } => None,
    };
    let work = BenchmarkWork {
        benchmark,
        nodes,
        words: options.words(),
        measurements: request.measurements(),
        points: request.measurements() / (request.until.blocks() * request.runs).max(1),
        may_be_pinned: !options.has("cpu") && !options.has("server-cpu"),
        threads: request.job.threads,
    };
    let command = work.command(fabric, None);
    let title = format!("{} on {}", benchmark.text(), fabric.name);
    let task = Task::new(Work::Benchmark(work), estimate_s(&request), command, title);
    Ok(Task { rounds, ..task })
}

/// Scales a number of iterations; too few are no measurement.
pub(super) fn scaled_count(count: u64, scale: f64) -> u64 {
    const COUNT_MIN: u64 = 100;
    ((count as f64 * scale) as u64).max(COUNT_MIN.min(count))
}

/// Sets the time of a block and its warm-up, in seconds.
pub(super) fn set_times(options: &mut Options, duration: f64, warmup: f64) {
    options.set("duration", seconds(duration.max(DURATION_MIN_S)));
    options.set("warmup", seconds(warmup));
}

/// Renders seconds to the millisecond, without digits that say nothing.
fn seconds(value: f64) -> String {
    ((value * 1e3).round() / 1e3).to_string()
}

/// Parses these options as the command line does.
fn understood(
    benchmark: Name,
    nodes: usize,
    options: &Options,
) -> Result<(MeasureArgs, MeasureRequest), Failure> {
    let mut words = vec!["efa-bench".to_owned(), "run".to_owned(), benchmark.text()];
    words.extend(["--host".to_owned(), "localhost".to_owned()]);
    words.extend(options.words());
    let words = words.into_iter().map(Into::into).collect();
    let parsed = Cli::parse_words(words).map_err(|error| refusal(&error))?;
    match parsed.command {
        Command::Run { measure, .. } => {
            measure.given.check(&[benchmark])?;
            let request = measure.request(benchmark, nodes)?;
            Ok((measure, request))
        }
        _ => Err(Failure::Check("`run` was taken for another command".to_owned())),
    }
}

/// Returns why the command line does not take what a plan says.
pub(super) fn refusal(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.starts_with("Usage:"));
    let lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    Failure::Usage(lines.join(" "))
}

fn estimate_s(request: &MeasureRequest) -> f64 {
    let block_s = match request.limit {
        Limit::DurationMs(ms) => (ms + request.warmup_ms) as f64 / 1e3,
        Limit::Iterations(_) => COUNTED_BLOCK_S,
    };
    let certain = request.measurements() as f64 * (block_s + BLOCK_S);
    START_S
        + match request.until {
            Until::Blocks(_) => certain,
            Until::Interval { at_most, .. } => certain.max(at_most.as_secs_f64()),
        }
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn tasks(text: &str, scale: f64) -> Result<Vec<Task>, Failure> {
        let fabrics = [
            Fabric::parse("tcp").expect("tcp"),
            Fabric::parse("libfabric:efa=softefa run --").expect("efa"),
        ];
        all(&source::read("test", text).expect("a plan"), &fabrics, scale)
    }

    #[test]
    fn steps_are_multiplied_by_fabrics_and_arrays() {
        let text = "[[step]]\nbenchmark = 'batch'\nthreads = [1, 2]\nsizes = 64\ndepth = 8\n\
            [[step]]\nbenchmark = 'tagged'\nfabrics = 'libfabric:*'\nsizes = 64\nduration = 0.4\n\
            blocks = 2\nwarmup = 0.1\n";
        let tasks = tasks(text, 0.5).expect("tasks");
        let titles: Vec<&str> = tasks.iter().map(|task| task.title.as_str()).collect();
        let (tcp, efa) = ("batch on TCP sockets", "batch on libfabric efa");
        assert_eq!(titles, [tcp, efa, tcp, efa, "tagged on libfabric efa"]);
        let groups: Vec<usize> = tasks.iter().map(|task| task.group).collect();
        assert_eq!(groups, [0, 0, 1, 1, 2]);
        // A task on one fabric has no other to take turns with.
        let rounds: Vec<Option<usize>> = tasks.iter().map(|task| task.rounds).collect();
        assert_eq!(rounds, [Some(5), Some(5), Some(5), Some(5), None]);
        let last = &tasks[4];
        assert_eq!(
            last.command,
            "softefa run -- efa-bench local tagged --blocks 2 --duration 0.2 --fabric \
             libfabric:efa --sizes 64 --warmup 0.05"
        );
        assert!((last.estimate_s - (START_S + 2.0 * (0.25 + BLOCK_S))).abs() < 1e-9);
    }

    /// Without the server, the command would measure loopback.
    #[test]
    fn a_plan_against_a_server_names_it_in_the_command_of_each_step() {
        let fabrics = [Fabric::parse("tcp").expect("tcp")];
        let text = "[[step]]\nbenchmark = 'latency'\nsizes = 64\n";
        let source = source::read("test", text).expect("a plan");
        let mut tasks = all(&source, &fabrics, 1.0).expect("tasks");
        assert_eq!(tasks[0].command, "efa-bench local latency --fabric sockets:tcp --sizes 64");
        let target = Target::parse("db1", 7).expect("a target");
        run_against(&mut tasks, &fabrics, &target);
        let command = &tasks[0].command;
        assert_eq!(command, "efa-bench run latency -H db1:7 --fabric sockets:tcp --sizes 64");
        let words = command.split(' ').map(Into::into).collect();
        let parsed = Cli::parse_words(words).expect("a command line");
        assert!(matches!(parsed.command, Command::Run { host, .. } if host == ["db1:7"]));
    }

    #[test]
    fn what_the_command_line_refuses_is_told_with_its_place() {
        for (text, words) in [
            ("[[step]]\nbenchmark = 'latency'\nsizes = '8..4'", &["test:1", "backwards"][..]),
            ("\n[[step]]\nbenchmark = 'latency'\nblocks = 'x'", &["test:2", "blocks", "x"]),
            ("[[step]]\nbenchmark = 'latency'\nwindow = 'refill'", &["test:1", "--window"]),
            ("[[step]]\nbenchmark = 'latency'\nfabrics = 'verbs:*'", &["no step", "tcp"]),
        ] {
            let error = tasks(text, 1.0).expect_err(text).to_string();
            for word in words {
                assert!(error.contains(word), "no {word:?} in {error:?}");
            }
        }
    }
}
