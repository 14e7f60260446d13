//! The statuses at both ends of a reliable connection when a work request fails, and those of all
//! other work requests. Rules RC-3.11, RC-4.2, RC-4.4 and RC-5.5.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use crate::common::remote;
use crate::common::roce::{
    EVERYTHING, Link, WIRES, add, assert_quiet, config, ends, gather, pair_of, post, swap, wr,
};
use crate::common::{self, Side};
use softefa::{
    Access, FlushExtent, ModifyQp, QpKind, QpState, Remote, SendData, SendOp, SendWr, Sge, Status,
};

use Status::{
    Flushed, LocalBadLength, LocalInvalidLkey, LocalQpInternalError, Ok, RemoteBadAddress,
    RemoteInvalidRequest, RemoteOperation,
};

const LEN: u32 = 3000;

/// The queue pairs that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fails {
    Both,
    Requester,
}

/// Posts a work request that fails between good ones with and without a completion: `op` on `sges`,
/// with receive `into` for it at the peer. `ends_with` is the status of the work request, `receive`
/// that of the receive.
fn goes_wrong(
    (a, b): &(Side, Side),
    (op, sges): (SendOp, &[Sge]),
    into: Sge,
    [ends_with, receive]: [Status; 2],
    fails: Fails,
) {
    (10..13).for_each(|id| a.post_recv(id, 900_000, 8));
    b.post_recv(20, 800_000, LEN);
    b.qp.post_recv(21, &[into]).unwrap();
    (22..24).for_each(|id| b.post_recv(id, 800_000, LEN));
    let good = [a.sge(0, LEN)];
    post(a, 1, SendOp::Send, &good);
    post(a, 2, SendOp::Read(remote(b, 0)), &[a.sge(400_000, LEN)]);
    let unsignaled = SendWr { signaled: false, ..wr(3, op, sges) };
    a.qp.post_send(&SendWr { fenced: true, ..unsignaled }).unwrap();
    // A SEND may overtake a READ whose answer cannot be stored.
    let fenced = matches!(op, SendOp::Read(_)) || op.is_atomic();
    for (id, signaled) in [(4, true), (5, false), (6, true)] {
        a.qp.post_send(&SendWr { signaled, fenced, ..wr(id, SendOp::Send, &good) }).unwrap();
    }
    let of_b = if fails == Fails::Requester { 1 } else { 4 };
    let found = gather(&[a, b], 6 + 3 + of_b);
    let what = format!("{op:?}");
    let behind = [4, 5, 6].map(|id| (id, Flushed));
    let sent = [&[(1, Ok), (2, Ok), (3, ends_with)][..], &behind].concat();
    assert_eq!(ends(&found[0], true), sent, "{what}");
    assert_eq!(ends(&found[0], false), [10, 11, 12].map(|id| (id, Flushed)), "{what}");
    let received: &[(u64, Status)] = match fails {
        Fails::Requester => &[(20, Ok)],
        Fails::Both => &[(20, Ok), (21, receive), (22, Flushed), (23, Flushed)],
    };
    assert_eq!(ends(&found[1], false), received, "{what}");
    let states = [a, b].map(|side| side.qp.query().state);
    let expected = match fails {
        Fails::Both => [QpState::Error; 2],
        Fails::Requester => [QpState::Error, QpState::ReadyToSend],
    };
    assert_eq!(states, expected, "{what}");
    for side in [a, b].into_iter().filter(|side| side.qp.query().state == QpState::Error) {
        flushes_what_comes(side);
    }
    assert_quiet(&[a, b]);
}

/// Checks that work posted in the error state is accepted and flushed.
fn flushes_what_comes(side: &Side) {
    side.post_recv(91, 0, 8);
    let later = SendWr { signaled: false, ..wr(92, SendOp::Send, &[]) };
    side.qp.post_send(&later).unwrap();
    post(side, 93, SendOp::Read(remote(side, 0)), &[side.sge(0, 8)]);
    let found = gather(&[side], 3);
    assert_eq!(ends(&found[0], false), [(91, Flushed)]);
    assert_eq!(ends(&found[0], true), [(92, Flushed), (93, Flushed)]);
}

