//! The command line.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};

use bench_record::fabric_name::FabricName;
use bench_record::failure::EXIT_CODES;
use bench_record::names::Name;
use bench_record::spec::Benchmark;
use bench_record::spec::EndpointKind;
use bench_report::judge::CompareArgs;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::import_command::ImportArgs;
use crate::mpi::MpiArgs;
use crate::page_files::ReportArgs;
use crate::plan::PlanArgs;
use crate::ranks::RanksArgs;

mod measure;
mod options;

pub(crate) use self::measure::{MeasureArgs, millis};
pub(crate) use self::options::GivenOptions;

/// The port of a server that was not given another one.
pub(crate) const DEFAULT_PORT: u16 = 18590;

/// Measures every fabric in the same way and writes one report.
#[derive(Debug, Parser)]
#[command(name = "efa-bench", version, after_help = ending(false), after_long_help = ending(true))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Returns the end of the help: what can be measured, and what exit codes mean; with the meaning of
/// each name if there is room.
fn ending(has_meanings: bool) -> String {
    let mut text = "Benchmarks: `efa-bench NAME` measures one on this machine, `efa-bench run NAME -H HOST` against a server\n".to_owned();
    if has_meanings {
        for name in Name::value_variants() {
            let meaning =
                name.to_possible_value().and_then(|value| Some(value.get_help()?.to_string()));
            let lines = folded(&meaning.unwrap_or_default());
            text += &format!("  {:<19} {}\n", name.text(), lines.join(&format!("\n{:22}", "")));
        }
    } else {
        const NAMES_IN_LINE: usize = 7;
        let names: Vec<String> = Name::value_variants().iter().map(|name| name.text()).collect();
        let lines = names.chunks(NAMES_IN_LINE).map(|line| format!("  {}", line.join(", ")));
        text += &format!("{}\n", lines.collect::<Vec<_>>().join(",\n"));
    }
    format!("{text}\n{EXIT_CODES}")
}

/// Folds a text into lines that stand beside names in a terminal of 80 columns.
fn folded(text: &str) -> Vec<String> {
    const COLUMNS: usize = 58;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Wait for clients; needs no other option, because the client sends everything else.
    Server(ServerArgs),
    /// Measure against a server, or among ranks that mpirun or srun started; `run --plan NAME` is
    /// another way to write `plan NAME`.
    Run {
        /// What to measure.
        benchmark: Name,
        /// Host the server runs on; benchmarks of several nodes take several: H1,H2:PORT,...
        /// Without it this is one of several ranks that find each other.
        #[arg(short = 'H', long, value_delimiter = ',', conflicts_with_all = ["rendezvous", "address"])]
        host: Vec<String>,
        /// Port of servers that are named without a port.
        #[arg(long, default_value_t = DEFAULT_PORT, requires = "host")]
        port: u16,
        #[command(flatten)]
        ranks: RanksArgs,
        #[command(flatten)]
        measure: MeasureArgs,
    },
    /// Measure between processes of this machine; starts and ends its own servers.
    Local {
        /// What to measure; quick is latency and bandwidth.
        #[arg(value_parser = LocalBenchmark::parse)]
        benchmark: LocalBenchmark,
        /// Number of nodes, including the client, for benchmarks of several nodes; default: the
        /// benchmark's own.
        #[arg(long)]
        nodes: Option<usize>,
        #[command(flatten)]
        measure: MeasureArgs,
    },
    /// Describe a fabric of this machine and its abilities.
    Info {
        /// One of libfabric:PROVIDER, verbs:srd, verbs:ud, verbs:rc, sockets:tcp or sockets:udp.
        fabric: FabricName,
        /// Domain (device) name; default: the first.
        #[arg(long)]
        domain: Option<String>,
        /// Endpoint type; default: that of the fabric.
        #[arg(short, long)]
        endpoint: Option<EndpointKind>,
    },
    /// Measure several fabrics with one plan and write one report; an interrupted plan goes on.
    Plan(PlanArgs),
    /// Measure the MPI of this machine: point to point and collective operations.
    Mpi(MpiArgs),
    /// Compare two results point by point; exit code 11 if something got worse, 12 if the data
    /// cannot decide.
    Compare(CompareArgs),
    /// Turn the output of perftest, OSU, sockperf, iperf3, fi_pingpong, cmtime, UCX or NCCL tests
    /// into a result file.
    Import(ImportArgs),
    /// Make one report of result files.
    Report(ReportArgs),
}

impl Cli {
    /// Parses this process's arguments.
    pub(crate) fn of_process() -> Result<Self, clap::Error> {
        Self::parse_words(plan_first(local_first(std::env::args_os().collect())))
    }

    /// Parses the words of a command, and notes which options are among them.
    pub(crate) fn parse_words(words: Vec<OsString>) -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches_from(words)?;
        let parsed = Self::from_arg_matches(&matches);
        let mut cli = parsed.map_err(|error| error.format(&mut Self::command()))?;
        if let Some((_, matches)) = matches.subcommand() {
            match &mut cli.command {
                Command::Run { measure, .. } | Command::Local { measure, .. } => {
                    measure.given = GivenOptions::of(matches);
                }
                Command::Mpi(args) => args.given = GivenOptions::of(matches),
                Command::Plan(args) => args.given = GivenOptions::of(matches),
                _ => {}
            }
        }
        Ok(cli)
    }
}

