//! The fields of every message, after chapter 12 of the InfiniBand Architecture Specification.
//!
//! `[byte]` is where a field begins behind the common header; `[byte, bit, width]` places one that
//! does not fill its bytes, and bit 0 is the highest. What no field covers is sent as zero
//! (CM-2.2).

use super::MAD_LEN;
use super::bits::{BitRange, Field};

macro_rules! message {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = [$($place:literal),+],)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl $name {
            /// Every field zero.
            pub const ZERO: Self = Self { $($field: <$type as Field>::ZERO,)+ };

            pub(super) fn read(mad: &[u8; MAD_LEN]) -> Self {
                Self { $($field: Field::get(mad, const { BitRange::new(&[$($place),+]) }),)+ }
            }

            pub(super) fn write(&self, mad: &mut [u8; MAD_LEN]) {
                $(self.$field.put(mad, const { BitRange::new(&[$($place),+]) });)+
            }
        }
    };
}

message! {
    /// REQ: asks for a connection.
    Req {
        /// The requester's id of the connection.
        local_comm_id: u32 = [0],
        /// What the requester wants to be connected to (CM-2.3).
        service_id: u64 = [8],
        /// Node GUID of the requester's adapter.
        local_ca_guid: u64 = [16],
        /// Queue key; datagram services only.
        local_qkey: u32 = [28],
        /// The requester's queue pair, 24 bits.
        local_qpn: u32 = [32, 0, 24],
        /// READs and atomics that the requester answers at a time.
        responder_resources: u8 = [35],
        /// End-to-end context; reliable datagrams only.
        local_eecn: u32 = [36, 0, 24],
        /// READs and atomics that the requester has outstanding at a time.
        initiator_depth: u8 = [39],
        /// End-to-end context of the other side; reliable datagrams only.
        remote_eecn: u32 = [40, 0, 24],
        /// Exponent of the time within which the responder is expected to answer, 5 bits.
        remote_response_timeout: u8 = [43, 0, 5],
        /// 0 reliable, 1 unreliable connection, 2 reliable datagram, 3 see `extended_transport`.
        transport: u8 = [43, 5, 2],
        /// The requester keeps end-to-end credits.
        flow_control: bool = [43, 7, 1],
        /// First packet sequence number that the requester expects, 24 bits.
        starting_psn: u32 = [44, 0, 24],
        /// Exponent of the time within which the requester answers, 5 bits.
        local_response_timeout: u8 = [47, 0, 5],
        /// Repetitions of a packet before the connection counts as broken, 3 bits.
        retry_count: u8 = [47, 5, 3],
        /// Partition key.
        pkey: u16 = [48],
        /// Code of the path MTU (1: 256 to 5: 4096 bytes), 4 bits.
        mtu: u8 = [50, 0, 4],
        /// A reliable datagram channel exists.
        rdc_exists: bool = [50, 4, 1],
        /// Repetitions when the receiver is not ready, 3 bits; 7 is for ever.
        rnr_retry_count: u8 = [50, 5, 3],
        /// Repetitions of this message, 4 bits.
        max_cm_retries: u8 = [51, 0, 4],
        /// The requester's queue pair has a shared receive queue.
        srq: bool = [51, 4, 1],
        /// With `transport` 3: 1 is an extended reliable connection.
        extended_transport: u8 = [51, 5, 3],
        /// LID of the requester's port; 0xffff on routed networks.
        primary_local_lid: u16 = [52],
        /// LID of the responder's port.
        primary_remote_lid: u16 = [54],
        /// GID of the requester's port.
        primary_local_gid: [u8; 16] = [56],
        /// GID of the responder's port.
        primary_remote_gid: [u8; 16] = [72],
        /// Flow label, 20 bits.
        primary_flow_label: u32 = [88, 0, 20],
        /// Code of the highest packet rate, 6 bits.
        primary_packet_rate: u8 = [91, 2, 6],
        /// Traffic class.
        primary_traffic_class: u8 = [92],
        /// Hop limit.
        primary_hop_limit: u8 = [93],
        /// Service level, 4 bits.
        primary_sl: u8 = [94, 0, 4],
        /// Both ports are in one subnet.
        primary_subnet_local: bool = [94, 4, 1],
        /// Exponent of the transport's timeout, 5 bits.
        primary_ack_timeout: u8 = [95, 0, 5],
        /// As `primary_local_lid`, of the alternate path.
        alternate_local_lid: u16 = [96],
        /// As `primary_remote_lid`, of the alternate path.
        alternate_remote_lid: u16 = [98],
        /// As `primary_local_gid`, of the alternate path.
        alternate_local_gid: [u8; 16] = [100],
        /// As `primary_remote_gid`, of the alternate path.
        alternate_remote_gid: [u8; 16] = [116],
        /// As `primary_flow_label`, of the alternate path.
        alternate_flow_label: u32 = [132, 0, 20],
        /// As `primary_packet_rate`, of the alternate path.
        alternate_packet_rate: u8 = [135, 2, 6],
        /// As `primary_traffic_class`, of the alternate path.
        alternate_traffic_class: u8 = [136],
        /// As `primary_hop_limit`, of the alternate path.
        alternate_hop_limit: u8 = [137],
        /// As `primary_sl`, of the alternate path.
        alternate_sl: u8 = [138, 0, 4],
        /// As `primary_subnet_local`, of the alternate path.
        alternate_subnet_local: bool = [138, 4, 1],
        /// As `primary_ack_timeout`, of the alternate path.
        alternate_ack_timeout: u8 = [139, 0, 5],
        /// Suggested alternate paths are understood.
        sap_supported: bool = [139, 5, 1],
        /// Bytes of the program, behind an [`IpHeader`](super::IpHeader) in the port spaces.
        private_data: [u8; 92] = [140],
    }
}

