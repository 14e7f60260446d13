use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::async_event::AsyncEvents;
use crate::config::Config;
use crate::device::Device;

struct World {
    pd: Arc<Pd>,
    events: Arc<AsyncEvents>,
}

impl World {
    fn new() -> Self {
        Self::of("roce0=127.0.0.1,profile=roce")
    }

    fn of(device: &str) -> Self {
        let device = Device::open(&device.parse().unwrap(), &Config::default()).unwrap();
        Self { pd: device.alloc_pd().unwrap(), events: AsyncEvents::create().unwrap() }
    }

    fn create(&self, max_wr: u32, max_sge: u32) -> Result<Arc<Srq>, SrqError> {
        let attr = SrqAttr { max_wr, max_sge, limit: 0 };
        Srq::create(&self.pd, &attr, Some(EventSource::new(&self.events)))
    }

    /// Returns a queue with receives 0 to `posted` - 1.
    fn filled(&self, max_wr: u32, posted: u64) -> Arc<Srq> {
        let srq = self.create(max_wr, 1).unwrap();
        (0..posted).for_each(|wr_id| srq.post_recv(wr_id, &[]).unwrap());
        srq
    }

    /// Returns how many limit events wait, and acknowledges all of them.
    fn told(&self) -> usize {
        let all = std::iter::from_fn(|| self.events.take().ok().flatten());
        all.map(|event| {
            assert_eq!(event.kind, AsyncEventKind::SrqLimitReached);
            event.source.acknowledge();
        })
        .count()
    }
}

const SGE: Sge = Sge { addr: 0, len: 8, lkey: 0 };

fn limit(limit: u32) -> ModifySrq {
    ModifySrq { limit: Some(limit), ..ModifySrq::default() }
}

fn size(max_wr: u32) -> ModifySrq {
    ModifySrq { max_wr: Some(max_wr), ..ModifySrq::default() }
}

#[test]
fn receives_are_taken_in_the_order_they_were_posted() {
    let world = World::new();
    let srq = world.filled(16, 5);
    assert_eq!(srq.len(), 5);
    let taken: Vec<u64> = std::iter::from_fn(|| srq.take()).map(|wqe| wqe.wr_id).collect();
    assert_eq!(taken, [0, 1, 2, 3, 4]);
    assert!(srq.take().is_none() && srq.len() == 0);
    srq.post_recv(9, &[SGE]).unwrap();
    let wqe = srq.take().unwrap();
    assert_eq!((wqe.wr_id, wqe.capacity), (9, 8));
}

#[test]
fn a_queue_holds_what_was_asked_for() {
    let world = World::new();
    let srq = world.create(2, 2).unwrap();
    assert_eq!(srq.query(), SrqAttr { max_wr: 2, max_sge: 2, limit: 0 });
    assert_eq!(srq.post_recv(0, &[SGE; 3]), Err(PostSrqError::TooManySges(3)));
    srq.post_recv(1, &[SGE; 2]).unwrap();
    srq.post_recv(2, &[]).unwrap();
    assert_eq!(srq.post_recv(3, &[]), Err(PostSrqError::Full));
    assert_eq!(srq.take().map(|wqe| wqe.wr_id), Some(1));
    srq.post_recv(4, &[]).unwrap();
}

#[test]
fn limits_of_the_device_hold() {
    let world = World::new();
    let max = 16_384;
    assert!(world.create(max, 32).is_ok());
    for max_wr in [0, max + 1, u32::MAX] {
        assert_eq!(world.create(max_wr, 1).unwrap_err(), SrqError::BadDepth { max_wr, max });
    }
    let refused = world.create(1, 33).unwrap_err();
    assert_eq!(refused, SrqError::TooManySges { max_sge: 33, max: 32 });
    let all: Vec<_> = (0..960).map(|_| world.create(1, 1).unwrap()).collect();
    let numbers: BTreeSet<u32> = all.iter().map(|srq| srq.number()).collect();
    assert!(numbers.len() == 960 && !numbers.contains(&0));
    assert_eq!(world.create(1, 1).unwrap_err(), SrqError::TooMany { max: 960 });
    all[0].destroy();
    all[0].destroy();
    assert!(world.create(1, 1).is_ok());
    assert_eq!(world.create(1, 1).map(|_| ()), Ok(()), "dropped, and so free");
    let efa = World::of("a=127.0.0.1");
    assert_eq!(efa.create(1, 1).unwrap_err(), SrqError::Unsupported);
}

