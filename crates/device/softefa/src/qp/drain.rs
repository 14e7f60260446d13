//! Destruction waits a little for the messages that the program sent last.
//!
//! Programs exit right after their last send: libfabric 2.5 closes an endpoint without waiting for
//! injected messages, and MPICH 5 exits then. On hardware that is safe enough, because only one
//! packet in a hundred thousand is lost. On a lossy network, or with `--fault loss=1%`, a lost
//! packet would not be repeated and the peer would wait for ever.

use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use srd::Instant;

use super::Qp;
use crate::generation::PerProcess;
use crate::host;
use crate::poll_set::{PollSet, Ready};
use crate::shell::{AckTiming, Side};
use crate::wire::Sleep;

/// The longest time to drain, and the most that all queue pairs of the process together spend
/// without success. It allows several tries of the last message, whose retransmission time is 8 ms,
/// or 30 ms on a busy machine, before it doubles.
const DRAIN_NS: u64 = 500_000_000;
/// After this time the process may wait again, because it is evidently not about to exit.
const BUDGET_NS: u64 = 10_000_000_000;
/// The longest wait between two turns, because another thread may read from the socket.
const LOOK_NS: u64 = 1_000_000;
/// The most of one wait that counts. After a longer one the process did not run meanwhile, and
/// repeated nothing.
const STEP_MAX_NS: u64 = 5 * LOOK_NS;

/// The time since `since` that the process has waited without success.
struct Budget {
    since: Instant,
    spent_ns: u64,
}

static BUDGET: PerProcess<Mutex<Budget>> = PerProcess::new();

impl Budget {
    fn left_ns(&mut self, now: Instant) -> u64 {
        if now.ns_since(self.since) >= BUDGET_NS {
            *self = Self { since: now, spent_ns: 0 };
        }
        DRAIN_NS.saturating_sub(self.spent_ns)
    }
}

fn budget() -> MutexGuard<'static, Budget> {
    let budget = BUDGET.get_or_init(|| Mutex::new(Budget { since: Instant::ZERO, spent_ns: 0 }));
    budget.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Qp {
    /// Takes turns until every SEND and WRITE has been acknowledged, or the process has waited long
    /// enough. A strict device does not wait: destruction cancels work requests there, as SRD says.
    pub(super) fn drain(&self) {
        if self.pd.device().is_strict {
            return;
        }
        let start = host::now();
        let allowed_ns = budget().left_ns(start);
        if let Err(waited_ns) = self.drain_for(start, allowed_ns) {
            budget().spent_ns += waited_ns;
        }
    }

    /// Returns when nothing is owed any more, or else how long it has waited without success.
    fn drain_for(&self, start: Instant, allowed_ns: u64) -> Result<(), u64> {
        let (mut sockets, mut last_look, mut waited_ns) = (None, start, 0);
        loop {
            let now = host::now();
            waited_ns += now.ns_since(last_look).min(STEP_MAX_NS);
            last_look = now;
            let mut side = self.lock();
            if side.shell().owes_data() {
                side.service_turn(now, AckTiming::AtOnce);
            }
            if !side.shell().owes_data() {
                return Ok(());
            }
            let left_ns = allowed_ns.saturating_sub(waited_ns);
            if left_ns == 0 {
                return Err(waited_ns);
            }
            // Whatever comes now is waited for here.
            let has_more = side.shell_mut().sleep_as(Sleep::Sound);
            let wait_ns = if has_more { 0 } else { time_to_wait(&*side, now).min(left_ns) };
            drop(side);
            let fd = self.inner.watch.receive_fd();
            let mut ready = Ready::NONE;
            let Some(sockets) = sockets.get_or_insert_with(|| watch(fd)) else {
                return Err(waited_ns);
            };
            // Without them it looks again at once, until its time is over.
            let _ = sockets.wait(Some(wait_ns), &mut ready);
        }
    }
}

fn time_to_wait(side: &dyn Side, now: Instant) -> u64 {
    side.next_timeout().map_or(LOOK_NS, |at| at.ns_since(now)).min(LOOK_NS)
}

/// Returns `None` if the process has no descriptor left; then there is no waiting.
fn watch(fd: RawFd) -> Option<PollSet> {
    let sockets = PollSet::new().ok()?;
    sockets.add(fd);
    Some(sockets)
}
