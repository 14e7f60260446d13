//! What a workload's client asks for, and the options that say so.

mod collective;
mod incast;
mod log;

use clap::Args;
use serde::{Deserialize, Serialize};

pub use self::collective::{Algorithm, CollectiveSpec, Pattern};
pub use self::incast::{IncastArgs, IncastSpec};
pub use self::log::{Ack, Commit, LogArgs, LogSpec};
use crate::fabric_name::FabricName;
use crate::failure::Failure;
use crate::spec::{Benchmark, EndpointKind, Flow, JobSpec, Operation, parse_bytes, parse_list};

/// Keys where nothing else is said: their values do not fit into any cache near a core.
const KEYS: usize = 1 << 20;
/// Request of an RPC in bytes, as in the measurements of HERD, FaSST and eRPC.
const REQUEST_BYTES: usize = 32;
/// Records of a message where nothing else is said.
const RECORDS: &str = "1..128";
/// Bytes of a chunk where nothing else is said.
const CHUNK: &str = "64K";
/// Bytes of a message of a flow where nothing else is said: with its header within the MTU of an EFA.
const PART: &str = "8K";
/// Bytes of a buffer of tuples where nothing else is said: with its header within the MTU of an EFA.
const BUFFER: &str = "8K";
/// Faster links are a mistake.
const LINK_GBIT_MAX: f64 = 100_000.0;
/// Longer chunks are a mistake.
const CHUNK_MAX: usize = 1 << 28;
/// More records than this in a message are a mistake.
const RECORDS_MAX: usize = 1 << 16;
/// A record waits no longer than this in µs.
const FLUSH_US_MAX: u64 = 1_000_000;
/// Rows of a participant.
const ROWS: usize = 1 << 16;
/// More keys than this are a mistake; their numbers have 40 bits.
const KEYS_MAX: usize = 1 << 32;

/// Bytes of a key, as HERD and FaSST have it.
pub const KEY_BYTES: usize = 16;
/// Levels of the tree of an index, its leaves included.
pub const INDEX_LEVELS: usize = 3;
/// Levels that a client of an index may keep: all inner ones.
pub const KEPT_MAX: usize = INDEX_LEVELS - 1;
/// The shortest tuple of a shuffle: its key.
pub const TUPLE_BYTES_MIN: usize = 8;

/// Where the server has the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// In memory of its own: each chunk is copied into a message.
    #[default]
    Memory,
    /// In the page cache: each chunk is read into a message.
    PageCache,
    /// In the page cache, and the kernel sends from there (TCP only).
    Sendfile,
}

impl Source {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::PageCache => "the page cache",
            Self::Sendfile => "the page cache by sendfile",
        }
    }
}

/// Who walks the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The owner, for each call.
    #[default]
    Rpc,
    /// The client, by READs of one node after the other.
    Read,
    /// The owner down to the leaf, which the client READs (Ziegler et al., SIGMOD 2019).
    Hybrid,
}

impl Way {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rpc => "RPC",
            Self::Read => "READ",
            Self::Hybrid => "RPC, then READ",
        }
    }
}

/// What the client of a workload asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkSpec {
    /// Body of a get in bytes: the key and what comes with it.
    pub request_bytes: usize,
    /// Keys of all server threads together.
    pub keys: usize,
    /// Gets of 100 calls; the others are puts.
    pub gets_percent: u32,
    /// Exponent of Zipf's law times 100; 0: all keys alike.
    pub zipf_hundredths: u32,
    /// The largest [`PointSpec::parameter`](crate::spec::PointSpec) of the session.
    #[serde(default)]
    pub parameter_max: usize,
    /// How long the first record of a message waits for others, in µs.
    #[serde(default)]
    pub flush_us: u64,
    /// Who walks the tree of an index.
    #[serde(default)]
    pub way: Way,
    /// Where the server has its file.
    #[serde(default)]
    pub source: Source,
    /// Transactions, whose rows are locked from prepare to end or not at all.
    #[serde(default)]
    pub transactions: bool,
    #[serde(default)]
    pub locks: bool,
    /// What the client's link takes in Mbit/s; 0: not told.
    #[serde(default)]
    pub link_mbit_per_s: u64,
    /// Of a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogSpec>,
    /// Of an operation of all ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<CollectiveSpec>,
    /// Of an incast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast: Option<IncastSpec>,
}

