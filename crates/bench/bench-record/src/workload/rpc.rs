//! Calls answered from a hash table.

use super::about::{CALLS, SLEEPS};
use super::{About, KEY_BYTES, WorkSpec};
use crate::names::Preset;
use crate::spec::{Benchmark, parse_bytes};

/// The length of a request of an RPC in bytes, as in the measurements of HERD, FaSST and eRPC.
pub(super) const REQUEST_BYTES: usize = 32;

/// The preset of calls, with several numbers of outstanding calls.
pub(super) const RPC: Preset = Preset {
    sizes: "32",
    depth: "1,8,32,128",
    ..Preset::of(Benchmark::Rpc, "rpc", "Calls answered from a hash table; --sizes is the response")
};

pub(super) const ABOUT: About = About {
    name: RPC.name,
    names: &[RPC],
    words: |work| Some(format!("request {} B", work.request_bytes)),
    reads: &[CALLS, SLEEPS, &["endpoints", "rx_depth", "post_list", "request", "keys", "zipf"]],
    spec: |args, _| {
        let request_bytes = args.rpc.request.unwrap_or(REQUEST_BYTES);
        if request_bytes < KEY_BYTES {
            return Err(format!("--request {request_bytes}: its key alone has {KEY_BYTES} bytes"));
        }
        Ok(WorkSpec { request_bytes, ..args.shared.by_key()? })
    },
    is_for_groups: true,
    ..About::CALLS
};

/// Options of `rpc`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Bytes of a request of rpc, key included; the response has --sizes. Default: 32.
    #[arg(long, value_parser = parse_bytes)]
    request: Option<usize>,
}
