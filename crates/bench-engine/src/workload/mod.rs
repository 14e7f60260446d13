//! What data systems do with a fabric. `log`, `twopc`, `incast`, `shuffle` and `collective` have folders of their
//! own; `rpc` and `kv` are calls from a client, answered by a server that holds data:
//!
//! ```text
//! client lane                                    server lane
//!   pace: when, what counts, how long it took      server: answers, counts what that costs
//!     caller: calls, by popularity                   table: from a store
//!     index::walker: READs of its nodes              index::owner: from a tree
//!     fileget::client: chunks of a file              fileget::server: from its content
//!     piggyback: records, several to a message       piggyback: records are taken
//!             message: the header of both
//! ```
//!
//! Each endpoint pair is a session with calls outstanding of its own. Each server lane owns the keys
//! that its counterpart asks for (as in MICA, Lim et al., NSDI 2014), so that no lock is measured.

mod caller;
mod calls;
mod collective;
mod fileget;
mod incast;
pub(crate) mod index;
mod log;
mod message;
mod outbox;
mod pace;
mod piggyback;
mod popularity;
mod server;
mod shuffle;
mod store;
mod table;
mod twopc;

use bench_record::failure::Failure;
use bench_record::spec::{Benchmark, JobSpec, PointSpec};
use bench_record::workload::{KEPT_MAX, KEY_BYTES, Source, Way, WorkSpec};
use rustix::time::{ClockId, clock_gettime};

use crate::backend::{Backend, Wants};
use crate::bench::Measured;
use crate::lane::{Port, Side};
use crate::link::Link;
use crate::measure::Random;

pub(crate) use self::calls::{Calls, Times};
pub(crate) use self::pace::gave_up;

use self::caller::Naming;
use self::fileget::Content;
use self::index::{Inner, Owner, Tree};
use self::piggyback::Records;
use self::popularity::Popularity;
use self::store::Store;
use self::table::Table;

/// What a lane keeps between the points of a session.
pub(crate) struct Place {
    benchmark: Benchmark,
    side: Side,
    node: usize,
    work: WorkSpec,
    random: Random,
    popularity: Popularity,
    /// What the server of calls answers from.
    store: Option<Store>,
    /// The index: the whole tree at its owner, the upper levels at the client.
    tree: Option<Tree>,
    /// The server's file.
    content: Option<Content>,
    /// Only a replica has one.
    log: Option<log::Memory>,
    /// Only a participant of transactions has them.
    rows: Option<twopc::Rows>,
}

impl Place {
    /// `number` tells lanes apart.
    pub(crate) fn new(job: &JobSpec, side: Side, number: u64) -> Result<Self, Failure> {
        let keys = (job.work.keys / job.threads.max(1)).max(1);
        Ok(Self {
            benchmark: job.benchmark,
            side,
            node: job.node,
            work: job.work,
            // Each node has its own.
            random: Random::new(job.seed ^ number ^ (job.node as u64) << 32),
            popularity: match (side, job.benchmark) {
                (Side::Client, _) | (_, Benchmark::Shuffle) => {
                    Popularity::new(keys, job.work.zipf_hundredths)
                }
                (Side::Server, _) => Popularity::Uniform { keys },
            },
            store: match (side, job.benchmark) {
                (Side::Server, Benchmark::Rpc | Benchmark::Kv) => {
                    Some(Store::new(keys, job.max_size_bytes)?)
                }
                _ => None,
            },
            tree: match job.benchmark {
                Benchmark::Index => Some(Tree::new(side == Side::Server)?),
                _ => None,
            },
            content: match (side, job.benchmark) {
                (Side::Server, Benchmark::FileGet) => {
                    Some(Content::new(job.work.source, job.max_size_bytes)?)
                }
                _ => None,
            },
            log: match (side, job.benchmark) {
                (Side::Server, Benchmark::Log) => Some(log::Memory::new()?),
                _ => None,
            },
            rows: match (side, job.benchmark) {
                (Side::Server, Benchmark::TwoPhase) => {
                    Some(twopc::Rows::new(keys, job.max_size_bytes)?)
                }
                _ => None,
            },
        })
    }

