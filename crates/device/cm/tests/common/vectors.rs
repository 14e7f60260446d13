//! One message of each kind, its bytes, and what tshark reads in them.
//!
//! The bytes are what `emit` made of [`messages`] once; every field has a value of its own, so that
//! two that change places show. tshark 4.0.17 read the values named beside them, and `dissector.rs`
//! asks the tshark of the machine again. It knows no fields of MRA, SIDR_REQ and SIDR_REP:
//! `mad.rs` puts those together by hand.

use cm::mad::{Drep, Dreq, Mad, Message, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq};
use std::net::{IpAddr, Ipv4Addr};

pub const TRANSACTION_ID: u64 = 0x0102_0304_0506_0708;

/// Bytes that count up from `first`.
fn counting<const N: usize>(first: u8) -> [u8; N] {
    core::array::from_fn(|at| first.wrapping_add(at as u8))
}

fn mapped(last: u8) -> [u8; 16] {
    Ipv4Addr::new(192, 0, 2, last).to_ipv6_mapped().octets()
}

pub fn req() -> Req {
    let header = cm::mad::IpHeader {
        source: IpAddr::from([192, 0, 2, 1]),
        source_port: 45_678,
        destination: IpAddr::from([192, 0, 2, 2]),
    };
    let mut private_data: [u8; 92] = counting(0x40);
    private_data[..36].copy_from_slice(&header.emit().expect("one family"));
    Req {
        local_comm_id: 0x1122_3344,
        service_id: 0x0106_1CA3,
        local_ca_guid: 0x0253_4500_0A0B_0C0D,
        local_qkey: 0x8001_0203,
        local_qpn: 0x00AB_CDEF,
        responder_resources: 17,
        local_eecn: 0x0001_0203,
        initiator_depth: 18,
        remote_eecn: 0x0004_0506,
        remote_response_timeout: 20,
        transport: 1,
        flow_control: true,
        starting_psn: 0x0012_3456,
        local_response_timeout: 19,
        retry_count: 5,
        pkey: 0xFFFE,
        mtu: 4,
        rdc_exists: false,
        rnr_retry_count: 6,
        max_cm_retries: 15,
        srq: true,
        extended_transport: 1,
        primary_local_lid: 0xFFFF,
        primary_remote_lid: 0xFFFD,
        primary_local_gid: mapped(1),
        primary_remote_gid: mapped(2),
        primary_flow_label: 0x0009_8765,
        primary_packet_rate: 13,
        primary_traffic_class: 0x68,
        primary_hop_limit: 64,
        primary_sl: 3,
        primary_subnet_local: true,
        primary_ack_timeout: 17,
        alternate_local_lid: 0x1234,
        alternate_remote_lid: 0x5678,
        alternate_local_gid: counting(0xA0),
        alternate_remote_gid: counting(0xC0),
        alternate_flow_label: 0x000A_BCDE,
        alternate_packet_rate: 7,
        alternate_traffic_class: 0x69,
        alternate_hop_limit: 65,
        alternate_sl: 9,
        alternate_subnet_local: false,
        alternate_ack_timeout: 18,
        sap_supported: true,
        private_data,
    }
}

fn rep() -> Rep {
    Rep {
        local_comm_id: 0x5566_7788,
        remote_comm_id: 0x1122_3344,
        local_qkey: 0x8001_0204,
        local_qpn: 0x00FE_DCBA,
        local_eecn: 0x0007_0809,
        starting_psn: 0x0065_4321,
        responder_resources: 21,
        initiator_depth: 22,
        target_ack_delay: 15,
        failover_accepted: 1,
        flow_control: true,
        rnr_retry_count: 3,
        srq: true,
        local_ca_guid: 0x0253_4500_0A0B_0C0E,
        private_data: counting(0x30),
    }
}

