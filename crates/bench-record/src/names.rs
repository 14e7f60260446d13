//! The benchmarks by name: those of the thesis that introduced this suite, and what each means.

use crate::spec::{Benchmark, Operation};
use crate::workload::Pattern;

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Ping-pong; half of each round trip.
    Latency,
    /// Ping-pong; round trips counted, not timed one by one.
    #[value(name = "ping_pong", alias = "ping-pong")]
    PingPong,
    /// latency with injected messages.
    Inject,
    /// latency with tagged messages.
    Tagged,
    /// latency around the MTU, in steps of 100 bytes.
    Segmentation,
    /// A stream with many messages in flight; goodput counted at the receiver.
    Bandwidth,
    /// The same; --window refill for the first suite's way.
    Batch,
    /// batch, with a completion for one of 16 messages.
    #[value(name = "batch_sel_comp", alias = "batch-sel-comp")]
    BatchSelComp,
    /// batch, out of 256 MiB at random offsets.
    #[value(name = "batch_large_buffer", alias = "batch-large-buffer")]
    BatchLargeBuffer,
    /// WRITEs (--op read: READs) of the peer's memory, one at a time.
    Rma,
    /// rma with many in flight.
    #[value(name = "rma_batch", alias = "rma-batch")]
    RmaBatch,
    /// Injected WRITEs.
    #[value(name = "rma_inject", alias = "rma-inject")]
    RmaInject,
    /// `rma_batch`, with a completion for one of 16.
    #[value(name = "rma_sel_comp", alias = "rma-sel-comp")]
    RmaSelComp,
    /// `rma_batch` between 256 MiB at random offsets on both sides.
    #[value(name = "rma_large_buffer", alias = "rma-large-buffer")]
    RmaLargeBuffer,
    /// Requests by the clock (--rate), not after answers; response and service times.
    #[value(name = "open_loop", alias = "open-loop")]
    OpenLoop,
    /// latency of one thread while the others stream (--rate, --load-size).
    #[value(name = "sat_latency", alias = "sat-latency")]
    SatLatency,
    /// Calls answered from a hash table; --sizes is the response.
    Rpc,
    /// Gets and puts of a key-value store; --sizes is the value.
    Kv,
    /// Records that come by the clock (--rate) or without end, several to a message; --sizes is the
    /// record.
    Piggyback,
    /// Lookups in a B+-tree of the server, by calls or by READs of its nodes (--way); --sizes is the
    /// value.
    Index,
    /// Files of the server, streamed in chunks (--chunk) out of --from; --sizes is the file, --depth how
    /// many chunks may be on their way.
    #[value(name = "fileget")]
    FileGet,
    /// Log shipping from the client to every server; --sizes is the record, --depth the groups that
    /// are not committed (1: synchronous).
    Log,
    /// Two-phase commit of transactions at every server; --sizes is the record, --depth the
    /// transactions outstanding.
    #[value(name = "2pc", alias = "twopc")]
    TwoPhase,
    /// Flows of every server (--endpoints each) into the client, all at once (--persistent: all the
    /// time); --sizes is the transfer, --depth the messages (--chunk) on their way in a flow.
    Incast,
    /// Tuples of every node, each to the owner of its key's partition; --sizes is the tuple, --depth the
    /// buffers (--buffer) on their way to each node.
    Shuffle,
    /// Every node gets what each has, round a ring; --sizes is the part of each.
    Allgather,
    /// Every node gets the sum of what all have (32-bit integers), by --algorithm.
    Allreduce,
    /// Every node waits for all, by dissemination.
    Barrier,
    /// Every node gets what the client has, down a binomial tree.
    Bcast,
}

/// What a name means where nothing else is said.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    pub benchmark: Benchmark,
    pub operation: Operation,
    pub sizes: &'static str,
    pub depth: &'static str,
    pub complete_every: usize,
    pub memory_bytes: usize,
    /// Messages per second of a thread; "": as fast as it can.
    pub rates: &'static str,
    pub threads: usize,
    pub endpoints: usize,
    /// Nodes of `local`.
    pub nodes: usize,
    /// Which operation of all ranks.
    pub pattern: Option<Pattern>,
}

const SIZES: &str = "1..8192";
const SMALL_SIZES: &str = "1..32";
const SEGMENTATION_SIZES: &str = "7000..11900+100";
const CALL_SIZES: &str = "32";
const VALUE_SIZES: &str = "8";
const FILE_SIZES: &str = "1M,16M,256M";
/// Chunks of a file that may be on their way.
const FILE_DEPTH: &str = "64";
/// Messages of records that wait for their answer.
const PIGGYBACK_DEPTH: &str = "16";
const CALL_DEPTHS: &str = "1,8,32,128";
const RECORD_SIZES: &str = "128,1024";
const LOG_DEPTHS: &str = "1,16";
const TRANSFER_SIZES: &str = "64K,256K,1M,2M";
const RANK_SIZES: &str = "4..1048576";
const TUPLE_SIZES: &str = "16,64,256,1024";
const FLOW_DEPTH: &str = "64";
const TRANSACTION_DEPTHS: &str = "1,8,64";
const DEPTH: &str = "256";
const ONE_SIZE: &str = "64";
const RATES: &str = "1000,2000,4000,8000,16000";
/// As the first suite's generators had.
const LOAD_DEPTH: &str = "10";
const COMPLETE_EVERY: usize = 16;
const MEMORY_BYTES: usize = 256 << 20;

