//! Limits of a RoCE device: about those of rxe, which programs are used to. Programs allocate by
//! some of them, so that a million would cost memory.

use super::{DeviceAttr, DeviceCaps};
use crate::config::{Mtu, PortSpec, Profile, Rate};

/// The limits that only a RoCE device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoceAttr {
    /// READs and atomics a queue pair has on their way, and as many it answers.
    pub max_rd_atomic: u8,
    /// Live memory windows.
    pub max_mw: u32,
    /// Live shared receive queues.
    pub max_srq: u32,
    /// Receives of a shared receive queue.
    pub max_srq_wr: u32,
    /// Scatter-gather entries of a shared receive.
    pub max_srq_sge: u16,
    /// Multicast groups.
    pub max_mcast_grp: u32,
    /// Queue pairs of one group.
    pub max_mcast_qp_attach: u32,
    /// Payload bytes of a packet on this link.
    pub path_mtu: Mtu,
    /// Rate of the port.
    pub rate: Rate,
    /// Entries of the GID table, each of which holds the device's address.
    pub gids: u8,
}

impl RoceAttr {
    fn new(port: PortSpec, link_mtu_bytes: u32) -> Self {
        let of_link = Mtu::of_link(link_mtu_bytes);
        Self {
            max_rd_atomic: 128,
            max_mw: 1 << 18,
            max_srq: 960,
            max_srq_wr: 16_384,
            max_srq_sge: 32,
            max_mcast_grp: 8192,
            max_mcast_qp_attach: 56,
            path_mtu: port.mtu.map_or(of_link, |mtu| mtu.min(of_link)),
            rate: port.rate.unwrap_or_default(),
            gids: port.gids.unwrap_or_default().get(),
        }
    }
}

/// Values of a RoCE device with `port` on a link that carries `link_mtu_bytes` of IP packet.
pub(super) fn attr(profile: Profile, port: PortSpec, link_mtu_bytes: u32) -> DeviceAttr {
    DeviceAttr {
        profile,
        vendor_id: profile.vendor_id(),
        part_id: profile.part_id(),
        hw_ver: 0,
        max_msg_bytes: 1 << 31,
        max_sq_wr: 16_384,
        max_rq_wr: 16_384,
        max_sq_sge: 32,
        max_rq_sge: 32,
        inline_bytes: 512,
        max_qp: 65_535,
        max_cq: 65_536,
        max_cqe: 1 << 18,
        max_mr: 1 << 18,
        max_mr_bytes: u64::MAX,
        max_pd: 32_764,
        max_ah: 32_767,
        max_rdma_bytes: 1 << 31,
        page_size_cap: 4_294_963_200,
        caps: DeviceCaps {
            rdma_read: true,
            rnr_retry: true,
            cq_with_sgid: false,
            rdma_write: true,
            unsolicited_write_recv: false,
        },
        roce: Some(RoceAttr::new(port, link_mtu_bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_mtu(port: PortSpec, link_mtu_bytes: u32) -> Mtu {
        attr(Profile::Roce, port, link_mtu_bytes).roce.unwrap().path_mtu
    }

    #[test]
    fn the_path_mtu_is_that_of_the_link_or_a_lower_one() {
        let wish = |mtu| PortSpec { mtu: Some(mtu), ..PortSpec::default() };
        assert_eq!(path_mtu(PortSpec::default(), 65_536), Mtu::B4096);
        assert_eq!(path_mtu(PortSpec::default(), 1500), Mtu::B1024);
        assert_eq!(path_mtu(wish(Mtu::B512), 1500), Mtu::B512);
        assert_eq!(path_mtu(wish(Mtu::B4096), 1500), Mtu::B1024, "a link is not widened");
    }

    #[test]
    fn rxe_differs_in_its_ids_only() {
        let [roce, rxe] =
            [Profile::Roce, Profile::Rxe].map(|profile| attr(profile, PortSpec::default(), 65_536));
        assert_eq!((rxe.vendor_id, rxe.part_id), (0xff_ffff, 0));
        let DeviceAttr { profile, vendor_id, part_id, .. } = rxe;
        assert_eq!(DeviceAttr { profile, vendor_id, part_id, ..roce }, rxe);
    }
}
