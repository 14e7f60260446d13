//! The server, which waits for clients, serves one session after the other, and survives failures
//! of sessions.

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench_record::failure::{Failure, plain};
use bench_record::spec::{JobSpec, PointSpec};
use bench_record::topology::NODES_MAX;

use crate::bench::Measured;
use crate::counters::Source;
use crate::exchange::{Control, Message, Signals, WhenIdle};
use crate::interrupt;
use crate::lane::{Command, Side};
use crate::lanes::Lanes;
use crate::refusal::Refusal;
use crate::workload::Functions;

/// The time that a client may take to introduce itself.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that a client which has introduced itself may take to open its fabric.
const JOB_TIMEOUT: Duration = Duration::from_secs(30);
/// The time between two messages to a client that waits for work that is still under way.
pub(crate) const WORD_EVERY: Duration = Duration::from_millis(200);
/// The most threads or endpoints of a session; more are a mistake, not a measurement.
const ENDPOINTS_MAX: usize = 4096;

/// The options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address to listen at.
    pub bind: IpAddr,
    /// The port; 0: any.
    pub port: u16,
    /// The number of sessions after which the server ends; 0: it never ends.
    pub sessions: u64,
    /// True if the server ends when standard input is closed, so that it does not outlive the
    /// command that started it.
    pub until_stdin_closes: bool,
    /// True if the server prints nothing about sessions.
    pub quiet: bool,
}

/// The start of the first line on standard output; the port follows at its end.
pub const READY: &str = "efa-bench server: listening on ";

/// Serves clients until it is told to end.
pub fn run(options: &ServerOptions) -> Result<(), Failure> {
    let server = Server::bind(SocketAddr::new(options.bind, options.port))?;
    // A server whose address cannot be printed still serves clients that know its port.
    if let Err(error) = report::print(&format!("{READY}{}\n", server.address)) {
        let reason = plain(&error);
        report::say(format_args!("efa-bench server: cannot say that it listens: {reason}"));
    }
    if options.until_stdin_closes {
        let stopper = server.stopper();
        std::thread::spawn(move || end_with_stdin(&stopper));
    }
    server.serve(options.sessions, options.quiet);
    Ok(())
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    ended: Arc<AtomicBool>,
}

/// A handle that ends a server from another thread. If that thread ended the process, the
/// destructors of C libraries would run while the serving thread uses them.
pub struct Stopper {
    ended: Arc<AtomicBool>,
    address: SocketAddr,
}

impl Stopper {
    /// Makes the server end after the session that it may be in.
    pub fn stop(&self) {
        self.ended.store(true, Ordering::Release);
        // The server waits for a connection. If none can be made, the server is gone or busy with a
        // session, after which it sees that it should end.
        let _ = TcpStream::connect(self.address);
    }
}

impl Server {
    /// Listens at `address`.
    pub fn bind(address: SocketAddr) -> Result<Self, Failure> {
        let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => Failure::PortInUse(address),
            _ => Failure::Usage(format!("cannot listen on {address}: {}", plain(&error))),
        })?;
        let address = listener.local_addr().unwrap_or(address);
        Ok(Self { listener, address, ended: Arc::new(AtomicBool::new(false)) })
    }

    /// The port that the server listens at.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the handle that ends the server from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { ended: Arc::clone(&self.ended), address: self.address }
    }

    /// Serves one client after the other until the server is stopped or has served `sessions_max`
    /// (0: any number). Prints a line for each session unless `quiet`.
    pub fn serve(&self, sessions_max: u64, quiet: bool) {
        let mut sessions = 0_u64;
        loop {
            let (stream, client) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    report::say(format_args!(
                        "efa-bench server: cannot accept a client: {}",
                        plain(&error)
                    ));
                    continue;
                }
            };
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            let control = Control::accept(stream, GREETING_TIMEOUT);
            // A stranger or another version costs one line, not a session.
            let outcome = match control {
                Err(error) => Err(error),
                Ok(control) => {
                    sessions += 1;
                    session(control)
                }
            };
            match outcome {
                Err(error) => report::say(format_args!("efa-bench server: {client}: {error}")),
                Ok(done) if !quiet => {
                    report::say(format_args!("efa-bench server: {client}: {done}"));
                }
                Ok(_) => {}
            }
            if sessions_max != 0 && sessions >= sessions_max {
                return;
            }
        }
    }
}

/// Waits for the end of standard input, then stops the server; ends the process if the session does
/// not end.
fn end_with_stdin(stopper: &Stopper) {
    let mut byte = [0_u8; 64];
    let mut stdin = std::io::stdin();
    while stdin.read(&mut byte).is_ok_and(|n| n > 0) {}
    stopper.stop();
    // A peer that was killed while it held a lock that it shared with this process (libfabric's
    // shm) never releases it.
    std::thread::sleep(interrupt::GRACE);
    interrupt::end_now();
}

/// Serves one client; tells it if the session fails.
fn session(mut control: Control) -> Result<String, Failure> {
    let mut lanes = None;
    let outcome = serve(&mut control, &mut lanes);
    if let Err(error) = &outcome {
        // The client is told before the endpoints are closed, which the others notice.
        control.fail(error);
    }
    outcome
}