fn pairs(link: &Link) -> impl Iterator<Item = (Side, Side)> {
    let link = *link;
    WIRES.into_iter().map(move |wire| pair_of(&config(wire, ""), QpKind::Rc, 1 << 20, &link))
}

/// Checks a work request of `a` that `b` refuses.
fn refused(make: impl Fn(&Side, &Side) -> (SendOp, Vec<Sge>), ends_with: Status, receive: Status) {
    refused_by(&Link::default(), make, ends_with, receive);
}

fn refused_by(
    link: &Link,
    make: impl Fn(&Side, &Side) -> (SendOp, Vec<Sge>),
    ends_with: Status,
    receive: Status,
) {
    for pair in pairs(link) {
        let (op, sges) = make(&pair.0, &pair.1);
        let into = pair.1.sge(800_000, LEN);
        goes_wrong(&pair, (op, &sges), into, [ends_with, receive], Fails::Both);
    }
}

#[test]
fn a_receive_that_is_too_short_ends_with_a_length_error() {
    for len in [1, 1024, 2999] {
        for pair in pairs(&Link::default()) {
            let (sges, into) = ([pair.0.sge(0, LEN)], pair.1.sge(800_000, len));
            let ends_with = [RemoteInvalidRequest, LocalBadLength];
            goes_wrong(&pair, (SendOp::Send, &sges), into, ends_with, Fails::Both);
            assert!(pair.1.bytes(800_000 + LEN as usize, 64).iter().all(|byte| *byte == 0));
        }
    }
}

/// Returns the operations that name `remote`, with local entries.
fn remote_ops(a: &Side, at: Remote) -> Vec<(SendOp, Vec<Sge>)> {
    let (message, word) = (vec![a.sge(0, LEN)], vec![a.sge(0, 8)]);
    vec![
        (SendOp::Write(at), message.clone()),
        (SendOp::Read(at), message),
        (add(at, 1), word.clone()),
        (swap(at, 0, 1), word),
    ]
}

#[test]
fn a_wrong_remote_key_is_an_access_error() {
    for index in 0..4 {
        let wrong = |a: &Side, b: &Side| {
            let at = Remote { rkey: b.mr.rkey() ^ 1, ..remote(b, 0) };
            remote_ops(a, at).swap_remove(index)
        };
        refused(wrong, RemoteBadAddress, Flushed);
    }
}

#[test]
fn memory_beyond_the_region_is_an_access_error() {
    for index in 0..4 {
        for (at, aligned) in [((1 << 20) - 2999, (1 << 20) - 7), (1 << 20, 1 << 20)] {
            let wrong = |a: &Side, b: &Side| {
                let at = if index < 2 { at } else { aligned + 7 };
                remote_ops(a, remote(b, at)).swap_remove(index)
            };
            refused(wrong, RemoteBadAddress, Flushed);
        }
    }
    let below = |a: &Side, b: &Side| {
        let at = Remote { addr: b.mr.addr() - 8, rkey: b.mr.rkey() };
        remote_ops(a, at).swap_remove(0)
    };
    refused(below, RemoteBadAddress, Flushed);
    let around = |a: &Side, b: &Side| {
        let at = Remote { addr: u64::MAX - 100, rkey: b.mr.rkey() };
        remote_ops(a, at).swap_remove(1)
    };
    refused(around, RemoteBadAddress, Flushed);
}

/// Returns a region of `b` that permits its peers everything except what operation `index` needs.
fn without_right(b: &Side, index: usize) -> std::sync::Arc<softefa::Mr> {
    let access = Access {
        remote_write: index != 0,
        remote_read: index != 1,
        remote_atomic: index < 2,
        ..EVERYTHING
    };
    b.pd.reg_mr(b.mr.addr(), b.mr.len(), access).unwrap()
}

#[test]
fn a_right_that_the_region_does_not_give_is_an_access_error() {
    for index in 0..4 {
        for pair in pairs(&Link::default()) {
            let region = without_right(&pair.1, index);
            let at = Remote { rkey: region.rkey(), ..remote(&pair.1, 0) };
            let (op, sges) = remote_ops(&pair.0, at).swap_remove(index);
            let into = pair.1.sge(800_000, LEN);
            let ends_with = [RemoteBadAddress, Flushed];
            goes_wrong(&pair, (op, &sges), into, ends_with, Fails::Both);
        }
    }
}

