//! Measuring threads.
//!
//! Each opens its own endpoints, since those of libfabric belong to one thread, and does what its
//! counterpart on the other side does at the same time. The thread that owns the control connection
//! only speaks for them: it sleeps while they measure.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fabric::OutOfBand;

use crate::affinity::Pinned;
use crate::backend::libfabric::Libfabric;
use crate::backend::sockets::{Tcp, Udp};
use crate::backend::verbs::Verbs;
use crate::backend::{Backend, Wants};
use crate::bench::{self, Measured, latency};
use crate::exchange::{Control, Signals};
use crate::fabric_name::FabricName;
use crate::failure::Failure;
use crate::link::Link;
use crate::record::FabricRecord;
use crate::spec::{Arrivals, Benchmark, EndpointKind, Flow, JobSpec, PointSpec};
use crate::workload::Place;

/// Between two polls of a thread that has nothing to measure: its peer may need its progress.
const IDLE_PAUSE: Duration = Duration::from_micros(50);

/// Which side of a measurement this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Starts and reports.
    Client,
    /// Answers and receives.
    Server,
}

/// What a lane is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// What the counterpart said in the exchange.
    Answer(Vec<u8>),
    /// The counterpart has reached the barrier.
    Go,
    /// Measure this.
    Measure(PointSpec),
    /// The counterpart has sent this many messages in all.
    Sent(u64),
}

/// What a lane reports.
#[derive(Debug)]
pub(crate) enum Report {
    /// Opened; nothing said to the peer yet.
    Prepared(Box<FabricRecord>),
    /// To be told to the counterpart.
    Exchange(Vec<u8>),
    /// Waits for the counterpart.
    Barrier,
    /// Connected and warm.
    Ready(Opened),
    /// Messages of the point may come.
    Begun,
    /// The measured window of a receiver is over.
    WindowClosed,
    /// A point is done.
    Measured(Measured),
    /// No further report comes.
    Failed(Failure),
}

/// A connected lane.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) tx_depth: usize,
    /// Phases of the set-up of the first endpoint in µs.
    pub(crate) setup_us: Vec<(String, f64)>,
    /// First round trip of the first endpoint in µs.
    pub(crate) cold_start_us: f64,
}

/// A lane's line to the thread that owns the control connection.
pub(crate) struct Port {
    pub(crate) signals: Signals,
    pub(crate) endpoint: EndpointKind,
    pub(crate) flow: Flow,
    pub(crate) arrivals: Arrivals,
    pub(crate) seed: u64,
    commands: Receiver<Command>,
    reports: Sender<Report>,
}

impl Port {
    /// Nobody may listen any more; then the next look for a command says so.
    pub(crate) fn report(&self, report: Report) {
        let _ = self.reports.send(report);
    }

