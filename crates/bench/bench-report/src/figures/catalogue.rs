//! The figures of the paper (2 to 9) and of the thesis (4.2 to 4.18): what each shows, what it was
//! measured with, and the command that measures it here.
//!
//! Sources: the tables of the crate `published`, and Ziegler, Mohan, Leis, Binnig, "EFA: A Viable
//! Alternative to RDMA over InfiniBand for DBMSs?", DaMoN 2022, for the numbers of its figures.

use bench_record::spec::Window;
use published::Operation;

/// The quantity on the horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Across {
    /// Bytes of a message.
    Size,
    /// Messages in flight.
    Depth,
    /// Queue pairs (endpoints) of one thread.
    QueuePairs,
    /// Threads, each with an endpoint of its own.
    Threads,
    /// Background load in 10^9 bytes a second.
    Load,
}

/// The quantity on the vertical axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// The mean of half round trips in µs.
    Mean,
    /// The shortest half round trip in µs.
    Min,
    /// The median of half round trips in µs.
    P50,
    /// The 99th percentile of half round trips in µs.
    P99,
    /// Payload in 10^9 bits a second.
    Goodput,
    /// 10^6 messages a second.
    Rate,
}

/// The settings that all points of one plot share; `None` for the axis, or for a setting without
/// meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panel {
    pub(crate) size_bytes: Option<u32>,
    pub(crate) depth: Option<u32>,
}

/// A figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    /// The number of the figure in the paper; empty if it is not there.
    pub(crate) paper: &'static str,
    /// The number of the figure in the thesis.
    pub(crate) thesis: &'static str,
    pub(crate) title: &'static str,
    pub(crate) across: Across,
    pub(crate) quantity: Quantity,
    /// One entry for each plot.
    pub(crate) panels: &'static [Panel],
    /// The first and last size in bytes that the figure is about.
    pub(crate) sizes_bytes: (u32, u32),
    /// The operations; each series has one line for each.
    pub(crate) operations: &'static [Operation],
    /// The way streams keep their depth.
    pub(crate) window: Window,
    /// Tables of the thesis; empty if the figure's numbers were not printed.
    pub(crate) tables: &'static [&'static str],
    /// The commands that measure the figure here.
    pub(crate) commands: &'static [&'static str],
    /// The differences between the published figure and ours, or what a reader must know of the
    /// figure.
    pub(crate) differs: &'static str,
}

const ALONE: &[Panel] = &[Panel { size_bytes: None, depth: None }];
const ONE_IN_FLIGHT: &[Panel] = &[Panel { size_bytes: None, depth: Some(1) }];
const SEND: &[Operation] = &[Operation::Send];
const BY_SIZE: &[Panel] = &[size(16), size(512), size(4096), size(8192)];
const BY_SIZE_256: &[Panel] = &[at(16, 256), at(512, 256), at(4096, 256), at(8192, 256)];

const fn size(bytes: u32) -> Panel {
    Panel { size_bytes: Some(bytes), depth: None }
}

const fn at(bytes: u32, depth: u32) -> Panel {
    Panel { size_bytes: Some(bytes), depth: Some(depth) }
}

/// The fields that most figures have in common.
const LATENCY: Figure = Figure {
    paper: "",
    thesis: "",
    title: "",
    across: Across::Size,
    quantity: Quantity::Mean,
    panels: ALONE,
    sizes_bytes: (1, 8192),
    operations: SEND,
    window: Window::Sliding,
    tables: &[],
    commands: &[],
    differs: "",
};
const STREAM: Figure = Figure { quantity: Quantity::Goodput, ..LATENCY };

const BY_DEPTH: &[&str] = &["softefa run -- efa-bench local bandwidth --fabric verbs:srd \
    --sizes 16,512,4096,8192 --depth 1..1024"];
