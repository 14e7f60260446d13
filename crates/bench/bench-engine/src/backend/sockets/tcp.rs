//! A backend for a TCP connection. Messages of one length need no header; others begin with their
//! length.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::OwnedFd;

use bench_record::FabricRecord;
use bench_record::failure::Failure;
use bench_record::spec::EndpointKind;
use fabric::OutOfBand;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::sendfile;
use rustix::net::SendFlags;

use self::connect::connect_or_accept;
use super::slots::{Slots, slot_methods};
use super::{Phases, check, failed, gone, local, record};
use crate::backend::unable::Unable;
use crate::backend::{
    BURST, Backend, Completion, Kind, Lengths, Opener, PostFlags, Posted, Wants, Work,
};

/// The number of bytes that one call takes from the kernel. Longer messages are read directly into
/// their slot.
const STAGE_BYTES: usize = 256 * 1024;
/// The length from which on messages are read directly into their slot.
const DIRECT_BYTES: usize = 32 * 1024;
/// The most messages that are given to the kernel at once.
const LIST: usize = 64;
/// The time after which a peer that should close first is not waited for any longer.
const CLOSE_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A listening socket, except on a side that only connects. If both sides can listen, the addresses
/// decide which one connects.
pub(crate) struct PreparedTcp {
    wants: Wants,
    listener: Option<TcpListener>,
    slots: Slots,
    phases: Phases,
}

/// One end of a connection.
pub(crate) struct Tcp {
    stream: TcpStream,
    slots: Slots,
    lengths: Lengths,
    /// Sends that the kernel has not taken completely, oldest first.
    unsent: VecDeque<Unsent>,
    /// The number of bytes that the kernel has taken of the oldest of them.
    written_bytes: usize,
    /// True if the kernel took nothing the last time; the next poll asks again.
    is_blocked: bool,
    /// The number of bytes that have arrived for the oldest receive.
    filled_bytes: usize,
    stage: Box<[u8]>,
    staged: Range<usize>,
    /// The file whose parts are sent.
    file: Option<OwnedFd>,
    setup_us: Vec<(String, f64)>,
    /// True if the peer closes first.
    is_closed_by_peer: bool,
}

/// Waits for a peer that closes first. The side that closes first keeps the connection's port for a
/// minute (TIME-WAIT, RFC 9293, 3.6.1), so that a server would lose a port to listen on with each
/// connection.
impl Drop for Tcp {
    fn drop(&mut self) {
        if self.is_closed_by_peer {
            let mut waiting = [PollFd::new(&self.stream, PollFlags::RDHUP)];
            // A peer that takes longer costs this side a port, but nothing else.
            let _ = rustix::event::poll(&mut waiting, Some(&CLOSE_TIMEOUT));
        }
    }
}

/// A message that the kernel has not taken completely.
struct Unsent {
    slot: usize,
    /// The bytes of the file that follow the bytes of the slot.
    file: Range<usize>,
}

impl Backend for Tcp {
    type Prepared = PreparedTcp;

    fn prepare(wants: &Wants) -> Result<PreparedTcp, Failure> {
        check(wants)?;
        if wants.endpoint == EndpointKind::Dgram {
            return Err(Unable::Unreliable(wants.fabric.clone(), "udp").into());
        }
        let mut phases = Phases::start();
        let address = local(wants)?;
        let listener = (wants.opener != Opener::Us).then(|| TcpListener::bind(address));
        let listener = listener.transpose().map_err(|e| failed("opening a TCP port", &e))?;
        let slots = Slots::new(wants)?;
        phases.done("open");
        Ok(PreparedTcp { wants: wants.clone(), listener, slots, phases })
    }

    fn describe(prepared: &PreparedTcp) -> FabricRecord {
        let address = prepared.address().unwrap_or_else(|_| ([0, 0, 0, 0], 0).into());
        record(&prepared.wants, address, usize::MAX)
    }

