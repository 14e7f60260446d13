//! Tests of binding, invalidating and using windows, one per rule.

use std::sync::Arc;

use super::super::{Mr, MrCache, MrOptions, RegMrError, Sge, StillBound, Terms};
use super::*;
use crate::ids::DeviceId;

const ADDR: u64 = 0x10_0000;
const LEN: u64 = 0x1000;
const REMOTE: Access = Access {
    local_write: false,
    remote_read: true,
    remote_write: true,
    remote_atomic: true,
    remote_flush: false,
};

struct World {
    table: Arc<MrTable>,
    pd: PdId,
    qp: QpId,
    mr: Arc<Mr>,
}

impl World {
    fn new() -> Self {
        let table = MrTable::with_windows(DeviceId::next(), 4, 4, u64::MAX);
        let (pd, qp) = (PdId::next(), QpId::next());
        let mr = table.register_as(terms(pd)).unwrap();
        Self { table, pd, qp, mr }
    }

    fn me(&self) -> WindowUser {
        WindowUser { pd: self.pd, qp: self.qp }
    }

    fn window(&self, kind: MwKind) -> Arc<Mw> {
        self.table.alloc_mw(self.pd, kind).unwrap()
    }

    /// Returns a bind to all of the region with all rights.
    fn wish(&self, window: &Mw) -> MwBind {
        MwBind {
            window: window.rkey(),
            tag: 7,
            region: Some(self.mr.lkey()),
            addr: ADDR,
            len: LEN,
            access: REMOTE,
            is_zero_based: false,
        }
    }

    fn bind(&self, bind: &MwBind) -> Result<u32, MwError> {
        self.table.bind(bind, self.me())
    }

    /// Returns a window of type 2 that is bound as `change` says.
    fn bound(&self, change: impl FnOnce(&mut MwBind)) -> Arc<Mw> {
        let window = self.window(MwKind::Type2);
        let mut wish = self.wish(&window);
        change(&mut wish);
        self.bind(&wish).unwrap();
        window
    }

    fn may(&self, key: u32, addr: u64, len: u32, right: Right) -> Option<u64> {
        self.table.grant(RemoteRange { key, addr, len }, right, self.me()).map(|grant| grant.addr)
    }

    fn with_region(&self, access: Access, mw_bind: bool) -> Arc<Mr> {
        let options = MrOptions { mw_bind, ..MrOptions::default() };
        self.table.register_as(Terms { access, options, ..terms(self.pd) }).unwrap()
    }
}

/// Returns the range of the first byte of a key.
fn byte(key: u32) -> RemoteRange {
    RemoteRange { key, addr: ADDR, len: 1 }
}

fn terms(pd: PdId) -> Terms {
    let access = Access { local_write: true, ..Access::default() };
    let options = MrOptions { mw_bind: true, ..MrOptions::default() };
    Terms { pd, addr: ADDR, len: LEN, access, options }
}

#[test]
fn a_key_is_an_index_and_a_tag_of_the_program() {
    let world = World::new();
    let window = world.window(MwKind::Type2);
    let before = window.rkey();
    let after = world.bind(&world.wish(&window)).unwrap();
    assert_eq!((after >> 8, after & 0xff), (before >> 8, 7));
    assert_eq!(window.rkey(), after);
    let other = world.window(MwKind::Type1);
    assert_ne!(other.rkey() >> 8, after >> 8);
    assert_ne!(world.mr.rkey() >> 8, after >> 8, "regions have other indices");
}

#[test]
fn only_the_present_key_opens_a_window() {
    let world = World::new();
    let key = world.bound(|_| {}).rkey();
    assert!(world.may(key, ADDR, 8, Right::Read).is_none(), "it has been dropped");
    let window = world.bound(|_| {});
    let key = window.rkey();
    assert_eq!(world.may(key, ADDR + 1, 8, Right::Read), Some(ADDR + 1));
    for wrong in [key ^ 1, key ^ 0x100, key & 0xff, 0, u32::MAX] {
        assert!(world.may(wrong, ADDR, 8, Right::Read).is_none(), "{wrong:#x}");
    }
}

