//! Posting: work requests from the program to the engine.

use rc::wire::Feth;
use rc::{Operation, PostError, SendRequest, WrId};
use srd::Instant;

use super::RcSide;
use crate::counters::Counter;
use crate::qp_state::QpState;
use crate::request::{FlushExtent, Remote, SendOp, SendWr};
use crate::shell::Side;
use crate::status::Status;

fn remote(of: Remote) -> rc::Remote {
    rc::Remote { va: of.addr, rkey: of.rkey }
}

fn operation(op: SendOp) -> Operation {
    match op {
        SendOp::Send => Operation::Send,
        SendOp::SendImm(imm) => Operation::SendImm(imm),
        SendOp::SendInvalidate(key) => Operation::SendInvalidate(key),
        SendOp::Read(at) => Operation::Read(remote(at)),
        SendOp::Write(to) => Operation::Write(remote(to)),
        SendOp::WriteImm(to, imm) => Operation::WriteImm(remote(to), imm),
        SendOp::AtomicWrite(to) => Operation::AtomicWrite(remote(to)),
        SendOp::Flush(at, FlushExtent { is_global, is_persistent, is_whole_region, .. }) => {
            Operation::Flush(remote(at), Feth { is_global, is_persistent, is_whole_region })
        }
        SendOp::CompareSwap { remote: at, compare, swap } => {
            Operation::CompareSwap { remote: remote(at), compare, swap }
        }
        SendOp::FetchAdd { remote: at, add } => Operation::FetchAdd { remote: remote(at), add },
        SendOp::LocalInvalidate(_) | SendOp::BindWindow(_) => Operation::Local,
    }
}

/// Returns the status of a work request that the engine refuses.
fn status_of(error: PostError) -> Status {
    match error {
        PostError::Length => Status::LocalBadLength,
        PostError::State | PostError::Operation => Status::LocalQpInternalError,
    }
}

impl RcSide {
    pub(super) fn post_request(&mut self, wr: &SendWr<'_>, signaled: bool) -> bool {
        // Nothing in taking a work request depends on the time since the last turn.
        let (now, len) = (self.shell.last_turn, wr.data.len_bytes());
        let Some(index) = self.shell.insert(wr, signaled, len) else { return false };
        if self.shell.is_traced() {
            self.trace_post(len, wr, signaled);
        }
        let peer = self.peer;
        let is_flushed = matches!(self.shell.attrs.state, QpState::Error | QpState::SendQueueError);
        if !is_flushed && self.shell.deal_internal_error(|| peer.map(|peer| peer.ip())) {
            if let Some(slot) = self.shell.sq.get_mut(index) {
                slot.fault = Some(Status::LocalQpInternalError);
            }
        }
        self.count_posted(wr.op, len);
        self.start(now, index);
        true
    }

    /// Passes the work request in slot `index` to the engine. One that it refuses fails in its
    /// turn, after all before it.
    pub(super) fn start_request(&mut self, now: Instant, index: u32) {
        // What waits to be acknowledged leaves together with this.
        self.holds_acks = false;
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        let id = WrId(u64::from(index));
        // What verbs calls the length of an operation that has none.
        let len = if slot.op.is_local() { 0 } else { slot.len };
        let mut request = SendRequest::new(id, operation(slot.op), len);
        if let SendOp::Flush(_, extent) = slot.op {
            request.len = extent.len;
        }
        (request.is_fenced, request.is_solicited) = (slot.is_fenced, slot.is_solicited);
        request.srq = slot.remote_srq;
        self.has_long |= len > self.shell.attrs.path_mtu_bytes;
        // One that fails on purpose must not leave, whether it has bytes or not.
        let is_possible = slot.fault.is_none();
        let posted = if is_possible {
            self.endpoint.post(super::time(now), request)
        } else {
            Err(PostError::Operation)
        };
        if let Err(error) = posted {
            slot.fault.get_or_insert_with(|| status_of(error));
            // It takes its place as one that this side does by itself.
            let local = SendRequest::new(id, Operation::Local, 0);
            if self.endpoint.post(super::time(now), local).is_err() {
                self.shell.finish_send(index, status_of(error));
            }
        }
        self.harvest(now);
    }

    fn count_posted(&self, op: SendOp, len: u32) {
        let counters = &self.shell.device.counters;
        let (count, bytes) = match op {
            SendOp::Read(_) => (Counter::RdmaReadWrs, Counter::RdmaReadBytes),
            SendOp::Write(_) | SendOp::WriteImm(..) | SendOp::AtomicWrite(_) => {
                (Counter::RdmaWriteWrs, Counter::RdmaWriteBytes)
            }
            _ => return,
        };
        counters.add(count, 1);
        counters.add(bytes, u64::from(len));
    }
}
