//! The table of the EFA driver (`efa_verbs.c`).

use super::{Attrs, Rule};
use crate::qp_state::{QpKind, QpState};

/// Returns what a transition needs and what it also takes; `None` when there is none.
pub(super) fn rule(kind: QpKind, from: QpState, to: QpState) -> Option<Rule> {
    use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueDrained};
    let rnr = if kind == QpKind::Srd { Attrs::RNR_RETRY } else { Attrs::NONE };
    let up = Attrs::PKEY_INDEX | Attrs::PORT | Attrs::QKEY;
    let (needs, takes) = match (from, to) {
        (_, Reset | Error) => (Attrs::NONE, Attrs::CUR_STATE),
        (Reset, Init) => (up, Attrs::NONE),
        (Init, Init) => (Attrs::NONE, up),
        (Init, ReadyToReceive) | (SendQueueDrained, SendQueueDrained) => {
            (Attrs::NONE, Attrs::PKEY_INDEX | Attrs::QKEY)
        }
        (ReadyToReceive, ReadyToSend) => (Attrs::SQ_PSN, Attrs::CUR_STATE | Attrs::QKEY | rnr),
        (ReadyToSend | SendQueueDrained, ReadyToSend) => {
            (Attrs::NONE, Attrs::CUR_STATE | Attrs::QKEY)
        }
        (ReadyToSend, SendQueueDrained) => (Attrs::NONE, Attrs::NONE),
        _ => return None,
    };
    Some(Rule { needs, takes })
}
