//! The presentation of figures, kind by kind: each kind has its table, the quantities of plots, and
//! the aspects of verdicts.

pub(crate) mod aspect;
mod atomics;
pub(crate) mod calls;
pub(crate) mod cells;
mod collective;
mod column;
mod connections;
pub(crate) mod counted;
pub(crate) mod incast;
mod matrix;
mod quantity;
mod responses;
mod round_trips;
pub(crate) mod shuffle;
mod stream;

use bench_record::Run;
use bench_record::spec::Benchmark;
use bench_record::workload::Figures;
use report::Table;

use self::aspect::Aspect;
pub(crate) use self::quantity::Quantity;

/// Messages up to this many bytes are limited by their number, longer ones by their bytes.
pub(crate) const SMALL_BYTES: usize = 512;

/// A kind of figures, as a report sees it.
pub(crate) struct Kind {
    /// The table of a run; the unit is in every heading.
    pub(crate) table: fn(&Run) -> Table,
    /// The quantities that plots show.
    pub(crate) quantities: &'static [Quantity],
    /// The aspects that verdicts compare, first the one by which blocks are compared.
    pub(crate) aspects: &'static [Aspect],
    /// The aspects if operations come by the clock; empty if that makes no difference.
    pub(crate) by_the_clock: &'static [Aspect],
    /// The quantities and aspects of small messages, if these are limited by something else.
    pub(crate) of_small: Option<(&'static [Quantity], &'static [Aspect])>,
    /// Lines below the table, in words.
    pub(crate) notes: fn(&Run) -> Vec<String>,
}

/// Returns the presentation of the figures of a benchmark.
pub(crate) const fn of(benchmark: Benchmark) -> &'static Kind {
    match benchmark.about().figures {
        Figures::RoundTrips => &round_trips::KIND,
        Figures::Responses => &responses::KIND,
        Figures::Stream => &stream::KIND,
        Figures::Atomics => &atomics::KIND,
        Figures::Calls | Figures::Lookups | Figures::Records => &calls::KIND,
        Figures::Files => &calls::FILES,
        Figures::Connections => &connections::KIND,
        Figures::Incast => &incast::KIND,
        Figures::Shuffle => &shuffle::KIND,
        Figures::Collective => &collective::KIND,
        Figures::Matrix => &matrix::KIND,
    }
}

impl Kind {
    /// A kind without any presentation.
    const NOTHING: Self = Self {
        table: |run| Table::new(&run.name, &[], 0),
        quantities: &[],
        aspects: &[],
        by_the_clock: &[],
        of_small: None,
        notes: |_| Vec::new(),
    };

    /// Returns the quantities that plots show of messages of `size_bytes` (`None`: of several
    /// sizes).
    pub(crate) fn quantities_of(&self, size_bytes: Option<usize>) -> &'static [Quantity] {
        match self.of_small {
            Some((small, _)) if size_bytes.is_some_and(|bytes| bytes <= SMALL_BYTES) => small,
            _ => self.quantities,
        }
    }
}
