//! The sending sockets of a device, and what it learns about their paths.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use libc::c_int;
use srd::Instant;

use super::socket::{
    IpOption, Link, QueuedError, Quote, SOCKET_BUFFER_BYTES, bind, never_fragment, read_error,
    send_to_groups_from, set_int, set_ip, udp_socket,
};
use super::unsegmented::Unsegmented;
use crate::filter::drop_all;
use crate::host;

/// The most refused datagrams that are kept for queue pairs.
const MAX_QUOTES: usize = 256;
/// The time for which they are kept. A live queue pair fetches its own within a turn; the owners of
/// the others are gone.
const QUOTE_LIFE_NS: u64 = 1_000_000_000;
/// The receive buffer of a sending socket, for refusals.
const ERROR_BUFFER_BYTES: c_int = 64 << 10;
/// The most routers that a datagram to a group passes, as one to a queue pair.
const GROUP_HOPS: c_int = 64;
/// The ports of sending sockets. Queue pairs have higher ones: if the port of a destroyed queue
/// pair became that of a path, its peers would get no refusal.
const PATH_PORTS: std::ops::Range<u16> = 10_240..QPN_FIRST;
/// The first port that may become a queue pair number. Services listen on lower ports.
pub(crate) const QPN_FIRST: u16 = 16_384;

/// The sending sockets of a device, one per path.
#[derive(Debug)]
pub(crate) struct PathSockets {
    pub(super) sockets: Vec<OwnedFd>,
    /// Their ports.
    ports: Vec<u16>,
    /// Refused datagrams that their queue pairs have not fetched.
    quotes: Mutex<Vec<(Instant, Quote)>>,
    quote_count: AtomicUsize,
    /// The destinations to which the kernel does not segment trains.
    pub(super) unsegmented: Unsegmented,
}

impl PathSockets {
    pub(crate) fn bind(addr: IpAddr, paths: u16) -> io::Result<Arc<Self>> {
        let bound = (0..paths).map(|_| path_socket(addr)).collect::<io::Result<Vec<_>>>()?;
        let (sockets, ports) = bound.into_iter().unzip();
        let (quotes, quote_count) = (Mutex::default(), AtomicUsize::new(0));
        let unsegmented = Unsegmented::default();
        Ok(Arc::new(Self { sockets, ports, quotes, quote_count, unsegmented }))
    }

    /// Sends datagrams to groups on the link of `addr`, also on loopback, which has no route to
    /// groups.
    pub(crate) fn lead_to_groups(&self, addr: IpAddr) -> io::Result<()> {
        let link = Link::of(addr)?;
        self.sockets.iter().try_for_each(|socket| {
            send_to_groups_from(socket, link)?;
            set_ip(socket, addr, IpOption::MULTICAST_HOPS, GROUP_HOPS)
        })
    }

    pub(crate) fn paths(&self) -> u16 {
        u16::try_from(self.sockets.len()).unwrap_or(u16::MAX)
    }

    /// The socket of a path.
    #[inline]
    pub(super) fn fd(&self, path: u16) -> RawFd {
        self.sockets[path as usize % self.sockets.len()].as_raw_fd()
    }

    /// Returns the path of everything that the queue pair at `port` sends if order matters.
    pub(crate) fn path_of(&self, port: u16) -> u16 {
        port % self.paths()
    }

    /// The UDP port of a path.
    pub(super) fn port(&self, path: u16) -> u16 {
        self.ports[path as usize % self.ports.len()]
    }

    /// Collects refusals from all sockets for their queue pairs.
    pub(crate) fn collect_refusals(&self, now: Instant) {
        for socket in &self.sockets {
            self.collect_from(now, socket.as_raw_fd());
        }
    }

