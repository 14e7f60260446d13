//! Destinations to which the kernel does not segment trains of datagrams.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use srd::Instant;

/// The time after which a train is tried again, because routes and path MTUs change.
const RETRY_NS: u64 = 10_000_000_000;
/// The most destinations that are remembered. Others are only slower, because each try fails anew.
const DESTINATIONS_MAX: usize = 1024;

/// The destinations to which datagrams must leave one by one, and until when.
#[derive(Debug, Default)]
pub(super) struct Unsegmented {
    until: Mutex<HashMap<IpAddr, Instant>>,
    /// There is at least one destination.
    is_any: AtomicBool,
}

impl Unsegmented {
    /// Notes that a train to `addr` was refused.
    pub(super) fn note(&self, now: Instant, addr: IpAddr) {
        let mut until = self.lock();
        if until.len() >= DESTINATIONS_MAX {
            until.retain(|_, until| *until > now);
        }
        if until.len() < DESTINATIONS_MAX || until.contains_key(&addr) {
            until.insert(addr, now.plus_ns(RETRY_NS));
            self.is_any.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if a train to `addr` would be refused. It costs one load while there is no such
    /// destination.
    #[inline]
    pub(super) fn contains(&self, now: Instant, addr: IpAddr) -> bool {
        self.is_any.load(Ordering::Relaxed) && self.is_noted(now, addr)
    }

    #[cold]
    fn is_noted(&self, now: Instant, addr: IpAddr) -> bool {
        let mut until = self.lock();
        let is_noted = until.get(&addr).is_some_and(|until| *until > now);
        if !is_noted {
            until.remove(&addr);
            self.is_any.store(!until.is_empty(), Ordering::Relaxed);
        }
        is_noted
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn destinations_are_apart_and_tried_again() {
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let (now, routes) = (Instant::from_ns(5), Unsegmented::default());
        assert!(!routes.contains(now, a));
        routes.note(now, a);
        assert!(routes.contains(now, a) && !routes.contains(now, b));
        let later = now.plus_ns(RETRY_NS);
        assert!(!routes.contains(later, a));
        assert!(!routes.is_any.load(Ordering::Relaxed), "nothing is left to ask");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (now, routes) = (Instant::from_ns(5), Unsegmented::default());
        for host in 0..5000u32 {
            routes.note(now, Ipv4Addr::from_bits(host).into());
        }
        assert_eq!(routes.lock().len(), DESTINATIONS_MAX);
        // One that is remembered is remembered for longer.
        let (first, later) = (Ipv4Addr::from_bits(0).into(), now.plus_ns(RETRY_NS - 1));
        routes.note(later, first);
        assert!(routes.contains(later.plus_ns(2), first));
    }
}