impl Preset {
    const LATENCY: Self = Self {
        benchmark: Benchmark::Latency,
        operation: Operation::Send,
        sizes: SIZES,
        depth: "1",
        complete_every: 1,
        memory_bytes: 0,
        rates: "",
        threads: 1,
        endpoints: 1,
        nodes: 2,
        pattern: None,
    };
    const STREAM: Self = Self { benchmark: Benchmark::Bandwidth, depth: DEPTH, ..Self::LATENCY };
    const RPC: Self =
        Self { benchmark: Benchmark::Rpc, sizes: CALL_SIZES, depth: CALL_DEPTHS, ..Self::LATENCY };
    /// Of several nodes.
    const GROUP: Self = Self { nodes: 3, ..Self::LATENCY };
    const LOG: Self =
        Self { benchmark: Benchmark::Log, sizes: RECORD_SIZES, depth: LOG_DEPTHS, ..Self::GROUP };
    const TWO_PHASE: Self = Self {
        benchmark: Benchmark::TwoPhase,
        sizes: ONE_SIZE,
        depth: TRANSACTION_DEPTHS,
        ..Self::GROUP
    };
    const INCAST: Self = Self {
        benchmark: Benchmark::Incast,
        sizes: TRANSFER_SIZES,
        depth: FLOW_DEPTH,
        endpoints: 4,
        ..Self::GROUP
    };
    const SHUFFLE: Self = Self {
        benchmark: Benchmark::Shuffle,
        sizes: TUPLE_SIZES,
        depth: FLOW_DEPTH,
        ..Self::GROUP
    };
    /// An operation of all ranks.
    const fn of_ranks(pattern: Pattern) -> Self {
        let sizes = RANK_SIZES;
        Self { benchmark: Benchmark::Collective, sizes, pattern: Some(pattern), ..Self::GROUP }
    }

    const RMA: Self =
        Self { benchmark: Benchmark::Rma, operation: Operation::Write, ..Self::LATENCY };
}

impl Name {
    pub fn text(self) -> String {
        use clap::ValueEnum;
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }

    pub const fn preset(self) -> Preset {
        let memory_bytes = MEMORY_BYTES;
        let complete_every = COMPLETE_EVERY;
        let latency = Preset::LATENCY;
        let stream = Preset::STREAM;
        let rma = Preset::RMA;
        match self {
            Self::Latency => latency,
            Self::PingPong => Preset { benchmark: Benchmark::PingPong, ..latency },
            Self::Inject => Preset { operation: Operation::Inject, sizes: SMALL_SIZES, ..latency },
            Self::Tagged => Preset { operation: Operation::Tagged, ..latency },
            Self::Segmentation => Preset { sizes: SEGMENTATION_SIZES, ..latency },
            Self::Bandwidth | Self::Batch => stream,
            Self::BatchSelComp => Preset { complete_every, ..stream },
            Self::BatchLargeBuffer => Preset { memory_bytes, ..stream },
            Self::Rma => rma,
            Self::RmaBatch => Preset { depth: DEPTH, ..rma },
            Self::RmaInject => Preset {
                operation: Operation::InjectWrite,
                sizes: SMALL_SIZES,
                depth: DEPTH,
                ..rma
            },
            Self::RmaSelComp => Preset { depth: DEPTH, complete_every, ..rma },
            Self::Rpc => Preset::RPC,
            Self::Kv => Preset { benchmark: Benchmark::Kv, ..Preset::RPC },
            Self::Piggyback => Preset {
                benchmark: Benchmark::Piggyback,
                sizes: ONE_SIZE,
                depth: PIGGYBACK_DEPTH,
                ..Preset::RPC
            },
            Self::Index => {
                Preset { benchmark: Benchmark::Index, sizes: VALUE_SIZES, ..Preset::RPC }
            }
            Self::FileGet => Preset {
                benchmark: Benchmark::FileGet,
                sizes: FILE_SIZES,
                depth: FILE_DEPTH,
                ..Preset::RPC
            },
            Self::Log => Preset::LOG,
            Self::TwoPhase => Preset::TWO_PHASE,
            Self::Incast => Preset::INCAST,
            Self::Shuffle => Preset::SHUFFLE,
            Self::Allgather => Preset::of_ranks(Pattern::Allgather),
            Self::Allreduce => Preset::of_ranks(Pattern::Allreduce),
            Self::Barrier => Preset::of_ranks(Pattern::Barrier),
            Self::Bcast => Preset::of_ranks(Pattern::Bcast),
            Self::RmaLargeBuffer => Preset { depth: DEPTH, memory_bytes, ..rma },
            Self::OpenLoop => {
                Preset { benchmark: Benchmark::OpenLoop, sizes: ONE_SIZE, rates: RATES, ..stream }
            }
            Self::SatLatency => Preset {
                benchmark: Benchmark::SatLatency,
                sizes: ONE_SIZE,
                depth: LOAD_DEPTH,
                threads: 2,
                ..latency
            },
        }
    }
}
