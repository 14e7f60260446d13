//! A device: one local address, its limits, its tables, its sending sockets.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use srd::Instant;

use crate::ah::AhnTable;
use crate::capture::Capture;
use crate::config::{Config, DeviceSpec, Integrity};
use crate::counters::{Counter, Counters};
use crate::cq::Family;
use crate::fault::{Blackholes, FaultSpec};
use crate::framing::Layout;
use crate::generation::Generation;
use crate::gid::Gid;
use crate::host;
use crate::lifecycle;
use crate::limits::DeviceAttr;
use crate::local_copy::UserKey;
use crate::memory;
use crate::mr::MrTable;
use crate::pd::{AllocPdError, Pd};
use crate::qp::CreateQpError;
use crate::service;
use crate::trace::{Events, Sink, Tracer};
use crate::wire::{PathSockets, QPN_FIRST, UdpWire, link_mtu_bytes};

/// Why a device cannot be brought up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No interface has the address.
    #[error("device {name}: {addr} is no address of this machine; choose one that `ip addr` shows")]
    NotLocal {
        /// Device name.
        name: String,
        /// The address.
        addr: Ipv4Addr,
    },
    /// The operating system refused a socket or a file.
    #[error("device {name}: {what} failed")]
    Io {
        /// Device name.
        name: String,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// What is in use of a device.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) pds: AtomicU32,
    pub(crate) cqs: AtomicU32,
    pub(crate) qps: AtomicU32,
}

/// Ports to try before giving up.
const QPN_TRIES: usize = 4096;

/// A software EFA device.
#[derive(Debug)]
pub struct Device {
    name: String,
    addr: Ipv4Addr,
    attr: DeviceAttr,
    path_count: u16,
    paths: OnceLock<Arc<PathSockets>>,
    qpns: Mutex<QpnPool>,
    pub(crate) faults: FaultSpec,
    pub(crate) is_strict: bool,
    /// Present when memory of other processes of this user may be copied directly.
    pub(crate) local_key: Option<UserKey>,
    pub(crate) integrity: Integrity,
    pub(crate) streams: AtomicU64,
    pub(crate) counters: Counters,
    capture: Arc<Capture>,
    trace: Option<(Arc<Sink>, Events)>,
    opened: Instant,
    pub(crate) mrs: Arc<MrTable>,
    pub(crate) ahns: AhnTable,
    pub(crate) live: Live,
    pub(crate) family: Family,
    failed: AtomicBool,
    made: Generation,
}