    /// The counterpart's number of messages, if it is known by now.
    pub(crate) fn sent(&self) -> Result<Option<u64>, Failure> {
        match self.commands.try_recv() {
            Ok(Command::Sent(count)) => Ok(Some(count)),
            Ok(other) => Err(Failure::unexpected("measuring", "the sender's count", &other)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Failure::closed("measuring")),
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

/// A job as one thread sees it.
struct Task {
    job: Arc<JobSpec>,
    side: Side,
    wants: Wants,
    cpu: Option<usize>,
    /// Number of the first endpoint among those of all threads.
    first_endpoint: u64,
    thread: usize,
}

impl Task {
    /// This thread's view of a point.
    fn own(&self, point: PointSpec) -> PointSpec {
        match (self.job.benchmark, self.thread) {
            (Benchmark::SatLatency, 0) => PointSpec { rate_per_s: 0, ..point },
            (Benchmark::SatLatency, _) => {
                PointSpec { size_bytes: self.job.load_size_bytes, validate: false, ..point }
            }
            _ => point,
        }
    }
}

fn run<B: Backend>(task: &Task, port: &mut Port) -> Result<(), Failure> {
    let mut prepared = Vec::with_capacity(task.job.endpoints);
    for _ in 0..task.job.endpoints {
        prepared.push(B::prepare(&task.wants)?);
    }
    let Some(first) = prepared.first() else {
        return Err(Failure::Usage("a session of no endpoint was asked for".to_owned()));
    };
    port.report(Report::Prepared(Box::new(B::describe(first))));
    let mut links = Vec::with_capacity(prepared.len());
    for (endpoint, number) in prepared.into_iter().zip(task.first_endpoint..) {
        links.push(Link::new(B::connect(endpoint, port)?, &task.job, task.side, number)?);
    }
    // Only after the fabric has started threads of its own, which stay free.
    let _pinned = task.cpu.map(Pinned::to).transpose()?;
    let mut place = Place::new(&task.job, task.side, task.first_endpoint)?;
    port.barrier().map_err(Failure::Fabric)?;
    let cold_start_us = latency::cold_start(task.side, &mut links, port)?;
    let Some(first) = links.first() else { return Ok(()) };
    let (tx_depth, setup_us) = (first.backend().tx_depth(), first.backend().setup_us());
    port.report(Report::Ready(Opened { tx_depth, setup_us, cold_start_us }));
    let benchmark = task.job.benchmark.part(task.thread);
    while let Some(command) = next_command(&mut links, port)? {
        let Command::Measure(point) = command else {
            return Err(Failure::unexpected("waiting for a point", "a point", &command));
        };
        let point = task.own(point);
        for link in &mut links {
            link.begin(bench::lengths(benchmark, point));
        }
        place.begin(&mut links, point)?;
        port.report(Report::Begun);
        let measured = bench::run(benchmark, task.side, &mut links, port, point, &mut place)?;
        port.report(Report::Measured(measured));
    }
    Ok(())
}

/// Keeps the endpoints moving until there is a command; `None` at the end of the session.
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

/// A thread and our end of its line.
struct Lane {
    commands: Option<Sender<Command>>,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    fn start(task: Task, signals: Signals) -> Result<Self, Failure> {
        let (commands, from_main) = channel();
        let (to_main, reports) = channel();
        let (endpoint, flow) = (task.job.endpoint, task.job.flow);
        let (arrivals, seed) = (task.job.arrivals, task.job.seed ^ task.first_endpoint);
        let mut port =
            Port { signals, endpoint, flow, arrivals, seed, commands: from_main, reports: to_main };
        let body = move || {
            let ended = match &task.wants.fabric {
                FabricName::Libfabric(_) => run::<Libfabric>(&task, &mut port),
                FabricName::Verbs(_) => run::<Verbs>(&task, &mut port),
                FabricName::Tcp => run::<Tcp>(&task, &mut port),
                FabricName::Udp => run::<Udp>(&task, &mut port),
            };
            if let Err(failure) = ended {
                port.report(Report::Failed(failure));
            }
        };
        let thread = std::thread::Builder::new().name("measure".to_owned()).spawn(body);
        let thread = thread.map_err(|e| Failure::Check(format!("cannot start a thread: {e}")))?;
        Ok(Self { commands: Some(commands), reports, thread: Some(thread) })
    }

    fn report(&self) -> Result<Report, Failure> {
        match self.reports.recv() {
            Ok(Report::Failed(failure)) => Err(failure),
            Ok(report) => Ok(report),
            Err(_) => Err(Failure::Check("a measuring thread ended without a word".to_owned())),
        }
    }

    fn tell(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // A thread that is gone has reported why, which is read next.
            let _ = commands.send(command);
        }
    }
}

/// All measuring threads of one side of a session. Dropping them ends them and waits for it, so that
/// no library is unloaded under their feet.
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    signals: Signals,
}

impl Lanes {
    /// Starts the threads and lets them open their endpoints; answers the fabric they found.
    /// `cpus`: where they run, in turn; empty: anywhere.
    pub(crate) fn open(
        job: &Arc<JobSpec>,
        side: Side,
        control: &Control,
        cpus: &[usize],
    ) -> Result<(Self, FabricRecord), Failure> {
        let mut this = Self { lanes: Vec::new(), signals: control.signals()? };
        for index in 0..job.threads {
            let task = Task {
                job: Arc::clone(job),
                side,
                wants: bench::wants(job, side, index, control.local_ip()),
                first_endpoint: (index * job.endpoints) as u64,
                thread: index,
                cpu: (!cpus.is_empty()).then(|| cpus[index % cpus.len()]),
            };
            this.lanes.push(Lane::start(task, this.signals.clone())?);
        }
        let mut fabric = None;
        for lane in &this.lanes {
            match lane.report()? {
                Report::Prepared(record) => fabric = Some(record),
                other => return Err(Failure::unexpected("opening", "a fabric", &other)),
            }
        }
        let fabric = fabric.ok_or_else(|| {
            Failure::Usage("a session of no thread was asked for: give 1 or more".to_owned())
        })?;
        Ok((this, *fabric))
    }

