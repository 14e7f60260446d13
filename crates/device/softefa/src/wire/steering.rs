//! How datagrams find their queue pair: each has a socket of its own, whose port is its number.
//!
//! Nothing above knows that. A queue pair gets a [`Port`], and another transport may steer all its
//! queue pairs through one socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::gateway::GatewayWire;
use super::memory::MemoryWire;
use super::paths::{PathSockets, QPN_FIRST};
use super::tap::Tap;
use super::udp::UdpWire;
use super::{Wire, link};
use crate::capture::{Capture, Protocol};
use crate::counters::Links;
use crate::framing::Layout;
use crate::gateway::Gateway;
use crate::host;
use crate::numbering::Numbering;
use crate::seal::SealKey;

/// The network resources of a queue pair.
pub(crate) struct Port {
    pub(crate) qpn: u32,
    /// The UDP port of its socket.
    pub(crate) port: u16,
    /// The UDP port from which its path sends.
    pub(crate) src_port: u16,
    pub(crate) wire: Box<dyn Wire>,
    /// The attachment point of captures.
    pub(crate) tap: Tap,
    pub(crate) paths: Arc<PathSockets>,
    /// The descriptor that is readable when something has arrived.
    pub(crate) receive_fd: RawFd,
    /// The size of its receive buffer in the kernel, including overhead.
    pub(crate) receive_buffer_bytes: usize,
}

/// The parts of the steering of a device.
#[derive(Debug)]
pub(crate) struct SteeringInit {
    pub(crate) addr: IpAddr,
    /// The number of sending sockets.
    pub(crate) paths: u16,
    /// The most queue pairs of the device.
    pub(crate) qps_max: u32,
    /// The links to programs of this user on this machine, which are reached through memory.
    pub(crate) memory: Option<Links>,
    /// The gateway, if there is one.
    pub(crate) gateway: Option<Arc<Gateway>>,
    /// The number that was released last is given out next, for tests.
    pub(crate) reuses_numbers: bool,
    pub(crate) numbering: Numbering,
    pub(crate) layout: Layout,
    /// The key of the device, if it seals what it sends.
    pub(crate) key: Option<SealKey>,
    pub(crate) capture: Capture,
}

/// What rings need to know.
#[derive(Debug)]
struct Memory {
    links: Links,
    /// Addresses of this machine.
    own_addrs: OnceLock<Vec<IpAddr>>,
}

/// The numbers and sockets of a device.
#[derive(Debug)]
pub(crate) struct Steering {
    addr: IpAddr,
    path_count: u16,
    paths: OnceLock<Arc<PathSockets>>,
    ports: Mutex<PortPool>,
    memory: Option<Memory>,
    gateway: Option<Arc<Gateway>>,
    reuses_numbers: bool,
    numbering: Numbering,
    layout: Layout,
    key: Option<SealKey>,
    capture: Arc<Capture>,
}

impl Steering {
    /// Makes the steering without opening anything.
    pub(crate) fn new(init: SteeringInit) -> Self {
        Self {
            addr: init.addr,
            path_count: init.paths,
            paths: OnceLock::new(),
            ports: Mutex::new(PortPool::new(init.qps_max, init.numbering)),
            memory: init.memory.map(|links| Memory { links, own_addrs: OnceLock::new() }),
            gateway: init.gateway,
            reuses_numbers: init.reuses_numbers,
            numbering: init.numbering,
            layout: init.layout,
            key: init.key,
            capture: Arc::new(init.capture),
        }
    }

    /// Returns how numbers are formed.
    pub(crate) fn numbering(&self) -> Numbering {
        self.numbering
    }

    /// Returns the attachment point of captures.
    pub(crate) fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Allocates a free number, and opens its socket.
    pub(crate) fn open(&self) -> io::Result<Port> {
        let paths = self.paths()?;
        let (port, slot, wire) = self.bind(&paths)?;
        let qpn = self.numbering.number(port, slot);
        let receive_fd = wire.receive_fd();
        let receive_buffer_bytes = wire.receive_buffer_bytes();
        let tap = wire.tap();
        let src_port = paths.port(paths.path_of(port));
        let local = SocketAddr::new(self.addr, port);
        let wire: Box<dyn Wire> = match (&self.gateway, &self.memory) {
            (Some(gateway), _) => match GatewayWire::new(wire, local, gateway) {
                Ok(wire) => Box::new(wire),
                Err(error) => {
                    self.release(qpn);
                    return Err(error);
                }
            },
            (None, None) => Box::new(wire),
            (None, Some(Memory { links, own_addrs })) => {
                let own_addrs = own_addrs.get_or_init(link::own_addrs);
                let (key, links) = (self.key.as_ref(), links.clone());
                Box::new(MemoryWire::new(wire, local, key, own_addrs, links))
            }
        };
        Ok(Port { qpn, port, src_port, wire, tap, paths, receive_fd, receive_buffer_bytes })
    }

    /// Frees the number, whose queue pair may still linger.
    pub(crate) fn release(&self, qpn: u32) {
        self.pool().release(self.numbering.port(qpn));
    }

    /// Returns true if a peer has refused a datagram and no queue pair has claimed the refusal.
    pub(crate) fn has_refusals(&self) -> bool {
        self.paths.get().is_some_and(|paths| paths.has_refusals())
    }

    /// Returns the sending sockets, which the first caller opens.
    fn paths(&self) -> io::Result<Arc<PathSockets>> {
        if let Some(paths) = self.paths.get() {
            return Ok(Arc::clone(paths));
        }
        let paths = PathSockets::bind(self.addr, self.path_count)?;
        if self.numbering != Numbering::Port {
            paths.lead_to_groups(self.addr)?;
        }
        Ok(Arc::clone(self.paths.get_or_init(|| paths)))
    }

