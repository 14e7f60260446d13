//! The execution of a plan: runs each task in processes of its own, and writes down the results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bench_engine::looks::{Looks, Pair};
use bench_engine::target::Target;
use bench_engine::{affinity, host, interrupt};
use bench_record::Run;
use bench_record::failure::Failure;
use bench_report::output;

use super::clock::Clock;
use super::comparisons::Planned;
use super::counters;
use super::fabric::{Fabric, Side};
use super::journal::{Event, Journal};
use super::mpi::{self, MpiWork};
use super::options::PlanArgs;
use super::outcome::{Findings, Outcome};
use super::scratch::Scratch;
use super::source::Rounds;
use super::task::{BenchmarkWork, Task, Work};
use super::tool::ToolSource;
use crate::child::{self, ServerChild};

/// Runs the remaining steps of a plan.
pub(super) struct Executor<'a> {
    pub(super) fabrics: &'a [Fabric],
    pub(super) tasks: &'a [Task],
    pub(super) findings: Findings,
    journal: Journal,
    scratch: Scratch,
    /// The server that runs already, if one was named.
    remote: Option<Target>,
    /// The servers of each fabric.
    servers: BTreeMap<usize, Vec<Server>>,
    /// Fabrics that cannot be used, and the reasons: their other steps are left out.
    unusable: BTreeMap<usize, String>,
    pub(super) clock: Clock,
    /// The comparisons of a plan whose rounds are those of all steps; the rounds go on until these
    /// are decided.
    pub(super) comparisons: &'a [Planned],
    pub(super) rounds: Option<Rounds>,
    /// The processors of both sides, if there are two.
    pair: Option<Pair>,
}

/// A server that this process started, for all steps on a fabric.
struct Server {
    child: ServerChild,
    fabric: usize,
    first_step: usize,
    counters: PathBuf,
}

