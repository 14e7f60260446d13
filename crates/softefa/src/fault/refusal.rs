//! Work requests that fail although nothing is wrong with them.

use super::FaultSpec;
use super::random::{Die, Random, Use};

/// Decides for one queue pair which arriving messages find no receive, and which sends fail.
#[derive(Debug)]
pub(crate) struct Refusals {
    not_ready: Die,
    internal_error: Die,
}

impl Refusals {
    /// Arguments as for [`Dice::new`](super::Dice::new).
    pub(crate) fn new(spec: &FaultSpec, stream: u64) -> Self {
        let die = |share_ppm, purpose| Die::new(share_ppm, Random::new(spec.seed, stream, purpose));
        Self {
            not_ready: die(spec.rnr_ppm, Use::NotReady),
            internal_error: die(spec.internal_ppm, Use::InternalError),
        }
    }

    /// This message is to be treated as if no receive were posted.
    #[inline]
    pub(crate) fn is_not_ready(&mut self) -> bool {
        self.not_ready.hits()
    }

    /// This send is to end with an internal error.
    #[inline]
    pub(crate) fn is_internal_error(&mut self) -> bool {
        self.internal_error.hits()
    }
}
