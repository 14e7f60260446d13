//! The GID of a device that peers are told and packets carry: one entry of the table of its port.

use std::net::Ipv6Addr;

use verbs_abi::*;

use crate::device::PORT;
use crate::sys;

/// Maximum length of a table; a longer one is a mistake.
const ENTRIES_MAX: usize = 1 << 12;

/// An entry of the table of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    index: u32,
    /// Protocol that is sent with it: RoCE v1 or v2, or none of them.
    kind: u32,
    gid: [u8; 16],
}

/// Returns the index of the entry to use; 0 where the library cannot list them.
pub(crate) fn index(context: *mut ibv_context, ports: u8, port: &ibv_port_attr) -> u8 {
    choose(&entries(context, ports, port))
}

/// Chooses RoCE v2 with an address of IP, as routers and peers of another subnet need it. IPv4
/// comes first, so that both sides take the same version where both have both. Elsewhere it is
/// index 0, which on InfiniBand is the port's own and on Ethernet often one of RoCE v1.
fn choose(entries: &[Entry]) -> u8 {
    let is_ipv4 = |gid: [u8; 16]| Ipv6Addr::from(gid).to_ipv4_mapped().is_some();
    let is_usable = |entry: &&Entry| {
        let address = Ipv6Addr::from(entry.gid);
        let is_of_link = address.is_unicast_link_local() || address.is_unspecified();
        entry.kind == IBV_GID_TYPE_ROCE_V2 && !is_of_link
    };
    let best = entries.iter().filter(is_usable).min_by_key(|own| (!is_ipv4(own.gid), own.index));
    best.and_then(|entry| u8::try_from(entry.index).ok()).unwrap_or(0)
}

/// Returns the entries of our port, as far as the library lists them.
fn entries(context: *mut ibv_context, ports: u8, port: &ibv_port_attr) -> Vec<Entry> {
    // It lists those of all ports, or none where they do not fit.
    let of_port = usize::try_from(port.gid_tbl_len).unwrap_or(0);
    let room = of_port.saturating_mul(usize::from(ports.max(1))).min(ENTRIES_MAX);
    let nothing = ibv_gid_entry {
        gid: ibv_gid { raw: [0; 16] },
        gid_index: 0,
        port_num: 0,
        gid_type: IBV_GID_TYPE_IB,
        ndev_ifindex: 0,
    };
    let mut table = vec![nothing; room];
    let (start, len) = (table.as_mut_ptr(), size_of::<ibv_gid_entry>());
    // SAFETY: the device is open, and `table` has room for so many entries of that length.
    let found = unsafe { sys::_ibv_query_gid_table(context, start, room, 0, len) };
    table.truncate(usize::try_from(found).unwrap_or(0));
    let ours = table.iter().filter(|entry| entry.port_num == u32::from(PORT));
    let entry = |own: &ibv_gid_entry| {
        // SAFETY: every bit pattern of the union is 16 bytes.
        let gid = unsafe { own.gid.raw };
        Entry { index: own.gid_index, kind: own.gid_type, gid }
    };
    ours.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROCE_V1: u32 = 1;

    fn table(entries: &[(u32, u32, &str)]) -> Vec<Entry> {
        let entry = |&(index, kind, address): &(u32, u32, &str)| {
            let address: Ipv6Addr = address.parse().expect("an address");
            Entry { index, kind, gid: address.octets() }
        };
        entries.iter().map(entry).collect()
    }

    /// Index 0 is RoCE v1 there, which does not pass a router.
    #[test]
    fn roce_v2_with_an_address_of_ip_is_preferred() {
        let (v1, v2, link_local) = (ROCE_V1, IBV_GID_TYPE_ROCE_V2, "fe80::b85:51ff:fe0a:1");
        let usual = [(0, v1, link_local), (1, v2, link_local), (2, v1, "::ffff:10.0.0.1")];
        let whole = [&usual[..], &[(3, v2, "::ffff:10.0.0.1"), (5, v2, "::ffff:10.0.1.1")]];
        assert_eq!(choose(&table(&whole.concat())), 3);
        let both = [(1, v2, "2001:db8::1"), (4, v2, "::ffff:10.0.0.1")];
        assert_eq!(choose(&table(&both)), 4, "as the other side, which has them in another order");
        assert_eq!(choose(&table(&both[..1])), 1);
        assert_eq!(choose(&table(&usual)), 0, "none of RoCE v2 is of IP");
    }

    #[test]
    fn elsewhere_it_is_the_first() {
        assert_eq!(choose(&[]), 0, "a library that lists none");
        let infiniband = [(0, IBV_GID_TYPE_IB, "fe80::1"), (1, IBV_GID_TYPE_IB, "2001:db8::1")];
        assert_eq!(choose(&table(&infiniband)), 0);
        let far = [(300, IBV_GID_TYPE_ROCE_V2, "::ffff:10.0.0.1")];
        assert_eq!(choose(&table(&far)), 0, "a route has a byte for it");
    }
}
