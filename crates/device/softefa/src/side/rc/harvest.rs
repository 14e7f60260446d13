//! Events of the engine: completions, and the end of the connection.

use rc::wire::NakCode;
use rc::{Cause, Event, Status as RcStatus};
use srd::Instant;

use super::serve::index_of;
use super::{RcSide, time};
use crate::async_event::AsyncEventKind;
use crate::management::report_first_data;
use crate::qp_state::QpState;
use crate::request::SendOp;
use crate::status::Status;

impl RcSide {
    pub(super) fn harvest(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Completed { id, status } => self.finish(index_of(id), status),
                Event::Execute { id } => {
                    let status = self.execute(index_of(id));
                    self.endpoint.executed(time(now), id, status);
                }
                Event::Failed { cause, receive } => {
                    if self.shell.is_traced() {
                        self.trace_event(&event);
                    }
                    self.fail_connection(receive.map(Status::from));
                    self.report_cause(cause);
                }
                Event::SendFailed => self.stop_sending(),
                Event::Established | Event::Drained | Event::LastReceive | Event::Congestion => {
                    if self.shell.is_traced() {
                        self.trace_event(&event);
                    }
                    self.report_event(&event);
                }
            }
        }
    }

    /// Reports an asynchronous event to the program.
    fn report_event(&mut self, event: &Event) {
        match event {
            Event::Established => {
                let shell = &mut self.shell;
                report_first_data(shell.device.addr(), shell.qpn);
                if shell.attrs.state == QpState::ReadyToReceive {
                    shell.report(AsyncEventKind::CommunicationEstablished);
                }
            }
            Event::Drained if self.shell.attrs.sqd_notify => {
                self.shell.report(AsyncEventKind::SqDrained);
            }
            Event::LastReceive if self.shell.srq.is_some() => {
                self.shell.report(AsyncEventKind::QpLastWqeReached);
            }
            _ => {}
        }
    }

    /// Reports a refused request of a peer to the program, which did nothing wrong; its own
    /// failures have completions.
    fn report_cause(&mut self, cause: Cause) {
        match cause {
            Cause::Peer(Some(NakCode::RemoteAccess)) => {
                self.shell.report(AsyncEventKind::QpAccessError);
            }
            Cause::Peer(Some(NakCode::InvalidRequest | NakCode::InvalidQueue)) => {
                self.shell.report(AsyncEventKind::QpRequestError);
            }
            Cause::Peer(_) | Cause::Request(_) | Cause::Host => {}
        }
    }

    /// A flushed work request has not had its turn, whatever would have become of it.
    fn finish(&mut self, index: u32, status: RcStatus) {
        if status == RcStatus::Flushed {
            if let Some(slot) = self.shell.sq.get_mut(index) {
                slot.fault = None;
            }
        }
        self.shell.finish_send(index, Status::from(status));
    }

    /// Handles the work requests that this side does by itself.
    fn execute(&mut self, index: u32) -> RcStatus {
        let Some(slot) = self.shell.sq.get(index) else { return RcStatus::LocalOperation };
        match slot.op {
            // It could not be begun; its completion says why.
            _ if slot.fault.is_some() => RcStatus::LocalOperation,
            SendOp::LocalInvalidate(key) if self.invalidate(key) => RcStatus::Ok,
            SendOp::BindWindow(bind) if self.bind(&bind) => RcStatus::Ok,
            _ => RcStatus::Bind,
        }
    }

    /// Stops the send queue of an unreliable connection after a failed work request, until the
    /// program allows it again.
    fn stop_sending(&mut self) {
        let from = self.shell.attrs.state;
        if matches!(from, QpState::ReadyToSend | QpState::SendQueueDrained) {
            self.shell.attrs.state = QpState::SendQueueError;
            self.shell.trace_state(from, Some(QpState::SendQueueError));
        }
    }

    /// Ends the connection. The receive of the refused message, if there is one, ends with `first`.
    fn fail_connection(&mut self, first: Option<Status>) {
        let from = self.shell.attrs.state;
        if !matches!(from, QpState::Error | QpState::Reset) {
            self.shell.attrs.state = QpState::Error;
            self.shell.trace_state(from, Some(QpState::Error));
        }
        self.end_receives(first);
        // The program has nothing more to send that a refusal could leave with.
        self.holds_acks = false;
    }

    /// Ends the receives. The one that is in use, or would be next, ends with `first`.
    pub(super) fn end_receives(&mut self, first: Option<Status>) {
        let mut status = first;
        if first.is_some() && self.current.is_none() {
            self.current = self.shell.rq.pop();
        }
        let mut next = self.current.take().or_else(|| self.shell.rq.pop());
        while let Some(wqe) = next {
            self.shell.fail_recv(&wqe, status.take().unwrap_or(Status::Flushed));
            next = self.shell.rq.pop();
        }
    }
}
