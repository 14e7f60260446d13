//! The state machine of a queue pair: which ways there are, and what each needs.

mod efa;
mod roce;

use std::fmt;
use std::ops::{BitOr, Sub};

use super::attr::{ModifyError, ModifyQp};
use crate::config::Adapter;
use crate::qp_state::{QpKind, QpState};

/// Attributes beside the state itself.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Attrs(u32);

macro_rules! attrs {
    ($($name:ident = $bit:literal $field:ident,)*) => {
        impl Attrs {
            $(const $name: Self = Self(1 << $bit);)*
            const NAMES: &'static [(Self, &'static str)] =
                &[$((Self::$name, stringify!($field)),)*];

            /// Returns the attributes that `change` has.
            fn given(change: &ModifyQp) -> Self {
                let mut given = Self::NONE;
                $(if change.$field.is_some() {
                    given = given | Self::$name;
                })*
                given
            }
        }
    };
}

attrs! {
    CUR_STATE = 0 cur_state,
    PORT = 1 port,
    PKEY_INDEX = 2 pkey_index,
    QKEY = 3 qkey,
    SQ_PSN = 4 sq_psn,
    RNR_RETRY = 5 rnr_retry,
    ACCESS = 6 access,
    PATH = 7 path,
    ALT_PATH = 8 alt_path,
    PATH_MTU = 9 path_mtu_bytes,
    DEST_QPN = 10 dest_qpn,
    RQ_PSN = 11 rq_psn,
    MAX_RD_ATOMIC = 12 max_rd_atomic,
    MAX_DEST_RD_ATOMIC = 13 max_dest_rd_atomic,
    MIN_RNR_TIMER = 14 min_rnr_timer,
    TIMEOUT = 15 timeout,
    RETRY_CNT = 16 retry_cnt,
    MIG_STATE = 17 mig_state,
    SQD_NOTIFY = 18 sqd_notify,
}

impl Attrs {
    const NONE: Self = Self(0);

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Attrs {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Sub for Attrs {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Attrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().filter(|(attr, _)| self.has(*attr)).map(|(_, name)| name);
        f.debug_set().entries(names).finish()
    }
}

/// The attributes that a transition needs, and those that it also takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    needs: Attrs,
    takes: Attrs,
}

/// Whether `change` may take a queue pair from `from` to `to`.
pub(super) fn check(
    adapter: Adapter,
    kind: QpKind,
    from: QpState,
    to: QpState,
    change: &ModifyQp,
) -> Result<(), ModifyError> {
    let rule = match adapter {
        Adapter::Efa => efa::rule(kind, from, to),
        Adapter::Roce => roce::rule(kind, from, to),
    };
    let Rule { needs, takes } = rule.ok_or(ModifyError::Transition { from, to })?;
    let given = Attrs::given(change);
    for &(attr, attribute) in Attrs::NAMES {
        let problem = match (needs.has(attr), given.has(attr)) {
            (true, false) => "missing",
            (false, true) if !takes.has(attr) => "not allowed",
            _ => continue,
        };
        return Err(ModifyError::Attribute { from, to, attribute, problem });
    }
    check_values(from, to, change)
}

fn check_values(from: QpState, to: QpState, change: &ModifyQp) -> Result<(), ModifyError> {
    if let Some(believed) = change.cur_state.filter(|believed| *believed != from) {
        return Err(ModifyError::Transition { from: believed, to });
    }
    let limits: [(&str, Option<u8>, u8); 5] = [
        ("rnr_retry", change.rnr_retry, 7),
        ("retry_cnt", change.retry_cnt, 7),
        ("timeout", change.timeout, 31),
        ("min_rnr_timer", change.min_rnr_timer, 31),
        ("max_dest_rd_atomic", change.max_dest_rd_atomic, RD_ATOMIC_MAX),
    ];
    let value = |attribute, value| Err(ModifyError::Value { attribute, value });
    for (attribute, given, max) in limits {
        if let Some(given) = given.filter(|given| *given > max) {
            return value(attribute, u32::from(given));
        }
    }
    match (change.port, change.pkey_index, change.max_rd_atomic) {
        (Some(port), _, _) if port != 1 => value("port", u32::from(port)),
        (_, Some(index), _) if index != 0 => value("pkey_index", u32::from(index)),
        (_, _, Some(count)) if count > RD_ATOMIC_MAX => value("max_rd_atomic", u32::from(count)),
        _ => Ok(()),
    }
}

/// READs and atomics that may be unanswered, each way.
pub(crate) const RD_ATOMIC_MAX: u8 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        kind: QpKind,
        from: QpState,
        to: QpState,
        change: &ModifyQp,
    ) -> Result<(), ModifyError> {
        super::check(Adapter::Efa, kind, from, to, change)
    }

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
