//! The server's side of a ping-pong, and of everything else that is sent back.

use std::slice;

use bench_record::spec::EndpointKind;

use super::latency::{KEPT_BYTES, LAST, one_endpoint};
use crate::link::Arrival;
use crate::pattern;
use crate::watch::{Idle, Watch};
use crate::workload::prelude::*;

/// Runs the server's side of a point.
pub(super) fn serve<B: Backend>(part: Part<'_, B>) -> Outcome {
    echo_all(part, KEPT_BYTES)
}

/// Sends back the first `kept` bytes of each message until the last.
pub(super) fn echo_all<B: Backend>(part: Part<'_, B>, kept: usize) -> Outcome {
    let Part { links, port, point } = part;
    let [link] = links else { return Err(one_endpoint(links.len())) };
    answer(link, port, point, kept, false)?;
    Ok(Measured::Answered)
}

/// Sends messages back until the last one; `is_alone`: the first message is the last one.
pub(super) fn answer<B: Backend>(
    link: &mut Link<B>,
    port: &Port,
    point: PointSpec,
    kept: usize,
    is_alone: bool,
) -> Result<(), Failure> {
    let mut watch = Watch::new(&port.signals, "waiting for a ping");
    loop {
        if let Some(ping) = link.arrived.pop_front() {
            let last = echo(link, port, ping, point, kept)?;
            link.repost(ping.slot)?;
            watch.progress();
            if last || is_alone {
                break;
            }
            continue;
        }
        if link.poll()? == 0 && watch.idle_on(slice::from_mut(link))? == Idle::Message {
            // The client has gone on: its last message was lost (datagrams).
            return Ok(());
        }
    }
    let mut watch = Watch::new(&port.signals, "sending the last echo");
    // Waits until the peer has the echo: whoever polls the next endpoint does not move this one,
    // and a provider that was told "receiver not ready" repeats a message only when it is polled.
    let is_datagram = port.endpoint == EndpointKind::Dgram;
    while link.in_flight() > 0 {
        if link.poll()? > 0 {
            continue;
        }
        match watch.idle_on(slice::from_mut(link))? {
            Idle::Quiet if is_datagram => break,
            Idle::Spin | Idle::Quiet => {}
            // The client goes on, so that it has the echo.
            Idle::WindowDone | Idle::Message => break,
        }
    }
    Ok(())
}

/// Sends a message back. Returns true if it was the last one.
#[inline]
fn echo<B: Backend>(
    link: &mut Link<B>,
    port: &Port,
    ping: Arrival,
    point: PointSpec,
    kept: usize,
) -> Result<bool, Failure> {
    let PointSpec { size_bytes: size, validate, .. } = point;
    let Arrival { slot: from, len_bytes } = ping;
    let flag = link.payload(from)?[0];
    if validate {
        let good = len_bytes == size && pattern::check(&link.payload(from)?[1..size]).is_ok();
        if !good {
            return Err(Failure::Data(format!(
                "a message of {size} bytes arrived wrong at the server: the fabric damages data"
            )));
        }
    }
    let mut watch = Watch::new(&port.signals, "sending an echo");
    loop {
        if let Some(slot) = link.next_tx() {
            link.copy(from, slot, if validate { size } else { kept.min(size) })?;
            if link.try_send(size)? {
                return Ok(flag == LAST);
            }
        }
        if link.poll()? == 0 {
            watch.idle_on(slice::from_mut(link))?;
        }
    }
}
