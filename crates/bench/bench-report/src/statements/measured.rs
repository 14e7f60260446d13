//! Figures of runs, selected by subject and quantity.

use bench_record::cores::{Phase, are_apart};
use bench_record::spec::Benchmark;
use bench_record::wire::Wire;
use bench_record::{Point, Run};

/// The subject of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// An MPI: the fabric as `efa-bench mpi --fabric` calls it, and the name for people.
    Mpi(&'static str, &'static str),
    /// A fabric without MPI: its provider as it is recorded, and the name for people.
    Bare(&'static str, &'static str),
    /// A fabric without MPI, with packets of this path MTU.
    BareMtu(&'static str, usize, &'static str),
}

impl Subject {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Mpi(_, name) | Self::Bare(_, name) | Self::BareMtu(_, _, name) => name,
        }
    }

    fn is(self, run: &Run) -> bool {
        let Some(fabric) = &run.fabric else { return false };
        match self {
            Self::Mpi(domain, _) => fabric.provider == "mpi" && fabric.domain == domain,
            Self::Bare(provider, _) => fabric.provider == provider,
            Self::BareMtu(provider, mtu_bytes, _) => {
                fabric.provider == provider && fabric.mtu_bytes == Some(mtu_bytes)
            }
        }
    }
}

/// The measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// The median half round trip of this many pairs at once.
    Latency { pairs: usize },
    /// The goodput of this many pairs at once.
    Goodput { pairs: usize },
    /// The goodput of both directions together.
    BothWays,
    /// The median time of an operation of all ranks.
    Together(&'static str),
    /// The median time of a whole file.
    FileGet,
    /// The processor time of both processes for a call.
    CallCost,
}

impl Quantity {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Latency { pairs: 1 } => "Latency (median)",
            Self::Latency { .. } => "Latency of two pairs (median)",
            Self::Goodput { pairs: 1 } => "Goodput",
            Self::Goodput { .. } => "Goodput of two pairs",
            Self::BothWays => "Goodput of both directions",
            Self::Together(name) => name,
            Self::FileGet => "Time of a file (median)",
            Self::CallCost => "Processor time of a call",
        }
    }

    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Latency { .. } | Self::Together(_) | Self::FileGet | Self::CallCost => "µs",
            Self::Goodput { .. } | Self::BothWays => "Gbit/s",
        }
    }

    pub(super) const fn is_time(self) -> bool {
        !matches!(self, Self::Goodput { .. } | Self::BothWays)
    }

    fn is(self, run: &Run) -> bool {
        let has_pairs = |pairs: usize| run.method.threads == pairs;
        match self {
            Self::Latency { pairs } => run.benchmark == Benchmark::Latency && has_pairs(pairs),
            Self::Goodput { pairs } => run.benchmark == Benchmark::Bandwidth && has_pairs(pairs),
            Self::BothWays => run.benchmark == Benchmark::Bidirectional,
            Self::Together(test) => run.benchmark == Benchmark::Collective && run.test == test,
            Self::FileGet => run.benchmark == Benchmark::FileGet,
            Self::CallCost => run.benchmark == Benchmark::Rpc,
        }
    }

    fn of(self, point: &Point) -> Option<f64> {
        match self {
            Self::Latency { .. } => Some(point.latency?.distribution?.p50_us),
            Self::Goodput { .. } | Self::BothWays => Some(point.bandwidth?.gbit_per_s),
            Self::Together(_) | Self::FileGet => Some(point.operation_time?.p50_us),
            Self::CallCost => {
                let work = point.work.as_ref()?;
                let both_ns = work.client_process_cpu_ns + work.server_process_cpu_ns;
                (both_ns > 0.0).then_some(both_ns / 1e3)
            }
        }
    }
}

/// The best figure of a size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    pub(super) size_bytes: usize,
    pub(super) value: f64,
    phase: Option<Phase>,
}

impl Figure {
    /// Returns whether the processors were elsewhere for one figure than for the other.
    pub(super) fn is_apart(&self, other: &Self) -> bool {
        are_apart(self.phase, other.phase)
    }
}

/// The runs that were measured here.
pub(super) struct Measured<'a>(Vec<&'a Run>);

impl<'a> Measured<'a> {
    /// Selects the runs that went over `wire`, and those that have no wire.
    pub(super) fn over(wire: Wire, runs: &'a [Run]) -> Self {
        let is_own = |run: &&Run| run.wire.is_none_or(|own| own == wire);
        Self(runs.iter().filter(|run| run.source == "measured").filter(is_own).collect())
    }

    /// Returns the best figure at each size: of several depths, the one that suits the size.
    pub(super) fn all(&self, quantity: Quantity, subject: Subject) -> Vec<Figure> {
        let mut all: Vec<Figure> = Vec::new();
        let own = self.0.iter().filter(|run| quantity.is(run) && subject.is(run));
        for point in own.flat_map(|run| &run.points) {
            let Some(value) = quantity.of(point) else { continue };
            let figure = Figure { size_bytes: point.size_bytes, value, phase: point.phase() };
            match all.iter_mut().find(|own| own.size_bytes == point.size_bytes) {
                Some(best) if (value < best.value) == quantity.is_time() => *best = figure,
                Some(_) => {}
                None => all.push(figure),
            }
        }
        all.sort_by_key(|own| own.size_bytes);
        all
    }
}
