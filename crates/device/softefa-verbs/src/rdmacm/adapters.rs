//! The devices of this process that have connections to manage, as ids see them.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;

use cm::ids::Device;
use cm::ucma::Errno;

use softefa::Gid;
use softefa::seal::SealKey;

use super::manager::fill_random;
use super::socket::Sealing;
use crate::{device, rate};

/// Any port: nothing is sent to it, the kernel is only asked for the way there.
const PORT: u16 = 9;
/// Linux's default of what IP packets may pass.
const HOP_LIMIT: u8 = 64;

/// One of them.
#[derive(Clone, Copy)]
struct Adapter {
    addr: Ipv4Addr,
    device: Device,
    /// The UDP port of the network, if it is behind a gateway.
    gateway: Option<u16>,
    /// In the list of devices.
    listed: Option<&'static device::Device>,
}

/// All of them.
pub(super) struct Adapters {
    /// In the order of the list of devices.
    managed: Vec<Adapter>,
    /// The addresses of the devices that know no connections.
    unmanaged: Vec<Ipv4Addr>,
    /// What messages are sealed with.
    key: Option<SealKey>,
}

impl Adapters {
    pub(super) fn of_process() -> Self {
        let listed = device::devices().unwrap_or_default();
        let unmanaged = listed.iter().filter(|device| device.roce_attr().is_none());
        Self {
            managed: listed.iter().filter_map(adapter).collect(),
            unmanaged: unmanaged.map(device::Device::addr).collect(),
            key: listed.first().and_then(device::Device::key).cloned(),
        }
    }

    /// The key, and a name that no other socket has.
    pub(super) fn sealing(&self) -> io::Result<Option<Sealing<'_>>> {
        let Some(key) = &self.key else { return Ok(None) };
        let mut session = [0; 8];
        fill_random(&mut session).map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        Ok(Some(Sealing { key, session: u64::from_ne_bytes(session) }))
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.managed.iter().map(|adapter| adapter.addr)
    }

    /// The UDP port of the network, if the adapter at an address is behind a gateway.
    pub(super) fn gateway_of(&self, local: Ipv4Addr) -> Option<u16> {
        self.managed.iter().find(|adapter| adapter.addr == local)?.gateway
    }

    /// What the adapter at an address is called.
    pub(super) fn name_at(&self, local: Ipv4Addr) -> &str {
        let found = self.managed.iter().find(|adapter| adapter.addr == local);
        found.and_then(|adapter| adapter.listed).map_or("", device::Device::name)
    }

    /// The adapter at an address, while the program has it open: what counts packets and shows
    /// them.
    pub(super) fn open_at(&self, local: Ipv4Addr) -> Option<Arc<softefa::Device>> {
        self.managed.iter().find(|adapter| adapter.addr == local)?.listed?.adapter()
    }

    /// As [`cm::ids::Host::device`].
    pub(super) fn device(&self, local: IpAddr) -> Result<Device, Errno> {
        let IpAddr::V4(local) = local else { return Err(Errno::EADDRNOTAVAIL) };
        let found = self.managed.iter().find(|adapter| adapter.addr == local);
        // As the kernel does it (`cma_bind_loopback`): libfabric asks so whether there is any.
        let is_everybodys = local.is_loopback() && !self.unmanaged.contains(&local);
        let found = found.or_else(|| self.managed.first().filter(|_| is_everybodys));
        match found {
            Some(adapter) => Ok(adapter.device),
            None if is_local(local) => Err(Errno::ENODEV),
            None => Err(Errno::EADDRNOTAVAIL),
        }
    }

    /// As [`cm::ids::Host::source_for`].
    ///
    /// Where the kernel would go from an address that is no adapter's, an adapter goes that can. So
    /// several of them on the loopback interface are as many hosts.
    pub(super) fn source_for(&self, destination: IpAddr) -> Result<IpAddr, Errno> {
        let IpAddr::V4(there) = destination else { return Err(Errno::EHOSTUNREACH) };
        let has = |addr: Ipv4Addr| self.addresses().any(|own| own == addr);
        if there.is_unspecified() {
            return self.addresses().next().map(IpAddr::from).ok_or(Errno::ENODEV);
        }
        if has(there) {
            return Ok(there.into());
        }
        let usual = way(Ipv4Addr::UNSPECIFIED, there);
        if there.is_multicast() {
            // Adapters send to groups on their own links, whatever the routes say.
            let usual = usual.ok().filter(|usual| has(*usual));
            let found = usual.or_else(|| self.addresses().next());
            return found.map(IpAddr::from).ok_or(Errno::ENODEV);
        }
        let usual = usual.map_err(|_| Errno::EHOSTUNREACH)?;
        if has(usual) {
            return Ok(usual.into());
        }
        let mut others = self.addresses().filter(|own| own.is_loopback() == there.is_loopback());
        let found = others.find(|own| way(*own, there).is_ok());
        // Loopback is everybody's, see `device`.
        let found = found
            .or_else(|| Some(usual).filter(|own| own.is_loopback() && !self.managed.is_empty()));
        found.map(IpAddr::from).ok_or(Errno::ENODEV)
    }
}

