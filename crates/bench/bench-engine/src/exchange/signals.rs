//! Signals that measuring threads get from the connections of their session.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench_record::failure::Failure;
use bench_record::spec::JobSpec;
use rustix::net::RecvFlags;

use super::{Control, gone};

/// The event that waits on a connection. Among several connections the last variant here counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pending {
    Nothing,
    /// The message [`Message::Ready`](super::Message::Ready), which one connection may get before
    /// others.
    Ready,
    /// The message [`Message::WindowDone`](super::Message::WindowDone).
    WindowDone,
    /// Any other message.
    Message,
    Closed,
}

/// The signals that measuring threads get from the connections of a session: another side has sent
/// a message or has gone, or this side wants its threads to end.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    streams: Arc<[TcpStream]>,
    timeout: Duration,
    end: Arc<AtomicBool>,
    when_idle: WhenIdle,
    /// The number of times the processor was given away.
    #[cfg(test)]
    yields: Arc<std::sync::atomic::AtomicU64>,
}

/// The behaviour of a measuring thread that finds nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenIdle {
    /// The thread looks again.
    Spin,
    /// The thread looks again after others had the processor, because threads that never sleep
    /// outnumber the processors.
    Yield,
    /// The thread sleeps until a completion wakes it.
    Sleep,
}

impl WhenIdle {
    /// Returns the behaviour of the threads of a job.
    pub(crate) const fn of(job: &JobSpec) -> Self {
        match (job.flow.events, job.crowded) {
            (true, _) => Self::Sleep,
            (false, true) => Self::Yield,
            (false, false) => Self::Spin,
        }
    }
}

impl Signals {
    /// Makes the signals of a session with these connections.
    pub(crate) fn of<'a>(
        controls: impl IntoIterator<Item = &'a Control>,
        timeout: Duration,
        when_idle: WhenIdle,
    ) -> Result<Self, Failure> {
        let shared = controls.into_iter().map(|control| control.stream.try_clone());
        let streams: Result<Vec<TcpStream>, _> = shared.collect();
        let streams = streams.map_err(|e| gone("sharing the control connection", &e))?;
        Ok(Self {
            streams: streams.into(),
            timeout,
            end: Arc::default(),
            when_idle,
            #[cfg(test)]
            yields: Arc::default(),
        })
    }

    /// Returns, without waiting, the event that waits on any of the connections.
    pub(crate) fn pending(&self) -> Pending {
        if self.end.load(Ordering::Relaxed) {
            return Pending::Closed;
        }
        match self.streams.iter().map(pending).max() {
            None => Pending::Closed,
            Some(Pending::Ready) => Pending::Nothing,
            Some(worst) => worst,
        }
    }

    /// Gives the processor away, if threads outnumber processors. The caller found nothing to do.
    #[inline]
    pub(crate) fn pause(&self) {
        if self.when_idle == WhenIdle::Yield {
            #[cfg(test)]
            self.yields.fetch_add(1, Ordering::Relaxed);
            std::thread::yield_now();
        }
    }

    /// Returns true if a thread that finds nothing to do sleeps until a completion wakes it.
    pub(crate) fn sleeps(&self) -> bool {
        self.when_idle == WhenIdle::Sleep
    }

    /// Makes the signals of a connection without a session.
    #[cfg(test)]
    pub(crate) fn over(stream: TcpStream, timeout: Duration) -> Self {
        Self {
            streams: [stream].into(),
            timeout,
            end: Arc::default(),
            when_idle: WhenIdle::Spin,
            yields: Arc::default(),
        }
    }

    /// Returns the same signals, for threads that outnumber the processors.
    #[cfg(test)]
    pub(crate) fn yielding(&self) -> Self {
        Self { when_idle: WhenIdle::Yield, ..self.clone() }
    }

    /// Returns the number of times the processor was given away.
    #[cfg(test)]
    pub(crate) fn yields(&self) -> u64 {
        self.yields.load(Ordering::Relaxed)
    }

    /// Returns the length of silence that is tolerated.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Makes the threads that watch these signals end.
    pub(crate) fn end(&self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

/// The frame of [`Message::WindowDone`](super::Message::WindowDone) on the wire.
const WINDOW_DONE: &[u8; 17] = b"\0\0\0\x0d\"window_done\"";
/// The frame of [`Message::Ready`](super::Message::Ready) on the wire.
const READY: &[u8] = b"\0\0\0\x07\"ready\"";

/// Looks for an event without taking anything from the socket and without changing the socket,
/// which other threads use.
pub(super) fn pending(stream: &TcpStream) -> Pending {
    let mut start = [0_u8; WINDOW_DONE.len()];
    match rustix::net::recv(stream, &mut start, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) => Pending::Closed,
        Ok(_) if start == *WINDOW_DONE => Pending::WindowDone,
        Ok(_) if start.starts_with(READY) => Pending::Ready,
        Ok(_) => Pending::Message,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Pending::Nothing,
        Err(_) => Pending::Closed,
    }
}
