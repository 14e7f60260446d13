//! The list of all benchmarks.

use serde::{Deserialize, Serialize};

use super::About;
use crate::topology::Topology;

/// Hands every benchmark to the macro `then`, each as `folder::Name`.
///
/// The record makes its enum of the list, and the engine its dispatch: a new benchmark is a line
/// here and a folder with its name in each crate.
#[macro_export]
macro_rules! workloads {
    ($then:ident) => {
        $then! {
            /// Ping-pong; half a round trip, each one timed.
            latency::Latency,
            /// Ping-pong; round trips counted.
            ping_pong::PingPong,
            /// A stream in one direction; goodput counted at the receiver.
            bandwidth::Bandwidth,
            /// Streams in both directions at once; goodput counted at both receivers.
            bidirectional::Bidirectional,
            /// READs or WRITEs of the peer's memory, counted at the initiator.
            rma::Rma,
            /// Atomic operations on 8 bytes of the peer's memory, counted at the initiator and
            /// checked at both.
            atomics::Atomics,
            /// Requests at moments that do not depend on answers; response and service times.
            open_loop::OpenLoop,
            /// A timed ping-pong of one thread while the others load the fabric with streams.
            sat_latency::SatLatency,
            /// Calls answered from a hash table.
            rpc::Rpc,
            /// Gets and puts of a key-value store.
            kv::Kv,
            /// Records, several to a message.
            piggyback::Piggyback,
            /// Lookups in a tree, by calls or by READs.
            index::Index,
            /// Files of the server, in chunks.
            #[serde(rename = "fileget")]
            fileget::FileGet,
            /// Records of a log, shipped to replicas.
            log::Log,
            /// Transactions that participants vote on.
            twopc::TwoPhase,
            /// Round trips and streams of every two nodes, a pair at a time.
            matrix::Matrix,
            /// Connections that are opened, used once and closed.
            connections::Connections,
            /// Flows of several servers into the client.
            incast::Incast,
            /// Tuples of all nodes, each to the owner of its partition.
            shuffle::Shuffle,
            /// An operation of all ranks: of a session's nodes, or of an MPI program.
            collective::Collective,
        }
    };
}

macro_rules! benchmarks {
    ($($(#[$about:meta])* $folder:ident::$name:ident,)*) => {
        /// A benchmark, which decides on the measurement and on how the two sides talk.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Benchmark {
            $($(#[$about])* $name,)*
        }

        impl Benchmark {
            /// All benchmarks.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the facts about the benchmark.
            pub const fn about(self) -> &'static About {
                match self {
                    $(Self::$name => &super::$folder::ABOUT,)*
                }
            }
        }
    };
}

workloads!(benchmarks);

impl Benchmark {
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// Returns true if several operations may be in flight.
    pub fn has_depth(self) -> bool {
        self.about().reads("depth")
    }

    /// Returns true if the benchmark is a data system's: calls that a server answers.
    pub const fn is_workload(self) -> bool {
        self.about().is_workload
    }

    /// Returns the usual length of a request in bytes.
    pub const fn usual_request_bytes(self) -> usize {
        match self {
            Self::Rpc => super::rpc::REQUEST_BYTES,
            _ => super::KEY_BYTES,
        }
    }

    /// Returns the usual number of keys (2pc: rows of each participant).
    pub const fn usual_keys(self) -> usize {
        match self {
            Self::TwoPhase => super::twopc::ROWS,
            _ => super::args::KEYS,
        }
    }

    /// Returns the number of servers at which each operation is done: all of them or one.
    pub const fn servers_per_call(self, servers: usize) -> usize {
        match self {
            Self::Log | Self::TwoPhase => servers,
            _ => 1,
        }
    }

    /// Returns the pairs of nodes that talk to each other.
    pub const fn topology(self) -> Topology {
        self.about().topology
    }

    /// Returns true if more than two nodes can take part.
    pub const fn is_for_groups(self) -> bool {
        self.about().is_for_groups
    }
}
