//! The program `efa-bench`, which measures any fabric honestly and writes one report. It is a
//! library so that its fuzz targets can call it; its only user is the command.
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people: 53 bits of a counter are plenty"
)]

mod child;
mod cli;
mod floor;
#[cfg(fuzzing)]
pub mod fuzzing;
mod import_command;
mod mpi;
mod page_files;
mod plan;
mod ranks;
mod result_file;
mod softefa_device;

use std::process::ExitCode;

use bench_engine::backend::{self, Wants};
use bench_engine::client::{self, MeasureRequest, Outcome};
use bench_engine::server::{self, ServerOptions};
use bench_engine::target::Target;
use bench_engine::{affinity, host, interrupt};
use bench_record::Results;
use bench_record::failure::Failure;
use bench_record::names::Name;
use bench_report::judge;
use bench_report::output::{self, Outputs};
use clap::error::ErrorKind;
use report::Progress;

use crate::child::ServerChild;
use crate::cli::{Cli, Command, LocalBenchmark, MeasureArgs};
use crate::ranks::Member;

/// Does what the arguments of this process ask for, and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::of_process() {
        Ok(cli) => cli,
        Err(error) => return bad_arguments(&error),
    };
    match dispatch(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report::say(format_args!("efa-bench: error: {failure}"));
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Reports bad arguments: help as clap prints it, everything else as one line.
fn bad_arguments(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        let _ = error.print();
        return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
    }
    let text = error.to_string();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with("Usage:") && !l.starts_with("For more"))
        .collect();
    report::say(format_args!("efa-bench: {} (see efa-bench --help)", lines.join(" ")));
    ExitCode::from(2)
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Server(args) => server::run(&ServerOptions {
            bind: args.bind,
            port: args.port,
            sessions: args.sessions,
            until_stdin_closes: args.until_stdin_closes,
            quiet: args.quiet,
        }),
        Command::Run { benchmark, host, ranks, measure, .. } if host.is_empty() => {
            check_run(&measure, benchmark)?;
            // Bad requests are refused before anybody is waited for.
            let request = measure.request(benchmark, 2)?;
            ranks::run(&ranks, measure.quiet, |members| {
                interrupt::watch()?;
                // A launcher keeps each rank on processors of its own.
                let jobs = if request.job.benchmark.is_for_groups() {
                    let targets: Vec<_> = members.iter().map(|m| m.target.clone()).collect();
                    let request = measure.request(benchmark, 1 + targets.len())?;
                    vec![(targets, request)]
                } else {
                    with_each(members, &request)
                };
                run(&jobs, &measure, host::cores_online())
            })
        }
        Command::Run { benchmark, host, port, measure, .. } => {
            check_run(&measure, benchmark)?;
            let wrong = |reason| Failure::Usage(format!("--host: {reason}"));
            let targets = Target::parse_all(&host, port).map_err(wrong)?;
            let request = measure.request(benchmark, 1 + targets.len())?;
            interrupt::watch()?;
            if measure.until_stdin_closes {
                interrupt::end_with_stdin();
            }
            run(&[(targets, request)], &measure, host::cores())
        }
        Command::Local { benchmark, nodes, measure } => {
            measure.given.check(&benchmark.0)?;
            let nodes = nodes.unwrap_or_else(|| benchmark.nodes());
            interrupt::watch()?;
            if measure.until_stdin_closes {
                interrupt::end_with_stdin();
            }
            local(&benchmark, nodes, &measure)
        }
        Command::Info { fabric, domain, endpoint } => {
            let wants = Wants { domain, ..Wants::least(fabric) };
            let endpoint = endpoint.unwrap_or(wants.endpoint);
            let found = backend::describe(&Wants { endpoint, ..wants })?;
            output::print(&output::fabric(&found))
        }
        Command::Plan(options) => {
            interrupt::watch()?;
            plan::run(&options)
        }
        Command::Mpi(args) => {
            interrupt::watch()?;
            if args.until_stdin_closes {
                interrupt::end_with_stdin();
            }
            mpi::run(&args)
        }
        Command::Compare(args) => judge::run(&args, import_command::load),
        Command::Import(args) => import_command::run(&args),
        Command::Report(args) => page_files::run(&args),
    }
}

/// Refuses options that do nothing in `run`.
fn check_run(measure: &MeasureArgs, benchmark: Name) -> Result<(), Failure> {
    if measure.no_pin {
        let text = "--no-pin is for local: run chooses no processors, --cpu and --server-cpu do";
        return Err(Failure::Usage(text.to_owned()));
    }
    let fabric = measure.fabric();
    if floor::asked_for(&fabric).is_some() {
        return Err(fabric.is_a_floor());
    }
    measure.given.check(&[benchmark])
}