#[test]
fn a_window_is_no_local_key_and_a_region_no_window() {
    let world = World::new();
    let window = world.bound(|_| {});
    let mut cache = MrCache::new(Arc::clone(&world.table), world.pd);
    assert!(!cache.allows(&Sge { addr: ADDR, len: 8, lkey: window.rkey() }, false));
    let wish = MwBind { window: world.mr.rkey(), ..world.wish(&window) };
    assert_eq!(world.bind(&wish), Err(MwError::NoWindow(world.mr.rkey())));
    let refused = world.table.invalidate(world.mr.rkey(), world.me());
    assert_eq!(refused, Err(MwError::NoWindow(world.mr.rkey())));
}

#[test]
fn peers_may_do_what_the_window_says_whatever_the_region_says() {
    let world = World::new();
    let rights = [Right::Read, Right::Write, Right::Atomic];
    for (at, right) in rights.into_iter().enumerate() {
        let window = world.bound(|bind| {
            bind.access = Access {
                remote_read: at == 0,
                remote_write: at == 1,
                remote_atomic: at == 2,
                ..Access::default()
            };
        });
        for other in rights {
            let granted = world.may(window.rkey(), ADDR, 8, other).is_some();
            assert_eq!(granted, other == right, "{other:?} through a window for {right:?}");
        }
    }
    let mut cache = MrCache::new(Arc::clone(&world.table), world.pd);
    let key = world.mr.rkey();
    assert!(
        cache.grant(RemoteRange { key, addr: ADDR, len: 8 }, Right::Read, world.qp).is_none(),
        "the region gives nothing"
    );
}

#[test]
fn a_window_ends_where_it_was_bound_to_end() {
    let world = World::new();
    let window = world.bound(|bind| (bind.addr, bind.len) = (ADDR + 16, 32));
    let may = |addr, len| world.may(window.rkey(), addr, len, Right::Write);
    assert_eq!(may(ADDR + 16, 32), Some(ADDR + 16));
    assert_eq!(may(ADDR + 47, 1), Some(ADDR + 47));
    for (addr, len) in [(ADDR + 15, 1), (ADDR + 16, 33), (ADDR + 48, 1), (u64::MAX, 2), (0, 1)] {
        assert_eq!(may(addr, len), None, "{addr:#x}+{len}");
    }
}

#[test]
fn a_zero_based_window_counts_from_its_own_beginning() {
    let world = World::new();
    let window = world.bound(|bind| {
        (bind.addr, bind.len, bind.is_zero_based) = (ADDR + 16, 32, true);
    });
    assert_eq!(world.may(window.rkey(), 0, 32, Right::Read), Some(ADDR + 16));
    assert_eq!(world.may(window.rkey(), 31, 1, Right::Read), Some(ADDR + 47));
    assert_eq!(world.may(window.rkey(), 31, 2, Right::Read), None);
    assert_eq!(world.may(window.rkey(), ADDR + 16, 1, Right::Read), None);
    let type1 = world.window(MwKind::Type1);
    let wish = MwBind { is_zero_based: true, ..world.wish(&type1) };
    assert_eq!(world.bind(&wish), Err(MwError::ZeroBased));
}

/// C10-73, C10-74, C10-75 of the specification.
#[test]
fn a_bind_needs_a_region_that_permits_it() {
    let world = World::new();
    for kind in [MwKind::Type1, MwKind::Type2] {
        let window = world.window(kind);
        let wish = world.wish(&window);
        let with = |mr: &Mr| MwBind { region: Some(mr.lkey()), ..wish };
        let all = Access { local_write: true, ..REMOTE };
        let unbindable = world.with_region(all, false);
        assert_eq!(world.bind(&with(&unbindable)), Err(MwError::NotBindable));
        let readonly = world.with_region(Access::default(), true);
        for (remote_write, remote_atomic) in [(true, false), (false, true)] {
            let access = Access { remote_write, remote_atomic, ..Access::default() };
            let refused = world.bind(&MwBind { access, ..with(&readonly) });
            assert_eq!(refused, Err(MwError::NeedsLocalWrite));
        }
        for (addr, len) in [(ADDR - 1, 1), (ADDR, LEN + 1), (ADDR + LEN, 1), (u64::MAX, 2)] {
            let refused = world.bind(&MwBind { addr, len, ..wish });
            assert_eq!(refused, Err(MwError::OutOfRegion { addr, len }));
        }
        let gone = MwBind { region: Some(0x1234_5678), ..wish };
        assert_eq!(world.bind(&gone), Err(MwError::NoRegion(0x1234_5678)));
        assert_eq!(window.rkey(), wish.window, "the key is as it was");
        let readable = Access { remote_read: true, ..Access::default() };
        assert!(world.bind(&MwBind { access: readable, ..with(&readonly) }).is_ok());
    }
}

