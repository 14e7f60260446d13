//! Attributes of a queue pair: modify and query.

use std::ffi::c_int;
use std::mem::zeroed;

use softefa::{Access, Adapter, Gid, ModifyQp, Path, QpKind, QpQuery, QpState};

use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::qp::Qp;
use crate::sys::{self, ibv_ah_attr, ibv_qp, ibv_qp_attr};

/// Attributes that an EFA can change; others fail with `EOPNOTSUPP`, on a RoCE device with
/// `EINVAL`.
const KNOWN: c_int = sys::IBV_QP_STATE
    | sys::IBV_QP_CUR_STATE
    | sys::IBV_QP_PKEY_INDEX
    | sys::IBV_QP_PORT
    | sys::IBV_QP_QKEY
    | sys::IBV_QP_SQ_PSN
    | sys::IBV_QP_RNR_RETRY;
/// Further attributes that a RoCE device can change; most of them only connected queue pairs have.
const CONNECTED: c_int = sys::IBV_QP_ACCESS_FLAGS
    | sys::IBV_QP_AV
    | sys::IBV_QP_PATH_MTU
    | sys::IBV_QP_DEST_QPN
    | sys::IBV_QP_RQ_PSN
    | sys::IBV_QP_MAX_QP_RD_ATOMIC
    | sys::IBV_QP_MAX_DEST_RD_ATOMIC
    | sys::IBV_QP_MIN_RNR_TIMER
    | sys::IBV_QP_TIMEOUT
    | sys::IBV_QP_RETRY_CNT
    | sys::IBV_QP_ALT_PATH
    | sys::IBV_QP_PATH_MIG_STATE
    | sys::IBV_QP_EN_SQD_ASYNC_NOTIFY;

fn state_from(state: c_int) -> Result<QpState, Errno> {
    match state {
        sys::IBV_QPS_RESET => Ok(QpState::Reset),
        sys::IBV_QPS_INIT => Ok(QpState::Init),
        sys::IBV_QPS_RTR => Ok(QpState::ReadyToReceive),
        sys::IBV_QPS_RTS => Ok(QpState::ReadyToSend),
        sys::IBV_QPS_SQD => Ok(QpState::SendQueueDrained),
        sys::IBV_QPS_SQE => Ok(QpState::SendQueueError),
        sys::IBV_QPS_ERR => Ok(QpState::Error),
        _ => Err(Errno::EINVAL),
    }
}

fn state_into(state: QpState) -> c_int {
    match state {
        QpState::Reset => sys::IBV_QPS_RESET,
        QpState::Init => sys::IBV_QPS_INIT,
        QpState::ReadyToReceive => sys::IBV_QPS_RTR,
        QpState::ReadyToSend => sys::IBV_QPS_RTS,
        QpState::SendQueueDrained => sys::IBV_QPS_SQD,
        QpState::SendQueueError => sys::IBV_QPS_SQE,
        QpState::Error => sys::IBV_QPS_ERR,
    }
}

