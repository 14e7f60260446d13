//! Datagrams that cannot be used, and notices about ours (docs/PROTOCOL.md, SRD-11.9 and 11.10).

use std::net::{IpAddr, SocketAddr};

use srd::Instant;

use super::{Shell, Side};
use crate::counters::Counter;
use crate::framing::{Framing, Unfit};
use crate::seal::{Envelope, NOTICE_BYTES, Notice, Refusal};
use crate::wire::{QPN_FIRST, Via};

/// The most notices that one turn sends.
const NOTICES_MAX: usize = 16;

/// A notice to a sender whose datagram cannot be opened.
#[derive(Debug)]
pub(super) struct OutgoingNotice {
    to: SocketAddr,
    bytes: [u8; NOTICE_BYTES],
}

/// Handles a datagram from `from` that cannot be used.
#[cold]
pub(super) fn turn_away<S: Side + ?Sized>(
    side: &mut S,
    now: Instant,
    from: IpAddr,
    datagram: &[u8],
    unfit: Unfit,
) {
    if let Some(notice) = Notice::parse(datagram) {
        side.shell().device.counters.add(Counter::RxNotices, 1);
        side.take_notice(now, from, &notice);
        return;
    }
    side.shell_mut().drop_unfit(now, from, datagram, unfit);
}

impl Shell {
    pub(super) fn drop_unfit(&mut self, now: Instant, from: IpAddr, datagram: &[u8], unfit: Unfit) {
        // Without a key: sealed by somebody who has one.
        let is_sealed = unfit == Unfit::Check && Envelope::parse(datagram).is_some();
        self.device.counters.add(counter_of(unfit, is_sealed), 1);
        self.drop_datagram(from, &unfit);
        let is_clear = unfit == Unfit::Seal(Refusal::NotSealed);
        if is_sealed || is_clear || unfit == Unfit::Seal(Refusal::Tag) {
            self.report_key_mismatch(now, from, datagram, is_sealed || is_clear);
        }
    }

    /// Tells user and sender that they have different keys. `is_certain` is false if a single
    /// datagram may just have been damaged; with different keys all of them fail.
    fn report_key_mismatch(
        &mut self,
        now: Instant,
        from: IpAddr,
        datagram: &[u8],
        is_certain: bool,
    ) {
        let sealed = self.framing.sealed();
        let is_host_known = sealed.is_some_and(|sealed| sealed.has_opened_from_host(from));
        let is_known = sealed.is_some_and(|sealed| sealed.has_opened_from(from, datagram));
        let is_repeated = self.unreadable.replace(from) == Some(from);
        if (is_certain || is_repeated) && !is_host_known {
            self.device.sealing.report_other_key(self.device.name(), from);
        }
        if !is_known {
            self.prepare_notice(now, from, datagram);
        }
    }

    fn prepare_notice(&mut self, now: Instant, from: IpAddr, datagram: &[u8]) {
        let Some(notice) = Notice::about(datagram) else { return };
        let to = SocketAddr::new(from, notice.dst_qpn());
        // Nobody else is told anything by way of us.
        if to.port() < QPN_FIRST || notice.src_qpn() != self.port {
            return;
        }
        if self.notices.len() < NOTICES_MAX && self.device.sealing.may_notify(now) {
            self.notices.push(OutgoingNotice { to, bytes: notice.emit() });
        }
    }

    /// Sends the notices for what the turn has received.
    #[cold]
    pub(super) fn send_notices(&mut self, now: Instant) {
        let notices = std::mem::take(&mut self.notices);
        if self.is_blocked() {
            return;
        }
        assert!(self.batch.is_empty(), "nothing leaves while something is received");
        for OutgoingNotice { to, bytes } in &notices {
            let nothing = std::iter::empty();
            let pushed = self.batch.push(&mut Framing::Done, *to, Via::OwnSocket, bytes, nothing);
            assert!(pushed.is_ok(), "the bytes are a copy of ours");
        }
        self.device.counters.add(Counter::TxNotices, notices.len() as u64);
        self.send_batch(now);
        // What cannot leave is lost like any other.
        while self.take_impossible().is_some() {}
    }
}

fn counter_of(unfit: Unfit, is_sealed: bool) -> Counter {
    match unfit {
        Unfit::Check if is_sealed => Counter::RxSealErrors,
        Unfit::Check => Counter::RxCrcErrors,
        Unfit::Seal(refusal) => Counter::of_refusal(refusal),
    }
}
