//! What data systems do with a fabric: calls from a client, answered by a server that holds data.
//!
//! ```text
//! client lane                                    server lane
//!   caller: which call, when, how long it took     server: finds the value, answers
//!     popularity                                     store
//!             message: the header of both
//! ```
//!
//! Each endpoint pair is a session with calls outstanding of its own. Each server lane owns the keys
//! that its counterpart asks for (as in MICA, Lim et al., NSDI 2014), so that no lock is measured.

mod caller;
mod message;
mod popularity;
mod server;
mod spec;
mod store;

use rustix::time::{ClockId, clock_gettime};

use crate::backend::{Backend, Wants};
use crate::bench::Measured;
use crate::failure::Failure;
use crate::lane::{Port, Side};
use crate::link::Link;
use crate::measure::Random;
use crate::spec::{JobSpec, PointSpec};

pub(crate) use self::caller::{ACTIONS, Calls};
pub(crate) use self::spec::{WorkArgs, WorkSpec, sound};

use self::popularity::Popularity;
use self::store::Store;

/// What a lane keeps between the points of a session.
pub(crate) struct Place {
    work: WorkSpec,
    random: Random,
    popularity: Popularity,
    /// Only the server has one.
    store: Option<Store>,
}

impl Place {
    /// `number` tells lanes apart.
    pub(crate) fn new(job: &JobSpec, side: Side, number: u64) -> Result<Self, Failure> {
        let keys = (job.work.keys / job.threads.max(1)).max(1);
        Ok(Self {
            work: job.work,
            random: Random::new(job.seed ^ number),
            popularity: match side {
                Side::Client => Popularity::new(keys, job.work.zipf_hundredths),
                Side::Server => Popularity::Uniform { keys },
            },
            store: match side {
                Side::Server if job.benchmark.is_workload() => {
                    Some(Store::new(keys, job.max_size_bytes)?)
                }
                _ => None,
            },
        })
    }

    /// A point with values of its size begins.
    pub(crate) fn begin(&mut self, point: PointSpec) {
        if let Some(store) = &mut self.store {
            store.begin(point.size_bytes);
        }
    }

    /// One thread's part of one point.
    pub(crate) fn run<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
        point: PointSpec,
    ) -> Result<Measured, Failure> {
        match &mut self.store {
            Some(store) => server::answer(links, port, point, store),
            None => caller::call(links, port, point, self),
        }
    }
}

/// What both sides of a workload have to open, beyond what every benchmark says.
pub(crate) fn wants(job: &JobSpec, usual: Wants) -> Wants {
    // A reply may come before the request is known to have left, and a request before the reply's
    // receive is posted again: twice the calls that are outstanding.
    let depth = job.tx_depth.max(1).saturating_mul(2);
    Wants {
        tx_depth: depth,
        tx_slots: depth,
        rx_depth: job.rx_depth.max(depth),
        payload_bytes: message_bytes(job.work, job.max_size_bytes),
        ..usual
    }
}

/// Longest message with values of `value_bytes`.
pub(crate) const fn message_bytes(work: WorkSpec, value_bytes: usize) -> usize {
    let get = message::HEADER_BYTES.saturating_add(work.request_bytes);
    let put = (message::HEADER_BYTES + store::KEY_BYTES).saturating_add(value_bytes);
    if get > put { get } else { put }
}

/// Processor time of this thread in ns.
fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
