//! Forged ICMP: a sender that has not seen the datagrams can end neither their sends (SRD-3.7,
//! SRD-11.8) nor others from the same port.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::roce::{Link, config, ends, gather, pair_of, post};
use crate::common::sealing::{count, key, sealed_side};
use crate::common::{Side, settled_by, side, side_of};
use softefa::counters::Counter;
use softefa::{Config, QpKind, SendOp, Status, WireChoice};

/// The ports from which queue pairs send.
const PATH_PORTS: Range<u16> = 10_240..16_384;
/// The head of a "port unreachable" message.
const UNREACHABLE: [u8; 8] = [3, 3, 0, 0, 0, 0, 0, 0];
/// The head of a "fragmentation needed" message. The MTU that it names changes nothing on loopback,
/// which other programs use, too.
const TOO_LONG: [u8; 8] = [3, 4, 0, 0, 0, 0, 0xff, 0xff];

/// Returns a socket for ICMP messages; `None`, and a report, for users without that right.
fn raw_socket() -> Option<UdpSocket> {
    // SAFETY: a plain call; the result is checked before it is owned.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP) };
    if fd < 0 {
        eprintln!("SKIPPED, NOT TESTED: a raw socket needs root");
        return None;
    }
    // SAFETY: a fresh descriptor with no other owner. Sending to an address works in the same way.
    Some(UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words =
        bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | two.get(1).map_or(0, |&b| b.into()));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!((folded & 0xffff) as u16 + (folded >> 16) as u16)).to_be_bytes()
}

/// Returns a message that begins with `head`, about a datagram between two ports of this machine
/// that begins with `quote`.
fn icmp(head: [u8; 8], ports: [u16; 2], quote: &[u8]) -> Vec<u8> {
    let localhost = Ipv4Addr::LOCALHOST.octets();
    let udp_len = quote.len() as u16 + 8;
    let mut ip = [0; 12];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&(udp_len + 20).to_be_bytes());
    ip[8] = 64;
    ip[9] = 17;
    let mut bytes = head.to_vec();
    bytes.extend(ip);
    bytes.extend(localhost);
    bytes.extend(localhost);
    bytes.extend(ports.map(u16::to_be_bytes).concat());
    bytes.extend(udp_len.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(quote);
    let sum = checksum(&bytes);
    bytes[2..4].copy_from_slice(&sum);
    bytes
}

/// Returns the next datagram of `a`, and the port of its path.
fn next_datagram(a: &Side, peer: &UdpSocket) -> (Vec<u8>, u16) {
    let (deadline, mut buffer) = (Instant::now() + Duration::from_secs(10), [0; 1 << 16]);
    loop {
        assert!(a.cq.poll_one().is_none(), "ended by a forgery");
        if let Ok((len, SocketAddr::V4(from))) = peer.recv_from(&mut buffer) {
            return (buffer[..len].to_vec(), from.port());
        }
        assert!(Instant::now() < deadline, "it sends nothing");
    }
}

#[test]
fn forged_icmp_ends_nothing() {
    let Some(stranger) = raw_socket() else { return };
    // The forged bits are those of the session and counter (without the lowest bits, which may have
    // been used by now), or those of the token.
    let cases = [(sealed_side(QpKind::Srd, ""), 64..184), (side(QpKind::Srd, ""), 96..160)];
    for (a, secret_bits) in cases {
        let peer = UdpSocket::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).expect("a socket");
        peer.set_nonblocking(true).expect("a socket that does not block");
        let qpn = peer.local_addr().expect("an address").port();
        let ah = a.pd.create_ah(a.device.gid()).expect("an address handle");
        a.post(1, &ah, qpn, SendOp::Send, &[a.sge(0, 8)]);
        let (sent, path) = next_datagram(&a, &peer);
        let say = |quote: &[u8]| {
            let message = icmp(UNREACHABLE, [path, qpn], &quote[..quote.len().min(60)]);
            stranger.send_to(&message, (IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).expect("sent");
        };
        for bit in secret_bits {
            let mut forged = sent.clone();
            forged[bit / 8] ^= 0x80 >> (bit % 8);
            say(&forged);
        }
        // Its loss timer has expired three times, and it has checked each time.
        for _ in 0..3 {
            next_datagram(&a, &peer);
        }
        // A sender that was on the path can end it.
        say(&sent);
        let done = settled_by(Duration::from_secs(10), || a.cq.poll_one());
        assert_eq!(done.status, Status::RemoteBadDestQpn);
    }
}

/// Returns the ports from which queue pairs of this process send.
fn path_ports() -> Vec<u16> {
    let files = fs::read_dir("/proc/self/fd").expect("the files of this process");
    let own: Vec<PathBuf> =
        files.filter_map(|file| fs::read_link(file.expect("a file").path()).ok()).collect();
    let port_of = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let inode = PathBuf::from(format!("socket:[{}]", fields.get(9)?));
        let port = u16::from_str_radix(fields.get(1)?.split_once(':')?.1, 16).ok()?;
        (PATH_PORTS.contains(&port) && own.contains(&inode)).then_some(port)
    };
    let sockets = fs::read_to_string("/proc/self/net/udp").expect("the sockets of this machine");
    sockets.lines().filter_map(port_of).collect()
}

/// Makes two connected sides over UDP.
fn udp_pair(kind: QpKind, is_sealed: bool) -> (Side, Side) {
    let with_key = |config| {
        let (wire, key) = (WireChoice::Udp, is_sealed.then(|| key(1)));
        Config { wire, key, ..config }
    };
    if kind == QpKind::Rc {
        let roce = with_key(config(WireChoice::Udp, ""));
        return pair_of(&roce, kind, 1 << 20, &Link::default());
    }
    let efa = with_key(Config::default());
    (side_of(kind, &efa), side_of(kind, &efa))
}

/// The kernel reports the error at the next send from that port. That send fails without an
/// attempt, and the message must be tried again.
#[test]
fn a_forged_too_long_fails_no_message() {
    let Some(stranger) = raw_socket() else { return };
    for (kind, is_sealed) in
        [(QpKind::Srd, false), (QpKind::Srd, true), (QpKind::Rc, false), (QpKind::Rc, true)]
    {
        let (a, b) = udp_pair(kind, is_sealed);
        let ports = path_ports();
        assert!(!ports.is_empty(), "nobody sends");
        let ah = a.ah(&b);
        for id in 0..20 {
            b.post_recv(id, 0, 64);
            for port in &ports {
                // This datagram was never sent, and its receiver does not exist.
                let message = icmp(TOO_LONG, [*port, 9], b"anything");
                stranger.send_to(&message, (IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).expect("sent");
            }
            match kind {
                QpKind::Rc => post(&a, id, SendOp::Send, &[a.sge(0, 8)]),
                _ => a.send(id, &b, &ah, 0, 8),
            }
            let found = gather(&[&a, &b], 2);
            assert_eq!(ends(&found[0], true), [(id, Status::Ok)], "{kind:?}, sealed: {is_sealed}");
        }
        assert!(count(&a, Counter::TxRefused) > 0, "{kind:?}: nothing was told");
        assert_eq!(count(&a, Counter::TxErrors), 0, "{kind:?}: a message was given up");
    }
}
