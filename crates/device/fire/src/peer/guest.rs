//! Short-lived queue pairs, regions and address handles beside the traffic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use softefa::{Access, Completion, Qp, SendOp, Status};

use super::endpoint::{self, Endpoint, Target};
use super::pattern;

/// The message sources of guests begin at this number.
pub(super) const SOURCES: u64 = 1 << 32;
/// The least time between two guests.
const EVERY: Duration = Duration::from_millis(2);

/// Guests, one at a time: each is created, sends one message and is destroyed.
pub(super) struct Guests {
    source: u64,
    /// The words of the `peer` command.
    peer: Vec<String>,
    living: Option<(Arc<Qp>, Target)>,
    last: Instant,
    /// Messages that guests have begun to send.
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

    /// Creates a guest if there is none and it is time for the next.
    pub(super) fn create_if_due(&mut self, end: &Endpoint) -> Result<()> {
        if self.is_alive() || self.last.elapsed() < EVERY {
            return Ok(());
        }
        self.last = Instant::now();
        let scratch = [0u64; 512];
        let region = end.pd.reg_mr(scratch.as_ptr() as usize as u64, 4096, Access::default())?;
        let words: Vec<&str> = self.peer.iter().map(String::as_str).collect();
        let target = end.target(&words)?;
        let qp = Qp::create(&end.pd, endpoint::attributes(&end.cq))?;
        endpoint::bring_up(&qp)?;
        let slot = end.guest_slot();
        pattern::fill(end.slot(slot), self.source, self.sent);
        end.post(&qp, &target, SendOp::Send, slot)?;
        self.sent += 1;
        self.living = Some((qp, target));
        region.deregister();
        Ok(())
    }

    /// Returns whether this completion was the guest's; if so, destroys the guest.
    pub(super) fn handle_completion(&mut self, done: &Completion) -> bool {
        let Some((qp, target)) = self.living.take_if(|(qp, _)| qp.qpn() == done.qpn) else {
            return false;
        };
        self.failed += u64::from(done.status != Status::Ok);
        qp.destroy();
        target.ah.destroy();
        true
    }
}