impl<'a> Executor<'a> {
    pub(super) fn new(
        fabrics: &'a [Fabric],
        tasks: &'a [Task],
        comparisons: (&'a [Planned], Option<Rounds>),
        findings: Findings,
        journal: Journal,
        remote: Option<Target>,
        options: &PlanArgs,
    ) -> Result<Self, Failure> {
        let left = tasks.iter().zip(&findings.outcomes).filter(|(_, outcome)| !outcome.is_done());
        let left_s = left.map(|(task, _)| task.estimate_s).sum();
        Ok(Self {
            fabrics,
            tasks,
            findings,
            journal,
            scratch: Scratch::new(&options.out)?,
            remote,
            servers: BTreeMap::new(),
            unusable: BTreeMap::new(),
            clock: Clock::new(left_s, options.quiet),
            comparisons: comparisons.0,
            rounds: comparisons.1,
            pair: affinity::pair().and_then(|(server, client)| Pair::new(server, client)),
        })
    }

    /// Runs every step that is not done. `after` gets the findings after each step.
    pub(super) fn run(
        &mut self,
        mut after: impl FnMut(&Findings) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut first = 0;
        for text in host::doubts(host::cores()) {
            self.note(Event::Warning { text })?;
        }
        for group in self.tasks.chunk_by(|one, next| one.group == next.group) {
            let steps = first..first + group.len();
            first = steps.end;
            let open: Vec<usize> =
                steps.filter(|step| !self.findings.outcomes[*step].is_done()).collect();
            let has_rounds = group[0].rounds.is_some();
            // All take turns, or each is a whole.
            for own in open.chunks(if has_rounds { group.len() } else { 1 }) {
                interrupt::check()?;
                match own {
                    [step] if !has_rounds => self.step(*step)?,
                    steps => self.take_turns(steps)?,
                }
                after(&self.findings)?;
            }
        }
        // Only an interruption leaves steps open.
        if self.findings.open() > 0 {
            return Err(Failure::Interrupted);
        }
        self.end_servers()?;
        let failures = self.findings.failures(self.tasks).len();
        self.note(Event::PlanDone { date: host::date(), failures })
    }

    /// Ends what runs, and writes down that an interruption was the reason.
    pub(super) fn interrupted(&mut self) -> Result<(), Failure> {
        self.servers.clear();
        self.note(Event::PlanInterrupted { date: host::date() })
    }

    /// Ends everything, and returns the findings.
    pub(super) fn close(self) -> Findings {
        self.findings
    }

    /// Adds an event to the journal, and to the findings.
    pub(super) fn note(&mut self, event: Event) -> Result<(), Failure> {
        self.journal.add(&event)?;
        self.findings.note(event);
        Ok(())
    }

    /// Returns why nothing can be measured on a fabric.
    pub(super) fn why_unusable(&self, fabric: usize) -> Option<String> {
        let reason = self.unusable.get(&fabric)?;
        Some(format!("the fabric cannot be used: {reason}"))
    }

    /// Shows that a step, or a round of it, begins.
    pub(super) fn begin_step(&mut self, step: usize) {
        self.clock.begin(step, self.tasks.len(), &self.tasks[step]);
    }

    fn step(&mut self, step: usize) -> Result<(), Failure> {
        let task = &self.tasks[step];
        self.note(Event::StepStarted { step, date: host::date() })?;
        self.begin_step(step);
        let outcome = match (&task.work, self.why_unusable(task.fabric)) {
            (_, Some(reason)) => Outcome::Skipped(reason),
            (Work::Benchmark(work), _) => self.benchmark(step, task, work, &work.words)?,
            (Work::Mpi(work), _) => self.mpi(step, task, work)?,
            (Work::Tool(tool), _) => self.tool(step, task, tool)?,
        };
        self.end_step(step, outcome)
    }

    /// Writes down how a step ended.
    pub(super) fn end_step(&mut self, step: usize, outcome: Outcome) -> Result<(), Failure> {
        self.clock.end(step, self.tasks.len(), &self.tasks[step], &outcome);
        self.note(match outcome {
            Outcome::Done(runs) => Event::StepDone { step, runs },
            Outcome::Skipped(reason) => Event::StepSkipped { step, reason },
            Outcome::Failed(reason, runs) => Event::Failure { step, reason, runs },
            Outcome::Part(runs) => Event::StepInterrupted { step, runs },
            Outcome::Open => Event::StepInterrupted { step, runs: Vec::new() },
        })
    }

    /// Returns the places of the servers for a task of `nodes` nodes, and starts those that are
    /// missing.
    fn targets(
        &mut self,
        step: usize,
        fabric_number: usize,
        nodes: usize,
    ) -> Result<Vec<Target>, Failure> {
        if let Some(remote) = &self.remote {
            return Ok(vec![remote.clone()]);
        }
        let has_ended = |server: &mut Server| server.child.has_ended();
        let mut servers = self.servers.remove(&fabric_number).unwrap_or_default();
        if servers.iter_mut().any(has_ended) {
            servers.drain(..).try_for_each(|server| self.end_server(server))?;
        }
        while servers.len() + 1 < nodes {
            let counters = format!("server-{fabric_number}-{}-counters.json", servers.len() + 1);
            let counters = self.scratch.file(&counters);
            self.scratch.forget(&[&counters]);
            let prefix = self.fabrics[fabric_number].prefix(Side::Server, &counters);
            let child = ServerChild::start(&prefix)?;
            let (fabric, first_step) = (fabric_number, step);
            servers.push(Server { child, fabric, first_step, counters });
        }
        let own = servers.iter().take(nodes.saturating_sub(1));
        let targets = own.map(|server| Target::local(server.child.port)).collect();
        self.servers.insert(fabric_number, servers);
        Ok(targets)
    }

    /// Ends all servers, and checks whether their devices have seen anything.
    fn end_servers(&mut self) -> Result<(), Failure> {
        let servers = std::mem::take(&mut self.servers);
        servers.into_values().flatten().try_for_each(|server| self.end_server(server))
    }

    fn end_server(&mut self, mut server: Server) -> Result<(), Failure> {
        server.child.end();
        let has_measured = matches!(self.findings.outcomes[server.first_step], Outcome::Done(_));
        if !self.fabrics[server.fabric].is_softefa() || !has_measured {
            return Ok(());
        }
        let step = server.first_step;
        let found = counters::read(&server.counters)
            .and_then(|found| counters::check("server", &found, 0).map(|()| found));
        match found {
            Ok(counters) => self.note(Event::Device { step, counters }),
            Err(error) => {
                let (reason, runs) = (error.to_string(), Vec::new());
                self.note(Event::Failure { step, reason, runs })
            }
        }
    }

    /// Measures a step with these options.
    pub(super) fn benchmark(
        &mut self,
        step: usize,
        task: &Task,
        work: &BenchmarkWork,
        words: &[String],
    ) -> Result<Outcome, Failure> {
        let fabric = &self.fabrics[task.fabric];
        if self.remote.is_some() && fabric.is_floor() {
            return Ok(Outcome::Skipped("a floor is one of this machine".to_owned()));
        }
        if self.remote.is_some() && work.nodes > 2 {
            let text = format!("it is for {} nodes, and one server was named", work.nodes);
            return Ok(Outcome::Skipped(text));
        }
        let nodes = if fabric.is_floor() { 1 } else { work.nodes };
        let targets = match self.targets(step, task.fabric, nodes) {
            Ok(targets) => targets,
            Err(Failure::Output { path, reason }) => return Err(Failure::Output { path, reason }),
            Err(_) if interrupt::asked() => return Ok(Outcome::Open),
            Err(error) => return Ok(self.give_up(task, error.to_string())),
        };
        let (json, counters) =
            (self.scratch.file("run.json"), self.scratch.file("client-counters.json"));
        self.scratch.forget(&[&json, &counters]);
        let fabric = &self.fabrics[task.fabric];
        let is_local = self.remote.is_none();
        let arguments = arguments(work, words, &targets, &fabric.name, &json, is_local);
        let prefix = fabric.prefix(Side::Client, &counters);
        let ended = self.client(step, task, work.measurements, &prefix, &arguments)?;
        if !json.exists() {
            if interrupt::asked() {
                return Ok(Outcome::Open);
            }
            let servers = self.servers.remove(&task.fabric).unwrap_or_default();
            let words: String = servers.iter().map(|server| server.child.last_words()).collect();
            let reason = ended.reason() + &words;
            if ended.code == Some(i32::from(Failure::Fabric(String::new()).exit_code())) {
                return Ok(self.give_up(task, reason));
            }
            return Ok(Outcome::Failed(reason, Vec::new()));
        }
        self.take(task, &json, Some(&counters))
    }

    /// Runs a client and shows how far it is.
    fn client(
        &mut self,
        step: usize,
        task: &Task,
        measurements: usize,
        prefix: &[String],
        arguments: &[String],
    ) -> Result<Ended, Failure> {
        let each_s = task.turn_s() / measurements.max(1) as f64;
        let (mut said, mut failed) = (Vec::new(), None);
        let (journal, clock) = (&mut self.journal, &mut self.clock);
        let code = child::run_client(prefix, arguments, |line| match measured(line) {
            Some(text) => {
                clock.measured(each_s, text);
                let text = text.to_owned();
                failed = journal.add(&Event::Point { step, text }).err().or_else(|| failed.take());
            }
            None => said.push(line.to_owned()),
        });
        match failed {
            Some(failure) => Err(failure),
            None => Ok(Ended { code: code?, said }),
        }
    }

    /// Measures by `measure`, and records in the points where the processors were meanwhile.
    pub(super) fn looking(
        &mut self,
        measure: impl FnOnce(&mut Self) -> Result<Outcome, Failure>,
    ) -> Result<Outcome, Failure> {
        let (mut outcome, cores) = Looks::at(self.pair).around(|| measure(self))?;
        if let Outcome::Done(runs) = &mut outcome {
            let points = runs.iter_mut().flat_map(|run| &mut run.points);
            points.for_each(|point| point.cores.clone_from(&cores));
        }
        Ok(outcome)
    }

    /// Measures MPI, which starts its ranks itself; there is no server.
    pub(super) fn mpi(
        &mut self,
        step: usize,
        task: &Task,
        work: &MpiWork,
    ) -> Result<Outcome, Failure> {
        if self.remote.is_some() {
            return Ok(Outcome::Skipped("a plan starts all ranks on this machine".to_owned()));
        }
        if let Some(reason) = mpi::missing() {
            return Ok(Outcome::Skipped(reason));
        }
        // Servers poll, too.
        self.end_servers()?;
        let json = self.scratch.file("run.json");
        self.scratch.forget(&[&json]);
        let own = ["--json".to_owned(), json.display().to_string(), "--no-host-checks".to_owned()];
        let arguments = [&work.words[..], &own].concat();
        let ended = self.client(step, task, work.measurements, &[], &arguments)?;
        match json.exists() {
            true => self.take(task, &json, None),
            false if interrupt::asked() => Ok(Outcome::Open),
            false => Ok(Outcome::Failed(ended.reason(), Vec::new())),
        }
    }

    /// Notes that no step on this fabric is possible.
    fn give_up(&mut self, task: &Task, reason: String) -> Outcome {
        self.servers.remove(&task.fabric);
        self.unusable.insert(task.fabric, reason.clone());
        Outcome::Failed(reason, Vec::new())
    }

    /// Reads what a client has written.
    fn take(
        &mut self,
        task: &Task,
        json: &Path,
        counters: Option<&Path>,
    ) -> Result<Outcome, Failure> {
        let results = output::read(json)?;
        let mut runs = results.runs;
        for text in results.warnings {
            self.note(Event::Warning { text })?;
        }
        for run in &mut runs {
            run.command.clone_from(&task.command);
            run.is_loopback = self.remote.as_ref().is_none_or(Target::is_here);
            run.wire = self.fabrics[task.fabric].wire();
        }
        let error = runs.iter().find_map(|run| run.error.clone());
        let has_counters = self.fabrics[task.fabric].is_softefa() && !interrupt::asked();
        if let Some(counters) = counters.filter(|_| has_counters) {
            if let Err(outcome) = with_counters(&mut runs, counters) {
                return Ok(outcome);
            }
        }
        Ok(match error {
            None => Outcome::Done(runs),
            Some(_) if interrupt::asked() => Outcome::Part(runs),
            Some(reason) => Outcome::Failed(reason, runs),
        })
    }

    pub(super) fn tool(
        &mut self,
        step: usize,
        task: &Task,
        tool: &ToolSource,
    ) -> Result<Outcome, Failure> {
        if self.remote.is_some() {
            return Ok(Outcome::Skipped("a tool needs both sides on this machine".to_owned()));
        }
        if let Some(reason) = tool.missing() {
            return Ok(Outcome::Skipped(reason));
        }
        // Servers poll, too.
        self.end_servers()?;
        let counters =
            [self.scratch.file("server-counters.json"), self.scratch.file("client-counters.json")];
        self.scratch.forget(&[&counters[0], &counters[1]]);
        let mut whole: Option<Run> = None;
        let finished = |run: Option<Run>| run.into_iter().collect::<Vec<_>>();
        for size in tool.sizes() {
            let fabric = &self.fabrics[task.fabric];
            let run = || tool.run(fabric, size, [&counters[0], &counters[1]]);
            let is_theirs = !fabric.is_softefa() && !interrupt::asked();
            // A failure on our device counts. A program of others runs once more, because nothing
            // is compared without it.
            match run().or_else(|error| if is_theirs { run() } else { Err(error) }) {
                Ok(run) => {
                    self.note(Event::Point { step, text: format!("{} {size} B", run.name) })?;
                    self.clock.measured(task.turn_s() / tool.sizes().len() as f64, &run.name);
                    match &mut whole {
                        Some(whole) => whole.points.extend(run.points),
                        None => whole = Some(run),
                    }
                }
                Err(_) if interrupt::asked() => return Ok(Outcome::Open),
                Err(error) => return Ok(Outcome::Failed(error.to_string(), finished(whole))),
            }
            if self.fabrics[task.fabric].is_softefa() {
                if let Err(error) = counters::check_both(&counters) {
                    return Ok(Outcome::Failed(error.to_string(), finished(whole)));
                }
            }
        }
        if let Some(run) = &mut whole {
            run.command.clone_from(&task.command);
            run.is_loopback = true;
            run.wire = self.fabrics[task.fabric].wire();
        }
        Ok(Outcome::Done(finished(whole)))
    }
}

/// The end of a client, and what it said beside its progress.
struct Ended {
    code: Option<i32>,
    said: Vec<String>,
}

impl Ended {
    fn reason(&self) -> String {
        let how = self.code.map_or_else(|| "a signal".to_owned(), |c| format!("exit code {c}"));
        let said = self.said.iter().map(|line| line.trim_start_matches("efa-bench: error: "));
        format!("ended with {how}: {}", said.collect::<Vec<_>>().join("; "))
    }
}

/// Returns the command line of a client.
fn arguments(
    work: &BenchmarkWork,
    words: &[String],
    targets: &[Target],
    name: &str,
    json: &Path,
    is_local: bool,
) -> Vec<String> {
    let hosts: Vec<String> = targets.iter().map(Target::to_string).collect();
    let (hosts, json) = (hosts.join(","), json.display().to_string());
    let benchmark = work.benchmark.text();
    let how: &[&str] = match targets {
        // A floor has no other side.
        [] => &["local", &benchmark],
        _ => &["run", &benchmark, "--host", &hosts],
    };
    let mut all: Vec<String> = how.iter().map(ToString::to_string).collect();
    all.extend(["--name", name, "--json", &json, "--no-host-checks"].map(str::to_owned));
    all.extend(words.iter().cloned());
    let pair = affinity::pair()
        .filter(|_| is_local && work.may_be_pinned && work.threads == 1 && work.nodes == 2);
    if let Some((server, client)) = pair {
        all.extend(["--server-cpu".to_owned(), server.to_string()]);
        all.extend(["--cpu".to_owned(), client.to_string()]);
    }
    all
}

/// Returns what a client says of a block: "[3/9] Soft-EFA 64 B: ...".
fn measured(line: &str) -> Option<&str> {
    Some(line.strip_prefix('[')?.split_once("] ")?.1)
}

/// Adds the counters of the client's device, which must have moved.
fn with_counters(runs: &mut [Run], file: &Path) -> Result<(), Outcome> {
    let failed = |error: Failure| Outcome::Failed(error.to_string(), Vec::new());
    let values = counters::read(file).map_err(failed)?;
    for run in runs {
        counters::check("client", &values, counters::messages(run)).map_err(failed)?;
        run.counters.insert("client".to_owned(), values.clone());
    }
    Ok(())
}
