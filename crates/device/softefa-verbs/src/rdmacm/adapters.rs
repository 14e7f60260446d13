//! The devices of this process whose connections are managed, for the table of ids.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use cm::ids::Device;
use cm::ucma::Errno;

use softefa::Gid;
use softefa::seal::SealKey;

use super::manager::fill_random;
use super::socket::Sealing;
use crate::{device, rate};

/// Any port: nothing is sent to it, it only serves to ask the kernel for a route.
const PORT: u16 = 9;
/// Linux's default hop limit.
const HOP_LIMIT: u8 = 64;

/// A device with managed connections.
#[derive(Clone, Copy)]
struct Adapter {
    addr: IpAddr,
    device: Device,
    /// The UDP port of the network, if it is behind a gateway.
    gateway: Option<u16>,
    /// Its entry in the list of devices.
    listed: Option<&'static device::Device>,
}

/// All devices with managed connections.
pub(super) struct Adapters {
    /// The adapters in the order of the list of devices.
    managed: Vec<Adapter>,
    /// The addresses of devices without connections.
    unmanaged: Vec<IpAddr>,
    /// The key that messages are sealed with.
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

    /// Returns the key, with a session name that no other socket has.
    pub(super) fn sealing(&self) -> io::Result<Option<Sealing<'_>>> {
        let Some(key) = &self.key else { return Ok(None) };
        let mut session = [0; 8];
        fill_random(&mut session).map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        Ok(Some(Sealing { key, session: u64::from_ne_bytes(session) }))
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.managed.iter().map(|adapter| adapter.addr)
    }

    /// Returns the loopback addresses that lead to an adapter of their family. There is none of a
    /// family in which an adapter has a loopback address: adapters then act as separate hosts with
    /// an address each.
    pub(super) fn loopback(&self) -> impl Iterator<Item = IpAddr> {
        let both = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        both.into_iter().filter(|local: &IpAddr| {
            let mut like = self.same_family(*local).peekable();
            let has_any = like.peek().is_some();
            has_any
                && like.all(|adapter| !adapter.addr.is_loopback())
                && !self.unmanaged.contains(local)
        })
    }

    /// Returns the UDP port of the network, if the adapter at an address is behind a gateway.
    pub(super) fn gateway_of(&self, local: IpAddr) -> Option<u16> {
        self.managed.iter().find(|adapter| adapter.addr == local)?.gateway
    }

    /// Returns the name of the adapter with an address.
    pub(super) fn name_at(&self, local: IpAddr) -> &str {
        let found = self.of(local).and_then(|adapter| adapter.listed);
        found.map_or("", device::Device::name)
    }

    /// Returns the adapter with an address, while the program has it open; it counts and captures
    /// packets.
    pub(super) fn open_at(&self, local: IpAddr) -> Option<Arc<softefa::Device>> {
        self.of(local)?.listed?.adapter()
    }

    /// Returns the address of the queue pairs of connections at `local`.
    pub(super) fn qp_address_of(&self, local: IpAddr) -> Option<IpAddr> {
        self.of(local).map(|adapter| adapter.addr)
    }

    /// Returns the adapter whose connections are at `local`.
    fn of(&self, local: IpAddr) -> Option<&Adapter> {
        let found = self.managed.iter().find(|adapter| adapter.addr == local);
        // As the kernel does it (`cma_bind_loopback`), whatever the family: libfabric asks at
        // 127.0.0.1 whether there is any.
        let is_shared_loopback = local.is_loopback() && !self.unmanaged.contains(&local);
        let anybody = || self.same_family(local).next().or_else(|| self.managed.first());
        found.or_else(|| anybody().filter(|_| is_shared_loopback))
    }

    /// Returns the adapters with addresses of the family of `addr`.
    fn same_family(&self, addr: IpAddr) -> impl Iterator<Item = &Adapter> {
        self.managed.iter().filter(move |adapter| adapter.addr.is_ipv4() == addr.is_ipv4())
    }

    /// See [`cm::ids::Host::device`].
    pub(super) fn device(&self, local: IpAddr) -> Result<Device, Errno> {
        match self.of(local) {
            Some(adapter) => Ok(adapter.device),
            None if is_local(local) => Err(Errno::ENODEV),
            None => Err(Errno::EADDRNOTAVAIL),
        }
    }

    /// See [`cm::ids::Host::source_for`].
    ///
    /// If the kernel's source address belongs to no adapter, the first adapter with a route is
    /// used. So several adapters on the loopback interface act as separate hosts.
    pub(super) fn source_for(&self, destination: IpAddr) -> Result<IpAddr, Errno> {
        let there = destination;
        let mut addresses = self.same_family(there).map(|adapter| adapter.addr);
        let has = |addr: IpAddr| self.addresses().any(|known| known == addr);
        if there.is_unspecified() {
            return addresses.next().ok_or(Errno::ENODEV);
        }
        if has(there) {
            return Ok(there);
        }
        let usual = way(any_of(there), there);
        if there.is_multicast() {
            // Adapters send to groups on their own links, whatever the routes say.
            let usual = usual.ok().filter(|usual| has(*usual));
            return usual.or_else(|| addresses.next()).ok_or(Errno::ENODEV);
        }
        let usual = usual.map_err(|_| Errno::EHOSTUNREACH)?;
        if has(usual) {
            return Ok(usual);
        }
        let mut others = addresses.filter(|addr| addr.is_loopback() == there.is_loopback());
        let found = others.find(|addr| way(*addr, there).is_ok());
        // Loopback is everybody's, see `device`.
        found
            .or_else(|| Some(usual).filter(|addr| addr.is_loopback() && !self.managed.is_empty()))
            .ok_or(Errno::ENODEV)
    }
}

