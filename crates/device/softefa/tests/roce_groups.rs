//! Multicast groups of UD queue pairs (RC-10).
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::roce::{assert_quiet, config, ends, gather, pattern, side, wide, with_icrc_to};
use crate::common::{self, QKEY, Side, poll_until_counted, up};
use rc::ud::{Datagram, GROUP_QPN, Sender};
use rc::{HEADER_MAX, Mtu, Psn};
use softefa::counters::Counter;
use softefa::{
    Channel, Completion, Config, Cq, Device, Gid, GroupError, Integrity, Qp, QpInit, QpKind,
    SendOp, Status, WireChoice,
};

use Status::Ok;

/// Length of the GRH area in front of a received payload.
const GRH: usize = 40;
/// The UDP port of all groups.
const PORT: u16 = 4791;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Returns a group in which no other process of this machine's tests is a member.
fn group(last: u8) -> IpAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    IpAddr::from([239, high, low, last])
}

fn ud_side(config: &Config) -> Side {
    let side = side(config, QpKind::Ud, 1 << 16);
    up(&side.qp, 7);
    side
}

/// Makes a side that is a member, with receives.
fn member(config: &Config, group: IpAddr) -> Side {
    let side = ud_side(config);
    side.qp.attach(Gid::of_roce(group)).unwrap();
    (0..16).for_each(|id| side.post_recv(id, 4096 * id as usize, 4096));
    side
}

/// Sends `len` bytes of `a`'s memory to a group.
fn send(a: &Side, group: IpAddr, wr_id: u64, len: usize) {
    let ah = a.pd.create_ah(Gid::of_roce(group)).unwrap();
    let op = SendOp::SendImm(wr_id as u32);
    a.qp.post_send(&common::wr(wr_id, &ah, GROUP_QPN, op, &[a.sge(0, len as u32)])).unwrap();
}

fn assert_came(b: &Side, a: &Side, got: &Completion, group: IpAddr, bytes: &[u8]) {
    let at = 4096 * got.wr_id as usize;
    assert_eq!((got.status, got.has_grh, got.src_qpn), (Ok, true, a.qp.qpn()));
    assert_eq!((got.byte_len as usize, got.src_addr), (GRH + bytes.len(), a.device.addr()));
    assert_eq!(
        b.bytes(at + GRH - 4, 4),
        &Gid::of_roce(group).0[12..],
        "it says that the group was meant"
    );
    assert!(b.bytes(at + GRH, bytes.len()) == bytes);
}

fn flavours() -> Vec<Config> {
    let plain = config(WireChoice::Auto, "");
    let icrc = Config { integrity: Integrity::Crc32c, ..config(WireChoice::Udp, "") };
    vec![plain, icrc]
}

/// RC-10.1, RC-10.3: two members are on the sender's device and one on another; the sender is no
/// member.
#[test]
fn each_member_gets_each_datagram_once() {
    for (index, config) in flavours().iter().enumerate() {
        let group = group(1 + index as u8);
        let mut a = ud_side(config);
        let second: Config = Config {
            devices: vec!["roce0=127.0.0.7,profile=roce".parse().unwrap()],
            ..config.clone()
        };
        let members = [member(config, group), member(config, group), member(&second, group)];
        for (id, len) in [0usize, 1, 5, 1024, 4000].into_iter().enumerate() {
            let bytes = pattern(id, len);
            a.fill(0, &bytes);
            send(&a, group, id as u64, len);
            let sides = [&a, &members[0], &members[1], &members[2]];
            let found = gather(&sides, 4);
            assert_eq!(ends(&found[0], true), [(id as u64, Ok)]);
            for (b, of) in members.iter().zip(&found[1..]) {
                let [got] = of[..] else { panic!("{of:?}") };
                assert_eq!(got.imm, Some(id as u32));
                assert_came(b, &a, &got, group, &bytes);
            }
            assert_quiet(&sides);
        }
        for side in &members {
            assert_eq!(side.device.counters().get(Counter::RxDrops), 0);
            assert_eq!(side.device.counters().get(Counter::RxPkts), 5);
        }
    }
}

