//! Refusals: work requests that fail although nothing is wrong with them.

use std::net::IpAddr;

use super::InForce;
use super::random::{Die, Random, Use};

/// Decides for one queue pair which arriving messages find no receive, and which sends fail.
#[derive(Debug)]
pub(crate) struct Refusals {
    not_ready: Die,
    internal_error: Die,
    /// The only peer that is affected; `None` = all peers.
    peer: Option<IpAddr>,
}

impl Refusals {
    /// Makes the refusals of `fault`; `stream` is that of [`Dice::new`](super::Dice::new).
    pub(crate) fn new(fault: &InForce, stream: u64) -> Self {
        let spec = &fault.spec;
        let die = |share_ppm, purpose| Die::new(share_ppm, Random::new(spec.seed, stream, purpose));
        Self {
            not_ready: die(spec.rnr_ppm, Use::NotReady),
            internal_error: die(spec.internal_ppm, Use::InternalError),
            peer: fault.peer,
        }
    }

    /// Returns true if this message of `from` must be treated as if no receive were posted.
    #[inline]
    pub(crate) fn is_not_ready(&mut self, from: IpAddr) -> bool {
        self.not_ready.is_thrown()
            && self.peer.is_none_or(|peer| peer == from)
            && self.not_ready.hits()
    }

    /// Returns true if sends may have to end with an internal error.
    #[inline]
    pub(crate) fn may_fail(&self) -> bool {
        self.internal_error.is_thrown()
    }

    /// Returns true if this send to `to` must end with an internal error.
    pub(crate) fn is_internal_error(&mut self, to: Option<IpAddr>) -> bool {
        self.peer.is_none_or(|peer| to == Some(peer)) && self.internal_error.hits()
    }
}
