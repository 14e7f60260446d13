//! Structures of answers.

use super::param::AhAttr;
use crate::ucma::layout::layout;

layout! {
    /// Answer of CREATE_ID and of the joins.
    CreateIdResp = "rdma_ucm_create_id_resp", 4 {
        /// The new id.
        id: u32 = 0,
    }
}

layout! {
    /// Answer of DESTROY_ID, LEAVE_MCAST and MIGRATE_ID.
    EventsReportedResp = "rdma_ucm_destroy_id_resp", 4 {
        /// Events of the id that the program was given.
        events_reported: u32 = 0,
    }
}

layout! {
    /// A path, in QUERY_ROUTE's answer.
    UserPathRec = "ib_user_path_rec", 64 {
        /// GID of the other side.
        dgid: [u8; 16] = 0,
        /// GID of this side.
        sgid: [u8; 16] = 16,
        /// Flow label, big-endian.
        flow_label: [u8; 4] = 40,
        /// The way back is the way there.
        reversible: u32 = 44,
        /// Code of the MTU.
        mtu: u32 = 48,
        /// Partition key, big-endian.
        pkey: [u8; 2] = 52,
        /// Hop limit.
        hop_limit: u8 = 54,
        /// Traffic class.
        traffic_class: u8 = 55,
        /// Number of paths.
        numb_path: u8 = 56,
        /// Service level.
        sl: u8 = 57,
        /// 2: exactly the MTU.
        mtu_selector: u8 = 58,
        /// 2: exactly the rate.
        rate_selector: u8 = 59,
        /// Code of the rate.
        rate: u8 = 60,
        /// 2: exactly the life time.
        packet_life_time_selector: u8 = 61,
        /// Exponent of the longest life of a datagram.
        packet_life_time: u8 = 62,
        /// Preference.
        preference: u8 = 63,
    }
}

layout! {
    /// Answer of QUERY_ROUTE.
    QueryRouteResp = "rdma_ucm_query_route_resp", 208 {
        /// Node GUID of the adapter, big-endian.
        node_guid: [u8; 8] = 0,
        /// The path.
        ib_route: UserPathRec = 8 as "ib_route[0]",
        /// This side's address.
        src_addr: [u8; 28] = 136,
        /// The other side's address.
        dst_addr: [u8; 28] = 164,
        /// Number of paths.
        num_paths: u32 = 192,
        /// Port of the adapter.
        port_num: u8 = 196,
        /// Index of the adapter.
        ibdev_index: u32 = 200,
    }
}

layout! {
    /// Answer of QUERY for addresses and GIDs.
    QueryAddrResp = "rdma_ucm_query_addr_resp", 280 {
        /// Node GUID of the adapter, big-endian.
        node_guid: [u8; 8] = 0,
        /// Port of the adapter.
        port_num: u8 = 8,
        /// Partition key, big-endian.
        pkey: [u8; 2] = 10,
        /// Bytes of `src_addr` in use.
        src_size: u16 = 12,
        /// Bytes of `dst_addr` in use.
        dst_size: u16 = 14,
        /// This side's address.
        src_addr: [u8; 128] = 16,
        /// The other side's address.
        dst_addr: [u8; 128] = 144,
        /// Index of the adapter.
        ibdev_index: u32 = 272,
    }
}

layout! {
    /// A path, in QUERY's answer.
    PathRecData = "ib_path_rec_data", 72 {
        /// What the path is good for.
        flags: u32 = 0,
        /// The record as subnet administration sends it.
        path_rec: [u8; 64] = 8,
    }
}

layout! {
    /// Answer of GET_EVENT. The parameter is a [`ConnParam`](super::ConnParam) or a
    /// [`UdParam`](super::UdParam).
    EventResp = "rdma_ucm_event_resp", 336 {
        /// The program's number of the id.
        uid: u64 = 0,
        /// The id.
        id: u32 = 8,
        /// What happened.
        event: u32 = 12,
        /// An error number, negative, or a reason.
        status: u32 = 16,
        /// More about it.
        param: [u8; 304] = 20,
        /// Extensions of a vendor: whose.
        ece_vendor_id: u32 = 328 as "ece.vendor_id",
        /// Extensions of a vendor: which.
        ece_attr_mod: u32 = 332 as "ece.attr_mod",
    }
}

layout! {
    /// Answer of INIT_QP_ATTR.
    QpAttr = "ib_uverbs_qp_attr", 144 {
        /// Which fields count.
        qp_attr_mask: u32 = 0,
        /// The state.
        qp_state: u32 = 4,
        /// The state before.
        cur_qp_state: u32 = 8,
        /// Code of the path MTU.
        path_mtu: u32 = 12,
        /// Migration.
        path_mig_state: u32 = 16,
        /// Queue key.
        qkey: u32 = 20,
        /// First packet sequence number to expect.
        rq_psn: u32 = 24,
        /// First packet sequence number to send.
        sq_psn: u32 = 28,
        /// The other queue pair.
        dest_qp_num: u32 = 32,
        /// What the other side may do.
        qp_access_flags: u32 = 36,
        /// The way there.
        ah_attr: AhAttr = 40,
        /// Index of the partition key.
        pkey_index: u16 = 124,
        /// READs and atomics outstanding at a time.
        max_rd_atomic: u8 = 130,
        /// READs and atomics answered at a time.
        max_dest_rd_atomic: u8 = 131,
        /// Code of the shortest wait when this side is not ready.
        min_rnr_timer: u8 = 132,
        /// Port of the adapter.
        port_num: u8 = 133,
        /// Exponent of the time to wait for an acknowledgement.
        timeout: u8 = 134,
        /// Repetitions of a packet.
        retry_cnt: u8 = 135,
        /// Repetitions when the receiver is not ready.
        rnr_retry: u8 = 136,
    }
}
