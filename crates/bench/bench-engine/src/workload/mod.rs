//! The workloads, which use a fabric as data systems do. Each has a module with its
//! [`room::Workload`], which is the interface to the rest of the engine. The modules beside these
//! are used by several workloads:
//!
//! ```text
//! client lane                                    server lane
//!   pace: when, what counts, how long it took      server: answers, counts what that costs
//!     outstanding: operations by number
//!     caller: calls, by popularity                   table: from a store (rpc, kv)
//!     index::walker: READs of its nodes              index::owner: from a tree
//!     fileget::client: chunks of a file              fileget::server: from its content
//!     piggyback: records, several to a message       piggyback: records are taken
//!             message: the header of both
//! ```
//!
//! Each pair of endpoints is a session with its own outstanding calls. Each server lane owns the
//! keys that its counterpart asks for (as in MICA, Lim et al., NSDI 2014), so that no lock is
//! measured.

mod caller;
mod calls;
mod collective;
mod connections;
mod demand;
mod fileget;
mod incast;
mod index;
mod kv;
mod log;
mod matrix;
mod message;
mod outbox;
mod outstanding;
mod pace;
mod piggyback;
mod popularity;
mod room;
mod rpc;
mod server;
mod shuffle;
mod store;
mod table;
mod twopc;

/// The names that all rooms use.
pub(crate) mod prelude {
    pub(crate) use bench_record::Point;
    pub(crate) use bench_record::failure::Failure;
    pub(crate) use bench_record::spec::{JobSpec, PointSpec};

    pub(super) use super::filled;
    pub(crate) use super::room::Workload;
    pub(crate) use crate::backend::Backend;
    pub(crate) use crate::bench::{Measured, Outcome};
    pub(crate) use crate::lane::{Part, Port, Side, Task};
    pub(crate) use crate::link::Link;
    pub(crate) use crate::session::BenchSession;
}

use std::fmt;

use bench_record::failure::Failure;
use rustix::time::{ClockId, clock_gettime};

pub(crate) use self::calls::{Calls, Times};
pub(crate) use self::outstanding::Outstanding;
pub(crate) use self::pace::gave_up;
pub(crate) use self::room::{Functions, Workload};
// The benchmarks are workloads, too.
use crate::bench::{
    atomics, bandwidth, bidirectional, latency, open_loop, ping_pong, rma, sat_latency,
};
use crate::refusal::Refusal;

/// Makes this many copies of a value; a failure says what there is no memory for.
fn filled<T: Clone>(count: usize, value: T, what: impl fmt::Display) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    let reserved = all.try_reserve_exact(count);
    reserved.map_err(|_| Refusal::Memory(what.to_string()))?;
    all.resize(count, value);
    Ok(all)
}

/// Returns the processor time of this thread in ns.
fn cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

/// Returns the processor time of the whole process, threads of the fabric included, in ns.
pub(crate) fn process_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
