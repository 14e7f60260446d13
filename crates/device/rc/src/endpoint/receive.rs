//! Handling of a received packet.

use super::{Endpoint, Half, State};
use crate::wire::{Bth, Cnp, Headers, Kind, Packet, icrc};
use crate::{DropReason, Event, Instant, Received};

impl Endpoint {
    #[inline]
    pub(super) fn receive(
        &mut self,
        now: Instant,
        bytes: &[u8],
        len: usize,
        may_be_joined: bool,
    ) -> Result<Received, DropReason> {
        if self.arrival.take().is_some() {
            self.requester.forget_arrival();
            self.responder.forget_arrival();
        }
        if bytes.first() == Some(&Cnp::OPCODE) {
            return self.receive_cnp(bytes, len);
        }
        // Filled in in place, because copying what was just written stalls the processor.
        let mut packet = Packet { headers: Headers::new(Bth::parse(bytes)?), payload_len: 0 };
        packet.finish(bytes, len)?;
        let service = self.shared.service;
        if !may_be_joined || !service.is_reliable() {
            // On other transports these bits are reserved.
            packet.headers.bth.joined = 0;
        }
        let bth = &packet.headers.bth;
        self.check_destination(bth.dest_qpn, bth.pkey)?;
        let kind = bth.opcode.kind;
        let has_half =
            if kind.is_request() { service.has_responder() } else { service.has_requester() };
        if bth.opcode.transport != service.transport() || !has_half {
            return Err(DropReason::Service);
        }
        let (payload_at, srq) = (packet.payload_at(), packet.headers.named_srq());
        if kind.is_request() {
            if matches!(self.state, State::Reset | State::Error) {
                self.responder.repeat_final_answer(bth.psn, &self.shared);
                return Err(DropReason::State);
            }
            let arrival = Some(self.responder.on_request(now, &packet, &mut self.shared)?);
            self.note_established();
            self.arrival = Some(Half::Responder);
            return Ok(Received { payload_at, arrival, srq });
        }
        if !matches!(self.state, State::Sending | State::Draining) {
            return Err(DropReason::State);
        }
        let arrival = self.receive_answer(now, &packet)?;
        self.arrival = arrival.map(|_| Half::Requester);
        Ok(Received { payload_at, arrival, srq })
    }

    /// Counts the result of [`Endpoint::receive`] and handles the failures and events that
    /// followed.
    #[inline]
    pub(super) fn note_received(&mut self, result: &Result<Received, DropReason>) {
        match result {
            Ok(_) => self.shared.stats.rx_packets += 1,
            Err(reason) => self.shared.stats.dropped[*reason as usize] += 1,
        }
        self.note_failures();
    }

    fn receive_answer(
        &mut self,
        now: Instant,
        packet: &Packet,
    ) -> Result<Option<crate::Arrival>, DropReason> {
        let (headers, shared) = (&packet.headers, &mut self.shared);
        if headers.bth.opcode.kind == Kind::Acknowledge {
            self.requester.on_acknowledge(now, headers, shared)?;
            return Ok(None);
        }
        self.requester.on_response(now, headers, packet.payload_len, shared)
    }

    fn receive_cnp(&mut self, bytes: &[u8], len: usize) -> Result<Received, DropReason> {
        let cnp = Cnp::parse(bytes)?;
        if len != Cnp::LEN + icrc::LEN {
            return Err(DropReason::Malformed);
        }
        self.check_destination(cnp.dest_qpn, cnp.pkey)?;
        self.shared.stats.rx_congestion += 1;
        self.shared.events.push_back(Event::Congestion);
        Ok(Received { payload_at: Cnp::LEN, arrival: None, srq: None })
    }

    /// Only the lower 15 bits identify a partition; full members also talk to limited ones.
    #[inline]
    pub(super) fn check_destination(&self, dest_qpn: u32, pkey: u16) -> Result<(), DropReason> {
        let our_pkey = self.shared.config.pkey;
        if dest_qpn != self.qpn {
            return Err(DropReason::WrongQpn);
        }
        if (pkey ^ our_pkey) & 0x7FFF != 0 || (pkey | our_pkey) & 0x8000 == 0 {
            return Err(DropReason::WrongPkey);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn note_established(&mut self) {
        if !self.is_established {
            self.is_established = true;
            self.shared.events.push_back(Event::Established);
        }
    }
}
