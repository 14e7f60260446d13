//! RoCE devices at addresses of IPv6: everything that depends on the family of an address.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::net::{IpAddr, Ipv6Addr};

use crate::common::roce::{
    Link, WIRES, add, assert_quiet, config, ends, gather, has_ipv6, pair_of, pattern, post, side,
    to_init, to_receive,
};
use crate::common::sealing::{count, key};
use crate::common::{self, Side, remote, up};
use softefa::counters::Counter;
use softefa::{
    Config, CreateAhError, Gid, GroupError, Integrity, ModifyError, QpKind, SendOp, Status,
    WireChoice,
};

use Status::{Ok, RetryExceeded};

/// Length of the GRH area in front of a received datagram.
const GRH: usize = 40;
const LOCALHOST: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Returns the configuration of a RoCE device at `::1`.
fn six(wire: WireChoice, faults: &str) -> Config {
    let devices = vec!["roce0=::1,profile=roce".parse().unwrap()];
    Config { devices, ..config(wire, faults) }
}

/// Returns a group in which no other process of this machine's tests is a member.
fn group(last: u16) -> Gid {
    let [a, b, c, d] = std::process::id().to_be_bytes();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Gid::of_roce(Ipv6Addr::new(0xff15, 0, 0, 0, 0, high, low, last).into())
}

/// Exchanges SENDs, WRITEs, READs and atomics of one packet and of many.
fn exchange(a: &mut Side, b: &Side) {
    for (id, len) in [0, 1, 1024, 1025, 100_000].into_iter().enumerate() {
        let (id, bytes) = (id as u64, pattern(id, len as usize));
        a.fill(0, &bytes);
        b.post_recv(id, 0, 1 << 18);
        post(a, id, SendOp::Send, &[a.sge(0, len)]);
        post(a, id, SendOp::Write(remote(b, 1 << 18)), &[a.sge(0, len)]);
        post(a, id, SendOp::Read(remote(b, 1 << 18)), &[a.sge(1 << 18, len)]);
        post(a, id, add(remote(b, 1 << 19), 1), &[a.sge(1 << 19, 8)]);
        let found = gather(&[a, b], 5);
        assert_eq!(ends(&found[0], true), [(id, Ok); 4]);
        assert_eq!(ends(&found[1], false), [(id, Ok)]);
        let len = len as usize;
        assert!(b.bytes(0, len) == bytes && b.bytes(1 << 18, len) == bytes);
        assert!(a.bytes(1 << 18, len) == bytes, "read back");
    }
}

#[test]
fn connections_do_everything_on_each_wire() {
    if !has_ipv6() {
        return;
    }
    for (wire, integrity, key) in [
        (WireChoice::Auto, Integrity::default(), None),
        (WireChoice::Udp, Integrity::default(), None),
        (WireChoice::Udp, Integrity::Crc32c, None),
        (WireChoice::Auto, Integrity::default(), Some(key(1))),
        (WireChoice::Udp, Integrity::default(), Some(key(1))),
    ] {
        let config = Config { integrity, key, ..six(wire, "") };
        let (mut a, b) = pair_of(&config, QpKind::Rc, 1 << 20, &Link::default());
        let through_memory = |a: &Side| count(a, Counter::TxMemoryPkts) > 0;
        // A ring is opened when the peer has time to accept it.
        let rounds = if wire == WireChoice::Auto { 10_000 } else { 1 };
        for _ in 0..rounds {
            exchange(&mut a, &b);
            if through_memory(&a) {
                break;
            }
        }
        assert_eq!(through_memory(&a), wire == WireChoice::Auto);
        for side in [&a, &b] {
            assert_eq!((count(side, Counter::RxDrops), count(side, Counter::RxSealErrors)), (0, 0));
        }
    }
}

#[test]
fn a_bad_network_is_mended() {
    if !has_ipv6() {
        return;
    }
    let faults = "loss=5%,dup=5%,reorder=5%,corrupt=2%,seed=3";
    let config = Config { integrity: Integrity::Crc32c, ..six(WireChoice::Udp, faults) };
    let (mut a, b) = pair_of(&config, QpKind::Rc, 1 << 20, &Link::default());
    (0..5).for_each(|_| exchange(&mut a, &b));
    assert!(count(&b, Counter::RxCrcErrors) > 0, "damage was dealt, and seen");
}

