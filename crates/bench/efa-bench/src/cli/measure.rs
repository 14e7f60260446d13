//! The options that say how to measure, and what they mean together.

use std::path::PathBuf;

use bench_engine::client::MeasureRequest;
use bench_engine::measure::Until;
use bench_engine::{SEQUENCE_BYTES, host};
use bench_record::Ramp;
use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;
use bench_record::names::{Name, Preset};
use bench_record::spec::{
    Arrivals, EndpointKind, Flow, JobSpec, Limit, Operation, Order, Window, parse_bytes,
    parse_list, within,
};
use bench_record::topology::NODES_MAX;
use bench_record::workload::{JobRequest, WorkArgs};
use bench_report::judge::Assertion;
use clap::Args;

use super::options::GivenOptions;
use crate::floor;

mod clocked;

/// Blocks of each step of a ramp.
const RAMP_BLOCKS: usize = 3;

/// How to measure and where to put the results.
#[derive(Debug, Clone, Args)]
pub(crate) struct MeasureArgs {
    /// What to measure: libfabric:PROVIDER, verbs:srd, verbs:ud, verbs:rc, sockets:tcp or
    /// sockets:udp; with local also floor:memory or floor:udp, which no fabric can exceed.
    #[arg(long, default_value = "libfabric:tcp")]
    pub(crate) fabric: FabricName,
    /// Short for --fabric libfabric:PROVIDER: efa, tcp, shm, sockets, ... (see `fi_info -l`).
    #[arg(short, long, conflicts_with = "fabric")]
    pub(crate) provider: Option<String>,
    /// Name of the domain (device) [default: the first].
    #[arg(long)]
    pub(crate) domain: Option<String>,
    /// Type of endpoint [default: that of the fabric].
    #[arg(short, long)]
    pub(crate) endpoint: Option<EndpointKind>,
    /// Operation that moves the bytes [default: that of the benchmark's name].
    #[arg(long)]
    pub(crate) op: Option<Operation>,
    /// Message sizes in bytes [default: 1..8192, for some benchmarks their own].
    ///
    /// Write 64, or 1,2,1000, or 1..8192 (powers of two), or 7000..9000+100 (steps).
    #[arg(short, long)]
    pub(crate) sizes: Option<String>,
    /// Operations in flight [default: 256 for streams and open_loop, 1 for rma and atomics, else
    /// the benchmark's own].
    ///
    /// It is written like --sizes. Every size is measured with every depth. The defaults of the
    /// others are 1,8,32,128 for rpc, kv and index, 1,8,64 for 2pc, 1,16 for log, 64 for fileget,
    /// incast and shuffle, 16 for piggyback, and 10 for the streams of sat_latency.
    #[arg(short, long)]
    pub(crate) depth: Option<String>,
    /// When a stream posts its next operation.
    #[arg(long, default_value = "sliding")]
    pub(crate) window: Window,
    /// Ask for a completion of every Nth operation, for streams.
    #[arg(long)]
    pub(crate) complete_every: Option<usize>,
    /// Hand this many operations to the fabric at once, for streams: FI_MORE, lists of requests.
    #[arg(long, default_value_t = 1)]
    pub(crate) post_list: usize,
    /// Sleep until a completion comes, instead of polling for it (perftest's -e).
    ///
    /// Latency then includes the cost of a wake-up, and processors are free meanwhile.
    #[arg(long)]
    pub(crate) events: bool,
    /// How the receiver of a stream treats the order of messages (bandwidth) [default: any].
    ///
    /// With several values, each point is measured with each of them.
    #[arg(long, value_delimiter = ',')]
    pub(crate) order: Vec<Order>,
    /// Take messages from this much memory at random offsets, for streams: 4096, 64M, 20G.
    ///
    /// Powers of two. One-sided operations go to as much memory of the peer.
    #[arg(long, value_parser = parse_bytes)]
    pub(crate) memory: Option<usize>,
    /// Operations per second of each thread that posts at due times, written like --sizes.
    ///
    /// It is for the requests of open_loop (default: 1000,2000,4000,8000,16000), the streams of
    /// sat_latency, the operations of rpc, kv, index, fileget, piggyback, log and 2pc, and
    /// connections (default of all these: as fast as they can).
    #[arg(long)]
    pub(crate) rate: Option<String>,
    /// Find the highest rate whose p99 stays below a bound; without a value, p99<1ms.
    ///
    /// Times count from when an operation was due. The search begins at --rate, where that makes
    /// 100 operations in a block, and the middle of --blocks (default: 3) decides at each rate. It
    /// ends when the highest rate that held and the lowest that did not are within 10 % of each
    /// other.
    #[arg(long, value_name = "BOUND", num_args = 0..=1, default_missing_value = "p99<1ms",
        conflicts_with_all = ["iterations", "until", "runs"])]
    pub(crate) ramp: Option<Ramp>,
    /// How operations at due times (open_loop, --rate, --ramp) are spread over time.
    ///
    /// It is not for the streams of sat_latency, which send at equal distances.
    #[arg(long, default_value = "poisson")]
    pub(crate) arrivals: Arrivals,
    /// Bytes of a message in the streams of sat_latency.
    #[arg(long, default_value_t = 8192)]
    pub(crate) load_size: usize,
    /// Measuring threads of each side [default: 1, for sat_latency and multi_latency 2].
    ///
    /// Each thread has endpoints of its own. In sat_latency one measures and the others stream.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Endpoint pairs (queue pairs) of each thread, or flows of each server [default: 1, for incast
    /// 4].
    ///
    /// --depth and --rx-depth are those of each pair.
    #[arg(long)]
    pub(crate) endpoints: Option<usize>,
    /// Processors of the client's measuring threads, in turn: 1, or 0,2,4.
    ///
    /// 'local' chooses a processor by itself for a single thread.
    #[arg(long, value_delimiter = ',')]
    pub(crate) cpu: Vec<usize>,
    /// Processors of the server's measuring threads.
    #[arg(long, value_delimiter = ',')]
    pub(crate) server_cpu: Vec<usize>,
    /// NUMA node of the client's measuring threads.
    ///
    /// They run on its processors and take their memory there. The result names the node of the
    /// adapter.
    #[arg(long, value_name = "NODE")]
    pub(crate) numa: Option<usize>,
    /// NUMA node of the server's measuring threads.
    #[arg(long, value_name = "NODE")]
    pub(crate) server_numa: Option<usize>,
    /// Do not read the counters of adapters, which takes time at each point.
    #[arg(long)]
    pub(crate) no_counters: bool,
    /// Do not choose processors (local).
    #[arg(long)]
    pub(crate) no_pin: bool,
    /// Receives posted at the receiver [default: the depth of each point].
    #[arg(long)]
    pub(crate) rx_depth: Option<usize>,
    /// A limit that the result must keep, such as 'latency/64B p99 < 30us'; may be repeated.
    #[arg(long = "assert", value_name = "LIMIT")]
    pub(crate) assertions: Vec<Assertion>,
    /// Seconds that each block of a point is measured.
    #[arg(short = 't', long, default_value_t = 0.2, conflicts_with = "iterations")]
    pub(crate) duration: f64,
    /// Messages (round trips) that each block measures, instead of a time.
    #[arg(short = 'n', long)]
    pub(crate) iterations: Option<u64>,
    /// Blocks in which each point is measured [default: 5, with --iterations 1].
    ///
    /// They are spread over the run in shuffled order, and the middle one counts.
    #[arg(long)]
    pub(crate) blocks: Option<usize>,
    /// Sessions in which everything is measured, one after the other.
    ///
    /// Each of several sessions gives one value of a point, so the interval also covers the
    /// differences between sessions.
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: usize,
    /// Measure until the 95 % interval of each point is this narrow: ci=2%,max=60s.
    #[arg(long, value_parser = Until::parse, conflicts_with = "blocks")]
    pub(crate) until: Option<Until>,
    /// Seed of the order of blocks and of random offsets [default: another one each time].
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Seconds of warm-up before each block, which are not measured.
    #[arg(short, long, default_value_t = 0.1)]
    pub(crate) warmup: f64,
    /// Check the content of every message. This costs time: do not compare the figures with others.
    #[arg(long)]
    pub(crate) validate: bool,
    /// Give up when nothing happens for this many seconds.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) timeout: f64,
    /// Leave the histograms of all times out of the results.
    #[arg(long)]
    pub(crate) no_histogram: bool,
    /// While a block is measured, print a line at this interval in seconds (without a value: 1).
    ///
    /// The result keeps these intervals, and the report draws them. Make --duration long enough for
    /// several.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    pub(crate) watch: Option<f64>,
    /// Name of the run in tables and plots [default: the provider].
    #[arg(long, default_value = "")]
    pub(crate) name: String,
    /// Write the results as JSON; - is standard output, which then has no table.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write the results as CSV; - is standard output, which then has no table.
    #[arg(long)]
    pub(crate) csv: Option<PathBuf>,
    /// Write a report as HTML.
    #[arg(long)]
    pub(crate) html: Option<PathBuf>,
    /// Print neither progress nor a table.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// Do not look whether the machine is quiet (a plan has looked for all its runs).
    #[arg(long, hide = true)]
    pub(crate) no_host_checks: bool,
    /// End when standard input is closed (a plan has died).
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
    /// Which of all these were given.
    #[arg(skip)]
    pub(crate) given: GivenOptions,
}