    /// Collects refusals from one socket; returns true if an ICMP message had arrived there.
    pub(super) fn collect_from(&self, now: Instant, fd: RawFd) -> bool {
        let mut has_icmp = false;
        while let Some(QueuedError { quote, is_icmp, is_refusal }) = read_error(fd) {
            has_icmp |= is_icmp;
            if is_refusal {
                let mut quotes = self.quotes.lock().unwrap_or_else(PoisonError::into_inner);
                if quotes.len() == MAX_QUOTES {
                    quotes.remove(0);
                }
                quotes.push((now, quote));
                self.quote_count.store(quotes.len(), Ordering::Release);
            }
        }
        has_icmp
    }

    /// Returns true if there are refused datagrams.
    pub(crate) fn has_refusals(&self) -> bool {
        self.quote_count.load(Ordering::Acquire) > 0
    }

    /// Takes the refused datagrams that `mine` recognises. It is cheap if there are none.
    pub(crate) fn take_refused(&self, now: Instant, mine: impl Fn(&Quote) -> bool) -> Vec<Quote> {
        if !self.has_refusals() {
            return Vec::new();
        }
        let mut quotes = self.quotes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        quotes.retain(|(at, quote)| {
            let is_mine = mine(quote);
            if is_mine {
                taken.push(*quote);
            }
            !is_mine && now.ns_since(*at) < QUOTE_LIFE_NS
        });
        self.quote_count.store(quotes.len(), Ordering::Release);
        taken
    }
}

fn path_socket(addr: IpAddr) -> io::Result<(OwnedFd, u16)> {
    let socket = udp_socket(addr)?;
    // Refusals arrive in the error queue with the refused datagram quoted.
    set_ip(&socket, addr, IpOption::RECVERR, 1)?;
    never_fragment(&socket, addr)?;
    // Nobody sends to this port; a stranger who does shall not fill the buffer, which is for
    // refusals.
    drop_all(&socket)?;
    set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, ERROR_BUFFER_BYTES)?;
    set_int(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, SOCKET_BUFFER_BYTES)?;
    let port = bind_path(&socket, addr)?;
    Ok((socket, port))
}

/// Binds to a free port of [`PATH_PORTS`].
fn bind_path(socket: &OwnedFd, addr: IpAddr) -> io::Result<u16> {
    let count = PATH_PORTS.end - PATH_PORTS.start;
    #[expect(clippy::cast_possible_truncation, reason = "less than count")]
    let first = (host::random_u64() % u64::from(count)) as u16;
    for step in 0..count {
        let port = PATH_PORTS.start + (first + step) % count;
        match bind(socket, SocketAddr::new(addr, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other.map(|()| port),
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no free UDP port for a path"))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    /// Sends `bytes` to a port that is not bound any more.
    fn refuse(paths: &PathSockets, bytes: &[u8]) {
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = gone.local_addr().unwrap();
        drop(gone);
        let socket = paths.sockets[0].try_clone().unwrap();
        UdpSocket::from(socket).send_to(bytes, to).unwrap();
    }

    #[test]
    fn a_refused_datagram_is_quoted() {
        let paths = PathSockets::bind(IpAddr::V4(Ipv4Addr::LOCALHOST), 1).unwrap();
        refuse(&paths, b"refuse me");
        let now = Instant::from_ns(0);
        paths.collect_refusals(now);
        assert!(paths.take_refused(now, |quote| quote.bytes() == b"somebody else's").is_empty());
        let quotes = paths.take_refused(now, |quote| quote.bytes() == b"refuse me");
        assert_eq!(quotes.len(), 1);
        assert_eq!(quotes[0].to, IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(paths.take_refused(now, |_| true).is_empty());
    }

    #[test]
    fn many_refusals_are_kept_and_forgotten_in_time() {
        let paths = PathSockets::bind(IpAddr::V4(Ipv4Addr::LOCALHOST), 1).unwrap();
        let now = Instant::from_ns(0);
        for _ in 0..8 {
            refuse(&paths, &[7; 1000]);
            paths.collect_refusals(now);
        }
        assert_eq!(paths.quote_count.load(Ordering::Relaxed), 8);
        let later = now.plus_ns(QUOTE_LIFE_NS);
        assert!(paths.take_refused(later, |_| false).is_empty());
        assert_eq!(paths.quote_count.load(Ordering::Relaxed), 0);
    }
}