impl WorkSpec {
    /// Of benchmarks that are no workload.
    pub const NONE: Self = Self {
        request_bytes: 0,
        keys: 0,
        gets_percent: 0,
        zipf_hundredths: 0,
        parameter_max: 0,
        flush_us: 0,
        way: Way::Rpc,
        source: Source::Memory,
        transactions: false,
        locks: false,
        link_mbit_per_s: 0,
        log: None,
        collective: None,
        incast: None,
    };
}

/// What a workload's own parameter is, for the head of a column; `None`: it has none.
pub const fn parameter_name(benchmark: Benchmark) -> Option<&'static str> {
    match benchmark {
        Benchmark::Piggyback => Some("records/msg"),
        Benchmark::Index => Some("levels kept"),
        Benchmark::FileGet | Benchmark::Incast | Benchmark::Collective => Some("chunk B"),
        Benchmark::Shuffle => Some("buffer B"),
        _ => None,
    }
}

/// Whether `--keys` says how many keys there are.
const fn has_keys(benchmark: Benchmark) -> bool {
    matches!(benchmark, Benchmark::Rpc | Benchmark::Kv | Benchmark::TwoPhase | Benchmark::Shuffle)
}

/// Options of the workloads.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of workloads")]
pub struct WorkArgs {
    /// rpc: bytes of a request, key included; the response has --sizes. Default: 32.
    #[arg(long, value_parser = parse_bytes)]
    request: Option<usize>,
    /// Keys of the server (shuffle: that tuples have): 1000, 64K, 64M (powers of two). Default: 1M.
    #[arg(long, value_parser = parse_bytes)]
    keys: Option<usize>,
    /// kv: gets in percent of all calls, 0 to 100; the others are puts. Default: 95.
    #[arg(long, value_name = "PERCENT")]
    gets: Option<u32>,
    /// Ask for keys (shuffle: make tuples) by Zipf's law with this exponent, 0.01 to 0.99. Default: all keys alike.
    #[arg(long, value_name = "EXPONENT")]
    zipf: Option<f64>,
    /// piggyback: records that fill a message, like --sizes. Default: 1..128.
    #[arg(long)]
    records: Option<String>,
    /// piggyback: how long the first record of a message waits for others, in µs. Default: 0, a message
    /// takes along what is there.
    #[arg(long, value_name = "US")]
    flush_us: Option<u64>,
    /// index: who walks the tree; default: rpc.
    #[arg(long)]
    way: Option<Way>,
    /// index --way read: upper levels of the tree that the client keeps, 0 to 2, or several: 0,1,2.
    /// Default: 0.
    #[arg(long, value_delimiter = ',', value_name = "LEVELS")]
    kept: Vec<usize>,
    /// Bytes of a chunk, like --sizes: fileget (multiples of 8; default: 64K), incast and operations of all
    /// ranks (one, a multiple of 8; default: 8K).
    #[arg(long)]
    chunk: Option<String>,
    /// shuffle: bytes of tuples in a buffer, like --sizes. Default: 8K.
    #[arg(long)]
    buffer: Option<String>,
    /// fileget: where the server has the file; default: memory.
    #[arg(long)]
    from: Option<Source>,
    /// 2pc: lock rows (--keys at each participant, --zipf) while they are prepared; who finds one
    /// locked votes no.
    #[arg(long)]
    locks: bool,
    /// What a link takes in Gbit/s: incast, of the receiver (default: what one flow alone moves counts
    /// instead), and shuffle, of each node.
    #[arg(long, value_name = "GBIT")]
    link_gbit: Option<f64>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    incast: IncastArgs,
    /// allreduce: how; default: ring.
    #[arg(long)]
    algorithm: Option<Algorithm>,
}

