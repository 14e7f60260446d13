//! UDP sockets: one receiving socket per queue pair, a few sending sockets per device.
//!
//! The sending socket is the path: its port is the entropy ECMP hashes. A run of equal datagrams
//! leaves in one `sendmsg` with UDP_SEGMENT and arrives in one `recvfrom` or `recvmsg` with
//! UDP_GRO.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use libc::{c_int, c_void};
use srd::Instant;

use super::batch::{Impossible, MAX_PACKETS, Packet, Via};
use super::paths::PathSockets;
use super::socket::{
    SOCKET_BUFFER_BYTES, Train, bind, get_int, is_icmp, receive_segmented, receive_train,
    send_datagram, send_message, set_int, udp_socket,
};
use super::tap::Tap;
use super::{Batch, Run, Sent, Wire};
use crate::capture::{Capture, Protocol};
use crate::framing::{Framing, Layout};
use crate::host;
use crate::memory::Piece;
use crate::status::Status;

/// The largest train of datagrams that the kernel delivers at once.
const BUFFER_BYTES: usize = 1 << 16;
/// The most bytes of one UDP_SEGMENT send. An IPv4 datagram ends at 65,535 with headers.
const MAX_RUN_BYTES: usize = 65_000;
/// The bytes of a held datagram that are copied into the batch that it leaves in.
const HEAD_BYTES: usize = 320;
/// How long datagrams wait before a full socket is tried again: the time in which a link of 10
/// Gbit/s sends 64 KiB.
const BLOCKED_NS: u64 = 50_000;
/// The most attempts for one run of datagrams, because each may report the error of an earlier one.
const TRIES: u32 = 3;
/// The bytes of an empty datagram.
const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// A datagram that found no room in its socket.
#[derive(Debug)]
struct BlockedDatagram {
    to: SocketAddr,
    via: Via,
    bytes: Vec<u8>,
}

/// Sends an empty datagram; returns whether the kernel took it.
fn send_nothing(fd: RawFd, to: SocketAddr) -> bool {
    // A refusal of an earlier datagram is told by the next call.
    (0..3).any(|_| send_datagram(fd, to, &NOTHING).is_ok())
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
    /// Trains would leave with different identifications in their IP headers.
    has_no_trains: bool,
    /// Held datagrams, oldest first.
    held: VecDeque<BlockedDatagram>,
    /// The time at which they are tried again.
    next_release: Option<Instant>,
}

// SAFETY: the iovecs are scratch that is filled and used within one call of `send`; between calls
// nothing follows the pointers in them.
unsafe impl Send for UdpWire {}

impl UdpWire {
    /// Binds the receiving socket, whose port is the queue pair number. Datagrams have this
    /// `layout`.
    pub(crate) fn bind(
        at: SocketAddr,
        paths: Arc<PathSockets>,
        capture: &Arc<Capture>,
        protocol: Protocol,
        layout: Layout,
    ) -> io::Result<Self> {
        let receive = udp_socket(at.ip())?;
        set_int(&receive, libc::SOL_UDP, libc::UDP_GRO, 1)?;
        // Beyond rmem_max only with CAP_NET_ADMIN; without it the kernel grants less.
        if set_int(&receive, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, SOCKET_BUFFER_BYTES).is_err() {
            set_int(&receive, libc::SOL_SOCKET, libc::SO_RCVBUF, SOCKET_BUFFER_BYTES)?;
        }
        bind(&receive, at)?;
        let iovecs = Vec::with_capacity(MAX_PACKETS * 4);
        let tap = Tap::new(capture, protocol, at, &paths);
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let (impossible, held, next_release) = (Vec::new(), VecDeque::new(), None);
        Ok(Self {
            receive,
            paths,
            tap,
            layout,
            buffer,
            iovecs,
            impossible,
            has_no_trains: false,
            held,
            next_release,
        })
    }

    /// Sends and receives every datagram by itself from now on.
    pub(super) fn part_trains(&mut self) -> io::Result<()> {
        self.has_no_trains = true;
        set_int(&self.receive, libc::SOL_UDP, libc::UDP_GRO, 0)
    }