message! {
    /// MRA: the message arrived, and its answer takes longer.
    Mra {
        /// The sender's id of the connection.
        local_comm_id: u32 = [0],
        /// The receiver's id of the connection.
        remote_comm_id: u32 = [4],
        /// Which message arrived: 0 REQ, 1 REP, 2 LAP; 2 bits.
        message: u8 = [8, 0, 2],
        /// Exponent of the time within which the answer is to be expected, 5 bits.
        service_timeout: u8 = [9, 0, 5],
        /// Bytes of the program.
        private_data: [u8; 222] = [10],
    }
}

message! {
    /// REJ: no connection, and why.
    Rej {
        /// The sender's id of the connection; 0 when it has none.
        local_comm_id: u32 = [0],
        /// The receiver's id of the connection.
        remote_comm_id: u32 = [4],
        /// What is rejected: 0 REQ, 1 REP, 2 anything else; 2 bits.
        message: u8 = [8, 0, 2],
        /// Bytes of `ari` in use, 7 bits.
        info_len: u8 = [9, 0, 7],
        /// Why, see [`reason`](super::reason).
        reason: u16 = [10],
        /// Additional information, by reason.
        ari: [u8; 72] = [12],
        /// Bytes of the program.
        private_data: [u8; 148] = [84],
    }
}

message! {
    /// REP: takes the connection.
    Rep {
        /// The responder's id of the connection.
        local_comm_id: u32 = [0],
        /// The requester's id of the connection.
        remote_comm_id: u32 = [4],
        /// Queue key; datagram services only.
        local_qkey: u32 = [8],
        /// The responder's queue pair, 24 bits.
        local_qpn: u32 = [12, 0, 24],
        /// End-to-end context, or the queue pair of an extended reliable connection, 24 bits.
        local_eecn: u32 = [16, 0, 24],
        /// First packet sequence number that the responder expects, 24 bits.
        starting_psn: u32 = [20, 0, 24],
        /// READs and atomics that the responder answers at a time.
        responder_resources: u8 = [24],
        /// READs and atomics that the responder has outstanding at a time.
        initiator_depth: u8 = [25],
        /// Exponent of the responder's delay before it acknowledges, 5 bits.
        target_ack_delay: u8 = [26, 0, 5],
        /// 0 alternate path accepted, 1 not supported, 2 rejected; 2 bits.
        failover_accepted: u8 = [26, 5, 2],
        /// The responder keeps end-to-end credits.
        flow_control: bool = [26, 7, 1],
        /// Repetitions when the requester is not ready, 3 bits; 7 is for ever.
        rnr_retry_count: u8 = [27, 0, 3],
        /// The responder's queue pair has a shared receive queue.
        srq: bool = [27, 3, 1],
        /// Node GUID of the responder's adapter.
        local_ca_guid: u64 = [28],
        /// Bytes of the program.
        private_data: [u8; 196] = [36],
    }
}

message! {
    /// RTU: the requester is ready to use the connection.
    Rtu {
        /// The sender's id of the connection.
        local_comm_id: u32 = [0],
        /// The receiver's id of the connection.
        remote_comm_id: u32 = [4],
        /// Bytes of the program.
        private_data: [u8; 224] = [8],
    }
}

message! {
    /// DREQ: asks for the end of a connection.
    Dreq {
        /// The sender's id of the connection.
        local_comm_id: u32 = [0],
        /// The receiver's id of the connection.
        remote_comm_id: u32 = [4],
        /// The receiver's queue pair, 24 bits.
        remote_qpn: u32 = [8, 0, 24],
        /// Bytes of the program.
        private_data: [u8; 220] = [12],
    }
}

message! {
    /// DREP: the connection has ended.
    Drep {
        /// The sender's id of the connection.
        local_comm_id: u32 = [0],
        /// The receiver's id of the connection.
        remote_comm_id: u32 = [4],
        /// Bytes of the program.
        private_data: [u8; 224] = [8],
    }
}

message! {
    /// SIDR_REQ: asks which queue pair serves datagrams of a service.
    SidrReq {
        /// The requester's id of the question.
        request_id: u32 = [0],
        /// Partition key.
        pkey: u16 = [4],
        /// The service.
        service_id: u64 = [8],
        /// Bytes of the program, behind an [`IpHeader`](super::IpHeader) in the port spaces.
        private_data: [u8; 216] = [16],
    }
}

message! {
    /// SIDR_REP: the queue pair of a service, or why there is none.
    SidrRep {
        /// The requester's id of the question.
        request_id: u32 = [0],
        /// 0 here it is, see [`sidr_status`](super::sidr_status).
        status: u8 = [4],
        /// Bytes of `info` in use.
        info_len: u8 = [5],
        /// The queue pair, 24 bits.
        qpn: u32 = [8, 0, 24],
        /// The service.
        service_id: u64 = [12],
        /// Queue key that the queue pair takes.
        qkey: u32 = [20],
        /// Additional information, by status.
        info: [u8; 72] = [24],
        /// Bytes of the program.
        private_data: [u8; 136] = [96],
    }
}
