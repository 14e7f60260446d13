//! The trace of packets and connections. Call sites check whether there is a trace.

use rc::wire::Headers;
use rc::{DropReason, Event, Received, Transmit};

use super::RcSide;
use crate::completion::Sender;
use crate::request::SendWr;
use crate::trace::TraceEvent;

impl RcSide {
    fn whom(&self) -> Option<Sender> {
        let addr = self.peer?.ip();
        Some(Sender { addr, qpn: self.shell.attrs.dest_qpn })
    }

    #[cold]
    pub(super) fn trace_post(&mut self, len: u32, wr: &SendWr<'_>, signaled: bool) {
        let whom = self.whom();
        self.shell.trace_post_to(whom, len, wr, signaled);
    }

    #[cold]
    pub(super) fn trace_transmit(&mut self, out: &Transmit, header: &[u8]) {
        let (whom, len) = (self.whom(), out.payload.len());
        let event = if out.is_repeated { TraceEvent::Retransmit } else { TraceEvent::Transmit };
        let Ok(headers) = Headers::parse(header) else { return };
        let (kind, psn) = (headers.bth.opcode.kind, headers.bth.psn.get());
        self.shell.write_trace_of(event, whom, format_args!("op={kind:?} psn={psn} len={len}"));
    }

    #[cold]
    pub(super) fn trace_received(&mut self, head: &[u8], result: &Result<Received, DropReason>) {
        let whom = self.whom();
        if let Err(why) = result {
            return self.shell.write_trace_of(
                TraceEvent::Drop,
                whom,
                format_args!("why=\"{why}\""),
            );
        }
        let Ok(headers) = Headers::parse(head) else { return };
        let (kind, psn) = (headers.bth.opcode.kind, headers.bth.psn.get());
        if kind.has_aeth() {
            let syndrome = headers.aeth.syndrome;
            return self.shell.write_trace_of(
                TraceEvent::Receive,
                whom,
                format_args!("op={kind:?} psn={psn} syndrome={syndrome:?}"),
            );
        }
        self.shell.write_trace_of(TraceEvent::Receive, whom, format_args!("op={kind:?} psn={psn}"));
    }

    #[cold]
    pub(super) fn trace_event(&mut self, event: &Event) {
        let whom = self.whom();
        self.shell.write_trace_of(TraceEvent::Peer, whom, format_args!("is={event:?}"));
    }

    #[cold]
    pub(super) fn trace_unreachable(&mut self) {
        let whom = self.whom();
        self.shell.write_trace_of(TraceEvent::Peer, whom, format_args!("is=refused"));
    }
}
