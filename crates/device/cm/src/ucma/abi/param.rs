//! Structures that are part of others.

use crate::ucma::layout::layout;

layout! {
    /// The parameters of a connection that its program sends or receives.
    ConnParam = "rdma_ucm_conn_param", 272 {
        /// Queue pair.
        qp_num: u32 = 0,
        /// Queue key.
        qkey: u32 = 4,
        /// Bytes for the other program.
        private_data: [u8; 256] = 8,
        /// How many of them.
        private_data_len: u8 = 264,
        /// The queue pair has a shared receive queue.
        srq: u8 = 265,
        /// READs and atomics answered at a time.
        responder_resources: u8 = 266,
        /// READs and atomics outstanding at a time.
        initiator_depth: u8 = 267,
        /// End-to-end credits.
        flow_control: u8 = 268,
        /// Repetitions of a packet.
        retry_count: u8 = 269,
        /// Repetitions when the receiver is not ready.
        rnr_retry_count: u8 = 270,
        /// Whether the structure is filled in.
        valid: u8 = 271,
    }
}

layout! {
    /// The way to a port.
    AhAttr = "ib_uverbs_ah_attr", 32 {
        /// GID of the port.
        dgid: [u8; 16] = 0 as "grh.dgid",
        /// Flow label.
        flow_label: u32 = 16 as "grh.flow_label",
        /// Which GID of this side's port.
        sgid_index: u8 = 20 as "grh.sgid_index",
        /// Hop limit.
        hop_limit: u8 = 21 as "grh.hop_limit",
        /// Traffic class.
        traffic_class: u8 = 22 as "grh.traffic_class",
        /// LID of the port.
        dlid: u16 = 24,
        /// Service level.
        sl: u8 = 26,
        /// Low bits of this side's LID.
        src_path_bits: u8 = 27,
        /// Code of the highest rate.
        static_rate: u8 = 28,
        /// The GID counts.
        is_global: u8 = 29,
        /// This side's port.
        port_num: u8 = 30,
    }
}

layout! {
    /// The queue pair of a datagram service, as its program receives it.
    UdParam = "rdma_ucm_ud_param", 304 {
        /// Queue pair.
        qp_num: u32 = 0,
        /// Queue key.
        qkey: u32 = 4,
        /// The way to it.
        ah_attr: AhAttr = 8,
        /// Bytes of the other program.
        private_data: [u8; 256] = 40,
        /// How many of them.
        private_data_len: u8 = 296,
    }
}
