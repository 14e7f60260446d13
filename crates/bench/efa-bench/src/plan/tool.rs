//! Steps that run another program: its output is read as `efa-bench import` reads it.

mod set_up;

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::num::NonZero;
use std::path::Path;
use std::time::{Duration, Instant};

use bench_engine::{affinity, interrupt};
use bench_record::Run;
use bench_record::fabric_name::FabricName;
use bench_record::failure::{Failure, plain};
use bench_report::import::{self, Format};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::fabric::{Fabric, Side};
use super::source::{Positive, Words};
use super::task;
use crate::child::Tool;
use crate::softefa_device::in_path;

/// A tool step as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolSource {
    /// The program that must be installed.
    #[serde(rename = "tool")]
    pub(super) program: String,
    /// The package that brings the program.
    pub(super) package: String,
    /// The name of the figures in reports.
    name: String,
    /// Command lines; the server's may be empty. `{size}`, `{iterations}`, `{host}` and `{port}`
    /// are filled in.
    #[serde(default, deserialize_with = "command_line")]
    server: Vec<String>,
    #[serde(deserialize_with = "command_line")]
    client: Vec<String>,
    #[serde(default = "no_size")]
    sizes: Words,
    #[serde(deserialize_with = "count")]
    iterations: u64,
    /// The time that one size takes, in seconds.
    seconds: Positive,
    /// The number of first iterations that are taken out of the mean; 0 for none.
    #[serde(default)]
    set_up_iterations: u64,
    /// What the server listens for.
    #[serde(default)]
    listens: Listens,
    /// Whether each side is kept on a processor of its own.
    #[serde(default, rename = "pinned")]
    is_pinned: bool,
}

/// Reads a command line as words.
fn command_line<'de, D: Deserializer<'de>>(text: D) -> Result<Vec<String>, D::Error> {
    let text = String::deserialize(text)?;
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() { Err(D::Error::custom("write a command line")) } else { Ok(words) }
}

/// Reads a number of iterations.
fn count<'de, D: Deserializer<'de>>(number: D) -> Result<u64, D::Error> {
    NonZero::<u32>::deserialize(number).map(|own| own.get().into())
}

/// Returns the sizes of a step that names none: one run.
fn no_size() -> Words {
    Words(vec![String::new()])
}

/// What a server listens for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Listens {
    #[default]
    Tcp,
    Udp,
}

/// The greatest number of runs until a program has a figure.
const TRIES: usize = 3;
/// The estimated time to start and end two processes, in seconds.
const START_S: f64 = 1.0;
/// The time that a server may take to listen, and that a pair may take to end beyond its time.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);
const END_TIMEOUT: Duration = Duration::from_secs(60);
const SERVER_END_TIMEOUT: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl ToolSource {
    pub(super) fn sizes(&self) -> &[String] {
        &self.sizes.0
    }

    /// Makes the step shorter or longer.
    pub(super) fn scaled(mut self, scale: f64) -> Self {
        let least = if self.set_up_iterations > 0 { set_up::ITERATIONS_MIN } else { 1 };
        self.iterations = task::scaled_count(self.iterations, scale).max(least);
        self.seconds.0 *= scale;
        self
    }

    pub(super) fn estimate_s(&self) -> f64 {
        (self.seconds.0 + START_S) * self.sizes().len() as f64
    }

    /// Returns why the program cannot run here, and what to do.
    pub(super) fn missing(&self) -> Option<String> {
        in_path(&self.program).is_none().then(|| {
            format!("{} is not installed: apt-get install {} brings it", self.program, self.package)
        })
    }

    /// Returns the client's command line as people would type it, without what is known only when
    /// it runs.
    pub(super) fn command(&self, fabric: &Fabric) -> String {
        let side = |words: &[String]| {
            let mut all = fabric.short_prefix();
            all.extend(words.iter().cloned());
            let text = all.iter().map(|w| shown(w)).collect::<Vec<_>>().join(" ");
            text.replace("{iterations}", &self.iterations.to_string())
                .replace("{provider}", provider(fabric))
        };
        let client = side(&self.client);
        if self.server.is_empty() {
            return client;
        }
        format!("{} & {client}", side(&self.server))
    }

    fn filled(&self, words: &[String], once: &Once<'_>) -> Vec<String> {
        let fill = |word: &String| {
            word.replace("{size}", once.size)
                .replace("{iterations}", &once.iterations.to_string())
                .replace("{provider}", provider(once.fabric))
                .replace("{host}", &Ipv4Addr::LOCALHOST.to_string())
                .replace("{port}", &once.port.to_string())
        };
        words.iter().map(fill).collect()
    }

    /// Runs the program with one size.
    pub(super) fn run(
        &self,
        fabric: &Fabric,
        size: &str,
        counters: [&Path; 2],
    ) -> Result<Run, Failure> {
        let run = |iterations| self.measured(fabric, size, iterations, counters);
        let mut run = match self.set_up_iterations {
            0 => run(self.iterations)?,
            first => set_up::left_out(first, self.iterations, run)?,
        };
        run.name = self.name.replace("{fabric}", &fabric.name);
        run.command = self.command(fabric).replace("{size}", size);
        Ok(run)
    }

    /// Returns the figures that the program prints. Perftest compares the processor's counter with
    /// the time of day before it measures, and prints zeros if it was disturbed: then it runs
    /// again.
    fn measured(
        &self,
        fabric: &Fabric,
        size: &str,
        iterations: u64,
        counters: [&Path; 2],
    ) -> Result<Run, Failure> {
        for _ in 0..TRIES {
            let once = Once { fabric, size, iterations, counters, port: free_port()? };
            let run = self.once(&once)?;
            if run.points.iter().all(|point| point.figure() != Some(0.0)) {
                return Ok(run);
            }
        }
        Err(Failure::Check(format!(
            "{} printed zeros {TRIES} times, as perftest does when it cannot measure the \
             processor's clock: end what else runs on this machine",
            self.program
        )))
    }

    fn once(&self, once: &Once<'_>) -> Result<Run, Failure> {
        let words = |side, own: &[String]| {
            let counters = once.counters[side as usize];
            let prefix = once.fabric.prefix(side, counters);
            [prefix, self.place(side), self.filled(own, once)].concat()
        };
        let patience = END_TIMEOUT + Duration::from_secs_f64(self.seconds.0 * 20.0);
        let mut server = None;
        if !self.server.is_empty() {
            let started = Tool::start(&words(Side::Server, &self.server))?;
            let server = server.insert(started);
            if self.server.iter().any(|word| word.contains("{port}")) {
                wait_until_listening(server, once.port, self.listens)?;
            }
        }
        let client = Tool::start(&words(Side::Client, &self.client))?;
        let text = client.finish(patience).map_err(|error| {
            let words = server.as_mut().map_or_else(String::new, Tool::last_words);
            Failure::Check(format!("{}: {error}{words}", self.program))
        })?;
        // The server ends by itself if its client did well, and is ended otherwise.
        if let Some(server) = server {
            let _ = server.finish(SERVER_END_TIMEOUT);
        }
        let size_bytes = once.size.parse().ok();
        import::read(&text, None::<Format>, size_bytes).map_err(Failure::Check)
    }

    /// Returns the words that keep a side on its processor.
    fn place(&self, side: Side) -> Vec<String> {
        let cpus = affinity::pair().filter(|_| self.is_pinned);
        let cpu = cpus.map(|(server, client)| match side {
            Side::Server => server,
            Side::Client => client,
        });
        cpu.map_or_else(Vec::new, |cpu| {
            ["taskset", "-c", &cpu.to_string()].map(str::to_owned).into()
        })
    }
}

