//! Receiving: datagrams to the engine, and messages to the parts that serve them.

use std::net::IpAddr;

use srd::{Arrival, DropReason, Instant, Received, Reject};

use super::{OP_SEND, SrdSide, host_at, rdma, socket_addr};
use crate::counters::Counter;
use crate::datagram::{Datagram, Payload};
use crate::memory::Gone;
use crate::qp_state::QpState;
use crate::side::FLAG_IMM;
use crate::status::Status;

/// The number of messages in flight that make a stream, whose acknowledgements are sent separately.
const STREAM_MESSAGES: usize = 8;

impl SrdSide {
    /// Returns true if many acknowledgements are expected.
    pub(super) fn awaits_many(&self) -> bool {
        self.endpoint.in_flight() >= STREAM_MESSAGES
    }

    pub(super) fn receive_srd(&mut self, now: Instant, from: IpAddr, datagram: &Datagram<'_>) {
        // Not up yet: as if the datagram had come a little later. The sender repeats it.
        if matches!(self.shell.attrs.state, QpState::Reset | QpState::Init) {
            self.shell.drop_datagram(from, &"the queue pair is not ready to receive");
            return;
        }
        let host = host_at(from);
        let result = self.endpoint.handle_datagram(now, host, datagram.head, datagram.len());
        if self.shell.is_traced() {
            self.trace_receive(host, datagram, &result);
        }
        match result {
            // With a key everybody is asked for proof, and comes again: nothing is lost.
            Err(DropReason::Unproven) if self.shell.framing.sealed().is_some() => {}
            Err(_) => {
                self.shell.useless += 1;
                self.shell.device.counters.add(Counter::RxDrops, 1);
            }
            Ok(Received { data: Some(arrival), header_len, .. }) => {
                self.take_arrival(now, &arrival, datagram.payload(header_len));
            }
            Ok(Received { is_frame: true, .. }) => self.take_frame(now, datagram),
            Ok(_) => {}
        }
    }

    /// Serves a new message, and answers it.
    #[inline]
    pub(super) fn take_arrival(&mut self, now: Instant, arrival: &Arrival, payload: Payload<'_>) {
        let answer = self.deliver(now, arrival, payload);
        if self.shell.is_traced() {
            self.trace_answer(arrival, answer);
        }
        match answer {
            Ok(()) => {
                self.last_accepted = Some(now);
                self.endpoint.accept(now, arrival.peer, arrival.psn);
            }
            Err(why) => self.endpoint.reject(now, arrival.peer, arrival.psn, why),
        }
    }

    /// Serves a new message.
    fn deliver(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        payload: Payload<'_>,
    ) -> Result<(), Reject> {
        if self.shell.attrs.state == QpState::Error || arrival.qkey != self.shell.attrs.qkey {
            // A successor that inherited the number has another key: the peer meant is gone.
            return Err(Reject::BadDestQpn);
        }
        match arrival.op {
            OP_SEND => self.deliver_send(arrival, payload),
            rdma::OP_WRITE => self.serve_write(arrival, payload),
            rdma::OP_READ => self.serve_read(now, arrival, payload),
            rdma::OP_READ_DATA => self.take_read_data(arrival, payload),
            rdma::OP_READ_FAIL => self.take_read_fail(arrival, payload),
            rdma::OP_WRITE_LOCAL => self.serve_write_local(arrival, payload),
            rdma::OP_READ_GRANT => self.take_read_grant(now, arrival, payload),
            rdma::OP_READ_CONFIRM => self.serve_read_confirm(payload),
            rdma::OP_PROBE => self.serve_probe(now, arrival, payload),
            // GONE among them: had the message arrived before, the engine would have said so.
            _ => Err(Reject::BadStatus),
        }
    }

    /// Puts a message into the next posted receive.
    fn deliver_send(&mut self, arrival: &Arrival, payload: Payload<'_>) -> Result<(), Reject> {
        let wr_id = loop {
            let is_there = self.shell.has_receive();
            let wqe = self.shell.rq.front().filter(|_| is_there).ok_or(Reject::Rnr)?;
            if payload.len() > wqe.capacity as usize {
                return Err(Reject::BadLength);
            }
            match wqe.fill(0, payload) {
                Ok(()) => break wqe.wr_id,
                Err(Gone) => self.shell.fail_first_recv(Status::LocalInvalidLkey),
            }
        };
        self.shell.rq.drop_first();
        let from = self.endpoint.address(arrival.peer).unwrap_or_default();
        let src = socket_addr(from.host, from.qpn);
        let imm = (arrival.flags & FLAG_IMM != 0).then_some(arrival.imm);
        self.shell.complete_recv(wr_id, &src.into(), payload.len(), imm, false);
        Ok(())
    }
}
