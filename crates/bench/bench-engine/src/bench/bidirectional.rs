//! Streams in both directions at once, on the same endpoints: each side posts and receives in one
//! loop.
//!
//! Each receiver has its own window. Neither side stops sending before both windows are over, so
//! that each direction is measured while the other one is busy; the client finds out when that is
//! and says so. Then each side tells the other how much it has sent, and receives until it has all
//! of it.

use std::time::{Duration, Instant};

use bench_record::BothWays;
use bench_record::spec::Limit;
use bench_record::{self as record};

use super::bandwidth::{self, ROUNDS_PER_WORD, Receiver};
use super::latency::server_gave_up;
use super::stream::Sender;
use crate::exchange::{Control, Message};
use crate::lane::{Command, Report};
use crate::lanes::Lanes;
use crate::server::{self, WORD_EVERY};
use crate::watch::{Idle, Watch};
use crate::workload::prelude::*;

/// A lane of the benchmark.
pub(crate) struct Bidirectional(Side);

impl Workload for Bidirectional {
    fn depths(job: &JobSpec, _side: Side, _thread: usize) -> (usize, usize) {
        (job.tx_depth, job.rx_depth)
    }

    fn refusal(size_bytes: usize, parameter: usize, rx_depth: usize) -> Option<String> {
        bandwidth::Bandwidth::refusal(size_bytes, parameter, rx_depth)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        Ok(Self(task.side))
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        Stream::new(&part)?.run(part, self.0)
    }

    fn serve(lanes: &Lanes, control: &mut Control) -> Result<(), Failure> {
        lanes.windows_closed(0)?;
        control.send(&Message::WindowDone)?;
        let doing = "waiting for the end of the client's window";
        match control.receive_while(doing, WORD_EVERY, || lanes.check())? {
            Message::Barrier => lanes.tell_from(0, |_| Command::Go),
            other => return Err(server::unexpected("the end of the client's window", &other)),
        }
        let sent = lanes.results()?.iter().map(Measured::sent).collect();
        control.send(&Message::Sent(sent))?;
        server::count_stream(lanes, control, 0)
    }

    /// Waits until both sides have sent and counted.
    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        let (sent, [at_server, at_client]) = session.both_ways()?;
        let in_all = sent.iter().sum();
        let both_ways = BothWays {
            to_server: record::Bandwidth::of(&at_server, point.limit),
            to_client: record::Bandwidth::of(&at_client, point.limit),
        };
        // Each side has its own clock.
        let sum = both_ways.to_server.and(both_ways.to_client);
        let counts = [at_server, at_client].concat();
        let point = bandwidth::checked(session, point, in_all, &counts)?;
        // The client's adapter counts what the client has sent.
        Ok(Point { bandwidth: Some(sum), both_ways: Some(both_ways), sent: sent[0], ..point })
    }
}

/// The stream that one lane posts and receives within a point.
struct Stream {
    sender: Sender,
    receiver: Receiver,
    /// The time at which both windows should be over.
    expected: Instant,
}

impl Stream {
    fn new<B>(part: &Part<'_, B>) -> Result<Self, Failure> {
        let point = part.point;
        let window_ms = match point.limit {
            Limit::DurationMs(ms) => ms,
            Limit::Iterations(_) => 0,
        };
        Ok(Self {
            sender: Sender::new(part.port.flow, point),
            receiver: Receiver::new(point)?,
            expected: Instant::now() + Duration::from_millis(point.warmup_ms + window_ms),
        })
    }

    /// Runs either side of a point.
    fn run<B: Backend>(mut self, part: Part<'_, B>, side: Side) -> Outcome {
        let Part { links, port, .. } = part;
        self.until_both_windows_are_over(links, port, side)?;
        // Arrivals are still taken: the other side may wait for receives of this side.
        let mut watch = Watch::deaf(&port.signals, "waiting for the last operations to complete");
        while !links.iter().all(Link::is_idle) {
            match self.receiver.turn(links)? {
                true => watch.progress(),
                false => drop(watch.idle()?),
            }
        }
        port.report(Report::Measured(Measured::Sent(self.sender.sent)));
        self.receiver.finish(links, port)
    }

    fn until_both_windows_are_over<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
        side: Side,
    ) -> Result<(), Failure> {
        let Self { sender, receiver, expected } = self;
        let mut watch = Watch::new(&port.signals, "sending and receiving");
        let mut rounds = 0_u32;
        loop {
            let before = receiver.count.total;
            // The client begins later: it has begun when its first message comes.
            let moved = match side == Side::Client || before > 0 {
                true => sender.turn(links)?,
                false => poll(links)?,
            };
            links.iter_mut().try_for_each(|link| receiver.take(link))?;
            if !receiver.closed && receiver.count.total > before {
                receiver.closed = receiver.advance(Instant::now());
                if receiver.closed {
                    port.report(Report::WindowClosed);
                }
            }
            if moved > 0 {
                watch.progress();
            } else if watch.idle()? == Idle::Message && side == Side::Client && !receiver.closed {
                return Err(server_gave_up());
            }
            rounds += 1;
            if rounds % ROUNDS_PER_WORD != 0 {
                continue;
            }
            if receiver.closed && port.may_end()? {
                return Ok(());
            }
            late(*expected, port)?;
        }
    }
}

fn poll<B: Backend>(links: &mut [Link<B>]) -> Result<usize, Failure> {
    let mut moved = 0;
    for link in links {
        moved += link.poll()?;
    }
    Ok(moved)
}

/// Fails if only this side goes on: its own sends do not show that the other side does.
fn late(expected: Instant, port: &Port) -> Result<(), Failure> {
    let timeout = port.signals.timeout();
    match Instant::now().saturating_duration_since(expected) > timeout {
        true => {
            let doing = "sending and receiving".to_owned();
            Err(Failure::Timeout { doing, seconds: timeout.as_secs_f64() })
        }
        false => Ok(()),
    }
}