/// RC-10.4: a member that sends gets its own message, as from a device that does not block that.
#[test]
fn a_member_that_sends_hears_itself() {
    let (config, group) = (config(WireChoice::Auto, ""), group(10));
    let mut a = member(&config, group);
    let bytes = pattern(3, 100);
    // The bytes lie behind the places of the receives.
    a.fill(0, &bytes);
    let into = a.sge(60_000, 1000);
    let first = a.pd.create_ah(Gid::of_roce(group)).unwrap();
    a.qp.post_send(&common::wr(77, &first, GROUP_QPN, SendOp::Send, &[a.sge(0, 100)])).unwrap();
    let found = gather(&[&a], 2);
    assert_eq!(ends(&found[0], true), [(77, Ok)]);
    assert_eq!(ends(&found[0], false), [(0, Ok)]);
    assert!(a.bytes(GRH, 100) == bytes && into.len > 0);
}

/// RC-10.4: a member can choose to hear only others.
#[test]
fn a_member_may_be_deaf_to_itself() {
    let (config, group) = (config(WireChoice::Auto, ""), group(18));
    let (a, b) = (member(&config, group), member(&config, group));
    a.qp.ignore_itself_in_groups();
    send(&a, group, 5, 8);
    let found = gather(&[&a, &b], 2);
    assert_eq!((ends(&found[0], true), ends(&found[1], false)), (vec![(5, Ok)], vec![(0, Ok)]));
    // A datagram that it sends to itself alone is no message to a group.
    let ah = a.pd.create_ah(a.device.gid()).unwrap();
    let sges = [a.sge(0, 8)];
    a.qp.post_send(&common::wr(6, &ah, a.qp.qpn(), SendOp::Send, &sges)).unwrap();
    assert_eq!(ends(&gather(&[&a], 2)[0], false), [(0, Ok)]);
    send(&b, group, 7, 8);
    let found = gather(&[&a, &b], 3);
    assert_eq!(ends(&found[0], false), [(1, Ok)], "others are heard");
    assert_eq!(a.device.counters().get(Counter::RxDrops), 0);
}

/// RC-10.5.
#[test]
fn who_has_left_gets_no_more() {
    let (config, group) = (config(WireChoice::Auto, ""), group(11));
    let (a, stays, leaves) = (ud_side(&config), member(&config, group), member(&config, group));
    let destroyed = member(&config, group);
    let of_device = Arc::clone(&destroyed.device);
    send(&a, group, 1, 8);
    gather(&[&a, &stays, &leaves, &destroyed], 4);
    leaves.qp.detach(Gid::of_roce(group)).unwrap();
    let again = leaves.qp.detach(Gid::of_roce(group));
    assert!(matches!(again, Err(GroupError::NotAttached(_))), "{again:?}");
    destroyed.qp.destroy();
    for id in 2..6 {
        send(&a, group, id, 8);
        gather(&[&a, &stays], 2);
    }
    assert_quiet(&[&a, &stays, &leaves, &destroyed]);
    assert_eq!(leaves.device.counters().get(Counter::RxPkts), 1);
    assert_eq!(of_device.counters().get(Counter::RxPkts), 1);
    leaves.qp.attach(Gid::of_roce(group)).unwrap();
    send(&a, group, 6, 8);
    gather(&[&a, &stays, &leaves], 3);
}

/// A sender of packets that is no device.
struct Stranger {
    socket: UdpSocket,
}

