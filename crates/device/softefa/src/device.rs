//! A device: one local address, its limits, its tables, its sending sockets.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::ahn::AhnTable;
use crate::async_event::EventSource;
use crate::capture::Capture;
use crate::config::{Adapter, Config, DeviceSpec, Integrity, WireChoice};
use crate::counters::Counters;
use crate::failure::Failure;
use crate::fault::{FaultControl, FaultSpec};
use crate::gateway::{Gateway, GatewayError};
use crate::generation::Generation;
use crate::gid::Gid;
use crate::groups::GroupTable;
use crate::host;
use crate::identity::Identity;
use crate::ids::DeviceId;
use crate::interface::{self, Interface};
use crate::lifecycle;
use crate::limits::{DeviceAttr, RoceAttr};
use crate::lint;
use crate::local_copy::UserKey;
use crate::memory;
use crate::mr::MrTable;
use crate::numbering::Numbering;
use crate::progress::Family;
use crate::seal::OVERHEAD_BYTES;
use crate::sealing::Sealing;
use crate::trace::{Events, Sink, Tracer};
use crate::wire::{Port, Steering, SteeringInit, link_mtu_bytes};

/// The reason why a device cannot be brought up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No interface has the address.
    #[error("device {name}: {addr} is no address of this machine; choose one that `ip addr` shows")]
    NotLocal {
        /// Device name.
        name: String,
        /// The address.
        addr: IpAddr,
    },
    /// The operating system refused a socket or a file.
    #[error("device {name}: {what} failed")]
    Io {
        /// Device name.
        name: String,
        /// The operation that was tried.
        what: &'static str,
        /// The reason why it failed.
        #[source]
        source: io::Error,
    },
    /// It is to be behind a gateway.
    #[error("device {name}: {why}")]
    Gateway {
        /// Device name.
        name: String,
        /// The reason why it is not.
        why: GatewayError,
    },
}

/// Its regions, and its windows if it has any.
fn open_mrs(id: DeviceId, attr: &DeviceAttr) -> Arc<MrTable> {
    match &attr.roce {
        None => MrTable::new(id, attr.max_mr, attr.max_mr_bytes),
        Some(roce) => MrTable::with_windows(id, attr.max_mr, roce.max_mw, attr.max_mr_bytes),
    }
}

/// The parts of a device that are in use.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) pds: AtomicU32,
    pub(crate) cqs: AtomicU32,
    pub(crate) srqs: AtomicU32,
    pub(crate) qps: AtomicU32,
}

/// Bytes of IP packet that the link of a device carries, or is to; `None` when its address is none
/// of this machine.
fn mtu_bytes_of(spec: &DeviceSpec, config: &Config) -> Option<u32> {
    let bytes = link_mtu_bytes(spec.addr)?;
    Some(config.faults.mtu_bytes.map_or(bytes, |narrow| narrow.min(bytes)))
}

/// Returns the limits of the RoCE device `spec` of `config`, whether or not it is open; `None` of
/// another device, or when its address is none of this machine.
#[must_use]
pub fn roce_attr(spec: &DeviceSpec, config: &Config) -> Option<RoceAttr> {
    let seal_bytes = if config.key.is_some() { OVERHEAD_BYTES as u32 } else { 0 };
    let (profile, mtu_bytes) = (config.profile_of(spec), mtu_bytes_of(spec, config)?);
    DeviceAttr::new(profile, spec.port, mtu_bytes, seal_bytes).roce
}

/// The trace that the user wants, and of which events.
fn open_trace(config: &Config) -> io::Result<Option<(Arc<Sink>, Events)>> {
    let Some(spec) = &config.trace else { return Ok(None) };
    Ok(Some((Arc::new(Sink::open(&spec.target)?), spec.events())))
}

/// Returns how the queue pairs of a RoCE device are numbered.
fn numbering_of(gateway: Option<&Gateway>) -> Numbering {
    gateway.map_or(Numbering::PortAndSlot, |gateway| Numbering::Behind(gateway.port()))
}

/// Opens the place where it counts and is captured.
fn open_counters(spec: &DeviceSpec, config: &Config) -> io::Result<(Counters, Capture)> {
    let Some(dir) = &config.run_dir else { return Ok((Counters::private(), Capture::never())) };
    let (counters, request) = Counters::in_dir(dir, &spec.name, spec.addr)?;
    request.reset(config.capture_bytes);
    Ok((counters, Capture::in_dir(dir, &spec.name, request)))
}

