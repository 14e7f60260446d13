//! A backend for a pair of connected UDP sockets: one datagram per message, which may be lost.

use std::io::ErrorKind;
use std::net::UdpSocket;

use bench_record::FabricRecord;
use bench_record::failure::Failure;
use bench_record::spec::EndpointKind;
use fabric::OutOfBand;
use rustix::event::{PollFd, PollFlags};

use super::slots::{Slots, slot_methods};
use super::{Phases, check, exchange, failed, gone, local, record};
use crate::backend::unable::Unable;
use crate::backend::{BURST, Backend, Completion, Kind, Lengths, PostFlags, Posted, Wants, Work};

/// The length of the longest UDP payload over IPv4 in bytes.
const MESSAGE_BYTES_MAX: usize = 65_507;

/// A bound socket.
pub(crate) struct PreparedUdp {
    wants: Wants,
    socket: UdpSocket,
    slots: Slots,
    phases: Phases,
}

/// A connected socket.
pub(crate) struct Udp {
    socket: UdpSocket,
    /// True if the kernel took nothing the last time.
    is_blocked: bool,
    slots: Slots,
    setup_us: Vec<(String, f64)>,
}

impl Backend for Udp {
    type Prepared = PreparedUdp;

    fn prepare(wants: &Wants) -> Result<PreparedUdp, Failure> {
        check(wants)?;
        if wants.endpoint == EndpointKind::Rdm {
            return Err(Unable::Reliable(wants.fabric.clone(), "tcp, or -e dgram").into());
        }
        if wants.lists {
            return Err(Unable::Lists(wants.fabric.clone()).into());
        }
        let mut phases = Phases::start();
        let socket = UdpSocket::bind(local(wants)?);
        let socket = socket.map_err(|e| failed("opening a UDP port", &e))?;
        // Longer messages are left out once this side has said what it takes.
        let payload_bytes = wants.payload_bytes.min(MESSAGE_BYTES_MAX);
        let wants = Wants { payload_bytes, ..wants.clone() };
        let slots = Slots::new(&wants)?;
        phases.done("open");
        Ok(PreparedUdp { wants, socket, slots, phases })
    }

    fn describe(prepared: &PreparedUdp) -> FabricRecord {
        let address = prepared.socket.local_addr();
        let address = address.unwrap_or_else(|_| ([0, 0, 0, 0], 0).into());
        record(&prepared.wants, address, MESSAGE_BYTES_MAX)
    }

    fn connect(prepared: PreparedUdp, oob: &mut dyn OutOfBand) -> Result<Self, Failure> {
        let PreparedUdp { socket, slots, mut phases, .. } = prepared;
        phases.before = std::time::Instant::now();
        let ours = socket.local_addr().map_err(|e| failed("a UDP address", &e))?;
        let theirs = exchange(ours, oob)?;
        let connected = socket.connect(theirs).and_then(|()| socket.set_nonblocking(true));
        connected.map_err(|e| failed("connecting over UDP", &e))?;
        phases.done("connect");
        oob.barrier().map_err(Failure::Fabric)?;
        phases.done("sync");
        Ok(Self { socket, is_blocked: false, slots, setup_us: phases.setup_us })
    }

    slot_methods!();

    fn begin(&mut self, _lengths: Lengths) {}

    #[inline]
    fn post(
        &mut self,
        _work: Work,
        slot: usize,
        len_bytes: usize,
        _how: PostFlags,
    ) -> Result<Posted, Failure> {
        match self.socket.send(&self.slots.payload(slot)[..len_bytes]) {
            Ok(_) => {
                self.is_blocked = false;
                self.slots.sent.push_back(slot);
                Ok(Posted::Done)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_blocked = true;
                Ok(Posted::Full)
            }
            Err(error) => Err(gone("sending over UDP", &error)),
        }
    }

    #[inline]
    fn poll(&mut self, mut each: impl FnMut(Completion)) -> Result<usize, Failure> {
        let mut count = self.slots.report_sent(&mut each);
        while count < BURST {
            let Some(slot) = self.slots.offered.front().copied() else { break };
            let len_bytes = match self.socket.recv(self.slots.payload_mut(slot)) {
                Ok(len_bytes) => len_bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(gone("receiving over UDP", &error)),
            };
            self.slots.offered.pop_front();
            each(Completion { kind: Kind::Received, slot, len_bytes });
            count += 1;
        }
        Ok(count)
    }

    /// Does nothing: a datagram that has arrived wakes a sleeper at once.
    fn arm(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn event(&self) -> Result<Option<PollFd<'_>>, Failure> {
        let room = if self.is_blocked { PollFlags::OUT } else { PollFlags::empty() };
        Ok(Some(PollFd::new(&self.socket, PollFlags::IN | room)))
    }
}
