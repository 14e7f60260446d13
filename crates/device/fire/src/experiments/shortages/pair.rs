//! A server without the shortage and a client with it: perftest's latency test over SRD.

use std::fs::File;
use std::io::{Read, Seek};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::cases::Variant;
use crate::experiments::Context;
use crate::interrupt;
use crate::tool;

/// A program that takes longer counts as hung.
const LIMIT: Duration = Duration::from_secs(60);

/// The end of a program.
#[derive(Debug)]
pub(super) struct Ending {
    /// `None` if a signal ended softefa, or if it did not end.
    pub(super) code: Option<i32>,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
    pub(super) hung: bool,
    /// Whether all resources were missing when the program began.
    pub(super) is_confined: bool,
    pub(super) stderr: String,
    pub(super) stdout: String,
}

impl Ending {
    /// Returns the first lines of its output about the failure.
    pub(super) fn stderr_excerpt(&self) -> String {
        let softefa = self.stderr.lines().filter(|line| line.starts_with("softefa"));
        let others = self.stderr.lines().filter(|line| !line.starts_with("softefa"));
        let all = softefa.chain(others).chain(self.stdout.lines());
        let told = |line: &&str| !line.trim().is_empty() && !line.starts_with("---");
        all.filter(told).take(2).collect::<Vec<_>>().join(" / ")
    }

    pub(super) fn summary(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}, \"{}\"", self.stderr_excerpt()),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "no end".to_owned(),
        }
    }
}

/// Runs client and server, and returns how the client ended.
pub(super) fn run(context: &Context, variant: &Variant) -> Result<Ending> {
    let port = free_port()?;
    let dir = tempfile::tempdir()?;
    let base = ["ib_send_lat", "-c", "SRD", "-x", "0", "-F", "-n", "100", "-s", "1024", "-p"];
    let mut server = Command::new(&context.softefa);
    server.args(["run", "--"]).args(base).arg(port.to_string());
    server.env("XDG_RUNTIME_DIR", dir.path());
    let mut server = ProcessGroup::start(&mut tool::ending_with_fire(&server))?;
    if let Err(error) = server.wait_for_listener(port) {
        bail!("{error:#}; it said: {}", server.end()?.stderr_excerpt());
    }
    let mark = tempfile::tempfile()?;
    // This name works in other mount namespaces, too.
    let name = format!("/proc/{}/fd/{}", std::process::id(), mark.as_raw_fd());
    let mut client = variant.command(&name, &context.softefa)?;
    client.args(["run", "--"]).args(base).arg(port.to_string());
    client.arg("127.0.0.1");
    let mut client = ProcessGroup::start(&mut client)?;
    let ending = client.finish(LIMIT)?;
    Ok(Ending { is_confined: mark.metadata()?.len() > 0, ..ending })
}

/// Returns a TCP port that is free now.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A process group that is killed on drop.
struct ProcessGroup {
    child: Child,
    out: [File; 2],
}

impl ProcessGroup {
    fn start(command: &mut Command) -> Result<Self> {
        let out = [tempfile::tempfile()?, tempfile::tempfile()?];
        command.stdin(Stdio::null()).stdout(out[0].try_clone()?).stderr(out[1].try_clone()?);
        let child = command.process_group(0).spawn().with_context(|| format!("{command:?}"))?;
        Ok(Self { child, out })
    }

    fn wait_for_listener(&mut self, port: u16) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            interrupt::check()?;
            // A test connection would be taken for the client.
            if is_listening(port)? {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}");
            }
            if Instant::now() > deadline {
                bail!("the server does not listen on port {port}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn finish(&mut self, limit: Duration) -> Result<Ending> {
        let deadline = Instant::now() + limit;
        loop {
            interrupt::check()?;
            if let Some(status) = self.child.try_wait()? {
                return self.ending(Some(status));
            }
            if Instant::now() > deadline {
                return self.end();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self) -> Result<Ending> {
        self.kill();
        self.ending(None)
    }

    fn kill(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }

    fn ending(&mut self, status: Option<ExitStatus>) -> Result<Ending> {
        let [stdout, stderr] = self.out.each_mut().map(text);
        let code = status.and_then(|status| status.code());
        let signal = status.and_then(|status| status.signal());
        let hung = status.is_none();
        Ok(Ending { code, signal, hung, is_confined: false, stderr: stderr?, stdout: stdout? })
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns whether a TCP port of this machine is listened on.
fn is_listening(port: u16) -> Result<bool> {
    let tables =
        [std::fs::read_to_string("/proc/net/tcp")?, std::fs::read_to_string("/proc/net/tcp6")?];
    let wanted = format!(":{port:04X}");
    let is_it = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|local| local.ends_with(&wanted)) && fields.nth(1) == Some("0A")
    };
    Ok(tables.iter().flat_map(|table| table.lines()).any(is_it))
}
