//! Device values. Those of an EFA are what a real one reports, per generation; `roce` has the
//! others.
//!
//! Sources: the kernel driver's `efa_query_device`, rdma-core's `efadv.h`, and the thesis'
//! `fi_info` of a c5n instance, which one set of values reproduces exactly.

mod roce;

use crate::config::{Adapter, PortSpec, Profile};

pub use roce::RoceAttr;

/// Capability bits (`efadv_device_attr::device_caps`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "mirrors the capability bits of efadv.h")]
pub struct DeviceCaps {
    /// RDMA READ.
    pub rdma_read: bool,
    /// The RNR retry count of a queue pair can be set.
    pub rnr_retry: bool,
    /// Receive completions can carry the sender's GID.
    pub cq_with_sgid: bool,
    /// RDMA WRITE.
    pub rdma_write: bool,
    /// WRITE with immediate without consuming a receive.
    pub unsolicited_write_recv: bool,
}

/// Limits and identity of a device. Byte counts are payload bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAttr {
    /// The adapter that this device plays.
    pub profile: Profile,
    /// Vendor id, see [`Profile::vendor_id`].
    pub vendor_id: u32,
    /// Part id, see [`Profile::part_id`].
    pub part_id: u32,
    /// Hardware revision.
    pub hw_ver: u32,
    /// Longest message of a SEND; that of an EFA is 8,928 unless the link is too narrow.
    pub max_msg_bytes: u32,
    /// Work requests a send queue holds.
    pub max_sq_wr: u32,
    /// Work requests a receive queue holds.
    pub max_rq_wr: u32,
    /// Scatter-gather entries of a send.
    pub max_sq_sge: u16,
    /// Scatter-gather entries of a receive.
    pub max_rq_sge: u16,
    /// Inline bytes of a send.
    pub inline_bytes: u16,
    /// Live queue pairs.
    pub max_qp: u32,
    /// Live completion queues.
    pub max_cq: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// Live memory regions.
    pub max_mr: u32,
    /// Longest memory region in bytes.
    pub max_mr_bytes: u64,
    /// Live protection domains.
    pub max_pd: u32,
    /// Live address handles.
    pub max_ah: u32,
    /// Longest RDMA operation in bytes, 0 without RDMA.
    pub max_rdma_bytes: u32,
    /// Page sizes a memory region may have, as a bit mask.
    pub page_size_cap: u64,
    /// The capabilities of the device.
    pub caps: DeviceCaps,
    /// The limits that an EFA does not have; `None` for one.
    pub roce: Option<RoceAttr>,
}

/// Payload of one message on a loopback or jumbo link.
const MAX_MSG_BYTES: u32 = 8928;
/// IPv4 and UDP headers in front of our own.
const IP_UDP_BYTES: u32 = 28;

impl DeviceAttr {
    /// Values of a device on a link that carries `link_mtu_bytes` of IP packet, of which sealing
    /// takes `seal_bytes`.
    pub(crate) fn new(
        profile: Profile,
        port: PortSpec,
        link_mtu_bytes: u32,
        seal_bytes: u32,
    ) -> Self {
        match profile.adapter() {
            Adapter::Efa => Self::efa(profile, link_mtu_bytes, seal_bytes),
            Adapter::Roce => roce::attr(profile, port, link_mtu_bytes.saturating_sub(seal_bytes)),
        }
    }

    /// Longest payload of one datagram: the longest message of an EFA, the port's MTU of a RoCE
    /// device.
    #[must_use]
    pub fn packet_max_bytes(&self) -> u32 {
        self.roce.map_or(self.max_msg_bytes, |roce| roce.path_mtu.bytes())
    }

    /// Returns the number of entries of the GID table, each of which holds the device's address.
    #[must_use]
    pub fn gids(&self) -> u8 {
        self.roce.map_or(1, |roce| roce.gids)
    }

    fn efa(profile: Profile, link_mtu_bytes: u32, seal_bytes: u32) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "HEADER_MAX is a few hundred")]
        let overhead = IP_UDP_BYTES + seal_bytes + srd::HEADER_MAX as u32;
        Self {
            profile,
            vendor_id: profile.vendor_id(),
            part_id: profile.part_id(),
            hw_ver: 0,
            max_msg_bytes: MAX_MSG_BYTES.min(link_mtu_bytes.saturating_sub(overhead)),
            max_sq_wr: 4096,
            max_rq_wr: 32768,
            max_sq_sge: 2,
            max_rq_sge: 3,
            inline_bytes: 32,
            max_qp: 256,
            max_cq: 512,
            max_cqe: 32768,
            max_mr: 262_144,
            max_mr_bytes: 103_079_215_104,
            max_pd: 256,
            max_ah: 1024,
            max_rdma_bytes: if profile == Profile::Efa0 { 0 } else { 1 << 30 },
            page_size_cap: 4_294_963_200,
            caps: DeviceCaps {
                rdma_read: profile != Profile::Efa0,
                rnr_retry: true,
                cq_with_sgid: true,
                rdma_write: profile == Profile::Efa2,
                unsolicited_write_recv: profile == Profile::Efa2,
            },
            roce: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_link_shortens_messages_instead_of_fragmenting() {
        let port = PortSpec::default();
        let max = |mtu, seal| DeviceAttr::new(Profile::Efa0, port, mtu, seal).max_msg_bytes;
        assert_eq!(max(65536, 0), 8928);
        assert!(max(1500, 0) < 1472);
        // SRD-11.1
        assert_eq!(max(65536, 40), 8928, "there is room");
        assert_eq!(max(1500, 40), max(1500, 0) - 40);
        assert_eq!(max(9001, 40), max(9001, 0) - 40);
    }

    /// RC-1.13.
    #[test]
    fn packets_of_a_roce_device_fit_with_their_envelope() {
        let mtu = |link, seal| {
            let attr = DeviceAttr::new(Profile::Roce, PortSpec::default(), link, seal);
            attr.packet_max_bytes()
        };
        assert_eq!((mtu(1110, 0), mtu(1110, 40)), (1024, 512));
        assert_eq!((mtu(1500, 40), mtu(65_536, 40)), (1024, 4096), "there is room");
    }

    #[test]
    fn unknown_profile_is_named() {
        let error = "efa9".parse::<Profile>().unwrap_err();
        assert!(error.to_string().contains("efa9"), "{error}");
    }
}
