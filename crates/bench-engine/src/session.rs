//! The client's side of a session: opens it, and measures points with the server.

use std::sync::Arc;
use std::time::Duration;

use bench_record::failure::Failure;
use bench_record::spec::{Benchmark, EndpointKind, JobSpec, Operation, PointSpec};
use bench_record::topology::Topology;
use bench_record::{
    Bandwidth, CountedAt, Disorder, Distribution, FabricRecord, Latency, Method, OpenLoop,
    PackedTimes, Point, ReceiverCount, Run, TimesOf,
};
use hdrhistogram::Histogram;

use crate::bench::open_loop::HEADER_BYTES;
use crate::bench::{Measured, latency};
use crate::client::Wish;
use crate::counters::Beside;
use crate::exchange::Message;
use crate::group::Group;
use crate::lane::{Opened, Side};
use crate::lanes::Lanes;
use crate::pattern::SEQUENCE_BYTES;
use crate::target::Target;
use crate::workload::{self, Calls};

mod collective;
mod incast;
mod shuffle;
mod work;

/// Between two words to a server that waits for the end of a point.
const WORD_EVERY: Duration = Duration::from_millis(200);

/// A session with servers: the endpoints of all sides, ready for one point after the other.
pub(crate) struct Session {
    lanes: Lanes,
    group: Group,
    job: Arc<JobSpec>,
    fabric: FabricRecord,
    opened: Opened,
    rx_depth: usize,
    histograms: bool,
    beside: Beside,
    is_loopback: bool,
}