    fn connect(mut prepared: PreparedTcp, oob: &mut dyn OutOfBand) -> Result<Self, Failure> {
        prepared.phases.before = std::time::Instant::now();
        let stream = connect_or_accept(&prepared, oob)?;
        let PreparedTcp { slots, mut phases, wants, .. } = prepared;
        phases.done("connect");
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_nonblocking(true))
            .map_err(|e| failed("setting up a TCP connection", &e))?;
        oob.barrier().map_err(Failure::Fabric)?;
        phases.done("sync");
        Ok(Self {
            stream,
            lengths: Lengths::Equal(slots.payload_bytes),
            unsent: VecDeque::with_capacity(slots.tx_depth),
            slots,
            written_bytes: 0,
            is_blocked: false,
            filled_bytes: 0,
            stage: vec![0; STAGE_BYTES].into_boxed_slice(),
            staged: 0..0,
            file: None,
            setup_us: phases.setup_us,
            is_closed_by_peer: wants.opener == Opener::Peer,
        })
    }

    slot_methods!();

    fn begin(&mut self, lengths: Lengths) {
        debug_assert!(self.filled_bytes == 0 && self.staged.is_empty(), "a point left bytes");
        self.lengths = lengths;
    }

    #[inline]
    fn post(
        &mut self,
        _work: Work,
        slot: usize,
        len_bytes: usize,
        how: PostFlags,
    ) -> Result<Posted, Failure> {
        debug_assert_eq!(len_bytes, self.sent_bytes(slot), "as agreed for the point");
        self.unsent.push_back(Unsent { slot, file: 0..0 });
        if !how.more && !self.is_blocked {
            self.flush()?;
        }
        Ok(Posted::Done)
    }

    fn attach_file(&mut self, file: OwnedFd) -> Result<(), Failure> {
        self.file = Some(file);
        Ok(())
    }

    fn post_file(
        &mut self,
        slot: usize,
        head_bytes: usize,
        part: Range<usize>,
    ) -> Result<Posted, Failure> {
        debug_assert_eq!(head_bytes + part.len(), self.sent_bytes(slot), "as the message says");
        self.unsent.push_back(Unsent { slot, file: part });
        if !self.is_blocked {
            self.flush()?;
        }
        Ok(Posted::Done)
    }

    #[inline]
    fn poll(&mut self, mut each: impl FnMut(Completion)) -> Result<usize, Failure> {
        self.flush()?;
        let mut count = self.slots.report_sent(&mut each);
        while count < BURST {
            let (slot, len_bytes) = match self.arrived() {
                Ok(Some(found)) => found,
                Ok(None) => break,
                // The next poll finds the error again: the messages before it are taken first.
                Err(_) if count > 0 => break,
                Err(failure) => return Err(failure),
            };
            each(Completion { kind: Kind::Received, slot, len_bytes });
            count += 1;
        }
        Ok(count)
    }

    /// Does nothing: bytes that have arrived wake a sleeper at once.
    fn arm(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn event(&self) -> Result<Option<PollFd<'_>>, Failure> {
        let room = if self.is_blocked { PollFlags::OUT } else { PollFlags::empty() };
        Ok(Some(PollFd::new(&self.stream, PollFlags::IN | room)))
    }
}

impl PreparedTcp {
    /// Returns this side's address; the port is 0 on a side that only connects.
    fn address(&self) -> Result<SocketAddr, Failure> {
        match &self.listener {
            Some(listener) => listener.local_addr().map_err(|e| failed("a TCP address", &e)),
            None => local(&self.wants),
        }
    }
}

impl Tcp {
    /// Gives the kernel as many bytes as it takes.
    #[inline]
    fn flush(&mut self) -> Result<(), Failure> {
        self.is_blocked = false;
        while !self.unsent.is_empty() {
            let written = match self.unsent.iter().take_while(|own| own.file.is_empty()).count() {
                0 => self.send_file(),
                1 => (&self.stream).write(self.rest(0)),
                several => {
                    let count = several.min(LIST);
                    let mut parts = [IoSlice::new(&[]); LIST];
                    for (index, part) in parts[..count].iter_mut().enumerate() {
                        *part = IoSlice::new(self.rest(index));
                    }
                    (&self.stream).write_vectored(&parts[..count])
                }
            };
            match written {
                Ok(count) => self.written_bytes += count,
                Err(error) if is_later(error.kind()) => {
                    self.is_blocked = true;
                    return Ok(());
                }
                Err(error) => return Err(gone("sending over TCP", &error)),
            }
            while let Some(slot) = self.unsent.front().map(|own| own.slot) {
                let len_bytes = self.sent_bytes(slot);
                if self.written_bytes < len_bytes {
                    break;
                }
                self.written_bytes -= len_bytes;
                self.unsent.pop_front();
                self.slots.sent.push_back(slot);
            }
        }
        Ok(())
    }

