//! The end of a device by a mistake of the adapter, and who is told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::async_event::{AsyncEventKind, EventSource};

/// Whether a device has failed, and the contexts that have an event when it does.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    /// Written under the lock of the list.
    has_happened: AtomicBool,
    contexts: Mutex<Vec<Weak<EventSource>>>,
}

impl Failure {
    pub(crate) fn has_happened(&self) -> bool {
        self.has_happened.load(Ordering::Acquire)
    }

    /// It has happened; whether this is the first to say so.
    pub(crate) fn happen(&self) -> bool {
        let mut contexts = self.lock();
        let is_first = !self.has_happened.swap(true, Ordering::AcqRel);
        for context in contexts.drain(..).filter_map(|context| context.upgrade()) {
            context.report(AsyncEventKind::DeviceFatal);
        }
        is_first
    }

    /// From now on `context` has an event when it happens; at once if it has.
    pub(crate) fn report_to(&self, context: &Arc<EventSource>) {
        let mut contexts = self.lock();
        if self.has_happened() {
            context.report(AsyncEventKind::DeviceFatal);
        } else {
            contexts.retain(|context| context.strong_count() > 0);
            contexts.push(Arc::downgrade(context));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<EventSource>>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::async_event::AsyncEvents;

    #[test]
    fn each_context_is_told_once() {
        let events = AsyncEvents::create().unwrap();
        let taken = || events.take().ok().flatten().map(|event| event.kind);
        let failure = Failure::default();
        let [first, closed] = [(); 2].map(|()| EventSource::new(&events));
        [&first, &closed].iter().for_each(|context| failure.report_to(context));
        drop(closed);
        assert!(!failure.has_happened() && taken().is_none());
        assert!(failure.happen() && !failure.happen() && failure.has_happened());
        assert_eq!((taken(), taken()), (Some(AsyncEventKind::DeviceFatal), None));
        let late = EventSource::new(&events);
        failure.report_to(&late);
        assert_eq!((taken(), taken()), (Some(AsyncEventKind::DeviceFatal), None));
    }
}
