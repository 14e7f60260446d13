//! XRC targets: they are created in a domain, have no queues of their own, and can be opened
//! several times.

use std::sync::Arc;

use super::attr::{CreateQpError, QpInit};
use super::{Qp, Xrcd};
use crate::async_event::EventSource;
use crate::counters::Counter;
use crate::qp_state::QpKind;

/// The reason why a target cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no queue pair {qpn:#x} in the XRC domain of this process")]
pub struct OpenTargetError {
    /// The requested number.
    pub qpn: u32,
}

impl Qp {
    /// Creates an XRC target in state [`crate::QpState::Reset`].
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

    /// Opens target `qpn` of the domain once more, so that [`Qp::destroy`] must be called once
    /// more, too. `events` receives its asynchronous events until [`Qp::remove_event_source`].
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

    /// Stops the events of one opener.
    pub fn remove_event_source(&self, events: &Arc<EventSource>) {
        if self.made.is_current() {
            self.lock().shell_mut().events.retain(|other| !Arc::ptr_eq(other, events));
        }
    }

    /// Removes an opening; returns true if it was the last.
    pub(super) fn remove_opening(&self) -> bool {
        self.xrcd.as_ref().is_none_or(|xrcd| xrcd.give_back(self))
    }
}
