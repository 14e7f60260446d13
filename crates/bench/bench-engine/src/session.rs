//! The client's side of a session, which opens the session and measures points with the servers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bench_record::failure::Failure;
use bench_record::spec::{JobSpec, Operation, PointSpec};
use bench_record::topology::Topology;
use bench_record::{
    Bandwidth, CountedAt, Disorder, Distribution, FabricRecord, Method, PackedTimes, Point,
    ReceiverCount, Run, TimesOf,
};
use hdrhistogram::Histogram;

use crate::bench::Measured;
use crate::client::MeasureRequest;
use crate::counters::CounterReader;
use crate::exchange::Message;
use crate::group::Group;
use crate::lane::{Command, Opened, Side};
use crate::lanes::Lanes;
use crate::live::Live;
use crate::target::Target;
use crate::workload::{Calls, Functions, Workload};

pub(crate) mod work;

/// The time between two messages to a server that waits for the end of a point.
const WORD_EVERY: Duration = Duration::from_millis(200);

/// The size, the depth and the parameter of a point.
pub(crate) type Coordinates = (usize, usize, usize);

/// A session with servers: the endpoints of all sides, ready for one point after the other.
pub(crate) struct BenchSession {
    lanes: Lanes,
    group: Group,
    job: Arc<JobSpec>,
    fabric: FabricRecord,
    opened: Opened,
    rx_depth: usize,
    histograms: bool,
    counter_reader: CounterReader,
    is_loopback: bool,
    is_watched: bool,
    node_names: Vec<String>,
}

impl BenchSession {
    /// Opens all sides; `live`: the output for a user who watches.
    pub(crate) fn open(
        targets: &[Target],
        request: &MeasureRequest,
        live: Option<&Live>,
    ) -> Result<Self, Failure> {
        let job = Arc::new(request.job.clone());
        let timeout = Duration::from_millis(job.timeout_ms);
        let mut group = Group::connect(targets, timeout)?;
        let signals = group.signals(&job)?;
        let (lanes, mut fabric) = Lanes::open(
            &job,
            Side::Client,
            signals,
            &group.local_ips(),
            &request.cpus,
            request.numa,
            live,
        )?;
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
        // A message that one side cannot take cannot be sent.
        let longest = theirs.iter().map(|theirs| theirs.max_message_bytes);
        fabric.max_message_bytes = longest.fold(fabric.max_message_bytes, usize::min);
        let histograms = request.histograms;
        let counter_reader = CounterReader::new(request.counters, &job.fabric, &fabric.domain);
        let is_loopback = targets.iter().all(Target::is_here);
        Ok(Self {
            lanes,
            group,
            job,
            fabric,
            opened,
            rx_depth,
            histograms,
            counter_reader,
            is_loopback,
            is_watched: live.is_some(),
            node_names: node_names(targets),
        })
    }

    pub(crate) fn new_run(&self, request: &MeasureRequest) -> Run {
        let name = if request.name.is_empty() {
            self.fabric.provider.clone()
        } else {
            request.name.clone()
        };
        let is_workload = self.job.benchmark.is_workload();
        let counted_at = match is_workload || self.job.operation.is_one_sided() {
            true => CountedAt::Initiator,
            false => CountedAt::Receiver,
        };
        Run {
            endpoint: self.job.endpoint,
            operation: self.job.operation,
            test: request.test.clone(),
            method: Method {
                flow: self.job.flow,
                nodes: self.job.nodes,
                threads: self.job.threads,
                endpoints: self.job.endpoints,
                memory_bytes: self.job.memory_bytes,
                load_size_bytes: self.job.load_size_bytes,
                directions: self.job.benchmark.about().directions,
                runs: 1,
                counted_at,
                crowded: self.job.crowded,
                work: is_workload.then_some(self.job.work),
                ramp: request.ramp,
                seed: self.job.seed,
            },
            command: crate::host::command_line(),
            fabric: Some(self.fabric.clone()),
            is_loopback: self.is_loopback,
            wire: crate::host::wire(&self.job.fabric),
            setup_us: self.opened.setup_us.clone(),
            cold_start_us: Some(self.opened.cold_start_us),
            client_cpu: request.cpus.first().copied(),
            server_cpu: self.job.server_cpus.first().copied(),
            ..Run::new(&name, self.job.benchmark, Vec::new())
        }
    }

    /// Returns the reason why a point is not possible on this fabric, if there is one.
    pub(crate) fn refusal(&self, operation: Operation, place: Coordinates) -> Option<String> {
        (Functions::of(self.job.benchmark).refusal)(self, operation, place)
    }

