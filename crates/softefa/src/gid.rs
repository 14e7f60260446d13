use std::fmt;
use std::net::Ipv4Addr;

/// Global identifier of a device: `fe80::/64` plus an interface id that carries the IPv4 address.
///
/// One prefix for all devices, because UCX calls peers unreachable when prefixes differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid(pub [u8; 16]);

/// Upper half of the interface id: tells our identifiers from foreign ones.
const INTERFACE_MARK: [u8; 4] = [0x06, b'E', b'F', b'A'];

impl Gid {
    /// The identifier of the device at `addr`.
    #[must_use]
    pub fn from_addr(addr: Ipv4Addr) -> Self {
        let mut raw = [0; 16];
        raw[0] = 0xfe;
        raw[1] = 0x80;
        raw[8..12].copy_from_slice(&INTERFACE_MARK);
        raw[12..].copy_from_slice(&addr.octets());
        Self(raw)
    }

    /// The device address inside, or `None` when this is not an identifier of a Soft-EFA device.
    #[must_use]
    pub fn addr(&self) -> Option<Ipv4Addr> {
        let raw = &self.0;
        let addr = Ipv4Addr::new(raw[12], raw[13], raw[14], raw[15]);
        (*self == Self::from_addr(addr)).then_some(addr)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::net::Ipv6Addr::from(self.0))
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
    }
}
