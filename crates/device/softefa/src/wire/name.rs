//! Socket addresses in the kernel's form, of either family.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{c_int, socklen_t};

/// Both forms begin with the address family.
#[derive(Clone, Copy)]
#[repr(C)]
union Raw {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

/// A socket address in memory that system calls read or fill.
#[derive(Clone, Copy)]
pub struct SocketName {
    raw: Raw,
    len: socklen_t,
}

impl SocketName {
    /// Makes the name for a call that reads it.
    #[inline]
    #[must_use]
    pub fn of(at: SocketAddr) -> Self {
        let mut name = Self::room();
        match at.ip() {
            IpAddr::V4(ip) => {
                name.len = size_of::<libc::sockaddr_in>() as socklen_t;
                name.raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: at.port().to_be(),
                    sin_addr: to_in_addr(ip),
                    sin_zero: [0; 8],
                };
            }
            IpAddr::V6(ip) => {
                name.raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: at.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: to_in6_addr(ip),
                    sin6_scope_id: 0,
                };
            }
        }
        name
    }

    /// Makes the name for a call that fills it.
    #[inline]
    #[must_use]
    pub fn room() -> Self {
        // SAFETY: zero is valid in each member of both structures.
        Self { raw: unsafe { zeroed() }, len: size_of::<Raw>() as socklen_t }
    }

    /// Returns the pointer for calls that read the name.
    #[inline]
    #[must_use]
    pub fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.raw).cast()
    }

    /// Returns the pointer for calls that fill the name.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.raw).cast()
    }

    /// Returns the length of the name.
    #[inline]
    #[must_use]
    pub fn socklen(&self) -> socklen_t {
        self.len
    }

    /// Returns a pointer to the length, for calls that fill it.
    #[inline]
    pub fn socklen_mut(&mut self) -> *mut socklen_t {
        &raw mut self.len
    }

    /// Returns the address. Devices have no link-local addresses, so the scope is left out.
    #[inline]
    #[must_use]
    pub fn get(&self) -> SocketAddr {
        // SAFETY: all bytes are initialised, and any are valid in both structures, whose families
        // lie in the same place.
        unsafe {
            if c_int::from(self.raw.v4.sin_family) == libc::AF_INET6 {
                let v6 = &self.raw.v6;
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                return SocketAddr::new(ip.into(), u16::from_be(v6.sin6_port));
            }
            let v4 = &self.raw.v4;
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            SocketAddr::new(ip.into(), u16::from_be(v4.sin_port))
        }
    }
}

pub(super) fn to_in_addr(ip: Ipv4Addr) -> libc::in_addr {
    libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) }
}

pub(super) fn to_in6_addr(ip: Ipv6Addr) -> libc::in6_addr {
    libc::in6_addr { s6_addr: ip.octets() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_in_its_own_length() {
        for (text, len) in [("10.1.2.3:7471", 16), ("[2001:db8::7]:65535", 28), ("0.0.0.0:0", 16)] {
            let at: SocketAddr = text.parse().unwrap();
            let name = SocketName::of(at);
            assert_eq!((name.get(), name.socklen()), (at, len));
        }
        let nobody = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        assert_eq!((SocketName::room().get(), SocketName::room().socklen()), (nobody, 28));
    }
}