    /// Gives the kernel the front of the oldest message, or the part of the file that follows.
    fn send_file(&self) -> io::Result<usize> {
        let (Some(Unsent { slot, file: part }), Some(file)) = (self.unsent.front(), &self.file)
        else {
            return Err(ErrorKind::NotFound.into());
        };
        let head_bytes = self.sent_bytes(*slot) - part.len();
        if self.written_bytes < head_bytes {
            let head = &self.slots.payload(*slot)[self.written_bytes..head_bytes];
            return Ok(rustix::net::send(&self.stream, head, SendFlags::MORE)?);
        }
        let done_bytes = self.written_bytes - head_bytes;
        let mut offset = (part.start + done_bytes) as u64;
        match sendfile(&self.stream, file, Some(&mut offset), part.len() - done_bytes)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }

    /// The length of a message of this side.
    #[inline]
    fn sent_bytes(&self, slot: usize) -> usize {
        match self.lengths {
            Lengths::Equal(size_bytes) => size_bytes,
            Lengths::Leading => leading(self.slots.payload(slot)).min(self.slots.payload_bytes),
        }
    }

    /// The length of the message that arrives in `slot`, as far as it is known: at least that of
    /// the length field.
    #[inline]
    fn wanted_bytes(&self, slot: usize) -> Result<usize, Failure> {
        match self.lengths {
            Lengths::Equal(size_bytes) => Ok(size_bytes),
            Lengths::Leading if self.filled_bytes < LEADING_BYTES => Ok(LEADING_BYTES),
            Lengths::Leading => {
                let len_bytes = leading(self.slots.payload(slot));
                let longest = self.slots.payload_bytes;
                if !(LEADING_BYTES..=longest).contains(&len_bytes) {
                    return Err(Failure::Data(format!(
                        "a message says that it is {len_bytes} bytes long: {LEADING_BYTES} to \
                         {longest} were agreed"
                    )));
                }
                Ok(len_bytes)
            }
        }
    }

    /// Returns the bytes of a message that are not sent yet.
    #[inline]
    fn rest(&self, index: usize) -> &[u8] {
        let start = if index == 0 { self.written_bytes } else { 0 };
        let slot = self.unsent[index].slot;
        &self.slots.payload(slot)[start..self.sent_bytes(slot)]
    }

    /// Returns the slot and the length of the next complete message, if there is one.
    #[inline]
    fn arrived(&mut self) -> Result<Option<(usize, usize)>, Failure> {
        let Some(slot) = self.slots.offered.front().copied() else { return Ok(None) };
        let mut wanted_bytes = self.wanted_bytes(slot)?;
        while self.filled_bytes < wanted_bytes {
            let place = &mut self.slots.payload_mut(slot)[self.filled_bytes..wanted_bytes];
            let read = if !self.staged.is_empty() {
                let count = place.len().min(self.staged.len());
                let from = self.staged.start;
                place[..count].copy_from_slice(&self.stage[from..from + count]);
                self.staged.start += count;
                self.filled_bytes += count;
                wanted_bytes = self.wanted_bytes(slot)?;
                continue;
            } else if wanted_bytes >= DIRECT_BYTES {
                self.stream.read(place).inspect(|count| self.filled_bytes += count)
            } else {
                self.stream.read(&mut self.stage).inspect(|count| self.staged = 0..*count)
            };
            match read {
                Ok(0) => {
                    return Err(Failure::PeerGone {
                        doing: "receiving over TCP".to_owned(),
                        reason: "it closed the connection".to_owned(),
                    });
                }
                Ok(_) => {}
                Err(error) if is_later(error.kind()) => return Ok(None),
                Err(error) => return Err(gone("receiving over TCP", &error)),
            }
        }
        self.filled_bytes = 0;
        self.slots.offered.pop_front();
        Ok(Some((slot, wanted_bytes)))
    }
}

/// The length of the length field of a message in bytes.
const LEADING_BYTES: usize = 4;

/// Reads the length field of a message.
#[inline]
fn leading(message: &[u8]) -> usize {
    message.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

fn is_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

mod connect;
#[cfg(test)]
mod tests;
