//! Regions whose bytes have other names than their addresses (`ibv_reg_mr_iova`).
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;

use crate::common::roce::{
    EVERYTHING, Link, WIRES, add, config, ends, gather, pair_of, pattern, post,
};
use crate::common::{self, Side, poll_until};
use softefa::{Mr, MrOptions, QpKind, RegMrError, Remote, Rereg, SendOp, Sge, Status, WireChoice};

use Status::{LocalInvalidLkey, Ok, RemoteBadAddress};

/// The name of the first byte.
const IOVA: u64 = 0x10_0000;
const LEN: u64 = 1 << 16;

fn renamed(side: &Side, iova: u64) -> Result<Arc<Mr>, RegMrError> {
    let options = MrOptions { iova: Some(iova), ..MrOptions::default() };
    side.pd.reg_mr_with(side.sge(0, 1).addr, LEN, EVERYTHING, options)
}

fn sge(mr: &Mr, at: u64, len: u32) -> Sge {
    Sge { addr: IOVA + at, len, lkey: mr.lkey() }
}

fn far(mr: &Mr, at: u64) -> Remote {
    Remote { addr: IOVA + at, rkey: mr.rkey() }
}

#[test]
fn work_requests_and_peers_use_the_names() {
    for wire in WIRES {
        let (mut a, b) = pair_of(&config(wire, ""), QpKind::Rc, LEN as usize, &Link::default());
        let [own, theirs] = [&a, &b].map(|side| renamed(side, IOVA).unwrap());
        let bytes = pattern(1, 5000);
        a.fill(0, &bytes);
        b.qp.post_recv(1, &[sge(&theirs, 8192, 5000)]).unwrap();
        post(&a, 1, SendOp::Send, &[sge(&own, 0, 5000)]);
        post(
            &a,
            2,
            SendOp::Write(far(&theirs, 16_384)),
            &[sge(&own, 0, 3000), sge(&own, 3000, 2000)],
        );
        post(&a, 3, SendOp::Read(far(&theirs, 16_384)), &[sge(&own, 32_768, 5000)]);
        post(&a, 4, add(far(&theirs, 40_960), 7), &[sge(&own, 49_152, 8)]);
        let found = gather(&[&a, &b], 5);
        assert_eq!(ends(&found[0], true), [(1, Ok), (2, Ok), (3, Ok), (4, Ok)]);
        assert_eq!(ends(&found[1], false), [(1, Ok)]);
        assert!(b.bytes(8192, 5000) == bytes && b.bytes(16_384, 5000) == bytes);
        assert!(a.bytes(32_768, 5000) == bytes, "read back");
        assert_eq!(b.bytes(40_960, 8), 7_u64.to_ne_bytes());
    }
}

#[test]
fn addresses_are_no_names() {
    let pair = || {
        let config = config(WireChoice::Udp, "");
        let (a, b) = pair_of(&config, QpKind::Rc, LEN as usize, &Link::default());
        let [own, theirs] = [&a, &b].map(|side| renamed(side, IOVA).unwrap());
        (a, b, own, theirs)
    };
    let (a, _b, own, theirs) = pair();
    let real = Sge { addr: own.addr(), len: 8, lkey: own.lkey() };
    post(&a, 1, SendOp::Write(far(&theirs, 0)), &[real]);
    assert_eq!(ends(&gather(&[&a], 1)[0], true), [(1, LocalInvalidLkey)]);
    let (a, _b, own, theirs) = pair();
    post(&a, 1, SendOp::Write(far(&theirs, 0)), &[sge(&own, LEN - 4, 8)]);
    assert_eq!(ends(&gather(&[&a], 1)[0], true), [(1, LocalInvalidLkey)], "past the end");
    for at in [theirs.addr().wrapping_sub(IOVA), LEN - 4] {
        let (a, b, own, theirs) = pair();
        let remote = Remote { addr: IOVA.wrapping_add(at), rkey: theirs.rkey() };
        post(&a, 1, SendOp::Write(remote), &[sge(&own, 0, 8)]);
        let mut status = None;
        poll_until(&[&a, &b], |side, done| {
            status = (side == 0).then_some(done.status);
            status.is_some()
        });
        assert_eq!(status, Some(RemoteBadAddress), "{at:#x}");
    }
}

/// If other bytes are registered under the same keys, their addresses are their names.
#[test]
fn names_go_with_the_bytes() {
    let config = config(WireChoice::Udp, "");
    let (mut a, b) = pair_of(&config, QpKind::Rc, LEN as usize, &Link::default());
    let theirs = renamed(&b, IOVA).unwrap();
    a.fill(0, &pattern(1, 100));
    let start = b.sge(0, 1).addr;
    let change = Rereg { range: Some((start, 4096)), ..Rereg::default() };
    b.pd.rereg_mr(&theirs, &change).unwrap();
    let remote = Remote { addr: start, rkey: theirs.rkey() };
    post(&a, 1, SendOp::Write(remote), &[a.sge(0, 100)]);
    assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(1, Ok)]);
    assert!(b.bytes(0, 100) == pattern(1, 100));
}

#[test]
fn names_that_cannot_be_are_refused() {
    let roce = common::roce::side(&config(WireChoice::Udp, ""), QpKind::Rc, LEN as usize);
    let iova = u64::MAX - 4095;
    assert_eq!(renamed(&roce, iova).unwrap_err(), RegMrError::BadName { iova, len: LEN });
}
