use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::ids::{DeviceId, PdId};
use crate::lease::Lease;
use crate::local_copy::{Sealer, Source};
use crate::mr::{Access, Mr, MrCache, MrTable, Sge};

const LEN: u32 = 5 * PIECE_BYTES + 7;

/// The source of a READ, its destination, and the registration of the destination.
struct Memory {
    from: Vec<u8>,
    to: Vec<u8>,
    lease: Lease,
    mr: Arc<Mr>,
    cache: MrCache,
}

impl Memory {
    fn new() -> Self {
        let from = (0..LEN).map(|i| (i >> 10) as u8).collect();
        let to = vec![255u8; LEN as usize];
        let (table, pd, lease) =
            (MrTable::new(DeviceId::next(), 4, 1 << 30), PdId::next(), Lease::new());
        lease.begin();
        let access = Access { local_write: true, ..Access::default() };
        let mr = table.register(pd, to.as_ptr() as u64, u64::from(LEN), access).unwrap();
        Self { from, to, lease, mr, cache: MrCache::new(table, pd) }
    }

    fn push(&mut self, pulls: &Pulls, id: PullId) {
        let end = srd::Address { host: 1, qpn: 2 };
        let sealer = Sealer { key: [1; 16], from: end, to: end };
        let source = Source::own(&sealer, &self.lease, self.from.as_ptr() as u64, LEN);
        let sge = Sge { addr: self.to.as_ptr() as u64, len: LEN, lkey: self.mr.lkey() };
        let region = self.cache.writable(&sge).unwrap();
        pulls.push(id, source.open(&sealer).unwrap(), sge.addr, region);
    }
}

fn id(index: u32) -> PullId {
    PullId { index, serial: 1 }
}

fn put_back(pulls: &Pulls, piece: &Piece) {
    if pulls.lock().put_back(piece, piece.copy()) {
        pulls.bell.notify_all();
    }
}

fn copy_all(pulls: &Pulls) -> u64 {
    u64::from(pulls.copy(PullDriver::Turn, u32::MAX))
}

#[test]
fn all_pieces_make_the_whole() {
    let (pulls, mut memory) = (Pulls::default(), Memory::new());
    memory.push(&pulls, id(7));
    assert!(pulls.wants_help() && !pulls.wants_help(), "called once");
    assert_eq!(pulls.copy(PullDriver::Turn, 1), PIECE_BYTES);
    assert!(pulls.pop_over().is_none() && !pulls.leave());
    copy_all(&pulls);
    assert_eq!(pulls.take_uncounted(), u64::from(LEN));
    assert_eq!(pulls.pop_over(), Some((id(7), Ok(()))));
    assert!(pulls.pop_over().is_none() && pulls.leave());
    assert!(memory.to == memory.from);
}

#[test]
fn what_is_over_is_found_behind_what_is_not() {
    let (pulls, mut first, mut second) = (Pulls::default(), Memory::new(), Memory::new());
    first.push(&pulls, id(1));
    let piece = pulls.lock().take(PullDriver::Turn).unwrap();
    second.push(&pulls, id(2));
    copy_all(&pulls);
    assert_eq!(pulls.pop_over(), Some((id(2), Ok(()))));
    assert_eq!(pulls.pop_over(), None, "a piece is missing");
    put_back(&pulls, &piece);
    assert_eq!(pulls.pop_over(), Some((id(1), Ok(()))));
    assert!(first.to == first.from && second.to == second.from);
}

#[test]
fn the_copier_begins_at_the_other_end_and_finishes_what_it_began() {
    let (pulls, mut memories) = (Pulls::default(), [(); 3].map(|()| Memory::new()));
    let taken =
        |who| pulls.lock().take(who).map(|piece| (piece.id.index, piece.offset / PIECE_BYTES));
    memories[0].push(&pulls, id(1));
    memories[1].push(&pulls, id(2));
    assert_eq!(taken(PullDriver::Copier), Some((2, 0)));
    memories[2].push(&pulls, id(3));
    assert_eq!((taken(PullDriver::Copier), taken(PullDriver::Turn)), (Some((2, 1)), Some((1, 0))));
    (2..6).for_each(|number| assert_eq!(taken(PullDriver::Copier), Some((2, number))));
    assert_eq!(taken(PullDriver::Copier), Some((3, 0)));
    (1..6).for_each(|number| assert_eq!(taken(PullDriver::Turn), Some((1, number))));
    assert_eq!(taken(PullDriver::Turn), Some((3, 1)));
}

#[test]
fn failures_end_the_read_they_belong_to_only() {
    let (pulls, mut bad, mut good) = (Pulls::default(), Memory::new(), Memory::new());
    bad.push(&pulls, id(1));
    good.push(&pulls, id(2));
    bad.lease.end();
    copy_all(&pulls);
    let why = PullError::Copy(CopyError::LeaseEnded);
    assert_eq!(pulls.pop_over(), Some((id(1), Err(why))));
    assert_eq!(pulls.pop_over(), Some((id(2), Ok(()))));
    assert!(good.to == good.from);
}

#[test]
fn nothing_is_written_where_the_registration_ended() {
    let (pulls, mut memory) = (Pulls::default(), Memory::new());
    memory.push(&pulls, id(1));
    memory.mr.deregister();
    copy_all(&pulls);
    assert_eq!(pulls.pop_over(), Some((id(1), Err(PullError::Deregistered))));
    assert!(memory.to.iter().all(|byte| *byte == 255));
}

#[test]
fn memory_comes_back_only_when_nobody_has_a_piece_of_it() {
    for how in 0..3 {
        let (pulls, mut memory) = (Pulls::default(), Memory::new());
        memory.push(&pulls, id(1));
        let piece = pulls.lock().take(PullDriver::Turn).unwrap();
        let is_back = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                match how {
                    0 => assert!(pulls.cancel(id(1))),
                    1 => pulls.clear(),
                    _ => pulls.wait(),
                }
                assert!(is_back.load(Ordering::Acquire), "way {how} did not wait");
            });
            // The thread must wait by then, or it might come too late to show anything.
            while !pulls.lock().is_awaited {
                assert!(!waiter.is_finished(), "way {how} did not wait");
                std::thread::yield_now();
            }
            is_back.store(true, Ordering::Release);
            put_back(&pulls, &piece);
        });
        assert_eq!(copy_all(&pulls) > 0, how == 2, "the others forget it");
    }
}