/// Gives each side a processor that nobody has named, and that the other side does not have.
fn place(measure: &mut MeasureArgs) {
    let is_free = measure.server_cpu.is_empty() && measure.server_numa.is_none();
    let is_client_free = measure.cpu.is_empty() && measure.numa.is_none();
    if let (true, true, Some((server, client))) = (is_free, is_client_free, affinity::pair()) {
        measure.server_cpu.push(server);
        measure.cpu.push(client);
    } else if is_free {
        measure.server_cpu.extend(affinity::beside(&measure.cpu));
    } else if is_client_free {
        measure.cpu.extend(affinity::beside(&measure.server_cpu));
    }
}

/// Measures on this machine with servers that this process starts.
fn local(benchmark: &LocalBenchmark, nodes: usize, measure: &MeasureArgs) -> Result<(), Failure> {
    let mut measure = measure.clone();
    let threads = measure.threads.unwrap_or_else(|| benchmark.threads());
    if !measure.no_pin && nodes == 2 && threads == 1 {
        place(&mut measure);
    }
    let measure = &measure;
    let requests = benchmark.0.iter().map(|name| measure.request(*name, nodes));
    let requests: Result<Vec<MeasureRequest>, Failure> = requests.collect();
    let requests = requests?;
    if let Some(floor) = floor::asked_for(&measure.fabric()) {
        return run_each(&requests, measure, host::cores(), |request, progress| {
            floor::run(floor, request, measure, progress)
        });
    }
    let servers = (1..nodes).map(|_| ServerChild::start(&[]));
    let mut servers: Vec<ServerChild> = servers.collect::<Result<_, _>>()?;
    for server in servers.iter().filter(|_| !measure.quiet) {
        report::say(format_args!("server process {} on port {}", server.id(), server.port));
    }
    let targets: Vec<Target> = servers.iter().map(|server| Target::local(server.port)).collect();
    let jobs: Vec<_> = requests.into_iter().map(|request| (targets.clone(), request)).collect();
    let outcome = run(&jobs, measure, host::cores());
    servers.iter_mut().for_each(ServerChild::end);
    // A server's own reason says more than "the other side failed".
    let words: String = servers.iter().map(ServerChild::last_words).collect();
    outcome.map_err(|failure| failure.with_words(&words))
}

/// Returns the request for each of several servers, which the names tell apart.
fn with_each(members: &[Member], request: &MeasureRequest) -> Vec<(Vec<Target>, MeasureRequest)> {
    let jobs = members.iter().map(|member| {
        let mut request = request.clone();
        if members.len() > 1 {
            let name =
                if request.name.is_empty() { request.job.fabric.label() } else { request.name };
            request.name = format!("{name} to rank {} {}", member.rank, member.host);
        }
        (vec![member.target.clone()], request)
    });
    jobs.collect()
}

/// Measures all requests, each with its servers; the results are written even if a later request
/// failed. `cores` are those that all sides may use.
fn run(
    jobs: &[(Vec<Target>, MeasureRequest)],
    measure: &MeasureArgs,
    cores: usize,
) -> Result<(), Failure> {
    let (targets, requests): (Vec<_>, Vec<_>) = jobs.iter().cloned().unzip();
    let mut targets = targets.iter();
    run_each(&requests, measure, cores, |request, progress| {
        let targets = targets.next().map_or(&[][..], Vec::as_slice);
        client::run(targets, request, progress)
    })
}

/// Measures all requests by `one`; the results are written even if a later request failed.
fn run_each(
    requests: &[MeasureRequest],
    measure: &MeasureArgs,
    cores: usize,
    mut one: impl FnMut(&MeasureRequest, &mut Progress) -> Result<Outcome, Failure>,
) -> Result<(), Failure> {
    let measurements = requests.iter().map(MeasureRequest::measurements).sum();
    let mut progress = Progress::new(measurements, measure.quiet);
    let mut runs = Vec::new();
    let mut warnings = if measure.no_host_checks { Vec::new() } else { host::doubts(cores) };
    let mut failure = None;
    for request in requests {
        match one(request, &mut progress) {
            Ok(outcome) => {
                runs.push(outcome.run);
                warnings.extend(outcome.warnings);
                failure = outcome.failure;
            }
            Err(error) => failure = Some(error),
        }
        if failure.is_some() {
            break;
        }
    }
    if !runs.is_empty() {
        for warning in warnings.iter().filter(|_| !measure.quiet) {
            progress.say(&format!("efa-bench: warning: {warning}"));
        }
        drop(progress);
        let results = result_file::results(runs, warnings);
        write_results(&results, measure)?;
        if failure.is_none() {
            judge::check(&measure.assertions, &results.runs)?;
        }
    }
    failure.map_or(Ok(()), Err)
}

fn write_results(results: &Results, measure: &MeasureArgs) -> Result<(), Failure> {
    let outputs = Outputs {
        json: measure.json.as_deref(),
        csv: measure.csv.as_deref(),
        html: measure.html.as_deref(),
        quiet: measure.quiet,
    };
    output::deliver(results, &outputs)
}