/// ICMPv6 reports that the peer is gone. All tries together would take longer than this test waits.
#[test]
fn who_is_gone_is_known_before_all_tries_are_over() {
    if !has_ipv6() {
        return;
    }
    let link = Link { timeout: 19, ..Link::default() };
    let (a, b) = pair_of(&six(WireChoice::Udp, ""), QpKind::Rc, 1 << 16, &link);
    b.post_recv(1, 0, 100);
    post(&a, 1, SendOp::Send, &[a.sge(0, 8)]);
    gather(&[&a, &b], 2);
    b.qp.destroy();
    post(&a, 2, SendOp::Send, &[a.sge(0, 8)]);
    assert_eq!(ends(&gather(&[&a], 1)[0], true), [(2, RetryExceeded)]);
}

#[test]
fn a_datagram_stands_behind_an_ipv6_header() {
    if !has_ipv6() {
        return;
    }
    for wire in WIRES {
        let config = six(wire, "");
        let [mut a, b] = [0, 1].map(|_| side(&config, QpKind::Ud, 1 << 16));
        [&a, &b].iter().for_each(|side| up(&side.qp, 7));
        let ah = a.ah(&b);
        for len in [0usize, 1, 1023, 4096] {
            let bytes = pattern(len, len);
            a.fill(0, &bytes);
            b.post_recv(4, 0, 5000);
            let op = SendOp::Send;
            a.qp.post_send(&common::wr(3, &ah, b.qp.qpn(), op, &[a.sge(0, len as u32)])).unwrap();
            let got = gather(&[&a, &b], 2)[1][0];
            assert_eq!((got.status, got.has_grh, got.byte_len as usize), (Ok, true, GRH + len));
            assert_eq!((got.src_addr, got.sgid(), got.sl), (LOCALHOST, a.device.gid(), 0b1001));
            assert!(b.bytes(GRH, len) == bytes, "{len} bytes");
            let header = b.bytes(0, GRH);
            // The length covers UDP, base and datagram headers, pad and ICRC.
            let udp_len = 8 + 12 + 8 + len.next_multiple_of(4) + 4;
            assert_eq!((header[0] >> 4, header[6]), (6, 17), "IPv6, UDP behind it");
            assert_eq!(usize::from(u16::from_be_bytes([header[4], header[5]])), udp_len);
            assert_eq!(
                (&header[8..24], &header[24..]),
                (&a.device.gid().0[..], &b.device.gid().0[..])
            );
        }
        assert_quiet(&[&a, &b]);
    }
}

/// The kernel sends nothing to groups of IPv6 on the loopback interface, but does on others: see
/// the consumers' `mckey_reaches_members_over_ipv6`.
#[test]
fn loopback_has_no_groups() {
    if !has_ipv6() {
        return;
    }
    let alone = side(&six(WireChoice::Auto, ""), QpKind::Ud, 64);
    let refused = alone.qp.attach(group(1));
    assert!(matches!(refused, Err(GroupError::Loopback)), "{refused:?}");
}

/// A socket of one family cannot reach one of the other.
#[test]
fn the_other_family_is_refused() {
    if !has_ipv6() {
        return;
    }
    let configs = [config(WireChoice::Auto, ""), six(WireChoice::Auto, "")];
    let [four, six] = configs.each_ref().map(|config| side(config, QpKind::Rc, 64));
    let groups = [Gid::of_roce([239, 1, 2, 3].into()), group(2)];
    for (config, own, other, group) in
        [(&configs[0], &four, &six, groups[1]), (&configs[1], &six, &four, groups[0])]
    {
        let gid = other.device.gid();
        assert!(matches!(own.pd.create_ah(gid), Err(CreateAhError::ForeignGid(_))));
        assert!(matches!(own.pd.create_ah(group), Err(CreateAhError::ForeignGid(_))));
        let link = Link::default();
        own.qp.modify(&to_init(&link)).unwrap();
        let refused = own.qp.modify(&to_receive(QpKind::Rc, &link, gid, other.qp.qpn(), 1));
        assert!(matches!(refused, Err(ModifyError::ForeignGid(_))), "{refused:?}");
        let datagrams = side(config, QpKind::Ud, 64);
        assert!(matches!(datagrams.qp.attach(group), Err(GroupError::NotAGroup(_))));
    }
}
