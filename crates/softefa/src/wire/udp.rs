//! UDP sockets: one receiving socket per queue pair, a few sending sockets per device.
//!
//! The sending socket is the path: its port is the entropy ECMP hashes. A run of equal datagrams
//! leaves in one `sendmsg` with UDP_SEGMENT and arrives in one `recvmsg` with UDP_GRO.
#![allow(unsafe_code)]

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use libc::{c_int, c_void};
use srd::Instant;

use super::batch::{Impossible, MAX_PACKETS, Packet};
use super::socket::{
    Quote, bind, drop_all, get_int, read_error, receive_train, send_datagram, send_message,
    set_int, udp_socket,
};
use super::tap::Tap;
use super::{Batch, Run, Sent, Wire};
use crate::capture::Capture;
use crate::framing::Layout;
use crate::host;
use crate::memory::Piece;
use crate::status::Status;

/// Largest train of datagrams that the kernel hands over at once.
const BUFFER_BYTES: usize = 1 << 16;
/// Most bytes of one UDP_SEGMENT send; an IPv4 datagram ends at 65,535 with headers.
const MAX_RUN_BYTES: usize = 65_000;
/// Receive buffer asked for; the kernel grants what `net.core.rmem_max` allows.
const RECEIVE_BUFFER_BYTES: c_int = 4 << 20;
/// Refused datagrams kept for queue pairs that have not fetched them, and for how long. A living
/// queue pair fetches its own within a turn; the others' owners are gone.
const MAX_QUOTES: usize = 256;
const QUOTE_LIFE_NS: u64 = 1_000_000_000;
/// Queue for refusals on a sending socket.
const ERROR_BUFFER_BYTES: c_int = 64 << 10;
/// Ports of sending sockets. Queue pairs have higher ones: were the port of a queue pair that
/// ended bound as a path, its peers would hear nothing instead of a refusal.
const PATH_PORTS: std::ops::Range<u16> = 10_240..QPN_FIRST;
/// First port that may become a queue pair number. Below are the ports services listen on.
pub(crate) const QPN_FIRST: u16 = 16_384;

/// The sending sockets of a device, one per path.
#[derive(Debug)]
pub(crate) struct PathSockets {
    sockets: Vec<OwnedFd>,
    /// Their ports.
    ports: Vec<u16>,
    /// Refused datagrams until their queue pair fetches them.
    quotes: Mutex<Vec<(Instant, Quote)>>,
    quote_count: AtomicUsize,
    /// The kernel cannot segment on this route: datagrams leave one by one.
    is_unsegmented: AtomicBool,
}

impl PathSockets {
    pub(crate) fn bind(addr: Ipv4Addr, paths: u16) -> io::Result<Arc<Self>> {
        let bound = (0..paths).map(|_| path_socket(addr)).collect::<io::Result<Vec<_>>>()?;
        let (sockets, ports) = bound.into_iter().unzip();
        let (quotes, quote_count) = (Mutex::default(), AtomicUsize::new(0));
        let is_unsegmented = AtomicBool::new(false);
        Ok(Arc::new(Self { sockets, ports, quotes, quote_count, is_unsegmented }))
    }

    pub(crate) fn paths(&self) -> u16 {
        u16::try_from(self.sockets.len()).unwrap_or(u16::MAX)
    }

    /// The UDP port of a path.
    pub(super) fn port(&self, path: u16) -> u16 {
        self.ports[path as usize % self.ports.len()]
    }

    /// Moves refusals from all sockets to where their queue pairs find them.
    pub(crate) fn collect_refusals(&self, now: Instant) {
        for socket in &self.sockets {
            self.collect_from(now, socket.as_raw_fd());
        }
    }

    fn collect_from(&self, now: Instant, fd: RawFd) {
        while let Some((quote, refused)) = read_error(fd) {
            if refused {
                let mut quotes = self.quotes.lock().unwrap_or_else(PoisonError::into_inner);
                if quotes.len() == MAX_QUOTES {
                    quotes.remove(0);
                }
                quotes.push((now, quote));
                self.quote_count.store(quotes.len(), Ordering::Release);
            }
        }
    }

    /// There are refused datagrams.
    pub(crate) fn has_refusals(&self) -> bool {
        self.quote_count.load(Ordering::Acquire) > 0
    }

