//! Peer processes of an experiment: how they are started, controlled and ended.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::args::{Op, Transport};
use crate::interrupt;
use crate::network::Network;
use crate::tool;

/// The time limit of steps that should be quick.
pub(crate) const STEP_LIMIT: Duration = Duration::from_secs(20);

/// Where a process runs.
#[derive(Clone, Copy)]
pub(crate) enum Location<'a> {
    /// This machine's loopback.
    Loopback,
    /// This machine's loopback, under `softefa run`.
    Run(&'a Path),
    /// A host of a network, and its address.
    Host(&'a Network, &'a str, &'a str),
}

/// The arguments of a peer process.
#[derive(Debug, Clone)]
pub(crate) struct Role {
    pub(crate) transport: Transport,
    pub(crate) op: Op,
    pub(crate) bytes: u32,
    pub(crate) depth: u32,
    pub(crate) source: u32,
    pub(crate) churn: bool,
    pub(crate) polite: bool,
    /// `SOFTEFA_*` variables.
    pub(crate) env: Vec<(String, String)>,
}

impl Default for Role {
    fn default() -> Self {
        Self {
            transport: Transport::Srd,
            op: Op::Send,
            bytes: 0,
            depth: 64,
            source: 1,
            churn: false,
            polite: true,
            env: Vec::new(),
        }
    }
}

/// A peer process; dropping it kills it.
pub(crate) struct Peer {
    child: Child,
    /// The process id of the peer itself, where the child is `softefa run`.
    pid: u32,
    stdin: Option<ChildStdin>,
    events: Receiver<Value>,
    stderr: File,
    /// The words by which another peer reaches this one.
    pub(crate) address: String,
    pub(crate) bytes: u64,
}

impl Peer {
    /// Starts a peer and waits for its `hello`.
    ///
    /// # Errors
    /// The peer does not start, or ends at once; the message contains its standard error.
    pub(crate) fn start(location: Location<'_>, role: &Role) -> Result<Self> {
        let program = tool::this_program();
        let mut command = match location {
            Location::Loopback => Command::new(&program),
            Location::Run(softefa) => {
                let mut command = Command::new(softefa);
                command.args(["run", "--", &program]);
                command
            }
            Location::Host(network, host, _) => network.command(host, &program),
        };
        let addr = match location {
            Location::Loopback | Location::Run(_) => "127.0.0.1",
            Location::Host(_, _, addr) => addr,
        };
        let stderr = tempfile::tempfile()?;
        command.args(["peer", "--transport", role.transport.name(), "--op", role.op.name()]);
        for (name, value) in [("bytes", role.bytes), ("depth", role.depth), ("source", role.source)]
        {
            command.arg(format!("--{name}={value}"));
        }
        command.args(role.churn.then_some("--churn")).args(role.polite.then_some("--polite"));
        if !matches!(location, Location::Run(_)) {
            command.env("SOFTEFA_DEVICES", format!("rdmap0s6={addr}"));
        }
        command.envs(role.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr.try_clone()?);
        let mut child = command.spawn().context("an end cannot be started")?;
        let events = read_events(child.stdout.take().context("no output")?);
        let stdin = child.stdin.take();
        let pid = child.id();
        let mut peer = Self { child, pid, stdin, events, stderr, address: String::new(), bytes: 0 };
        let hello = peer.wait_for("hello", STEP_LIMIT)?;
        peer.address = hello["address"].as_str().unwrap_or_default().to_owned();
        peer.bytes = hello["bytes"].as_u64().unwrap_or_default();
        peer.pid = hello["pid"].as_u64().and_then(|pid| pid.try_into().ok()).unwrap_or(pid);
        Ok(peer)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends one line to the peer.
    ///
    /// # Errors
    /// The peer has ended.
    pub(crate) fn send_command(&mut self, line: &str) -> Result<()> {
        let told = self.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
        if !matches!(told, Some(Ok(()))) {
            bail!("an end is gone before '{line}'; it said: {}", self.stderr_excerpt());
        }
        Ok(())
    }

    /// Sends the address of `other` to the peer.
    ///
    /// # Errors
    /// The peer has ended.
    pub(crate) fn connect_to(&mut self, other: &Self) -> Result<()> {
        self.send_command(&format!("peer {}", other.address))
    }

    /// Waits for the next event of this kind and skips all others.
    ///
    /// # Errors
    /// The event does not arrive in time, or the peer has ended.
    pub(crate) fn wait_for(&mut self, kind: &str, limit: Duration) -> Result<Value> {
        let deadline = Instant::now() + limit;
        loop {
            interrupt::check()?;
            match self.events.recv_timeout(Duration::from_millis(20)) {
                Ok(event) if event["event"] == kind => return Ok(event),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(RecvTimeoutError::Timeout) => {
                    bail!(
                        "no '{kind}' for {} s; it said: {}",
                        limit.as_secs(),
                        self.stderr_excerpt()
                    );
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("an end is gone before its '{kind}'; it said: {}", self.stderr_excerpt());
                }
            }
        }
    }

    /// Lets the peer quit and returns its report.
    ///
    /// # Errors
    /// The peer does not report or does not exit.
    pub(crate) fn quit(&mut self) -> Result<Value> {
        self.send_command("quit")?;
        let report = self.wait_for("report", STEP_LIMIT)?;
        self.wait_for_exit()?;
        Ok(report)
    }

    /// Sends a signal to the peer.
    ///
    /// # Errors
    /// The peer has ended.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).context("no process")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Kills the peer.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// Waits until the child has exited, which is `softefa run` where that started the peer.
    ///
    /// # Errors
    /// The child does not exit.
    pub(crate) fn wait_for_exit(&mut self) -> Result<()> {
        let deadline = Instant::now() + STEP_LIMIT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("an end does not exit; it said: {}", self.stderr_excerpt());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Returns the first lines of standard error.
    fn stderr_excerpt(&mut self) -> String {
        let mut text = String::new();
        let read = self.stderr.rewind().and_then(|()| self.stderr.read_to_string(&mut text));
        match read {
            Ok(1..) => text.trim().lines().take(4).collect::<Vec<_>>().join("; "),
            _ => "nothing".to_owned(),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Fails if the child has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads events, a line of JSON each, in a thread.
fn read_events(out: impl Read + Send + 'static) -> Receiver<Value> {
    let (to, from) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        let events = lines.filter_map(|line| serde_json::from_str(&line).ok());
        let _ = events.into_iter().try_for_each(|event: Value| to.send(event));
    });
    from
}
