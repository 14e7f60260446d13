//! `softefa gateway`: the UDP port of RoCEv2 for all programs of this network namespace.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use report::Destination;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use softefa::gateway::{OpenGatewayError, Server};

use crate::args::GatewayArgs;
use crate::eprint::eprint_line;
use crate::failure::Failure;
use crate::supervise::not_ignored;

/// The interval at which the file of counters is written, and the longest one at which signals are
/// checked.
const INTERVAL: Duration = Duration::from_secs(1);

impl From<OpenGatewayError> for Failure {
    fn from(error: OpenGatewayError) -> Self {
        Self::new(error.to_string())
    }
}

/// Serves packets until it is stopped.
///
/// # Errors
/// The port is in use, or the file of counters cannot be written.
pub(crate) fn gateway(args: &GatewayArgs) -> Result<u8, Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in not_ignored(&[SIGINT, SIGTERM, SIGHUP]) {
        signal_hook::flag::register(signal, Arc::clone(&is_over))
            .map_err(|error| Failure::new(format!("signals cannot be caught: {error}")))?;
    }
    take_all_descriptors();
    let mut server = Server::open(&args.addresses, args.port, !args.no_raw)?;
    let file = args.counters.as_deref().map(|file| CountersFile::begin(file, &server));
    let mut file = file.transpose()?;
    greet(&server, args.port);
    let mut written = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        server
            .turn(INTERVAL)
            .map_err(|error| Failure::new(format!("datagrams cannot be waited for: {error}")))?;
        if let Some(file) = file.as_mut().filter(|_| written.elapsed() >= INTERVAL) {
            written = Instant::now();
            file.write(&server);
        }
    }
    if args.stats {
        for (name, value) in server.counts().iter().filter(|(_, value)| *value > 0) {
            eprint_line!("softefa: {name} {value}");
        }
    }
    if let Some(file) = file {
        file.finish(&server);
    }
    Ok(0)
}

/// Each program needs one descriptor, and briefly two. Nothing here uses `select`, which fails for
/// numbers above 1,023.
fn take_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // If that is refused, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Logs what is served, and what is not.
fn greet(server: &Server, port: u16) {
    let addrs: Vec<_> = server.addrs().map(|addr| addr.to_string()).collect();
    eprint_line!("softefa: gateway of UDP port {port} at {}", addrs.join(", "));
    if !server.sees_headers() {
        eprint_line!(
            "softefa: without CAP_NET_RAW the gateway cannot see the identification of IP headers, which the ICRC covers: only packets with identification 0 get in, as Soft-EFA sends them; for rxe and real NICs start it as root or give the permission to a copy, once: 'sudo install softefa softefa-gateway && sudo setcap cap_net_raw+ep softefa-gateway' (programs that a command with permissions of its own starts lose LD_LIBRARY_PATH)"
        );
    }
}

/// Returns the counters, and how much is served.
fn to_json(server: &Server) -> Value {
    let counters: Map<String, Value> =
        server.counts().iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let (programs, sockets) = server.sizes();
    let addresses: Vec<IpAddr> = server.addrs().collect();
    json!({
        "addresses": addresses,
        "sees_ip_headers": server.sees_headers(),
        "programs": programs,
        "sockets": sockets,
        "counters": counters,
    })
}

/// The file of counters, which a thread of its own writes: packets must not wait for the reader of
/// a pipe, nor for a file system.
struct CountersFile {
    name: String,
    texts: SyncSender<String>,
    results: Receiver<io::Result<()>>,
    /// Texts that the thread has not written yet.
    pending: u32,
    has_warned: bool,
}

impl CountersFile {
    /// Writes the file for the first time.
    fn begin(file: &Path, server: &Server) -> Result<Self, Failure> {
        let name = file.display().to_string();
        let (texts, to_write) = mpsc::sync_channel::<String>(1);
        let (tell, results) = mpsc::channel();
        let path = file.to_owned();
        let write = move || {
            let written = to_write.into_iter().map(|text| replace(&path, text.as_bytes()));
            // The gateway is ending, and the result no longer matters.
            written.for_each(|result| drop(tell.send(result)));
        };
        thread::Builder::new()
            .name("softefa-counters".into())
            .spawn(write)
            .map_err(|error| Failure::new(format!("no thread can be started: {error}")))?;
        let mut file = Self { name, texts, results, pending: 0, has_warned: false };
        file.send(server);
        match file.results.recv_timeout(INTERVAL) {
            Ok(Err(error)) => return Err(Failure::new(file.cannot_be_written(&error))),
            Ok(Ok(())) => file.pending -= 1,
            Err(_) => file.warn(&format!("nobody takes the counters for {}", file.name)),
        }
        Ok(file)
    }

    /// Writes the file again, unless the last write has not finished. The programs do not depend on
    /// the file, so a failure is reported once.
    fn write(&mut self, server: &Server) {
        self.collect_results(Duration::ZERO);
        self.send(server);
    }

    /// Writes the file for the last time.
    fn finish(mut self, server: &Server) {
        self.collect_results(Duration::ZERO);
        self.send(server);
        let end = Instant::now() + INTERVAL;
        while self.pending > 0 && Instant::now() < end {
            self.collect_results(end.saturating_duration_since(Instant::now()));
        }
    }

    fn send(&mut self, server: &Server) {
        let text = format!("{}\n", to_json(server));
        self.pending += u32::from(self.texts.try_send(text).is_ok());
    }

    /// Waits at most `timeout` for the result of a write.
    fn collect_results(&mut self, timeout: Duration) {
        if let Ok(result) = self.results.recv_timeout(timeout) {
            self.pending -= 1;
            if let Err(error) = result {
                self.warn(&self.cannot_be_written(&error));
            }
        }
    }

    fn cannot_be_written(&self, error: &io::Error) -> String {
        format!("counters cannot be written to {}: {error}", self.name)
    }

    fn warn(&mut self, line: &str) {
        if !std::mem::replace(&mut self.has_warned, true) {
            eprint_line!("softefa: {line}; the gateway goes on");
        }
    }
}

/// Replaces the file as a whole, so that readers see one moment. Not flushed to the disk, which may
/// take longer than packets can wait.
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let path = match Destination::of(file) {
        Destination::Stream => return report::open_stream(file)?.write_all(text),
        Destination::File(path) => path,
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let written = report::create_new(&beside).and_then(|mut new| new.write_all(text));
    written.and_then(|()| fs::rename(&beside, path)).inspect_err(|_| {
        // The file may not exist.
        let _ = fs::remove_file(&beside);
    })
}