    /// Refused datagrams that `mine` recognises; cheap when there are none.
    pub(crate) fn take_refused(&self, now: Instant, mine: impl Fn(&[u8]) -> bool) -> Vec<Quote> {
        if !self.has_refusals() {
            return Vec::new();
        }
        let mut quotes = self.quotes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_mine = |(_, quote): &mut (Instant, Quote)| mine(&quote.bytes[..quote.len]);
        let taken = quotes.extract_if(.., is_mine).map(|(_, quote)| quote).collect();
        quotes.retain(|(at, _)| now.ns_since(*at) < QUOTE_LIFE_NS);
        self.quote_count.store(quotes.len(), Ordering::Release);
        taken
    }
}

/// The sockets of one queue pair.
#[derive(Debug)]
pub(crate) struct UdpWire {
    receive: OwnedFd,
    paths: Arc<PathSockets>,
    tap: Tap,
    layout: Layout,
    buffer: Box<[u8]>,
    iovecs: Vec<libc::iovec>,
    impossible: Vec<Impossible>,
}

// SAFETY: the iovecs are scratch that is filled and used within one call of `send`; between calls
// nothing follows the pointers in them.
unsafe impl Send for UdpWire {}

impl UdpWire {
    /// Binds the receiving socket; its port is the queue pair number. What comes is laid out as
    /// `layout` says.
    pub(crate) fn bind(
        at: SocketAddrV4,
        paths: Arc<PathSockets>,
        capture: &Arc<Capture>,
        layout: Layout,
    ) -> io::Result<Self> {
        let receive = udp_socket()?;
        set_int(&receive, libc::SOL_UDP, libc::UDP_GRO, 1)?;
        // Beyond rmem_max only with CAP_NET_ADMIN; without it the kernel grants less.
        if set_int(&receive, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES).is_err()
        {
            set_int(&receive, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES)?;
        }
        bind(&receive, at)?;
        let iovecs = Vec::with_capacity(MAX_PACKETS * 4);
        let tap = Tap::new(capture, at, &paths);
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Ok(Self { receive, paths, tap, layout, buffer, iovecs, impossible: Vec::new() })
    }

    /// The sending sockets it shares.
    pub(crate) fn paths(&self) -> Arc<PathSockets> {
        Arc::clone(&self.paths)
    }

    /// Where captures listen.
    pub(crate) fn tap(&self) -> Tap {
        self.tap.clone()
    }

    pub(crate) fn receive_fd(&self) -> RawFd {
        self.receive.as_raw_fd()
    }

    /// Bytes the kernel queues for this socket, book-keeping included.
    pub(crate) fn receive_buffer_bytes(&self) -> usize {
        let value = get_int(&self.receive, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
        usize::try_from(value).unwrap_or(0)
    }

    /// Sends one run of datagrams with the same destination, path and length.
    fn send_run(&mut self, now: Instant, run: &[Packet], pieces: &[Piece], sent: &mut Sent) {
        self.iovecs.clear();
        for piece in &pieces[run[0].iov_start..run[run.len() - 1].iov_end] {
            match self.iovecs.last_mut() {
                // Neighbours in the arena become one entry.
                Some(last) if last.iov_base as u64 + last.iov_len as u64 == piece.addr => {
                    last.iov_len += piece.len;
                }
                _ => self.iovecs.push(libc::iovec {
                    iov_base: piece.addr as usize as *mut c_void,
                    iov_len: piece.len,
                }),
            }
        }
        let fd = self.paths.sockets[run[0].path as usize % self.paths.sockets.len()].as_raw_fd();
        let segment = (run.len() > 1).then_some(run[0].len);
        // Before the call: what is answered at once must not come before its question.
        let captured_at = self.tap.is_on().then(host::epoch_ns);
        for _ in 0..3 {
            sent.syscalls += 1;
            let result = match self.iovecs.as_slice() {
                [piece] if segment.is_none() => send_datagram(fd, run[0].to, piece),
                _ => send_message(fd, run[0].to, &mut self.iovecs, segment),
            };
            let Err(error) = result else {
                sent.pkts += run.len() as u64;
                sent.bytes += run.iter().map(|packet| packet.len as u64).sum::<u64>();
                if let Some(time_ns) = captured_at {
                    self.tap.sent(time_ns, run, pieces);
                }
                return;
            };
            match error.raw_os_error() {
                // An earlier datagram was refused; this one has not been tried.
                Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH) => {
                    sent.refused += 1;
                    self.paths.collect_from(now, fd);
                }
                Some(libc::EINTR) => {}
                // A route without segmentation, or a path narrower than the link.
                Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE) if run.len() > 1 => {
                    self.paths.is_unsegmented.store(true, Ordering::Relaxed);
                    for packet in run {
                        self.send_run(now, std::slice::from_ref(packet), pieces, sent);
                    }
                    return;
                }
                // Sending it again would change nothing: the path is narrower than the link, or the
                // memory is gone although its registration is not.
                Some(errno @ (libc::EMSGSIZE | libc::EFAULT)) => {
                    let is_long = errno == libc::EMSGSIZE;
                    let status =
                        if is_long { Status::LocalBadLength } else { Status::LocalInvalidLkey };
                    self.impossible.push(Impossible { place: run[0].place, status });
                    break;
                }
                _ => break,
            }
        }
        // Lost, as a network may; the transport sends it again.
        sent.errors += run.len() as u64;
    }
}