/// Rewrites `efa-bench latency ...` as `efa-bench local latency ...`.
fn local_first(mut words: Vec<OsString>) -> Vec<OsString> {
    let first = words.get(1).and_then(|word| word.to_str());
    let is_benchmark = |word: &str| LocalBenchmark::parse(word).is_ok();
    if first.is_some_and(is_benchmark) {
        words.insert(1, "local".into());
    }
    words
}

/// Rewrites `run ... --plan NAME ...` as `plan NAME ...`: plans have other options than single
/// benchmarks.
fn plan_first(mut words: Vec<OsString>) -> Vec<OsString> {
    const OPTION: &str = "--plan";
    let given = |word: &OsString| word == OPTION || word.to_string_lossy().starts_with("--plan=");
    let (Some(command), Some(at)) = (words.get(1), words.iter().position(given)) else {
        return words;
    };
    if command == "run" && at > 1 {
        let word = words.remove(at);
        if let Some(name) = word.to_string_lossy().strip_prefix("--plan=") {
            words.insert(at, name.into());
        }
        words[1] = "plan".into();
    }
    words
}

/// The benchmarks of `local`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalBenchmark(pub(crate) Vec<Name>);

impl LocalBenchmark {
    /// Returns the default number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.0.iter().map(|name| name.preset().threads).max().unwrap_or(1)
    }

    /// Returns the default number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.0.iter().map(|name| name.preset().nodes).max().unwrap_or(2)
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text == "quick" {
            return Ok(Self([Benchmark::Latency, Benchmark::Bandwidth].map(Name::of).to_vec()));
        }
        Name::from_str(text, true).map(|name| Self(vec![name])).map_err(|_| {
            let names = Name::value_variants().iter().map(|name| name.text());
            format!("write quick, {}", names.collect::<Vec<_>>().join(", "))
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Control port; 0 chooses a free one and prints it.
    #[arg(long, default_value_t = DEFAULT_PORT)]
    pub(crate) port: u16,
    /// Address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub(crate) bind: IpAddr,
    /// End after this many sessions; 0: never.
    #[arg(long, default_value_t = 0)]
    pub(crate) sessions: u64,
    /// End when standard input is closed.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    /// Do not report sessions that went well.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_pages_and_completions_are_whole() {
        manual::check(Cli::command());
    }

    #[test]
    fn a_benchmark_alone_is_measured_on_this_machine() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        for (given, meant) in [
            ("efa-bench latency -p tcp", "efa-bench local latency -p tcp"),
            ("efa-bench 2pc", "efa-bench local 2pc"),
            ("efa-bench quick", "efa-bench local quick"),
            ("efa-bench run latency", "efa-bench run latency"),
            ("efa-bench --help", "efa-bench --help"),
            ("efa-bench", "efa-bench"),
        ] {
            assert_eq!(local_first(words(given)), words(meant), "{given}");
        }
        // No command has the name of a benchmark.
        for command in Cli::command().get_subcommands() {
            assert!(LocalBenchmark::parse(command.get_name()).is_err(), "{}", command.get_name());
        }
    }

    #[test]
    fn help_lists_every_benchmark() {
        for text in [Cli::command().render_help(), Cli::command().render_long_help()] {
            let text = text.to_string();
            for name in Name::value_variants() {
                let name = name.text();
                let is_there = |line: &str| line.split([',', ' ']).any(|word| word == name);
                assert!(text.lines().any(is_there), "{name}: {text}");
            }
            assert!(text.contains("Exit codes: 0 done"), "{text}");
        }
    }

    /// The second lines of meanings do not stand among the names.
    #[test]
    fn names_of_benchmarks_stand_alone() {
        let help = Cli::command().render_long_help().to_string();
        let listed = help.lines().skip_while(|line| !line.starts_with("Benchmarks:")).skip(2);
        for line in listed.take_while(|line| !line.is_empty()) {
            let named = line.split_whitespace().next().expect("a word");
            let is_name = Name::value_variants().iter().any(|name| name.text() == named);
            assert!(line.starts_with(&" ".repeat(22)) || is_name, "{line}");
        }
    }

    #[test]
    fn run_with_a_plan_is_a_plan() {
        for (given, meant) in [
            ("run --plan quick -o x", "plan quick -o x"),
            ("run -o x --plan=a.toml --local", "plan -o x a.toml --local"),
            ("run latency -H h", "run latency -H h"),
            ("plan quick", "plan quick"),
        ] {
            let words = |text: &str| -> Vec<OsString> {
                format!("efa-bench {text}").split(' ').map(OsString::from).collect()
            };
            assert_eq!(plan_first(words(given)), words(meant));
            assert!(Cli::try_parse_from(plan_first(words(given))).is_ok(), "{given}");
        }
    }
}
