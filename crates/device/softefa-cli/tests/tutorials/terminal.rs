//! Shells in a scratch folder, which stand for a reader's terminals.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::harness::{is_listening, softefa, wait_until};
use crate::page;

/// The time within which a command of a tutorial must end.
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);

/// The output of a command, on both streams, and its exit code.
pub(crate) struct Output {
    pub(crate) text: String,
    pub(crate) code: i32,
}

/// A folder in which commands run, with the programs under test in `PATH`.
pub(crate) struct Terminal {
    dir: tempfile::TempDir,
    env: Vec<(String, String)>,
}

impl Terminal {
    /// Makes a terminal with variables of its own.
    pub(crate) fn new(env: &[(&str, &str)]) -> Self {
        let env = env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { dir: tempfile::tempdir().unwrap(), env }
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, text: &str) -> Output {
        self.start(text, "client").wait()
    }

    /// Starts a command that serves, and waits until it listens.
    pub(crate) fn serve(&self, command: &page::Command, port: u16) -> Server {
        let mut server = self.start(&command.text, "server");
        let id = server.child.id();
        wait_until(&format!("{} listens on {port}", command.text), || {
            let ended = server.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "{} ended before it listened\n{}",
                command.text,
                server.printed()
            );
            is_listening(id, port)
        });
        server
    }

    fn start(&self, text: &str, name: &str) -> Server {
        let output = self.dir.path().join(format!(".{name}"));
        let file = File::create(&output).unwrap();
        let programs = softefa().parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell.args(["-ec", text]).current_dir(self.work());
        shell
            .env("PATH", path)
            .env("XDG_RUNTIME_DIR", self.dir.path())
            .env("HOME", self.dir.path());
        shell.envs(self.env.iter().map(|(name, value)| (name, value)));
        shell.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).process_group(0);
        Server { child: shell.spawn().unwrap(), output }
    }

    /// Returns the reader's folder, which contains only files that the tutorial makes.
    fn work(&self) -> PathBuf {
        let work = self.dir.path().join("work");
        fs::create_dir_all(&work).unwrap();
        work
    }
}

/// A command that runs; it is ended with all processes that it started when this is dropped.
pub(crate) struct Server {
    child: Child,
    output: PathBuf,
}

impl Server {
    /// Waits for the end of the command.
    pub(crate) fn wait(mut self) -> Output {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Output { text: self.printed(), code: status.code().unwrap_or(-1) };
            }
            assert!(Instant::now() < deadline, "did not end within {LIMIT:?}\n{}", self.printed());
            thread::sleep(POLL);
        }
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// A reader's shell takes the exit code of the last command, so that a program whose output `head`
/// cuts off has not failed.
#[test]
fn pipes_that_end_early_are_no_failure() {
    let output = Terminal::new(&[]).run("yes | head -n 1");
    assert_eq!((output.code, output.text.as_str()), (0, "y\n"));
    assert_eq!(Terminal::new(&[]).run("false; true").code, 1, "the first failure ends a script");
}