/// What ids see of a RoCE device.
fn adapter(listed: &'static device::Device) -> Option<Adapter> {
    let (addr, attr) = (listed.addr(), listed.roce_attr()?);
    let mbit_per_s = c_int::try_from(attr.rate.gbit_per_s).ok()? * 1000;
    let device = Device {
        guid: u64::from_be_bytes(listed.guid()),
        index: u32::MAX,
        port_num: 1,
        gid: Gid::mapped(addr).0,
        gid_index: 0,
        pkey: 0xFFFF,
        mtu: attr.path_mtu.code(),
        rate: u8::try_from(rate::number_of_at_least(mbit_per_s)).unwrap_or_default(),
        hop_limit: HOP_LIMIT,
    };
    Some(Adapter { addr, device, gateway: listed.gateway(), listed: Some(listed) })
}

/// The address from which the kernel would go `to` there, when it may choose what is left open
/// `from` here.
fn way(from: Ipv4Addr, to: Ipv4Addr) -> io::Result<Ipv4Addr> {
    let socket = softefa::with_descriptor(|| UdpSocket::bind(SocketAddrV4::new(from, 0)))?;
    socket.connect(SocketAddrV4::new(to, PORT))?;
    match socket.local_addr()? {
        SocketAddr::V4(local) => Ok(*local.ip()),
        SocketAddr::V6(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
    }
}

/// Whether it is an address of this machine.
fn is_local(addr: Ipv4Addr) -> bool {
    let is_one = !addr.is_multicast() && !addr.is_broadcast() && !addr.is_unspecified();
    is_one && UdpSocket::bind(SocketAddrV4::new(addr, 0)).is_ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The address of a device that knows no connections.
    const UNMANAGED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 99);

    /// Adapters at these addresses.
    pub(in crate::rdmacm) fn at(addresses: &[[u8; 4]]) -> Adapters {
        let adapter = |octets: &[u8; 4]| {
            let addr = Ipv4Addr::from(*octets);
            let guid = u64::from(u32::from(addr));
            let device = Device { guid, ..Device::default() };
            Adapter { addr, device, gateway: None, listed: None }
        };
        let managed = addresses.iter().map(adapter).collect();
        Adapters { managed, unmanaged: vec![UNMANAGED], key: None }
    }

    #[test]
    fn an_address_has_an_adapter_or_the_reason_why_not() {
        let adapters = at(&[[127, 0, 0, 1], [127, 0, 0, 7]]);
        let device = |ip: &str| adapters.device(ip.parse().unwrap()).map(|device| device.guid);
        assert_eq!(device("127.0.0.7"), Ok(0x7F00_0007));
        assert_eq!(device("127.0.0.8"), Ok(0x7F00_0001), "loopback is all of theirs");
        assert_eq!(adapters.device(UNMANAGED.into()).err(), Some(Errno::ENODEV));
        for foreign in ["192.0.2.1", "239.0.0.1", "255.255.255.255", "::1", "0.0.0.0"] {
            assert_eq!(device(foreign), Err(Errno::EADDRNOTAVAIL), "{foreign}");
        }
    }

    #[test]
    fn the_way_begins_at_an_adapter() {
        let source = |adapters: &Adapters, to: &str| adapters.source_for(to.parse().unwrap());
        let one = at(&[[127, 0, 0, 7]]);
        let seven = Ok("127.0.0.7".parse().unwrap());
        for to in ["127.0.0.7", "127.0.0.1", "127.9.9.9", "0.0.0.0"] {
            assert_eq!(source(&one, to), seven, "{to}");
        }
        assert_eq!(source(&one, "::1"), Err(Errno::EHOSTUNREACH));
        let two = at(&[[127, 0, 0, 7], [127, 0, 0, 1]]);
        assert_eq!(source(&two, "127.0.0.9"), Ok("127.0.0.1".parse().unwrap()), "the usual one");
        for group in ["224.0.0.9", "239.1.2.3"] {
            assert_eq!(source(&one, group), seven, "{group}: also where no route leads there");
            assert_eq!(source(&at(&[]), group), Err(Errno::ENODEV));
        }
        assert_eq!(source(&at(&[]), "0.0.0.0"), Err(Errno::ENODEV));
        assert_eq!(source(&at(&[]), "127.0.0.1"), Err(Errno::ENODEV));
    }
}