    /// Returns the socket on which it receives.
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.receive
    }

    /// Returns the attachment point of captures.
    pub(crate) fn tap(&self) -> Tap {
        self.tap.clone()
    }

    pub(crate) fn receive_fd(&self) -> RawFd {
        self.receive.as_raw_fd()
    }

    /// Returns the size of its receive buffer in the kernel, including overhead.
    pub(crate) fn receive_buffer_bytes(&self) -> usize {
        let value = get_int(&self.receive, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
        usize::try_from(value).unwrap_or(0)
    }

    fn fd_of(&self, via: Via) -> RawFd {
        via.path().map_or_else(|| self.receive_fd(), |path| self.paths.fd(path))
    }

    /// Sends some datagrams of `batch`, or holds them until there is room.
    pub(super) fn send_packets(
        &mut self,
        now: Instant,
        batch: &Batch,
        packets: &[Packet],
        sent: &mut Sent,
    ) {
        let done = match self.is_blocked() {
            true => 0,
            false => self.send_trains(now, packets, batch.pieces(), sent),
        };
        if done < packets.len() {
            self.hold(now, batch, &packets[done..], sent);
        }
    }

    /// Reports what cannot be sent to the batch.
    pub(super) fn report(&mut self, batch: &mut Batch) {
        batch.report(&mut self.impossible);
    }

    /// Sends an empty datagram, which makes the peer poll its rings.
    pub(super) fn nudge(&self, to: SocketAddr) {
        send_nothing(self.paths.fd(0), to);
    }

    /// Sends an empty datagram as [`UdpWire::nudge`] does, from the queue pair's own address: whose
    /// ring is read is not searched for at the listener. Returns whether the kernel took it.
    pub(super) fn call(&self, to: SocketAddr) -> bool {
        send_nothing(self.receive.as_raw_fd(), to)
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Takes a train from the socket into the buffer.
    pub(super) fn fetch(&mut self) -> Option<Train> {
        let fd = self.receive.as_raw_fd();
        if self.layout.needs_segment() {
            receive_segmented(fd, &mut self.buffer)
        } else {
            receive_train(fd, &mut self.buffer)
        }
    }

    /// Returns the train that was fetched last.
    pub(super) fn run(&mut self, train: Train) -> Run<'_> {
        let Train { len, from, segment } = train;
        let bytes = &mut self.buffer[..len];
        let segment = segment.map_or_else(|| self.layout.datagram_len(bytes), |it| it.max(1));
        let run = Run { from, bytes, segment, rest: None, is_memory: false, is_proven: false };
        if self.tap.is_on() {
            self.tap.received(&run);
        }
        run
    }

    /// Returns what was fetched last.
    pub(super) fn fetched(&self, train: &Train) -> &[u8] {
        &self.buffer[..train.len]
    }

    /// Returns what was fetched last without its first bytes, as one datagram from `from`.
    pub(super) fn run_behind(&mut self, train: Train, skip: usize, from: SocketAddr) -> Run<'_> {
        let bytes = &mut self.buffer[skip..train.len];
        let segment = bytes.len().max(1);
        let run = Run { from, bytes, segment, rest: None, is_memory: false, is_proven: false };
        if self.tap.is_on() {
            self.tap.received(&run);
        }
        run
    }

    /// Describes the memory of a run to the kernel.
    fn gather(&mut self, run: &[Packet], pieces: &[Piece]) {
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
    }

    /// Sends one run of datagrams with the same destination, path and length. Returns how many of
    /// them need not be held.
    fn send_run(
        &mut self,
        now: Instant,
        run: &[Packet],
        pieces: &[Piece],
        sent: &mut Sent,
    ) -> usize {
        self.gather(run, pieces);
        let first = run[0];
        let fd = self.fd_of(first.via);
        let segment = (run.len() > 1).then_some(first.len);
        // Before the call: what is answered at once must not come before its question.
        let captured_at = self.tap.is_on().then(host::epoch_ns);
        for attempt in 0..TRIES {
            sent.syscalls += 1;
            let result = match self.iovecs.as_slice() {
                [piece] if segment.is_none() => send_datagram(fd, first.to, piece),
                _ => send_message(fd, first.to, &mut self.iovecs, segment),
            };
            let Err(error) = result else {
                sent.pkts += run.len() as u64;
                sent.bytes += run.iter().map(|packet| packet.len as u64).sum::<u64>();
                if let Some(time_ns) = captured_at {
                    self.tap.sent(time_ns, run, pieces);
                }
                return run.len();
            };
            match error.raw_os_error().unwrap_or_default() {
                libc::EINTR => {}
                // The network is slower than we are, which is no loss.
                libc::EAGAIN | libc::ENOBUFS => return 0,
                errno if self.is_of_earlier(now, fd, errno, attempt, sent) => {}
                // A route without segmentation, a path narrower than the link, or memory that is
                // gone, which is that of some only.
                errno @ (libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EFAULT)
                    if run.len() > 1 =>
                {
                    if errno != libc::EFAULT {
                        self.paths.unsegmented.note(now, first.to.ip());
                    }
                    return self.send_one_by_one(now, run, pieces, sent);
                }
                errno @ (libc::EMSGSIZE | libc::EFAULT) => {
                    self.note_impossible(first.place, errno);
                    break;
                }
                _ => break,
            }
        }
        // Lost, as a network may; the transport sends it again.
        sent.errors += run.len() as u64;
        run.len()
    }

    /// Returns true if a send may have failed because of an earlier datagram, maybe to another
    /// peer: then its own has not been tried. Anybody may claim that a datagram of this socket was
    /// too long, so that error counts for this datagram only if no such message has arrived
    /// meanwhile.
    #[cold]
    fn is_of_earlier(
        &self,
        now: Instant,
        fd: RawFd,
        errno: c_int,
        attempt: u32,
        sent: &mut Sent,
    ) -> bool {
        if !is_icmp(errno) {
            return false;
        }
        let is_told = self.paths.collect_from(now, fd);
        let is_refusal =
            matches!(errno, libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH);
        sent.refused += u64::from(is_told || is_refusal);
        // Another thread may have taken what had been told.
        is_told || is_refusal || attempt == 0
    }

    /// Ignores the fate of datagrams that were reported as sent.
    pub(super) fn forget_impossible(&mut self) {
        self.impossible.clear();
    }

    /// Notes that sending a datagram again would fail again: the path is narrower than the link, or
    /// the memory is gone although its registration is not.
    #[cold]
    fn note_impossible(&mut self, place: usize, errno: c_int) {
        let is_long = errno == libc::EMSGSIZE;
        let status = if is_long { Status::LocalBadLength } else { Status::LocalInvalidLkey };
        self.impossible.push(Impossible { place, status });
    }

    /// Sends datagrams in runs until a socket has no room; returns how many need not be held.
    fn send_trains(
        &mut self,
        now: Instant,
        packets: &[Packet],
        pieces: &[Piece],
        sent: &mut Sent,
    ) -> usize {
        let mut start = 0;
        while start < packets.len() {
            let has_trains = self.has_trains_to(now, packets[start].to);
            let len = if has_trains { run_len(&packets[start..]) } else { 1 };
            let done = self.send_run(now, &packets[start..start + len], pieces, sent);
            start += done;
            if done < len {
                break;
            }
        }
        start
    }

    /// Does the same as [`UdpWire::send_trains`], without trains.
    fn send_one_by_one(
        &mut self,
        now: Instant,
        packets: &[Packet],
        pieces: &[Piece],
        sent: &mut Sent,
    ) -> usize {
        let is_done = |packet| self.send_run(now, std::slice::from_ref(packet), pieces, sent) == 1;
        packets.iter().map(is_done).take_while(|is_done| *is_done).count()
    }

    /// Keeps copies of datagrams until there is room.
    #[cold]
    fn hold(&mut self, now: Instant, batch: &Batch, packets: &[Packet], sent: &mut Sent) {
        for packet in packets {
            sent.blocked += 1;
            if let Some(bytes) = batch.copy(packet) {
                self.held.push_back(BlockedDatagram { to: packet.to, via: packet.via, bytes });
            } else {
                let status = Status::LocalInvalidLkey;
                self.impossible.push(Impossible { place: packet.place, status });
            }
        }
        self.next_release = Some(now.plus_ns(BLOCKED_NS));
    }

    /// Sends held datagrams one by one, because a train may be longer than the queue below. Returns
    /// how many of how many have left.
    fn send_held(&mut self, now: Instant, sent: &mut Sent) -> (usize, usize) {
        let mut batch = Batch::new(&Framing::Done, HEAD_BYTES, 0);
        for BlockedDatagram { to, via, bytes } in self.held.iter().take(MAX_PACKETS) {
            let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
            let rest = Piece { addr: rest.as_ptr() as usize as u64, len: rest.len() };
            let pushed = batch.push(&mut Framing::Done, *to, *via, head, [rest].into_iter());
            assert!(pushed.is_ok(), "the bytes are a copy of ours");
        }
        let (packets, pieces) = (batch.packets(), batch.pieces());
        (self.send_one_by_one(now, packets, pieces, sent), packets.len())
    }
}