impl Stranger {
    /// Makes a stranger at another address of loopback, whose interface multicast datagrams take by
    /// default.
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.9:0").unwrap();
        let interface = libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 9]) };
        let len = size_of_val(&interface) as libc::socklen_t;
        use std::os::fd::AsRawFd;
        let (fd, at) = (socket.as_raw_fd(), std::ptr::from_ref(&interface).cast());
        // SAFETY: `interface` lives through the call and has the length given.
        let set = unsafe { libc::setsockopt(fd, libc::SOL_IP, libc::IP_MULTICAST_IF, at, len) };
        assert_eq!(set, 0);
        Self { socket }
    }

    /// Sends a datagram of eight bytes with a right ICRC, unless `damage` is added to it.
    fn send(&self, to: IpAddr, port: u16, (dest_qpn, qkey): (u32, u32), damage: u8) {
        let mut sender = Sender::new(0x99_9999, 0xFFFF, Mtu::B1024, Psn::new(1));
        let mut headers = [0; HEADER_MAX];
        let (imm, is_solicited) = (None, false);
        let datagram = Datagram { dest_qpn, qkey, len: 8, imm, is_solicited };
        let (len, _) = sender.packet(&datagram, &mut headers).unwrap();
        let mut packet =
            with_icrc_to([&headers[..len], &[7; 8]].concat(), IpAddr::from([127, 0, 0, 9]), to);
        packet[9] ^= damage;
        self.socket.send_to(&packet, SocketAddr::new(to, port)).unwrap();
    }
}

/// RC-10.2, RC-8.5: a datagram that does not match is counted and dropped by each member, and
/// leaves no state.
#[test]
fn strangers_need_the_queue_key() {
    let (config, group) = (config(WireChoice::Udp, ""), group(12));
    let b = member(&config, group);
    let stranger = Stranger::new();
    let drops = || b.device.counters().get(Counter::RxDrops);
    let mut expected = drops();
    let mut is_dropped = |send: &dyn Fn()| {
        send();
        expected += 1;
        poll_until_counted(&[&b], &b, Counter::RxDrops, expected);
    };
    is_dropped(&|| stranger.send(group, PORT, (GROUP_QPN, QKEY + 1), 0));
    is_dropped(&|| stranger.send(group, PORT, (b.qp.qpn(), QKEY), 0));
    is_dropped(&|| stranger.send(group, PORT, (GROUP_QPN, QKEY), 1));
    is_dropped(&|| stranger.send(LOCALHOST, b.qp.port(), (GROUP_QPN, QKEY), 0));
    for len in [0, 1, 12, 40, 5000] {
        let noise = pattern(len, len);
        is_dropped(&|| {
            stranger.socket.send_to(&noise, SocketAddr::new(group, PORT)).unwrap();
        });
    }
    assert_quiet(&[&b]);
    // A stranger that has all of it right is treated like any sender.
    stranger.send(group, PORT, (GROUP_QPN, QKEY), 0);
    let got = gather(&[&b], 1)[0][0];
    assert_eq!((got.status, got.src_qpn, got.byte_len), (Ok, 0x99_9999, 48));
    assert_eq!(b.device.counters().get(Counter::RxCrcErrors), 6, "damaged, and noise");
}

/// RC-10.3: many members share one completion queue, whose polls use another method than those of a
/// few.
#[test]
fn a_crowd_of_members_hears_all() {
    const CROWD: usize = 9;
    let (config, group) = (config(WireChoice::Auto, ""), group(13));
    let (a, b) = (ud_side(&config), ud_side(&config));
    let qps: Vec<Arc<Qp>> = (0..CROWD)
        .map(|at| {
            let qp = Qp::create(&b.pd, wide(QpKind::Ud, &b.cq)).unwrap();
            up(&qp, 7);
            qp.attach(Gid::of_roce(group)).unwrap();
            for id in 0..8 {
                qp.post_recv(id, &[b.sge(64 * at, 64)]).unwrap();
            }
            qp
        })
        .collect();
    for id in 0..8 {
        send(&a, group, id, 8);
        let found = gather(&[&a, &b], 1 + CROWD);
        let mut heard: Vec<u32> = found[1].iter().map(|done| done.qpn).collect();
        heard.sort_unstable();
        let mut all: Vec<u32> = qps.iter().map(|qp| qp.qpn()).collect();
        all.sort_unstable();
        assert_eq!(heard, all, "each once");
    }
    qps.iter().for_each(|qp| qp.destroy());
}