const BY_THREADS: &[&str] = &[
    "softefa run -- efa-bench local batch -p efa --sizes 64,4096 --depth 100 --threads 1",
    "softefa run -- efa-bench local batch -p efa --sizes 64,4096 --depth 100 --threads 2",
    "softefa run -- efa-bench local batch -p efa --sizes 64,4096 --depth 100 --threads 4",
    "softefa run -- efa-bench local batch -p efa --sizes 64,4096 --depth 100 --threads 8",
];
const THREADS_DIFFER: &str = "The captions say depth 256 (paper) and 128 (thesis); the figures are those of depth 100. \
    Published bytes are the adapter's counters, headers and retransmissions included; headers are taken off here, \
    retransmissions (4.5 % at 4096 B, one thread) are not. InfiniBand's 4096 B are 4000 B, and its columns agree with none \
    of the runs the author published. The published receiver had one buffer posted at a time; here it has the whole depth.";
const DEPTH_DIFFERS: &str = "The thesis' MB/s are MiB/s, converted here. perftest asks for one completion per min(depth, 100) \
    messages on InfiniBand, which makes small windows there stop and wait; on EFA and here each message completes.";

/// All figures, in the order of the thesis.
pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        paper: "2",
        thesis: "4.2",
        title: "latency over message size",
        tables: &["c1"],
        commands: &["softefa run -- efa-bench local latency --fabric verbs:srd --sizes 16..8192"],
        differs: "Means of perftest's ping-pong, here too.",
        ..LATENCY
    },
    Figure {
        paper: "4",
        thesis: "4.3",
        title: "latency of inlined messages",
        sizes_bytes: (1, 32),
        operations: &[Operation::Send, Operation::Inject],
        commands: &[
            "softefa run -- efa-bench local latency --fabric verbs:srd --sizes 2..32",
            "softefa run -- efa-bench local inject --fabric verbs:srd --sizes 2..32",
        ],
        differs: "Its numbers were not printed; the text says that inlining (SRD: up to 32 B) saves about 0.5 µs.",
        ..LATENCY
    },
    Figure {
        paper: "3",
        thesis: "4.4",
        title: "mean latency, reliable (SRD) and unreliable (UD)",
        operations: &[Operation::Send, Operation::Datagram],
        tables: &["c6.1"],
        commands: SRD_AND_UD,
        differs: "Another run than figure 2: SRD is 0.1 to 0.2 µs slower. UD ends at 4096 B, perftest's limit.",
        ..LATENCY
    },
    Figure {
        thesis: "4.5",
        title: "least latency, reliable (SRD) and unreliable (UD)",
        quantity: Quantity::Min,
        operations: &[Operation::Send, Operation::Datagram],
        tables: &["c6.2"],
        commands: SRD_AND_UD,
        differs: "A minimum depends on how long one measures.",
        ..LATENCY
    },
    Figure {
        paper: "5",
        thesis: "4.6",
        title: "bandwidth with one message in flight",
        panels: ONE_IN_FLIGHT,
        tables: &["c2"],
        commands: &[
            "softefa run -- efa-bench local bandwidth --fabric verbs:srd --sizes 2..8192 --depth 1",
        ],
        differs: "The thesis' MB/s are MiB/s, converted here; EFA's smallest sizes were printed with one digit.",
        ..STREAM
    },
    Figure {
        paper: "6, upper",
        thesis: "4.7",
        title: "bandwidth over depth",
        across: Across::Depth,
        panels: BY_SIZE,
        tables: &["c3.1", "c3.3"],
        commands: BY_DEPTH,
        differs: DEPTH_DIFFERS,
        ..STREAM
    },
    Figure {
        paper: "6, lower",
        thesis: "4.8",
        title: "message rate over depth",
        across: Across::Depth,
        quantity: Quantity::Rate,
        panels: BY_SIZE,
        tables: &["c3.1", "c3.3"],
        commands: BY_DEPTH,
        differs: "Rates follow from the bandwidths of the same runs, which were printed with more digits. perftest asks for \
            one completion per min(depth, 100) messages on InfiniBand; on EFA and here each message completes.",
        ..STREAM
    },
    Figure {
        paper: "7",
        thesis: "4.9",
        title: "message rate over queue pairs of one thread",
        across: Across::QueuePairs,
        quantity: Quantity::Rate,
        panels: BY_SIZE_256,
        tables: &["c4.1", "c4.2"],
        commands: &[
            "softefa run -- efa-bench local bandwidth --fabric verbs:srd --sizes 16,512,4096,8192 --depth 256 --endpoints 1",
            "softefa run -- efa-bench local bandwidth --fabric verbs:srd --sizes 16,512,4096,8192 --depth 256 --endpoints 2",
            "softefa run -- efa-bench local bandwidth --fabric verbs:srd --sizes 16,512,4096,8192 --depth 256 --endpoints 4",
            "softefa run -- efa-bench local bandwidth --fabric verbs:srd --sizes 16,512,4096,8192 --depth 256 --endpoints 8",
        ],
        differs: "EFA's figures of one queue pair are 3 to 13 % below those of figure 6, which is the same measurement.",
        ..STREAM
    },
    Figure {
        paper: "8, upper",
        thesis: "4.10",
        title: "bandwidth over threads",
        across: Across::Threads,
        panels: &[at(64, 100), at(4096, 100)],
        tables: &["c5.1"],
        commands: BY_THREADS,
        differs: THREADS_DIFFER,
        ..STREAM
    },
    Figure {
        paper: "8, lower",
        thesis: "4.11",
        title: "message rate over threads",
        across: Across::Threads,
        quantity: Quantity::Rate,
        panels: &[at(64, 100), at(4096, 100)],
        tables: &["c5.2"],
        commands: BY_THREADS,
        differs: THREADS_DIFFER,
        ..STREAM
    },
    Figure {
        thesis: "4.12",
        title: "bandwidth over threads at several depths",
        across: Across::Threads,
        panels: &[at(64, 2), at(64, 10), at(64, 50), at(64, 80), at(64, 100), at(64, 120)],
        window: Window::Refill,
        tables: &["c5.3"],
        commands: &[
            "softefa run -- efa-bench local batch -p efa --sizes 64 --depth 2,10,50,80,100,120 --window refill --threads 1",
            "softefa run -- efa-bench local batch -p efa --sizes 64 --depth 2,10,50,80,100,120 --window refill --threads 2",
            "softefa run -- efa-bench local batch -p efa --sizes 64 --depth 2,10,50,80,100,120 --window refill --threads 4",
            "softefa run -- efa-bench local batch -p efa --sizes 64 --depth 2,10,50,80,100,120 --window refill --threads 8",
        ],
        differs: "An older loop than that of figure 4.10: the window is refilled when 80 % of it has completed \
            (--window refill). Published bytes are counters'; headers are taken off here.",
        ..STREAM
    },
    Figure {
        thesis: "4.13",
        title: "latency where messages begin to be segmented",
        sizes_bytes: (7000, 12000),
        quantity: Quantity::P50,
        tables: &["c9"],
        commands: &["softefa run -- efa-bench local segmentation -p efa"],
        differs: "Called averages and printed medians: the first of 10,000 samples took 28 ms. The step lies between 8800 \
            and 8900 B, not at the MTU of 8760 B that the adapter names.",
        ..LATENCY
    },
    Figure {
        thesis: "4.14",
        title: "median latency beside background load, 4096 B",
        across: Across::Load,
        quantity: Quantity::P50,
        panels: &[size(4096)],
        tables: &["c8.1"],
        commands: BESIDE_LOAD,
        differs: SATURATION_DIFFERS,
        ..LATENCY
    },
    Figure {
        thesis: "4.14 (tail)",
        title: "99th percentile beside background load, 4096 B",
        across: Across::Load,
        quantity: Quantity::P99,
        panels: &[size(4096)],
        tables: &["c8.2"],
        commands: BESIDE_LOAD,
        differs: SATURATION_DIFFERS,
        ..LATENCY
    },
    Figure {
        thesis: "4.15",
        title: "latency of libfabric's ways to send",
        sizes_bytes: (1, 1024),
        operations: &[
            Operation::Send,
            Operation::Tagged,
            Operation::Inject,
            Operation::TaggedInject,
        ],
        tables: &["c7"],
        commands: &[
            "softefa run -- efa-bench local latency -p efa --sizes 8,64,512,1024",
            "softefa run -- efa-bench local tagged -p efa --sizes 8,64,512,1024",
            "softefa run -- efa-bench local inject -p efa --sizes 8,64,512,1024",
        ],
        differs: "The published step of 2.2 µs between 64 and 512 B is in no other table. Tagged inject is not measured here.",
        ..LATENCY
    },
    Figure {
        thesis: "4.16",
        title: "bandwidth of SEND, WRITE and READ, one at a time",
        panels: ONE_IN_FLIGHT,
        operations: &[Operation::Send, Operation::Write, Operation::Read],
        tables: &["c10.1"],
        commands: &[
            "softefa run -- efa-bench local bandwidth -p efa --sizes 4,64,512,1024,4096,8192 --depth 1",
            "softefa run -- efa-bench local rma -p efa --sizes 4,64,512,1024,4096,8192",
            "softefa run -- efa-bench local rma --op read -p efa --sizes 4,64,512,1024,4096,8192",
        ],
        differs: "Published bytes are counters'; 8 (SEND), 32 (WRITE) and 24 (READ) are taken off here. c5n emulates READ \
            and WRITE by messages; devices efa1 and later have READ of their own, efa2 WRITE.",
        ..STREAM
    },
    Figure {
        thesis: "4.17",
        title: "bandwidth of WRITE and READ over depth",
        across: Across::Depth,
        panels: &[size(8192)],
        operations: &[Operation::Write, Operation::Read],
        tables: &["c10.2"],
        commands: &[
            "softefa run -- efa-bench local rma_batch -p efa --sizes 8192 --depth 1,10,100,200,300,500",
            "softefa run -- efa-bench local rma_batch --op read -p efa --sizes 8192 --depth 1,10,100,200,300,500",
        ],
        differs: "READ at depth 200 is a misprint: 4473.72 for 5473.72 MB/s. Published with one completion for many operations \
            and a window refilled at 90 %.",
        ..STREAM
    },
    Figure {
        paper: "9, upper",
        thesis: "4.18, left",
        title: "bandwidth of the interfaces",
        panels: &[Panel { size_bytes: None, depth: Some(256) }],
        tables: &["c3.3"],
        commands: INTERFACES,
        differs: INTERFACES_DIFFER,
        ..STREAM
    },
    Figure {
        paper: "9, lower",
        thesis: "4.18, right",
        title: "message rate of the interfaces",
        quantity: Quantity::Rate,
        panels: &[Panel { size_bytes: None, depth: Some(256) }],
        tables: &["c3.3"],
        commands: INTERFACES,
        differs: INTERFACES_DIFFER,
        ..STREAM
    },
];