#[test]
fn a_region_of_another_domain_is_an_access_error() {
    for pair in pairs(&Link::default()) {
        let other = pair.1.device.alloc_pd().unwrap();
        let region = other.reg_mr(pair.1.mr.addr(), pair.1.mr.len(), EVERYTHING).unwrap();
        let at = Remote { rkey: region.rkey(), ..remote(&pair.1, 0) };
        let (op, sges) = remote_ops(&pair.0, at).swap_remove(0);
        let into = pair.1.sge(800_000, LEN);
        goes_wrong(&pair, (op, &sges), into, [RemoteBadAddress, Flushed], Fails::Both);
    }
}

/// The receive that the immediate data uses ends with the same status; the first packet of several
/// uses none.
#[test]
fn a_write_with_immediate_data_takes_its_receive_along() {
    for (len, receive) in [(8, RemoteBadAddress), (LEN, Flushed)] {
        let wrong = |a: &Side, b: &Side| {
            let at = Remote { rkey: b.mr.rkey() ^ 1, ..remote(b, 0) };
            (SendOp::WriteImm(at, 5), vec![a.sge(0, len)])
        };
        refused(wrong, RemoteBadAddress, receive);
    }
}

#[test]
fn a_right_that_the_queue_pair_does_not_give_is_an_invalid_request() {
    for index in [0, 2, 3] {
        // The good work request in front is a READ.
        let (remote_write, remote_atomic) = (index != 0, index < 2);
        let access = Access { remote_write, remote_atomic, ..EVERYTHING };
        let link = Link { access, ..Link::default() };
        let wrong = |a: &Side, b: &Side| remote_ops(a, remote(b, 0)).swap_remove(index);
        refused_by(&link, wrong, RemoteInvalidRequest, Flushed);
    }
}

#[test]
fn a_flush_needs_a_right_of_its_own() {
    let without = Access { remote_flush: false, ..EVERYTHING };
    let extent =
        FlushExtent { len: 8, is_global: true, is_persistent: false, is_whole_region: false };
    for is_whole_region in [false, true] {
        let extent = FlushExtent { is_whole_region, ..extent };
        for pair in pairs(&Link::default()) {
            let region = pair.1.pd.reg_mr(pair.1.mr.addr(), pair.1.mr.len(), without).unwrap();
            let at = Remote { rkey: region.rkey(), ..remote(&pair.1, 0) };
            let into = pair.1.sge(800_000, LEN);
            let ends_with = [RemoteBadAddress, Flushed];
            goes_wrong(&pair, (SendOp::Flush(at, extent), &[]), into, ends_with, Fails::Both);
        }
        let link = Link { access: without, ..Link::default() };
        let of_queue_pair =
            move |_: &Side, b: &Side| (SendOp::Flush(remote(b, 0), extent), Vec::new());
        refused_by(&link, of_queue_pair, RemoteInvalidRequest, Flushed);
    }
}

#[test]
fn a_right_can_be_taken_back_on_the_way() {
    for (a, b) in pairs(&Link::default()) {
        let read = |id| {
            post(&a, id, SendOp::Read(remote(&b, 0)), &[a.sge(0, 8)]);
            gather(&[&a, &b], 1)[0][0].status
        };
        assert_eq!(read(1), Ok);
        let access = Some(Access { remote_read: false, ..EVERYTHING });
        b.qp.modify(&ModifyQp { access, ..ModifyQp::default() }).unwrap();
        assert_eq!(read(2), RemoteInvalidRequest);
        assert_eq!(b.qp.query().state, QpState::Error);
    }
}

#[test]
fn a_misaligned_atomic_is_an_invalid_request() {
    for at in [1, 4, 7] {
        for index in [2, 3] {
            let wrong = |a: &Side, b: &Side| remote_ops(a, remote(b, at)).swap_remove(index);
            refused(wrong, RemoteInvalidRequest, Flushed);
        }
    }
}

