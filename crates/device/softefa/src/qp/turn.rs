//! The lock of a queue pair during a turn or a call.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use super::Qp;
use super::lint::lint_completions;
use crate::lint;
use crate::progress::Live;
use crate::shell::Side;
use crate::srq::Srq;

/// Dropping it releases the lock first and wakes programs then, so its fields are in this order.
pub(super) struct Turn<'a> {
    side: MutexGuard<'a, Box<dyn Side>>,
    end: End<'a>,
}

/// The notifications that a turn delivers at its end.
struct End<'a> {
    qp: &'a Qp,
    /// Whether programs sleep on the queues for sends and for receives. They are woken after the
    /// lock is released, because the first thing they do is to post.
    is_awaited: [bool; 2],
    /// The shared receive queues from which an XRC target has completed receives. It is boxed
    /// because other queue pairs have none, and a turn is short.
    targets: Option<Box<Targets>>,
}

/// Shared receive queues whose programs sleep until a completion.
#[derive(Default)]
struct Targets(Vec<Arc<Srq>>);

impl<'a> End<'a> {
    fn new(qp: &'a Qp) -> Self {
        Self { qp, is_awaited: [false; 2], targets: None }
    }

    #[cold]
    fn notify(&self) {
        let init = &self.qp.init;
        for (cq, is_awaited) in [&init.send_cq, &init.recv_cq].into_iter().zip(self.is_awaited) {
            if is_awaited {
                cq.notify_channel();
            }
        }
        if let Some(Targets(awaited)) = self.targets.as_deref() {
            awaited.iter().for_each(|srq| srq.notify_sleepers());
        }
    }
}

impl Drop for End<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_awaited != [false; 2] || self.targets.is_some() {
            self.notify();
        }
        // Of a turn that panicked the service thread must hear at once: the program may never call
        // again, and the thread may sleep until something arrives.
        if self.qp.is_broken() && !self.qp.has_failed() {
            self.qp.fail_broken();
        }
    }
}

impl Turn<'_> {
    /// Hands completions to the completion queues, and reports asynchronous events.
    #[inline]
    pub(super) fn publish(&mut self) {
        let shell = self.side.shell_mut();
        let has_reports = shell.has_reports();
        if !(shell.sends_done.is_empty() && shell.recvs_done.is_empty()) {
            self.push_completions();
        }
        if has_reports {
            self.side.shell_mut().deliver_events();
        }
    }

    #[inline]
    fn push_completions(&mut self) {
        let (init, shell) = (&self.end.qp.init, self.side.shell_mut());
        if shell.is_traced() {
            shell.trace_completions();
        }
        if shell.is_target() {
            let targets = &mut self.end.targets;
            shell.deliver(|srq| targets.get_or_insert_default().0.push(srq));
            return;
        }
        let (sends, recvs) = (&mut shell.sends_done, &mut shell.recvs_done);
        if lint::is_wanted() {
            let is_shared = Arc::ptr_eq(&init.send_cq, &init.recv_cq);
            let with = if is_shared { &recvs[..] } else { &[] };
            lint_completions(&init.send_cq, &[&sends[..], with]);
            if !is_shared {
                lint_completions(&init.recv_cq, &[&recvs[..]]);
            }
        }
        let [told_of_sends, told_of_recvs] = &mut self.end.is_awaited;
        if Arc::ptr_eq(&init.send_cq, &init.recv_cq) {
            *told_of_sends |= init.send_cq.push([sends, recvs]);
        } else {
            *told_of_sends |= init.send_cq.push([sends]);
            *told_of_recvs |= init.recv_cq.push([recvs]);
        }
    }
}

impl Qp {
    /// Locks it even if it is broken, in order to end it; turns check before.
    pub(super) fn lock(&self) -> Turn<'_> {
        Turn { side: self.inner.lock(), end: End::new(self) }
    }

    /// Locks it; `None` if another thread holds the lock, or it is broken.
    pub(super) fn try_lock(&self) -> Option<Turn<'_>> {
        Some(Turn { side: self.inner.try_lock()?, end: End::new(self) })
    }
}

impl Deref for Turn<'_> {
    type Target = dyn Side + 'static;

    fn deref(&self) -> &(dyn Side + 'static) {
        &**self.side
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut (dyn Side + 'static) {
        &mut **self.side
    }
}