/// C10-72 of the specification, for window, region and queue pair.
#[test]
fn window_region_and_queue_pair_are_of_one_domain() {
    let world = World::new();
    let window = world.window(MwKind::Type2);
    let elsewhere = WindowUser { pd: PdId::next(), qp: world.qp };
    let refused = world.table.bind(&world.wish(&window), elsewhere);
    assert_eq!(refused, Err(MwError::NoWindow(window.rkey())));
    let foreign = world.table.register_as(terms(elsewhere.pd)).unwrap();
    let wish = MwBind { region: Some(foreign.lkey()), ..world.wish(&window) };
    assert_eq!(world.bind(&wish), Err(MwError::NoRegion(foreign.lkey())));
    world.bind(&world.wish(&window)).unwrap();
    let read = byte(window.rkey());
    assert!(world.table.grant(read, Right::Read, elsewhere).is_none());
    let refused = world.table.invalidate(window.rkey(), elsewhere);
    assert_eq!(refused, Err(MwError::NoWindow(window.rkey())));
}

/// Rules o10-37.2.30 and o10-37.2.40 of the specification.
#[test]
fn a_window_of_type_2_is_bound_once_and_to_something() {
    let world = World::new();
    let window = world.window(MwKind::Type2);
    let wish = world.wish(&window);
    assert_eq!(world.bind(&MwBind { len: 0, ..wish }), Err(MwError::Nothing));
    assert_eq!(world.bind(&MwBind { region: None, ..wish }), Err(MwError::Nothing));
    world.bind(&wish).unwrap();
    assert_eq!(world.bind(&MwBind { tag: 8, ..wish }), Err(MwError::NotFree));
    world.table.invalidate(window.rkey(), world.me()).unwrap();
    assert!(world.may(window.rkey(), ADDR, 1, Right::Read).is_none());
    world.table.invalidate(window.rkey(), world.me()).unwrap();
    world.bind(&MwBind { tag: 8, ..wish }).unwrap();
    assert_eq!(world.may(window.rkey(), ADDR, 1, Right::Read), Some(ADDR));
}

#[test]
fn a_window_of_type_2_belongs_to_the_queue_pair_that_bound_it() {
    let world = World::new();
    let window = world.bound(|_| {});
    let other = WindowUser { pd: world.pd, qp: QpId::next() };
    assert!(world.table.grant(byte(window.rkey()), Right::Read, other).is_none());
    let refused = world.table.invalidate(window.rkey(), other);
    assert_eq!(refused, Err(MwError::OtherQueuePair));
    let stale = world.table.invalidate(window.rkey() ^ 1, world.me());
    assert_eq!(stale, Err(MwError::NoWindow(window.rkey() ^ 1)));
    assert!(world.may(window.rkey(), ADDR, 1, Right::Read).is_some(), "it is still bound");
}

#[test]
fn a_window_of_type_1_is_bound_again_at_any_time_and_taken_away_by_nothing() {
    let world = World::new();
    let window = world.window(MwKind::Type1);
    let first = world.bind(&world.wish(&window)).unwrap();
    let other = WindowUser { pd: world.pd, qp: QpId::next() };
    assert!(world.table.grant(byte(first), Right::Read, other).is_some(), "of any queue pair");
    assert_eq!(world.table.invalidate(first, world.me()), Err(MwError::NotInvalidatable));
    let second = world.table.bind(&MwBind { tag: 8, ..world.wish(&window) }, other).unwrap();
    assert!(world.may(first, ADDR, 1, Right::Read).is_none());
    assert!(world.may(second, ADDR, 1, Right::Read).is_some());
    for nothing in
        [MwBind { len: 0, ..world.wish(&window) }, MwBind { region: None, ..world.wish(&window) }]
    {
        world.bind(&MwBind { tag: 9, ..nothing }).unwrap();
        assert!(world.may(window.rkey(), ADDR, 1, Right::Read).is_none());
        assert!(world.may(second, ADDR, 1, Right::Read).is_none());
    }
    assert_eq!(world.mr.release(), Ok(()), "nothing is bound any more");
}