fn change(adapter: Adapter, attr: &ibv_qp_attr, mask: c_int) -> Result<ModifyQp, Errno> {
    let (known, error) = match adapter {
        Adapter::Efa => (KNOWN, Errno::EOPNOTSUPP),
        Adapter::Roce => (KNOWN | CONNECTED, Errno::EINVAL),
    };
    if mask & !known != 0 {
        return Err(error);
    }
    let given = |bit| mask & bit != 0;
    let state = |bit, value| if given(bit) { state_from(value).map(Some) } else { Ok(None) };
    let mtu = given(sys::IBV_QP_PATH_MTU).then(|| mtu_bytes(attr.path_mtu)).transpose()?;
    Ok(ModifyQp {
        state: state(sys::IBV_QP_STATE, attr.qp_state)?,
        cur_state: state(sys::IBV_QP_CUR_STATE, attr.cur_qp_state)?,
        port: given(sys::IBV_QP_PORT).then_some(attr.port_num),
        pkey_index: given(sys::IBV_QP_PKEY_INDEX).then_some(attr.pkey_index),
        qkey: given(sys::IBV_QP_QKEY).then_some(attr.qkey),
        sq_psn: given(sys::IBV_QP_SQ_PSN).then_some(attr.sq_psn),
        rnr_retry: given(sys::IBV_QP_RNR_RETRY).then_some(attr.rnr_retry),
        access: given(sys::IBV_QP_ACCESS_FLAGS).then(|| access(attr.qp_access_flags)),
        path: given(sys::IBV_QP_AV).then(|| path(&attr.ah_attr)),
        path_mtu_bytes: mtu,
        dest_qpn: given(sys::IBV_QP_DEST_QPN).then_some(attr.dest_qp_num),
        rq_psn: given(sys::IBV_QP_RQ_PSN).then_some(attr.rq_psn),
        max_rd_atomic: given(sys::IBV_QP_MAX_QP_RD_ATOMIC).then_some(attr.max_rd_atomic),
        max_dest_rd_atomic: given(sys::IBV_QP_MAX_DEST_RD_ATOMIC)
            .then_some(attr.max_dest_rd_atomic),
        min_rnr_timer: given(sys::IBV_QP_MIN_RNR_TIMER).then_some(attr.min_rnr_timer),
        timeout: given(sys::IBV_QP_TIMEOUT).then_some(attr.timeout),
        retry_cnt: given(sys::IBV_QP_RETRY_CNT).then_some(attr.retry_cnt),
        alt_path: given(sys::IBV_QP_ALT_PATH).then_some(()),
        mig_state: given(sys::IBV_QP_PATH_MIG_STATE).then_some(()),
        sqd_notify: given(sys::IBV_QP_EN_SQD_ASYNC_NOTIFY).then_some(attr.en_sqd_async_notify != 0),
    })
}

/// Returns the attributes that the kernel ignores although they have no meaning (`modify_qp_mask`
/// of `uverbs_cmd.c`): programs such as perftest treat both halves of an extended connection alike.
fn ignored(kind: QpKind) -> c_int {
    match kind {
        QpKind::XrcInitiator => sys::IBV_QP_MAX_DEST_RD_ATOMIC | sys::IBV_QP_MIN_RNR_TIMER,
        QpKind::XrcTarget => {
            sys::IBV_QP_MAX_QP_RD_ATOMIC | sys::IBV_QP_RETRY_CNT | sys::IBV_QP_RNR_RETRY
        }
        _ => 0,
    }
}

/// Decodes an MTU: code 1 is 256 bytes, and each further one doubles it.
fn mtu_bytes(code: c_int) -> Result<u32, Errno> {
    match code {
        sys::IBV_MTU_256..=sys::IBV_MTU_4096 => Ok(128 << code),
        _ => Err(Errno::EINVAL),
    }
}

fn mtu_code(bytes: u32) -> c_int {
    (sys::IBV_MTU_256..=sys::IBV_MTU_4096).find(|code| 128 << code == bytes).unwrap_or(0)
}

fn access(flags: u32) -> Access {
    Access {
        local_write: flags & sys::IBV_ACCESS_LOCAL_WRITE != 0,
        remote_read: flags & sys::IBV_ACCESS_REMOTE_READ != 0,
        remote_write: flags & sys::IBV_ACCESS_REMOTE_WRITE != 0,
        remote_atomic: flags & sys::IBV_ACCESS_REMOTE_ATOMIC != 0,
        remote_flush: flags & sys::IBV_ACCESS_FLUSH_GLOBAL != 0,
    }
}

fn access_flags(access: Access) -> u32 {
    let flags = [
        (access.local_write, sys::IBV_ACCESS_LOCAL_WRITE),
        (access.remote_read, sys::IBV_ACCESS_REMOTE_READ),
        (access.remote_write, sys::IBV_ACCESS_REMOTE_WRITE),
        (access.remote_atomic, sys::IBV_ACCESS_REMOTE_ATOMIC),
        (access.remote_flush, sys::IBV_ACCESS_FLUSH_GLOBAL),
    ];
    flags.iter().filter(|(has, _)| *has).fold(0, |all, (_, flag)| all | flag)
}

fn path(attr: &ibv_ah_attr) -> Path {
    let grh = &attr.grh;
    Path {
        // SAFETY: every view of the union is 16 bytes of plain data.
        dgid: Gid(unsafe { grh.dgid.raw }),
        is_global: attr.is_global != 0,
        sgid_index: grh.sgid_index,
        port: attr.port_num,
        flow_label: grh.flow_label,
        hop_limit: grh.hop_limit,
        traffic_class: grh.traffic_class,
        sl: attr.sl,
    }
}