/// The service thread also waits on the sockets of groups that were joined late.
#[test]
fn a_sleeping_member_is_woken() {
    let (config, group) = (config(WireChoice::Auto, ""), group(14));
    let (a, b) = (ud_side(&config), ud_side(&config));
    let channel = Channel::create().unwrap();
    let cq = Cq::create_on(&b.device, 16, Some(&channel)).unwrap();
    let qp = Qp::create(&b.pd, QpInit { sq_depth: 4, rq_depth: 16, ..wide(QpKind::Ud, &cq) });
    let qp = qp.unwrap();
    up(&qp, 7);
    for id in 0..10 {
        qp.post_recv(id, &[b.sge(0, 64)]).unwrap();
        cq.arm().unwrap();
        assert!(cq.poll_one().is_none());
        if id == 0 {
            // The member already sleeps.
            qp.attach(Gid::of_roce(group)).unwrap();
        }
        send(&a, group, id, 8);
        let deadline = Instant::now() + Duration::from_secs(10);
        while channel.take_event().unwrap().is_none() {
            assert!(Instant::now() < deadline, "nobody was woken");
            std::thread::yield_now();
        }
        cq.acknowledge_events(1);
        assert_eq!(cq.poll_one().map(|done| (done.wr_id, done.status)), Some((id, Ok)));
        assert_eq!(ends(&gather(&[&a], 1)[0], true), [(id, Ok)]);
    }
    cq.retire_events();
    qp.destroy();
}

#[test]
fn what_cannot_be_a_member_hears_why() {
    let config = config(WireChoice::Auto, "");
    let (a, of_group) = (ud_side(&config), Gid::of_roce(group(15)));
    let unicast = a.qp.attach(a.device.gid());
    assert!(matches!(unicast, Err(GroupError::NotAGroup(_))), "{unicast:?}");
    let six = a.qp.attach(Gid([0xFF; 16]));
    assert!(matches!(six, Err(GroupError::NotAGroup(_))), "{six:?}");
    let connected = Qp::create(&a.pd, wide(QpKind::Rc, &a.cq)).unwrap();
    let refused = connected.attach(of_group);
    assert!(matches!(refused, Err(GroupError::NotDatagrams(QpKind::Rc))), "{refused:?}");
    let efa = common::side(QpKind::Ud, "");
    let refused = efa.qp.attach(of_group);
    assert!(matches!(refused, Err(GroupError::Unsupported)), "{refused:?}");
    a.qp.attach(of_group).unwrap();
    a.qp.attach(of_group).unwrap();
    a.qp.detach(of_group).unwrap();
    a.qp.destroy();
    let gone = a.qp.attach(of_group);
    assert!(matches!(gone, Err(GroupError::Gone)), "{gone:?}");
}

/// A group accepts as many queue pairs as the device says, and those that leave make room.
#[test]
fn a_group_has_room_for_so_many() {
    let config = config(WireChoice::Auto, "");
    let device = Device::open(&config.devices[0], &config).unwrap();
    let pd = device.alloc_pd().unwrap();
    let cq = Cq::create(&device, 64).unwrap();
    let gid = Gid::of_roce(group(16));
    let max = device.attr().roce.unwrap().max_mcast_qp_attach as usize;
    let make = || {
        let qp = Qp::create(&pd, QpInit { sq_depth: 4, rq_depth: 4, ..wide(QpKind::Ud, &cq) });
        qp.unwrap()
    };
    let members: Vec<Arc<Qp>> = (0..max).map(|_| make()).collect();
    members.iter().for_each(|qp| qp.attach(gid).unwrap());
    let late = make();
    let refused = late.attach(gid);
    assert!(matches!(refused, Err(GroupError::TooMany { .. })), "{refused:?}");
    late.attach(Gid::of_roce(group(17))).unwrap();
    members[3].destroy();
    late.attach(gid).unwrap();
    members.iter().chain([&late]).for_each(|qp| qp.destroy());
}
