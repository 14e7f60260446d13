//! The trace of work requests and states, for all transports. Call sites check whether there is a
//! trace, so that the rest is out of line.

use std::fmt::{self, Display};
use std::net::SocketAddr;

use super::Shell;
use crate::address::NOWHERE;
use crate::completion::{Completion, CompletionOp, Sender};
use crate::qp_state::QpState;
use crate::request::{SendOp, SendWr};
use crate::trace::TraceEvent;

impl Shell {
    /// Returns true if there is a trace.
    #[inline]
    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Writes a line to the trace, if there is one.
    pub(crate) fn write_trace(
        &mut self,
        event: TraceEvent,
        peer: Option<SocketAddr>,
        rest: fmt::Arguments<'_>,
    ) {
        self.write_trace_of(event, peer.map(Sender::from), rest);
    }

    /// Writes a line as [`Shell::write_trace`] does, for a peer whose number is not its port.
    pub(crate) fn write_trace_of(
        &mut self,
        event: TraceEvent,
        peer: Option<Sender>,
        rest: fmt::Arguments<'_>,
    ) {
        if let Some(trace) = &mut self.trace {
            trace.write(event, peer, rest);
        }
    }

    #[cold]
    pub(crate) fn trace_post(&mut self, len: u32, wr: &SendWr<'_>, signaled: bool) {
        let peer = wr.target.map(|to| Sender { addr: to.ah.addr(), qpn: to.qpn });
        self.trace_post_to(peer, len, wr, signaled);
    }

    /// Traces a posted work request to `peer`.
    #[cold]
    pub(crate) fn trace_post_to(
        &mut self,
        peer: Option<Sender>,
        len: u32,
        wr: &SendWr<'_>,
        signaled: bool,
    ) {
        let (op, wr_id) = (name_of_wr(wr.op), wr.wr_id);
        // Otherwise nobody could tell which post a completion ends.
        let signaled = if signaled { "" } else { " signaled=false" };
        self.write_trace_of(
            TraceEvent::Post,
            peer,
            format_args!("op={op} len={len} wr_id={wr_id:#x}{signaled}"),
        );
    }

    /// Traces a dropped datagram from `from`; the port is 0 if its queue pair is not known.
    #[cold]
    pub(crate) fn trace_drop(&mut self, from: SocketAddr, why: &dyn Display) {
        self.write_trace(TraceEvent::Drop, Some(from), format_args!("why=\"{why}\""));
    }

    /// Traces what is about to enter the completion queues.
    #[cold]
    pub(crate) fn trace_completions(&mut self) {
        let done: Vec<Completion> =
            self.sends_done.iter().chain(&self.recvs_done).copied().collect();
        for Completion { wr_id, status, op, src_qpn, src_addr, byte_len, .. } in done {
            let is_from_peer = !op.is_send_queue() && src_addr != NOWHERE;
            let peer = is_from_peer.then_some(Sender { addr: src_addr, qpn: src_qpn });
            let (op, code) = (name_of_completion(op), status.code());
            self.write_trace_of(
                TraceEvent::Completion,
                peer,
                format_args!("op={op} status={code}:{status:?} len={byte_len} wr_id={wr_id:#x}"),
            );
        }
    }

    /// Traces a change of state; `None` means destroyed.
    pub(crate) fn trace_state(&mut self, from: QpState, to: Option<QpState>) {
        match to {
            Some(to) => {
                self.write_trace(TraceEvent::State, None, format_args!("from={from:?} to={to:?}"));
            }
            None => {
                self.write_trace(
                    TraceEvent::State,
                    None,
                    format_args!("from={from:?} to=Destroyed"),
                );
            }
        }
    }
}

fn name_of_wr(op: SendOp) -> &'static str {
    match op {
        SendOp::Send => "SEND",
        SendOp::SendImm(_) => "SEND_IMM",
        SendOp::Read(_) => "READ",
        SendOp::Write(_) => "WRITE",
        SendOp::WriteImm(..) => "WRITE_IMM",
        SendOp::AtomicWrite(_) => "ATOMIC_WRITE",
        SendOp::Flush(..) => "FLUSH",
        SendOp::SendInvalidate(_) => "SEND_INV",
        SendOp::CompareSwap { .. } => "COMPARE_SWAP",
        SendOp::FetchAdd { .. } => "FETCH_ADD",
        SendOp::LocalInvalidate(_) => "LOCAL_INV",
        SendOp::BindWindow(_) => "BIND_MW",
    }
}

fn name_of_completion(op: CompletionOp) -> &'static str {
    match op {
        CompletionOp::Send => "SEND",
        CompletionOp::Write => "WRITE",
        CompletionOp::AtomicWrite => "ATOMIC_WRITE",
        CompletionOp::Flush => "FLUSH",
        CompletionOp::Read => "READ",
        CompletionOp::CompareSwap => "COMPARE_SWAP",
        CompletionOp::FetchAdd => "FETCH_ADD",
        CompletionOp::LocalInvalidate => "LOCAL_INV",
        CompletionOp::BindWindow => "BIND_MW",
        CompletionOp::Recv => "RECV",
        CompletionOp::RecvWrite => "RECV_WRITE",
        CompletionOp::UnsolicitedWrite => "UNSOLICITED_WRITE",
    }
}
