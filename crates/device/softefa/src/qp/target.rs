//! XRC targets: made in a domain, without queues of their own, and opened as often as a program
//! wants.

use std::sync::Arc;

use super::attr::{CreateQpError, QpInit};
use super::{Qp, Xrcd};
use crate::async_event::EventSource;
use crate::counters::Counter;
use crate::qp_state::QpKind;

/// The reason why a target cannot be opened once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no queue pair {qpn:#x} in the XRC domain of this process")]
pub struct OpenTargetError {
    /// The number that was asked for.
    pub qpn: u32,
}

impl Qp {
    /// Makes an XRC target in state [`crate::QpState::Reset`].
    ///
    /// # Errors
    /// [`CreateQpError`].
    pub fn create_target(
        xrcd: &Arc<Xrcd>,
        events: Option<Arc<EventSource>>,
    ) -> Result<Arc<Self>, CreateQpError> {
        let init = QpInit {
            kind: QpKind::XrcTarget,
            send_cq: Arc::clone(xrcd.cq()),
            recv_cq: Arc::clone(xrcd.cq()),
            sq_depth: 0,
            rq_depth: 0,
            sq_sge: 0,
            rq_sge: 0,
            inline_bytes: 0,
            sq_sig_all: false,
            unsolicited_write_recv: false,
            srq: None,
            events,
        };
        let made = Self::try_create(xrcd.pd(), init, Some(Arc::clone(xrcd)));
        xrcd.device().counters.command(made, Some(Counter::CreateQpErr))
    }

    /// Opens target `qpn` of the domain once more: [`Qp::destroy`] is then to be called once more,
    /// too. `events` hears of what happens to it as long as [`Qp::stop_telling`] is not called.
    ///
    /// # Errors
    /// [`OpenTargetError`].
    pub fn open_target(
        xrcd: &Xrcd,
        qpn: u32,
        events: Option<Arc<EventSource>>,
    ) -> Result<Arc<Self>, OpenTargetError> {
        let qp = xrcd.reopen(qpn).ok_or(OpenTargetError { qpn })?;
        qp.lock().shell_mut().events.extend(events);
        Ok(qp)
    }

    /// One of those who have opened it wants to hear nothing more.
    pub fn stop_telling(&self, events: &Arc<EventSource>) {
        if self.made.is_current() {
            self.lock().shell_mut().events.retain(|other| !Arc::ptr_eq(other, events));
        }
    }

    /// Whether nobody has it open any more, now that somebody gives it back.
    pub(super) fn is_given_up(&self) -> bool {
        self.xrcd.as_ref().is_none_or(|xrcd| xrcd.give_back(self))
    }
}
