//! A server and a client process with a common deadline.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

const POLL: Duration = Duration::from_millis(10);
const START_LIMIT: Duration = Duration::from_secs(10);
/// Between asking a program to end and ending it.
const GRACE: Duration = Duration::from_secs(2);

/// A running program whose output is read as it comes, so that it never waits for us.
struct Running {
    name: String,
    child: Child,
    output: Option<JoinHandle<String>>,
}

impl Running {
    fn start(line: &[OsString]) -> Result<Self> {
        let (program, args) = line.split_first().context("an empty command line")?;
        let name = line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let output = child.stdout.take().map(|mut pipe| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error is still worth showing.
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        Ok(Self { name, child, output })
    }

    /// Output of the program when it has ended with success before `deadline`.
    fn finish(&mut self, deadline: Instant) -> Result<String> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(Instant::now() < deadline, "{} did not end in time", self.name);
            thread::sleep(POLL);
        };
        let output = self.output.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        ensure!(status.success(), "{} failed ({status}):\n{output}", self.name);
        Ok(output)
    }
}

impl Drop for Running {
    /// `softefa run` passes the termination on to the program; killing it at once could not.
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let deadline = Instant::now() + GRACE;
        let mut asked = false;
        while let Ok(None) = self.child.try_wait() {
            if let Some(pid) = pid.filter(|_| !asked) {
                // It may end at this very moment.
                let _ = kill_process(pid, Signal::TERM);
                asked = true;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
            }
            thread::sleep(POLL);
        }
    }
}

/// Starts `server`, waits until it listens on TCP `port`, runs `client`, and returns what the
/// client printed.
///
/// # Errors
/// One side cannot start, fails, or does not end within `limit`.
pub(super) fn run(
    server: &[OsString],
    client: &[OsString],
    port: u16,
    limit: Duration,
) -> Result<String> {
    let deadline = Instant::now() + limit;
    let mut server = Running::start(server)?;
    wait_until(&mut server, || is_listening(port), port)?;
    let mut client = Running::start(client)?;
    let output = client.finish(deadline)?;
    server.finish(deadline)?;
    Ok(output)
}

/// The same with a server that goes on for ever and has a UDP port: it is ended when the client is
/// done.
///
/// # Errors
/// As [`run`].
pub(super) fn run_against(
    server: &[OsString],
    client: &[OsString],
    port: u16,
    limit: Duration,
) -> Result<String> {
    let deadline = Instant::now() + limit;
    let mut server = Running::start(server)?;
    wait_until(&mut server, || is_bound(port), port)?;
    Running::start(client)?.finish(deadline)
}

/// Output of one program.
///
/// # Errors
/// As [`run`].
pub(super) fn run_alone(line: &[OsString], limit: Duration) -> Result<String> {
    Running::start(line)?.finish(Instant::now() + limit)
}

/// Reads the kernel's table instead of connecting: a server takes the first connection for its
/// client.
fn wait_until(server: &mut Running, is_there: impl Fn() -> bool, port: u16) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    while !is_there() {
        if let Some(status) = server.child.try_wait()? {
            bail!("{} ended before it listened ({status})", server.name);
        }
        ensure!(Instant::now() < deadline, "{} does not listen on {port}", server.name);
        thread::sleep(POLL);
    }
    Ok(())
}

fn is_listening(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .any(|table| has_port(&table, port, Some("0A")))
}

/// Some socket has UDP `port`.
fn is_bound(port: u16) -> bool {
    fs::read_to_string("/proc/net/udp").is_ok_and(|table| has_port(&table, port, None))
}

/// Columns of the table: number, local address, remote address, state (0A = listening). Any state
/// will do where none is asked for.
fn has_port(table: &str, port: u16, state: Option<&str>) -> bool {
    let end = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let is_it = columns.next().is_some_and(|local| local.ends_with(&end));
        is_it && state.is_none_or(|state| columns.nth(1) == Some(state))
    })
}

/// A TCP port nobody uses now.
///
/// # Errors
/// The kernel has none.
pub(super) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free TCP port")?;
    Ok(listener.local_addr()?.port())
}

/// A UDP port nobody uses now.
///
/// # Errors
/// The kernel has none.
pub(super) fn free_udp_port() -> Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no free UDP port")?;
    Ok(socket.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn listener_is_seen_without_connecting() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listening(port));
        drop(listener);
        assert!(!is_listening(port));
    }

    #[test]
    fn a_server_that_goes_on_for_ever_is_ended() {
        let port = free_udp_port().unwrap();
        let script = "import socket, sys, time\n\
                      s = socket.socket(type=socket.SOCK_DGRAM)\n\
                      s.bind(('127.0.0.1', int(sys.argv[1])))\n\
                      time.sleep(60)";
        let server = line(&["python3", "-c", script, &port.to_string()]);
        let started = Instant::now();
        let output = run_against(&server, &line(&["echo", "done"]), port, START_LIMIT).unwrap();
        assert_eq!(output, "done\n");
        assert!(!is_bound(port) && started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn failing_program_is_named_with_its_output() {
        let error = run_alone(&line(&["sh", "-c", "echo why; exit 3"]), START_LIMIT).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("exit 3") && text.contains("why"), "{text}");
    }

    #[test]
    fn hanging_program_is_ended() {
        let started = Instant::now();
        let limit = Duration::from_millis(50);
        assert!(run_alone(&line(&["sleep", "60"]), limit).is_err());
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
