//! Attributes of a queue pair: changing and reading them.

use std::ffi::c_int;
use std::mem::zeroed;

use softefa::{ModifyQp, QpState};

use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::qp::Qp;
use crate::sys::{self, ibv_qp, ibv_qp_attr};

/// Attributes an EFA can change; others answer `EOPNOTSUPP`.
const KNOWN: c_int = sys::IBV_QP_STATE
    | sys::IBV_QP_CUR_STATE
    | sys::IBV_QP_PKEY_INDEX
    | sys::IBV_QP_PORT
    | sys::IBV_QP_QKEY
    | sys::IBV_QP_SQ_PSN
    | sys::IBV_QP_RNR_RETRY;

fn state_from(state: c_int) -> Result<QpState, Errno> {
    match state {
        sys::IBV_QPS_RESET => Ok(QpState::Reset),
        sys::IBV_QPS_INIT => Ok(QpState::Init),
        sys::IBV_QPS_RTR => Ok(QpState::ReadyToReceive),
        sys::IBV_QPS_RTS => Ok(QpState::ReadyToSend),
        sys::IBV_QPS_SQD => Ok(QpState::SendQueueDrained),
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
        QpState::Error => sys::IBV_QPS_ERR,
    }
}

fn change(attr: &ibv_qp_attr, mask: c_int) -> Result<ModifyQp, Errno> {
    if mask & !KNOWN != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let given = |bit| mask & bit != 0;
    let state = |bit, value| if given(bit) { state_from(value).map(Some) } else { Ok(None) };
    Ok(ModifyQp {
        state: state(sys::IBV_QP_STATE, attr.qp_state)?,
        cur_state: state(sys::IBV_QP_CUR_STATE, attr.cur_qp_state)?,
        port: given(sys::IBV_QP_PORT).then_some(attr.port_num),
        pkey_index: given(sys::IBV_QP_PKEY_INDEX).then_some(attr.pkey_index),
        qkey: given(sys::IBV_QP_QKEY).then_some(attr.qkey),
        sq_psn: given(sys::IBV_QP_SQ_PSN).then_some(attr.sq_psn),
        rnr_retry: given(sys::IBV_QP_RNR_RETRY).then_some(attr.rnr_retry),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live queue pair.
        let qp = unsafe { handle::borrow::<Qp>(qp) }?;
        // SAFETY: null, or attributes of the program.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
        qp.nic.modify(&change(attr, mask)?)?;
        qp.publish_state(state_into(qp.nic.query().state));
        Ok(())
    })
}

/// The attributes of `qp` now.
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
    attr.port_num = 1;
    attr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_the_round_trip() {
        const SEND_QUEUE_ERROR: c_int = 5;
        for state in 0..=sys::IBV_QPS_ERR {
            match state_from(state) {
                Ok(known) => assert_eq!(state_into(known), state),
                Err(errno) => assert_eq!((state, errno), (SEND_QUEUE_ERROR, Errno::EINVAL)),
            }
        }
    }

    #[test]
    fn only_what_the_mask_names_is_changed() {
        // SAFETY: all-zero bytes are a valid structure of numbers.
        let mut attr: ibv_qp_attr = unsafe { zeroed() };
        (attr.qkey, attr.rnr_retry) = (9, 3);
        let changed = change(&attr, sys::IBV_QP_QKEY).unwrap();
        assert_eq!(changed, ModifyQp { qkey: Some(9), ..ModifyQp::default() });
        let timeout = 1 << 9;
        assert_eq!(change(&attr, timeout), Err(Errno::EOPNOTSUPP));
    }
}
