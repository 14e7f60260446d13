//! One deadline for all bytes of a frame, however slowly they come.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The moment by which a frame must be complete; `None`: it may take any time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// Starts a deadline now; `None`: it never ends.
    pub(super) fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Reads all of `bytes`.
    pub(super) fn read(self, mut stream: &TcpStream, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // The timeout of a socket starts anew with each read.
            stream.set_read_timeout(self.left()?)?;
            match stream.read(bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => bytes = &mut bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the time that is left; `None`: any.
    fn left(self) -> io::Result<Option<Duration>> {
        let left = self.0.map(|end| end.saturating_duration_since(Instant::now()));
        match left {
            Some(Duration::ZERO) => Err(ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}
