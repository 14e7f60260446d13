//! What the gateway puts in front of a packet that it hands to a program (RC-1.10).
//!
//! ```text
//!  0              16     18     20             24
//! +---------------+------+------+--------------+---------
//! | key           |  0   | port | IPv4 address | packet
//! +---------------+------+------+--------------+---------
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};

/// Bytes in front of a packet.
pub const LEN: usize = KEY_LEN + 8;
const KEY_LEN: usize = 16;

/// The secret that only the gateway and one program know: nobody else can put a packet into an
/// envelope.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(pub(super) [u8; KEY_LEN]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Makes the envelope in front of a packet that came from `from`.
pub(super) fn seal(key: &Key, from: SocketAddrV4) -> [u8; LEN] {
    let mut out = [0; LEN];
    out[..KEY_LEN].copy_from_slice(&key.0);
    out[18..20].copy_from_slice(&from.port().to_be_bytes());
    out[20..].copy_from_slice(&from.ip().octets());
    out
}

/// Returns who sent the packet behind the envelope; `None` when the gateway has not made it.
pub(super) fn open(key: &Key, bytes: &[u8]) -> Option<SocketAddrV4> {
    let envelope: &[u8; LEN] = bytes.first_chunk()?;
    // All bytes are looked at, so that how long it takes tells nothing of the key.
    let difference = key.0.iter().zip(envelope).fold(0, |all, (own, came)| all | (own ^ came));
    if difference != 0 || envelope[16..18] != [0, 0] {
        return None;
    }
    let [.., high, low, a, b, c, d] = *envelope;
    Some(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_opens_with_its_key_alone() {
        let (key, from) = (Key([7; KEY_LEN]), "10.1.2.3:49152".parse().unwrap());
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
