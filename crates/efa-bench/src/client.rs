//! The client: one session with a server, point after point.

use std::sync::Arc;
use std::time::Duration;

use report::Progress;

use crate::bench::{Measured, latency};
use crate::exchange::{Control, Message};
use crate::failure::Failure;
use crate::lane::{Lanes, Opened, Side};
use crate::measure::{Blocks, Until};
use crate::record::{
    Bandwidth, CountedAt, Distribution, FabricRecord, Latency, Method, Point, ReceiverCount, Run,
};
use crate::spec::{Benchmark, EndpointKind, JobSpec, Limit, Operation, PointSpec};

/// Where the server is.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A benchmark as the user asked for it.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// What the reader of the result sees; empty: the provider's name.
    pub(crate) name: String,
    /// The benchmark's name as it was asked for.
    pub(crate) test: String,
    pub(crate) job: JobSpec,
    pub(crate) sizes: Vec<usize>,
    pub(crate) depths: Vec<usize>,
    pub(crate) limit: Limit,
    pub(crate) warmup_ms: u64,
    pub(crate) validate: bool,
    /// How often each point is measured.
    pub(crate) until: Until,
    /// Processors of the client's measuring threads, in turn; empty: anywhere.
    pub(crate) cpus: Vec<usize>,
}

impl Wish {
    /// Number of measurements that are certain: points times blocks.
    pub(crate) const fn measurements(&self) -> usize {
        self.sizes.len() * self.depths.len() * self.until.blocks()
    }
}

/// A run, and why it ended early if it did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) run: Run,
    pub(crate) warnings: Vec<String>,
    pub(crate) failure: Option<Failure>,
}

/// Measures all points of a wish. An error means that nothing was measured; what fails later is
/// in the outcome beside the points that were done.
pub(crate) fn run(
    target: &Target,
    wish: &Wish,
    progress: &mut Progress,
) -> Result<Outcome, Failure> {
    let mut session = Session::open(target, wish)?;
    let mut warnings = Vec::new();
    let mut run = session.new_run(wish);
    let mut specs = Vec::new();
    for (size_bytes, depth) in wish.sizes.iter().flat_map(|s| wish.depths.iter().map(|d| (*s, *d)))
    {
        match session.cannot(wish.job.operation, size_bytes, depth) {
            Some(reason) => {
                warnings.push(format!("{}: {reason}, left out", run.name));
                progress.skip(wish.until.blocks());
            }
            None => specs.push(PointSpec {
                size_bytes,
                depth,
                limit: wish.limit,
                warmup_ms: wish.warmup_ms,
                validate: wish.validate,
            }),
        }
    }
    if specs.is_empty() {
        return Err(Failure::Usage(format!(
            "no point is possible: {}",
            warnings.first().map_or("no sizes given", String::as_str)
        )));
    }
    let mut order = Blocks::new(specs.len(), wish.until, wish.job.seed);
    let (blocks, failure) = measure_blocks(&mut session, &run.name, &specs, &mut order, progress);
    let seed = wish.job.seed;
    run.points = blocks.into_iter().filter_map(|b| Point::middle(b, seed)).collect();
    let doubtful = order.doubtful();
    if doubtful > 0 && failure.is_none() {
        warnings.push(format!(
            "{} {}: {doubtful} of {} points are less certain than --until asked for: allow more \
             time or find what disturbs the machine",
            run.name,
            run.test,
            specs.len()
        ));
    }
    if let Some(error) = &failure {
        run.complete = false;
        run.error = Some(error.to_string());
    } else {
        session.close();
    }
    Ok(Outcome { run, warnings, failure })
}

/// Measures the points in the order of `order`. Answers the blocks of each point, and what ended the
/// measurement early.
fn measure_blocks(
    session: &mut Session,
    name: &str,
    specs: &[PointSpec],
    order: &mut Blocks,
    progress: &mut Progress,
) -> (Vec<Vec<Point>>, Option<Failure>) {
    let mut found: Vec<Vec<Point>> = specs.iter().map(|_| Vec::new()).collect();
    while let Some(index) = order.next() {
        if order.extra() {
            progress.extend(1);
        }
        match session.measure(specs[index]) {
            Ok(point) => {
                progress.point(&one_line(name, &point));
                order.note(index, point.figure());
                found[index].push(point);
            }
            Err(error) => return (found, Some(error)),
        }
    }
    (found, None)
}

