//! Lints of a queue pair: mistakes of its program.

use std::sync::atomic::Ordering;

use super::{ModifyQp, Qp};
use crate::completion::Completion;
use crate::config::Adapter;
use crate::cq::Cq;
use crate::lint::{Pitfall, lint};
use crate::status::Status;

impl Qp {
    /// Checks a posted send. Here a send without completion frees its slot by itself; on hardware
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

    /// Checks the attributes that were set.
    pub(super) fn lint_change(&self, change: &ModifyQp) {
        let ModifyQp { min_rnr_timer, timeout, retry_cnt, path, .. } = *change;
        // The only index of an EFA device, here and on hardware.
        let is_roce = self.pd.device().adapter() == Adapter::Roce;
        let sgid_index = path.filter(|_| is_roce).map(|path| path.sgid_index);
        let attributes = [
            (
                "min_rnr_timer",
                min_rnr_timer,
                "means 655.36 ms, the longest: a peer that finds no receive waits so long; 12 is 0.64 ms",
            ),
            ("timeout", timeout, "means for ever: a lost packet is never sent again; 14 is 67 ms"),
            ("retry_cnt", retry_cnt, "lets the first lost packet end the connection; 7 is usual"),
            (
                "sgid_index",
                sgid_index,
                "is RoCE v2 here, but often RoCE v1 or a link-local address on hardware: unless rdma_cm chose it, look for \
                 the entry by its type and address with ibv_query_gid_table",
            ),
        ];
        for (attribute, given, meaning) in attributes {
            if given == Some(0) {
                lint(|| Pitfall::Attribute { qpn: self.qpn, attribute, value: 0, meaning });
            }
        }
    }
}

/// Checks completions that are about to be added to `cq`.
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
