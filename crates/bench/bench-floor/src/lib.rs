//! The floors: what two threads reach over bare memory and over bare UDP on loopback, without any
//! protocol.
//!
//! Both threads poll busily on separate processors, like the programs that are compared with them.
//! Messages are counted where they arrive.
#![deny(unsafe_code)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people: 53 bits of a counter are plenty"
)]

mod ping_pong;
mod ring;
mod sides;
mod socket;
mod stream;
mod window;

use bench_record::Point;
use bench_record::fabric_name::Floor;
use bench_record::failure::Failure;
use bench_record::spec::PointSpec;

use ring::{Ring, SLOT_BYTES};
pub use sides::Cpus;
use socket::DATAGRAM_BYTES;

/// The largest message of a floor in bytes.
pub const fn message_bytes(floor: Floor) -> usize {
    match floor {
        Floor::Memory => SLOT_BYTES,
        Floor::Udp => DATAGRAM_BYTES,
    }
}

/// Measures half round trips of one message at a time.
///
/// For memory the result is the middle of means over 16 round trips, because a single round trip
/// costs no more than reading the clock; for UDP it has the time of each round trip.
///
/// # Errors
/// The call fails if the size does not fit, a processor is not available, there are no sockets, or
/// a datagram was lost.
pub fn latency(floor: Floor, spec: PointSpec, cpus: Cpus) -> Result<Point, Failure> {
    check(floor, spec)?;
    match floor {
        Floor::Memory => {
            let (mut there, mut back) = (Ring::new(), Ring::new());
            let (to_far, at_far) = there.ends();
            let (to_near, at_near) = back.ends();
            ping_pong::of_batches(spec, cpus, (to_far, at_near), (to_near, at_far))
        }
        Floor::Udp => {
            let [near, far] = socket::pair()?;
            ping_pong::of_each(spec, cpus, (&near, &near), (&far, &far))
        }
    }
}

/// Measures messages that one thread sends as fast as another one takes them.
///
/// # Errors
/// The call fails if the size does not fit, a processor is not available, there are no sockets, or
/// the kernel has no segmentation or receive offload.
pub fn bandwidth(floor: Floor, spec: PointSpec, cpus: Cpus) -> Result<Point, Failure> {
    check(floor, spec)?;
    match floor {
        Floor::Memory => {
            let mut ring = Ring::new();
            let (producer, consumer) = ring.ends();
            stream::run(spec, cpus, producer, consumer)
        }
        Floor::Udp => socket::with_offloads(spec.size_bytes, |sender, receiver| {
            stream::run(spec, cpus, sender, receiver)
        }),
    }
}

fn check(floor: Floor, spec: PointSpec) -> Result<(), Failure> {
    let (size, most) = (spec.size_bytes, message_bytes(floor));
    if (1..=most).contains(&size) {
        return Ok(());
    }
    let what = format!("{size} B on {}: its messages have 1 to {most} B", floor.label());
    Err(Failure::Usage(what))
}

/// The sending end of a wire, which copies messages away.
trait Sender: Send {
    /// Sends a message, or several of that size at once. Returns false if there is no room now.
    fn send(&mut self, message: &[u8]) -> Result<bool, Failure>;
}

/// The receiving end of a wire, which copies messages out.
trait Receiver: Send {
    /// Receives the next message, or several at once. Returns the number of bytes; `None` if there
    /// is none.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Failure>;
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Limit;

    use super::*;

    fn spec(size_bytes: usize, limit: Limit) -> PointSpec {
        PointSpec { warmup_ms: 1, ..PointSpec::new(size_bytes, 1, limit) }
    }

    #[test]
    fn messages_of_any_size_that_fits_arrive() {
        for floor in [Floor::Memory, Floor::Udp] {
            for size in [1, 64, SLOT_BYTES] {
                let point = bandwidth(floor, spec(size, Limit::DurationMs(20)), None);
                let found = point.expect("a point").bandwidth.expect("a stream");
                assert!(found.mmsg_per_s > 0.0, "{floor:?} {size} B: {found:?}");
                let of_rate = found.mmsg_per_s * size as f64 * 8.0 / 1e3;
                assert!((of_rate / found.gbit_per_s - 1.0).abs() < 1e-9, "{found:?}");
            }
            for size in [0, message_bytes(floor) + 1] {
                let error = bandwidth(floor, spec(size, Limit::DurationMs(1)), None);
                let text = error.expect_err("refused").to_string();
                assert!(text.contains(&format!("{size} B")), "{text}");
            }
        }
    }

    #[test]
    fn a_round_trip_takes_time() {
        for (floor, least_us) in [(Floor::Memory, 0.005), (Floor::Udp, 0.1)] {
            let point = latency(floor, spec(64, Limit::Iterations(1_000)), None).expect("a point");
            let found = point.latency.expect("round trips");
            assert!(found.middle_us() > least_us, "{floor:?}: {found:?}");
            assert!(found.round_trips.is_some_and(|count| count >= 1_000), "{found:?}");
            assert_eq!(found.distribution.is_some(), floor == Floor::Udp);
        }
    }

    #[test]
    fn a_processor_that_cannot_be_had_is_told() {
        let none = rustix::thread::CpuSet::MAX_CPU - 1;
        let spec = spec(64, Limit::Iterations(10));
        for cpus in [(none, 0), (0, none), (usize::MAX, 0)] {
            let error = latency(Floor::Memory, spec, Some(cpus)).expect_err("refused");
            assert!(error.to_string().contains("processor"), "{error}");
            let error = bandwidth(Floor::Udp, spec, Some(cpus)).expect_err("refused");
            assert!(error.to_string().contains("processor"), "{error}");
        }
    }
}
