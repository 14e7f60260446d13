//! Small shared structures of `softefa` in every order that their memory accesses allow.
//!
//! The files are those of the adapter; only the atomics they are made of are loom's (`sync`).
#![cfg(test)]

#[path = "../../crates/device/softefa/src/progress/wakeup.rs"]
#[allow(dead_code, reason = "what is not shared is not tried")]
mod wakeup;
#[path = "../../crates/device/softefa/src/progress/due.rs"]
#[allow(dead_code, reason = "what is not shared is not tried")]
mod due;
#[path = "../../crates/device/softefa/src/wire/memory/ring.rs"]
#[allow(dead_code, reason = "what is not shared is not tried")]
mod ring;
mod ring_model;

mod sync {
    pub(crate) use loom::sync::atomic;
}

use wakeup::Wakeup;
use due::Due;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use srd::Instant;

/// A queue pair, as far as its next turn goes, and the service thread's doorbell.
struct Model {
    /// When a turn is needed.
    next: Mutex<Option<Instant>>,
    due: Due,
    wakeup: Wakeup,
    /// An eventfd, which the kernel keeps in order.
    bell: Mutex<bool>,
}

impl Model {
    fn new() -> Arc<Self> {
        let (next, bell) = (Mutex::new(None), Mutex::new(false));
        Arc::new(Self { next, due: Due::new(), wakeup: Wakeup::new(), bell })
    }

    /// The program posts: from now on a turn is needed at `at_ns`.
    fn post(&self, at_ns: u64) {
        let mut next = self.next.lock().unwrap();
        let at = Instant::from_ns(at_ns);
        *next = Some(next.map_or(at, |before| before.min(at)));
        let is_late = self.due.settle(false, || *next);
        drop(next);
        if is_late && self.wakeup.request() {
            *self.bell.lock().unwrap() = true;
        }
    }

    /// The service thread looks once and says until when it would sleep.
    fn serve(&self) -> u64 {
        let next = self.next.lock().unwrap();
        self.due.until(*next);
        next.map_or(u64::MAX, Instant::as_ns)
    }

    /// The service thread wakes up when the bell rang.
    fn is_woken(&self) -> bool {
        let is_woken = std::mem::take(&mut *self.bell.lock().unwrap());
        if is_woken {
            self.wakeup.acknowledge();
        }
        is_woken
    }
}

/// Whatever is due earlier than the thread would look wakes it.
#[test]
fn no_post_is_slept_over() {
    loom::model(|| {
        let model = Model::new();
        let posts: Vec<_> = [7, 5]
            .into_iter()
            .map(|at_ns| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.post(at_ns))
            })
            .collect();
        let mut until_ns = model.serve();
        if model.is_woken() {
            until_ns = model.serve();
        }
        posts.into_iter().for_each(|post| post.join().unwrap());
        while model.is_woken() {
            until_ns = model.serve();
        }
        assert_eq!(until_ns, 5, "asleep although something is due");
    });
}

/// A change is seen by the look after an answer, or its call wakes the thread again.
#[test]
fn every_call_wakes_the_thread_or_is_seen() {
    loom::model(|| {
        let model = Model::new();
        let changes = Arc::new(AtomicU64::new(0));
        let caller = {
            let (model, changes) = (Arc::clone(&model), Arc::clone(&changes));
            thread::spawn(move || {
                for change in 1..=2 {
                    changes.store(change, Ordering::Relaxed);
                    if model.wakeup.request() {
                        *model.bell.lock().unwrap() = true;
                    }
                }
            })
        };
        let mut seen = 0;
        let mut look = || seen = changes.load(Ordering::Relaxed);
        if model.is_woken() {
            look();
        }
        if model.is_woken() {
            look();
        }
        // From now on only the bell brings anybody to look.
        caller.join().unwrap();
        if model.is_woken() {
            look();
        }
        assert_eq!(seen, 2, "a change that nobody was woken for");
    });
}
