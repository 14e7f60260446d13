//! Timers, and packets that did not reach the peer, or that it cannot open.

use std::net::IpAddr;

use rc::wire::Bth;
use srd::Instant;

use super::{RcSide, time};
use crate::seal::Notice;
use crate::wire::Quote;

/// How often refused datagrams are checked at most while the peer does not answer.
const COLLECT_NS: u64 = 1_000_000;
/// If a timer is this late the process has not run, and reads what has arrived before the timer
/// acts.
const LATE_NS: u64 = 1_000_000;

impl RcSide {
    pub(super) fn expire(&mut self, now: Instant) {
        let due = self.endpoint.poll_timeout().filter(|&at| at <= time(now));
        let is_late = due.is_some_and(|at| time(now).ns_since(at) >= LATE_NS);
        if is_late && !self.shell.has_read_all() {
            return;
        }
        // Before a timer draws conclusions: somebody may have said why nobody answers.
        if due.is_some() && now.ns_since(self.last_collection) >= COLLECT_NS {
            self.last_collection = now;
            self.paths.collect_refusals(now);
        }
        if self.paths.has_refusals() && self.shell.has_read_all() {
            self.take_refusals(now);
        }
        if due.is_some() {
            self.endpoint.handle_timeout(time(now));
            self.move_counts();
        }
    }

    /// Refusals for an earlier connection to a peer of this number say nothing about this peer.
    pub(super) fn forget_refusals(&mut self, now: Instant) {
        self.paths.collect_refusals(now);
        self.take_refused(now);
    }

    #[cold]
    fn take_refusals(&mut self, now: Instant) {
        if self.take_refused(now) {
            if self.shell.is_traced() {
                self.trace_unreachable();
            }
            self.endpoint.peer_unreachable(time(now));
        }
    }

    /// Takes refusals of packets to the peer; returns whether there were any.
    fn take_refused(&mut self, now: Instant) -> bool {
        let Some(peer) = self.peer else { return false };
        let dest_qpn = self.shell.attrs.dest_qpn;
        let sealed = self.shell.framing.sealed();
        let is_mine = |quote: &Quote| match sealed {
            Some(sealed) => sealed.destination_of(quote.bytes(), quote.to) == Some(peer),
            None => {
                let bth = Bth::parse(quote.bytes());
                quote.to == peer.ip() && bth.is_ok_and(|bth| bth.dest_qpn == dest_qpn)
            }
        };
        !self.paths.take_refused(now, is_mine).is_empty()
    }

    /// Handles a notice that the peer cannot open packets (RC-1.13): no queue pair there has this
    /// key.
    pub(super) fn take_notice_rc(&mut self, now: Instant, from: IpAddr, notice: &Notice) {
        let Some(sealed) = self.shell.framing.sealed_mut() else { return };
        let refused = sealed.refused_by(notice, from);
        if refused.is_some() && refused == self.peer {
            if self.shell.is_traced() {
                self.trace_unreachable();
            }
            self.endpoint.peer_unreachable(time(now));
        }
    }
}
