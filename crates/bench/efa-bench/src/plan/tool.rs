//! Steps that run another program: its output is read as `efa-bench import` reads it.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use bench_engine::interrupt;
use bench_record::Run;
use bench_record::failure::{Failure, plain};
use bench_report::import::{self, Format};
use toml::de::DeTable;

use super::fabric::{Fabric, Side};
use super::source::Reader;
use crate::child::Tool;
use crate::softefa_device::in_path;

/// A tool step as it is written.
#[derive(Debug, Clone)]
pub(super) struct ToolSource {
    /// The program whose presence decides.
    pub(super) program: String,
    /// The package that brings it.
    pub(super) package: String,
    /// What reports call its figures.
    name: String,
    /// Command lines; the server's may be empty. `{size}`, `{iterations}`, `{host}` and `{port}`
    /// are filled in.
    server: Vec<String>,
    client: Vec<String>,
    sizes: Vec<String>,
    iterations: u64,
    /// How long one size takes.
    seconds: f64,
}

const KEYS: [&str; 10] = [
    "tool",
    "package",
    "name",
    "server",
    "client",
    "sizes",
    "iterations",
    "seconds",
    "fabrics",
    "figures",
];
/// Fewer are no measurement.
const ITERATIONS_MIN: u64 = 100;
/// Start and end of two processes.
const START_S: f64 = 1.0;
/// How long a server may take to listen, and a pair beyond its time to end.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);
const END_TIMEOUT: Duration = Duration::from_secs(60);
const SERVER_END_TIMEOUT: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Reads a step with the key `tool`.
pub(super) fn read(
    reader: &Reader<'_>,
    span: &Range<usize>,
    table: &DeTable<'_>,
) -> Result<ToolSource, Failure> {
    reader.known(table, &KEYS)?;
    let text = |key: &str| {
        let text = reader.text_at(table, key)?;
        text.ok_or_else(|| reader.wrong(span, &format!("a tool step needs `{key} = \"...\"`")))
    };
    let number = |key: &str| {
        let words = reader.words_at(table, key)?;
        let number = words.first().and_then(|word| word.parse::<f64>().ok());
        let number = number.filter(|n| words.len() == 1 && *n > 0.0 && *n <= 1e9);
        let what = format!("a tool step needs `{key}` with a number above 0");
        number.ok_or_else(|| reader.wrong(span, &what))
    };
    let split = |text: String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let sizes = reader.words_at(table, "sizes")?;
    let (program, client) = (text("tool")?, split(text("client")?));
    if client.is_empty() {
        return Err(reader.wrong(span, "client: write a command line"));
    }
    Ok(ToolSource {
        package: text("package")?,
        name: text("name")?,
        server: split(reader.text_at(table, "server")?.unwrap_or_default()),
        client,
        sizes: if sizes.is_empty() { vec![String::new()] } else { sizes },
        iterations: number("iterations")? as u64,
        seconds: number("seconds")?,
        program,
    })
}

impl ToolSource {
    pub(super) fn sizes(&self) -> &[String] {
        &self.sizes
    }

    /// Makes it shorter or longer.
    pub(super) fn scaled(mut self, scale: f64) -> Self {
        self.iterations = ((self.iterations as f64 * scale) as u64).max(ITERATIONS_MIN);
        self.seconds *= scale;
        self
    }

    pub(super) fn estimate_s(&self) -> f64 {
        (self.seconds + START_S) * self.sizes.len() as f64
    }

    /// Why it cannot run here, and what to do.
    pub(super) fn missing(&self) -> Option<String> {
        in_path(&self.program).is_none().then(|| {
            format!("{} is not installed: apt-get install {} brings it", self.program, self.package)
        })
    }

    /// The client's command line as people would type it, without what is known when it runs.
    pub(super) fn command(&self, fabric: &Fabric) -> String {
        let side = |words: &[String]| {
            let mut all = fabric.short_prefix();
            all.extend(words.iter().cloned());
            all.iter().map(|w| shown(w)).collect::<Vec<_>>().join(" ")
        };
        let client = side(&self.client).replace("{iterations}", &self.iterations.to_string());
        if self.server.is_empty() {
            return client;
        }
        let server = side(&self.server).replace("{iterations}", &self.iterations.to_string());
        format!("{server} & {client}")
    }

    fn filled(&self, words: &[String], size: &str, port: u16) -> Vec<String> {
        let fill = |word: &String| {
            word.replace("{size}", size)
                .replace("{iterations}", &self.iterations.to_string())
                .replace("{host}", &Ipv4Addr::LOCALHOST.to_string())
                .replace("{port}", &port.to_string())
        };
        words.iter().map(fill).collect()
    }

    /// Runs it with one size.
    pub(super) fn run(
        &self,
        fabric: &Fabric,
        size: &str,
        counters: [&Path; 2],
    ) -> Result<Run, Failure> {
        let port = free_port()?;
        let words = |side, own: &[String], counters| {
            [fabric.prefix(side, counters), self.filled(own, size, port)].concat()
        };
        let patience = END_TIMEOUT + Duration::from_secs_f64(self.seconds * 20.0);
        let mut server = None;
        if !self.server.is_empty() {
            let started = Tool::start(&words(Side::Server, &self.server, counters[0]))?;
            let server = server.insert(started);
            if self.server.iter().any(|word| word.contains("{port}")) {
                wait_until_listening(server, port)?;
            }
        }
        let client = Tool::start(&words(Side::Client, &self.client, counters[1]))?;
        let text = client.finish(patience).map_err(|error| {
            let words = server.as_mut().map_or_else(String::new, Tool::last_words);
            Failure::Check(format!("{}: {error}{words}", self.program))
        })?;
        // It ends by itself where its client did well, and is ended where not.
        if let Some(server) = server {
            let _ = server.finish(SERVER_END_TIMEOUT);
        }
        let size_bytes = size.parse().ok();
        let mut run = import::read(&text, None::<Format>, size_bytes).map_err(Failure::Check)?;
        run.name.clone_from(&self.name);
        run.command = self.command(fabric).replace("{size}", size);
        Ok(run)
    }
}

/// Braces are for us, not for the shell.
fn shown(word: &str) -> String {
    if word.contains('{') { word.to_owned() } else { report::shell_word(word) }
}

/// A port that nobody listens on now.
fn free_port() -> Result<u16, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let port = listener.and_then(|listener| listener.local_addr()).map(|address| address.port());
    port.map_err(|e| Failure::Check(format!("no free port: {}", plain(&e))))
}

/// Many tools take one connection: to try one would be to use it.
fn wait_until_listening(server: &mut Tool, port: u16) -> Result<(), Failure> {
    let deadline = Instant::now() + LISTEN_TIMEOUT;
    loop {
        interrupt::check()?;
        if listens("/proc/net/tcp", port) || listens("/proc/net/tcp6", port) {
            return Ok(());
        }
        if server.has_ended() || Instant::now() >= deadline {
            let words = server.last_words();
            return Err(Failure::Check(format!("the server does not listen on {port}{words}")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Whether a socket of this table of the kernel listens on `port` (state 0A of proc(5)).
fn listens(table: &str, port: u16) -> bool {
    let text = std::fs::read_to_string(table).unwrap_or_default();
    let port = format!(":{port:04X}");
    text.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_ours = words.next().is_some_and(|local| local.ends_with(&port));
        is_ours && words.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_port_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("bound").port();
        assert!(listens("/proc/net/tcp", port));
        drop(listener);
        assert!(!listens("/proc/net/tcp", port));
    }
}
