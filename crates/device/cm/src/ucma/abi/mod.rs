//! The structures of `rdma/rdma_user_cm.h`, `rdma/ib_user_sa.h` and `rdma/ib_user_verbs.h` that
//! commands and answers are made of.

mod answers;
mod commands;
mod param;

use super::layout::Layout;

pub use answers::{
    CreateIdResp, EventResp, EventsReportedResp, PathRecData, QpAttr, QueryAddrResp,
    QueryRouteResp, UserPathRec,
};
pub use commands::{
    Accept, Bind, BindIp, Connect, CreateId, DestroyId, Disconnect, GetEvent, InitQpAttr,
    JoinIpMcast, JoinMcast, Listen, MigrateId, Notify, Query, Reject, ResolveAddr, ResolveIp,
    ResolveRoute, SetOption,
};
pub use param::{AhAttr, ConnParam, UdParam};

/// Every structure.
pub const LAYOUTS: [Layout; 31] = [
    CreateId::LAYOUT,
    DestroyId::LAYOUT,
    BindIp::LAYOUT,
    Bind::LAYOUT,
    ResolveIp::LAYOUT,
    ResolveAddr::LAYOUT,
    ResolveRoute::LAYOUT,
    Query::LAYOUT,
    ConnParam::LAYOUT,
    AhAttr::LAYOUT,
    UdParam::LAYOUT,
    Connect::LAYOUT,
    Listen::LAYOUT,
    Accept::LAYOUT,
    Reject::LAYOUT,
    Disconnect::LAYOUT,
    InitQpAttr::LAYOUT,
    Notify::LAYOUT,
    JoinIpMcast::LAYOUT,
    JoinMcast::LAYOUT,
    GetEvent::LAYOUT,
    SetOption::LAYOUT,
    MigrateId::LAYOUT,
    CreateIdResp::LAYOUT,
    EventsReportedResp::LAYOUT,
    UserPathRec::LAYOUT,
    QueryRouteResp::LAYOUT,
    QueryAddrResp::LAYOUT,
    PathRecData::LAYOUT,
    EventResp::LAYOUT,
    QpAttr::LAYOUT,
];
