//! The trace of the engine's events. Call sites check whether there is a trace, so that the rest is
//! out of line.

use std::net::SocketAddr;

use srd::wire::{self, DataRepr, Header};
use srd::{Arrival, DropReason, Event, PeerId, Received, Reject, Transmit};

use super::{SrdSide, socket_addr};
use crate::datagram::Datagram;
use crate::trace::{AckText, DataText, TraceEvent};

impl SrdSide {
    fn address_of(&self, peer: PeerId) -> Option<SocketAddr> {
        self.endpoint.address(peer).map(|at| socket_addr(at.host, at.qpn))
    }

    /// Traces a datagram that is about to leave.
    #[cold]
    pub(super) fn trace_transmit(&mut self, out: &Transmit, headers: &[u8]) {
        let peer = Some(socket_addr(out.addr.host, out.addr.qpn));
        let len = out.header_len + out.payload_len as usize;
        let Ok(common) = Header::parse(headers) else { return };
        let path = out.path.0;
        let headers_len = if out.framed > 0 { len } else { out.header_len };
        let Ok(datagram) = wire::Datagram::parse(common, &headers[..headers_len], len) else {
            self.shell.write_trace(
                TraceEvent::Transmit,
                peer,
                format_args!("op=RESET path={path}"),
            );
            return;
        };
        let event = if out.retransmission { TraceEvent::Retransmit } else { TraceEvent::Transmit };
        for (data, _) in datagram.messages(headers) {
            let first = datagram.data.map_or(data.psn, |first| first.psn);
            let text = DataText { common, data, first };
            self.shell.write_trace(event, peer, format_args!("{text}"));
        }
        if let Some(ack) = datagram.ack {
            self.shell.write_trace(
                TraceEvent::Ack,
                peer,
                format_args!("dir=out path={path} {}", AckText(ack)),
            );
        }
    }

    /// Traces a datagram from `host`, and what the engine made of it.
    #[cold]
    pub(super) fn trace_receive(
        &mut self,
        host: u64,
        datagram: &Datagram<'_>,
        result: &Result<Received, DropReason>,
    ) {
        let Ok(common) = Header::parse(datagram.head) else {
            self.shell.trace_drop(socket_addr(host, 0), &"no header of ours");
            return;
        };
        let peer = Some(socket_addr(host, common.src_qpn));
        let received = match result {
            Ok(received) => received,
            Err(why) => return self.shell.trace_drop(socket_addr(host, common.src_qpn), why),
        };
        if self.heard.insert(received.peer) {
            self.shell.write_trace(TraceEvent::Peer, peer, format_args!("is=up"));
        }
        // A RESET becomes an event of the peer.
        let Ok(parsed) = wire::Datagram::parse(common, datagram.head, datagram.len()) else {
            return;
        };
        let path = common.path.0;
        // Those of a frame are told of one by one.
        if let Some(data) = parsed.data.filter(|_| !received.is_frame) {
            let text = DataText { common, data, first: data.psn };
            let known = received.data.is_none();
            self.shell.write_trace(TraceEvent::Receive, peer, format_args!("{text} again={known}"));
        }
        if let Some(ack) = parsed.ack {
            self.shell.write_trace(
                TraceEvent::Ack,
                peer,
                format_args!("dir=in path={path} {}", AckText(ack)),
            );
        }
    }

    /// Traces the arrival of those messages of the frame in `bytes` whose payload begins after
    /// `told` and not after `new`, where the payload of a new one begins. The others have been
    /// traced.
    #[cold]
    pub(super) fn trace_framed(&mut self, bytes: &[u8], told: usize, new: usize) {
        let Ok(common) = Header::parse(bytes) else { return };
        let Ok(datagram) = wire::Datagram::parse(common, bytes, bytes.len()) else { return };
        let peer = Some(SocketAddr::new(self.shell.arriving_from(), common.src_qpn));
        let Some(DataRepr { psn: first, .. }) = datagram.data else { return };
        for (data, start) in datagram.messages(bytes) {
            if start > told && start <= new {
                let (text, known) = (DataText { common, data, first }, start != new);
                self.shell.write_trace(
                    TraceEvent::Receive,
                    peer,
                    format_args!("{text} again={known}"),
                );
            }
        }
    }

    #[cold]
    pub(super) fn trace_answer(&mut self, arrival: &Arrival, answer: Result<(), Reject>) {
        let (peer, psn) = (self.address_of(arrival.peer), arrival.psn.0);
        match answer {
            Ok(()) => self.shell.write_trace(TraceEvent::Accept, peer, format_args!("psn={psn}")),
            Err(why) => {
                let status = why.status().code();
                self.shell.write_trace(
                    TraceEvent::Reject,
                    peer,
                    format_args!("psn={psn} status={status}:{why:?}"),
                );
            }
        }
    }

    /// Traces an event of the engine. Finished messages become completions, which are traced
    /// elsewhere.
    #[cold]
    pub(super) fn trace_event(&mut self, event: &Event) {
        let (peer, is) = match *event {
            Event::Completed { .. } => return,
            Event::Lost { peer, psn, path, by_silence } => {
                let (peer, psn, path) = (self.address_of(peer), psn.0, path.0);
                let by = if by_silence { "silence" } else { "later-answer" };
                return self.shell.write_trace(
                    TraceEvent::Loss,
                    peer,
                    format_args!("psn={psn} path={path} by={by}"),
                );
            }
            Event::PeerUnresponsive { peer } => (peer, "unresponsive"),
            Event::PeerReset { peer } => (peer, "reset"),
            Event::PeerImpaired { peer } => (peer, "impaired"),
        };
        if is != "impaired" {
            self.heard.remove(&peer);
        }
        let peer = self.address_of(peer);
        self.shell.write_trace(TraceEvent::Peer, peer, format_args!("is={is}"));
    }

    /// Traces that the receiver of a datagram is unreachable.
    pub(super) fn trace_refused(&mut self, quoted: &[u8]) {
        // Its numbers stand in the same place in every kind of datagram.
        let Some(&[high, low]) = quoted.get(6..8).and_then(|raw| raw.first_chunk()) else { return };
        let dst_qpn = u16::from_be_bytes([high, low]);
        self.shell.write_trace(TraceEvent::Peer, None, format_args!("is=refused qpn={dst_qpn}"));
    }

    pub(super) fn trace_timer(&mut self, timeouts: u64) {
        let in_flight = self.endpoint.in_flight();
        self.shell.write_trace(
            TraceEvent::Timer,
            None,
            format_args!("in_flight={in_flight} retransmission_timeouts={timeouts}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OP_GONE, OP_SEND, rdma};
    use crate::trace::op_name;

    #[test]
    fn operations_have_their_names() {
        let ops = [
            (OP_SEND, "SEND"),
            (rdma::OP_WRITE, "WRITE"),
            (rdma::OP_READ, "READ"),
            (rdma::OP_READ_DATA, "READ_DATA"),
            (rdma::OP_READ_FAIL, "READ_FAIL"),
            (rdma::OP_PROBE, "READ_PROBE"),
            (rdma::OP_WRITE_LOCAL, "WRITE_LOCAL"),
            (rdma::OP_READ_GRANT, "READ_GRANT"),
            (rdma::OP_READ_CONFIRM, "READ_CONFIRM"),
            (OP_GONE, "GONE"),
            (99, "UNKNOWN"),
        ];
        for (op, name) in ops {
            assert_eq!(op_name(op), name);
        }
    }
}