    /// Returns the reason why a point of this workload is not possible, if there is one.
    pub(crate) fn refusal_of<W: Workload>(
        &self,
        operation: Operation,
        (size_bytes, depth, parameter): Coordinates,
    ) -> Option<String> {
        let inject = self.fabric.inject_bytes;
        if operation.is_injected() && size_bytes > inject {
            return Some(format!("{size_bytes} B is more than the {inject} B that inject takes"));
        }
        let least = W::LEAST_BYTES;
        if size_bytes < least {
            return Some(format!(
                "{size_bytes} B is less than the {least} B of a request or a value"
            ));
        }
        if let Some(reason) = W::refusal(size_bytes, parameter, self.rx_depth) {
            return Some(reason);
        }
        let whole_bytes = W::message_bytes(&self.job, size_bytes, parameter);
        let longest = self.fabric.max_message_bytes;
        if whole_bytes > longest {
            return Some(format!(
                "a message of {whole_bytes} B is more than the {longest} B it takes"
            ));
        }
        let tx = self.opened.tx_depth;
        (W::SENDS_DEPTH && depth > tx)
            .then(|| format!("depth {depth} is more than the {tx} sends the provider takes"))
    }

    /// Measures one block of a point; `is_counted`: the counters of adapters are read before and
    /// after.
    pub(crate) fn measure(&mut self, point: PointSpec, is_counted: bool) -> Result<Point, Failure> {
        let before = self.counter_reader.before(&mut self.group, is_counted)?;
        let measured = self.measure_alone(point);
        let timeline = self.lanes.timeline();
        let measured = measured?;
        let timeline = timeline.filter(|own| self.is_watched || own.slump().is_some());
        let counted = self.counter_reader.after(&mut self.group, before, measured.sent)?;
        Ok(Point { counted, timeline, ..measured })
    }

    fn measure_alone(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let begun = self.begin(point);
        self.group.explained(begun)?;
        let measured = (Functions::of(self.job.benchmark).conclude)(self, point);
        self.group.explained(measured)
    }

    /// Returns when every server and this side are ready for the messages of a point.
    fn begin(&mut self, point: PointSpec) -> Result<(), Failure> {
        self.group.send(&Message::Point(point))?;
        self.group.expect(&Message::Barrier, "waiting for the server")?;
        self.lanes.begin(point)
    }