impl Wire for UdpWire {
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent {
        let mut sent = Sent::default();
        self.send_packets(now, batch, batch.packets(), &mut sent);
        batch.clear();
        self.report(batch);
        sent
    }

    fn receive(&mut self, _now: Instant) -> Option<Run<'_>> {
        let train = self.fetch()?;
        Some(self.run(train))
    }

    fn release(&mut self, now: Instant) -> Sent {
        let mut sent = Sent::default();
        while !self.held.is_empty() {
            let (done, tried) = self.send_held(now, &mut sent);
            self.held.drain(..done);
            if done < tried {
                break;
            }
        }
        self.forget_impossible();
        self.next_release = (!self.held.is_empty()).then(|| now.plus_ns(BLOCKED_NS));
        sent
    }

    fn next_release(&self) -> Option<Instant> {
        self.next_release
    }

    fn is_blocked(&self) -> bool {
        !self.held.is_empty()
    }

    fn forget_unsent(&mut self) {
        self.held.clear();
        self.next_release = None;
    }

    fn has_trains_to(&self, now: Instant, to: SocketAddr) -> bool {
        !self.has_no_trains && !self.paths.unsegmented.contains(now, to.ip())
    }
}

/// Returns how many packets from the front may leave together: they have the same destination, path
/// and length, and the last may be shorter.
fn run_len(packets: &[Packet]) -> usize {
    let first = packets[0];
    let mut bytes = first.len;
    let mut len = 1;
    for packet in &packets[1..] {
        let fits = packet.to == first.to
            && packet.via.path() == first.via.path()
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

#[cfg(test)]
mod tests;
