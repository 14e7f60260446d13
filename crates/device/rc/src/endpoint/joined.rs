//! Ways on which packets of a message travel as one (RC-1.15).

use super::{Endpoint, Shared, State};
use crate::{DropReason, HEADER_MAX, Instant, Received, Transmit};

impl Endpoint {
    /// Handles a packet as [`Endpoint::handle_packet`] does, from a way on which packets may be
    /// joined (RC-1.15).
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

    /// Returns packets as [`Endpoint::poll_transmit`] does, for a way on which they may be joined
    /// (RC-1.15): one with those that follow it in its message, when all of them together have a
    /// payload of at most `joined_bytes`. The host gives this up for 0 whenever it likes.
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
        if sends && self.responder.gives_way() {
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
