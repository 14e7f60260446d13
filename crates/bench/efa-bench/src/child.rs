//! Child processes: servers that end with this process, clients whose progress is shown, and other
//! tools.

mod tool;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bench_engine::interrupt::{self, Reached};
use bench_engine::server::READY;
use bench_record::failure::Failure;

pub(crate) use self::tool::Tool;

/// The time that a server may take to say that it listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The time that a server may take to end after its standard input was closed.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A server child. Dropping it closes its standard input, which ends it; if that does not help, it
/// is killed.
pub(crate) struct ServerChild {
    child: Child,
    pub(crate) port: u16,
    lines: mpsc::Receiver<String>,
}

/// Creates a command line: the words of `prefix`, then `program`.
pub(crate) fn command(prefix: &[String], program: &Path) -> Command {
    match prefix.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

fn this_program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|e| Failure::Check(format!("cannot find this program's own file: {e}")))
}

impl ServerChild {
    /// Starts a server on a free port of the loopback address and waits until it listens.
    pub(crate) fn start(prefix: &[String]) -> Result<Self, Failure> {
        let mut command = command(prefix, &this_program()?);
        command
            .args(["server", "--port", "0", "--bind", "127.0.0.1"])
            .args(["--until-stdin-closes", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = spawn(interrupt::apart(&mut command))?;
        let (sender, lines) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            forward_lines(stderr, sender);
        }
        let (first_sender, first) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            forward_lines(stdout, first_sender);
        }
        let mut this = Self { child, port: 0, lines };
        match first.recv_timeout(START_TIMEOUT) {
            Ok(line) => {
                match line.strip_prefix(READY).and_then(|a| a.rsplit(':').next()?.parse().ok()) {
                    Some(port) => this.port = port,
                    None => return Err(Failure::Check(format!("the server said: {line}"))),
                }
            }
            Err(_) => {
                let words = this.last_words();
                return Err(Failure::Check(format!("the server did not start{words}")));
            }
        }
        Ok(this)
    }

    /// Returns whether the server is gone, though nobody ended it.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the process id, for those who want to end the server from outside.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns what the server wrote to standard error, as "; it said: ...", or nothing.
    pub(crate) fn last_words(&self) -> String {
        said(&self.lines)
    }

    /// Ends the server and waits for it.
    pub(crate) fn end(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            // Waiting for a process, not for a race: try_wait is asked again until the deadline.
            std::thread::sleep(Duration::from_millis(5));
        }
        // The server did not end by itself, and nobody needs what it still does.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ServerChild {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs a client child to its end; `on_line` gets each line of its standard error as it comes.
/// Returns the exit code (`None` if a signal ended the client).
pub(crate) fn run_client(
    prefix: &[String],
    arguments: &[String],
    mut on_line: impl FnMut(&str),
) -> Result<Option<i32>, Failure> {
    let mut command = command(prefix, &this_program()?);
    command.args(arguments).arg("--until-stdin-closes");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = spawn(interrupt::apart(&mut command))?;
    let reached = Reached::new(&child);
    // Standard input closes when the client has ended, or when this process dies, which ends the
    // client.
    let _stdin = child.stdin.take();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            on_line(&line);
        }
    }
    drop(reached);
    let status = child.wait().map_err(|e| Failure::Check(format!("waiting for a client: {e}")))?;
    Ok(status.code())
}

/// Starts a command, or says why it cannot.
pub(crate) fn spawn(command: &mut Command) -> Result<Child, Failure> {
    command.spawn().map_err(|error| {
        let program = Path::new(command.get_program()).display().to_string();
        let reason = bench_record::failure::plain(&error);
        Failure::Check(format!("cannot start {program}: {reason}"))
    })
}

/// Returns what came on the lines, as "; it said: ...", or nothing.
fn said(lines: &mpsc::Receiver<String>) -> String {
    let said: Vec<String> = lines.try_iter().collect();
    if said.is_empty() { String::new() } else { format!("; it said: {}", said.join("; ")) }
}

/// Sends each line of `from` from a thread of its own.
pub(crate) fn forward_lines(from: impl Read + Send + 'static, to: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            // Nobody may listen any more: keep reading, so that the child never blocks.
            let _ = to.send(line);
        }
    });
}
