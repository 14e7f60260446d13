//! Programs under `softefa run`, each with a time limit after which it is ended.
//!
//! Every launcher has a runtime directory of its own, so that runs on the same machine cannot be
//! mistaken for each other. Only processes that a test started are signalled, by their ids.
#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod record;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The time limit of a run that is expected to end by itself.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The time limit for the start of a program.
const START_LIMIT: Duration = Duration::from_secs(15);
/// The time between asking a program to end and killing it.
const GRACE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);

/// Returns the command under test, with the libraries beside it that are built from the present
/// sources.
pub(crate) fn softefa() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        build(&["--lib"]);
        let program = PathBuf::from(env!("CARGO_BIN_EXE_softefa"));
        let mut cargo = nested_cargo::command();
        cargo.args(["run", "--quiet", "--package", "xtask", "--", "replace-verbs"]);
        cargo.arg(program.parent().unwrap());
        assert!(cargo.status().unwrap().success(), "the versioned libraries cannot be made");
        program
    })
}

/// Returns `efa-bench`, built from the present sources.
pub(crate) fn efa_bench() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        build(&["--bin", "efa-bench"]);
        Path::new(env!("CARGO_BIN_EXE_softefa")).with_file_name("efa-bench")
    })
}

/// Returns `fire`, built from the present sources.
pub(crate) fn fire() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        build(&["--bin", "fire"]);
        Path::new(env!("CARGO_BIN_EXE_softefa")).with_file_name("fire")
    })
}

/// Returns `netsim`, built from the present sources.
pub(crate) fn netsim() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        build(&["--bin", "netsim"]);
        Path::new(env!("CARGO_BIN_EXE_softefa")).with_file_name("netsim")
    })
}

/// Builds targets with the profile of the command under test, beside it.
fn build(targets: &[&str]) {
    let program = Path::new(env!("CARGO_BIN_EXE_softefa"));
    let is_release = program.parent().is_some_and(|dir| dir.ends_with("release"));
    nested_cargo::build(targets, is_release).unwrap();
}

/// Returns the lock that lets one pair run at a time, because busy-polling programs share two
/// cores.
pub(crate) fn exclusive() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if a consumer program is installed. Otherwise reports a skip by hand, and fails in
/// CI.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        assert!(!ci, "{program} is not installed (.ci/setup run)");
        eprintln!("SKIPPED, NOT TESTED: {program} is not installed; run .ci/setup run");
    }
    found
}

/// Returns true if this is root, who may make `what`. Otherwise reports a skip by hand, and fails
/// in CI.
pub(crate) fn is_root(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        assert!(!ci, "{what} need root");
        eprintln!("SKIPPED, NOT TESTED: {what} need root");
    }
    root
}

/// Returns true if this machine has IPv6; otherwise reports a skip.
pub(crate) fn has_ipv6() -> bool {
    let found = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0));
    if let Err(error) = &found {
        eprintln!("SKIPPED, NOT TESTED: this machine has no IPv6 ({error})");
    }
    found.is_ok()
}

/// Returns true if the long matrix is requested.
pub(crate) fn is_long() -> bool {
    std::env::var("SOFTEFA_MATRIX").is_ok_and(|value| value == "long")
}

/// Returns true if all programs of these tests seal their packets: they inherit the variable.
pub(crate) fn is_sealed() -> bool {
    std::env::var_os("SOFTEFA_KEY_FILE").is_some_and(|path| !path.is_empty())
}

/// Returns the wire of all programs of these tests, which inherit the variable; empty if they
/// choose it themselves.
pub(crate) fn wire() -> String {
    std::env::var("SOFTEFA_WIRE").unwrap_or_default()
}

/// Returns options that put the bytes of RDMA on the wire even if they could be copied from memory
/// to memory, unless the wire is given.
pub(crate) fn rdma_on_the_wire() -> &'static str {
    if wire().is_empty() { "--wire-only" } else { "" }
}

/// Returns the name of the counter of damaged datagrams.
pub(crate) fn damage_counter() -> &'static str {
    if is_sealed() { "rx_seal_errors" } else { "rx_crc_errors" }
}

/// Returns a TCP port that is free now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// The directions in which packets must have gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directions {
    /// Sent and received.
    Both,
    /// Sent or received.
    Either,
}

/// The outcome of a program.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The command line, for messages.
    pub(crate) line: String,
    /// The exit code of `softefa run`.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The contents of the `--counters` file; null if the command failed before.
    pub(crate) counters: Value,
}