/// One of each, by attribute.
pub fn messages() -> [Mad; 9] {
    let (local_comm_id, remote_comm_id) = (0x5566_7788, 0x1122_3344);
    let mra = Mra { message: 1, service_timeout: 24, private_data: counting(1), ..Mra::ZERO };
    let rej = Rej {
        local_comm_id,
        remote_comm_id,
        message: 1,
        info_len: 9,
        reason: 28,
        ari: counting(0x50),
        private_data: counting(0x20),
    };
    let sidr_req = SidrReq {
        request_id: 0x0BAD_CAFE,
        pkey: 0xFFFF,
        service_id: 0x0111_2233,
        private_data: counting(3),
    };
    let sidr_rep = SidrRep {
        request_id: 0x0BAD_CAFE,
        status: 2,
        info_len: 5,
        qpn: 0x0000_8001,
        service_id: 0x0111_2233,
        qkey: 0x0123_4567,
        info: counting(4),
        private_data: counting(5),
    };
    [
        Message::Req(req()),
        Message::Mra(Mra { local_comm_id, remote_comm_id, ..mra }),
        Message::Rej(rej),
        Message::Rep(rep()),
        Message::Rtu(Rtu { local_comm_id, remote_comm_id, private_data: counting(6) }),
        Message::Dreq(Dreq {
            local_comm_id,
            remote_comm_id,
            remote_qpn: 0x00AB_CDEF,
            private_data: counting(7),
        }),
        Message::Drep(Drep { local_comm_id, remote_comm_id, private_data: counting(8) }),
        Message::SidrReq(sidr_req),
        Message::SidrRep(sidr_rep),
    ]
    .map(|message| Mad { transaction_id: TRANSACTION_ID, message })
}

/// The bytes of [`messages`] in hexadecimal.
pub const BYTES: [&str; 9] = [
    "01070203000000000102030405060708001000000000000011223344000000000000000001061ca3\
     025345000a0b0c0d0000000080010203abcdef1101020312040506a31234569dfffe46f9fffffffd\
     00000000000000000000ffffc000020100000000000000000000ffffc00002029876500d68403888\
     12345678a0a1a2a3a4a5a6a7a8a9aaabacadaeafc0c1c2c3c4c5c6c7c8c9cacbcccdcecfabcde007\
     694190940040b26e000000000000000000000000c0000201000000000000000000000000c0000202\
     6465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b\
     8c8d8e8f909192939495969798999a9b",
    "010702030000000001020304050607080011000000000000556677881122334440c0010203040506\
     0708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e\
     2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f50515253545556\
     5758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e\
     7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6\
     a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdce\
     cfd0d1d2d3d4d5d6d7d8d9dadbdcddde",
    "01070203000000000102030405060708001200000000000055667788112233444012001c50515253\
     5455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b\
     7c7d7e7f808182838485868788898a8b8c8d8e8f9091929394959697202122232425262728292a2b\
     2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f50515253\
     5455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b\
     7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3\
     a4a5a6a7a8a9aaabacadaeafb0b1b2b3",
    "010702030000000001020304050607080013000000000000556677881122334480010204fedcba00\
     070809006543210015167b70025345000a0b0c0e303132333435363738393a3b3c3d3e3f40414243\
     4445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b\
     6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f90919293\
     9495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babb\
     bcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3\
     e4e5e6e7e8e9eaebecedeeeff0f1f2f3",
    "0107020300000000010203040506070800140000000000005566778811223344060708090a0b0c0d\
     0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435\
     363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d\
     5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485\
     868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacad\
     aeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5\
     d6d7d8d9dadbdcdddedfe0e1e2e3e4e5",
    "0107020300000000010203040506070800150000000000005566778811223344abcdef000708090a\
     0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132\
     333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a\
     5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182\
     838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aa\
     abacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2\
     d3d4d5d6d7d8d9dadbdcdddedfe0e1e2",
    "010702030000000001020304050607080016000000000000556677881122334408090a0b0c0d0e0f\
     101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637\
     38393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f\
     606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f8081828384858687\
     88898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeaf\
     b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7\
     d8d9dadbdcdddedfe0e1e2e3e4e5e6e7",
    "0107020300000000010203040506070800170000000000000badcafeffff00000000000001112233\
     030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a\
     2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152\
     535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a\
     7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2\
     a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9ca\
     cbcccdcecfd0d1d2d3d4d5d6d7d8d9da",
    "0107020300000000010203040506070800180000000000000badcafe020500000080010000000000\
     01112233012345670405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223\
     2425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b\
     05060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c\
     2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f5051525354\
     55565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c\
     7d7e7f808182838485868788898a8b8c",
];
