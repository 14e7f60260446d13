//! Helpers that run the real program.

use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_efa-bench");

/// Arguments: a line that is split at blanks, or a list where one of them holds a blank.
pub(crate) trait Words {
    fn words(&self) -> Vec<&str>;
}

impl Words for str {
    fn words(&self) -> Vec<&str> {
        self.split_ascii_whitespace().collect()
    }
}

impl Words for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl<const N: usize> Words for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Words for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Words for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

impl<W: Words + ?Sized> Words for &W {
    fn words(&self) -> Vec<&str> {
        (*self).words()
    }
}

/// A program that has ended, and the command that started it.
#[derive(Debug)]
pub(crate) struct Ended {
    command: String,
    output: Output,
}

impl Deref for Ended {
    type Target = Output;

    fn deref(&self) -> &Output {
        &self.output
    }
}

impl Ended {
    #[track_caller]
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { command: format!("{command:?}"), output }
    }

    #[track_caller]
    pub(crate) fn assert_done(&self) {
        let how = self.status;
        assert!(how.success(), "{}: {how}\n{}", self.command, self.errors());
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns what the program printed, after checking that it succeeded.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        self.assert_done();
        serde_json::from_slice(&self.stdout).expect("JSON")
    }

    /// Returns the points of the first run that the program printed.
    #[track_caller]
    pub(crate) fn points(&self) -> Vec<Value> {
        self.json()["runs"][0]["points"].as_array().expect("points").clone()
    }
}

pub(crate) fn command(words: impl Words) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words.words());
    command
}

pub(crate) fn efa_bench(words: impl Words) -> Ended {
    Ended::of(&mut command(words))
}

pub(crate) fn read_json(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the names of what is in a folder, in their order.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("folder");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A server of this program, which ends with the test.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1")
    }

    /// Starts a server that listens at this address.
    pub(crate) fn start_at(address: &str) -> Self {
        let mut child = command(format!("server --port 0 --bind {address} --until-stdin-closes"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("server starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("first line");
        let port = line.trim().rsplit(':').next().expect("a port").to_owned();
        assert!(port.parse::<u16>().is_ok(), "{line}");
        Self { child, port }
    }

    /// Measures with the server: a benchmark and its options.
    pub(crate) fn run(&self, words: impl Words) -> Ended {
        let words = words.words();
        let (benchmark, options) = words.split_first().expect("a benchmark");
        let server = ["run", benchmark, "-H", "127.0.0.1", "--port", &self.port];
        efa_bench([&server, options, &["--no-host-checks"]].concat())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures two points with three servers over TCP, kills the second server within the second point
/// and checks that the client says so; returns the servers and where they are.
pub(crate) fn kill_a_server_of(benchmark: &str) -> (Vec<Server>, Vec<String>) {
    let mut servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let hosts: Vec<String> =
        servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    let manner = "--fabric tcp -t 0.6 -w 0.1 --blocks 1 --timeout 5 --no-host-checks";
    let mut client = command(format!("run {benchmark} -H {} {manner}", hosts.join(",")))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("client starts");
    let mut lines = BufReader::new(client.stderr.take().expect("piped")).lines();
    let first = lines.next().expect("a progress line").expect("text");
    assert!(first.starts_with("[1/2]"), "{first}");
    // The second point runs now.
    servers[1].child.kill().expect("kill a server");
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(client.wait().expect("client ends").code(), Some(7), "{rest:?}");
    let last = rest.last().expect("an error");
    assert!(last.contains("node 2") && last.contains(&hosts[1]), "{rest:?}");
    (servers, hosts)
}

/// Checks that a program failed with `code` and one line that contains all of `words`.
pub(crate) fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    let errors: Vec<&str> = text.lines().filter(|l| !l.starts_with("server process")).collect();
    assert_eq!(errors.len(), 1, "one line, not: {text}");
    for word in words {
        assert!(errors[0].contains(word), "no {word:?} in: {text}");
    }
}

/// Runs the program and returns the points of its first run.
#[track_caller]
pub(crate) fn points_of(words: impl Words) -> Vec<Value> {
    let all = [&["local"], &words.words()[..], &["--json", "-", "--no-host-checks"]].concat();
    efa_bench(all).points()
}

/// Returns the `softefa` command with its library, built from the present sources.
pub(crate) fn softefa() -> &'static Path {
    static COMMAND: OnceLock<PathBuf> = OnceLock::new();
    COMMAND.get_or_init(|| {
        let program = Path::new(PROGRAM).with_file_name("softefa");
        let is_release = program.parent().is_some_and(|folder| folder.ends_with("release"));
        nested_cargo::build(&["--lib", "--bin", "softefa"], is_release).expect("softefa builds");
        program
    })
}

/// Keeps other tests that call this from running two programs that poll. Two such programs fill two
/// processors, and two pairs at once would take ten times as long.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a measurement on Soft-EFA; returns what it printed and the packets that the device sent, or
/// the messages if these are more, because short ones share a packet.
pub(crate) fn on_soft_efa(words: impl Words) -> (Ended, u64) {
    on_soft_efa_with("", words)
}

/// Runs a measurement on Soft-EFA with options of `softefa run`, without counters in the points.
/// What the device counts is shown up to 100 ms late, and each point would wait for it.
pub(crate) fn on_soft_efa_with(options: impl Words, words: impl Words) -> (Ended, u64) {
    counted_on_soft_efa(options, [&words.words()[..], &["--no-counters"]].concat())
}

/// Runs a measurement on Soft-EFA with options of `softefa run`, with counters in the points.
pub(crate) fn counted_on_soft_efa(options: impl Words, words: impl Words) -> (Ended, u64) {
    let (output, counters) = with_counters(options, words);
    let counted = ["tx_pkts", "send_wrs"].map(|name| counters["counters"][name].as_u64());
    (output, counted.into_iter().flatten().max().expect("a counter"))
}

/// Runs a measurement on Soft-EFA; returns what it printed, and all counters, also of each process.
pub(crate) fn with_counters(options: impl Words, words: impl Words) -> (Ended, Value) {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("tempdir");
    let counters = folder.path().join("counters.json");
    let mut softefa = Command::new(softefa());
    softefa.args(["run", "--counters"]).arg(&counters).args(options.words());
    softefa.args(["--", PROGRAM, "local"]).args(words.words());
    let output = Ended::of(softefa.args(["--json", "-", "--no-host-checks"]));
    (output, read_json(counters))
}