/// An adapter in software.
#[derive(Debug)]
pub struct Device {
    id: DeviceId,
    name: String,
    addr: IpAddr,
    attr: DeviceAttr,
    identity: Identity,
    netdev: Option<Interface>,
    steering: Steering,
    pub(crate) faults: FaultSpec,
    pub(crate) fault_control: FaultControl,
    pub(crate) is_strict: bool,
    /// No post waits for a poll.
    pub(crate) sends_at_once: bool,
    /// Present when memory of other processes of this user may be copied directly.
    pub(crate) local_key: Option<UserKey>,
    pub(crate) integrity: Integrity,
    pub(crate) sealing: Sealing,
    pub(crate) streams: AtomicU64,
    pub(crate) counters: Counters,
    trace: Option<(Arc<Sink>, Events)>,
    pub(crate) mrs: Arc<MrTable>,
    pub(crate) ahns: AhnTable,
    pub(crate) groups: GroupTable,
    pub(crate) live: Live,
    pub(crate) family: Family,
    failure: Failure,
    made: Generation,
}

impl Device {
    /// Brings a device up; sockets are opened with its first queue pair.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(spec: &DeviceSpec, config: &Config) -> Result<Arc<Self>, OpenError> {
        let (name, addr) = (spec.name.clone(), spec.addr);
        memory::signals::install();
        let Some(mtu_bytes) = mtu_bytes_of(spec, config) else {
            return Err(OpenError::NotLocal { name, addr });
        };
        let io_error = |what| {
            let name = name.clone();
            move |source| OpenError::Io { name, what, source }
        };
        let counting = open_counters(spec, config);
        let (counters, capture) = counting.map_err(io_error("creating its counters file"))?;
        let opened = host::now();
        counters.faults().set_paths(config.paths_at(addr));
        let (run_dir, faults) = (config.run_dir.as_deref(), config.faults.clone());
        let fault_control = FaultControl::new(run_dir, &name, faults, opened, &counters);
        fault_control.poll(opened, &counters);
        let trace = open_trace(config).map_err(io_error("opening its trace file"))?;
        let what = "drawing random numbers, without which datagrams cannot be sealed,";
        let sealing = Sealing::new(config.key.clone()).map_err(io_error(what))?;
        let profile = config.profile_of(spec);
        let attr = DeviceAttr::new(profile, spec.port, mtu_bytes, sealing.overhead_bytes());
        let ending = config.faults.peer_kill_ns.map_or(Ok(()), lifecycle::end_after);
        ending.map_err(io_error("setting the timer of fault peer-kill"))?;
        let gateway = spec.port.gateway.map(|port| Gateway::connect(addr, port)).transpose();
        let gateway = gateway.map_err(|why| OpenError::Gateway { name: name.clone(), why })?;
        let (numbering, layout) = match attr.profile.adapter() {
            Adapter::Efa => (Numbering::Port, sealing.layout()),
            Adapter::Roce => (numbering_of(gateway.as_deref()), sealing.layout_of_packets()),
        };
        if config.lint {
            lint::enable();
        }
        let id = DeviceId::next();
        Ok(Arc::new(Self {
            id,
            name,
            addr,
            identity: Identity::of(config, spec),
            netdev: interface::of(addr),
            steering: Steering::new(SteeringInit {
                addr,
                paths: config.paths_at(addr),
                qps_max: attr.max_qp,
                memory: (config.wire != WireChoice::Udp).then(|| counters.links().clone()),
                gateway,
                reuses_numbers: config.faults.qpn_reuse,
                numbering,
                layout,
                key: sealing.key().cloned(),
                capture,
            }),
            faults: config.faults.clone(),
            fault_control,
            is_strict: config.strict,
            sends_at_once: config.send_at_once,
            // Whoever asks for faults wants to see what the wire does.
            local_key: config.local_key.filter(|_| !config.faults.is_active()),
            integrity: config.integrity,
            sealing,
            streams: AtomicU64::new(0),
            counters,
            trace,
            mrs: open_mrs(id, &attr),
            ahns: AhnTable::default(),
            groups: GroupTable::default(),
            live: Live::default(),
            family: Family::default(),
            failure: Failure::default(),
            made: Generation::current(),
            attr,
        }))
    }

    /// Its name among all of the process.
    pub(crate) fn id(&self) -> DeviceId {
        self.id
    }

    /// Name, as in `ibv_get_device_name`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Local address.
    #[must_use]
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The address of the peer or group with `gid`; `None` when a device like this one cannot reach
    /// it: it belongs to another kind of adapter, or to the other family of addresses.
    #[must_use]
    pub fn addr_of(&self, gid: Gid) -> Option<IpAddr> {
        let addr = self.adapter().addr_of(gid)?;
        (addr.is_ipv4() == self.addr.is_ipv4()).then_some(addr)
    }

    /// GID at index 0 of port 1.
    #[must_use]
    pub fn gid(&self) -> Gid {
        self.identity.gid
    }

    /// Node GUID.
    #[must_use]
    pub fn guid(&self) -> [u8; 8] {
        self.identity.node_guid
    }

    /// The kind of adapter it is.
    #[must_use]
    pub fn adapter(&self) -> Adapter {
        self.attr.profile.adapter()
    }

    /// The network interface it sends through.
    #[must_use]
    pub fn netdev(&self) -> Option<&Interface> {
        self.netdev.as_ref()
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

    /// Returns what the device counted in this process.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// This process opened it. What a child inherits does nothing ([`Generation`]).
    pub(crate) fn is_own(&self) -> bool {
        self.made.is_current()
    }

    /// Returns the place at which captures listen.
    pub(crate) fn capture(&self) -> &Capture {
        self.steering.capture()
    }

    /// Returns how numbers of its queue pairs, and of those they talk to, are made.
    pub(crate) fn numbering(&self) -> Numbering {
        self.steering.numbering()
    }

    /// Refuses queue pairs from now on; answers whether that is new.
    pub(crate) fn fail(&self) -> bool {
        self.failure.happen()
    }

    /// From now on `context` has an event when the device breaks by a mistake of the adapter
    /// ([`DeviceFatal`](crate::AsyncEventKind::DeviceFatal)), or at once if it has.
    pub fn report_failure_to(&self, context: &Arc<EventSource>) {
        self.failure.report_to(context);
    }

    /// It broke by a mistake of ours ([`crate::Qp::create`] refuses then).
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.has_happened()
    }

    /// Somebody wants to know what happens and why.
    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// The trace of a queue pair.
    pub(crate) fn tracer(&self, qpn: u32) -> Option<Tracer> {
        let (sink, events) = self.trace.as_ref()?;
        Some(Tracer::new(sink, *events, &self.name, qpn))
    }

    /// Some peer refused a datagram and no queue pair has claimed the refusal yet.
    pub(crate) fn has_refusals(&self) -> bool {
        self.steering.has_refusals()
    }

    /// A number for a new queue pair and the network that leads to it; `None` when all are in use.
    pub(crate) fn open_port(&self) -> Option<io::Result<Port>> {
        if self.live.qps.fetch_add(1, Ordering::Relaxed) >= self.attr.max_qp {
            self.live.qps.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let port = self.steering.open();
        if port.is_err() {
            self.live.qps.fetch_sub(1, Ordering::Relaxed);
        }
        Some(port)
    }

    /// A queue pair is destroyed; it may still linger.
    pub(crate) fn release_port(&self, qpn: u32) {
        self.live.qps.fetch_sub(1, Ordering::Relaxed);
        self.steering.release(qpn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_address_is_refused_by_name() {
        let spec: DeviceSpec = "rdmap0=192.0.2.7".parse().unwrap();
        let error = Device::open(&spec, &Config::default()).unwrap_err().to_string();
        assert!(error.contains("rdmap0") && error.contains("192.0.2.7"), "{error}");
    }

    #[test]
    fn a_roce_device_knows_its_interface_and_is_known_by_its_address() {
        let spec: DeviceSpec = "roce0=127.0.0.3,profile=roce".parse().unwrap();
        let device = Device::open(&spec, &Config::default()).unwrap();
        assert_eq!(device.adapter(), Adapter::Roce);
        assert_eq!(device.gid(), Gid::of_roce(IpAddr::from([127, 0, 0, 3])));
        assert_eq!(device.netdev().map(|netdev| netdev.name.as_str()), Some("lo"));
        assert_eq!(device.attr().roce.map(|roce| roce.path_mtu.bytes()), Some(4096));
        let narrow = Config { faults: "mtu=1400".parse().unwrap(), ..Config::default() };
        let device = Device::open(&spec, &narrow).unwrap();
        assert_eq!(device.attr().roce.map(|roce| roce.path_mtu.bytes()), Some(1024));
    }
}
