//! Finds the queue pair of a RoCE device that a packet of a connection belongs to, because a packet
//! names its receiver only.
//!
//! The packets that a queue pair sends and those that it receives are matched by their numbers. An
//! answer has the number of a request that went the other way. If only one connection can have sent
//! that request, the answer belongs to it.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Number of bits of a packet number, which wraps.
const PSN_BITS: u32 = 24;

/// The owner of the packets to a queue pair of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Known(u32),
    /// The owner is not known, at least not yet.
    Unknown,
}

/// The numbers of the requests that went one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
}

impl Range {
    fn has(self, psn: u32) -> bool {
        ahead(psn, self.first) <= ahead(self.last, self.first)
    }

    /// Adds a number; returns false if it does not follow all that were there.
    fn grow(range: &mut Option<Self>, psn: u32) -> bool {
        let Some(known) = range else {
            *range = Some(Self { first: psn, last: psn });
            return true;
        };
        let step = ahead(psn, known.last);
        let is_new = step != 0 && step < 1 << (PSN_BITS - 1);
        if is_new {
            known.last = psn;
        }
        is_new
    }
}

/// Returns how far `psn` is ahead of `from`.
fn ahead(psn: u32, from: u32) -> u32 {
    psn.wrapping_sub(from) & ((1 << PSN_BITS) - 1)
}

/// The connections of one device.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// The requests sent to each queue pair of a peer.
    sent: BTreeMap<(IpAddr, u32), Option<Range>>,
    /// The requests received by each queue pair of this device, and their source.
    received: BTreeMap<(IpAddr, u32), Option<Range>>,
    /// The queue pairs of peers, each with ours.
    pairs: BTreeMap<(IpAddr, u32), u32>,
}

impl Flows {
    /// Returns our queue pair that sends to `qpn` at `ip`.
    pub(super) fn owner(&self, ip: IpAddr, qpn: u32) -> Owner {
        self.pairs.get(&(ip, qpn)).map_or(Owner::Unknown, |our_qpn| Owner::Known(*our_qpn))
    }

    /// Returns the queue pair of the peer that `our_qpn` is connected to.
    pub(super) fn peer(&self, our_qpn: u32) -> Option<u32> {
        self.pairs.iter().find(|(_, known)| **known == our_qpn).map(|((_, qpn), _)| *qpn)
    }

    /// Records a packet to `qpn` at `ip`. Returns whether it was sent before, and whether it
    /// identified its connection.
    pub(super) fn sent(&mut self, ip: IpAddr, qpn: u32, psn: u32, is_answer: bool) -> (bool, bool) {
        if is_answer {
            let our_qpn = only(&self.received, ip, psn, |our_qpn| !self.is_paired(our_qpn));
            return (false, our_qpn.is_some_and(|our_qpn| self.pair(ip, qpn, our_qpn)));
        }
        (!Range::grow(self.sent.entry((ip, qpn)).or_default(), psn), false)
    }

    /// Records a packet from `ip` for our queue pair `our_qpn`; returns whether that identified its
    /// connection.
    pub(super) fn received(&mut self, ip: IpAddr, our_qpn: u32, psn: u32, is_answer: bool) -> bool {
        if is_answer {
            let is_free = |qpn| !self.pairs.contains_key(&(ip, qpn));
            let qpn = only(&self.sent, ip, psn, is_free);
            return qpn.is_some_and(|qpn| !self.is_paired(our_qpn) && self.pair(ip, qpn, our_qpn));
        }
        Range::grow(self.received.entry((ip, our_qpn)).or_default(), psn);
        false
    }

    fn is_paired(&self, our_qpn: u32) -> bool {
        self.pairs.values().any(|known| *known == our_qpn)
    }

    /// Connects a queue pair of a peer with ours; returns true if that is new.
    fn pair(&mut self, ip: IpAddr, qpn: u32, our_qpn: u32) -> bool {
        let is_new = !self.pairs.contains_key(&(ip, qpn));
        if is_new {
            self.pairs.insert((ip, qpn), our_qpn);
        }
        is_new
    }
}

/// Returns the only one of the free queue pairs that may have the request `psn`.
fn only(
    requests: &BTreeMap<(IpAddr, u32), Option<Range>>,
    ip: IpAddr,
    psn: u32,
    is_free: impl Fn(u32) -> bool,
) -> Option<u32> {
    let mut found = requests
        .iter()
        .filter(|((at, qpn), range)| {
            *at == ip && is_free(*qpn) && range.is_some_and(|range| range.has(psn))
        })
        .map(|((_, qpn), _)| *qpn);
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn an_answer_tells_whose_requests_were_sent() {
        let mut flows = Flows::default();
        assert_eq!(flows.sent(IP, 7, 0xff_ffff, false), (false, false));
        assert_eq!(flows.sent(IP, 7, 0, false), (false, false));
        assert_eq!(flows.sent(IP, 7, 0xff_ffff, false), (true, false), "once more");
        assert_eq!(flows.owner(IP, 7), Owner::Unknown);
        assert!(!flows.received(IP, 9, 5, true), "nobody asked for that");
        assert!(flows.received(IP, 9, 0, true));
        assert_eq!((flows.owner(IP, 7), flows.peer(9)), (Owner::Known(9), Some(7)));
    }

    #[test]
    fn who_answers_is_known_by_what_it_received() {
        let mut flows = Flows::default();
        assert!(!flows.received(IP, 9, 100, false));
        assert_eq!(flows.sent(IP, 7, 100, true), (false, true));
        assert_eq!(flows.owner(IP, 7), Owner::Known(9));
    }

    #[test]
    fn two_that_could_be_it_stay_unknown() {
        let mut flows = Flows::default();
        for qpn in [7, 8] {
            flows.sent(IP, qpn, 100, false);
        }
        assert!(!flows.received(IP, 9, 100, true));
        assert_eq!(flows.owner(IP, 7), Owner::Unknown);
    }
}
