//! Sealing and opening a datagram allocates nothing once its keys are there.

#[path = "../common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;

use common::sealing::sealed_pair;
use common::wait_for;
use softefa::seal::{Opener, SealKey, Sealer};
use softefa::{CompletionOp, Status};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all calls are passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_datagram_costs_no_allocation_once_warm() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    fs::write(&path, [7; 32]).unwrap();
    let key = SealKey::read(&path).unwrap();
    let [a, b] = ["10.0.0.1:16400", "10.0.0.2:16401"].map(|at| at.parse().unwrap());
    let (mut sealer, mut opener) = (Sealer::new(&key, a, 1), Opener::new(&key, b));
    let mut datagram = [0; 24 + 1000 + 16];
    let mut round = || {
        datagram.fill(0);
        datagram[28..30].copy_from_slice(&a.port().to_be_bytes());
        datagram[30..32].copy_from_slice(&b.port().to_be_bytes());
        sealer.seal(b, &mut datagram).unwrap();
        assert_eq!(opener.open(a.ip(), &mut datagram), Ok(24..1024));
    };
    let cold = COUNT.get();
    round();
    let warm = COUNT.get();
    (0..100).for_each(|_| round());
    let after = COUNT.get();
    assert!(warm > cold, "keys are allocated");
    assert_eq!(after, warm, "allocations by 100 datagrams");
}

/// The count includes both ends of the message, with all work of the adapter.
#[test]
fn a_message_costs_no_allocation_once_warm() {
    let (a, b) = sealed_pair("");
    let (there, back) = (a.ah(&b), b.ah(&a));
    let round = || {
        for (sides, ah) in [([&a, &b], &there), ([&b, &a], &back)] {
            sides[1].post_recv(1, 0, 8928);
            sides[0].send(2, sides[1], ah, 10_000, 4_000);
            wait_for(&sides, 1, CompletionOp::Recv);
            assert_eq!(wait_for(&sides, 0, CompletionOp::Send).status, Status::Ok);
        }
    };
    let allocations = |rounds| {
        let before = COUNT.get();
        (0..rounds).for_each(|_| round());
        COUNT.get() - before
    };
    assert!(allocations(100) > 0, "keys are allocated");
    // The service thread may have taken a turn, and with it buffers that are kept for the next one.
    let fewest = (0..20).map(|_| allocations(100)).min();
    assert_eq!(fewest, Some(0), "allocations by 200 messages");
}
