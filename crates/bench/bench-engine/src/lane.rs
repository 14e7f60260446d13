//! The measuring threads.
//!
//! Each thread opens its endpoints itself, since an endpoint of libfabric belongs to one thread,
//! and does what its counterpart on the other side does at the same time. The thread that owns the
//! control connection only carries messages for the others: it sleeps while they measure.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use bench_record::FabricRecord;
use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;
use bench_record::spec::{Arrivals, EndpointKind, Flow, JobSpec, PointSpec};
use fabric::OutOfBand;

use crate::affinity::Pinned;
use crate::backend::libfabric::Libfabric;
use crate::backend::sockets::{Tcp, Udp};
use crate::backend::verbs::Verbs;
use crate::backend::{Backend, Lengths, Opener, Wants};
use crate::bench::{Measured, latency};
use crate::exchange::Signals;
use crate::link::Link;
use crate::live::Watcher;
use crate::measure::Random;
use crate::refusal::Refusal;
use crate::timeline::{Course, Recorder};
use crate::workload::{Functions, Workload, process_cpu_ns};

/// The time between two polls of a thread that has nothing to measure: its peer may need its
/// progress.
const IDLE_PAUSE: Duration = Duration::from_micros(50);
/// The length of a cache line in bytes; slots are whole cache lines.
const LINE_BYTES: usize = 64;
/// The most memory for one endpoint in bytes; more is a mistake.
const MEMORY_BYTES_MAX: usize = 1 << 44;

/// The side of a measurement that this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The side that starts points and reports them.
    Client,
    /// The side that answers and receives.
    Server,
}

/// A command to a lane.
#[derive(Debug)]
pub(crate) enum Command {
    /// The bytes that the counterpart sent in the exchange.
    Answer(Vec<u8>),
    /// The counterpart has reached the barrier.
    Go,
    /// Measure this point.
    Measure(PointSpec),
    /// The number of messages that the counterpart has sent in all.
    Sent(u64),
}

/// A report of a lane.
#[derive(Debug)]
pub(crate) enum Report {
    /// The endpoints are opened; nothing was sent to the peer yet.
    Prepared(Box<FabricRecord>),
    /// The bytes that the counterpart is to be told.
    Exchange(Vec<u8>),
    /// The lane waits for its counterpart at a barrier.
    Barrier,
    /// The lane is connected to the next peer.
    Linked,
    /// The lane is connected to all peers and warm.
    Ready(Opened),
    /// The lane is ready for messages of the point.
    Begun,
    /// The measured window of a receiver is over.
    WindowClosed,
    /// The course of the window.
    Course(Course),
    /// The point is done, with the result.
    Measured(Measured),
    /// The lane has failed and reports nothing more.
    Failed(Failure),
}

/// A connected lane.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) tx_depth: usize,
    /// The duration of each phase of the set-up of the first endpoint in µs.
    pub(crate) setup_us: Vec<(String, f64)>,
    /// The time of the first round trip of the first endpoint in µs.
    pub(crate) cold_start_us: f64,
}

/// A lane's connection to the thread that owns the control connection.
pub(crate) struct Port {
    pub(crate) signals: Signals,
    pub(crate) endpoint: EndpointKind,
    pub(crate) flow: Flow,
    pub(crate) arrivals: Arrivals,
    /// The watcher, which gets each part of a window when it is over; `None`: the window is not
    /// watched.
    watcher: Option<Watcher>,
    /// True if events of this lane belong to the course of a point.
    has_course: bool,
    /// True if the processor time of the process can be read: not under valgrind, which counts the
    /// instructions of loops.
    reads_cpu: bool,
    commands: Receiver<Command>,
    reports: Sender<Report>,
}

impl Port {
    /// Sends a report. If the receiver is gone, the next look for a command says so.
    pub(crate) fn report(&self, report: Report) {
        let _ = self.reports.send(report);
    }

    /// Returns the processor time of the process in ns; 0 if it cannot be read.
    pub(crate) fn process_cpu_ns(&self) -> u64 {
        if self.reads_cpu { process_cpu_ns() } else { 0 }
    }

    /// Returns the recorder of the course of a point.
    pub(crate) fn recorder(&self, point: PointSpec) -> Recorder {
        if self.has_course {
            Recorder::new(point, self.watcher.clone(), self.reports.clone())
        } else {
            Recorder::idle()
        }
    }