fn one_line(name: &str, point: &Point) -> String {
    let what = format!("{name} {} B", point.size_bytes);
    match (&point.latency, &point.bandwidth) {
        (Some(latency), _) => {
            let p50 = latency.distribution.map_or(latency.mean_us, |d| d.p50_us);
            format!("{what}: p50 {p50:.2} µs")
        }
        (_, Some(b)) => format!(
            "{what} depth {}: {:.2} Gbit/s, {:.3} M msg/s",
            point.depth, b.gbit_per_s, b.mmsg_per_s
        ),
        _ => what,
    }
}

struct Session {
    lanes: Lanes,
    control: Control,
    job: Arc<JobSpec>,
    fabric: FabricRecord,
    opened: Opened,
    rx_depth: usize,
}

impl Session {
    fn open(target: &Target, wish: &Wish) -> Result<Self, Failure> {
        let job = Arc::new(wish.job.clone());
        let timeout = Duration::from_millis(job.timeout_ms);
        let mut control = Control::connect(&target.host, target.port, timeout)?;
        let (lanes, fabric) = Lanes::open(&job, Side::Client, &control, &wish.cpus)?;
        control.send(&Message::Job(wish.job.clone()))?;
        let theirs = match control.receive("waiting for the server to open the fabric")? {
            Message::Fabric(theirs) => theirs,
            other => return Err(unexpected("its fabric", &other)),
        };
        if theirs.provider != fabric.provider {
            return Err(Failure::Fabric(format!(
                "the server uses provider {}, this side {}: name one with --provider",
                theirs.provider, fabric.provider
            )));
        }
        let opened = lanes.connect(&mut control);
        let opened = explained(opened, &mut control)?;
        let rx_depth = job.rx_depth.min(theirs.rx_depth);
        Ok(Self { lanes, control, job, fabric, opened, rx_depth })
    }

    fn new_run(&self, wish: &Wish) -> Run {
        let name =
            if wish.name.is_empty() { self.fabric.provider.clone() } else { wish.name.clone() };
        Run {
            endpoint: self.job.endpoint,
            operation: self.job.operation,
            test: wish.test.clone(),
            method: Method {
                flow: self.job.flow,
                threads: self.job.threads,
                endpoints: self.job.endpoints,
                memory_bytes: self.job.memory_bytes,
                counted_at: match self.job.benchmark {
                    Benchmark::Rma => CountedAt::Initiator,
                    _ => CountedAt::Receiver,
                },
                seed: self.job.seed,
            },
            command: crate::host::command_line(),
            fabric: Some(self.fabric.clone()),
            setup_us: self.opened.setup_us.clone(),
            cold_start_us: Some(self.opened.cold_start_us),
            client_cpu: wish.cpus.first().copied(),
            server_cpu: self.job.server_cpus.first().copied(),
            ..Run::new(&name, self.job.benchmark, Vec::new())
        }
    }

    /// Why a point is not possible on this fabric.
    fn cannot(&self, operation: Operation, size_bytes: usize, depth: usize) -> Option<String> {
        let inject = self.fabric.inject_bytes;
        if operation.is_injected() && size_bytes > inject {
            return Some(format!("{size_bytes} B is more than the {inject} B that inject takes"));
        }
        let (tx, rx) = (self.opened.tx_depth, self.rx_depth);
        if self.job.benchmark.has_depth() && depth > tx {
            return Some(format!("depth {depth} is more than the {tx} sends the provider takes"));
        }
        (self.job.benchmark == Benchmark::Bandwidth && rx == 0)
            .then(|| "the receiver has no receives".to_owned())
    }

    fn measure(&mut self, point: PointSpec) -> Result<Point, Failure> {
        self.control.send(&Message::Point(point))?;
        self.control.expect_barrier("waiting for the server")?;
        self.lanes.begin(point)?;
        let measured = match self.job.benchmark {
            Benchmark::Latency | Benchmark::PingPong => self.round_trips(point),
            Benchmark::Bandwidth => self.stream(point),
            Benchmark::Rma => self.one_sided(point),
        };
        explained(measured, &mut self.control)
    }

    fn new_point(&self, point: PointSpec) -> Point {
        let PointSpec { size_bytes, depth, warmup_ms, .. } = point;
        Point { rx_depth: self.rx_depth, warmup_ms, ..Point::new(size_bytes, depth) }
    }

