//! Unreliable datagrams over real sockets.

use crate::common::{Side, poll_until, side, wait_for, wr};
use softefa::{CompletionOp, QpKind, SendOp, SendWr, Status, UD_GRH_BYTES};

#[test]
fn a_datagram_arrives_behind_its_routing_header() {
    let (mut a, b) = (side(QpKind::Ud, ""), side(QpKind::Ud, ""));
    let ah = a.ah(&b);
    a.fill(0, b"datagram");
    b.post_recv(3, 0, 128);
    a.post(1, &ah, b.qp.qpn(), SendOp::SendImm(9), &[a.sge(0, 8)]);
    assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Send).status, Status::Ok);
    let received = wait_for(&[&a, &b], 1, CompletionOp::Recv);
    assert_eq!((received.wr_id, received.imm), (3, Some(9)));
    assert_eq!(received.byte_len as usize, UD_GRH_BYTES + 8);
    assert!(received.has_grh);
    assert_eq!(b.bytes(UD_GRH_BYTES, 8), b"datagram");
    assert_eq!(b.bytes(8, 16), a.device.gid().0);
}

#[test]
fn memory_that_was_deregistered_before_the_burst_is_not_read() {
    // On a busy machine the service thread may send the second one before its memory is unmapped.
    let ends = || {
        let (a, b) = (side(QpKind::Ud, ""), side(QpKind::Ud, ""));
        let ah = a.ah(&b);
        a.send(1, &b, &ah, 0, 8);
        // It waits for the poll, because its program said that more would follow.
        let sges = [a.sge(0, 8)];
        let second = wr(2, &ah, b.qp.qpn(), SendOp::Send, &sges);
        assert_eq!(a.qp.post_send(&SendWr { more: true, ..second }), Ok(()));
        a.mr.deregister();
        [wait_for_any(&a), wait_for_any(&a)]
    };
    let not_read = [(1, Status::Ok), (2, Status::LocalInvalidLkey)];
    assert!((0..100).any(|_| ends() == not_read), "it was read each time");
}

fn wait_for_any(side: &Side) -> (u64, Status) {
    let mut ended = None;
    poll_until(&[side], |_, done| {
        ended = Some((done.wr_id, done.status));
        true
    });
    ended.expect("poll_until returned")
}

#[test]
fn without_a_buffer_a_datagram_is_gone() {
    let (a, b) = (side(QpKind::Ud, ""), side(QpKind::Ud, ""));
    let ah = a.ah(&b);
    a.send(1, &b, &ah, 0, 8);
    wait_for(&[&a], 0, CompletionOp::Send);
    assert!(b.cq.poll_one().is_none());
    b.post_recv(2, 0, 128);
    a.send(2, &b, &ah, 0, 16);
    let received = wait_for(&[&a, &b], 1, CompletionOp::Recv);
    assert_eq!(received.byte_len as usize, UD_GRH_BYTES + 16);
}
