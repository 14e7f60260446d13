//! The client's side of a session: opens it, and measures points with the server.

use std::sync::Arc;
use std::time::Duration;

use crate::bench::open_loop::HEADER_BYTES;
use crate::bench::{Measured, latency};
use crate::client::{Target, Wish};
use crate::exchange::{Control, Message};
use crate::failure::Failure;
use crate::lane::{Lanes, Opened, Side};
use crate::pattern::SEQUENCE_BYTES;
use crate::record::{
    Bandwidth, CountedAt, Disorder, Distribution, FabricRecord, Latency, Method, OpenLoop, Point,
    ReceiverCount, Run, Work,
};
use crate::spec::{Benchmark, EndpointKind, JobSpec, Operation, PointSpec};
use crate::workload::{self, Calls};

/// Between two words to a server that waits for the end of a point.
const WORD_EVERY: Duration = Duration::from_millis(200);

/// A session with a server: the endpoints of both sides, ready for one point after the other.
pub(crate) struct Session {
    lanes: Lanes,
    control: Control,
    job: Arc<JobSpec>,
    fabric: FabricRecord,
    opened: Opened,
    rx_depth: usize,
}

impl Session {
    pub(crate) fn open(target: &Target, wish: &Wish) -> Result<Self, Failure> {
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

    pub(crate) fn new_run(&self, wish: &Wish) -> Run {
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
                load_size_bytes: self.job.load_size_bytes,
                counted_at: match self.job.benchmark {
                    Benchmark::Rma => CountedAt::Initiator,
                    benchmark if benchmark.is_workload() => CountedAt::Initiator,
                    _ => CountedAt::Receiver,
                },
                work: self.job.benchmark.is_workload().then_some(self.job.work),
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
    pub(crate) fn cannot(
        &self,
        operation: Operation,
        (size_bytes, depth, parameter): (usize, usize, usize),
    ) -> Option<String> {
        let inject = self.fabric.inject_bytes;
        if operation.is_injected() && size_bytes > inject {
            return Some(format!("{size_bytes} B is more than the {inject} B that inject takes"));
        }
        let least = match self.job.benchmark {
            Benchmark::OpenLoop => HEADER_BYTES,
            // A value says whose it is.
            Benchmark::Rpc | Benchmark::Kv | Benchmark::Index => SEQUENCE_BYTES,
            _ => 1,
        };
        if size_bytes < least {
            return Some(format!(
                "{size_bytes} B is less than the {least} B of a request or a value"
            ));
        }
        let room = workload::index::VALUE_BYTES_MAX;
        if self.job.benchmark == Benchmark::Index && size_bytes > room {
            return Some(format!("a value of {size_bytes} B is more than the {room} B of a leaf"));
        }
        let work = self.job.benchmark.is_workload().then_some(self.job.work);
        let whole_bytes = work.map_or(0, |work| {
            workload::message_bytes(self.job.benchmark, work, size_bytes, parameter)
        });
        let longest = self.fabric.max_message_bytes;
        if whole_bytes > longest {
            return Some(format!(
                "a message of {whole_bytes} B is more than the {longest} B it takes"
            ));
        }
        let (tx, rx) = (self.opened.tx_depth, self.rx_depth);
        // The depth of a file transfer is the server's.
        let has_own_depth =
            matches!(self.job.benchmark, Benchmark::SatLatency | Benchmark::FileGet);
        if self.job.benchmark.has_depth() && !has_own_depth && depth > tx {
            return Some(format!("depth {depth} is more than the {tx} sends the provider takes"));
        }
        (self.job.benchmark == Benchmark::Bandwidth && rx == 0)
            .then(|| "the receiver has no receives".to_owned())
    }

    pub(crate) fn measure(&mut self, point: PointSpec) -> Result<Point, Failure> {
        self.control.send(&Message::Point(point))?;
        self.control.expect_barrier("waiting for the server")?;
        self.lanes.begin(point)?;
        let measured = match self.job.benchmark {
            Benchmark::Latency | Benchmark::PingPong => self.round_trips(point),
            Benchmark::Bandwidth => self.stream(point),
            Benchmark::Rma => self.one_sided(point),
            Benchmark::Rpc
            | Benchmark::Kv
            | Benchmark::Piggyback
            | Benchmark::Index
            | Benchmark::FileGet => self.calls(point),
            Benchmark::OpenLoop => self.open_loop(point),
            Benchmark::Collective => Err(Failure::only_mpi()),
            Benchmark::SatLatency => self.saturated(point),
        };
        explained(measured, &mut self.control)
    }

    fn new_point(&self, point: PointSpec) -> Point {
        let PointSpec { size_bytes, depth, warmup_ms, rate_per_s, parameter, .. } = point;
        let rx_depth = self.rx_depth;
        Point { rx_depth, warmup_ms, rate_per_s, parameter, ..Point::new(size_bytes, depth) }
    }

    /// Waits for the round trips of all threads.
    fn round_trips(&self, point: PointSpec) -> Result<Point, Failure> {
        self.round_trips_of(self.lanes.results()?, point)
    }

    fn round_trips_of(&self, all: Vec<Measured>, point: PointSpec) -> Result<Point, Failure> {
        let mut all = all.into_iter().filter_map(|measured| match measured {
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

    /// Waits for the answers to all requests.
    fn open_loop(&self, point: PointSpec) -> Result<Point, Failure> {
        let mut all = self.lanes.results()?.into_iter().filter_map(|measured| match measured {
            Measured::Loaded(loaded) => Some(*loaded),
            _ => None,
        });
        let first = all.next();
        let first = first.ok_or_else(|| Failure::Check("no thread had answers".to_owned()));
        let loaded = all.fold(first?, |sum, loaded| sum.and(&loaded));
        let seconds = loaded.seconds.max(f64::MIN_POSITIVE);
        Ok(Point {
            lost: loaded.response.lost,
            open_loop: Some(OpenLoop {
                arrivals: self.job.arrivals,
                offered_per_s: loaded.intended as f64 / seconds,
                answered_per_s: loaded.answered as f64 / seconds,
                unposted: loaded.unposted,
                response: Distribution::of(&loaded.response.histogram, 1),
                service: Distribution::of(&loaded.service.histogram, 1),
            }),
            ..self.new_point(point)
        })
    }

    /// Waits for the ping-pong, and for the streams beside it.
    fn saturated(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let mut all = self.lanes.results()?;
        let streams = all.split_off(1.min(all.len()));
        let trips = self.round_trips_of(all, point)?;
        let mut sent = vec![0];
        sent.extend(streams.iter().map(sent_by));
        let load = self.arrived(point, sent)?.bandwidth;
        Ok(Point { load, depth: point.depth, ..trips })
    }

    /// Waits until all threads have sent and the receiver has counted.
    fn stream(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let sent = self.lanes.results()?.iter().map(sent_by).collect();
        self.arrived(point, sent)
    }

    /// What has arrived of what each thread has sent.
    fn arrived(&mut self, point: PointSpec, sent: Vec<u64>) -> Result<Point, Failure> {
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
        let farthest = counts.iter().map(|c| c.farthest).max().unwrap_or(0);
        let overtaken = of_all(|c| c.overtaken);
        let disorder = Disorder { overtaken, messages: validated, farthest };
        let disorder = (validated > 0 && point.size_bytes >= SEQUENCE_BYTES).then_some(disorder);
        Ok(Point { lost, validated, bandwidth, disorder, ..self.new_point(point) })
    }

    /// The results of all threads, of points whose end only this side sees: the server, which waits
    /// for it, is told that they go on.
    fn slow_results(&mut self) -> Result<Vec<Measured>, Failure> {
        let Self { lanes, control, .. } = self;
        lanes.results_with(0, WORD_EVERY, || control.send(&Message::Working))
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
        for measured in self.slow_results()? {
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

    /// Waits until all threads have had their replies, and for what they cost the server.
    fn calls(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let calls = self.slow_results()?.into_iter().filter_map(|measured| match measured {
            Measured::Calls(calls) => Some(*calls),
            _ => None,
        });
        let calls: Vec<_> = calls.collect();
        let made: Vec<u64> = calls.iter().map(|thread| thread.total).collect();
        let served = self.counts(made.clone())?;
        for (made, served) in made.iter().zip(served.iter().map(|count| count.total)) {
            if *made != served {
                return Err(Failure::Data(format!("{served} calls were served of {made} made")));
            }
        }
        let validated = calls.iter().map(|thread| thread.validated).sum();
        let arrivals = (point.rate_per_s > 0).then_some(self.job.arrivals);
        let (work, times) = Work::of(&calls, &served, arrivals)?;
        let streams: Vec<_> = calls.iter().filter_map(Calls::stream).collect();
        Ok(Point {
            validated,
            operation_time: Some(times),
            work: Some(work),
            bandwidth: (!streams.is_empty()).then(|| Bandwidth::of(&streams)),
            ..self.new_point(point)
        })
    }

    pub(crate) fn close(mut self) {
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

fn sent_by(measured: &Measured) -> u64 {
    match measured {
        Measured::Sent(count) => *count,
        _ => 0,
    }
}

fn unexpected(wanted: &str, got: &Message) -> Failure {
    Failure::unexpected("talking to the server", wanted, got)
}
