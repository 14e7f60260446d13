//! What two pinned threads reach over a bare [`Ring`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::pingpong::{WARM_UP as WARM_UP_TRIPS, median_half_ns};
use super::ring::{Consumer, Producer, Ring, SLOT_BYTES};
use super::socket::{pin, two_cores};
use super::stream::{Rate, WARM_UP};

/// The size of what goes to and fro.
const PING_BYTES: usize = 64;
/// Round trips between two clock reads, which cost as much as one.
const BATCH: usize = 16;
/// Turns of the receiver between two clock reads.
const TURNS: u32 = 64;

/// Streams messages of `bytes` for `duration` and returns what arrived per second.
///
/// # Errors
/// Messages are longer than a slot, or there are fewer than two cores.
pub(crate) fn ring_stream(bytes: usize, duration: Duration) -> Result<Rate> {
    ensure!((1..=SLOT_BYTES).contains(&bytes), "{bytes} B: a slot has 1 to {SLOT_BYTES}");
    let [near_core, far_core] = two_cores()?;
    let mut ring = Ring::new();
    let (mut producer, mut consumer) = ring.ends();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let result = pin(near_core);
            if result.is_ok() {
                let message = vec![0x5a; bytes];
                while spin(&stop, || producer.send(&message).then_some(())).is_some() {}
            }
            // The receiver must end even when this side cannot begin.
            stop.store(true, Ordering::Relaxed);
            result
        });
        let receiver = scope.spawn(|| {
            let result = pin(far_core).and_then(|()| receive(&mut consumer, duration, &stop));
            stop.store(true, Ordering::Relaxed);
            result
        });
        sender.join().map_err(|_| anyhow!("the sending thread panicked"))??;
        let segments_per_s = receiver.join().map_err(|_| anyhow!("the receiver panicked"))??;
        #[expect(clippy::cast_precision_loss, reason = "messages are short")]
        let gbit_per_s = segments_per_s * bytes as f64 * 8.0 / 1e9;
        Ok(Rate { gbit_per_s, segments_per_s })
    })
}

/// Messages per second after the warm-up.
#[expect(clippy::cast_precision_loss, reason = "messages of a few seconds")]
fn receive(consumer: &mut Consumer<'_>, duration: Duration, stop: &AtomicBool) -> Result<f64> {
    let mut buffer = vec![0; SLOT_BYTES];
    let start = Instant::now();
    let mut measured_from: Option<(Instant, u64)> = None;
    let (mut messages, mut turns) = (0_u64, 0_u32);
    while !stop.load(Ordering::Relaxed) {
        match consumer.receive(&mut buffer) {
            Some(_) => messages += 1,
            None => std::hint::spin_loop(),
        }
        turns = turns.wrapping_add(1);
        if turns % TURNS != 0 {
            continue;
        }
        let now = Instant::now();
        match measured_from {
            None if now - start >= WARM_UP => measured_from = Some((now, messages)),
            // A sender that was scheduled away all the time lengthens the measurement.
            Some((from, before)) if now - from >= duration && messages > before => {
                return Ok((messages - before) as f64 / (now - from).as_secs_f64());
            }
            _ => {}
        }
    }
    Err(anyhow!("the sender stopped early"))
}

/// Median of half a round trip of 64 B over two rings and `count` round trips, in nanoseconds.
///
/// # Errors
/// Fewer than two cores, or nothing to take a median of.
pub(crate) fn ring_half_round_trip_ns(count: usize) -> Result<f64> {
    ensure!(count > 0, "a median needs at least one round trip");
    let [near_core, far_core] = two_cores()?;
    let (mut there, mut back) = (Ring::new(), Ring::new());
    let (mut to_far, mut at_far) = there.ends();
    let (mut to_near, mut at_near) = back.ends();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let result = pin(far_core);
            let mut message = [0; PING_BYTES];
            while result.is_ok() && pass(&mut at_far, &mut to_near, &mut message, &stop).is_some() {
            }
            stop.store(true, Ordering::Relaxed);
            result
        });
        let ping = scope.spawn(|| {
            let result =
                pin(near_core).and_then(|()| ping(&mut to_far, &mut at_near, count, &stop));
            stop.store(true, Ordering::Relaxed);
            result
        });
        let samples = ping.join().map_err(|_| anyhow!("the pinging thread panicked"))?;
        echo.join().map_err(|_| anyhow!("the echoing thread panicked"))??;
        #[expect(clippy::cast_precision_loss, reason = "a small constant")]
        let batch = BATCH as f64;
        Ok(median_half_ns(samples?) / batch)
    })
}

/// Times of batches in nanoseconds.
fn ping(
    to: &mut Producer<'_>,
    from: &mut Consumer<'_>,
    count: usize,
    stop: &AtomicBool,
) -> Result<Vec<u64>> {
    let mut message = [0; PING_BYTES];
    let warm_up = WARM_UP_TRIPS.div_ceil(BATCH);
    let batches = warm_up + count.div_ceil(BATCH);
    let mut samples = Vec::with_capacity(batches);
    let mut before = Instant::now();
    for batch in 0..batches {
        for _ in 0..BATCH {
            // A ring with one message under way always has room.
            to.send(&message);
            spin(stop, || from.receive(&mut message)).context("the echo stopped early")?;
        }
        let now = Instant::now();
        if batch >= warm_up {
            samples.push(u64::try_from((now - before).as_nanos())?);
        }
        before = now;
    }
    Ok(samples)
}

/// Hands the next message on; `None`: everything is to stop.
fn pass(
    from: &mut Consumer<'_>,
    to: &mut Producer<'_>,
    message: &mut [u8],
    stop: &AtomicBool,
) -> Option<()> {
    let bytes = spin(stop, || from.receive(message))?;
    spin(stop, || to.send(&message[..bytes]).then_some(()))
}

/// Tries until something comes of it; `None`: everything is to stop.
fn spin<T>(stop: &AtomicBool, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = attempt() {
            return Some(found);
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_size_that_fits_arrive() {
        for bytes in [1, 64, SLOT_BYTES] {
            let rate = ring_stream(bytes, Duration::from_millis(20)).unwrap();
            let bits_per_s = rate.segments_per_s * bytes as f64 * 8.0;
            assert!(rate.segments_per_s > 0.0, "{bytes} B: {rate:?}");
            assert!((bits_per_s / 1e9 / rate.gbit_per_s - 1.0).abs() < 1e-9, "{rate:?}");
        }
        for bytes in [0, SLOT_BYTES + 1] {
            let error = ring_stream(bytes, Duration::ZERO).unwrap_err().to_string();
            assert!(error.contains(&format!("{bytes} B")), "{error}");
        }
    }

    #[test]
    fn a_round_trip_takes_time() {
        let ns = ring_half_round_trip_ns(1_000).unwrap();
        assert!(ns > 5.0, "{ns} ns: no two cores are that near");
        assert!(ring_half_round_trip_ns(0).is_err());
    }
}