/// One run of both sides.
struct Once<'a> {
    fabric: &'a Fabric,
    size: &'a str,
    iterations: u64,
    /// The files for the counters of the server's and of the client's device.
    counters: [&'a Path; 2],
    port: u16,
}

/// Returns the libfabric provider of a fabric; empty for other fabrics.
fn provider(fabric: &Fabric) -> &str {
    match &fabric.fabric {
        FabricName::Libfabric(provider) => provider,
        _ => "",
    }
}

/// Returns a word as it is shown: braces are placeholders, which are not quoted for the shell.
fn shown(word: &str) -> String {
    if word.contains('{') { word.to_owned() } else { report::shell_word(word) }
}

/// Finds a port on which nobody listens now, be it of TCP or of UDP.
fn free_port() -> Result<u16, Failure> {
    let free = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).map(|_| port)
    };
    let found = free().or_else(|_| free());
    found.map_err(|e: io::Error| Failure::Check(format!("no free port: {}", plain(&e))))
}

/// Waits until a server listens on `port`. Many tools take a single connection, which a trial would
/// use up.
fn wait_until_listening(server: &mut Tool, port: u16, listens: Listens) -> Result<(), Failure> {
    let tables = match listens {
        Listens::Tcp => TCP_TABLES,
        Listens::Udp => UDP_TABLES,
    };
    let deadline = Instant::now() + LISTEN_TIMEOUT;
    loop {
        interrupt::check()?;
        if tables.iter().any(|(table, state)| is_in(table, port, state)) {
            return Ok(());
        }
        if server.has_ended() || Instant::now() >= deadline {
            let words = server.last_words();
            return Err(Failure::Check(format!("the server does not listen on {port}{words}")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Tables of the kernel's sockets, and the state of a socket that waits for others (proc(5)).
type SocketTables = [(&'static str, &'static str); 2];
const TCP_TABLES: SocketTables = [("/proc/net/tcp", "0A"), ("/proc/net/tcp6", "0A")];
const UDP_TABLES: SocketTables = [("/proc/net/udp", "07"), ("/proc/net/udp6", "07")];

/// Returns whether a socket of this table is on `port` and in this state.
fn is_in(table: &str, port: u16, state: &str) -> bool {
    let text = std::fs::read_to_string(table).unwrap_or_default();
    let port = format!(":{port:04X}");
    text.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_ours = words.next().is_some_and(|local| local.ends_with(&port));
        is_ours && words.nth(1) == Some(state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_port_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("bound").port();
        let [(table, state), _] = TCP_TABLES;
        assert!(is_in(table, port, state));
        drop(listener);
        assert!(!is_in(table, port, state));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
        let port = socket.local_addr().expect("bound").port();
        let [(table, state), _] = UDP_TABLES;
        assert!(is_in(table, port, state));
        drop(socket);
        assert!(!is_in(table, port, state));
    }
}
