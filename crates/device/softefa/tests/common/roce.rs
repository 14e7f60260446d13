//! Connected queue pairs of RoCE devices on loopback.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::{Arc, Mutex};

use rc::wire::icrc;
use softefa::{
    Access, Completion, CompletionOp, Config, Cq, Device, DeviceSpec, Gid, ModifyQp, Path, Qp,
    QpInit, QpKind, QpState, Remote, SendData, SendOp, SendWr, Sge, Status, WireChoice,
};

use super::{Side, init, poll_until};

/// The carriers of packets: shared memory after the first few packets, or UDP alone.
pub const WIRES: [WireChoice; 2] = [WireChoice::Auto, WireChoice::Udp];

/// All rights that a peer can have.
pub const EVERYTHING: Access = Access {
    local_write: true,
    remote_read: true,
    remote_write: true,
    remote_atomic: true,
    remote_flush: true,
};

/// Returns the configuration of a RoCE device on loopback.
pub fn config(wire: WireChoice, faults: &str) -> Config {
    let device: DeviceSpec = "roce0=127.0.0.1,profile=roce".parse().expect("a device");
    let faults = faults.parse().expect("faults");
    Config { devices: vec![device], wire, faults, ..Config::default() }
}

/// Returns true if this machine has `::1`; a test that requires it ends if not, and says so.
pub fn has_ipv6() -> bool {
    let found = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0));
    if let Err(error) = &found {
        eprintln!("SKIPPED: this machine has no IPv6 on loopback ({error})");
    }
    found.is_ok()
}

/// Returns `packet` from `from` to 127.0.0.1 with its ICRC (docs/PROTOCOL.md, RC-1.8).
pub fn with_icrc(packet: Vec<u8>, from: IpAddr) -> Vec<u8> {
    with_icrc_to(packet, from, IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Appends the ICRC of a packet to another address, which may be that of a group.
pub fn with_icrc_to(mut packet: Vec<u8>, src: IpAddr, dst: IpAddr) -> Vec<u8> {
    let addresses = icrc::Addresses::of_datagram(src, dst);
    let route = icrc::Route { addresses, src_port: 0xC000, dst_port: 4791 };
    packet.extend(icrc::of(&route, &packet));
    packet
}

/// Returns the configuration of a strict device, which waits exactly as long as a connection says.
pub fn strict() -> Config {
    Config { strict: true, ..config(WireChoice::Udp, "") }
}

/// The attributes that a connection agrees on.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    pub mtu: u32,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub rd_atomic: u8,
    pub access: Access,
    /// The first packet numbers of both ends. Those of the first end soon wrap around.
    pub psn: [u32; 2],
}

impl Default for Link {
    fn default() -> Self {
        Self {
            mtu: 1024,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            rd_atomic: 16,
            access: EVERYTHING,
            psn: [0xff_fff5, 77],
        }
    }
}

/// Makes a side whose queue pair is in the reset state, with `bytes` of memory.
pub fn side(config: &Config, kind: QpKind, bytes: usize) -> Side {
    side_with(config, kind, bytes, |_| ())
}

/// Makes a side whose queue pair is created as `change` says.
pub fn side_with(
    config: &Config,
    kind: QpKind,
    bytes: usize,
    change: impl FnOnce(&mut QpInit),
) -> Side {
    let device = Device::open(&config.devices[0], config).expect("a device");
    let pd = device.alloc_pd().expect("a domain");
    let mut qp_init = wide(kind, &Cq::create(&device, 16_384).expect("a queue"));
    change(&mut qp_init);
    let cq = Arc::clone(&qp_init.recv_cq);
    let qp = Qp::create(&pd, qp_init).expect("a queue pair");
    let memory = vec![0u8; bytes].into_boxed_slice();
    let mr = pd.reg_mr(memory.as_ptr() as u64, bytes as u64, EVERYTHING).expect("a region");
    Side { device, pd, cq, qp, mr, memory, aside: Mutex::default() }
}

/// Returns the attributes of a queue pair with the limits of the device. Work requests complete if
/// they ask for it.
pub fn wide(kind: QpKind, cq: &Arc<Cq>) -> QpInit {
    QpInit { sq_sge: 32, rq_sge: 32, inline_bytes: 512, sq_sig_all: false, ..init(kind, cq) }
}

pub fn to(state: QpState) -> ModifyQp {
    ModifyQp { state: Some(state), ..ModifyQp::default() }
}

pub fn to_init(link: &Link) -> ModifyQp {
    let access = Some(link.access);
    ModifyQp { port: Some(1), pkey_index: Some(0), access, ..to(QpState::Init) }
}

/// Returns the change to ready to receive, for a peer `qpn` at `gid` whose first packet has the
/// number `psn`.
pub fn to_receive(kind: QpKind, link: &Link, gid: Gid, qpn: u32, psn: u32) -> ModifyQp {
    let path = Path { dgid: gid, is_global: true, port: 1, hop_limit: 64, ..Path::default() };
    let answers = matches!(kind, QpKind::Rc | QpKind::XrcTarget);
    ModifyQp {
        path: Some(path),
        path_mtu_bytes: Some(link.mtu),
        dest_qpn: Some(qpn),
        rq_psn: Some(psn),
        max_dest_rd_atomic: answers.then_some(link.rd_atomic),
        min_rnr_timer: answers.then_some(link.min_rnr_timer),
        ..to(QpState::ReadyToReceive)
    }
}

pub fn to_send(kind: QpKind, link: &Link, psn: u32) -> ModifyQp {
    let asks = matches!(kind, QpKind::Rc | QpKind::XrcInitiator);
    ModifyQp {
        sq_psn: Some(psn),
        timeout: (asks || kind == QpKind::XrcTarget).then_some(link.timeout),
        retry_cnt: asks.then_some(link.retry_cnt),
        rnr_retry: asks.then_some(link.rnr_retry),
        max_rd_atomic: asks.then_some(link.rd_atomic),
        ..to(QpState::ReadyToSend)
    }
}

/// Brings a fresh queue pair to ready to send. `psn` is its own first number, followed by that of
/// the peer.
pub fn up(qp: &Qp, link: &Link, peer: (Gid, u32), psn: [u32; 2]) {
    let kind = qp.init().kind;
    qp.modify(&to_init(link)).expect("to INIT");
    qp.modify(&to_receive(kind, link, peer.0, peer.1, psn[1])).expect("to RTR");
    qp.modify(&to_send(kind, link, psn[0])).expect("to RTS");
}

pub fn connect_qps(a: &Qp, b: &Qp, link: &Link) {
    let [first, second] = link.psn;
    up(a, link, (b.pd().device().gid(), b.qpn()), [first, second]);
    up(b, link, (a.pd().device().gid(), a.qpn()), [second, first]);
}

pub fn connect(a: &Side, b: &Side, link: &Link) {
    connect_qps(&a.qp, &b.qp, link);
}

/// Makes two connected sides with `bytes` of memory each.
pub fn pair_of(config: &Config, kind: QpKind, bytes: usize, link: &Link) -> (Side, Side) {
    let (a, b) = (side(config, kind, bytes), side(config, kind, bytes));
    connect(&a, &b, link);
    (a, b)
}

/// Makes two sides with a reliable connection over UDP.
pub fn pair() -> (Side, Side) {
    pair_of(&config(WireChoice::Udp, ""), QpKind::Rc, 1 << 20, &Link::default())
}

/// Returns a signaled work request of a connected queue pair.
pub fn wr<'a>(wr_id: u64, op: SendOp, sges: &'a [Sge]) -> SendWr<'a> {
    let data = SendData::Sges(sges);
    let (signaled, fenced, solicited, more) = (true, false, false, false);
    SendWr { wr_id, op, data, signaled, fenced, solicited, target: None, remote_srq: 0, more }
}