/// The responder can hold no answers at all.
#[test]
fn more_reads_than_the_responder_holds_are_an_invalid_request() {
    for wire in WIRES {
        let config = config(wire, "");
        let sides = [1, 2].map(|_| common::roce::side(&config, QpKind::Rc, 4096));
        let (few, many) = (Link { rd_atomic: 0, ..Link::default() }, Link::default());
        let [a, b] = &sides;
        common::roce::up(&a.qp, &many, (b.device.gid(), b.qp.qpn()), [1, 2]);
        common::roce::up(&b.qp, &few, (a.device.gid(), a.qp.qpn()), [2, 1]);
        b.post_recv(1, 0, 8);
        post(a, 1, SendOp::Read(remote(b, 0)), &[a.sge(0, 8)]);
        let found = gather(&[a, b], 2);
        assert_eq!(ends(&found[0], true), [(1, RemoteInvalidRequest)]);
        assert_eq!(ends(&found[1], false), [(1, Flushed)]);
    }
}

#[test]
fn a_receive_that_cannot_be_written_is_a_remote_operation_error() {
    for pair in pairs(&Link::default()) {
        let read_only = pair.1.pd.reg_mr(pair.1.mr.addr(), 4096, Access::default()).unwrap();
        let into = Sge { lkey: read_only.lkey(), ..pair.1.sge(0, LEN) };
        let sges = [pair.0.sge(0, LEN)];
        let ends_with = [RemoteOperation, LocalInvalidLkey];
        goes_wrong(&pair, (SendOp::Send, &sges), into, ends_with, Fails::Both);
        assert!(pair.1.bytes(0, 4096).iter().all(|byte| *byte == 0));
    }
}

/// Entries that a message does not reach are not checked.
#[test]
fn a_bad_entry_behind_the_message_does_not_matter() {
    for (a, b) in pairs(&Link::default()) {
        let wrong = Sge { lkey: b.mr.lkey() ^ 1, ..b.sge(0, 100) };
        for (wr_id, len) in [(1, 0), (2, 16), (3, LEN)] {
            b.qp.post_recv(wr_id, &[b.sge(800_000, LEN), wrong]).unwrap();
            post(&a, wr_id, SendOp::Send, &[a.sge(0, len)]);
            let found = gather(&[&a, &b], 2);
            assert_eq!(ends(&found[1], false), [(wr_id, Ok)], "{len} bytes");
        }
        b.qp.post_recv(4, &[b.sge(800_000, LEN), wrong]).unwrap();
        post(&a, 4, SendOp::Send, &[a.sge(0, LEN + 1)]);
        let found = gather(&[&a, &b], 2);
        assert_eq!(ends(&found[0], true), [(4, RemoteOperation)]);
        assert_eq!(ends(&found[1], false), [(4, LocalInvalidLkey)]);
    }
}

#[test]
fn a_key_that_cannot_be_invalidated_fails_the_receiver_alone() {
    for pair in pairs(&Link::default()) {
        let sges = [pair.0.sge(0, LEN)];
        let into = pair.1.sge(800_000, LEN);
        let op = SendOp::SendInvalidate(pair.1.mr.rkey() ^ 1);
        let (a, b) = &pair;
        b.qp.post_recv(21, &[into]).unwrap();
        b.post_recv(22, 0, 8);
        post(a, 3, op, &sges);
        let found = gather(&[a, b], 3);
        assert_eq!(ends(&found[0], true), [(3, Ok)]);
        assert_eq!(ends(&found[1], false), [(21, RemoteInvalidRequest), (22, Flushed)]);
        assert_eq!([a, b].map(|it| it.qp.query().state), [QpState::ReadyToSend, QpState::Error]);
    }
}

/// Checks a work request that `a` cannot do.
fn impossible(make: impl Fn(&Side, &Side) -> (SendOp, Vec<Sge>), ends_with: Status) {
    for pair in pairs(&Link::default()) {
        let (op, sges) = make(&pair.0, &pair.1);
        let into = pair.1.sge(800_000, LEN);
        goes_wrong(&pair, (op, &sges), into, [ends_with, Ok], Fails::Requester);
    }
}

