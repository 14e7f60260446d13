//! Incast: flows of several servers, each over an endpoint of its own, meet at one receiver, which
//! is the client. It lets all of them send at once and again when the last has ended (bursts), or
//! all the time.
//!
//! ```text
//! client lane                                   server lane
//!   receiver: says when, takes what comes         sender: keeps the depth in flight in each flow
//!     times: transfers over the ideal time
//!     shares: bytes of each flow by interval
//! ```
//!
//! Clocks of two hosts differ, so that all times are the receiver's: from the moment in which it
//! lets the flows go to the last byte of each. The word that does so is in them.

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

/// Requests of a flow that may be on their way.
const REQUESTS: usize = 8;
/// The body of a request behind its header: bytes, and the same inverted, so that damage is
/// noticed.
const REQUEST_BYTES: usize = 16;

/// The findings of the receiver besides the times of transfers.
#[derive(Debug)]
pub(crate) struct Found {
    incast: record::Incast,
    disorder: Disorder,
}

/// A lane of it.
pub(super) enum Incast {
    /// Takes what comes.
    Receiver(IncastRequest, Random),
    /// Sends it.
    Sender,
}

/// The request that the receiver has got.
#[derive(Debug, Clone, Copy)]
pub(super) struct IncastRequest {
    spec: IncastSpec,
    /// 0: not told.
    link_mbit_per_s: u64,
}

impl Workload for Incast {
    // It is that of the messages of a flow.
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

/// Bytes that a flow is asked for without an end.
const ENDLESS: u64 = u64::MAX;

/// The body of a request for so many bytes.
fn request(bytes: u64) -> [u8; REQUEST_BYTES] {
    (u128::from(!bytes) << 64 | u128::from(bytes)).to_le_bytes()
}

/// The bytes that a request asks for; `None`: it is damaged.
fn requested(body: &[u8]) -> Option<u64> {
    let both = u128::from_le_bytes(body.try_into().ok()?);
    let bytes = both as u64;
    ((both >> 64) as u64 == !bytes).then_some(bytes)
}

/// Bytes of a flow in each message but the last.
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