    /// A point with values of its size begins.
    pub(crate) fn begin<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        point: PointSpec,
    ) -> Result<(), Failure> {
        if let Some(store) = &mut self.store {
            store.begin(point.size_bytes);
        }
        if let Some(rows) = &mut self.rows {
            rows.begin(point.size_bytes);
        }
        if let Some(content) = &mut self.content
            && content.begin(point.size_bytes)?
            && self.work.source == Source::Sendfile
        {
            for link in links.iter_mut() {
                link.attach_file(content.descriptor()?)?;
            }
        }
        let Some(tree) = &mut self.tree else { return Ok(()) };
        if !tree.begin(point.size_bytes) {
            return Ok(());
        }
        match self.side {
            Side::Client => {
                let keys = index::keys(point.size_bytes);
                self.popularity = Popularity::new(keys, self.work.zipf_hundredths);
            }
            Side::Server if self.work.way != Way::Rpc => {
                for link in links {
                    link.write_window(tree.bytes())?;
                }
            }
            Side::Server => {}
        }
        Ok(())
    }

    /// One thread's part of one point.
    pub(crate) fn run<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
        point: PointSpec,
    ) -> Result<Measured, Failure> {
        let validate = point.validate;
        match (self.side, self.benchmark) {
            (_, Benchmark::Index) => self.index(links, port, point),
            (_, Benchmark::Log) => match &mut self.log {
                Some(memory) => log::replicate(links, port, point, self.work.log, memory),
                None => log::lead(links, port, point, self),
            },
            (_, Benchmark::Collective) => {
                collective::take_part(links, port, point, (self.work.collective, self.node))
            }
            (Side::Client, Benchmark::Incast) => incast::receive(links, port, point, self),
            (Side::Server, Benchmark::Incast) => incast::serve(links, port, point),
            (_, Benchmark::Shuffle) => shuffle::take_part(links, port, point, self),
            (_, Benchmark::TwoPhase) => match &mut self.rows {
                Some(rows) => twopc::take_part(links, port, point, rows, self.work.locks),
                None => twopc::coordinate(links, port, point, self),
            },
            (Side::Client, Benchmark::FileGet) => {
                fileget::get(links, port, point, &mut self.random)
            }
            (Side::Server, Benchmark::FileGet) => match &self.content {
                Some(content) => fileget::serve(links, port, point, (content, self.work.source)),
                None => Err(Failure::Check("a server without a file".to_owned())),
            },
            (Side::Client, Benchmark::Piggyback) => piggyback::send(links, port, point, self),
            (Side::Client, _) => caller::call(links, port, point, self, Naming::Store),
            (Side::Server, Benchmark::Piggyback) => {
                let mut records = Records { size_bytes: point.size_bytes.max(1), validate };
                server::answer(links, port, validate, &mut records)
            }
            (Side::Server, _) => match &mut self.store {
                Some(store) => {
                    server::answer(links, port, validate, &mut Table { store, validate })
                }
                None => Err(Failure::Check("a server without a store".to_owned())),
            },
        }
    }

    /// One thread's part of a point of the index.
    fn index<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
        point: PointSpec,
    ) -> Result<Measured, Failure> {
        let inner = match self.work.way {
            Way::Hybrid => Inner::Owner,
            Way::Rpc | Way::Read => Inner::Client { kept: point.parameter.min(KEPT_MAX) },
        };
        let no_tree = || Failure::Check("an index without a tree".to_owned());
        let own = (self.tree.as_ref(), &self.popularity, &mut self.random);
        match (self.side, self.work.way) {
            (Side::Client, Way::Rpc) => caller::call(links, port, point, self, Naming::Tree),
            (Side::Client, _) => {
                let tree = own.0.ok_or_else(no_tree)?;
                index::look_up(links, port, point, inner, (tree, own.1, own.2))
            }
            (Side::Server, Way::Read) => index::stand_by(links, port),
            (Side::Server, _) => {
                let mut owner = Owner { tree: own.0.ok_or_else(no_tree)? };
                server::answer(links, port, point.validate, &mut owner)
            }
        }
    }
}

/// What a side of a workload has to open, beyond what every benchmark says.
pub(crate) fn wants(job: &JobSpec, side: Side, usual: Wants) -> Wants {
    // A reply may come before the request is known to have left, and a request before the reply's
    // receive is posted again: twice the calls that are outstanding.
    let depth = job.tx_depth.max(1).saturating_mul(2);
    let longest =
        message_bytes(job.benchmark, job.work, job.max_size_bytes, job.work.parameter_max);
    let (tx_depth, rx_depth) = match (job.benchmark, side) {
        (Benchmark::FileGet, Side::Client) => (fileget::REQUESTS, depth),
        (Benchmark::FileGet, Side::Server) => (depth, fileget::REQUESTS),
        (Benchmark::Collective, _) => {
            let receives = |spec| {
                let part_bytes = job.work.parameter_max;
                collective::receives(spec, job.nodes, job.max_size_bytes, part_bytes)
            };
            (collective::SENDS, job.work.collective.map_or(1, receives))
        }
        (Benchmark::Incast, Side::Client) => (incast::REQUESTS, job.rx_depth.max(depth)),
        (Benchmark::Incast, Side::Server) => (depth, incast::REQUESTS),
        (Benchmark::Shuffle, _) => {
            (shuffle::sends(job.tx_depth), shuffle::receives(job.tx_depth.max(job.rx_depth)))
        }
        _ => (depth, job.rx_depth.max(depth)),
    };
    Wants {
        window_bytes: match (job.operation.is_one_sided(), side) {
            (false, _) => 0,
            // Both sides ask for the same; nobody reads the client's.
            (true, Side::Client) => index::NODE_BYTES,
            (true, Side::Server) => index::TREE_BYTES,
        },
        tx_depth,
        tx_slots: tx_depth,
        rx_depth,
        payload_bytes: longest,
        ..usual
    }
}

/// Longest message of a point, or part of memory that is READ, with values (records, files) of
/// `size_bytes`.
pub(crate) fn message_bytes(
    benchmark: Benchmark,
    work: WorkSpec,
    size_bytes: usize,
    parameter: usize,
) -> usize {
    if let Some(spec) = work.log {
        return log::message_bytes(spec, size_bytes);
    }
    if benchmark == Benchmark::TwoPhase {
        return twopc::message_bytes(size_bytes);
    }
    if work.collective.is_some() {
        return collective::message_bytes(size_bytes, parameter);
    }
    if benchmark == Benchmark::Shuffle {
        return shuffle::message_bytes(parameter);
    }
    if work.incast.is_some() {
        return incast::message_bytes(size_bytes, parameter);
    }
    let get_bytes = work.request_bytes;
    let body_bytes = match benchmark {
        Benchmark::Piggyback => size_bytes.saturating_mul(parameter),
        Benchmark::FileGet => parameter.max(fileget::REQUEST_BYTES),
        Benchmark::Index if work.way != Way::Rpc => index::NODE_BYTES,
        _ => get_bytes.max(size_bytes.saturating_add(KEY_BYTES)),
    };
    body_bytes.saturating_add(message::HEADER_BYTES)
}

/// Processor time of this thread in ns.
fn cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

/// Processor time of the whole process, threads of the fabric included, in ns.
fn process_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
