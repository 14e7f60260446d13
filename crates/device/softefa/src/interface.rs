//! The network interfaces of this machine, in the network namespace of the caller.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_uint};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::is_of_a_link;

/// An interface, by one of its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name, e.g. `eth0`.
    pub name: String,
    /// Its number, from 1 on.
    pub index: u32,
    /// The address.
    pub addr: IpAddr,
    is_up: bool,
    is_loopback: bool,
}

impl Interface {
    /// It is the loopback interface.
    pub(crate) fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    /// Other machines may know the address.
    fn is_global(&self) -> bool {
        self.is_up && !self.is_loopback && !self.addr.is_loopback() && !is_of_a_link(self.addr)
    }
}

/// The interface that owns `addr`; all of `127.0.0.0/8` is the loopback interface's.
pub(crate) fn of(addr: IpAddr) -> Option<Interface> {
    let mut all = all();
    let owner = all
        .iter()
        .position(|interface| interface.addr == addr)
        .or_else(|| all.iter().position(|interface| addr.is_loopback() && interface.is_loopback))?;
    Some(all.swap_remove(owner))
}

/// The address that other machines know: the first global one of an interface that is up, of IPv4
/// before IPv6, else `127.0.0.1`.
pub(crate) fn default_addr() -> IpAddr {
    let mut global: Vec<_> = all().into_iter().filter(Interface::is_global).collect();
    global.sort_by_key(|interface| interface.addr.is_ipv6());
    global.first().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |interface| interface.addr)
}

/// Interfaces with an IP address, once for each.
pub(crate) fn all() -> Vec<Interface> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    let mut found = Vec::new();
    // SAFETY: getifaddrs fills `list` or fails; the list is walked before it is freed.
    unsafe {
        if libc::getifaddrs(&raw mut list) != 0 {
            return found;
        }
        let mut at = list;
        while !at.is_null() {
            found.extend(read(&*at));
            at = (*at).ifa_next;
        }
        libc::freeifaddrs(list);
    }
    found
}

/// `None` without an IP address.
///
/// # Safety
/// `entry` is one of `getifaddrs`.
unsafe fn read(entry: &libc::ifaddrs) -> Option<Interface> {
    // SAFETY: null, or the address of the entry, of the structure that its family says.
    let addr = unsafe {
        match c_int::from(entry.ifa_addr.as_ref()?.sa_family) {
            libc::AF_INET => {
                let name = entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                IpAddr::from(name.sin_addr.s_addr.to_ne_bytes())
            }
            libc::AF_INET6 => {
                let name = entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                IpAddr::from(Ipv6Addr::from(name.sin6_addr.s6_addr))
            }
            _ => return None,
        }
    };
    let has = |flag: c_int| entry.ifa_flags & flag as c_uint != 0;
    // SAFETY: each entry has a name, which is a C string.
    let (name, index) = unsafe {
        (CStr::from_ptr(entry.ifa_name).to_str().ok()?, libc::if_nametoindex(entry.ifa_name))
    };
    Some(Interface {
        name: name_of(name).to_owned(),
        index,
        addr,
        is_up: has(libc::IFF_UP),
        is_loopback: has(libc::IFF_LOOPBACK),
    })
}

/// The interface of a labelled address (`eth0:1`): labels begin with it, and no name has a colon.
fn name_of(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_loopback_belongs_to_one_interface() {
        let lo = of(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert!(lo.index > 0 && lo.is_loopback, "{lo:?}");
        assert_eq!(of(IpAddr::from([127, 1, 2, 3])).map(|other| other.index), Some(lo.index));
        assert_eq!(of(IpAddr::from([198, 51, 100, 9])), None);
    }

    #[test]
    fn the_default_address_is_global_where_there_is_one() {
        let addr = default_addr();
        let interface = of(addr).unwrap();
        let has_global = all().iter().any(Interface::is_global);
        assert_eq!(interface.is_global(), has_global, "{interface:?}");
        assert_eq!(addr == IpAddr::from(Ipv4Addr::LOCALHOST), !has_global);
    }

    #[test]
    fn a_labelled_address_belongs_to_its_interface() {
        assert_eq!(
            ["eth0:1", "eth0", "eth0.7", "a:b:c"].map(name_of),
            ["eth0", "eth0", "eth0.7", "a"]
        );
    }

    #[test]
    fn what_others_cannot_know_is_not_global() {
        let eth = |addr: [u8; 4], is_up| Interface {
            name: "eth0".into(),
            index: 2,
            addr: addr.into(),
            is_up,
            is_loopback: false,
        };
        assert!(eth([10, 0, 0, 1], true).is_global());
        assert!(!eth([10, 0, 0, 1], false).is_global(), "down");
        assert!(!eth([169, 254, 0, 1], true).is_global(), "of its link");
        let lo = Interface { is_loopback: true, ..eth([10, 0, 0, 1], true) };
        assert!(!lo.is_global(), "an address of its own on lo");
    }
}