/// A time given in seconds, in whole milliseconds.
pub(crate) fn millis(name: &str, seconds: f64, at_least: f64) -> Result<u64, Failure> {
    const DAY_S: f64 = 86_400.0;
    if !seconds.is_finite() || seconds < at_least || seconds > DAY_S {
        return Err(Failure::Usage(format!(
            "{name} {seconds}: give a number of seconds from {at_least} to {DAY_S}"
        )));
    }
    Ok((seconds * 1_000.0).round() as u64)
}

impl MeasureArgs {
    pub(crate) fn fabric(&self) -> FabricName {
        self.provider.clone().map_or_else(|| self.fabric.clone(), FabricName::Libfabric)
    }

    /// The request these arguments mean between so many nodes.
    pub(crate) fn request(&self, name: Name, nodes: usize) -> Result<MeasureRequest, Failure> {
        let fabric = self.fabric();
        if matches!(fabric, FabricName::Ucx(_)) {
            return Err(fabric.is_for_mpi());
        }
        let preset = name.preset();
        if floor::asked_for(&fabric).is_some() {
            floor::check(&fabric, preset.benchmark, nodes, &self.given)?;
        }
        let list = |option: &str, text: &str| {
            parse_list(text).map_err(|reason| Failure::Usage(format!("{option}: {reason}")))
        };
        let sizes = match &self.sizes {
            None if preset.sizes.is_empty() => vec![0],
            sizes => list("--sizes", sizes.as_deref().unwrap_or(preset.sizes))?,
        };
        let depths = match preset.benchmark.has_depth() {
            true => list("--depth", self.depth.as_deref().unwrap_or(preset.depth))?,
            false => vec![1],
        };
        // A ramp begins where it finds best.
        let usual_rates = if self.ramp.is_some() { "" } else { preset.rates };
        let rates = match self.rate.as_deref().unwrap_or(usual_rates) {
            "" => vec![0],
            rates => list("--rate", rates)?,
        };
        let max_depth = depths.iter().copied().max().unwrap_or(1);
        let limit = match self.iterations {
            Some(0) => return Err(Failure::Usage("--iterations 0: give 1 or more".to_owned())),
            Some(n) => Limit::Iterations(n),
            None => Limit::DurationMs(millis("--duration", self.duration, 0.001)?),
        };
        let warmup_ms =
            if self.iterations.is_some() { 0 } else { millis("--warmup", self.warmup, 0.0)? };
        const RUNS_MAX: usize = 1000;
        within("--runs", self.runs, 1..=RUNS_MAX).map_err(Failure::Usage)?;
        if self.rx_depth == Some(0) {
            return Err(Failure::Usage("--rx-depth 0: give 1 or more".to_owned()));
        }
        let job = self.job(preset, nodes, &sizes, max_depth)?;
        let parameters = self.work.parameters(&preset)?;
        check(name, &job, &sizes, &depths, self.validate)?;
        self.check_rate(&rates)?;
        self.check_ramp(&rates)?;
        let orders = self.orders(&job, &sizes)?;
        Ok(MeasureRequest {
            name: self.name.clone(),
            test: name.text(),
            job,
            sizes,
            depths,
            rx_depth: self.rx_depth,
            parameters,
            orders,
            rates_per_s: rates.into_iter().map(|rate| rate as u64).collect(),
            limit,
            warmup_ms,
            validate: self.validate,
            histograms: !self.no_histogram,
            counters: !self.no_counters,
            watch: self.watched_every()?,
            ramp: self.ramp,
            until: match self.ramp {
                Some(_) => Until::of(None, self.blocks.or(Some(RAMP_BLOCKS)), None::<u64>)?,
                None => Until::of(self.until, self.blocks, self.iterations)?,
            },
            runs: self.runs,
            cpus: self.cpu.clone(),
            numa: self.numa,
        })
    }

