//! Features that a fabric lacks, and the alternatives.

use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;

/// The error that a fabric lacks a feature that was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unable {
    #[error("{0} is no verbs fabric")]
    NotVerbs(FabricName),
    #[error("{0} is no libfabric provider")]
    NotLibfabric(FabricName),
    #[cfg(test)]
    #[error("this fabric is made by hand")]
    ByHand,
    #[error("{0} has no tags: use --op send")]
    Tags(FabricName),
    #[error("{0} has no inject, because every send copies: use --op send")]
    Inject(FabricName),
    #[error("verbs:srd has no inline WRITEs, as the device: use --op write")]
    InlineWrites,
    #[error("{0} has no access to the peer's memory")]
    PeerMemory(FabricName),
    #[error(
        "{0} has no atomics: use --fabric verbs:rc, or libfabric:tcp or another provider of \
         `fi_info -c FI_ATOMIC`"
    )]
    Atomics(FabricName),
    #[error("this fabric has no atomics")]
    AnyAtomics,
    #[error("{0} has no add that fetches nothing: use --op fetch_add")]
    PlainAdd(FabricName),
    #[error("{0} is not reliable: use {1}")]
    Reliable(FabricName, &'static str),
    #[error("{0} is reliable, no datagram fabric: use {1}")]
    Unreliable(FabricName, &'static str),
    #[error("{0} sends one message per call: no --post-list")]
    Lists(FabricName),
    #[error("{0} completes each send: no --complete-every")]
    Silence(FabricName),
    #[error("sockets complete each send")]
    Freezing,
    #[error("sockets have no memory that the peer may use")]
    Window,
    #[error("only tcp sends out of the page cache")]
    PageCache,
    #[error("--domain {domain}: {fabric} has no domains; the address of --host decides")]
    Domains { fabric: FabricName, domain: String },
    #[error("a depth above {0} is not possible")]
    Depth(usize),
    #[error("{0}: leave --events out, or use verbs:srd, verbs:rc, libfabric:tcp or sockets:tcp")]
    Events(String),
}

impl From<Unable> for Failure {
    #[cold]
    fn from(unable: Unable) -> Self {
        Self::Usage(unable.to_string())
    }
}