impl Outcome {
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.counters["counters"][name].as_u64().unwrap_or_default()
    }

    /// Returns true if rping failed by a race of its own. Both ends close their channel when they
    /// are told of the disconnection, while one of their threads may be about to ask for the next
    /// event. The kernel, too, refuses a descriptor that is already closed, and rping then ends
    /// with -1 although all its work is done.
    fn is_race_of_rping(&self) -> bool {
        let said = format!("{}{}", self.stdout, self.stderr);
        self.code == 255
            && self.line.contains("rping ")
            && said.contains(" DISCONNECT EVENT")
            && said.contains("rdma_get_cm_event: Bad file descriptor")
    }

    /// Asserts that the program succeeded without a word of an error.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.code, 0, "{self}");
        let both = format!("{}\n{}", self.stdout, self.stderr).to_lowercase();
        let complaint = ["error", "fail", "couldn't", "abort", "unable"];
        let complaint = complaint.iter().find(|word| both.contains(*word));
        assert_eq!(complaint, None, "{self}");
    }

    /// Asserts that packets went through our device: in both directions for reliable transports, or
    /// in one for a stream of datagrams that are not acknowledged.
    #[track_caller]
    pub(crate) fn assert_moved(&self, directions: Directions) {
        let [tx, rx] = ["tx_pkts", "rx_pkts"].map(|name| self.counter(name) > 0);
        let moved = match directions {
            Directions::Both => tx && rx,
            Directions::Either => tx || rx,
        };
        assert!(moved, "the device's packet counters did not move\n{self}");
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, code, stdout, stderr, counters } = self;
        write!(f, "{line}\nexit code {code}\n{stdout}\n{stderr}\n{}", counters["counters"])
    }
}

/// Starts the programs of a test, which share its directory and options.
pub(crate) struct Launcher {
    dir: tempfile::TempDir,
    options: Vec<String>,
    /// The words in front of `softefa`, which start it.
    within: Vec<String>,
    env: Vec<(String, String)>,
}

impl Launcher {
    /// Makes a launcher; `options` go to `softefa run`, separated by blanks.
    pub(crate) fn new(options: &str) -> Self {
        let options = options.split_whitespace().map(str::to_owned).collect();
        Self { dir: tempfile::tempdir().unwrap(), options, within: Vec::new(), env: Vec::new() }
    }

    /// Runs everything in a network namespace.
    pub(crate) fn in_namespace(self, name: &str) -> Self {
        self.within(&format!("ip netns exec {name}"))
    }

    /// Starts everything by a command, possibly as another user; its words are separated by blanks.
    pub(crate) fn within(mut self, words: &str) -> Self {
        self.within = words.split_whitespace().map(str::to_owned).collect();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(self.dir.path(), all).unwrap();
        self
    }

    /// Sets variables of everything this launcher runs.
    pub(crate) fn with_env(mut self, env: &[(&str, &str)]) -> Self {
        self.env.extend(env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
        self
    }

    /// Returns the runtime directory, in which nothing must be left after a run.
    pub(crate) fn runtime_dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns `softefa` with this launcher's runtime directory.
    pub(crate) fn command(&self) -> Command {
        let mut command = match self.within.split_first() {
            None => Command::new(softefa()),
            Some((program, words)) => {
                let mut wrapper = Command::new(program);
                wrapper.args(words).arg(softefa());
                wrapper
            }
        };
        command.env("XDG_RUNTIME_DIR", self.dir.path()).stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts `line` (words separated by blanks) on the device.
    pub(crate) fn start(&self, name: &str, line: &str) -> Running {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.start_words(name, &words)
    }

    /// Starts a program with arguments that contain blanks.
    pub(crate) fn start_words(&self, name: &str, words: &[&str]) -> Running {
        let file = |end: &str| self.dir.path().join(format!("{name}.{end}"));
        let mut command = self.command();
        command.arg("run").args(&self.options).arg("--counters").arg(file("json")).arg("--");
        command.args(words);
        command.stdout(File::create(file("out")).unwrap());
        command.stderr(File::create(file("err")).unwrap());
        let line = format!("softefa run {} -- {}", self.options.join(" "), words.join(" "));
        let child = command.spawn().unwrap();
        Running { line, child, files: ["out", "err", "json"].map(file) }
    }

    /// Runs a program that ends by itself.
    pub(crate) fn run(&self, line: &str) -> Outcome {
        self.start("alone", line).wait(LIMIT)
    }

    /// Runs `line` as server with `port_option PORT`, and as client with the same and the server's
    /// address; returns server and client.
    pub(crate) fn run_pair(&self, line: &str, ports: [&str; 2]) -> (Outcome, Outcome) {
        let (server, client) = self.start_pair(line, ports);
        let client = client.wait(LIMIT);
        (server.wait(LIMIT), client)
    }

    /// Starts a pair as [`Launcher::run_pair`] does, and returns both while they run.
    pub(crate) fn start_pair(&self, line: &str, ports: [&str; 2]) -> (Running, Running) {
        let port = free_port();
        let mut server = self.start("server", &format!("{line} {} {port}", ports[0]));
        server.wait_until_listening(port);
        let client = self.start("client", &format!("{line} {} {port} 127.0.0.1", ports[1]));
        (server, client)
    }

    /// Returns the number of packets sent by all live programs of this launcher.
    pub(crate) fn live_tx_pkts(&self) -> u64 {
        let output = self.command().args(["info", "--json"]).output().unwrap();
        let info: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let runs = info["running"].as_array().cloned().unwrap_or_default();
        runs.iter().filter_map(|run| run["counters"]["tx_pkts"].as_u64()).sum()
    }
}

/// A program that runs, until this is dropped.
pub(crate) struct Running {
    line: String,
    child: Child,
    files: [PathBuf; 3],
}

impl Running {
    /// Waits for the end of the program.
    ///
    /// # Panics
    /// The program does not end within `limit`.
    #[track_caller]
    pub(crate) fn wait(mut self, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return self.outcome(status.code().unwrap_or(-1));
            }
            thread::sleep(POLL);
        }
        let state = self.describe_program();
        self.end();
        panic!("did not end within {limit:?}{state}\n{}", self.outcome(-1));
    }

