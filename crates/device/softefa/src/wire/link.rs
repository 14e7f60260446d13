//! The network interface of a local address.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use super::socket::udp_socket;
use crate::interface;

/// Returns the MTU of the interface that has `addr`; that of loopback for `127.0.0.0/8`. `None` if
/// no interface has it.
pub(crate) fn link_mtu_bytes(addr: IpAddr) -> Option<u32> {
    if addr.is_loopback() {
        return Some(65_536);
    }
    let name = interface::of(addr)?.name;
    let socket = udp_socket(addr).ok()?;
    // SAFETY: all-zero is a valid ifreq; the name is copied within its bounds and stays
    // zero-terminated because interface names are at most IFNAMSIZ - 1 bytes.
    unsafe {
        let mut request: libc::ifreq = zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
            *to = *from as libc::c_char;
        }
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) < 0 {
            return None;
        }
        u32::try_from(request.ifr_ifru.ifru_mtu).ok()
    }
}

/// Returns the addresses of the interfaces of this machine, in the network namespace of the caller.
pub(super) fn own_addrs() -> Vec<IpAddr> {
    interface::all().into_iter().map(|interface| interface.addr).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_wide_and_foreign_addresses_have_no_link() {
        assert_eq!(link_mtu_bytes(IpAddr::from([127, 1, 2, 3])), Some(65_536));
        assert_eq!(link_mtu_bytes(IpAddr::from([192, 0, 2, 1])), None);
    }
}