impl Wire for UdpWire {
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent {
        let mut sent = Sent::default();
        let packets = batch.packets();
        let is_unsegmented = self.paths.is_unsegmented.load(Ordering::Relaxed);
        let mut start = 0;
        while start < packets.len() {
            let len = if is_unsegmented { 1 } else { run_len(&packets[start..]) };
            self.send_run(now, &packets[start..start + len], batch.pieces(), &mut sent);
            start += len;
        }
        batch.clear();
        batch.report(&mut self.impossible);
        sent
    }

    fn receive(&mut self) -> Option<Run<'_>> {
        let (len, from) = receive_train(self.receive.as_raw_fd(), &mut self.buffer)?;
        let bytes = &mut self.buffer[..len];
        let run = Run { from, segment: self.layout.datagram_len(bytes), bytes };
        if self.tap.is_on() {
            self.tap.received(&run);
        }
        Some(run)
    }

    fn release(&mut self, _now: Instant) -> Sent {
        Sent::default()
    }

    fn next_release(&self) -> Option<Instant> {
        None
    }
}

/// How many packets from the front may leave together: same destination, path and length, the
/// last may be shorter.
fn run_len(packets: &[Packet]) -> usize {
    let first = packets[0];
    let mut bytes = first.len;
    let mut len = 1;
    for packet in &packets[1..] {
        let fits = packet.to == first.to
            && packet.path == first.path
            && packet.len <= first.len
            && bytes + packet.len <= MAX_RUN_BYTES;
        if !fits {
            break;
        }
        bytes += packet.len;
        len += 1;
        if packet.len < first.len {
            break;
        }
    }
    len
}

fn path_socket(addr: Ipv4Addr) -> io::Result<(OwnedFd, u16)> {
    let socket = udp_socket()?;
    // Refusals arrive in the error queue with the refused datagram quoted.
    set_int(&socket, libc::SOL_IP, libc::IP_RECVERR, 1)?;
    // Never fragment: a message is at most as long as the link carries.
    set_int(&socket, libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
    // Nobody sends to this port; a stranger who does shall not fill the buffer, which is for
    // refusals.
    drop_all(&socket)?;
    set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, ERROR_BUFFER_BYTES)?;
    set_int(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, RECEIVE_BUFFER_BYTES)?;
    let port = bind_path(&socket, addr)?;
    Ok((socket, port))
}