    /// Returns the number of messages that the counterpart has sent, if it is known by now.
    pub(crate) fn sent(&self) -> Result<Option<u64>, Failure> {
        match self.commands.try_recv() {
            Ok(Command::Sent(count)) => Ok(Some(count)),
            Ok(other) => Err(Failure::unexpected("measuring", "the sender's count", &other)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Failure::closed("measuring")),
        }
    }

    /// Returns true if the windows of both sides are over, in a point in which both send.
    pub(crate) fn may_end(&self) -> Result<bool, Failure> {
        match self.commands.try_recv() {
            Ok(Command::Go) => Ok(true),
            Ok(other) => Err(Failure::unexpected("measuring", "an end", &other)),
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(Failure::closed("measuring")),
        }
    }

    /// Makes a port without a session, which is told one command in advance and whose reports go
    /// nowhere.
    #[cfg(test)]
    pub(crate) fn alone(signals: Signals, job: &JobSpec, command: Command) -> Self {
        let (to_self, commands) = channel();
        let (reports, _) = channel();
        // The channel has room, and its other end is here.
        let _ = to_self.send(command);
        let (endpoint, flow, arrivals) = (job.endpoint, job.flow, job.arrivals);
        let (watcher, has_course, reads_cpu) = (None, true, false);
        Self {
            signals,
            endpoint,
            flow,
            arrivals,
            watcher,
            has_course,
            reads_cpu,
            commands,
            reports,
        }
    }

    fn wait(&self) -> Result<Command, String> {
        self.commands.recv().map_err(|_| "the session ended".to_owned())
    }
}

impl OutOfBand for Port {
    fn exchange(&mut self, ours: &[u8]) -> Result<Vec<u8>, String> {
        self.report(Report::Exchange(ours.to_vec()));
        match self.wait()? {
            Command::Answer(theirs) => Ok(theirs),
            other => Err(format!("expected an answer, got {other:?}")),
        }
    }

    fn barrier(&mut self) -> Result<(), String> {
        self.report(Report::Barrier);
        match self.wait()? {
            Command::Go => Ok(()),
            other => Err(format!("expected a go, got {other:?}")),
        }
    }
}

/// A lane's part of a point: the lane's endpoints, its port, and the point to measure.
pub(crate) struct Part<'a, B> {
    pub(crate) links: &'a mut [Link<B>],
    pub(crate) port: &'a Port,
    pub(crate) point: PointSpec,
}

/// The job of one thread.
pub(crate) struct Task {
    pub(crate) job: Arc<JobSpec>,
    pub(crate) side: Side,
    pub(crate) wants: Wants,
    /// The nodes to which the thread has endpoints, and this side's IP address as each of them sees
    /// it.
    pub(crate) peers: Vec<(usize, Option<String>)>,
    pub(crate) cpu: Option<usize>,
    /// The processors of the NUMA node whose memory is to be used; empty: any.
    pub(crate) near: Vec<usize>,
    /// The number of the first endpoint among those of all threads.
    pub(crate) first_endpoint: u64,
    pub(crate) thread: usize,
    /// The watcher, which gets each part of a window when it is over; `None`: the window is not
    /// watched.
    pub(crate) watcher: Option<Watcher>,
}

impl Task {
    /// Returns the source of random numbers for this lane, which differs from lane to lane and from
    /// node to node.
    pub(crate) fn random(&self) -> Random {
        Random::new(self.job.seed ^ self.first_endpoint ^ (self.job.node as u64) << 32)
    }
}

/// Returns the requirements of a side of a workload.
pub(crate) fn wants<W: Workload>(job: &JobSpec, side: Side, thread: usize) -> Wants {
    let is_client = side == Side::Client;
    let (tx_depth, rx_depth) = W::depths(job, side, thread);
    let quiet = is_client && job.flow.complete_every > 1;
    // Operations that do not complete share one more slot.
    let tx_depth = tx_depth.max(1).saturating_add(usize::from(quiet));
    let lines = job.max_size_bytes.max(1).div_ceil(LINE_BYTES);
    let in_memory = job.memory_bytes / lines.saturating_mul(LINE_BYTES);
    Wants {
        fabric: job.fabric.clone(),
        domain: job.domain.clone(),
        endpoint: job.endpoint,
        operation: job.operation,
        tx_depth,
        tx_slots: if is_client { tx_depth.max(in_memory) } else { tx_depth },
        rx_depth: rx_depth.max(1),
        payload_bytes: W::message_bytes(job, job.max_size_bytes, job.work.parameter_max),
        window_bytes: match job.operation.is_one_sided() {
            true => W::window_bytes(job, side),
            false => 0,
        },
        quiet,
        lists: job.flow.post_list > 1,
        events: job.flow.events,
        source: None,
        opener: Opener::Either,
    }
}