    /// Allocates a free port, its next slot, and its socket.
    fn bind(&self, paths: &Arc<PathSockets>) -> io::Result<(u16, u8, UdpWire)> {
        let mut pool = self.pool();
        if self.reuses_numbers {
            if let Some(bound) = self.try_rebind_freed(&mut pool, paths) {
                return Ok(bound);
            }
        }
        for port in pool.walk() {
            if !pool.is_free(port) {
                continue;
            }
            match self.try_bind_at(port, paths) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
                Ok(wire) => return Ok((port, pool.take(port), wire)),
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no free UDP port for a queue pair"))
    }

    fn try_bind_at(&self, port: u16, paths: &Arc<PathSockets>) -> io::Result<UdpWire> {
        let at = SocketAddr::new(self.addr, port);
        let protocol = match self.numbering {
            Numbering::Port => Protocol::Srd,
            Numbering::PortAndSlot | Numbering::Behind(_) => Protocol::Roce,
        };
        UdpWire::bind(at, Arc::clone(paths), &self.capture, protocol, self.layout)
    }

    /// Takes the number of the queue pair that was destroyed last, whose socket was closed at once.
    fn try_rebind_freed(
        &self,
        pool: &mut PortPool,
        paths: &Arc<PathSockets>,
    ) -> Option<(u16, u8, UdpWire)> {
        let port = pool.freed.take().filter(|port| pool.is_free(*port))?;
        let wire = self.try_bind_at(port, paths).ok()?;
        Some((port, pool.take(port), wire))
    }

    fn pool(&self) -> MutexGuard<'_, PortPool> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ports in use. Live ones differ modulo the least power of two that is not below `max_qp`,
/// because libfabric finds queue pairs in a table of that size. They are drawn at random, so that a
/// successor rarely inherits a number that peers still remember.
#[derive(Debug)]
struct PortPool {
    /// The number of live queue pairs per residue, 0 or 1.
    residues: Vec<u8>,
    state: u64,
    /// The port that was released last.
    freed: Option<u16>,
    /// How often each port was used, modulo the number of slots; empty if numbers have no slots.
    uses: Vec<u8>,
    /// The seed of the first slots.
    salt: u64,
}

impl PortPool {
    fn new(max_qp: u32, numbering: Numbering) -> Self {
        let size = max_qp.next_power_of_two() as usize;
        let (state, salt) = (host::random_u64(), host::random_u64());
        let ports = if numbering == Numbering::Port { 0 } else { usize::from(u16::MAX) + 1 };
        let uses = vec![0; ports];
        Self { residues: vec![0; size], state, freed: None, uses, salt }
    }

    /// Iterates over every port for queue pairs once, from a random one on with a random odd
    /// stride. So it also finds the last free port or residue.
    fn walk(&mut self) -> impl Iterator<Item = u16> + use<> {
        self.state = step(self.state);
        let [a, b, c, d, ..] = self.state.to_be_bytes();
        let (first, stride) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]) | 1);
        (0..=u16::MAX)
            .map(move |index| first.wrapping_add(index.wrapping_mul(stride)))
            .filter(|port| *port >= QPN_FIRST)
    }

    fn is_free(&self, port: u16) -> bool {
        self.residues[self.residue(port)] == 0
    }

    /// Marks the port as used, and returns its next slot.
    fn take(&mut self, port: u16) -> u8 {
        let residue = self.residue(port);
        self.residues[residue] += 1;
        let Some(uses) = self.uses.get_mut(usize::from(port)) else { return 0 };
        *uses = uses.wrapping_add(1);
        let first = step(self.salt ^ u64::from(port)).to_be_bytes()[0];
        first.wrapping_add(*uses)
    }

    fn release(&mut self, port: u16) {
        let residue = self.residue(port);
        assert!(self.residues[residue] > 0, "port {port} released twice");
        self.residues[residue] -= 1;
        self.freed = Some(port);
    }

    fn residue(&self, port: u16) -> usize {
        port as usize % self.residues.len()
    }
}

/// An LCG step (Knuth's MMIX); only the high bits are well mixed.
fn step(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that remembers a number for half a second would take its successor for a stale
    /// connection.
    #[test]
    fn a_number_comes_back_after_all_others_of_its_port() {
        let mut pool = PortPool::new(256, Numbering::PortAndSlot);
        let slots: std::collections::HashSet<u8> = (0..256)
            .map(|_| {
                let slot = pool.take(40_000);
                pool.release(40_000);
                slot
            })
            .collect();
        assert_eq!(slots.len(), 256);
    }

    /// With 255 of 256 queue pairs alive and crowded ports, random tries alone would miss the last
    /// ones.
    #[test]
    fn a_walk_leaves_out_no_port() {
        let mut pool = PortPool::new(256, Numbering::Port);
        let mut ports: Vec<u16> = pool.walk().collect();
        assert_ne!(ports, pool.walk().collect::<Vec<_>>(), "each walk is another");
        ports.sort_unstable();
        assert!(ports.into_iter().eq(QPN_FIRST..=u16::MAX));
    }

    #[test]
    fn live_numbers_differ_modulo_the_table_size() {
        let mut pool = PortPool::new(256, Numbering::Port);
        let mut seen = std::collections::HashSet::new();
        while seen.len() < 256 {
            let port = pool.walk().find(|port| pool.is_free(*port)).expect("a free port");
            pool.take(port);
            assert!(port >= QPN_FIRST && seen.insert(port % 256), "{port}");
        }
    }
}