fn ah_attr(path: &Path) -> ibv_ah_attr {
    // SAFETY: all-zero bytes are a valid structure of numbers.
    let mut attr: ibv_ah_attr = unsafe { zeroed() };
    attr.grh.dgid.raw = path.dgid.0;
    attr.grh.flow_label = path.flow_label;
    attr.grh.sgid_index = path.sgid_index;
    attr.grh.hop_limit = path.hop_limit;
    attr.grh.traffic_class = path.traffic_class;
    attr.sl = path.sl;
    attr.is_global = u8::from(path.is_global);
    attr.port_num = path.port;
    attr
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live queue pair.
        let qp = unsafe { handle::borrow::<Qp>(qp) }?;
        // SAFETY: null, or attributes of the program.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
        let adapter = qp.nic.pd().device().adapter();
        let mask = mask & !ignored(qp.nic.init().kind);
        qp.nic.modify(&change(adapter, attr, mask)?)?;
        qp.publish_state(state_into(qp.nic.query().state));
        Ok(())
    })
}

/// Returns the current attributes of `qp`.
pub(crate) fn present(qp: &Qp) -> ibv_qp_attr {
    let query = qp.nic.query();
    // SAFETY: all-zero bytes are a valid structure of numbers.
    let mut attr: ibv_qp_attr = unsafe { zeroed() };
    attr.qp_state = state_into(query.state);
    attr.cur_qp_state = attr.qp_state;
    attr.qkey = query.qkey;
    attr.sq_psn = query.sq_psn;
    attr.rnr_retry = query.rnr_retry;
    attr.cap = qp.cap;
    attr.sq_draining = query.sq_draining.into();
    attr.port_num = 1;
    if qp.nic.init().kind.is_connected() {
        show_connection(&mut attr, &query);
    }
    attr
}

fn show_connection(attr: &mut ibv_qp_attr, query: &QpQuery) {
    /// The state after migration, which is not supported (`IBV_MIG_MIGRATED`).
    const MIGRATED: c_int = 0;
    attr.path_mtu = mtu_code(query.path_mtu_bytes);
    attr.path_mig_state = MIGRATED;
    (attr.rq_psn, attr.dest_qp_num) = (query.rq_psn, query.dest_qpn);
    attr.qp_access_flags = access_flags(query.access);
    attr.ah_attr = ah_attr(&query.path);
    attr.max_rd_atomic = query.max_rd_atomic;
    attr.max_dest_rd_atomic = query.max_dest_rd_atomic;
    (attr.min_rnr_timer, attr.timeout) = (query.min_rnr_timer, query.timeout);
    attr.retry_cnt = query.retry_cnt;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_the_round_trip() {
        for state in 0..=sys::IBV_QPS_ERR {
            assert_eq!(state_from(state).map(state_into), Ok(state));
        }
        assert_eq!(state_from(sys::IBV_QPS_ERR + 1), Err(Errno::EINVAL));
    }

    #[test]
    fn sizes_of_packets_survive_the_round_trip() {
        for (code, bytes) in [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)] {
            assert_eq!((mtu_bytes(code), mtu_code(bytes)), (Ok(bytes), code));
        }
        assert_eq!([0, 6].map(mtu_bytes), [Err(Errno::EINVAL); 2]);
    }

    #[test]
    fn a_path_survives_the_round_trip() {
        let wanted = Path {
            dgid: Gid([7; 16]),
            is_global: true,
            sgid_index: 1,
            port: 1,
            flow_label: 2,
            hop_limit: 3,
            traffic_class: 4,
            sl: 5,
        };
        assert_eq!(path(&ah_attr(&wanted)), wanted);
    }

    #[test]
    fn only_what_the_mask_names_is_changed() {
        // SAFETY: all-zero bytes are a valid structure of numbers.
        let mut attr: ibv_qp_attr = unsafe { zeroed() };
        (attr.qkey, attr.rnr_retry) = (9, 3);
        let changed = change(Adapter::Efa, &attr, sys::IBV_QP_QKEY).unwrap();
        assert_eq!(changed, ModifyQp { qkey: Some(9), ..ModifyQp::default() });
        let timeout = 1 << 9;
        assert_eq!(change(Adapter::Efa, &attr, timeout), Err(Errno::EOPNOTSUPP));
        assert_eq!(change(Adapter::Roce, &attr, timeout).unwrap().timeout, Some(0));
    }
}