/// Refuses requirements for which no machine has the memory: a client may ask for anything.
pub(crate) fn affordable(wants: &Wants) -> Result<(), Refusal> {
    let slots = wants.tx_slots.saturating_add(wants.rx_depth);
    let slot_bytes = wants.payload_bytes.max(LINE_BYTES);
    let bytes = slots.saturating_mul(slot_bytes).max(wants.window_bytes);
    if bytes > MEMORY_BYTES_MAX {
        let Wants { payload_bytes, .. } = wants;
        return Err(Refusal::TooMuch { messages: slots, payload_bytes: *payload_bytes });
    }
    Ok(())
}

/// Returns the number of receives that a point has on each endpoint: as many as in a session for
/// this point alone, so that the other points of a sweep do not matter.
fn receives<W: Workload>(task: &Task, point: PointSpec) -> usize {
    let PointSpec { depth: tx_depth, rx_depth, .. } = point;
    let job = JobSpec { tx_depth, rx_depth, ..(*task.job).clone() };
    W::depths(&job, task.side, task.thread).1.max(1)
}

/// Opens the endpoints, and connects them peer after peer.
fn connect<B: Backend>(task: &Task, port: &mut Port) -> Result<Vec<Link<B>>, Failure> {
    let mut prepared = Vec::with_capacity(task.peers.len() * task.job.endpoints);
    for (_, source) in &task.peers {
        let wants = Wants { source: source.clone(), ..task.wants.clone() };
        for _ in 0..task.job.endpoints {
            prepared.push(B::prepare(&wants)?);
        }
    }
    let Some(first) = prepared.first() else {
        return Err(Refusal::NoEndpoint.into());
    };
    port.report(Report::Prepared(Box::new(B::describe(first))));
    let mut links = Vec::with_capacity(prepared.len());
    for (endpoint, number) in prepared.into_iter().zip(task.first_endpoint..) {
        links.push(Link::new(B::connect(endpoint, port)?, &task.job, task.side, number)?);
        if links.len() % task.job.endpoints == 0 {
            port.report(Report::Linked);
        }
    }
    Ok(links)
}

/// Sends the first message over each endpoint, in the order of the peers. Returns the time of the
/// very first round trip in µs.
fn warm_up<B: Backend>(task: &Task, links: &mut [Link<B>], port: &Port) -> Result<f64, Failure> {
    let mut first_us = None;
    for ((peer, _), links) in task.peers.iter().zip(links.chunks_mut(task.job.endpoints)) {
        let side = if task.job.node < *peer { Side::Client } else { Side::Server };
        let took_us = latency::cold_start(side, links, port)?;
        first_us.get_or_insert(took_us);
    }
    Ok(first_us.unwrap_or(0.0))
}

fn run<B: Backend, W: Workload>(task: &Task, port: &mut Port) -> Result<(), Failure> {
    // Memory comes from the node of the thread that first writes to it, which is this one. Threads
    // that the fabric starts stay on this node, too.
    let _near = (!task.near.is_empty()).then(|| Pinned::among(&task.near)).transpose()?;
    let mut links = connect::<B>(task, port)?;
    // This thread is pinned only after the fabric has started its threads, which stay free.
    let _pinned = task.cpu.map(Pinned::to).transpose()?;
    let mut lane = W::new(task)?;
    port.barrier().map_err(Failure::Fabric)?;
    let cold_start_us = warm_up(task, &mut links, port)?;
    let Some(first) = links.first() else { return Ok(()) };
    let (tx_depth, setup_us) = (first.backend().tx_depth(), first.backend().setup_us());
    port.report(Report::Ready(Opened { tx_depth, setup_us, cold_start_us }));
    let is_workload = task.job.benchmark.is_workload();
    while let Some(command) = next_command(&mut links, port)? {
        let Command::Measure(point) = command else {
            return Err(Failure::unexpected("waiting for a point", "a point", &command));
        };
        let point = W::own(task, point);
        let equal = Lengths::Equal(point.size_bytes);
        for link in &mut links {
            link.begin(if is_workload { Lengths::Leading } else { equal });
            link.keep_posted(receives::<W>(task, point))?;
            // A repetition of the last message may have come after the point that it ended.
            if port.endpoint == EndpointKind::Dgram {
                link.forget_arrived()?;
            }
        }
        lane.begin(&mut links, point)?;
        port.report(Report::Begun);
        let measured = lane.run(Part { links: &mut links, port, point })?;
        port.report(Report::Measured(measured));
    }
    Ok(())
}