#[test]
fn a_wrong_local_key_is_a_protection_error() {
    for op in 0..5 {
        let wrong = |a: &Side, b: &Side| {
            let len = if op < 3 { LEN } else { 8 };
            let sge = Sge { lkey: a.mr.lkey() ^ 1, ..a.sge(0, len) };
            let at = remote(b, 0);
            let ops =
                [SendOp::Send, SendOp::Write(at), SendOp::Read(at), add(at, 1), swap(at, 0, 1)];
            (ops[op], vec![a.sge(0, 0), sge])
        };
        impossible(wrong, LocalInvalidLkey);
    }
    let beyond = |a: &Side, _: &Side| (SendOp::Send, vec![a.sge((1 << 20) - 7, 8)]);
    impossible(beyond, LocalInvalidLkey);
}

#[test]
fn a_length_that_cannot_be_is_a_length_error() {
    for len in [0, 7, 9] {
        impossible(|a, b| (add(remote(b, 0), 1), vec![a.sge(0, len)]), LocalBadLength);
        impossible(|a, b| (swap(remote(b, 0), 1, 2), vec![a.sge(0, len)]), LocalBadLength);
    }
    let long = |op: fn(&Side) -> SendOp| {
        move |a: &Side, b: &Side| (op(b), vec![a.sge(0, u32::MAX), a.sge(0, u32::MAX)])
    };
    impossible(long(|_| SendOp::Send), LocalBadLength);
    impossible(long(|b| SendOp::Write(remote(b, 0))), LocalBadLength);
    impossible(long(|b| SendOp::Read(remote(b, 0))), LocalBadLength);
}

#[test]
fn an_inline_read_is_a_protection_error_and_changes_nothing() {
    for (a, b) in pairs(&Link::default()) {
        let bytes = [7u8; 8];
        let parts = [&bytes[..]];
        let data = SendData::Inline(&parts);
        a.qp.post_send(&SendWr { data, ..wr(1, SendOp::Read(remote(&b, 0)), &[]) }).unwrap();
        assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(1, LocalInvalidLkey)]);
        assert_eq!(bytes, [7; 8]);
    }
}

/// Work requests behind one that failed are flushed, whatever is wrong with them.
#[test]
fn of_several_wrong_ones_the_first_tells() {
    for (a, b) in pairs(&Link::default()) {
        let wrong = [Sge { lkey: a.mr.lkey() ^ 1, ..a.sge(0, 8) }];
        // There are work requests under way in front of it, or none.
        for is_waiting in [false, true] {
            if is_waiting {
                a.qp.modify(&common::roce::to(QpState::Reset)).unwrap();
                b.qp.modify(&common::roce::to(QpState::Reset)).unwrap();
            }
            if is_waiting {
                common::roce::connect(&a, &b, &Link::default());
                post(&a, 1, SendOp::Read(remote(&b, 0)), &[a.sge(0, LEN)]);
            }
            let short = [a.sge(0, 7)];
            let requests = [
                (SendOp::Write(remote(&b, 0)), &wrong),
                (add(remote(&b, 0), 1), &short),
                (SendOp::Write(remote(&b, 0)), &wrong),
            ];
            for (id, (op, sges)) in (2..5).zip(requests) {
                a.qp.post_send(&SendWr { more: id < 4, ..wr(id, op, sges) }).unwrap();
            }
            let first = if is_waiting { &[(1, Ok)][..] } else { &[] };
            let expected = [first, &[(2, LocalInvalidLkey), (3, Flushed), (4, Flushed)]].concat();
            assert_eq!(ends(&gather(&[&a], expected.len())[0], true), expected);
        }
    }
}

/// A queue pair that may have no unanswered READs and atomics can post none.
#[test]
fn a_read_without_room_for_any_is_an_operation_error() {
    for index in 1..4 {
        for (a, b) in pairs(&Link { rd_atomic: 0, ..Link::default() }) {
            let (op, sges) = remote_ops(&a, remote(&b, 0)).swap_remove(index);
            b.post_recv(1, 0, 8);
            post(&a, 10, SendOp::Send, &[a.sge(0, 8)]);
            post(&a, 11, op, &sges);
            post(&a, 12, SendOp::Send, &[a.sge(0, 8)]);
            let found = gather(&[&a, &b], 4);
            let expected = [(10, Ok), (11, LocalQpInternalError), (12, Flushed)];
            assert_eq!(ends(&found[0], true), expected);
            assert_eq!(a.qp.query().state, QpState::Error);
        }
    }
}
