//! Local transports that carry several packets of a message as one (RC-1.15).

use super::{Endpoint, Shared, State};
use crate::{DropReason, HEADER_MAX, Instant, Received, Transmit};

impl Endpoint {
    /// Handles a packet like [`Endpoint::handle_packet`], from a transport that may join packets
    /// (RC-1.15).
    ///
    /// # Errors
    /// As [`Endpoint::handle_packet`].
    #[inline]
    pub fn handle_joined(
        &mut self,
        now: Instant,
        bytes: &[u8],
        len: usize,
    ) -> Result<Received, DropReason> {
        let result = self.receive(now, bytes, len, true);
        self.note_received(&result);
        result
    }

    /// Returns packets like [`Endpoint::poll_transmit`], for a transport that may join them
    /// (RC-1.15): a packet contains those that follow it in its message, if their payload is at
    /// most `joined_bytes` together. The host may change to 0 at any time.
    #[inline]
    pub fn poll_joined(
        &mut self,
        now: Instant,
        header: &mut [u8; HEADER_MAX],
        joined_bytes: u32,
    ) -> Option<Transmit> {
        let shared = &mut self.shared;
        let joined_bytes = if shared.service.is_reliable() { joined_bytes } else { 0 };
        let sends = matches!(self.state, State::Sending | State::Draining);
        if sends && self.responder.check_yield() {
            let request = self.requester.next_packet(now, shared, joined_bytes, header);
            if request.is_some() {
                return request;
            }
        }
        let is_requesting = |shared: &Shared| sends && self.requester.has_work(shared);
        let responder = &mut self.responder;
        let response = responder.next_response(now, shared, joined_bytes, is_requesting, header);
        if response.is_some() || !sends {
            return response;
        }
        self.requester.next_packet(now, shared, joined_bytes, header)
    }
}