fn serve(control: &mut Control, place: &mut Option<Lanes>) -> Result<String, Failure> {
    control.set_timeout(JOB_TIMEOUT);
    let job = match control.receive("waiting for a job")? {
        Message::Job(job) => job,
        other => return Err(unexpected("a job", &other)),
    };
    let timeout = Duration::from_millis(job.timeout_ms);
    check(&job)?;
    let job: Arc<JobSpec> = Arc::from(job);
    let signals = Signals::of([&*control], timeout, WhenIdle::of(&job))?;
    let (peers, ours) = (job.peers().len(), control.local_ip());
    let sources = vec![ours; peers];
    let (lanes, fabric) = Lanes::open(
        &job,
        Side::Server,
        signals,
        &sources,
        &job.server_cpus,
        job.server_numa,
        None,
    )?;
    let lanes = place.insert(lanes);
    let source = Source::of(&job.fabric, &fabric.domain);
    control.send(&Message::Fabric(Box::new(fabric)))?;
    // Other pairs of nodes may be connected before it is this one's turn.
    let pairs = job.benchmark.topology().pairs(job.nodes).len();
    control.set_timeout(timeout.saturating_mul(u32::try_from(pairs).unwrap_or(u32::MAX)));
    for _ in 0..peers {
        lanes.link(control)?;
        control.send(&Message::Ready)?;
    }
    control.set_timeout(timeout);
    lanes.warm_up(|| control.barrier())?;
    control.send(&Message::Ready)?;
    let mut points = 0_u32;
    loop {
        match control.receive("waiting for the next point")? {
            Message::Bye => {
                return Ok(format!("{} on {}, {points} points", job.benchmark.name(), job.fabric));
            }
            Message::Point(point) => {
                serve_point(&job, lanes, control, point)?;
                points += 1;
            }
            Message::ReadCounters => {
                control.send(&Message::Counters(source.as_ref().map(Source::snapshot)))?;
            }
            // The threads have seen the message: the client is warm.
            Message::Working => {}
            other => return Err(unexpected("a point", &other)),
        }
    }
}

/// Refuses jobs that no client of this program asks for.
fn check(job: &JobSpec) -> Result<(), Failure> {
    let JobSpec { nodes, node, threads, endpoints, .. } = *job;
    if node == 0 || node >= nodes || nodes > NODES_MAX {
        return Err(Refusal::Nodes { node, nodes, most: NODES_MAX }.into());
    }
    let in_all = threads.saturating_mul(endpoints).saturating_mul(job.peers().len());
    if in_all == 0 || in_all > ENDPOINTS_MAX {
        return Err(Refusal::Endpoints { threads, endpoints, most: ENDPOINTS_MAX }.into());
    }
    Ok(())
}

fn serve_point(
    job: &JobSpec,
    lanes: &Lanes,
    control: &mut Control,
    point: PointSpec,
) -> Result<(), Failure> {
    let functions = Functions::of(job.benchmark);
    check_point(job, functions.least_bytes, point)?;
    lanes.begin(point)?;
    control.send(&Message::Barrier)?;
    (functions.serve)(lanes, control)
}

/// Refuses a point that needs more than the job has opened: memory is allocated for the numbers in
/// the point.
fn check_point(job: &JobSpec, least_bytes: usize, point: PointSpec) -> Result<(), Refusal> {
    let PointSpec { size_bytes, depth, rx_depth, parameter, .. } = point;
    if size_bytes < least_bytes || size_bytes > job.max_size_bytes {
        return Err(Refusal::Size(size_bytes));
    }
    if parameter > job.work.parameter_max {
        return Err(Refusal::Parameter(parameter));
    }
    if depth > job.tx_depth || rx_depth > job.tx_depth.max(job.rx_depth) {
        return Err(Refusal::Depth { depth, receives: rx_depth });
    }
    Ok(())
}

/// Tells the threads from `first` on how much their counterparts have sent, and the client how much
/// has arrived.
pub(crate) fn count_stream(
    lanes: &Lanes,
    control: &mut Control,
    first: usize,
) -> Result<(), Failure> {
    let sent = loop {
        // A failed thread is noticed here, whose failure says more than that of a waiting client.
        let doing = "waiting for the sender's count";
        match control.receive_while(doing, WORD_EVERY, || lanes.check())? {
            Message::Sent(sent) if sent.len() == lanes.len() => break sent,
            Message::Working => {}
            other => return Err(unexpected("a count for each thread", &other)),
        }
    };
    lanes.tell_from(first, |index| Command::Sent(sent[index]));
    // Much may be buffered, so that the waiting client is told that work goes on.
    let results = lanes.results_with(first, WORD_EVERY, || control.send(&Message::Working))?;
    let counts = results.into_iter().filter_map(|measured| match measured {
        Measured::Received(count) => Some(count),
        _ => None,
    });
    control.send(&Message::Received(counts.collect()))
}

pub(crate) fn unexpected(wanted: &str, got: &Message) -> Failure {
    Failure::unexpected("talking to the client", wanted, got)
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Limit;

    use super::*;
    use crate::stream_job::stream_job;

    /// A depth of 2^40 must not make the server allocate as many slots.
    #[test]
    fn a_point_beyond_its_job_is_refused() {
        let job = stream_job(16);
        let point = PointSpec::new(64, 16, Limit::Iterations(1));
        assert!(check_point(&job, 1, point).is_ok());
        for beyond in [
            PointSpec { size_bytes: 65, ..point },
            PointSpec { size_bytes: 0, ..point },
            PointSpec { depth: 17, ..point },
            PointSpec { depth: 1 << 40, ..point },
            PointSpec { rx_depth: 17, ..point },
            PointSpec { parameter: 1, ..point },
        ] {
            let refusal = check_point(&job, 1, beyond).unwrap_err().to_string();
            assert!(refusal.contains("was not agreed"), "{refusal}");
        }
    }
}
