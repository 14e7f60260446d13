//! Calls answered from a hash table.

use bench_record::workload::KEY_BYTES;

use super::caller;
use super::demand::{self, Demand};
use super::message::HEADER_BYTES;
use super::server;
use super::store::{self, Store};
use super::table::Table;
use crate::pattern::SEQUENCE_BYTES;
use crate::workload::prelude::*;

/// A lane of the workload.
pub(super) enum Rpc {
    /// The client, which calls.
    Client(Demand),
    /// The server, which answers.
    Server(Store),
}

impl Workload for Rpc {
    // A value tells its key.
    const LEAST_BYTES: usize = SEQUENCE_BYTES;

    fn message_bytes(job: &JobSpec, size_bytes: usize, _parameter: usize) -> usize {
        let value_bytes = size_bytes.saturating_add(KEY_BYTES);
        job.work.request_bytes.max(value_bytes).saturating_add(HEADER_BYTES)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        Ok(match task.side {
            Side::Client => Self::Client(Demand::new(task)),
            Side::Server => Self::Server(Store::new(demand::keys(task), task.job.max_size_bytes)?),
        })
    }

    fn begin<B: Backend>(
        &mut self,
        _links: &mut [Link<B>],
        point: PointSpec,
    ) -> Result<(), Failure> {
        if let Self::Server(store) = self {
            store.begin(point.size_bytes);
        }
        Ok(())
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        let validate = part.point.validate;
        match self {
            Self::Client(demand) => caller::call(part, demand, store::Names),
            Self::Server(store) => server::answer(part, &mut Table { store, validate }),
        }
    }

    /// Concludes a point; each server has other keys.
    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        session.shared_calls(point)
    }
}
