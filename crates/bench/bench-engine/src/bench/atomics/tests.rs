//! Tests of fetched values, and of clients that end early.

use super::*;
use crate::backend::null::{Null, Peer};
use crate::lane::Command;
use crate::stream_job::alone;

/// The server must not watch its memory for ever.
#[test]
fn a_client_that_goes_ends_the_wait_for_its_last_operations() {
    let (port, job, client) = alone(Command::Sent(5));
    let null = Null::new(Peer::Takes, 1, 1, WORD_BYTES);
    let mut links = [Link::new(null, &job, Side::Server, 0).expect("a link")];
    let server = Atomics { side: Side::Server, operation: Operation::Add, window_bytes: 64 };
    drop(client);
    let failure = server.count(&mut links, &port).expect_err("none of five operations came");
    assert_eq!(failure.exit_code(), 7, "{failure}");
}

/// The client needs the processor that this side would take.
#[test]
fn an_idle_server_gives_the_processor_away_where_threads_are_crowded() {
    let (mut port, job, _client) = alone(Command::Sent(0));
    port.signals = port.signals.yielding();
    let null = Null::new(Peer::Takes, 1, 1, WORD_BYTES);
    let mut links = [Link::new(null, &job, Side::Server, 0).expect("a link")];
    let server = Atomics { side: Side::Server, operation: Operation::FetchAdd, window_bytes: 64 };
    server.count(&mut links, &port).expect("it was told to end");
    assert!(port.signals.yields() > 0);
}

fn after(operation: Operation, fetched: &[u64]) -> Result<(), Failure> {
    let mut words = Words::new(operation, 2);
    fetched.iter().try_for_each(|value| words.take(1, *value))?;
    words.check()
}

#[test]
fn each_value_is_fetched_once_in_any_order() {
    for right in [&[][..], &[0], &[0, 1, 2, 3], &[3, 1, 0, 2]] {
        assert!(after(Operation::FetchAdd, right).is_ok(), "{right:?}");
    }
    // Lost, repeated, and two that are wrong by as much in different directions.
    for wrong in [&[1][..], &[0, 0], &[0, 2], &[0, 0, 3, 3], &[0, 1, 1, 4]] {
        let failure = after(Operation::FetchAdd, wrong).expect_err("refused");
        assert_eq!(failure.exit_code(), 9, "{wrong:?}: {failure}");
    }
}

#[test]
fn the_peers_memory_shows_what_was_done() {
    assert!(compare(&[7, 8], &[7, 8]).is_ok());
    // Lost, repeated, one thread for another, and no word of one.
    for wrong in [&[7, 7][..], &[8, 8], &[8, 7], &[7]] {
        let failure = compare(&[7, 8], wrong).expect_err("refused");
        assert_eq!(failure.exit_code(), 9, "{wrong:?}: {failure}");
    }
}

#[test]
fn a_swap_finds_what_the_one_before_has_left() {
    assert!(after(Operation::CompareSwap, &[0, 1, 2]).is_ok());
    for wrong in [&[1][..], &[0, 0], &[0, 1, 3]] {
        let failure = after(Operation::CompareSwap, wrong).expect_err("refused");
        assert_eq!(failure.exit_code(), 9, "{wrong:?}: {failure}");
    }
    let mut words = Words::new(Operation::CompareSwap, 2);
    words.take(1, 0).expect("the first");
    let (compare, swap) = (1, 2);
    assert_eq!(words.next(1), (Atomic::CompareSwap { compare, swap }, STRIDE_BYTES as u64));
}
