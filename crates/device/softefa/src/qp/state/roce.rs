//! The table of the kernel's core (`qp_state_table` of `core/verbs.c`), which drivers of RoCE
//! devices follow.

use super::{Attrs, Rule};
use crate::qp_state::{QpKind, QpState};

/// Returns what a transition needs and what it also takes; `None` when there is none.
pub(super) fn rule(kind: QpKind, from: QpState, to: QpState) -> Option<Rule> {
    use QpState::{
        Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueDrained, SendQueueError,
    };
    let (needs, takes) = match (from, to) {
        // From the reset state there is only one way.
        (Reset, Error) => return None,
        (_, Reset | Error) => (Attrs::NONE, Attrs::NONE),
        (Reset, Init) => (to_init(kind), Attrs::NONE),
        (Init, Init) => (Attrs::NONE, to_init(kind)),
        (Init, ReadyToReceive) => to_receive(kind),
        (ReadyToReceive, ReadyToSend) => to_send(kind),
        (ReadyToSend, ReadyToSend) => (Attrs::NONE, while_sending(kind)),
        (ReadyToSend, SendQueueDrained) => (Attrs::NONE, Attrs::SQD_NOTIFY),
        (SendQueueDrained, SendQueueDrained) => (Attrs::NONE, while_drained(kind)),
        (SendQueueDrained, ReadyToSend) => (Attrs::NONE, while_sending(kind)),
        (SendQueueError, ReadyToSend) if matches!(kind, QpKind::Uc | QpKind::Ud) => {
            (Attrs::NONE, while_sending(kind) - Attrs::ALT_PATH - Attrs::MIG_STATE)
        }
        _ => return None,
    };
    Some(Rule { needs, takes })
}

fn to_init(kind: QpKind) -> Attrs {
    let last = if kind == QpKind::Ud { Attrs::QKEY } else { Attrs::ACCESS };
    Attrs::PKEY_INDEX | Attrs::PORT | last
}

fn to_receive(kind: QpKind) -> (Attrs, Attrs) {
    let connected = Attrs::PATH | Attrs::PATH_MTU | Attrs::DEST_QPN | Attrs::RQ_PSN;
    let beside = Attrs::ALT_PATH | Attrs::ACCESS | Attrs::PKEY_INDEX;
    match kind {
        QpKind::Rc | QpKind::XrcTarget => {
            (connected | Attrs::MAX_DEST_RD_ATOMIC | Attrs::MIN_RNR_TIMER, beside)
        }
        QpKind::Uc | QpKind::XrcInitiator => (connected, beside),
        QpKind::Ud | QpKind::Srd => (Attrs::NONE, Attrs::PKEY_INDEX | Attrs::QKEY),
    }
}

fn to_send(kind: QpKind) -> (Attrs, Attrs) {
    match kind {
        QpKind::Rc | QpKind::XrcInitiator => (
            Attrs::SQ_PSN
                | Attrs::TIMEOUT
                | Attrs::RETRY_CNT
                | Attrs::RNR_RETRY
                | Attrs::MAX_RD_ATOMIC,
            while_sending(kind),
        ),
        // It repeats nothing itself, and programs say its timeout all the same.
        QpKind::XrcTarget => (Attrs::SQ_PSN | Attrs::TIMEOUT, while_sending(kind)),
        QpKind::Uc | QpKind::Ud | QpKind::Srd => (Attrs::SQ_PSN, while_sending(kind)),
    }
}

fn while_sending(kind: QpKind) -> Attrs {
    let connected = Attrs::CUR_STATE | Attrs::ACCESS | Attrs::ALT_PATH | Attrs::MIG_STATE;
    match kind {
        QpKind::Rc | QpKind::XrcTarget => connected | Attrs::MIN_RNR_TIMER,
        QpKind::Uc | QpKind::XrcInitiator => connected,
        QpKind::Ud | QpKind::Srd => Attrs::CUR_STATE | Attrs::QKEY,
    }
}

fn while_drained(kind: QpKind) -> Attrs {
    let connected = Attrs::PORT
        | Attrs::PATH
        | Attrs::ALT_PATH
        | Attrs::ACCESS
        | Attrs::PKEY_INDEX
        | Attrs::MIG_STATE;
    let sends = Attrs::TIMEOUT | Attrs::RETRY_CNT | Attrs::RNR_RETRY | Attrs::MAX_RD_ATOMIC;
    let receives = Attrs::MAX_DEST_RD_ATOMIC | Attrs::MIN_RNR_TIMER;
    match kind {
        QpKind::Rc => connected | sends | receives,
        QpKind::XrcInitiator => connected | sends,
        QpKind::XrcTarget => connected | Attrs::TIMEOUT | receives,
        QpKind::Uc => connected,
        QpKind::Ud | QpKind::Srd => Attrs::PKEY_INDEX | Attrs::QKEY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The usual way, with exactly what the kernel requires.
    #[test]
    fn each_transport_needs_what_the_kernel_says() {
        use QpState::{Init, ReadyToReceive, ReadyToSend, Reset};
        let needs = |kind, from, to| rule(kind, from, to).map(|rule| rule.needs);
        let connected = Attrs::PATH | Attrs::PATH_MTU | Attrs::DEST_QPN | Attrs::RQ_PSN;
        let rc = connected | Attrs::MAX_DEST_RD_ATOMIC | Attrs::MIN_RNR_TIMER;
        assert_eq!(needs(QpKind::Rc, Init, ReadyToReceive), Some(rc));
        assert_eq!(needs(QpKind::Uc, Init, ReadyToReceive), Some(connected));
        assert_eq!(needs(QpKind::Ud, Init, ReadyToReceive), Some(Attrs::NONE));
        let access = Attrs::PKEY_INDEX | Attrs::PORT | Attrs::ACCESS;
        assert_eq!(needs(QpKind::Uc, Reset, Init), Some(access));
        assert_eq!(needs(QpKind::Uc, ReadyToReceive, ReadyToSend), Some(Attrs::SQ_PSN));
    }

    #[test]
    fn what_has_no_way_has_none() {
        use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueError};
        let ways = [
            (QpKind::Rc, Reset, Error),
            (QpKind::Rc, Reset, ReadyToReceive),
            (QpKind::Uc, Init, ReadyToSend),
            (QpKind::Rc, SendQueueError, ReadyToSend),
            (QpKind::Ud, Error, Init),
        ];
        assert!(ways.iter().all(|(kind, from, to)| rule(*kind, *from, *to).is_none()));
        assert!(rule(QpKind::Ud, SendQueueError, ReadyToSend).is_some());
        for from in [Init, ReadyToReceive, ReadyToSend, SendQueueError, Error] {
            assert!(rule(QpKind::Rc, from, Reset).is_some(), "{from:?}");
        }
    }
}
