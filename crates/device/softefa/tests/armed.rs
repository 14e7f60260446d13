//! A program that sleeps gets an event for every completion that it has not polled.

use crate::common::{self, side, up};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use softefa::{Channel, Cq, ModifyQp, QpKind, QpState};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Waits for an event, and acknowledges it; returns false if none comes within a second.
fn wait_for_event(channel: &Channel) -> bool {
    // SAFETY: the channel outlives the call.
    let fd = unsafe { BorrowedFd::borrow_raw(channel.fd()) };
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    if poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&second)) != Ok(1) {
        return false;
    }
    rustix::io::read(fd, &mut [0; 8]).expect("a count");
    if let Some(cq) = channel.take_event().expect("open") {
        cq.acknowledge_events(1);
    }
    true
}

/// Makes a queue with `count` flushed receives that were not polled. It was armed before they came.
fn flushed(count: u64) -> (Arc<Channel>, Arc<Cq>) {
    let b = side(QpKind::Srd, "");
    let channel = Channel::create().expect("a channel");
    let cq = Cq::create_on(&b.device, 64, Some(&channel)).expect("a queue");
    let qp = softefa::Qp::create(b.qp.pd(), common::init(QpKind::Srd, &cq)).expect("a queue pair");
    up(&qp, 7);
    (0..count).for_each(|i| qp.post_recv(i, &[b.sge(0, 64)]).expect("posted"));
    cq.arm().expect("armed");
    qp.modify(&ModifyQp { state: Some(QpState::Error), ..ModifyQp::default() }).expect("to ERR");
    // Destroying the queue pair would remove its completions.
    std::mem::forget(qp);
    (channel, cq)
}

/// SPDK's interrupt mode takes the event, arms the queue, and stops polling at the first error.
#[test]
fn a_poll_that_leaves_completions_in_an_armed_queue_brings_the_next_event() {
    let (channel, cq) = flushed(6);
    let mut polled = 0;
    while polled < 6 && wait_for_event(&channel) {
        cq.arm().expect("armed");
        polled += cq.poll(1, |_| {});
    }
    assert_eq!(polled, 6, "no event for the others");
}

/// The same holds for a program that uses the extended functions.
#[test]
fn so_does_the_end_of_a_series_of_polls() {
    let (channel, cq) = flushed(6);
    let mut polled = 0;
    while polled < 6 && wait_for_event(&channel) {
        cq.arm().expect("armed");
        polled += usize::from(cq.poll_one().is_some()) + usize::from(cq.pop().is_some());
        cq.end_poll();
    }
    assert_eq!(polled, 6, "no event for the others");
}

/// A program that polls until nothing is there is woken once.
#[test]
fn a_program_that_polls_everything_gets_one_event() {
    let (channel, cq) = flushed(6);
    assert!(wait_for_event(&channel));
    cq.arm().expect("armed");
    assert_eq!(cq.poll(16, |_| {}), 6);
    assert_eq!(cq.poll(16, |_| {}), 0);
    assert!(!wait_for_event(&channel), "nothing is left");
}