    /// Makes a point without figures.
    pub(crate) fn new_point(&self, point: PointSpec) -> Point {
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

    /// Packs all times, if they are to be kept.
    pub(crate) fn packed(&self, of: TimesOf, times_ns: &Histogram<u64>) -> Option<PackedTimes> {
        if self.histograms { PackedTimes::pack(of, times_ns) } else { None }
    }

    /// Returns the job that all sides open.
    pub(crate) fn job(&self) -> &JobSpec {
        &self.job
    }

    /// Returns the names of all nodes, the client first.
    pub(crate) fn node_names(&self) -> Vec<String> {
        self.node_names.clone()
    }

    /// Waits for the results of all threads.
    pub(crate) fn results(&self) -> Result<Vec<Measured>, Failure> {
        self.lanes.results()
    }

    /// Waits for the results of all threads, in a point whose end only this side sees: the servers,
    /// which wait for it, are told that the point goes on.
    pub(crate) fn slow_results(&mut self) -> Result<Vec<Measured>, Failure> {
        let Self { lanes, group, .. } = self;
        lanes.results_with(0, WORD_EVERY, || group.keep_waiting())
    }

    /// Tells the servers the number of messages that each thread has sent. Returns the counts of
    /// their threads, server by server.
    pub(crate) fn counts(&mut self, sent: Vec<u64>) -> Result<Vec<Vec<ReceiverCount>>, Failure> {
        self.group.send(&Message::Sent(sent))?;
        self.group.counts()
    }

    /// Ends a point in which both sides send, as soon as the windows of both are over. Returns how
    /// many messages the client and the server have sent, and the counts of the receivers at the
    /// server and at the client.
    pub(crate) fn both_ways(&mut self) -> Result<([u64; 2], [Vec<ReceiverCount>; 2]), Failure> {
        self.lanes.windows_closed(0)?;
        self.group.expect(&Message::WindowDone, "waiting for the end of the server's window")?;
        self.group.send(&Message::Barrier)?;
        self.lanes.tell_from(0, |_| Command::Go);
        let ours: Vec<u64> = self.lanes.results()?.iter().map(Measured::sent).collect();
        let theirs = self.group.sent(ours.len())?;
        let sent = [ours.iter().sum(), theirs.iter().sum()];
        self.group.send(&Message::Sent(ours))?;
        self.lanes.tell_from(0, |index| Command::Sent(theirs[index]));
        let received = self.lanes.results()?.into_iter().filter_map(|measured| match measured {
            Measured::Received(count) => Some(count),
            _ => None,
        });
        let received = received.collect();
        let at_server = self.group.counts()?.into_iter().next().unwrap_or_default();
        Ok((sent, [at_server, received]))
    }

    /// Waits until all threads have had their replies.
    pub(crate) fn own_calls(&mut self) -> Result<Vec<Calls>, Failure> {
        let calls = self.slow_results()?.into_iter().filter_map(|measured| match measured {
            Measured::Calls(calls) => Some(*calls),
            _ => None,
        });
        Ok(calls.collect())
    }

    /// Waits until all threads have had their replies, and for the cost at the servers, each of
    /// which has served all calls.
    pub(crate) fn calls(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let (calls, served) = self.served_calls()?;
        for server in &served {
            for (thread, served) in calls.iter().zip(server.iter().map(|count| count.total)) {
                are_served(thread.total, served)?;
            }
        }
        self.point_of_calls(point, &calls, &served)
    }

    /// Waits like `calls`, but for servers that have together served each call once.
    pub(crate) fn shared_calls(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let (calls, served) = self.shared_counts()?;
        self.point_of_calls(point, &calls, &served)
    }

    /// Waits for the calls of each thread, and for the counts of the calls that the threads of the
    /// servers have together served.
    pub(crate) fn shared_counts(
        &mut self,
    ) -> Result<(Vec<Calls>, Vec<Vec<ReceiverCount>>), Failure> {
        let (calls, served) = self.served_calls()?;
        for (index, thread) in calls.iter().enumerate() {
            let shares = served.iter().filter_map(|server| server.get(index));
            are_served(thread.total, shares.map(|count| count.total).sum())?;
        }
        Ok((calls, served))
    }

    /// Waits for the calls of each thread, and for the counts of the calls that the threads of each
    /// server have served.
    fn served_calls(&mut self) -> Result<(Vec<Calls>, Vec<Vec<ReceiverCount>>), Failure> {
        let calls = self.own_calls()?;
        // The number only tells a server that no more calls come: the server has its own count.
        let served = self.counts(calls.iter().map(|thread| thread.total).collect())?;
        Ok((calls, served))
    }

    fn point_of_calls(
        &self,
        point: PointSpec,
        calls: &[Calls],
        served: &[Vec<ReceiverCount>],
    ) -> Result<Point, Failure> {
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
        let (mut work, times) = work::of(calls, served, arrivals, point.limit)?;
        work.servers_per_call = self.job.benchmark.servers_per_call(served.len());
        let streams: Vec<_> = calls.iter().filter_map(Calls::stream).collect();
        Ok(Point {
            validated,
            operation_time: times.and_then(|times| Distribution::of(&times.histogram, 1)),
            work: Some(work),
            bandwidth: (!streams.is_empty()).then(|| Bandwidth::of(&streams, point.limit)),
            disorder,
            ..self.new_point(point)
        })
    }

    pub(crate) fn close(mut self) {
        // The results are in hand: a server that has gone by now does no harm.
        let _ = self.group.send(&Message::Bye);
    }
}

/// Names nodes by their hosts, or by their numbers if several are on one host.
fn node_names(targets: &[Target]) -> Vec<String> {
    let ours = crate::host::name();
    let hosts = std::iter::once(&*ours).chain(targets.iter().map(|target| &*target.host));
    let different: BTreeSet<&str> = hosts.clone().collect();
    let has_own_host = different.len() > targets.len() && !targets.iter().any(Target::is_here);
    let name = |(node, host): (usize, &str)| match has_own_host {
        true => host.to_owned(),
        false => format!("node {node}"),
    };
    hosts.enumerate().map(name).collect()
}

/// Fails if the number of calls that were served is not the number that were made.
fn are_served(made: u64, served: u64) -> Result<(), Failure> {
    match made == served {
        true => Ok(()),
        false => Err(Failure::Data(format!("{served} calls were served of {made} made"))),
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
    // A thread that still waits for a lost or damaged message of the warm-up learns that it will
    // not come.
    group.send(&Message::Working)?;
    group.expect(&Message::Ready, "warming up")?;
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_called_by_their_hosts_where_each_has_its_own() {
        let names = |hosts: &[&str]| {
            let targets: Vec<Target> =
                hosts.iter().map(|host| Target::parse(host, 7).expect("a target")).collect();
            node_names(&targets)
        };
        assert_eq!(names(&["db1", "db2:9"])[1..], ["db1", "db2"]);
        assert_eq!(names(&["db1:7", "db1:8"]), ["node 0", "node 1", "node 2"]);
        assert_eq!(names(&["127.0.0.1"]), ["node 0", "node 1"]);
    }
}
