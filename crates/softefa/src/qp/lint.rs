//! What a queue pair sees of its program's mistakes.

use std::sync::atomic::Ordering;

use super::{ModifyQp, Qp};
use crate::completion::Completion;
use crate::cq::Cq;
use crate::lint::{Pitfall, lint};
use crate::status::Status;

impl Qp {
    /// A send was posted. Here one without completion gives its place back by itself; on hardware
    /// it does not.
    #[cold]
    pub(super) fn lint_post(&self, is_signaled: bool) {
        if is_signaled {
            return self.unsignaled.store(0, Ordering::Relaxed);
        }
        let (qpn, depth) = (self.qpn, self.init.sq_depth);
        if self.unsignaled.fetch_add(1, Ordering::Relaxed) >= depth {
            lint(|| Pitfall::Unsignaled { qpn, depth });
        }
    }

    /// Attributes were set.
    pub(super) fn lint_change(&self, change: &ModifyQp) {
        let ModifyQp { min_rnr_timer, timeout, retry_cnt, .. } = *change;
        let attributes = [
            (
                "min_rnr_timer",
                min_rnr_timer,
                "means 655.36 ms, the longest: a peer that finds no receive waits so long; 12 is 0.64 ms",
            ),
            ("timeout", timeout, "means for ever: a lost packet is never sent again; 14 is 67 ms"),
            ("retry_cnt", retry_cnt, "lets the first lost packet end the connection; 7 is usual"),
        ];
        for (attribute, given, meaning) in attributes {
            if given == Some(0) {
                lint(|| Pitfall::Attribute { qpn: self.qpn, attribute, value: 0, meaning });
            }
        }
    }
}

/// Completions are about to be added to `cq`.
#[cold]
pub(super) fn lint_completions(cq: &Cq, done: &[&[Completion]]) {
    for it in done.iter().copied().flatten() {
        if !matches!(it.status, Status::Ok | Status::Flushed) {
            lint(|| Pitfall::Failed { qpn: it.qpn, wr_id: it.wr_id, status: it.status });
        }
    }
    let (depth, held) = (cq.depth(), cq.held() + done.iter().map(|done| done.len()).sum::<usize>());
    if held > depth as usize {
        lint(|| Pitfall::Overrun { depth, held });
    }
}
