//! State transitions.

use super::{Endpoint, State};
use crate::requester::Requester;
use crate::responder::Responder;
use crate::rtt::Rtt;
use crate::{Cause, Event, ReceiveAttr, SendAttr, Status, WrId};

impl Endpoint {
    pub(super) fn begin_receiving(&mut self, attr: ReceiveAttr) {
        if self.state == State::Reset {
            self.state = State::Receiving;
            self.shared.mtu = attr.path_mtu;
            self.shared.dest_qpn = attr.dest_qpn;
            self.responder = Responder::new(attr);
        }
    }

    pub(super) fn begin_sending(&mut self, attr: SendAttr) {
        if self.state == State::Receiving {
            self.state = State::Sending;
            self.requester = Requester::new(attr, &self.shared);
        }
    }

    /// Handles failures of requester and responder. Call after anything that may have failed.
    #[inline]
    pub(super) fn note_failures(&mut self) {
        if let Some(status) = self.requester.take_failure() {
            if !self.shared.service.is_reliable() {
                self.stop_sending(Some(status));
                return;
            }
            self.end(Cause::Request(status), Some(status), None);
            self.responder.end_acknowledging(&self.shared);
        }
        if let Some(failure) = self.responder.take_failure() {
            self.end(Cause::Peer(failure.code), None, failure.receive);
        }
    }

    /// Changes the status of a completed work request. On an unreliable connection it completes
    /// when its last packet is returned, which the host may then be unable to send.
    #[cold]
    pub(super) fn revise_completion(&mut self, id: WrId, status: Status) {
        let is_match = |event: &&mut Event| **event == Event::Completed { id, status: Status::Ok };
        let Some(event) = self.shared.events.iter_mut().rev().find(is_match) else { return };
        *event = Event::Completed { id, status };
        self.stop_sending(None);
    }

    /// Ends work requests, the oldest with `first`, the others as flushed; receiving continues
    /// (RC-7.3).
    fn stop_sending(&mut self, first: Option<Status>) {
        if matches!(self.state, State::Sending | State::Draining) {
            self.state = State::SendError;
            self.requester.end_all(first, &mut self.shared);
            self.shared.events.push_back(Event::SendFailed);
        }
    }

    pub(super) fn fail_by_host(&mut self) {
        self.end(Cause::Host, None, None);
        self.responder.silence();
    }

    /// Ends everything that is posted: the oldest work request with `first`, the others as flushed.
    /// The responder still sends what is pending.
    fn end(&mut self, cause: Cause, first: Option<Status>, receive: Option<Status>) {
        if self.state == State::Error {
            return;
        }
        self.state = State::Error;
        self.arrival = None;
        self.shared.events.push_back(Event::Failed { cause, receive });
        self.requester.end_all(first, &mut self.shared);
        self.shared.events.push_back(Event::LastReceive);
    }

    pub(super) fn forget(&mut self) {
        self.state = State::Reset;
        self.shared.events.clear();
        self.shared.rtt = Rtt::default();
        self.requester.clear();
        self.responder.silence();
        self.arrival = None;
        self.is_established = false;
    }
}
