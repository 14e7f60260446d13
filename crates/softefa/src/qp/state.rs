//! The state machine of a queue pair, as the kernel driver checks it (`efa_verbs.c`).

use super::attr::{ModifyError, ModifyQp};
use crate::qp_state::{QpKind, QpState};

const STATE: u8 = 0;
const CUR_STATE: u8 = 1;
const PORT: u8 = 2;
const PKEY: u8 = 4;
const QKEY: u8 = 8;
const SQ_PSN: u8 = 16;
const RNR_RETRY: u8 = 32;

const NAMES: [(u8, &str); 6] = [
    (CUR_STATE, "cur_state"),
    (PORT, "port"),
    (PKEY, "pkey_index"),
    (QKEY, "qkey"),
    (SQ_PSN, "sq_psn"),
    (RNR_RETRY, "rnr_retry"),
];

/// Attributes a transition needs and those it also takes; `None` = no such way.
fn rule(kind: QpKind, from: QpState, to: QpState) -> Option<(u8, u8)> {
    use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueDrained};
    let rnr = if kind == QpKind::Srd { RNR_RETRY } else { 0 };
    match (from, to) {
        (_, Reset | Error) => Some((STATE, CUR_STATE)),
        (Reset, Init) => Some((PKEY | PORT | QKEY, 0)),
        (Init, Init) => Some((STATE, PKEY | PORT | QKEY)),
        (Init, ReadyToReceive) => Some((STATE, PKEY | QKEY)),
        (ReadyToReceive, ReadyToSend) => Some((SQ_PSN, CUR_STATE | QKEY | rnr)),
        (ReadyToSend, ReadyToSend) | (SendQueueDrained, ReadyToSend) => {
            Some((STATE, CUR_STATE | QKEY))
        }
        (ReadyToSend, SendQueueDrained) => Some((STATE, 0)),
        (SendQueueDrained, SendQueueDrained) => Some((STATE, PKEY | QKEY)),
        _ => None,
    }
}

/// Whether `change` may take a queue pair from `from` to `to`.
pub(super) fn check(
    kind: QpKind,
    from: QpState,
    to: QpState,
    change: &ModifyQp,
) -> Result<(), ModifyError> {
    let (needed, taken) = rule(kind, from, to).ok_or(ModifyError::Transition { from, to })?;
    let given = given(change);
    for (bit, attribute) in NAMES {
        let problem = match (needed & bit != 0, given & bit != 0) {
            (true, false) => "missing",
            (false, true) if taken & bit == 0 => "not allowed",
            _ => continue,
        };
        return Err(ModifyError::Attribute { from, to, attribute, problem });
    }
    check_values(from, to, change)
}

fn given(change: &ModifyQp) -> u8 {
    let bit = |given: bool, bit| if given { bit } else { 0 };
    bit(change.cur_state.is_some(), CUR_STATE)
        | bit(change.port.is_some(), PORT)
        | bit(change.pkey_index.is_some(), PKEY)
        | bit(change.qkey.is_some(), QKEY)
        | bit(change.sq_psn.is_some(), SQ_PSN)
        | bit(change.rnr_retry.is_some(), RNR_RETRY)
}

fn check_values(from: QpState, to: QpState, change: &ModifyQp) -> Result<(), ModifyError> {
    if let Some(believed) = change.cur_state
        && believed != from
    {
        return Err(ModifyError::Transition { from: believed, to });
    }
    let value = |attribute, value| Err(ModifyError::Value { attribute, value });
    match (change.port, change.pkey_index, change.rnr_retry) {
        (Some(port), _, _) if port != 1 => value("port", u32::from(port)),
        (_, Some(index), _) if index != 0 => value("pkey_index", u32::from(index)),
        (_, _, Some(retry)) if retry > 7 => value("rnr_retry", u32::from(retry)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init() -> ModifyQp {
        let state = Some(QpState::Init);
        ModifyQp { state, port: Some(1), pkey_index: Some(0), qkey: Some(7), ..Default::default() }
    }

    #[test]
    fn the_usual_way_up_is_open() {
        let rtr = ModifyQp { state: Some(QpState::ReadyToReceive), ..Default::default() };
        let rts = ModifyQp { sq_psn: Some(0), rnr_retry: Some(3), ..Default::default() };
        let srd = QpKind::Srd;
        assert_eq!(check(srd, QpState::Reset, QpState::Init, &init()), Ok(()));
        assert_eq!(check(srd, QpState::Init, QpState::ReadyToReceive, &rtr), Ok(()));
        assert_eq!(check(srd, QpState::ReadyToReceive, QpState::ReadyToSend, &rts), Ok(()));
        let ud = check(QpKind::Ud, QpState::ReadyToReceive, QpState::ReadyToSend, &rts);
        assert!(matches!(ud, Err(ModifyError::Attribute { attribute: "rnr_retry", .. })));
    }

    #[test]
    fn missing_and_wrong_attributes_are_named() {
        let change = ModifyQp { qkey: None, ..init() };
        let missing = check(QpKind::Srd, QpState::Reset, QpState::Init, &change);
        let problem = "missing";
        assert!(
            matches!(missing, Err(ModifyError::Attribute { attribute: "qkey", problem: p, .. }) if p == problem)
        );
        let change = ModifyQp { port: Some(2), ..init() };
        let wrong = check(QpKind::Srd, QpState::Reset, QpState::Init, &change);
        assert_eq!(wrong, Err(ModifyError::Value { attribute: "port", value: 2 }));
    }

    #[test]
    fn shortcuts_are_closed_and_the_way_down_is_open() {
        let none = ModifyQp::default();
        for to in [QpState::ReadyToReceive, QpState::ReadyToSend, QpState::SendQueueDrained] {
            let closed = check(QpKind::Srd, QpState::Reset, to, &none);
            assert!(matches!(closed, Err(ModifyError::Transition { .. })), "{to:?}");
        }
        for from in [QpState::Init, QpState::ReadyToSend, QpState::Error] {
            assert_eq!(check(QpKind::Srd, from, QpState::Reset, &none), Ok(()));
            assert_eq!(check(QpKind::Srd, from, QpState::Error, &none), Ok(()));
        }
    }
}
