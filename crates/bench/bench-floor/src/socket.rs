//! UDP sockets on loopback, alone and with the kernel's offloads.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench_record::Point;
use bench_record::failure::{Failure, plain};

use crate::{Receiver, Sender};

/// The largest payload of a send in bytes: the most that fits an IPv4 datagram.
pub(crate) const DATAGRAM_BYTES: usize = 65_507;
/// The most segments that the kernel cuts out of one send.
const SEGMENTS_MAX: usize = 64;
/// The number of bytes under way: more than a receiver can miss that is scheduled away for a
/// moment, less than its socket buffer holds with the kernel's overhead.
const WINDOW_BYTES: u64 = 1 << 19;
const ROOM_BYTES: usize = 8 << 20;
/// The time after which bytes that have not arrived count as lost.
const LOST_AFTER: Duration = Duration::from_millis(10);

/// Opens two connected sockets whose calls never wait.
pub(crate) fn pair() -> Result<[UdpSocket; 2], Failure> {
    let opened = || {
        let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let sockets = [open()?, open()?];
        for (socket, other) in [(&sockets[0], &sockets[1]), (&sockets[1], &sockets[0])] {
            socket.connect(other.local_addr()?)?;
            socket.set_nonblocking(true)?;
        }
        Ok(sockets)
    };
    opened().map_err(|e: io::Error| failed("cannot open a pair of UDP sockets", &e))
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::Fabric(format!("{what}: {}", plain(error)))
}

impl Sender for &UdpSocket {
    fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
        sent(self, message).map(|bytes| bytes.is_some())
    }
}

impl Receiver for &UdpSocket {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        match self.recv(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_idle(&error) => Ok(None),
            Err(error) => Err(failed("cannot receive a datagram", &error)),
        }
    }
}

fn sent(socket: &UdpSocket, message: &[u8]) -> Result<Option<usize>, Failure> {
    match socket.send(message) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_idle(&error) => Ok(None),
        Err(error) => Err(failed("cannot send a datagram", &error)),
    }
}

/// Returns true if a call only found nothing to do. A full receive buffer on loopback and an
/// interrupted call count, too.
fn is_idle(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted) || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Measures between two sockets: one sends several messages at once, which the kernel cuts apart
/// (generic segmentation offload), and the other one receives messages that the kernel joined
/// (generic receive offload).
pub(crate) fn with_offloads(
    size_bytes: usize,
    measure: impl FnOnce(Bursts<'_>, Joined<'_>) -> Result<Point, Failure>,
) -> Result<Point, Failure> {
    let [near, far] = pair()?;
    set(&near, libc::SOL_UDP, libc::UDP_SEGMENT, size_bytes)
        .map_err(|e| failed("the kernel has no UDP segmentation offload", &e))?;
    set(&far, libc::SOL_UDP, libc::UDP_GRO, 1)
        .map_err(|e| failed("the kernel has no UDP receive offload", &e))?;
    set(&far, libc::SOL_SOCKET, libc::SO_RCVBUF, ROOM_BYTES)
        .map_err(|e| failed("cannot size a socket buffer", &e))?;
    let arrived_bytes = AtomicU64::new(0);
    let bursts = Bursts {
        socket: &near,
        burst: Vec::new(),
        sent_bytes: 0,
        arrived_bytes: &arrived_bytes,
        waits_since: None,
    };
    measure(bursts, Joined { socket: &far, total_bytes: 0, arrived_bytes: &arrived_bytes })
}

/// The end that sends several messages at once, up to a window.
pub(crate) struct Bursts<'a> {
    socket: &'a UdpSocket,
    burst: Vec<u8>,
    sent_bytes: u64,
    /// The number of bytes that have arrived, which both ends see.
    arrived_bytes: &'a AtomicU64,
    waits_since: Option<Instant>,
}

impl Sender for Bursts<'_> {
    fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
        if self.burst.is_empty() {
            let segments = (DATAGRAM_BYTES / message.len()).clamp(1, SEGMENTS_MAX);
            self.burst = message.repeat(segments);
        }
        let arrived_bytes = self.arrived_bytes.load(Ordering::Relaxed);
        if self.sent_bytes.saturating_sub(arrived_bytes) > WINDOW_BYTES {
            // Bytes that the socket buffer refused never arrive: the count starts afresh after a
            // while. (If bytes were only late, the receiver overtakes the count.)
            if self.waits_since.get_or_insert_with(Instant::now).elapsed() > LOST_AFTER {
                self.sent_bytes = arrived_bytes;
            }
            return Ok(false);
        }
        self.waits_since = None;
        let bytes = sent(self.socket, &self.burst)?;
        self.sent_bytes += bytes.unwrap_or(0) as u64;
        Ok(bytes.is_some())
    }
}

/// The end that receives messages that the kernel joined.
pub(crate) struct Joined<'a> {
    socket: &'a UdpSocket,
    total_bytes: u64,
    arrived_bytes: &'a AtomicU64,
}

impl Receiver for Joined<'_> {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        let mut socket = self.socket;
        let bytes = socket.receive(buffer)?;
        // The other end reads the number, which costs it nothing as long as it is not written
        // again.
        if let Some(bytes) = bytes {
            self.total_bytes += bytes as u64;
            self.arrived_bytes.store(self.total_bytes, Ordering::Relaxed);
        }
        Ok(bytes)
    }
}

#[expect(unsafe_code, reason = "neither std nor rustix has setters for these options")]
fn set(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(value).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open for the life of `socket`, and the kernel reads exactly the
    // given length from a live local integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