/// 10.6.7.2.6 of the specification leaves the choice.
#[test]
fn a_region_stays_as_long_as_a_window_is_bound_to_it() {
    let world = World::new();
    let first = world.bound(|_| {});
    let second = world.bound(|_| {});
    assert_eq!(world.mr.release(), Err(StillBound));
    assert_eq!(world.mr.change(terms(world.pd)), Err(StillBound));
    assert!(world.may(first.rkey(), ADDR, 1, Right::Read).is_some());
    drop(first);
    assert_eq!(world.mr.release(), Err(StillBound));
    world.table.invalidate(second.rkey(), world.me()).unwrap();
    assert_eq!(world.mr.release(), Ok(()));
    let gone = MwBind { window: second.rkey(), ..world.wish(&second) };
    assert_eq!(world.bind(&gone), Err(MwError::NoRegion(world.mr.lkey())));
}

/// The region is dropped by a caller that did not ask whether a window is bound.
#[test]
fn a_window_shows_nothing_of_a_region_that_is_gone() {
    let world = World::new();
    let window = world.bound(|_| {});
    world.mr.deregister();
    assert!(world.may(window.rkey(), ADDR, 1, Right::Read).is_none());
}

#[test]
fn a_changed_registration_keeps_its_keys_and_nothing_else() {
    let world = World::new();
    let mut cache = MrCache::new(Arc::clone(&world.table), world.pd);
    let sge = |addr| Sge { addr, len: 8, lkey: world.mr.lkey() };
    assert!(cache.allows(&sge(ADDR), true));
    let access = Access { remote_read: true, ..Access::default() };
    let moved = Terms { addr: ADDR * 2, access, ..terms(world.pd) };
    world.mr.change(moved).unwrap();
    assert_eq!((world.mr.addr(), world.mr.terms()), (ADDR * 2, moved));
    assert!(!cache.allows(&sge(ADDR), false) && !cache.allows(&sge(ADDR * 2), true));
    assert!(cache.allows(&sge(ADDR * 2), false));
    let elsewhere = PdId::next();
    world.mr.change(Terms { pd: elsewhere, ..moved }).unwrap();
    assert!(!cache.allows(&sge(ADDR * 2), false));
    assert!(MrCache::new(Arc::clone(&world.table), elsewhere).allows(&sge(ADDR * 2), false));
    world.mr.deregister();
    assert!(!MrCache::new(Arc::clone(&world.table), elsewhere).allows(&sge(ADDR * 2), false));
}

#[test]
fn there_are_as_many_windows_as_the_device_has() {
    let world = World::new();
    let all: Vec<_> = (0..4).map(|_| world.window(MwKind::Type1)).collect();
    let refused = world.table.alloc_mw(world.pd, MwKind::Type2).unwrap_err();
    assert_eq!(refused, AllocMwError::TooMany { max: 4 });
    drop(all);
    world.window(MwKind::Type2);
    let efa = MrTable::new(DeviceId::next(), 4, 1 << 30);
    let refused = efa.alloc_mw(world.pd, MwKind::Type1).unwrap_err();
    assert_eq!(refused, AllocMwError::Unsupported);
    let all: Vec<_> = (0..3).map(|_| world.with_region(REMOTE, true)).collect();
    let refused = world.table.register_as(terms(world.pd)).unwrap_err();
    assert_eq!((refused, all.len()), (RegMrError::TooMany { max: 4 }, 3));
}

/// A deregistration and a bind of two threads: one of them comes first.
#[test]
fn a_bind_and_a_deregistration_never_both_succeed() {
    let rounds = if cfg!(miri) { 50 } else { 2000 };
    for round in 0..rounds {
        let world = World::new();
        let window = world.window(MwKind::Type2);
        let wish = world.wish(&window);
        let (bound, released) = std::thread::scope(|scope| {
            let binder = scope.spawn(|| world.bind(&wish).is_ok());
            let released = world.mr.release().is_ok();
            (binder.join().unwrap(), released)
        });
        assert!(bound != released, "round {round}: bound {bound}, released {released}");
        assert_eq!(world.may(window.rkey(), ADDR, 1, Right::Read).is_some(), bound);
    }
}