impl WorkArgs {
    /// What the workload's own parameter is set to, one after the other.
    pub fn parameters(&self, benchmark: Benchmark) -> Result<Vec<usize>, Failure> {
        let numbers = |option: &str, text: &str, is_wrong: fn(&usize) -> bool, hint: String| {
            let wrong = |text: String| Failure::Usage(format!("{option}: {text}"));
            let numbers = parse_list(text).map_err(wrong)?;
            match numbers.iter().find(|number| is_wrong(number)) {
                Some(number) => Err(wrong(format!("{number}: give {hint}"))),
                None => Ok(numbers),
            }
        };
        match benchmark {
            Benchmark::Piggyback => {
                let text = self.records.as_deref().unwrap_or(RECORDS);
                let hint = format!("{RECORDS_MAX} at most");
                numbers("--records", text, |count| *count > RECORDS_MAX, hint)
            }
            Benchmark::FileGet => {
                let text = self.chunk.as_deref().unwrap_or(CHUNK);
                let hint = format!("multiples of 8, {CHUNK_MAX} at most");
                let is_wrong = |bytes: &usize| !bytes.is_multiple_of(8) || *bytes > CHUNK_MAX;
                numbers("--chunk", text, is_wrong, hint)
            }
            Benchmark::Collective => {
                let text = self.chunk.as_deref().unwrap_or(PART);
                let hint = format!("one multiple of 8, {CHUNK_MAX} at most");
                let is_wrong = |bytes: &usize| !bytes.is_multiple_of(8) || *bytes > CHUNK_MAX;
                match numbers("--chunk", text, is_wrong, hint.clone())?[..] {
                    [part_bytes] => Ok(vec![part_bytes]),
                    _ => Err(Failure::Usage(format!("--chunk {text}: give {hint}"))),
                }
            }
            Benchmark::Incast => {
                let text = self.chunk.as_deref().unwrap_or(PART);
                let hint = format!("{CHUNK_MAX} at most");
                numbers("--chunk", text, |bytes| *bytes > CHUNK_MAX, hint)
            }
            Benchmark::Shuffle => {
                let text = self.buffer.as_deref().unwrap_or(BUFFER);
                let hint = format!("{CHUNK_MAX} at most");
                numbers("--buffer", text, |bytes| *bytes > CHUNK_MAX, hint)
            }
            Benchmark::Index if !self.kept.is_empty() => {
                let mut kept = self.kept.clone();
                kept.sort_unstable();
                kept.dedup();
                Ok(kept)
            }
            _ => Ok(vec![0]),
        }
    }

    /// How a workload moves bytes where that is its own matter.
    pub fn operation(&self, benchmark: Benchmark) -> Option<Operation> {
        let reads = matches!(self.way, Some(Way::Read | Way::Hybrid));
        (benchmark == Benchmark::Index && reads).then_some(Operation::Read)
    }

    /// What they mean for a benchmark.
    pub fn spec(
        &self,
        benchmark: Benchmark,
        pattern: Option<Pattern>,
    ) -> Result<WorkSpec, Failure> {
        let wrong = |text: String| Err(Failure::Usage(format!("{}: {text}", benchmark.name())));
        let is_index = benchmark == Benchmark::Index;
        let is_kv = benchmark == Benchmark::Kv;
        let is_two_phase = benchmark == Benchmark::TwoPhase;
        if !self.kept.is_empty() && self.way != Some(Way::Read) {
            return wrong("--kept does nothing without --way read".to_owned());
        }
        if benchmark == Benchmark::Log {
            return Ok(WorkSpec { log: Some(self.log.spec()?), ..WorkSpec::NONE });
        }
        let parameters = self.parameters(benchmark)?;
        let parameter_max = parameters.into_iter().max().unwrap_or(0);
        if let Some(pattern) = pattern {
            let algorithm = self.algorithm.unwrap_or_default();
            let collective = Some(CollectiveSpec { pattern, algorithm });
            return Ok(WorkSpec { collective, parameter_max, ..WorkSpec::NONE });
        }
        if benchmark == Benchmark::Incast {
            let (incast, link_mbit_per_s) = (Some(self.incast.spec()?), self.link_mbit_per_s()?);
            return Ok(WorkSpec { incast, link_mbit_per_s, parameter_max, ..WorkSpec::NONE });
        }
        let flush_us = self.flush_us.unwrap_or(0);
        if flush_us > FLUSH_US_MAX {
            return wrong(format!("--flush-us {flush_us}: give {FLUSH_US_MAX} at most"));
        }
        if self.kept.iter().any(|kept| *kept > KEPT_MAX) {
            return wrong(format!("--kept: give 0 to {KEPT_MAX}, the tree has one more level"));
        }
        if !is_index && !has_keys(benchmark) {
            let source = self.from.unwrap_or_default();
            return Ok(WorkSpec { parameter_max, flush_us, source, ..WorkSpec::NONE });
        }
        let request_bytes = match benchmark {
            Benchmark::Rpc => self.request.unwrap_or(REQUEST_BYTES),
            _ => KEY_BYTES,
        };
        if request_bytes < KEY_BYTES {
            return wrong(format!(
                "--request {request_bytes}: its key alone has {KEY_BYTES} bytes"
            ));
        }
        // Those of an index follow from the length of its values.
        let usual = if is_two_phase { ROWS } else { KEYS };
        let keys = if is_index { 0 } else { self.keys.unwrap_or(usual) };
        if keys > KEYS_MAX {
            return wrong(format!("--keys {keys}: give {KEYS_MAX} at most"));
        }
        let gets_percent = if is_kv { self.gets.unwrap_or(95) } else { 100 };
        if gets_percent > 100 {
            return wrong(format!("--gets {gets_percent}: give 0 to 100"));
        }
        let zipf = self.zipf.unwrap_or(0.0);
        if self.zipf.is_some() && !(0.01..=0.99).contains(&zipf) {
            return wrong(format!("--zipf {zipf}: give 0.01 to 0.99"));
        }
        Ok(WorkSpec {
            request_bytes,
            keys,
            gets_percent,
            zipf_hundredths: (zipf * 100.0).round() as u32,
            parameter_max,
            flush_us,
            way: self.way.unwrap_or_default(),
            source: Source::Memory,
            transactions: is_two_phase,
            locks: self.locks,
            link_mbit_per_s: self.link_mbit_per_s()?,
            ..WorkSpec::NONE
        })
    }

