//! Headers and checks compared with the output of scapy, and in round trips.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::icrc::{Addresses, Route};
use super::*;
use crate::Psn;

/// Packets of scapy 2.8.0, `contrib/roce`, from the base transport header to the ICRC:
/// `bytes(IP(src="10.1.2.3", dst="10.1.2.4", id=0, flags="DF", tos=0x6a, ttl=63) / UDP(sport=49152,
/// dport=4791, chksum=0) / BTH(dqpn=0x123456, psn=0xfedcba, migreq=1, pkey=0xffff, opcode=0x04,
/// padcount=3, ackreq=1, solicited=1) / Raw(b"hello\0\0\0"))[28:]` and so on.
const SEND_ONLY: &str = "04f0ffff0012345680fedcba68656c6c6f00000048008570";
/// `opcode=0x11 / AETH(syndrome=0x1f, msn=0x010203)`.
const ACK: &str = "1140ffff0012345600fedcba1f0102039102d0a1";
/// `opcode=0x11 / AETH(syndrome=0x62, msn=7)`.
const NAK: &str = "1140ffff0012345600fedcba620000077cb61c0c";
/// `IP(..., id=0x4d2, tos=1, ttl=9)` without DF, `opcode=0x00, becn=1 / Raw(bytes(range(64)))`.
const WITH_ID: &str = "0040ffff4012345600fedcba000102030405060708090a0b0c0d0e0f101112131415161718191a1b\
                       1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f8d84a12b";
/// `IPv6(src="fd00::1", dst="fd00::2", tc=2, hlim=7, fl=0x12345) / UDP(sport=50001, ...)`,
/// `opcode=0x04, padcount=3, ackreq=1 / Raw(b"hello\0\0\0")`.
const SEND_ONLY_V6: &str = "0470ffff0012345680fedcba68656c6c6f0000005826d7cd";
/// The same network, `opcode=0x11 / AETH(syndrome=0x2e, msn=7)`.
const RNR_NAK_V6: &str = "1140ffff0012345600fedcba2e0000074fe8541d";
/// `opcode=0x81, becn=1, migreq=1, dqpn=0x123456 / CNPPadding()`.
const CNP: &str = "8140ffff4012345600000000000000000000000000000000000000008bc52b67";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn route_v4(id: u16, dont_fragment: bool) -> Route {
    let (src, dst) = (Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::new(10, 1, 2, 4));
    let addresses = Addresses::V4 { src, dst, id, dont_fragment };
    Route { addresses, src_port: 49_152, dst_port: UDP_PORT }
}

fn route_v6() -> Route {
    let host = |last| Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, last);
    let addresses = Addresses::V6 { src: host(1), dst: host(2) };
    Route { addresses, src_port: 50_001, dst_port: UDP_PORT }
}

/// RC-1.5.
#[test]
fn the_icrc_is_what_scapy_computes() {
    let plain = route_v4(0, true);
    for packet in [SEND_ONLY, ACK, NAK, CNP] {
        assert!(icrc::is_right(&plain, &bytes(packet)), "{packet}");
        assert!(!icrc::is_right(&route_v4(1, true), &bytes(packet)), "the identification counts");
    }
    assert!(icrc::is_right(&route_v4(0x4D2, false), &bytes(WITH_ID)));
    for packet in [SEND_ONLY_V6, RNR_NAK_V6] {
        assert!(icrc::is_right(&route_v6(), &bytes(packet)), "{packet}");
    }
}