#[test]
fn below_its_limit_it_tells_once() {
    let world = World::new();
    let srq = world.filled(16, 6);
    srq.modify(&limit(4)).unwrap();
    assert_eq!((srq.query().limit, world.told()), (4, 0));
    srq.take();
    srq.take();
    assert_eq!(world.told(), 0, "four are not fewer than four");
    srq.take();
    assert_eq!((srq.query().limit, world.told()), (0, 1));
    srq.take();
    assert_eq!(world.told(), 0, "it has told");
    srq.modify(&limit(2)).unwrap();
    srq.take();
    assert_eq!(world.told(), 1, "armed again");
    srq.take();
    assert!(srq.take().is_none());
    assert_eq!(world.told(), 0);
}

#[test]
fn a_limit_that_is_not_reached_any_more_is_told_of_at_once() {
    let world = World::new();
    let srq = world.filled(16, 3);
    srq.modify(&limit(4)).unwrap();
    assert_eq!((srq.query().limit, world.told()), (0, 1));
    srq.modify(&limit(3)).unwrap();
    srq.modify(&limit(0)).unwrap();
    srq.take();
    assert_eq!(world.told(), 0, "disarmed");
}

#[test]
fn a_queue_grows_and_shrinks_as_far_as_its_receives_let_it() {
    let world = World::new();
    let srq = world.filled(4, 4);
    assert_eq!(srq.post_recv(4, &[]), Err(PostSrqError::Full));
    srq.modify(&size(5)).unwrap();
    srq.post_recv(4, &[]).unwrap();
    let refused = srq.modify(&size(4));
    assert_eq!(refused, Err(SrqError::Occupied { max_wr: 4, posted: 5 }));
    for max_wr in [0, 16_385] {
        assert_eq!(srq.modify(&size(max_wr)), Err(SrqError::BadDepth { max_wr, max: 16_384 }));
    }
    assert_eq!(srq.modify(&limit(6)), Err(SrqError::BadLimit { limit: 6, max_wr: 5 }));
    srq.modify(&limit(5)).unwrap();
    std::iter::from_fn(|| srq.take()).for_each(drop);
    assert_eq!(world.told(), 1);
    let both = ModifySrq { max_wr: Some(2), limit: Some(3) };
    assert_eq!(srq.modify(&both), Err(SrqError::BadLimit { limit: 3, max_wr: 2 }));
    assert_eq!(srq.query(), SrqAttr { max_wr: 5, max_sge: 1, limit: 0 }, "nothing has changed");
}

#[test]
fn a_destroyed_queue_gives_and_takes_nothing_and_is_not_heard_of() {
    let world = World::new();
    let srq = world.filled(4, 2);
    srq.modify(&limit(3)).unwrap();
    srq.destroy();
    assert_eq!(world.told(), 0, "the event was withdrawn");
    assert!(srq.take().is_none() && srq.len() == 0);
    assert_eq!(srq.post_recv(0, &[]), Err(PostSrqError::Destroyed));
    assert_eq!(srq.modify(&limit(1)), Err(SrqError::Destroyed));
}

/// Programs post from one side while queue pairs of several threads take from the other.
#[test]
fn each_receive_is_taken_once_and_each_limit_told_once() {
    const POSTED: u64 = 20_000;
    const TAKERS: usize = 3;
    let world = World::new();
    let srq = world.create(64, 1).unwrap();
    let (taken, armed) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut seen: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..TAKERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    while taken.load(Ordering::Relaxed) < POSTED {
                        if let Some(wqe) = srq.take() {
                            taken.fetch_add(1, Ordering::Relaxed);
                            mine.push(wqe.wr_id);
                        } else {
                            std::thread::yield_now();
                        }
                    }
                    mine
                })
            })
            .collect();
        for wr_id in 0..POSTED {
            while srq.post_recv(wr_id, &[]) == Err(PostSrqError::Full) {
                std::thread::yield_now();
            }
            // Only a limit that was reported is set again, so that each is reported in the end.
            if wr_id % 50 == 0 && srq.query().limit == 0 {
                srq.modify(&limit(8)).unwrap();
                armed.fetch_add(1, Ordering::Relaxed);
            }
        }
        takers.into_iter().map(|taker| taker.join().unwrap()).collect()
    });
    for mine in &seen {
        assert!(mine.is_sorted(), "a thread takes them in the order they were posted");
    }
    let mut all: Vec<u64> = seen.drain(..).flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (0..POSTED).collect::<Vec<_>>());
    assert_eq!(world.told() as u64, armed.load(Ordering::Relaxed));
    assert_eq!(srq.query().limit, 0);
}
