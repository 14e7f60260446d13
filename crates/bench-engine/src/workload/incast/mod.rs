//! Incast: flows of several servers, each over an endpoint of its own, meet at one receiver, which is
//! the client. It lets all of them send at once and again when the last has ended (bursts), or all
//! the time.
//!
//! ```text
//! client lane                                   server lane
//!   receiver: says when, takes what comes         sender: keeps the depth in flight in each flow
//!     times: transfers over the ideal time
//!     shares: bytes of each flow by interval
//! ```
//!
//! Clocks of two hosts differ, so that all times are the receiver's: from the moment in which it lets
//! the flows go to the last byte of each. The word that does so is in them.

mod receiver;
mod sender;
mod shares;
mod times;

use bench_record::spec::PointSpec;
use bench_record::{Disorder, Incast};

pub(super) use self::receiver::receive;
pub(super) use self::sender::serve;

use super::message::HEADER_BYTES;

/// Requests of a flow that may be on their way.
pub(super) const REQUESTS: usize = 8;
/// What a request says besides its header: bytes, and the same inverted, so that damage is noticed.
const REQUEST_BYTES: usize = 16;

/// What the receiver found besides the times of transfers.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) incast: Incast,
    pub(crate) disorder: Disorder,
}

/// Bytes that a flow is asked for without an end.
const ENDLESS: u64 = u64::MAX;

/// Longest message of a flow, or request, with parts of `part_bytes`.
pub(super) fn message_bytes(transfer_bytes: usize, part_bytes: usize) -> usize {
    HEADER_BYTES + transfer_bytes.min(part_bytes).max(REQUEST_BYTES)
}

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