    /// Speaks for the threads until all are connected; answers what the first one says.
    pub(crate) fn connect(&self, control: &mut Control) -> Result<Opened, Failure> {
        loop {
            let mut words = Vec::new();
            let mut waiting = 0;
            let mut opened = Vec::new();
            for lane in &self.lanes {
                match lane.report()? {
                    Report::Exchange(ours) => words.push(ours),
                    Report::Barrier => waiting += 1,
                    Report::Ready(lane) => opened.push(lane),
                    other => return Err(Failure::unexpected("connecting", "an address", &other)),
                }
            }
            // All threads take the same steps.
            if words.len() == self.lanes.len() {
                let answers = control.exchange(words)?;
                for (lane, theirs) in self.lanes.iter().zip(answers) {
                    lane.tell(Command::Answer(theirs));
                }
            } else if waiting == self.lanes.len() {
                control.barrier()?;
                self.tell_from(0, |_| Command::Go);
            } else {
                let first = opened.into_iter().next();
                return first.ok_or_else(|| Failure::Check("threads out of step".to_owned()));
            }
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Tells each lane from `first` on, by its number.
    pub(crate) fn tell_from(&self, first: usize, mut command: impl FnMut(usize) -> Command) {
        for (index, lane) in self.lanes.iter().enumerate().skip(first) {
            lane.tell(command(index));
        }
    }

    /// Starts a point; returns when every lane is ready for its messages.
    pub(crate) fn begin(&self, point: PointSpec) -> Result<(), Failure> {
        self.tell_from(0, |_| Command::Measure(point));
        self.expect("beginning", 0, |report| matches!(report, Report::Begun))
    }

    /// Returns when the window of every lane is over, of those from `first` on.
    pub(crate) fn windows_closed(&self, first: usize) -> Result<(), Failure> {
        self.expect("measuring", first, |report| matches!(report, Report::WindowClosed))
    }

    fn expect(&self, doing: &str, first: usize, is_it: fn(&Report) -> bool) -> Result<(), Failure> {
        for lane in self.lanes.iter().skip(first) {
            let report = lane.report()?;
            if !is_it(&report) {
                return Err(Failure::unexpected(doing, "another report", &report));
            }
        }
        Ok(())
    }

    /// The result of each of the first `count` lanes.
    pub(crate) fn first_results(&self, count: usize) -> Result<Vec<Measured>, Failure> {
        let result = |lane: &Lane| match lane.report()? {
            Report::Measured(measured) => Ok(measured),
            other => Err(Failure::unexpected("measuring", "a result", &other)),
        };
        self.lanes.iter().take(count).map(result).collect()
    }

    /// The result of each lane.
    pub(crate) fn results(&self) -> Result<Vec<Measured>, Failure> {
        self.first_results(self.lanes.len())
    }

    /// The result of each lane from `first` on; `waiting` is called now and then meanwhile.
    pub(crate) fn results_with(
        &self,
        first: usize,
        every: Duration,
        mut waiting: impl FnMut() -> Result<(), Failure>,
    ) -> Result<Vec<Measured>, Failure> {
        let mut results = Vec::with_capacity(self.lanes.len());
        for lane in self.lanes.iter().skip(first) {
            loop {
                match lane.reports.recv_timeout(every) {
                    Err(RecvTimeoutError::Timeout) => waiting()?,
                    Ok(Report::Measured(measured)) => break results.push(measured),
                    Ok(Report::Failed(failure)) => return Err(failure),
                    other => {
                        return Err(Failure::unexpected("measuring", "a result", &other));
                    }
                }
            }
        }
        Ok(results)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.signals.end();
        for lane in &mut self.lanes {
            lane.commands = None;
        }
        for lane in &mut self.lanes {
            if let Some(thread) = lane.thread.take() {
                // A thread that panicked has said so on standard error.
                let _ = thread.join();
            }
        }
    }
}
