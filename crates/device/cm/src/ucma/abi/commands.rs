//! Structures of commands.

use super::param::ConnParam;
use crate::ucma::layout::layout;

layout! {
    /// CREATE_ID.
    CreateId = "rdma_ucm_create_id", 24 {
        /// What events of the id bring back.
        uid: u64 = 0,
        /// Where the answer goes.
        response: u64 = 8,
        /// Port space.
        ps: u16 = 16,
        /// Kind of queue pair, for the port space RDMA_PS_IB.
        qp_type: u8 = 18,
    }
}

layout! {
    /// DESTROY_ID and LEAVE_MCAST.
    DestroyId = "rdma_ucm_destroy_id", 16 {
        /// Where the answer goes.
        response: u64 = 0,
        /// The id.
        id: u32 = 8,
    }
}

layout! {
    /// BIND_IP.
    BindIp = "rdma_ucm_bind_ip", 40 {
        /// Not used.
        response: u64 = 0,
        /// The address.
        addr: [u8; 28] = 8,
        /// The id.
        id: u32 = 36,
    }
}

layout! {
    /// BIND.
    Bind = "rdma_ucm_bind", 136 {
        /// The id.
        id: u32 = 0,
        /// Bytes of `addr` in use.
        addr_size: u16 = 4,
        /// Must be zero.
        reserved: u16 = 6,
        /// The address.
        addr: [u8; 128] = 8,
    }
}

layout! {
    /// RESOLVE_IP.
    ResolveIp = "rdma_ucm_resolve_ip", 64 {
        /// From where; family 0 for anywhere.
        src_addr: [u8; 28] = 0,
        /// To where.
        dst_addr: [u8; 28] = 28,
        /// The id.
        id: u32 = 56,
        /// Time limit.
        timeout_ms: u32 = 60,
    }
}

layout! {
    /// RESOLVE_ADDR.
    ResolveAddr = "rdma_ucm_resolve_addr", 272 {
        /// The id.
        id: u32 = 0,
        /// Time limit.
        timeout_ms: u32 = 4,
        /// Bytes of `src_addr` in use; 0 for anywhere.
        src_size: u16 = 8,
        /// Bytes of `dst_addr` in use.
        dst_size: u16 = 10,
        /// Must be zero.
        reserved: u32 = 12,
        /// From where.
        src_addr: [u8; 128] = 16,
        /// To where.
        dst_addr: [u8; 128] = 144,
    }
}

layout! {
    /// RESOLVE_ROUTE.
    ResolveRoute = "rdma_ucm_resolve_route", 8 {
        /// The id.
        id: u32 = 0,
        /// Time limit.
        timeout_ms: u32 = 4,
    }
}

layout! {
    /// QUERY and QUERY_ROUTE.
    Query = "rdma_ucm_query", 16 {
        /// Where the answer goes.
        response: u64 = 0,
        /// The id.
        id: u32 = 8,
        /// What to tell: 0 addresses, 1 paths, 2 GIDs.
        option: u32 = 12,
    }
}

layout! {
    /// CONNECT. Older libraries leave the last two fields out.
    Connect = "rdma_ucm_connect", 288 {
        /// What to say.
        conn_param: ConnParam = 0,
        /// The id.
        id: u32 = 272,
        /// Extensions of a vendor: whose.
        ece_vendor_id: u32 = 280 as "ece.vendor_id",
        /// Extensions of a vendor: which.
        ece_attr_mod: u32 = 284 as "ece.attr_mod",
    }
}

layout! {
    /// LISTEN.
    Listen = "rdma_ucm_listen", 8 {
        /// The id.
        id: u32 = 0,
        /// Requests that may wait.
        backlog: u32 = 4,
    }
}

layout! {
    /// ACCEPT. Older libraries leave the last two fields out.
    Accept = "rdma_ucm_accept", 296 {
        /// What events of the connection bring back from now on.
        uid: u64 = 0,
        /// What to say; not valid from a requester that is ready.
        conn_param: ConnParam = 8,
        /// The id.
        id: u32 = 280,
        /// Extensions of a vendor: whose.
        ece_vendor_id: u32 = 288 as "ece.vendor_id",
        /// Extensions of a vendor: which.
        ece_attr_mod: u32 = 292 as "ece.attr_mod",
    }
}

layout! {
    /// REJECT.
    Reject = "rdma_ucm_reject", 264 {
        /// The id.
        id: u32 = 0,
        /// How many bytes of `private_data`.
        private_data_len: u8 = 4,
        /// Why; 0 for the program's own reason.
        reason: u8 = 5,
        /// Bytes for the other program.
        private_data: [u8; 256] = 8,
    }
}

layout! {
    /// DISCONNECT.
    Disconnect = "rdma_ucm_disconnect", 4 {
        /// The id.
        id: u32 = 0,
    }
}

layout! {
    /// INIT_QP_ATTR.
    InitQpAttr = "rdma_ucm_init_qp_attr", 16 {
        /// Where the answer goes.
        response: u64 = 0,
        /// The id.
        id: u32 = 8,
        /// The state that the queue pair is to have: 1 INIT, 2 RTR, 3 RTS.
        qp_state: u32 = 12,
    }
}

layout! {
    /// NOTIFY.
    Notify = "rdma_ucm_notify", 8 {
        /// The id.
        id: u32 = 0,
        /// What happened: 4, data arrived.
        event: u32 = 4,
    }
}

layout! {
    /// JOIN_IP_MCAST.
    JoinIpMcast = "rdma_ucm_join_ip_mcast", 48 {
        /// Where the answer goes.
        response: u64 = 0,
        /// What events of the membership bring back.
        uid: u64 = 8,
        /// The group.
        addr: [u8; 28] = 16,
        /// The id.
        id: u32 = 44,
    }
}

layout! {
    /// JOIN_MCAST.
    JoinMcast = "rdma_ucm_join_mcast", 152 {
        /// Where the answer goes.
        response: u64 = 0,
        /// What events of the membership bring back.
        uid: u64 = 8,
        /// The id.
        id: u32 = 16,
        /// Bytes of `addr` in use.
        addr_size: u16 = 20,
        /// 0 full member, 1 sends only.
        join_flags: u16 = 22,
        /// The group.
        addr: [u8; 128] = 24,
    }
}

layout! {
    /// GET_EVENT.
    GetEvent = "rdma_ucm_get_event", 8 {
        /// Where the event goes.
        response: u64 = 0,
    }
}

layout! {
    /// SET_OPTION.
    SetOption = "rdma_ucm_set_option", 24 {
        /// Where the value is.
        optval: u64 = 0,
        /// The id.
        id: u32 = 8,
        /// Level of the option.
        level: u32 = 12,
        /// The option.
        optname: u32 = 16,
        /// Length of the value.
        optlen: u32 = 20,
    }
}

layout! {
    /// MIGRATE_ID.
    MigrateId = "rdma_ucm_migrate_id", 16 {
        /// Where the answer goes.
        response: u64 = 0,
        /// The id.
        id: u32 = 8,
        /// The descriptor that has it.
        fd: u32 = 12,
    }
}
