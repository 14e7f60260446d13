use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::address::{is_of_a_link, to_v6};

/// Global identifier of a device. That of an EFA is `fe80::/64` plus an interface id that carries
/// the IPv4 address, one prefix for all, because UCX calls peers unreachable when prefixes differ.
/// That of a RoCE device is the address itself, as IPv6 writes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid(pub [u8; 16]);

/// Upper half of the interface id: tells our identifiers from foreign ones.
const INTERFACE_MARK: [u8; 4] = [0x06, b'E', b'F', b'A'];

impl Gid {
    /// The identifier of the EFA at `addr`; zeros for one of IPv6, where no EFA is.
    #[must_use]
    pub fn of_efa(addr: IpAddr) -> Self {
        let IpAddr::V4(addr) = addr else { return Self::default() };
        let mut raw = [0; 16];
        raw[0] = 0xfe;
        raw[1] = 0x80;
        raw[8..12].copy_from_slice(&INTERFACE_MARK);
        raw[12..].copy_from_slice(&addr.octets());
        Self(raw)
    }

    /// The identifier of the RoCE device at `addr`: the address, or `::ffff:a.b.c.d`.
    #[must_use]
    pub fn of_roce(addr: IpAddr) -> Self {
        Self(to_v6(addr).octets())
    }

    /// The address in the identifier of a RoCE device or of a multicast group; `None` when no such
    /// device has it: that of an EFA, and addresses of single links.
    #[must_use]
    pub fn roce_addr(&self) -> Option<IpAddr> {
        let addr = IpAddr::V6(Ipv6Addr::from(self.0)).to_canonical();
        (!is_of_a_link(addr) || addr.is_ipv4()).then_some(addr)
    }

    /// The address of the EFA, or `None` when this is not an identifier of one.
    #[must_use]
    pub fn efa_addr(&self) -> Option<IpAddr> {
        let raw = &self.0;
        let addr = IpAddr::from([raw[12], raw[13], raw[14], raw[15]]);
        (*self == Self::of_efa(addr)).then_some(addr)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Ipv6Addr::from(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_survives_the_round_trip() {
        let addr = IpAddr::from([127, 0, 0, 9]);
        assert_eq!(Gid::of_efa(addr).efa_addr(), Some(addr));
        assert_eq!(Gid([7; 16]).efa_addr(), None);
        assert_eq!(Gid::of_roce(addr).roce_addr(), Some(addr));
        assert_eq!(format!("{:?}", Gid::of_roce(addr)), "::ffff:127.0.0.9");
        let addr: IpAddr = "2001:db8::7".parse().unwrap();
        assert_eq!(Gid::of_roce(addr).roce_addr(), Some(addr));
        assert_eq!(format!("{:?}", Gid::of_roce(addr)), "2001:db8::7");
    }

    #[test]
    fn adapters_of_different_kinds_do_not_take_each_other_for_their_own() {
        let addr = IpAddr::from([127, 0, 0, 9]);
        assert_eq!(Gid::of_roce(addr).efa_addr(), None);
        assert_eq!(Gid::of_efa(addr).roce_addr(), None);
    }
}