const SRD_AND_UD: &[&str] = &[
    "softefa run -- efa-bench local latency --fabric verbs:srd --sizes 16..8192",
    "softefa run -- efa-bench local latency --fabric verbs:ud --sizes 16..4096",
];
const INTERFACES: &[&str] = &[
    "softefa run -- efa-bench local bandwidth --fabric verbs:srd --sizes 1..8192 --depth 256",
    "softefa run -- efa-bench local bandwidth -p efa --sizes 1..8192 --depth 256",
    "efa-bench mpi bandwidth --softefa --sizes 1..8192 --depth 256",
];
const INTERFACES_DIFFER: &str = "Of this figure only the verbs line was printed (table C.3); the text says that verbs does about \
    50 % more messages than libfabric. MPI waits for the oldest message of the window; an imported OSU bandwidth test counts, too, \
    with the window it was run with.";
const BESIDE_LOAD: &[&str] =
    &["softefa run -- efa-bench local sat_latency -p efa --sizes 4096 --load-size 8192 \
    --rate 1000,10000,50000,100000,200000 --threads 2"];
const SATURATION_DIFFERS: &str = "The text says 8 generators of 4096 B; the figures are those of 16 generators with batches of 10 \
    messages of 8192 B. The published load was computed; here it is what arrived.";
