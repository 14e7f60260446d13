//! Waits for a time, keys and signals at once.

use std::io::stdin;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::failure::Failure;
use crate::supervise::not_ignored;

/// The reason why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The time is reached.
    Time,
    /// A byte came from standard input.
    Key(u8),
    /// One of the requested signals came.
    Signal(i32),
}

/// Catches signals for as long as it lives.
#[derive(Debug)]
pub(crate) struct Waker {
    signals: SignalDelivery<UnixStream, SignalOnly>,
    /// Standard input is read, until it ends.
    reads_keys: bool,
}

impl Waker {
    /// Catches `signals`, and keys if `reads_keys`.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn new(signals: &[i32], reads_keys: bool) -> Result<Self, Failure> {
        let signals = not_ignored(signals);
        let signals = UnixStream::pair()
            .and_then(|(read, write)| SignalDelivery::with_pipe(read, write, SignalOnly, signals))
            .map_err(|error| Failure::new(format!("signals cannot be caught: {error}")))?;
        Ok(Self { signals, reads_keys })
    }

    /// Waits until `deadline`, or until something else comes first.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> Woken {
        loop {
            if let Some(signal) = self.signals.pending().next() {
                return Woken::Signal(signal);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::Time;
            }
            if let Some(key) = self.poll(left) {
                return Woken::Key(key);
            }
        }
    }

    fn poll(&mut self, left: Duration) -> Option<u8> {
        let input = stdin();
        let mut fds =
            vec![PollFd::from_borrowed_fd(self.signals.get_read().as_fd(), PollFlags::IN)];
        if self.reads_keys {
            fds.push(PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN));
        }
        // A signal interrupted the call; the caller finds out which one.
        poll(&mut fds, Timespec::try_from(left).ok().as_ref()).ok()?;
        if fds.get(1).is_none_or(|fd| fd.revents().is_empty()) {
            return None;
        }
        let mut byte = [0];
        // `Stdin` is not used, because its buffer would hold the keys behind the first one.
        match rustix::io::read(&input, &mut byte) {
            Ok(1) => Some(byte[0]),
            Err(Errno::INTR) => None,
            _ => {
                self.reads_keys = false;
                None
            }
        }
    }
}
