//! Incast: the flows of several servers, each over a separate endpoint, meet at one receiver, which
//! is the client. The client lets all flows send at once and again when the last one has ended
//! (bursts), or all the time.
//!
//! ```text
//! client lane                                   server lane
//!   receiver: says when, takes what comes         sender: keeps the depth in flight in each flow
//!     times: transfers over the ideal time
//!     shares: bytes of each flow by interval
//! ```
//!
//! The clocks of two hosts differ, so that all times are by the receiver's clock: from the moment
//! at which it starts the flows to the last byte of each. They include the message that starts a
//! flow.

mod point;
mod receiver;
mod sender;
mod shares;
mod times;

use bench_record::workload::IncastSpec;
use bench_record::{self as record, Disorder};

use super::message::HEADER_BYTES;
use super::room::{self};
use crate::measure::Random;
use crate::refusal::Refusal;
use crate::workload::prelude::*;

/// The most requests of a flow that may be on their way.
const REQUESTS: usize = 8;
/// The length of the body of a request behind its header: the number of bytes, and the same
/// inverted, so that damage is noticed.
const REQUEST_BYTES: usize = 16;

/// The findings of the receiver besides the times of transfers.
#[derive(Debug)]
pub(crate) struct Found {
    incast: record::Incast,
    disorder: Disorder,
}

/// A lane of the workload.
pub(super) enum Incast {
    /// The receiver of all flows.
    Receiver(IncastRequest, Random),
    /// A sender of flows.
    Sender,
}

/// The request that the receiver has got.
#[derive(Debug, Clone, Copy)]
pub(super) struct IncastRequest {
    spec: IncastSpec,
    /// The rate that the link takes; 0: not told.
    link_mbit_per_s: u64,
}

impl Workload for Incast {
    // The depth is that of the messages of a flow.
    const SENDS_DEPTH: bool = false;

    fn depths(job: &JobSpec, side: Side, _thread: usize) -> (usize, usize) {
        let depth = room::twice(job);
        match side {
            Side::Client => (REQUESTS, job.rx_depth.max(depth)),
            Side::Server => (depth, REQUESTS),
        }
    }

    fn message_bytes(_job: &JobSpec, size_bytes: usize, chunk_bytes: usize) -> usize {
        size_bytes.min(chunk_bytes).max(REQUEST_BYTES).saturating_add(HEADER_BYTES)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        let work = task.job.work;
        let spec = work.incast().ok_or(Refusal::NotDescribed("incast"))?;
        let asked = IncastRequest { spec, link_mbit_per_s: work.link_mbit_per_s };
        Ok(match task.side {
            Side::Client => Self::Receiver(asked, task.random()),
            Side::Server => Self::Sender,
        })
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self {
            Self::Receiver(asked, random) => receiver::receive(part, *asked, random),
            Self::Sender => sender::serve(part),
        }
    }

    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        point::conclude(session, point)
    }
}

/// The number of bytes that asks for a flow without an end.
const ENDLESS: u64 = u64::MAX;

/// Returns the body of a request for this many bytes.
fn request(bytes: u64) -> [u8; REQUEST_BYTES] {
    (u128::from(!bytes) << 64 | u128::from(bytes)).to_le_bytes()
}

/// Returns the number of bytes that a request asks for; `None` if it is damaged.
fn requested(body: &[u8]) -> Option<u64> {
    let both = u128::from_le_bytes(body.try_into().ok()?);
    let bytes = both as u64;
    ((both >> 64) as u64 == !bytes).then_some(bytes)
}

/// Returns the number of bytes of a flow in each message but the last.
fn part_bytes(point: PointSpec) -> u64 {
    point.parameter.min(point.size_bytes).max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_and_damage_is_noticed() {
        for bytes in [0, 1, 1 << 40, ENDLESS] {
            let body = request(bytes);
            assert_eq!(requested(&body), Some(bytes));
            assert_eq!(requested(&body[..15]), None);
            for bit in 0..128 {
                let mut damaged = body;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(requested(&damaged), None, "bit {bit}");
            }
        }
    }
}
