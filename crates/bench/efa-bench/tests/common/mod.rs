//! Running the real program.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_efa-bench");

pub(crate) fn efa_bench(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("efa-bench starts")
}

/// A server of this program; ended with the test.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1")
    }

    /// A server that listens at this address.
    pub(crate) fn start_at(address: &str) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["server", "--port", "0", "--bind", address, "--until-stdin-closes"])
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

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut all = vec!["run", arguments[0], "-H", "127.0.0.1", "--port", &self.port];
        all.extend(&arguments[1..]);
        all.push("--no-host-checks");
        efa_bench(&all)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures two points with three servers over TCP, kills the second server within the second point
/// and checks that the client says so; answers the servers and where they are.
pub(crate) fn kill_a_server_of(benchmark: &[&str]) -> (Vec<Server>, Vec<String>) {
    let mut servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let hosts: Vec<String> =
        servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    let mut client = Command::new(PROGRAM)
        .arg("run")
        .args(benchmark)
        .args(["-H", &hosts.join(","), "--fabric", "tcp", "-t", "0.6", "-w", "0.1"])
        .args(["--blocks", "1", "--timeout", "5", "--no-host-checks"])
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

/// Checks that it failed with `code` and one line that contains all of `words`.
pub(crate) fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    let errors: Vec<&str> = text.lines().filter(|l| !l.starts_with("server process")).collect();
    assert_eq!(errors.len(), 1, "one line, not: {text}");
    for word in words {
        assert!(errors[0].contains(word), "no {word:?} in: {text}");
    }
}

/// Runs it and answers the points of its first run.
pub(crate) fn points_of(arguments: &[&str]) -> Vec<serde_json::Value> {
    let mut all = vec!["local"];
    all.extend(arguments);
    all.extend(["--json", "-", "--no-host-checks"]);
    let output = efa_bench(&all);
    assert!(output.status.success(), "{all:?}: {}", String::from_utf8_lossy(&output.stderr));
    points(&output)
}

/// The points of the first run that it printed as JSON.
pub(crate) fn points(output: &Output) -> Vec<serde_json::Value> {
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    results["runs"][0]["points"].as_array().expect("points").clone()
}

/// The `softefa` command with its library, built from the present sources.
pub(crate) fn softefa() -> &'static Path {
    static COMMAND: OnceLock<PathBuf> = OnceLock::new();
    COMMAND.get_or_init(|| {
        let program = Path::new(PROGRAM).with_file_name("softefa");
        let is_release = program.parent().is_some_and(|folder| folder.ends_with("release"));
        nested_cargo::build(&["--lib", "--bin", "softefa"], is_release).expect("softefa builds");
        program
    })
}

/// Keeps other tests that do so from running two programs that poll. They fill two processors: two
/// pairs at once would take ten times as long.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a measurement on Soft-EFA; answers what it printed and the packets that the device sent, or
/// the messages if these are more: short ones share a packet.
pub(crate) fn on_soft_efa(arguments: &[&str]) -> (Output, u64) {
    on_soft_efa_with(&[], arguments)
}

/// The same with options of `softefa run`. What the device counts is shown up to 100 ms late, and
/// each point would wait for it.
pub(crate) fn on_soft_efa_with(options: &[&str], arguments: &[&str]) -> (Output, u64) {
    counted_on_soft_efa(options, &[arguments, &["--no-counters"]].concat())
}

/// The same with what the device counts in the points.
pub(crate) fn counted_on_soft_efa(options: &[&str], arguments: &[&str]) -> (Output, u64) {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("tempdir");
    let counters = folder.path().join("counters.json");
    let output = Command::new(softefa())
        .args(["run", "--counters"])
        .arg(&counters)
        .args(options)
        .args(["--", PROGRAM, "local"])
        .args(arguments)
        .args(["--json", "-", "--no-host-checks"])
        .output()
        .expect("softefa starts");
    let bytes = std::fs::read(counters).expect("counters");
    let counters: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let counted = ["tx_pkts", "send_wrs"].map(|name| counters["counters"][name].as_u64());
    (output, counted.into_iter().flatten().max().expect("a counter"))
}