/// Binds to a free port of [`PATH_PORTS`].
fn bind_path(socket: &OwnedFd, addr: Ipv4Addr) -> io::Result<u16> {
    let count = PATH_PORTS.end - PATH_PORTS.start;
    #[expect(clippy::cast_possible_truncation, reason = "less than count")]
    let first = (host::random_u64() % u64::from(count)) as u16;
    for step in 0..count {
        let port = PATH_PORTS.start + (first + step) % count;
        match bind(socket, SocketAddrV4::new(addr, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other.map(|()| port),
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no free UDP port for a path"))
}

#[cfg(test)]
mod tests {
    use srd::wire::ud::UdRepr;

    use super::*;
    use crate::framing::Framing;

    fn wire(paths: u16) -> (UdpWire, SocketAddrV4) {
        let sockets = PathSockets::bind(Ipv4Addr::LOCALHOST, paths).unwrap();
        // A port that was free a moment ago.
        let probe = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, probe.local_addr().unwrap().port());
        drop(probe);
        (UdpWire::bind(at, sockets, &Arc::new(Capture::never()), Layout::Srd).unwrap(), at)
    }

    fn header(imm: u32, len: u16) -> [u8; UdRepr::LEN] {
        let path = srd::PathId(0);
        let mut raw = [0; UdRepr::LEN];
        UdRepr { path, src_qpn: 1, dst_qpn: 2, qkey: 3, imm, op: 0, flags: 0, len }.emit(&mut raw);
        raw
    }

    fn piece(bytes: &[u8]) -> Piece {
        Piece { addr: bytes.as_ptr() as usize as u64, len: bytes.len() }
    }

    #[test]
    fn equal_datagrams_travel_together_and_arrive_apart() {
        let (mut a, _) = wire(2);
        let (mut b, to) = wire(1);
        let payload = vec![5u8; 1000];
        let mut batch = Batch::new(&Framing::Done, 1000, 0);
        for (number, len) in [(1, 1000), (2, 1000), (3, 1000), (4, 10)] {
            let header = header(number, len);
            let payload = piece(&payload[..len as usize]);
            batch.push(&mut Framing::Done, to, 1, &header, std::iter::once(payload)).unwrap();
        }
        let sent = a.send(Instant::from_ns(0), &mut batch);
        assert_eq!((sent.pkts, sent.syscalls, sent.errors), (4, 1, 0));
        assert!(batch.is_empty());
        let mut seen = Vec::new();
        while let Some(run) = b.receive() {
            for datagram in run.bytes.chunks(run.segment) {
                let repr = UdRepr::parse(datagram, datagram.len()).unwrap();
                seen.push((repr.imm, repr.len));
            }
        }
        assert_eq!(seen, [(1, 1000), (2, 1000), (3, 1000), (4, 10)]);
    }

    #[test]
    fn a_refused_datagram_is_quoted() {
        let (mut a, _) = wire(1);
        let (gone, to) = wire(1);
        drop(gone);
        let mut batch = Batch::new(&Framing::Done, 1000, 0);
        batch.push(&mut Framing::Done, to, 0, b"refuse me", std::iter::empty()).unwrap();
        let now = Instant::from_ns(0);
        a.send(now, &mut batch);
        a.paths.collect_refusals(now);
        assert!(a.paths.take_refused(now, |quote| quote == b"somebody else's").is_empty());
        let quotes = a.paths.take_refused(now, |quote| quote == b"refuse me");
        assert_eq!(quotes.len(), 1);
        assert!(a.paths.take_refused(now, |_| true).is_empty());
    }

    #[test]
    fn many_refusals_are_kept_and_forgotten_in_time() {
        let (mut a, _) = wire(1);
        let now = Instant::from_ns(0);
        for _ in 0..8 {
            let (gone, to) = wire(1);
            drop(gone);
            let mut batch = Batch::new(&Framing::Done, 1000, 0);
            batch.push(&mut Framing::Done, to, 0, &[7; 1000], std::iter::empty()).unwrap();
            a.send(now, &mut batch);
        }
        a.paths.collect_refusals(now);
        assert_eq!(a.paths.quote_count.load(Ordering::Relaxed), 8);
        let later = now.plus_ns(QUOTE_LIFE_NS);
        assert!(a.paths.take_refused(later, |_| false).is_empty());
        assert_eq!(a.paths.quote_count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn where_the_kernel_does_not_segment_datagrams_leave_one_by_one() {
        let (mut a, _) = wire(1);
        let (mut b, to) = wire(1);
        // Without checksums there is no segmentation: the kernel refuses with EIO.
        set_int(&a.paths.sockets[0], libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        let mut batch = Batch::new(&Framing::Done, 1000, 0);
        for number in 0..3 {
            batch.push(&mut Framing::Done, to, 0, &header(number, 0), std::iter::empty()).unwrap();
        }
        let sent = a.send(Instant::from_ns(0), &mut batch);
        assert_eq!((sent.pkts, sent.errors), (3, 0));
        let runs = std::iter::from_fn(|| b.receive().map(drop)).count();
        assert_eq!((runs, a.paths.is_unsegmented.load(Ordering::Relaxed)), (3, true));
    }
}