impl Session {
    pub(crate) fn open(targets: &[Target], wish: &Wish) -> Result<Self, Failure> {
        let job = Arc::new(wish.job.clone());
        let timeout = Duration::from_millis(job.timeout_ms);
        let mut group = Group::connect(targets, timeout)?;
        let signals = group.signals(timeout, job.crowded)?;
        let (lanes, mut fabric) =
            Lanes::open(&job, Side::Client, signals, &group.local_ips(), &wish.cpus, wish.numa)?;
        let theirs = group.open(&job)?;
        if let Some(other) = theirs.iter().find(|other| other.provider != fabric.provider) {
            return Err(Failure::Fabric(format!(
                "the server uses provider {}, this side {}: name one with --provider",
                other.provider, fabric.provider
            )));
        }
        let opened = connect(&lanes, &mut group, &job);
        let opened = group.explained(opened)?;
        let rx_depth = theirs.iter().map(|theirs| theirs.rx_depth).fold(job.rx_depth, usize::min);
        // What one side cannot take, nobody can send.
        let longest = theirs.iter().map(|theirs| theirs.max_message_bytes);
        fabric.max_message_bytes = longest.fold(fabric.max_message_bytes, usize::min);
        let histograms = wish.histograms;
        let beside = Beside::new(wish.counters, &job.fabric, &fabric.domain);
        let is_loopback = targets.iter().all(Target::is_here);
        Ok(Self { lanes, group, job, fabric, opened, rx_depth, histograms, beside, is_loopback })
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
                nodes: self.job.nodes,
                threads: self.job.threads,
                endpoints: self.job.endpoints,
                memory_bytes: self.job.memory_bytes,
                load_size_bytes: self.job.load_size_bytes,
                directions: 1,
                runs: 1,
                counted_at: match self.job.benchmark {
                    Benchmark::Rma => CountedAt::Initiator,
                    benchmark if benchmark.is_workload() => CountedAt::Initiator,
                    _ => CountedAt::Receiver,
                },
                crowded: self.job.crowded,
                work: self.job.benchmark.is_workload().then_some(self.job.work),
                seed: self.job.seed,
            },
            command: crate::host::command_line(),
            fabric: Some(self.fabric.clone()),
            is_loopback: self.is_loopback,
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
            Benchmark::Rpc
            | Benchmark::Kv
            | Benchmark::Index
            | Benchmark::Log
            | Benchmark::TwoPhase => SEQUENCE_BYTES,
            Benchmark::Shuffle => bench_record::workload::TUPLE_BYTES_MIN,
            // A barrier has no bytes.
            Benchmark::Collective => 0,
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
        if self.job.benchmark == Benchmark::Shuffle && size_bytes > parameter {
            return Some(format!(
                "a tuple of {size_bytes} B is more than a buffer of {parameter} B"
            ));
        }
        let work = self.job.benchmark.is_workload().then_some(self.job.work);
        let whole_bytes = work.map_or(size_bytes, |work| {
            workload::message_bytes(self.job.benchmark, work, size_bytes, parameter)
        });
        let longest = self.fabric.max_message_bytes;
        if whole_bytes > longest {
            return Some(format!(
                "a message of {whole_bytes} B is more than the {longest} B it takes"
            ));
        }
        let (tx, rx) = (self.opened.tx_depth, self.rx_depth);
        // The depth of a transfer is the server's.
        let has_own_depth = matches!(
            self.job.benchmark,
            Benchmark::SatLatency | Benchmark::FileGet | Benchmark::Incast
        );
        if self.job.benchmark.has_depth() && !has_own_depth && depth > tx {
            return Some(format!("depth {depth} is more than the {tx} sends the provider takes"));
        }
        (self.job.benchmark == Benchmark::Bandwidth && rx == 0)
            .then(|| "the receiver has no receives".to_owned())
    }

    /// Measures one block of a point; `is_counted`: reads before and after what adapters count.
    pub(crate) fn measure(&mut self, point: PointSpec, is_counted: bool) -> Result<Point, Failure> {
        let before = self.beside.before(&mut self.group, is_counted)?;
        let measured = self.measure_alone(point)?;
        let counted = self.beside.after(&mut self.group, before, measured.sent)?;
        Ok(Point { counted, ..measured })
    }

    fn measure_alone(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let begun = self.begin(point);
        self.group.explained(begun)?;
        let measured = match self.job.benchmark {
            Benchmark::Latency | Benchmark::PingPong => self.round_trips(point),
            Benchmark::Bandwidth => self.stream(point),
            Benchmark::Rma => self.one_sided(point),
            Benchmark::Rpc
            | Benchmark::Kv
            | Benchmark::Piggyback
            | Benchmark::Index
            | Benchmark::FileGet
            | Benchmark::Log
            | Benchmark::TwoPhase => self.calls(point),
            Benchmark::Incast => self.incast(point),
            Benchmark::Shuffle => self.shuffle(point),
            Benchmark::OpenLoop => self.open_loop(point),
            Benchmark::Collective => self.collective(point),
            Benchmark::SatLatency => self.saturated(point),
        };
        self.group.explained(measured)
    }

    /// Returns when every server is ready for the messages of a point, and so are we.
    fn begin(&mut self, point: PointSpec) -> Result<(), Failure> {
        self.group.send(&Message::Point(point))?;
        self.group.expect(&Message::Barrier, "waiting for the server")?;
        self.lanes.begin(point)
    }

    fn new_point(&self, point: PointSpec) -> Point {
        let PointSpec { size_bytes, depth, warmup_ms, rate_per_s, parameter, order, .. } = point;
        let rx_depth = point.rx_depth.min(self.rx_depth);
        let lost = Some(0);
        Point {
            rx_depth,
            warmup_ms,
            rate_per_s,
            parameter,
            order,
            lost,
            ..Point::new(size_bytes, depth)
        }
    }

    fn packed(&self, of: TimesOf, times_ns: &Histogram<u64>) -> Option<PackedTimes> {
        if self.histograms { PackedTimes::pack(of, times_ns) } else { None }
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
            lost: Some(trips.lost),
            sent: trips.sent,
            validated: trips.validated,
            latency: Latency::half(&trips.histogram, trips.sum_ns, trips.count),
            times: self.packed(TimesOf::RoundTrips, &trips.histogram),
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
        // Without answers ages say how long the window was, and nothing of the fabric.
        let service = Distribution::of(&loaded.service.histogram, 1);
        let response = service.and_then(|_| Distribution::of(&loaded.response.histogram, 1));
        let times = self.packed(TimesOf::Responses, &loaded.response.histogram);
        Ok(Point {
            lost: Some(loaded.response.lost),
            open_loop: Some(OpenLoop {
                arrivals: self.job.arrivals,
                offered_per_s: loaded.intended as f64 / seconds,
                answered_per_s: loaded.answered as f64 / seconds,
                unposted: loaded.unposted,
                response,
                service,
            }),
            times: times.filter(|_| response.is_some()),
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
        let rx_depth = point.rx_depth.min(self.rx_depth);
        Ok(Point { load, depth: point.depth, rx_depth, ..trips })
    }

    /// Waits until all threads have sent and the receiver has counted.
    fn stream(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let sent = self.lanes.results()?.iter().map(sent_by).collect();
        self.arrived(point, sent)
    }

    /// What has arrived of what each thread has sent.
    fn arrived(&mut self, point: PointSpec, sent: Vec<u64>) -> Result<Point, Failure> {
        let in_all = sent.iter().sum::<u64>();
        let counts = self.counts(sent)?.into_iter().next().unwrap_or_default();
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
        let disorder = Disorder::of(&counts);
        let lost = Some(lost);
        Ok(Point { lost, validated, bandwidth, disorder, sent: in_all, ..self.new_point(point) })
    }

    /// The results of all threads, of points whose end only this side sees: the servers, which wait
    /// for it, are told that they go on.
    fn slow_results(&mut self) -> Result<Vec<Measured>, Failure> {
        let Self { lanes, group, .. } = self;
        lanes.results_with(0, WORD_EVERY, || group.keep_waiting())
    }

    /// Tells the servers what each thread has sent; answers what their threads have counted, server
    /// by server.
    fn counts(&mut self, sent: Vec<u64>) -> Result<Vec<Vec<ReceiverCount>>, Failure> {
        self.group.send(&Message::Sent(sent))?;
        self.group.counts()
    }

    /// Waits until all threads have done their operations, then ends the server's.
    fn one_sided(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let (mut counts, mut all_times) = (Vec::new(), None);
        for measured in self.slow_results()? {
            if let Measured::Initiated(count, trips) = measured {
                counts.push(count);
                all_times = trips.or(all_times);
            }
        }
        self.counts(counts.iter().map(|count| count.total).collect())?;
        // Of several threads each has times of its own: then there is no one distribution.
        let times = all_times.filter(|_| self.job.threads == 1);
        let times = times.as_ref().map(|trips| &trips.histogram);
        Ok(Point {
            rx_depth: 0,
            sent: counts.iter().map(|count| count.total).sum(),
            bandwidth: Some(Bandwidth::of(&counts)),
            operation_time: times.and_then(|times| Distribution::of(times, 1)),
            times: times.and_then(|times| self.packed(TimesOf::Operations, times)),
            ..self.new_point(point)
        })
    }

    /// Waits until all threads have had their replies.
    fn own_calls(&mut self) -> Result<Vec<Calls>, Failure> {
        let calls = self.slow_results()?.into_iter().filter_map(|measured| match measured {
            Measured::Calls(calls) => Some(*calls),
            _ => None,
        });
        Ok(calls.collect())
    }

    /// Waits until all threads have had their replies, and for what they cost the server.
    fn calls(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let calls = self.own_calls()?;
        let made: Vec<u64> = calls.iter().map(|thread| thread.total).collect();
        let served = self.counts(made.clone())?;
        for server in &served {
            for (made, served) in made.iter().zip(server.iter().map(|count| count.total)) {
                if *made != served {
                    return Err(Failure::Data(format!(
                        "{served} calls were served of {made} made"
                    )));
                }
            }
        }
        for (thread, count) in served.iter().flat_map(|server| calls.iter().zip(server)) {
            let (ours, theirs) = (thread.committed, count.committed);
            if ours != theirs {
                return Err(Failure::Data(format!(
                    "a participant has committed {theirs} transactions, its coordinator {ours}"
                )));
            }
        }
        let sum = |of: fn(&ReceiverCount) -> u64| served.iter().flatten().map(of).sum::<u64>();
        let duplicates = sum(|count| count.duplicates);
        if duplicates > 0 {
            return Err(Failure::Data(format!("{duplicates} messages arrived twice")));
        }
        let disorder = Disorder::of(served.iter().flatten());
        let validated = calls.iter().map(|thread| thread.validated).sum();
        let arrivals = (point.rate_per_s > 0).then_some(self.job.arrivals);
        let (work, times) = work::of(&calls, &served, arrivals)?;
        let streams: Vec<_> = calls.iter().filter_map(Calls::stream).collect();
        Ok(Point {
            validated,
            operation_time: times.and_then(|times| Distribution::of(&times.histogram, 1)),
            work: Some(work),
            bandwidth: (!streams.is_empty()).then(|| Bandwidth::of(&streams)),
            disorder,
            ..self.new_point(point)
        })
    }

    pub(crate) fn close(mut self) {
        // The results are in hand: a server that is gone by now does no harm.
        let _ = self.group.send(&Message::Bye);
    }
}

/// Connects every node with its peers, pair after pair, and warms the endpoints up.
fn connect(lanes: &Lanes, group: &mut Group, job: &JobSpec) -> Result<Opened, Failure> {
    for (first, second) in job.benchmark.topology().pairs(job.nodes) {
        match first {
            0 => group.link(second, |control| lanes.link(control))?,
            _ => group.introduce(first, second)?,
        }
    }
    let opened = lanes.warm_up(|| group.barrier())?;
    if job.benchmark.topology() == Topology::Mesh {
        // Servers may still be busy with each other.
        group.settle(Duration::from_millis(job.timeout_ms / 2));
    }
    // Who still waits for a message of the warm-up that was lost or damaged learns that none will come.
    group.send(&Message::Working)?;
    group.expect(&Message::Ready, "warming up")?;
    Ok(opened)
}

fn sent_by(measured: &Measured) -> u64 {
    match measured {
        Measured::Sent(count) => *count,
        _ => 0,
    }
}
