//! Datagrams that did not reach a queue pair, or that it cannot open.

use std::net::IpAddr;

use srd::Instant;
use srd::wire::Header;

use super::{SrdSide, address};
use crate::seal::Notice;
use crate::wire::Quote;

impl SrdSide {
    /// Ends what was sent to ports that are closed according to the peer's kernel (SRD-3.7,
    /// SRD-11.8).
    #[inline]
    pub(super) fn take_refusals(&mut self, now: Instant) {
        if self.paths.has_refusals() && self.has_looked_everywhere() {
            self.take_some_refusals(now);
        }
    }

    /// First reads what a peer that is gone may have answered before.
    #[cold]
    fn has_looked_everywhere(&mut self) -> bool {
        if !self.has_looked {
            self.has_looked = true;
            self.shell.poll_everything();
            return false;
        }
        let is_over = self.shell.has_read_all();
        self.has_looked = !is_over;
        is_over
    }

    #[cold]
    fn take_some_refusals(&mut self, now: Instant) {
        let (qpn, sealed) = (self.shell.port, self.shell.framing.sealed());
        let is_mine = |quote: &Quote| match sealed {
            Some(sealed) => sealed.destination_of(quote.bytes(), quote.to).is_some(),
            None => Header::parse(quote.bytes()).is_ok_and(|header| header.src_qpn == qpn),
        };
        for quote in self.paths.take_refused(now, is_mine) {
            if self.shell.is_traced() {
                self.trace_refused(quote.bytes());
            }
            let Some(sealed) = self.shell.framing.sealed() else {
                self.endpoint.handle_unreachable(now, quote.bytes());
                continue;
            };
            if let Some(to) = sealed.destination_of(quote.bytes(), quote.to) {
                self.endpoint.peer_unreachable(now, address(to));
            }
        }
    }

    /// Ends what was sent to a peer that cannot open it (SRD-11.10).
    pub(super) fn take_notice_srd(&mut self, now: Instant, from: IpAddr, notice: &Notice) {
        if let Some(sealed) = self.shell.framing.sealed_mut() {
            let Some(to) = sealed.refused_by(notice, from) else { return };
            if self.shell.is_traced() {
                self.trace_refused(&notice.quote);
            }
            self.endpoint.peer_unreachable(now, address(to));
        } else {
            if self.shell.is_traced() {
                self.trace_refused(&notice.quote);
            }
            self.endpoint.handle_unreachable(now, &notice.quote);
        }
    }
}
