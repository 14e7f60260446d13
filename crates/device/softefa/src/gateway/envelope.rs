//! The envelope that the gateway puts in front of a packet for a program (RC-1.10).
//!
//! ```text
//!  0              16     18     20         36
//! +---------------+------+------+----------+---------
//! | key           |  0   | port | address  | packet
//! +---------------+------+------+----------+---------
//! ```
//! The address is an IPv6 address, or an IPv4 address that is mapped to IPv6.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::address::to_v6;

/// The length of the envelope in front of a packet.
pub const LEN: usize = KEY_LEN + 4 + 16;
const KEY_LEN: usize = 16;

/// The secret of the gateway and one program. Without it nobody can put a packet into an envelope.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(pub(super) [u8; KEY_LEN]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Makes the envelope in front of a packet that came from `from`.
pub(super) fn seal(key: &Key, from: SocketAddr) -> [u8; LEN] {
    let mut out = [0; LEN];
    out[..KEY_LEN].copy_from_slice(&key.0);
    out[18..20].copy_from_slice(&from.port().to_be_bytes());
    out[20..].copy_from_slice(&to_v6(from.ip()).octets());
    out
}

/// Returns the sender of the packet after the envelope; `None` if the envelope is not the
/// gateway's.
pub(super) fn open(key: &Key, bytes: &[u8]) -> Option<SocketAddr> {
    let envelope: &[u8; LEN] = bytes.first_chunk()?;
    // All bytes are compared, so that the time tells nothing about the key.
    let difference = key.0.iter().zip(envelope).fold(0, |all, (own, came)| all | (own ^ came));
    if difference != 0 || envelope[16..18] != [0, 0] {
        return None;
    }
    let port = u16::from_be_bytes([envelope[18], envelope[19]]);
    let ip = Ipv6Addr::from(*envelope.last_chunk::<16>()?);
    Some(SocketAddr::new(IpAddr::V6(ip).to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_opens_with_its_key_alone() {
        let key = Key([7; KEY_LEN]);
        let six: SocketAddr = "[2001:db8::7]:4791".parse().unwrap();
        assert_eq!(open(&key, &seal(&key, six)), Some(six));
        let from = "10.1.2.3:49152".parse().unwrap();
        let sealed = seal(&key, from);
        assert_eq!(open(&key, &[&sealed[..], b"packet"].concat()), Some(from));
        for at in 0..20 {
            let mut bent = sealed;
            bent[at] ^= 1;
            assert_ne!(open(&key, &bent), Some(from), "byte {at}");
        }
        for at in 0..LEN {
            assert_eq!(open(&key, &sealed[..at]), None, "{at} bytes");
        }
    }
}