    fn outcome(&self, code: i32) -> Outcome {
        let [stdout, stderr, counters] =
            self.files.each_ref().map(|file| fs::read_to_string(file).unwrap_or_default());
        let counters = serde_json::from_str(&counters).unwrap_or_default();
        let mut outcome = Outcome { line: self.line.clone(), code, stdout, stderr, counters };
        if outcome.is_race_of_rping() {
            eprintln!(
                "rping closed its event channel before its own thread asked again: {}",
                self.line
            );
            outcome.code = 0;
        }
        outcome
    }

    /// Returns the id of `softefa` itself.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns the id of the program that `softefa` runs, its only child; `None` before it started.
    pub(crate) fn program_pid(&self) -> Option<Pid> {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
    }

    /// Describes what the threads of a hanging program wait for, for the message.
    fn describe_program(&self) -> String {
        let Some(pid) = self.program_pid() else { return String::new() };
        let mut text = String::new();
        let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter();
        for task in tasks.flatten().flatten() {
            let wchan = fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
            let _ = write!(text, "; thread {:?} in '{wchan}'", task.file_name());
        }
        text
    }

    /// Waits until the program accepts connections on `port`, without connecting.
    #[track_caller]
    pub(crate) fn wait_until_listening(&mut self, port: u16) {
        if !self.comes_to_listen(port) {
            let status = self.child.wait().unwrap();
            panic!("ended before it listened\n{}", self.outcome(status.code().unwrap_or(-1)));
        }
    }

    /// Waits as [`Running::wait_until_listening`] does; returns false if the program ended before.
    #[track_caller]
    pub(crate) fn comes_to_listen(&mut self, port: u16) -> bool {
        let deadline = Instant::now() + START_LIMIT;
        while !is_listening(self.child.id(), port) {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(Instant::now() < deadline, "{} does not listen on {port}", self.line);
            thread::sleep(POLL);
        }
        true
    }

    /// Waits until the program has bound UDP port `port`, to which clients of the connection
    /// manager send.
    #[track_caller]
    pub(crate) fn wait_until_bound(&mut self, port: u16) {
        let deadline = Instant::now() + START_LIMIT;
        while !is_bound(self.child.id(), port) {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("ended before it bound\n{}", self.outcome(status.code().unwrap_or(-1)));
            }
            assert!(Instant::now() < deadline, "{} does not bind {port}", self.line);
            thread::sleep(POLL);
        }
    }

    fn end(&mut self) {
        let deadline = Instant::now() + GRACE;
        // The program may have ended already.
        let _ = kill_process(self.pid(), Signal::TERM);
        while let Ok(None) = self.child.try_wait() {
            if let Some(pid) = self.program_pid().filter(|_| Instant::now() > deadline) {
                let _ = kill_process(pid, Signal::KILL);
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns true if a program listens on TCP `port` in the network namespace of `process`.
pub(crate) fn is_listening(process: u32, port: u16) -> bool {
    let end = format!(":{port:04X}");
    let listens = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|local| local.ends_with(&end)) && columns.nth(1) == Some("0A")
    };
    ["tcp", "tcp6"]
        .map(|table| format!("/proc/{process}/net/{table}"))
        .iter()
        .any(|table| fs::read_to_string(table).unwrap_or_default().lines().any(listens))
}

/// Returns true if a program has bound the UDP port there.
fn is_bound(process: u32, port: u16) -> bool {
    let end = format!(":{port:04X}");
    let local =
        |line: &str| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&end));
    ["udp", "udp6"]
        .map(|table| format!("/proc/{process}/net/{table}"))
        .iter()
        .any(|table| fs::read_to_string(table).unwrap_or_default().lines().any(local))
}

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + START_LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        thread::sleep(POLL);
    }
}
