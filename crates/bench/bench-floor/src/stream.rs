//! Messages in one direction, as fast as they are taken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bench_record::failure::Failure;
use bench_record::spec::PointSpec;
use bench_record::{Bandwidth, Point};

use crate::sides::{self, Cpus};
use crate::window::Window;
use crate::{Receiver, Sender};

/// The number of the receiver's turns between two clock reads.
const TURNS: u32 = 64;
/// The length of the largest buffer that one call receives, in bytes: the most that the kernel
/// joins.
const BUFFER_BYTES: usize = 1 << 16;

/// Streams messages, and counts those that arrive.
pub(crate) fn run(
    spec: PointSpec,
    cpus: Cpus,
    mut sender: impl Sender,
    mut receiver: impl Receiver,
) -> Result<Point, Failure> {
    let send = |stop: &AtomicBool| {
        let message = vec![0x5a; spec.size_bytes];
        while !stop.load(Ordering::Relaxed) {
            if !sender.send(&message)? {
                std::hint::spin_loop();
            }
        }
        Ok(())
    };
    let receive = |stop: &AtomicBool| receive(spec, &mut receiver, stop);
    let bandwidth = sides::run(cpus, (1, receive), send)?;
    let point = Point { warmup_ms: spec.warmup_ms, ..Point::new(spec.size_bytes, 0) };
    Ok(Point { bandwidth: Some(bandwidth), ..point })
}

fn receive(
    spec: PointSpec,
    receiver: &mut impl Receiver,
    stop: &AtomicBool,
) -> Result<Option<Bandwidth>, Failure> {
    let window = Window::of(spec);
    let size_bytes = spec.size_bytes as u64;
    let mut buffer = vec![0; BUFFER_BYTES];
    let (start, mut total_bytes, mut turns) = (Instant::now(), 0, 0_u32);
    let mut begun: Option<(Instant, u64)> = None;
    while !stop.load(Ordering::Relaxed) {
        match receiver.receive(&mut buffer)? {
            Some(bytes) => total_bytes += bytes as u64,
            None => std::hint::spin_loop(),
        }
        turns = turns.wrapping_add(1);
        if turns % TURNS != 0 {
            continue;
        }
        let now = Instant::now();
        match begun {
            None if window.begins(now - start, total_bytes / size_bytes) => {
                begun = Some((now, total_bytes));
            }
            None => {}
            Some((since, before)) => {
                let bytes = total_bytes - before;
                if window.ends(now - since, bytes / size_bytes) {
                    let seconds = (now - since).as_secs_f64();
                    return Ok(Some(Bandwidth::new(bytes / size_bytes, bytes, seconds)));
                }
            }
        }
    }
    Ok(None)
}