#[test]
fn the_icrc_covers_every_bit_that_routers_leave_alone() {
    let route = route_v4(0, true);
    let good = bytes(SEND_ONLY);
    for bit in 0..good.len() * 8 {
        let mut bent = good.clone();
        bent[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(icrc::is_right(&route, &bent), bit / 8 == 4, "bit {bit}");
    }
    assert!(!icrc::is_right(&route, &good[..3]));
}

#[test]
fn the_icrc_does_not_depend_on_how_the_packet_is_cut() {
    let (route, good) = (route_v4(0, true), bytes(SEND_ONLY));
    let mut icrc = icrc::Icrc::new(&route, good.len());
    icrc.update_headers(&good[..12]);
    icrc.update(&good[12..15]);
    icrc.update(&good[15..20]);
    assert_eq!(icrc.finish(), good[20..]);
}

/// RC-1.1, RC-1.3.
#[test]
fn headers_are_what_scapy_makes() {
    let packet = Packet::parse(&bytes(SEND_ONLY), 24).unwrap();
    let bth = packet.headers.bth;
    assert_eq!(bth.opcode, Opcode { transport: Transport::Rc, kind: Kind::SendOnly });
    assert_eq!((bth.dest_qpn, bth.psn, bth.pkey), (0x12_3456, Psn::new(0xFE_DCBA), 0xFFFF));
    assert!(bth.is_solicited && bth.is_migrated && bth.wants_ack);
    assert_eq!((bth.pad, packet.payload_len, packet.payload_at()), (3, 5, 12));
    let nak = Headers::parse(&bytes(NAK)).unwrap();
    assert_eq!(nak.aeth, Aeth { syndrome: Syndrome::Nak(NakCode::RemoteAccess), msn: 7 });
    let rnr = Headers::parse(&bytes(RNR_NAK_V6)).unwrap();
    assert_eq!(rnr.aeth.syndrome, Syndrome::RnrNak(14));
    assert!(Headers::parse(&bytes(WITH_ID)).unwrap().bth.has_becn);
}

/// RC-1.7.
#[test]
fn a_congestion_notification_is_what_scapy_makes() {
    let cnp = Cnp { pkey: 0xFFFF, dest_qpn: 0x12_3456 };
    let mut out = [0xAA; Cnp::LEN];
    cnp.emit(&mut out);
    assert_eq!(out, bytes(CNP)[..Cnp::LEN]);
    assert_eq!(Cnp::parse(&out), Ok(cnp));
    assert_eq!(Cnp::parse(&out[1..]), Err(DropReason::Short));
    assert_eq!(Cnp::parse(&bytes(WITH_ID)), Err(DropReason::Opcode));
}

fn sample(opcode: Opcode) -> Headers {
    let bth = Bth {
        opcode,
        is_solicited: true,
        is_migrated: true,
        pad: 0,
        pkey: 0x8001,
        has_fecn: true,
        has_becn: false,
        joined: 37,
        dest_qpn: 0xAB_CDEF,
        wants_ack: true,
        psn: Psn::new(0x01_0203),
    };
    let kind = opcode.kind;
    let mut headers = Headers::new(bth);
    if opcode.transport == Transport::Xrc && kind.is_request() {
        headers.srq = 0x11_2233;
    }
    if opcode.transport == Transport::Ud {
        headers.deth = Deth { qkey: 0x8001_0000, src_qpn: 0x44_5566 };
    }
    if kind == Kind::Flush {
        headers.feth = Feth { is_global: true, is_persistent: false, is_whole_region: true };
    }
    if kind.has_reth() {
        headers.reth = Reth { va: 0x0102_0304_0506_0708, rkey: 0x99AA_BBCC, dma_len: 1 << 31 };
    }
    if kind.is_atomic() {
        headers.atomic = AtomicEth { va: u64::MAX - 7, rkey: 5, swap_or_add: 6, compare: 7 << 40 };
    }
    if kind.has_aeth() {
        headers.aeth = Aeth { syndrome: Syndrome::RnrNak(3), msn: 0xFF_FFFE };
    }
    if kind == Kind::AtomicAcknowledge {
        headers.original = 0x1122_3344_5566_7788;
    }
    if kind.has_imm() {
        headers.imm = 0xCAFE_F00D;
    }
    if kind.has_ieth() {
        headers.invalidate = 0x0BAD_5EED;
    }
    headers
}

/// RC-1.2.
#[test]
fn every_packet_survives_a_round_trip() {
    for opcode in (0..=255).filter_map(Opcode::from_byte) {
        let headers = sample(opcode);
        let mut out = [0xEE; 64];
        let len = headers.emit(&mut out);
        assert_eq!(Headers::parse(&out[..len]), Ok(headers), "{opcode:?}");
        assert_eq!(Headers::parse(&out[..len - 1]), Err(DropReason::Short), "{opcode:?}");
        assert!(len <= crate::HEADER_MAX && len == headers.len());
        assert_eq!(out[len..], [0xEE; 64][len..]);
    }
}

/// RC-1.4.
#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let mut out = [0; 64];
    let mut headers = sample(Opcode { transport: Transport::Rc, kind: Kind::SendOnly });
    headers.bth.pad = 3;
    let len = headers.emit(&mut out);
    assert_eq!(Packet::parse(&out, len + 5 + 3 + 4).map(|packet| packet.payload_len), Ok(5));
    for wrong in [len, len + 4, len + 6, len + 5 + 3 + 4 + 1] {
        assert_eq!(Packet::parse(&out, wrong), Err(DropReason::Malformed), "{wrong}");
    }
    let len = sample(Opcode { transport: Transport::Rc, kind: Kind::Acknowledge }).emit(&mut out);
    assert!(Packet::parse(&out, len + 4).is_ok());
    assert_eq!(Packet::parse(&out, len + 8), Err(DropReason::Malformed), "no payload there");
}

#[test]
fn other_versions_and_reserved_opcodes_are_refused() {
    let mut packet = bytes(ACK);
    packet[1] |= 1;
    assert_eq!(Headers::parse(&packet), Err(DropReason::Version));
    packet[1] = 0;
    for reserved in [0x15, 0x18, 0x1B, 0x1E, 0x2C, 0x40, 0x66, 0x81, 0xFF] {
        packet[0] = reserved;
        assert_eq!(Headers::parse(&packet), Err(DropReason::Opcode), "{reserved:#x}");
    }
}

/// What is read is what would be written: nothing in between is lost, nothing panics.
#[test]
fn any_bytes_are_read_or_refused() {
    let mut state = 1u64;
    let mut roll = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) as u8
    };
    let mut read = 0;
    for round in 0..200_000usize {
        let mut bytes: Vec<u8> = (0..round % 70).map(|_| roll()).collect();
        if bytes.len() > 1 && round % 3 > 0 {
            bytes[1] &= 0xF0;
        }
        let Ok(packet) = Packet::parse(&bytes, bytes.len()) else { continue };
        read += 1;
        let mut out = [0; 64];
        let len = packet.headers.emit(&mut out);
        assert_eq!(Headers::parse(&out[..len]), Ok(packet.headers));
        assert_eq!(
            len + packet.payload_len as usize + usize::from(packet.headers.bth.pad) + 4,
            bytes.len()
        );
    }
    assert!(read > 3000, "only {read} packets were any good");
}
