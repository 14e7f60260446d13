//! The reasons for which a session is refused: a client may ask for anything.

use bench_record::failure::Failure;

/// The error that a session was asked for on which the two sides have not agreed, or for which
/// there is no room.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("node {node} of {nodes}: there are {most} at most")]
    Nodes { node: usize, nodes: usize, most: usize },
    #[error("{threads} threads with {endpoints} endpoints to each peer: give 1 to {most} in all")]
    Endpoints { threads: usize, endpoints: usize, most: usize },
    #[error("a session of no thread was asked for: give 1 or more")]
    NoThread,
    #[error("a session of no endpoint was asked for")]
    NoEndpoint,
    #[error("no {0} was described")]
    NotDescribed(&'static str),
    #[error("a point of {0} bytes was not agreed")]
    Size(usize),
    #[error("a point with parameter {0} was not agreed")]
    Parameter(usize),
    #[error("a point of depth {depth} with {receives} receives was not agreed")]
    Depth { depth: usize, receives: usize },
    #[error("tuples of {tuple_bytes} bytes in buffers of {buffer_bytes} were not agreed")]
    Tuples { tuple_bytes: usize, buffer_bytes: usize },
    #[error("a participant has one coordinator")]
    Coordinators,
    #[error("a ping-pong has one endpoint per thread, not {0}: see --threads")]
    PingPong(usize),
    #[error("an open loop has a time, not a number: use -t")]
    OpenLoop,
    #[error("incast: --persistent flows have no end to count: give --duration")]
    PersistentFlows,
    #[error(
        "{messages} messages of up to {payload_bytes} bytes for each endpoint are more than any \
         memory: ask for less"
    )]
    TooMuch { messages: usize, payload_bytes: usize },
    #[error("no memory for {0}")]
    Memory(String),
}

impl From<Refusal> for Failure {
    #[cold]
    fn from(refusal: Refusal) -> Self {
        Self::Usage(refusal.to_string())
    }
}