    /// Refuses to ask for the order of what has none, or no room for numbers.
    fn orders(&self, job: &JobSpec, sizes: &[usize]) -> Result<Vec<Order>, Failure> {
        if self.order.iter().all(Order::is_any) {
            return Ok(vec![Order::Any]);
        }
        let wrong = |text: String| Err(Failure::Usage(format!("--order: {text}")));
        if job.flow.complete_every > 1 {
            return wrong("it is for streams of messages that each complete".to_owned());
        }
        if job.endpoint == EndpointKind::Dgram && self.order.contains(&Order::Kept) {
            return wrong("a datagram that is lost would be waited for without end".to_owned());
        }
        match sizes.iter().find(|size| **size < SEQUENCE_BYTES) {
            Some(size) => wrong(format!("{size} B have no room for a number of {SEQUENCE_BYTES}")),
            None => Ok(report::distinct(self.order.iter().copied())),
        }
    }

    /// What all sides open.
    fn job(
        &self,
        preset: Preset,
        nodes: usize,
        sizes: &[usize],
        max_depth: usize,
    ) -> Result<JobSpec, Failure> {
        let is_loaded = preset.benchmark.about().reads("load_size");
        let load_size = if is_loaded { self.load_size } else { 0 };
        let fabric = self.fabric();
        Ok(JobSpec {
            benchmark: preset.benchmark,
            nodes,
            node: 0,
            crowded: false,
            endpoint: self.endpoint.unwrap_or_else(|| fabric.endpoint()),
            fabric,
            domain: self.domain.clone(),
            operation: self
                .op
                .or_else(|| self.work.operation(preset.benchmark))
                .unwrap_or(preset.operation),
            flow: self.flow(preset),
            arrivals: self.arrivals,
            load_size_bytes: load_size,
            work: self.work.spec(&preset)?,
            max_size_bytes: sizes.iter().copied().max().unwrap_or(1).max(load_size),
            memory_bytes: self.memory.unwrap_or(preset.memory_bytes),
            seed: self.seed.unwrap_or_else(host::seed),
            threads: self.threads.unwrap_or(preset.threads),
            endpoints: self.endpoints.unwrap_or(preset.endpoints),
            tx_depth: max_depth,
            rx_depth: self.rx_depth.unwrap_or(max_depth),
            timeout_ms: millis("--timeout", self.timeout, 0.1)?,
            server_cpus: self.server_cpu.clone(),
            server_numa: self.server_numa,
        })
    }

    const fn flow(&self, preset: Preset) -> Flow {
        let complete_every = match self.complete_every {
            Some(every) => every,
            None => preset.complete_every,
        };
        Flow { window: self.window, complete_every, post_list: self.post_list, events: self.events }
    }
}

/// Refuses what contradicts itself.
fn check(
    name: Name,
    job: &JobSpec,
    sizes: &[usize],
    depths: &[usize],
    validate: bool,
) -> Result<(), Failure> {
    let wrong = |text: String| Failure::Usage(format!("{}: {text}", name.text()));
    let about = job.benchmark.about();
    if job.nodes > 2 && !about.is_for_groups {
        return Err(wrong(format!("{} nodes: it is measured between two", job.nodes)));
    }
    if !(2..=NODES_MAX).contains(&job.nodes) {
        return Err(wrong(format!("{} nodes: give 2 to {NODES_MAX}", job.nodes)));
    }
    let shortest = depths.iter().copied().min().unwrap_or(1);
    about.check(&JobRequest { job, sizes, shortest, validate }).map_err(wrong)
}