    /// What the link takes; 0: nobody said it.
    fn link_mbit_per_s(&self) -> Result<u64, Failure> {
        let Some(gbit) = self.link_gbit else { return Ok(0) };
        if !(0.001..=LINK_GBIT_MAX).contains(&gbit) {
            let text = format!("--link-gbit {gbit}: give 0.001 to {LINK_GBIT_MAX}");
            return Err(Failure::Usage(text));
        }
        Ok((gbit * 1e3).round() as u64)
    }
}

/// Refuses what a workload cannot do; the words belong after the benchmark's name.
pub fn sound(job: &JobSpec) -> Result<(), String> {
    let Flow { complete_every, window, .. } = job.flow;
    if job.endpoint == EndpointKind::Dgram {
        return Err("calls need a reliable fabric: datagrams are not asked for again".to_owned());
    }
    let reads = job.work.way != Way::Rpc;
    if reads != (job.operation == Operation::Read) {
        return Err("--op is not for this way".to_owned());
    }
    if !reads && !matches!(job.operation, Operation::Send | Operation::Tagged) {
        return Err(format!("--op {} is not for calls", job.operation.name()));
    }
    if complete_every > 1 || job.memory_bytes > 0 || window != Flow::default().window {
        return Err("--window, --complete-every and --memory are for streams".to_owned());
    }
    if job.benchmark == Benchmark::Piggyback && job.flow.post_list > 1 {
        return Err("--post-list is for calls: --records says how many travel together".to_owned());
    }
    let has_chunks =
        [Benchmark::FileGet, Benchmark::Incast, Benchmark::Shuffle, Benchmark::Collective];
    if has_chunks.contains(&job.benchmark) && job.flow.post_list > 1 {
        return Err("--post-list is for calls, not for what comes in chunks".to_owned());
    }
    if job.benchmark == Benchmark::Collective && (job.threads > 1 || job.endpoints > 1) {
        return Err("a node is one rank: no --threads, no --endpoints".to_owned());
    }
    if job.benchmark == Benchmark::Incast && job.threads > 1 {
        return Err("one thread receives: --endpoints says how many flows a server has".to_owned());
    }
    if job.work.source == Source::Sendfile && job.fabric != FabricName::Tcp {
        return Err(format!("--from sendfile is for --fabric tcp, not {}", job.fabric));
    }
    let has_one = [Benchmark::TwoPhase, Benchmark::Shuffle];
    if has_one.contains(&job.benchmark) && job.endpoints > 1 {
        return Err("a thread has one endpoint to each other node: no --endpoints".to_owned());
    }
    job.work.log.map_or(Ok(()), |log| log::sound(job, log))
}
