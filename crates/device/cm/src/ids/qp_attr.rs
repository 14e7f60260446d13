//! INIT_QP_ATTR: the attributes that librdmacm passes to `ibv_modify_qp`, and their mask (CM-8.5).

use super::id::{Id, Stage, UDP_QKEY};
use super::{ChannelId, Ids, Reply, room_for};
use crate::ucma::{Errno, InitQpAttr, QpAttr, qp_mask};
use crate::{QpParams, Transport};

const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
const ERR: u32 = 6;

/// The peer may write.
const REMOTE_WRITE: u32 = 1 << 1;
/// The peer may read, and use atomics.
const REMOTE_READ_ATOMIC: u32 = 1 << 2 | 1 << 3;

impl Ids {
    pub(super) fn init_qp_attr(
        &mut self,
        channel: ChannelId,
        command: &InitQpAttr,
        out_len: usize,
    ) -> Result<Reply, Errno> {
        room_for(QpAttr::LEN, out_len)?;
        if command.qp_state > ERR {
            return Err(Errno::EINVAL);
        }
        let id = self.find(channel, command.id)?;
        let (conn, is_datagram) = (id.conn, id.is_datagram());
        let device = id.device.ok_or(Errno::EINVAL)?;
        let is_plain = is_datagram || id.stage != Stage::Connect;
        let base =
            QpAttr { qp_state: command.qp_state, port_num: device.port_num, ..QpAttr::default() };
        let attr = if is_plain {
            without_connection(base, is_datagram)
        } else {
            let params = conn.and_then(|conn| self.agent.qp_params(conn)).ok_or(Errno::EINVAL)?;
            let id = self.find(channel, command.id)?;
            with_connection(base, id, &params)?
        };
        Ok(Reply { at: command.response, bytes: attr.emit().into() })
    }
}

/// Returns the attributes of a queue pair that is set up before its connection.
fn without_connection(base: QpAttr, is_datagram: bool) -> QpAttr {
    let mask = qp_mask::STATE | qp_mask::PKEY_INDEX | qp_mask::PORT;
    if is_datagram {
        QpAttr { qp_attr_mask: mask | qp_mask::QKEY, qkey: UDP_QKEY, ..base }
    } else {
        QpAttr { qp_attr_mask: mask | qp_mask::ACCESS_FLAGS, ..base }
    }
}

fn with_connection(base: QpAttr, id: &Id, params: &QpParams) -> Result<QpAttr, Errno> {
    match base.qp_state {
        INIT => Ok(to_init(base, params)),
        RTR if params.is_answered => Ok(to_rtr(base, id, params)),
        RTS if params.is_answered => Ok(to_rts(base, id, params)),
        _ => Err(Errno::EINVAL),
    }
}

fn to_init(base: QpAttr, params: &QpParams) -> QpAttr {
    let reads = if params.responder_resources > 0 { REMOTE_READ_ATOMIC } else { 0 };
    QpAttr {
        qp_attr_mask: qp_mask::STATE | qp_mask::ACCESS_FLAGS | qp_mask::PKEY_INDEX | qp_mask::PORT,
        qp_access_flags: REMOTE_WRITE | reads,
        ..base
    }
}

fn to_rtr(base: QpAttr, id: &Id, params: &QpParams) -> QpAttr {
    let mut mask =
        qp_mask::STATE | qp_mask::AV | qp_mask::PATH_MTU | qp_mask::DEST_QPN | qp_mask::RQ_PSN;
    if params.transport == Transport::Rc {
        mask |= qp_mask::MAX_DEST_RD_ATOMIC | qp_mask::MIN_RNR_TIMER;
    }
    QpAttr {
        qp_attr_mask: mask,
        ah_attr: id.ah_attr(&params.path),
        path_mtu: u32::from(params.path.mtu),
        dest_qp_num: params.remote_qpn,
        rq_psn: params.rq_psn,
        max_dest_rd_atomic: params.responder_resources,
        ..base
    }
}

fn to_rts(base: QpAttr, id: &Id, params: &QpParams) -> QpAttr {
    let mut mask = qp_mask::STATE | qp_mask::SQ_PSN;
    if params.transport == Transport::Rc {
        mask |=
            qp_mask::RETRY_CNT | qp_mask::RNR_RETRY | qp_mask::MAX_QP_RD_ATOMIC | qp_mask::TIMEOUT;
    }
    QpAttr {
        qp_attr_mask: mask,
        sq_psn: params.sq_psn,
        retry_cnt: params.retry_count,
        rnr_retry: params.rnr_retry_count,
        max_rd_atomic: params.initiator_depth,
        timeout: id.ack_timeout.unwrap_or(params.ack_timeout),
        ..base
    }
}
