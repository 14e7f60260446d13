//! Streams in both directions at once.

use serde::{Deserialize, Serialize};

pub(super) use super::NoArgs as Args;
use super::about::{About, stream, two_sided};
use crate::figures::Bandwidth;
use crate::names::{Preset, STREAM_DEPTH};
use crate::spec::Benchmark;

const BIDIRECTIONAL: Preset = Preset {
    depth: STREAM_DEPTH,
    ..Preset::of(
        Benchmark::Bidirectional,
        "bidirectional",
        "Streams in both directions at once, on the same endpoints; goodput of each, and their sum",
    )
};

pub(super) const ABOUT: About = About {
    name: BIDIRECTIONAL.name,
    names: &[BIDIRECTIONAL],
    directions: 2,
    reads: &[
        &["threads", "endpoints", "depth", "window", "post_list"],
        &["rx_depth", "order", "validate"],
    ],
    check: |asked| two_sided(asked).and_then(|()| stream(asked)),
    ..About::MESSAGES
};

/// The bandwidth of each direction while the other one was busy, at its receiver. The windows of
/// both lie within the streams of both.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct BothWays {
    pub to_server: Bandwidth,
    pub to_client: Bandwidth,
}
