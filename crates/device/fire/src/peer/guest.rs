//! Queue pairs, regions and address handles that come and go beside the traffic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use softefa::{Access, Completion, Qp, SendOp, Status};

use super::endpoint::{self, Endpoint, Target};
use super::pattern;

/// Sources of guests begin here.
pub(super) const SOURCES: u64 = 1 << 32;
/// At most one guest in this time.
const EVERY: Duration = Duration::from_millis(2);

/// One guest at a time: made, used for a message, destroyed.
pub(super) struct Guests {
    source: u64,
    /// Words of the `peer` command.
    peer: Vec<String>,
    living: Option<(Arc<Qp>, Target)>,
    last: Instant,
    /// Messages of guests that were begun.
    pub(super) sent: u64,
    pub(super) failed: u64,
}

impl Guests {
    pub(super) fn new(source: u32, peer: &[&str]) -> Self {
        let peer = peer.iter().map(|&word| word.to_owned()).collect();
        let source = SOURCES + u64::from(source);
        Self { source, peer, living: None, last: Instant::now(), sent: 0, failed: 0 }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.living.is_some()
    }

    /// Makes one when it is time.
    pub(super) fn turn(&mut self, end: &Endpoint) -> Result<()> {
        if self.is_alive() || self.last.elapsed() < EVERY {
            return Ok(());
        }
        self.last = Instant::now();
        let scratch = [0u64; 512];
        let region = end.pd.reg_mr(scratch.as_ptr() as usize as u64, 4096, Access::default())?;
        let words: Vec<&str> = self.peer.iter().map(String::as_str).collect();
        let target = end.target(&words)?;
        let qp = Qp::create(&end.pd, endpoint::init(&end.cq))?;
        endpoint::up(&qp)?;
        let slot = end.guest_slot();
        pattern::fill(end.slot(slot), self.source, self.sent);
        end.post(&qp, &target, SendOp::Send, slot)?;
        self.sent += 1;
        self.living = Some((qp, target));
        region.deregister();
        Ok(())
    }

    /// Whether this completion was the guest's, which then has ended.
    pub(super) fn took(&mut self, done: &Completion) -> bool {
        let Some((qp, target)) = self.living.take_if(|(qp, _)| qp.qpn() == done.qpn) else {
            return false;
        };
        self.failed += u64::from(done.status != Status::Ok);
        qp.destroy();
        target.ah.destroy();
        true
    }
}
