//! The tests of an MPI, and the settings of each.

use bench_record::spec::Benchmark;
use bench_record::workload::Pattern;
use clap::ValueEnum;

/// What an MPI is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Test {
    /// Ping-pong of two ranks; half of each round trip.
    Latency,
    /// A stream from one rank to another, --depth messages in flight; goodput and message rate.
    Bandwidth,
    /// Streams of two ranks to each other, --depth messages in flight each way; the sum of both.
    Bidirectional,
    /// Every rank gets what each has.
    Allgather,
    /// Every rank gets the sum of what all have (32-bit integers).
    Allreduce,
    /// Every rank waits for all.
    Barrier,
    /// Every rank gets what rank 0 has.
    Bcast,
    /// Like allgather, without blocking: how much of it computing hides.
    #[value(name = "iallgather")]
    AllgatherOverlap,
    /// Like allreduce, without blocking.
    #[value(name = "iallreduce")]
    AllreduceOverlap,
    /// Like bcast, without blocking.
    #[value(name = "ibcast")]
    BcastOverlap,
    /// IS of the NAS Parallel Benchmarks, an iteration: integers are ranked, each by its own rank.
    #[value(name = "nas-is")]
    IntegerSort,
    /// FT of the NAS Parallel Benchmarks, an iteration: Fourier transforms with a transposition.
    #[value(name = "nas-ft")]
    Fourier,
}

/// Bytes of the classes S, W and A of NAS' IS: four for each integer.
const SORT_CLASSES_BYTES: [usize; 3] = [1 << 18, 1 << 22, 1 << 25];
/// Bytes of the classes S and W of NAS' FT: sixteen for each complex number.
const FOURIER_CLASSES_BYTES: [usize; 2] = [1 << 22, 1 << 23];

impl Test {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }

    pub(crate) const fn benchmark(self) -> Benchmark {
        match self {
            Self::Latency => Benchmark::Latency,
            Self::Bandwidth => Benchmark::Bandwidth,
            Self::Bidirectional => Benchmark::Bidirectional,
            Self::Allgather
            | Self::Allreduce
            | Self::Barrier
            | Self::Bcast
            | Self::AllgatherOverlap
            | Self::AllreduceOverlap
            | Self::BcastOverlap
            | Self::IntegerSort
            | Self::Fourier => Benchmark::Collective,
        }
    }

    /// Returns whether ranks work in pairs.
    pub(super) const fn is_of_pairs(self) -> bool {
        matches!(self, Self::Latency | Self::Bandwidth | Self::Bidirectional)
    }

    /// Returns whether several messages are in flight.
    pub(super) const fn has_depth(self) -> bool {
        matches!(self, Self::Bandwidth | Self::Bidirectional)
    }

    /// Returns the only sizes of the test, if it does not take others.
    const fn classes_bytes(self) -> Option<&'static [usize]> {
        match self {
            Self::IntegerSort => Some(&SORT_CLASSES_BYTES),
            Self::Fourier => Some(&FOURIER_CLASSES_BYTES),
            _ => None,
        }
    }

    /// Returns the default sizes.
    pub(super) const fn sizes(self) -> &'static str {
        match self {
            Self::Latency | Self::Bandwidth | Self::Bidirectional => "1..8192",
            Self::Allgather | Self::Allreduce | Self::Bcast => "4..1048576",
            Self::AllgatherOverlap | Self::AllreduceOverlap | Self::BcastOverlap => {
                "4,1024,65536,1048576"
            }
            // One point without bytes.
            Self::Barrier => "1",
            Self::IntegerSort => "262144,4194304",
            Self::Fourier => "4194304",
        }
    }

    /// Returns the operation of all ranks that the test measures, if any.
    pub(crate) const fn pattern(self) -> Option<Pattern> {
        match self {
            Self::Latency
            | Self::Bandwidth
            | Self::Bidirectional
            | Self::AllgatherOverlap
            | Self::AllreduceOverlap
            | Self::BcastOverlap
            | Self::IntegerSort
            | Self::Fourier => None,
            Self::Allgather => Some(Pattern::Allgather),
            Self::Allreduce => Some(Pattern::Allreduce),
            Self::Barrier => Some(Pattern::Barrier),
            Self::Bcast => Some(Pattern::Bcast),
        }
    }

    /// Checks whether the test can be measured with this number of ranks.
    pub(super) fn check_ranks(self, count: usize) -> Result<(), String> {
        let (is_allowed, allowed) = match self.classes_bytes() {
            _ if self.is_of_pairs() => (count % 2 == 0, "2, 4, 6, ..."),
            Some(_) => (count.is_power_of_two(), "2, 4, 8, ..."),
            None => (true, "2 or more"),
        };
        match is_allowed && count >= 2 {
            true => Ok(()),
            false => Err(format!("--ranks {count}: give {allowed}")),
        }
    }

    /// Checks whether the test has messages of this many bytes.
    pub(super) fn check_size(self, bytes: usize) -> Result<(), String> {
        if let Some(classes) = self.classes_bytes().filter(|all| !all.contains(&bytes)) {
            let all: Vec<String> = classes.iter().map(ToString::to_string).collect();
            return Err(format!("--sizes {bytes}: its classes have {}", all.join(", ")));
        }
        if matches!(self, Self::Allreduce | Self::AllreduceOverlap) && bytes % 4 != 0 {
            return Err(format!("--sizes {bytes}: integers have 4 bytes, give a multiple"));
        }
        if bytes > i32::MAX as usize {
            return Err(format!("--sizes {bytes}: a count of MPI has 31 bits"));
        }
        Ok(())
    }
}