impl Device {
    /// Brings a device up; sockets are opened with its first queue pair.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(spec: &DeviceSpec, config: &Config) -> Result<Arc<Self>, OpenError> {
        let (name, addr) = (spec.name.clone(), spec.addr);
        lifecycle::install();
        memory::signals::install();
        let Some(mtu_bytes) = link_mtu_bytes(addr) else {
            return Err(OpenError::NotLocal { name, addr });
        };
        let (counters, capture) = match &config.run_dir {
            None => (Counters::private(), Capture::never()),
            Some(dir) => {
                let opened = Counters::in_dir(dir, &name, addr);
                let (counters, request) = opened.map_err(|source| OpenError::Io {
                    name: name.clone(),
                    what: "creating its counters file",
                    source,
                })?;
                request.reset(config.capture_bytes);
                (counters, Capture::in_dir(dir, &name, request))
            }
        };
        let trace = config
            .trace
            .as_ref()
            .map(|spec| Sink::open(&spec.target).map(|sink| (Arc::new(sink), spec.events())));
        let trace = trace.transpose().map_err(|source| OpenError::Io {
            name: name.clone(),
            what: "opening its trace file",
            source,
        })?;
        let mtu_bytes = config.faults.mtu_bytes.map_or(mtu_bytes, |narrow| narrow.min(mtu_bytes));
        let attr = DeviceAttr::new(config.profile, mtu_bytes);
        let ending = config.faults.peer_kill_ns.map_or(Ok(()), lifecycle::end_after);
        ending.map_err(|source| OpenError::Io {
            name: name.clone(),
            what: "setting the timer of fault peer-kill",
            source,
        })?;
        Ok(Arc::new(Self {
            name,
            addr,
            path_count: config.paths_at(addr),
            paths: OnceLock::new(),
            qpns: Mutex::new(QpnPool::new(attr.max_qp)),
            faults: config.faults.clone(),
            is_strict: config.strict,
            // Whoever asks for faults wants to see what the wire does.
            local_key: config.local_key.filter(|_| !config.faults.is_active()),
            integrity: config.integrity,
            streams: AtomicU64::new(0),
            counters,
            capture: Arc::new(capture),
            trace,
            opened: host::now(),
            mrs: MrTable::new(attr.max_mr, attr.max_mr_bytes),
            ahns: AhnTable::default(),
            live: Live::default(),
            family: Family::default(),
            failed: AtomicBool::new(false),
            made: Generation::current(),
            attr,
        }))
    }

    /// Name, as in `ibv_get_device_name`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Local address.
    #[must_use]
    pub fn addr(&self) -> Ipv4Addr {
        self.addr
    }

    /// GID at index 0 of port 1.
    #[must_use]
    pub fn gid(&self) -> Gid {
        Gid::from_addr(self.addr)
    }

    /// Node GUID: the interface id of the GID.
    #[must_use]
    pub fn guid(&self) -> [u8; 8] {
        let mut guid = [0; 8];
        guid.copy_from_slice(&self.gid().0[8..]);
        guid
    }

    /// Limits and identity.
    #[must_use]
    pub fn attr(&self) -> &DeviceAttr {
        &self.attr
    }

    /// Whether it refuses what hardware refuses ([`Config::strict`]).
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// What it counted in this process.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A new protection domain.
    ///
    /// # Errors
    /// [`AllocPdError`].
    pub fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Pd>, AllocPdError> {
        self.counters.command(Pd::new(self), Some(Counter::AllocPdErr))
    }

    /// This process opened it. What a child inherits does nothing ([`Generation`]).
    pub(crate) fn is_own(&self) -> bool {
        self.made.is_current()
    }

    /// From now on it takes no queue pairs; whether that is new.
    pub(crate) fn fail(&self) -> bool {
        !self.failed.swap(true, Ordering::AcqRel)
    }

    /// It broke by a mistake of ours ([`crate::Qp::create`] refuses then).
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Somebody wants to know what happens and why.
    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// The trace of a queue pair.
    pub(crate) fn tracer(&self, qpn: u16) -> Option<Tracer> {
        let (sink, events) = self.trace.as_ref()?;
        Some(Tracer::new(sink, *events, &self.name, qpn))
    }

    /// The paths that swallow what is sent.
    pub(crate) fn blackholes(&self) -> Blackholes {
        Blackholes::new(self.faults.blackholes.clone(), self.opened)
    }

    /// The sending sockets; opened by the first caller.
    fn paths(&self) -> io::Result<Arc<PathSockets>> {
        if let Some(paths) = self.paths.get() {
            return Ok(Arc::clone(paths));
        }
        let paths = PathSockets::bind(self.addr, self.path_count)?;
        Ok(Arc::clone(self.paths.get_or_init(|| paths)))
    }

    /// Some peer refused a datagram and no queue pair has claimed the refusal yet.
    pub(crate) fn has_refusals(&self) -> bool {
        self.paths.get().is_some_and(|paths| paths.has_refusals())
    }

    /// A number for a new queue pair and the socket that is bound to it.
    pub(crate) fn bind_qp(&self) -> Result<(u16, UdpWire), CreateQpError> {
        let max = self.attr.max_qp;
        if self.live.qps.fetch_add(1, Ordering::Relaxed) >= max {
            self.live.qps.fetch_sub(1, Ordering::Relaxed);
            return Err(CreateQpError::TooMany { max });
        }
        let bound = self.paths().and_then(|paths| self.try_bind_qp(&paths));
        bound.map_err(|error| {
            self.live.qps.fetch_sub(1, Ordering::Relaxed);
            CreateQpError::Socket(error)
        })
    }

    fn try_bind_qp(&self, paths: &Arc<PathSockets>) -> io::Result<(u16, UdpWire)> {
        let mut pool = self.qpns.lock().unwrap_or_else(PoisonError::into_inner);
        if self.faults.qpn_reuse
            && let Some(bound) = self.try_rebind_freed(&mut pool, paths)
        {
            return Ok(bound);
        }
        for _ in 0..QPN_TRIES {
            let Some(qpn) = pool.candidate() else { continue };
            match self.try_bind_at(qpn, paths) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
                Ok(wire) => {
                    pool.take(qpn);
                    return Ok((qpn, wire));
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no free UDP port for a queue pair"))
    }

    fn try_bind_at(&self, qpn: u16, paths: &Arc<PathSockets>) -> io::Result<UdpWire> {
        let at = SocketAddrV4::new(self.addr, qpn);
        UdpWire::bind(at, Arc::clone(paths), &self.capture, Layout::Srd)
    }

    /// The number of the queue pair destroyed last, on purpose: its socket was closed at once.
    fn try_rebind_freed(
        &self,
        pool: &mut QpnPool,
        paths: &Arc<PathSockets>,
    ) -> Option<(u16, UdpWire)> {
        let qpn = pool.freed.take().filter(|qpn| pool.is_free(*qpn))?;
        let wire = self.try_bind_at(qpn, paths).ok()?;
        pool.take(qpn);
        Some((qpn, wire))
    }

    /// Its program has closed it and destroyed its queue pairs: those that still answered for what
    /// they accepted say so once more and give their descriptors back. Not with faults on the wire,
    /// which would eat what is said.
    pub fn close(self: &Arc<Self>) {
        if !self.faults.is_on_the_wire() && self.is_own() {
            service::say_farewell(self);
        }
    }

    /// The number may be given out again; its queue pair may still linger.
    pub(crate) fn release_qpn(&self, qpn: u16) {
        self.qpns.lock().unwrap_or_else(PoisonError::into_inner).release(qpn);
    }
}

/// Numbers in use. Live ones differ modulo the power of two above `max_qp`, because libfabric
/// finds queue pairs in a table of that size; they are drawn at random, so that a successor
/// hardly ever inherits the number of a queue pair that peers still remember.
#[derive(Debug)]
struct QpnPool {
    /// Live queue pairs per residue, 0 or 1.
    residues: Vec<u8>,
    state: u64,
    /// Released last.
    freed: Option<u16>,
}

impl QpnPool {
    fn new(max_qp: u32) -> Self {
        let size = max_qp.next_power_of_two() as usize;
        Self { residues: vec![0; size], state: host::random_u64(), freed: None }
    }

    fn candidate(&mut self) -> Option<u16> {
        // An LCG step (Knuth's MMIX); only the well-mixed high bits are used.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let qpn = (self.state >> 48) as u16;
        (qpn >= QPN_FIRST && self.is_free(qpn)).then_some(qpn)
    }

    fn is_free(&self, qpn: u16) -> bool {
        self.residues[self.residue(qpn)] == 0
    }

    fn take(&mut self, qpn: u16) {
        let residue = self.residue(qpn);
        self.residues[residue] += 1;
    }

    fn release(&mut self, qpn: u16) {
        let residue = self.residue(qpn);
        assert!(self.residues[residue] > 0, "queue pair number {qpn} released twice");
        self.residues[residue] -= 1;
        self.freed = Some(qpn);
    }

    fn residue(&self, qpn: u16) -> usize {
        qpn as usize % self.residues.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_numbers_differ_modulo_the_table_size() {
        let mut pool = QpnPool::new(256);
        let mut seen = std::collections::HashSet::new();
        while seen.len() < 200 {
            let Some(qpn) = pool.candidate() else { continue };
            pool.take(qpn);
            assert!(qpn >= QPN_FIRST && seen.insert(qpn % 256), "{qpn}");
        }
    }

    #[test]
    fn a_foreign_address_is_refused_by_name() {
        let spec: DeviceSpec = "rdmap0=192.0.2.7".parse().unwrap();
        let error = Device::open(&spec, &Config::default()).unwrap_err().to_string();
        assert!(error.contains("rdmap0") && error.contains("192.0.2.7"), "{error}");
    }
}
