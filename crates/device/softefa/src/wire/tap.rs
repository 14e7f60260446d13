//! Where captures see the datagrams of a queue pair.

use std::net::SocketAddr;
use std::sync::Arc;

use super::batch::Packet;
use super::paths::PathSockets;
use super::{Batch, Run};
use crate::capture::{Capture, Fate, Protocol, Record};
use crate::framing::is_enveloped;
use crate::host;
use crate::memory::Piece;

/// Passes datagrams to captures. Check [`Tap::is_on`] first, which is all that it costs without a
/// capture.
#[derive(Debug, Clone)]
pub(crate) struct Tap {
    capture: Arc<Capture>,
    protocol: Protocol,
    /// Address and port of the queue pair.
    local: SocketAddr,
    paths: Arc<PathSockets>,
}

impl Tap {
    pub(super) fn new(
        capture: &Arc<Capture>,
        protocol: Protocol,
        local: SocketAddr,
        paths: &Arc<PathSockets>,
    ) -> Self {
        Self { capture: Arc::clone(capture), protocol, local, paths: Arc::clone(paths) }
    }

    /// Makes the tap of a wire without sockets.
    #[cfg(test)]
    pub(super) fn deaf() -> Self {
        let local = SocketAddr::from(([127, 0, 0, 1], 1));
        let paths = PathSockets::bind(local.ip(), 1).unwrap();
        Self::new(&Arc::new(Capture::never()), Protocol::Srd, local, &paths)
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.capture.is_on()
    }

    /// Captures the datagrams that the operating system or a ring has taken.
    #[cold]
    pub(super) fn sent(&self, time_ns: u64, packets: &[Packet], pieces: &[Piece]) {
        for packet in packets {
            self.outgoing(time_ns, Fate::Sent, packet, pieces);
        }
    }

    /// Captures a datagram that a fault dropped.
    #[cold]
    pub(super) fn lost(&self, batch: &Batch, packet: &Packet) {
        self.outgoing(host::epoch_ns(), Fate::LostOnPurpose, packet, batch.pieces());
    }

    fn outgoing(&self, time_ns: u64, fate: Fate, packet: &Packet, pieces: &[Piece]) {
        let of_path = packet.via.path().map(|path| self.paths.port(path));
        let port = of_path.unwrap_or_else(|| self.local.port());
        let src = SocketAddr::new(self.local.ip(), port);
        let head = self.head(time_ns, fate, src, packet.to, packet.len);
        self.capture.record(&head, |max, bytes| packet.copy(pieces, max, bytes));
    }

    /// Captures a received run.
    #[cold]
    pub(super) fn received(&self, run: &Run<'_>) {
        let time_ns = host::epoch_ns();
        // Who captures may not have the key. Packets that were on their way in memory when the
        // capture began are not sealed, and not shown.
        let is_shown = |datagram: &&[u8]| !run.is_proven || is_enveloped(datagram);
        for datagram in run.bytes.chunks(run.segment).filter(is_shown) {
            let (to, len) = (self.local, datagram.len());
            let head = self.head(time_ns, Fate::Received, run.from, to, len);
            self.capture.record(&head, |max, bytes| {
                bytes.extend_from_slice(&datagram[..datagram.len().min(max)]);
            });
        }
    }

    /// Captures a datagram to another address and port than those of the queue pair.
    #[cold]
    pub(super) fn received_at(&self, to: SocketAddr, from: SocketAddr, datagram: &[u8]) {
        let head = self.head(host::epoch_ns(), Fate::Received, from, to, datagram.len());
        self.capture.record(&head, |max, bytes| {
            bytes.extend_from_slice(&datagram[..datagram.len().min(max)]);
        });
    }

    /// Makes a record without its bytes.
    fn head(
        &self,
        time_ns: u64,
        fate: Fate,
        src: SocketAddr,
        dst: SocketAddr,
        len: usize,
    ) -> Record {
        let (len, protocol) = (u16::try_from(len).unwrap_or(u16::MAX), self.protocol);
        Record { time_ns, fate, protocol, src, dst, len, bytes: Vec::new() }
    }
}