    /// Waits for the round trips of all threads.
    fn round_trips(&self, point: PointSpec) -> Result<Point, Failure> {
        let mut all = self.lanes.results()?.into_iter().filter_map(|measured| match measured {
            Measured::RoundTrips(trips) => Some(*trips),
            _ => None,
        });
        let first = all.next();
        let first = first.ok_or_else(|| Failure::Check("no thread made round trips".to_owned()));
        let trips = all.fold(first?, |sum, trips| sum.and(&trips));
        Ok(Point {
            rx_depth: latency::RX_DEPTH,
            lost: trips.lost,
            validated: trips.validated,
            latency: Some(Latency::half(&trips.histogram, trips.sum_ns, trips.count)),
            ..self.new_point(point)
        })
    }

    /// Waits until all threads have sent and the receiver has counted.
    fn stream(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let sent = self.lanes.results()?.into_iter().map(|measured| match measured {
            Measured::Sent(count) => count,
            _ => 0,
        });
        let sent: Vec<u64> = sent.collect();
        let in_all = sent.iter().sum::<u64>();
        let counts = self.counts(sent)?;
        let of_all = |of: fn(&ReceiverCount) -> u64| counts.iter().map(of).sum::<u64>();
        let (validated, wrong) = (of_all(|c| c.validated), of_all(|c| c.wrong));
        let duplicates = of_all(|c| c.duplicates);
        if wrong > 0 || duplicates > 0 {
            return Err(Failure::Data(format!(
                "{wrong} of {validated} messages of {} bytes arrived wrong, {duplicates} arrived \
                 twice",
                point.size_bytes
            )));
        }
        let lost = in_all.saturating_sub(of_all(|c| c.total));
        if lost > 0 && self.job.endpoint == EndpointKind::Rdm {
            return Err(Failure::Data(format!("{lost} of {in_all} messages never arrived")));
        }
        let bandwidth = Some(Bandwidth::of(&counts));
        Ok(Point { lost, validated, bandwidth, ..self.new_point(point) })
    }

    /// Tells the server what each thread has sent; answers what its threads have counted.
    fn counts(&mut self, sent: Vec<u64>) -> Result<Vec<ReceiverCount>, Failure> {
        self.control.send(&Message::Sent(sent))?;
        loop {
            match self.control.receive("waiting for the receiver's count")? {
                Message::Received(counts) => return Ok(counts),
                Message::WindowDone | Message::Working => {}
                other => return Err(unexpected("a count", &other)),
            }
        }
    }

    /// Waits until all threads have done their operations, then ends the server's.
    fn one_sided(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let (mut counts, mut times) = (Vec::new(), None);
        for measured in self.lanes.results()? {
            if let Measured::Initiated(count, trips) = measured {
                counts.push(count);
                times = trips.map(|t| Distribution::of(&t.histogram, 1)).or(times);
            }
        }
        self.counts(counts.iter().map(|count| count.total).collect())?;
        Ok(Point {
            rx_depth: 0,
            bandwidth: Some(Bandwidth::of(&counts)),
            // Of several threads each has times of its own: then there is no one distribution.
            operation_time: times.filter(|_| self.job.threads == 1),
            ..self.new_point(point)
        })
    }

    fn close(mut self) {
        // The results are in hand: a server that is gone by now does no harm.
        let _ = self.control.send(&Message::Bye);
    }
}

/// Replaces "the server ended" and fabric errors by the server's own reason where it sent one.
fn explained<T>(result: Result<T, Failure>, control: &mut Control) -> Result<T, Failure> {
    let Err(error) = result else { return result };
    if !matches!(error, Failure::Remote(_) | Failure::Fabric(_)) {
        return Err(error);
    }
    // Its last words are on the way if there are any; do not wait long for them.
    control.set_timeout(Duration::from_secs(1))?;
    match control.receive("waiting for the server's reason") {
        Err(Failure::Remote(reason)) => Err(Failure::Remote(reason)),
        Err(gone @ Failure::PeerGone { .. }) => Err(gone),
        _ => Err(error),
    }
}

fn unexpected(wanted: &str, got: &Message) -> Failure {
    Failure::unexpected("talking to the server", wanted, got)
}
