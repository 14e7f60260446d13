//! All measuring threads of one side of a session, and the steps that they take together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench_record::failure::Failure;
use bench_record::spec::{JobSpec, PointSpec};
use bench_record::{FabricRecord, Timeline};

use crate::bench::Measured;
use crate::exchange::{Control, Signals};
use crate::lane::{self, Command, Lane, Opened, Report, Side, Task};
use crate::live::{Live, Watched};
use crate::numa;
use crate::refusal::Refusal;
use crate::timeline;
use crate::workload::Functions;

/// All measuring threads of one side of a session. Dropping it ends the threads and waits for them,
/// so that no library is unloaded while they use it.
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    signals: Signals,
    watched: Option<Watched>,
}

impl Lanes {
    /// Starts the threads and lets them open their endpoints. Returns the fabric that they found.
    /// `sources`: this side's IP address as each peer sees it; `cpus`: the processors of the
    /// threads, in turn; empty: any; `node`: the NUMA node of the processors and the memory;
    /// `live`: the watcher of the course.
    pub(crate) fn open(
        job: &Arc<JobSpec>,
        side: Side,
        signals: Signals,
        sources: &[Option<String>],
        cpus: &[usize],
        node: Option<usize>,
        live: Option<&Live>,
    ) -> Result<(Self, FabricRecord), Failure> {
        let near = node.map(numa::cpus).transpose()?.unwrap_or_default();
        let cpus = numa::choose(node, cpus)?;
        let functions = Functions::of(job.benchmark);
        let tell = (0..job.threads).filter(|thread| (functions.has_course)(*thread)).count();
        let (watched, watcher) = live.map(|live| Watched::new(live, tell)).unzip();
        let mut this = Self { lanes: Vec::new(), signals, watched };
        let peers: Vec<_> = job.peers().into_iter().zip(sources.iter().cloned()).collect();
        // Each server on a machine takes other processors than the server before.
        let first_cpu = job.node.saturating_sub(1) * job.threads;
        for index in 0..job.threads {
            let cpu = |cpus: &[usize]| cpus[(first_cpu + index) % cpus.len()];
            let wants = (functions.wants)(job, side, index);
            lane::affordable(&wants)?;
            let task = Task {
                job: Arc::clone(job),
                side,
                wants,
                first_endpoint: (index * job.endpoints * peers.len()) as u64,
                peers: peers.clone(),
                thread: index,
                near: near.clone(),
                watcher: watcher.clone(),
                cpu: (!cpus.is_empty()).then(|| cpu(&cpus)),
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
        let fabric = fabric.ok_or(Refusal::NoThread)?;
        let numa_node = numa::node_of(&fabric.domain);
        Ok((this, FabricRecord { numa_node, ..*fabric }))
    }

    /// Carries the threads' messages over the connection to their next peer (or to the client, who
    /// passes them on), until all threads are connected to that peer.
    pub(crate) fn link(&self, control: &mut Control) -> Result<(), Failure> {
        loop {
            let mut words = Vec::new();
            let (mut waiting, mut linked) = (0, 0);
            for lane in &self.lanes {
                match lane.report()? {
                    Report::Exchange(ours) => words.push(ours),
                    Report::Barrier => waiting += 1,
                    Report::Linked => linked += 1,
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
            } else if linked == self.lanes.len() {
                return Ok(());
            } else {
                return Err(Failure::Check("threads out of step".to_owned()));
            }
        }
    }

    /// Lets the threads, which are connected to all peers by now, meet at `barrier` and warm up.
    /// Returns the set-up of the first thread.
    pub(crate) fn warm_up(
        &self,
        barrier: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Opened, Failure> {
        self.expect("connecting", 0, |report| matches!(report, Report::Barrier))?;
        barrier()?;
        self.tell_from(0, |_| Command::Go);
        let mut first = None;
        for lane in &self.lanes {
            match lane.report()? {
                Report::Ready(opened) => first = first.or(Some(opened)),
                other => return Err(Failure::unexpected("warming up", "an end of it", &other)),
            }
        }
        first.ok_or_else(|| Failure::Check("a session of no thread".to_owned()))
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Sends a command to each lane from `first` on; `command` makes it from the lane's number.
    pub(crate) fn tell_from(&self, first: usize, mut command: impl FnMut(usize) -> Command) {
        for (index, lane) in self.lanes.iter().enumerate().skip(first) {
            lane.tell(command(index));
        }
    }

    /// Starts a point. Returns when every lane is ready for its messages.
    pub(crate) fn begin(&self, point: PointSpec) -> Result<(), Failure> {
        self.tell_from(0, |_| Command::Measure(point));
        self.expect("beginning", 0, |report| matches!(report, Report::Begun))
    }

    /// Returns when the windows of all lanes from `first` on are over.
    pub(crate) fn windows_closed(&self, first: usize) -> Result<(), Failure> {
        self.expect("measuring", first, |report| matches!(report, Report::WindowClosed))
    }

    fn expect(&self, doing: &str, first: usize, is_it: fn(&Report) -> bool) -> Result<(), Failure> {
        for lane in self.lanes.iter().skip(first) {
            let report = self.report(lane)?;
            if !is_it(&report) {
                return Err(Failure::unexpected(doing, "another report", &report));
            }
        }
        Ok(())
    }

    /// Waits for the next report of a lane. Meanwhile the watcher is told what happens.
    fn report(&self, lane: &Lane) -> Result<Report, Failure> {
        let Some(watched) = &self.watched else { return lane.report() };
        loop {
            let report = lane.report_within(watched.pause())?;
            watched.say();
            if let Some(report) = report {
                return Ok(report);
            }
        }
    }

    /// Waits for the next report of a lane like [`Lanes::report`], but for at most `time`.
    fn report_within(&self, lane: &Lane, time: Duration) -> Result<Option<Report>, Failure> {
        let Some(watched) = &self.watched else { return lane.report_within(time) };
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let report = lane.report_within(left.min(watched.pause()))?;
            watched.say();
            if report.is_some() || left.is_zero() {
                return Ok(report);
            }
        }
    }

    /// Returns the course of the last point, of all lanes that tell it.
    pub(crate) fn timeline(&self) -> Option<Timeline> {
        self.watched.iter().for_each(Watched::close);
        let courses: Vec<_> = self.lanes.iter().filter_map(Lane::course).collect();
        timeline::together(&courses)
    }

    /// Fails if a thread has failed, while none has anything to report.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        for lane in &self.lanes {
            if let Some(report) = lane.report_within(Duration::ZERO)? {
                return Err(Failure::unexpected("measuring", "no report", &report));
            }
        }
        Ok(())
    }

    /// Waits for the result of each of the first `count` lanes.
    pub(crate) fn first_results(&self, count: usize) -> Result<Vec<Measured>, Failure> {
        let result = |lane: &Lane| match self.report(lane)? {
            Report::Measured(measured) => Ok(measured),
            other => Err(Failure::unexpected("measuring", "a result", &other)),
        };
        self.lanes.iter().take(count).map(result).collect()
    }

    /// Waits for the result of each lane.
    pub(crate) fn results(&self) -> Result<Vec<Measured>, Failure> {
        self.first_results(self.lanes.len())
    }

    /// Waits for the result of each lane from `first` on; `waiting` is called at the interval
    /// `every` meanwhile.
    pub(crate) fn results_with(
        &self,
        first: usize,
        every: Duration,
        mut waiting: impl FnMut() -> Result<(), Failure>,
    ) -> Result<Vec<Measured>, Failure> {
        let mut results = Vec::with_capacity(self.lanes.len());
        for lane in self.lanes.iter().skip(first) {
            let report = loop {
                match self.report_within(lane, every)? {
                    Some(report) => break report,
                    None => waiting()?,
                }
            };
            match report {
                Report::Measured(measured) => results.push(measured),
                other => return Err(Failure::unexpected("measuring", "a result", &other)),
            }
        }
        Ok(results)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.signals.end();
        self.lanes.iter_mut().for_each(Lane::end);
        self.lanes.iter_mut().for_each(Lane::join);
    }
}