/// Runs a lane on the fabric that is asked for.
pub(crate) fn run_on_fabric<W: Workload>(task: &Task, port: &mut Port) -> Result<(), Failure> {
    match &task.wants.fabric {
        FabricName::Libfabric(_) => run::<Libfabric, W>(task, port),
        FabricName::Verbs(_) => run::<Verbs, W>(task, port),
        FabricName::Tcp => run::<Tcp, W>(task, port),
        FabricName::Udp => run::<Udp, W>(task, port),
        FabricName::Ucx(_) => Err(task.wants.fabric.is_for_mpi()),
        FabricName::Floor(_) => Err(task.wants.fabric.is_a_floor()),
    }
}

/// Polls the endpoints until there is a command; `None` at the end of the session.
fn next_command<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
) -> Result<Option<Command>, Failure> {
    loop {
        match port.commands.recv_timeout(IDLE_PAUSE) {
            Ok(command) => return Ok(Some(command)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
        for link in links.iter_mut() {
            link.poll()?;
        }
    }
}

/// A measuring thread, and this end of its channels.
pub(crate) struct Lane {
    commands: Option<Sender<Command>>,
    reports: Receiver<Report>,
    courses: RefCell<Vec<Course>>,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    pub(crate) fn start(task: Task, signals: Signals) -> Result<Self, Failure> {
        let (commands, from_main) = channel();
        let (to_main, reports) = channel();
        let (endpoint, flow, arrivals) = (task.job.endpoint, task.job.flow, task.job.arrivals);
        let mut port = Port {
            signals,
            endpoint,
            flow,
            arrivals,
            watcher: task.watcher.clone(),
            has_course: (Functions::of(task.job.benchmark).has_course)(task.thread),
            reads_cpu: true,
            commands: from_main,
            reports: to_main,
        };
        let body = move || {
            let ended = (Functions::of(task.job.benchmark).lane)(&task, &mut port);
            if let Err(failure) = ended {
                port.report(Report::Failed(failure));
            }
        };
        let thread = std::thread::Builder::new().name("measure".to_owned()).spawn(body);
        let thread = thread.map_err(|e| Failure::Check(format!("cannot start a thread: {e}")))?;
        let courses = RefCell::default();
        Ok(Self { commands: Some(commands), reports, courses, thread: Some(thread) })
    }

    /// Waits for the next report.
    pub(crate) fn report(&self) -> Result<Report, Failure> {
        loop {
            match self.reports.recv() {
                Ok(Report::Failed(failure)) => return Err(failure),
                Ok(report) => {
                    if let Some(report) = self.keep(report) {
                        return Ok(report);
                    }
                }
                Err(_) => return Err(without_a_word()),
            }
        }
    }

    /// Keeps a report about the course of a window; returns any other report.
    fn keep(&self, report: Report) -> Option<Report> {
        match report {
            Report::Course(course) => {
                self.courses.borrow_mut().push(course);
                None
            }
            other => Some(other),
        }
    }

    /// Returns the course of the last window.
    pub(crate) fn course(&self) -> Option<Course> {
        self.courses.take().pop()
    }

    /// Waits for the next report for at most `time`.
    pub(crate) fn report_within(&self, time: Duration) -> Result<Option<Report>, Failure> {
        match self.reports.recv_timeout(time) {
            Ok(Report::Failed(failure)) => Err(failure),
            Ok(report) => Ok(self.keep(report)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(without_a_word()),
        }
    }

    pub(crate) fn tell(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // A thread that is gone has reported why, which is read next.
            let _ = commands.send(command);
        }
    }

    /// Lets the thread end: no more commands follow.
    pub(crate) fn end(&mut self) {
        self.commands = None;
    }

    /// Waits for the thread to end.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it on standard error.
            let _ = thread.join();
        }
    }
}

fn without_a_word() -> Failure {
    Failure::Check("a measuring thread ended without a word".to_owned())
}