pub fn post(a: &Side, wr_id: u64, op: SendOp, sges: &[Sge]) {
    a.qp.post_send(&wr(wr_id, op, sges)).expect("a work request is taken");
}

/// Returns the operation of the completion of such a work request.
pub fn op_of(op: SendOp) -> CompletionOp {
    match op {
        SendOp::Read(_) => CompletionOp::Read,
        SendOp::Write(_) | SendOp::WriteImm(..) => CompletionOp::Write,
        SendOp::AtomicWrite(_) => CompletionOp::AtomicWrite,
        SendOp::Flush(..) => CompletionOp::Flush,
        SendOp::CompareSwap { .. } => CompletionOp::CompareSwap,
        SendOp::FetchAdd { .. } => CompletionOp::FetchAdd,
        SendOp::LocalInvalidate(_) => CompletionOp::LocalInvalidate,
        _ => CompletionOp::Send,
    }
}

pub fn swap(remote: Remote, compare: u64, swap: u64) -> SendOp {
    SendOp::CompareSwap { remote, compare, swap }
}

pub fn add(remote: Remote, add: u64) -> SendOp {
    SendOp::FetchAdd { remote, add }
}

/// Returns the next `count` completions of all sides, by side, in order.
pub fn gather(sides: &[&Side], count: usize) -> Vec<Vec<Completion>> {
    let mut found = vec![Vec::new(); sides.len()];
    let mut left = count;
    if count > 0 {
        poll_until(sides, |index, done| {
            found[index].push(done);
            left -= 1;
            left == 0
        });
    }
    found
}

/// Returns the results of the work requests of one queue, in order.
pub fn ends(of: &[Completion], is_send_queue: bool) -> Vec<(u64, Status)> {
    let of = of.iter().filter(|done| done.op.is_send_queue() == is_send_queue);
    of.map(|done| (done.wr_id, done.status)).collect()
}

/// Polls all sides as long as something could still be under way; nothing may complete.
pub fn assert_quiet(sides: &[&Side]) {
    for _ in 0..200 {
        for side in sides {
            let more = side.cq.poll_one();
            assert!(more.is_none(), "{more:?} came late");
        }
        std::thread::yield_now();
    }
}

/// Returns bytes that identify their place and their message.
pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)).wrapping_mul(31).wrapping_add(seed) as u8)
        .collect()
}
