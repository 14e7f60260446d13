//! Tuples of all nodes, each to the owner of its partition.

mod found;

pub use self::found::{Shuffle, ShuffleCount, ShuffleOf};
use super::{About, CHUNK_MAX, Figures, WorkSpec, numbers};
use crate::names::Preset;
use crate::spec::Benchmark;
use crate::topology::Topology;

/// The length of the shortest tuple of a shuffle in bytes: its key.
pub const TUPLE_BYTES_MIN: usize = 8;
/// The usual length of a buffer of tuples: with its header within the MTU of an EFA.
const BUFFER: &str = "8K";

pub(super) const ABOUT: About = About {
    name: "shuffle",
    names: &[Preset {
        sizes: "16,64,256,1024",
        depth: "64",
        nodes: 3,
        ..Preset::of(
            Benchmark::Shuffle,
            "shuffle",
            "Tuples of every node, each to the owner of its key's partition; --sizes is the tuple, --depth \
               the buffers (--buffer) on their way to each node",
        )
    }],
    figures: Figures::Shuffle,
    topology: Topology::Mesh,
    parameter: Some("buffer B"),
    reads: &[
        &["threads", "depth", "rx_depth", "validate", "iterations"],
        &["keys", "zipf", "buffer", "link_gbit"],
    ],
    parameters: |args| {
        let text = args.shuffle.buffer.as_deref().unwrap_or(BUFFER);
        numbers("--buffer", text, |bytes| bytes <= CHUNK_MAX, &format!("{CHUNK_MAX} at most"))
    },
    spec: |args, _| {
        let link_mbit_per_s = args.shared.link_mbit_per_s()?;
        Ok(WorkSpec { link_mbit_per_s, ..args.shared.by_key()? })
    },
    ..About::GROUP
};

/// Options of `shuffle`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Bytes of tuples in a buffer of shuffle, like --sizes. Default: 8K.
    #[arg(long)]
    buffer: Option<String>,
}
