//! Busy-polling ping-pong of small datagrams.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::socket::{is_idle, pair, pin, two_cores};

const MESSAGE_BYTES: usize = 64;
pub(super) const WARM_UP: usize = 20_000;
/// A datagram that did not arrive by then is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// Median of half a round trip over `count` round trips, in nanoseconds.
///
/// # Errors
/// No sockets, fewer than two cores, or a lost datagram.
pub(crate) fn half_round_trip_ns(count: usize) -> Result<f64> {
    ensure!(count > 0, "a median needs at least one round trip");
    let [near, far] = pair()?;
    let [near_core, far_core] = two_cores()?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let echo = scope.spawn(|| echo(&far, far_core, &stop));
        let ping = scope.spawn(|| ping(&near, near_core, count, &stop));
        let samples = ping.join().map_err(|_| anyhow!("the pinging thread panicked"))?;
        stop.store(true, Ordering::Relaxed);
        echo.join().map_err(|_| anyhow!("the echoing thread panicked"))??;
        Ok(median_half_ns(samples?))
    })
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a round trip are small")]
pub(super) fn median_half_ns(mut round_trips_ns: Vec<u64>) -> f64 {
    let middle = round_trips_ns.len() / 2;
    let (_, median, _) = round_trips_ns.select_nth_unstable(middle);
    *median as f64 / 2.0
}

fn echo(socket: &UdpSocket, core: usize, stop: &AtomicBool) -> Result<()> {
    pin(core)?;
    let mut message = [0; MESSAGE_BYTES];
    while receive(socket, &mut message, || stop.load(Ordering::Relaxed))? {
        socket.send(&message).context("echo")?;
    }
    Ok(())
}

fn ping(socket: &UdpSocket, core: usize, count: usize, stop: &AtomicBool) -> Result<Vec<u64>> {
    let result = ping_pinned(socket, core, count);
    // The echo must end even when this side fails.
    stop.store(true, Ordering::Relaxed);
    result
}

fn ping_pinned(socket: &UdpSocket, core: usize, count: usize) -> Result<Vec<u64>> {
    pin(core)?;
    let mut message = [0; MESSAGE_BYTES];
    let mut samples = Vec::with_capacity(count);
    let mut before = Instant::now();
    for turn in 0..WARM_UP + count {
        socket.send(&message).context("ping")?;
        let mut polls = 0_u32;
        let late = || {
            polls = polls.wrapping_add(1);
            // The clock is read once in a while: it must not cost what is measured.
            polls % (1 << 20) == 0 && before.elapsed() > PATIENCE
        };
        ensure!(receive(socket, &mut message, late)?, "a datagram was lost on loopback");
        let now = Instant::now();
        if turn >= WARM_UP {
            samples.push(u64::try_from((now - before).as_nanos())?);
        }
        before = now;
    }
    Ok(samples)
}

/// Polls for one datagram; `false` when `give_up` says so.
fn receive(
    socket: &UdpSocket,
    message: &mut [u8],
    mut give_up: impl FnMut() -> bool,
) -> Result<bool> {
    loop {
        match socket.recv(message) {
            Ok(_) => return Ok(true),
            Err(error) if is_idle(&error) => {
                if give_up() {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error).context("receive"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_time() {
        let ns = half_round_trip_ns(1_000).unwrap();
        assert!(ns > 100.0, "{ns} ns: no kernel is that fast");
    }

    #[test]
    fn median_is_halved() {
        assert!((median_half_ns(vec![9, 1, 5]) - 2.5).abs() < f64::EPSILON);
    }
}
