//! Files of the server, in chunks.

use serde::{Deserialize, Serialize};

use super::about::CALLS;
use super::{About, Figures, WorkSpec};
use crate::fabric_name::FabricName;
use crate::names::Preset;
use crate::spec::Benchmark;

/// The usual length of a chunk.
const CHUNK: &str = "64K";

/// The place where the server has the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// In memory of its own: each chunk is copied into a message.
    #[default]
    Memory,
    /// In the page cache: each chunk is read into a message.
    PageCache,
    /// In the page cache, and the kernel sends from there (TCP only).
    Sendfile,
}

impl Source {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::PageCache => "the page cache",
            Self::Sendfile => "the page cache by sendfile",
        }
    }
}

pub(super) const ABOUT: About = About {
    name: "fileget",
    names: &[Preset {
        sizes: "1M,16M,256M",
        depth: "64",
        ..Preset::of(
            Benchmark::FileGet,
            "fileget",
            "Files of the server, streamed in chunks (--chunk) out of --from; --sizes is the file, --depth \
               how many chunks may be on their way",
        )
    }],
    figures: Figures::Files,
    parameter: Some("chunk B"),
    words: |work| Some(format!("from {}", work.source.name())),
    reads: &[CALLS, &["endpoints", "chunk", "from"]],
    parameters: |args| args.shared.chunks(CHUNK, 8, "multiples of 8, "),
    spec: |args, _| {
        let source = args.fileget.from.unwrap_or_default();
        Ok(WorkSpec { source, ..WorkSpec::NONE })
    },
    check: |asked| match (asked.job.work.source, &asked.job.fabric) {
        (Source::Memory | Source::PageCache, _) | (Source::Sendfile, FabricName::Tcp) => Ok(()),
        (Source::Sendfile, other) => {
            Err(format!("--from sendfile is for --fabric tcp, not {other}"))
        }
    },
    ..About::CALLS
};

/// Options of `fileget`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Where the server of fileget has the file. Default: memory.
    #[arg(long)]
    from: Option<Source>,
}
