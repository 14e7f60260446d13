//! One-way stream of datagrams with segmentation and receive offload.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::socket::{coalesce, is_idle, pair, pin, receive_room, segment, two_cores};

/// Largest payload of one send: what fits an IPv4 datagram.
const MAX_SEND_BYTES: usize = 65_507;
/// Segments the kernel cuts out of one send, at most.
const MAX_SEGMENTS: usize = 64;
/// Bytes under way: more than a receiver that is scheduled away for a moment can miss, less than
/// its socket buffer holds with the kernel's own overhead.
const WINDOW_BYTES: u64 = 1 << 19;
const ROOM_BYTES: usize = 8 << 20;
pub(super) const WARM_UP: Duration = Duration::from_millis(200);

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    pub(crate) gbit_per_s: f64,
    pub(crate) segments_per_s: f64,
}

/// State both sides see.
#[derive(Default)]
struct Shared {
    received_bytes: AtomicU64,
    stop: AtomicBool,
}

/// Streams segments of `segment_bytes` for `duration` and returns what arrived per second.
///
/// # Errors
/// No sockets, fewer than two cores, or a kernel without offloads.
pub(crate) fn stream(segment_bytes: usize, duration: Duration) -> Result<Rate> {
    let [near, far] = pair()?;
    segment(&near, segment_bytes)?;
    coalesce(&far)?;
    receive_room(&far, ROOM_BYTES)?;
    let [near_core, far_core] = two_cores()?;
    let shared = Shared::default();
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let result = pin(near_core).and_then(|()| send(&near, segment_bytes, &shared));
            shared.stop.store(true, Ordering::Relaxed);
            result
        });
        let receiver = scope.spawn(|| {
            let result = pin(far_core).and_then(|()| receive(&far, duration, &shared));
            shared.stop.store(true, Ordering::Relaxed);
            result
        });
        sender.join().map_err(|_| anyhow!("the sending thread panicked"))??;
        let bytes_per_s = receiver.join().map_err(|_| anyhow!("the receiver panicked"))??;
        #[expect(clippy::cast_precision_loss, reason = "segments are short")]
        let segments_per_s = bytes_per_s / segment_bytes as f64;
        Ok(Rate { gbit_per_s: bytes_per_s * 8.0 / 1e9, segments_per_s })
    })
}

fn send(socket: &UdpSocket, segment_bytes: usize, shared: &Shared) -> Result<()> {
    let segments = (MAX_SEND_BYTES / segment_bytes).clamp(1, MAX_SEGMENTS);
    let burst = vec![0x5a; segments * segment_bytes];
    let mut sent_bytes = 0_u64;
    let mut waited = None;
    while !shared.stop.load(Ordering::Relaxed) {
        let received_bytes = shared.received_bytes.load(Ordering::Relaxed);
        if sent_bytes.saturating_sub(received_bytes) > WINDOW_BYTES {
            // What the socket buffer refused never arrives: count afresh after a while. (What was
            // only late makes the receiver overtake the count.)
            let since: Instant = *waited.get_or_insert_with(Instant::now);
            if since.elapsed() > Duration::from_millis(10) {
                sent_bytes = received_bytes;
            }
            std::hint::spin_loop();
            continue;
        }
        waited = None;
        match socket.send(&burst) {
            Ok(bytes) => sent_bytes += bytes as u64,
            Err(error) if is_idle(&error) => {}
            Err(error) => return Err(error).context("stream"),
        }
    }
    Ok(())
}

/// Bytes per second after the warm-up.
#[expect(clippy::cast_precision_loss, reason = "bytes of a few seconds")]
fn receive(socket: &UdpSocket, duration: Duration, shared: &Shared) -> Result<f64> {
    let mut buffer = vec![0; 1 << 16];
    let mut total_bytes = 0_u64;
    let start = Instant::now();
    let mut measured_from: Option<(Instant, u64)> = None;
    let mut turns = 0_u32;
    while !shared.stop.load(Ordering::Relaxed) {
        match socket.recv(&mut buffer) {
            Ok(bytes) => {
                total_bytes += bytes as u64;
                shared.received_bytes.store(total_bytes, Ordering::Relaxed);
            }
            Err(error) if is_idle(&error) => {}
            Err(error) => return Err(error).context("receive"),
        }
        turns = turns.wrapping_add(1);
        if turns % 64 != 0 {
            continue;
        }
        let now = Instant::now();
        match measured_from {
            None if now - start >= WARM_UP => measured_from = Some((now, total_bytes)),
            // A sender that was scheduled away all the time lengthens the measurement.
            Some((from, bytes)) if now - from >= duration && total_bytes > bytes => {
                return Ok((total_bytes - bytes) as f64 / (now - from).as_secs_f64());
            }
            _ => {}
        }
    }
    Err(anyhow!("the sender stopped early"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_arrive() {
        let rate = stream(8192, Duration::from_millis(50)).unwrap();
        assert!(rate.gbit_per_s > 0.0, "{rate:?}");
        assert!((rate.segments_per_s * 8192.0 * 8.0 / 1e9 / rate.gbit_per_s - 1.0).abs() < 1e-9);
    }
}
