use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Global identifier of a device. That of an EFA is `fe80::/64` plus an interface id that carries
/// the IPv4 address, one prefix for all, because UCX calls peers unreachable when prefixes differ.
/// That of a RoCE device is the address itself, as IPv6 writes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid(pub [u8; 16]);

/// Upper half of the interface id: tells our identifiers from foreign ones.
const INTERFACE_MARK: [u8; 4] = [0x06, b'E', b'F', b'A'];

impl Gid {
    /// The identifier of the EFA at `addr`.
    #[must_use]
    pub fn from_addr(addr: Ipv4Addr) -> Self {
        let mut raw = [0; 16];
        raw[0] = 0xfe;
        raw[1] = 0x80;
        raw[8..12].copy_from_slice(&INTERFACE_MARK);
        raw[12..].copy_from_slice(&addr.octets());
        Self(raw)
    }

    /// The identifier of the RoCE device at `addr`: `::ffff:a.b.c.d`.
    #[must_use]
    pub fn mapped(addr: Ipv4Addr) -> Self {
        Self(addr.to_ipv6_mapped().octets())
    }

    /// The address in the identifier of a RoCE device, or `None` when it has another form.
    #[must_use]
    pub fn mapped_addr(&self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.0).to_ipv4_mapped()
    }

    /// The address of the EFA, or `None` when this is not an identifier of one.
    #[must_use]
    pub fn addr(&self) -> Option<Ipv4Addr> {
        let raw = &self.0;
        let addr = Ipv4Addr::new(raw[12], raw[13], raw[14], raw[15]);
        (*self == Self::from_addr(addr)).then_some(addr)
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
        let addr = Ipv4Addr::new(127, 0, 0, 9);
        assert_eq!(Gid::from_addr(addr).addr(), Some(addr));
        assert_eq!(Gid([7; 16]).addr(), None);
        assert_eq!(Gid::mapped(addr).mapped_addr(), Some(addr));
        assert_eq!(format!("{:?}", Gid::mapped(addr)), "::ffff:127.0.0.9");
    }

    #[test]
    fn adapters_of_different_kinds_do_not_take_each_other_for_their_own() {
        let addr = Ipv4Addr::new(127, 0, 0, 9);
        assert_eq!(Gid::mapped(addr).addr(), None);
        assert_eq!(Gid::from_addr(addr).mapped_addr(), None);
    }
}
