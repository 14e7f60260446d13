//! What is said of figures, kind by kind: a room of each has its table, what plots show, what
//! verdicts compare, and its columns of a CSV file.

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

use bench_record::spec::Benchmark;
use bench_record::workload::Figures;
use bench_record::{Point, Run};
use report::Table;

use self::aspect::Aspect;
pub(crate) use self::quantity::Quantity;

/// Messages up to this many bytes are limited by their number, longer ones by their bytes.
pub(crate) const SMALL_BYTES: usize = 512;

/// A column of a CSV file: its head, and its cell for a point; `None`: a point does not have it.
pub(crate) type CsvColumn = (&'static str, fn(&Run, &Point) -> Option<String>);

/// A kind of figures, as a report sees it.
pub(crate) struct Kind {
    /// The table of a run; the unit is in every heading.
    pub(crate) table: fn(&Run) -> Table,
    /// What plots show.
    pub(crate) quantities: &'static [Quantity],
    /// What verdicts compare, first that by which blocks are compared.
    pub(crate) aspects: &'static [Aspect],
    /// The same where operations come by the clock; empty where that makes no difference.
    pub(crate) by_the_clock: &'static [Aspect],
    /// Both of small messages, where they are limited by something else.
    pub(crate) of_small: Option<(&'static [Quantity], &'static [Aspect])>,
    /// Columns of a CSV file that no other kind has.
    pub(crate) csv: &'static [CsvColumn],
    /// Lines below the table, in words.
    pub(crate) notes: fn(&Run) -> Vec<String>,
}

/// Returns what is said of the figures of a benchmark.
pub(crate) const fn of(benchmark: Benchmark) -> &'static Kind {
    match benchmark.about().figures {
        Figures::RoundTrips => &round_trips::KIND,
        Figures::Responses => &responses::KIND,
        Figures::Stream => &stream::KIND,
        Figures::Atomics => &atomics::KIND,
        Figures::Calls => &calls::KIND,
        Figures::Lookups => &calls::LOOKUPS,
        Figures::Records => &calls::RECORDS,
        Figures::Files => &calls::FILES,
        Figures::Connections => &connections::KIND,
        Figures::Incast => &incast::KIND,
        Figures::Shuffle => &shuffle::KIND,
        Figures::Collective => &collective::KIND,
        Figures::Matrix => &matrix::KIND,
    }
}

impl Kind {
    /// One of which nothing is said.
    const NOTHING: Self = Self {
        table: |run| Table::new(&run.name, &[], 0),
        quantities: &[],
        aspects: &[],
        by_the_clock: &[],
        of_small: None,
        csv: &[],
        notes: |_| Vec::new(),
    };

    /// What plots show of messages of `size_bytes` (`None`: of several).
    pub(crate) fn quantities_of(&self, size_bytes: Option<usize>) -> &'static [Quantity] {
        match self.of_small {
            Some((small, _)) if size_bytes.is_some_and(|bytes| bytes <= SMALL_BYTES) => small,
            _ => self.quantities,
        }
    }
}