/// Returns the attributes of a RoCE device for the table of ids.
fn adapter(listed: &'static device::Device) -> Option<Adapter> {
    let (addr, attr) = (listed.addr(), listed.roce_attr()?);
    let mbit_per_s = c_int::try_from(attr.rate.gbit_per_s).ok()? * 1000;
    let device = Device {
        guid: u64::from_be_bytes(listed.guid()),
        index: u32::MAX,
        port_num: 1,
        gid: Gid::of_roce(addr).0,
        gid_index: 0,
        pkey: 0xFFFF,
        mtu: attr.path_mtu.code(),
        rate: u8::try_from(rate::number_of_at_least(mbit_per_s)).unwrap_or_default(),
        hop_limit: HOP_LIMIT,
    };
    Some(Adapter { addr, device, gateway: listed.gateway(), listed: Some(listed) })
}

/// Returns the kernel's source address for a route to `to`, where `from` may leave the choice open.
fn way(from: IpAddr, to: IpAddr) -> io::Result<IpAddr> {
    let socket = softefa::with_descriptor(|| UdpSocket::bind(SocketAddr::new(from, 0)))?;
    socket.connect(SocketAddr::new(to, PORT))?;
    Ok(socket.local_addr()?.ip())
}

/// Returns the unspecified address of the family of `addr`.
fn any_of(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Returns whether it is an address of this machine.
fn is_local(addr: IpAddr) -> bool {
    let is_broadcast = addr == IpAddr::V4(Ipv4Addr::BROADCAST);
    let is_one = !addr.is_multicast() && !is_broadcast && !addr.is_unspecified();
    is_one && UdpSocket::bind(SocketAddr::new(addr, 0)).is_ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The address of a device without connections.
    const UNMANAGED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 99));

    /// Creates adapters at these addresses.
    pub(in crate::rdmacm) fn at(addresses: &[&str]) -> Adapters {
        let adapter = |addr: &&str| {
            let addr: IpAddr = addr.parse().unwrap();
            Adapter { addr, device: device_of(addr), gateway: None, listed: None }
        };
        let managed = addresses.iter().map(adapter).collect();
        Adapters { managed, unmanaged: vec![UNMANAGED], key: None }
    }

    fn device_of(addr: IpAddr) -> Device {
        Device { gid: Gid::of_roce(addr).0, ..Device::default() }
    }

    #[test]
    fn an_address_has_an_adapter_or_the_reason_why_not() {
        let adapters = at(&["127.0.0.1", "127.0.0.7"]);
        let device = |ip: &str| adapters.device(ip.parse().unwrap()).map(|device| device.gid);
        let gid = |ip: &str| Ok(device_of(ip.parse().unwrap()).gid);
        assert_eq!(device("127.0.0.7"), gid("127.0.0.7"));
        assert_eq!(device("127.0.0.8"), gid("127.0.0.1"), "loopback is all of theirs");
        assert_eq!(adapters.device(UNMANAGED).err(), Some(Errno::ENODEV));
        for foreign in ["192.0.2.1", "239.0.0.1", "255.255.255.255", "2001:db8::1", "0.0.0.0"] {
            assert_eq!(device(foreign), Err(Errno::EADDRNOTAVAIL), "{foreign}");
        }
        let both = at(&["127.0.0.7", "2001:db8::7"]);
        let device = |ip: &str| both.device(ip.parse().unwrap()).map(|device| device.gid);
        assert_eq!(device("2001:db8::7"), gid("2001:db8::7"));
        assert_eq!(device("::1"), gid("2001:db8::7"), "loopback of the same family");
        assert_eq!(device("127.0.0.1"), gid("127.0.0.7"));
        assert_eq!(device("2001:db8::8"), Err(Errno::EADDRNOTAVAIL));
        let six = at(&["2001:db8::7"]);
        let found = six.device("127.0.0.1".parse().unwrap()).map(|device| device.gid);
        assert_eq!(found, gid("2001:db8::7"), "loopback of the other family");
    }

    /// An adapter at another address counts and captures messages over 127.0.0.1, and its queue
    /// pairs take what came before their connections ended.
    #[test]
    fn connections_over_loopback_are_those_of_an_adapter() {
        let adapters = at(&["192.0.2.7", "2001:db8::7"]);
        let home = |ip: &str| adapters.qp_address_of(ip.parse().unwrap()).map(|ip| ip.to_string());
        for local in ["127.0.0.1", "192.0.2.7"] {
            assert_eq!(home(local).as_deref(), Some("192.0.2.7"), "{local}");
        }
        assert_eq!(home("::1").as_deref(), Some("2001:db8::7"));
        for foreign in ["127.0.0.99", "192.0.2.8"] {
            assert_eq!(home(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_way_begins_at_an_adapter() {
        let source = |adapters: &Adapters, to: &str| adapters.source_for(to.parse().unwrap());
        let one = at(&["127.0.0.7"]);
        let seven = Ok("127.0.0.7".parse().unwrap());
        for to in ["127.0.0.7", "127.0.0.1", "127.9.9.9", "0.0.0.0"] {
            assert_eq!(source(&one, to), seven, "{to}");
        }
        assert_eq!(source(&one, "::1"), Ok("::1".parse().unwrap()), "as `device` has it");
        let six = at(&["127.0.0.7", "::1"]);
        for to in ["::1", "::"] {
            assert_eq!(source(&six, to), Ok("::1".parse().unwrap()), "{to}");
        }
        assert_eq!(source(&six, "127.0.0.1"), seven);
        assert_eq!(source(&six, "ff15::7"), Ok("::1".parse().unwrap()));
        let two = at(&["127.0.0.7", "127.0.0.1"]);
        assert_eq!(source(&two, "127.0.0.9"), Ok("127.0.0.1".parse().unwrap()), "the usual one");
        for group in ["224.0.0.9", "239.1.2.3"] {
            assert_eq!(source(&one, group), seven, "{group}: also where no route leads there");
            assert_eq!(source(&at(&[]), group), Err(Errno::ENODEV));
        }
        assert_eq!(source(&at(&[]), "0.0.0.0"), Err(Errno::ENODEV));
        assert_eq!(source(&at(&[]), "127.0.0.1"), Err(Errno::ENODEV));
    }
}
