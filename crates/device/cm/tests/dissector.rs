//! tshark's dissector reads in our messages what we wrote into them.

use crate::common::vectors;
use cm::mad::{Mad, Message};
use std::io::Write as _;
use std::process::Command;

const UDP_PORT: u16 = 4791;
const GSI_QKEY: u32 = 0x8001_0000;

/// The message as RoCE version 2 carries it: IPv4, UDP, BTH, DETH, MAD, ICRC.
fn packet(mad: &Mad) -> Vec<u8> {
    let mut transport = vec![0x64, 0, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0, 0, 7];
    transport.extend(GSI_QKEY.to_be_bytes());
    transport.extend(1u32.to_be_bytes());
    transport.extend(mad.emit());
    transport.extend([0; 4]);
    let udp_len = 8 + transport.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend((20 + udp_len).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    for half in [0xC001, UDP_PORT, udp_len, 0] {
        packet.extend(half.to_be_bytes());
    }
    packet.extend(transport);
    packet
}

/// A capture file of raw IPv4 packets.
fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
    const RAW_IPV4: u32 = 228;
    let mut file = Vec::new();
    for word in [0xA1B2_C3D4, 0x0004_0002, 0, 0, 0xFFFF, RAW_IPV4] {
        file.extend(u32::to_le_bytes(word));
    }
    for packet in packets {
        for word in [0, 0, packet.len() as u32, packet.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

/// Fields of tshark and what they must show; numbers are compared as numbers.
fn expected(mad: &Mad) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("infiniband.mad.baseversion", "1".to_owned()),
        ("infiniband.mad.mgmtclass", "7".to_owned()),
        ("infiniband.mad.classversion", "2".to_owned()),
        ("infiniband.mad.method", "3".to_owned()),
        ("infiniband.mad.transactionid", mad.transaction_id.to_string()),
        ("infiniband.mad.attributeid", mad.message.attribute().to_string()),
    ];
    match &mad.message {
        Message::Req(_) => fields.extend(req_fields()),
        Message::Rej(_) => fields.extend(named(
            "rej",
            &[
                ("localcommid", "1432778632"),
                ("remotecommid", "287454020"),
                ("msgrej", "1"),
                ("rejinfolen", "9"),
                ("reason", "28"),
            ],
        )),
        Message::Rep(_) => fields.extend(rep_fields()),
        Message::Rtu(_) => fields.extend(named("rtu", &PAIR)),
        Message::Dreq(_) => {
            fields.extend(named("dreq", &PAIR));
            fields.push(("infiniband.cm.req.remoteqpneecn", 0x00AB_CDEF.to_string()));
        }
        Message::Drep(_) => fields.extend(named("drsp", &PAIR)),
        Message::Mra(_) | Message::SidrReq(_) | Message::SidrRep(_) => {}
    }
    fields
}

const PAIR: [(&str, &str); 2] = [("localcommid", "1432778632"), ("remotecommid", "287454020")];

fn named(kind: &str, fields: &[(&str, &str)]) -> Vec<(&'static str, String)> {
    let full = |name: &str| -> &'static str { format!("infiniband.cm.{kind}.{name}").leak() };
    fields.iter().map(|&(name, value)| (full(name), value.to_owned())).collect()
}

/// Without flow labels and packet rates: of the word that both share, tshark 4.0 takes the first
/// three bytes for the one and the first byte for the other. `mad.rs` looks at them.
fn req_fields() -> Vec<(&'static str, String)> {
    let mut fields = named(
        "req",
        &[
            ("serviceid", "0x01061ca3"),
            ("serviceid.protocol", "6"),
            ("serviceid.dport", "7331"),
            ("localcaguid", "0x025345000a0b0c0d"),
            ("localqkey", "0x80010203"),
            ("localqpn", "0xabcdef"),
            ("responderres", "17"),
            ("localeecn", "0x010203"),
            ("initdepth", "18"),
            ("remoteeecn", "0x040506"),
            ("remoteresptout", "20"),
            ("transpsvctype", "1"),
            ("e2eflowctrl", "1"),
            ("startpsn", "0x123456"),
            ("localresptout", "19"),
            ("retrcount", "5"),
            ("pkey", "0xfffe"),
            ("pppmtu", "4"),
            ("rdcexist", "0"),
            ("rnrretrcount", "6"),
            ("maxcmretr", "15"),
            ("srq", "1"),
            ("ext_transport", "1"),
            ("prim_locallid", "0xffff"),
            ("prim_remotelid", "0xfffd"),
            ("prim_localgid_ipv4", "192.0.2.1"),
            ("prim_remotegid_ipv4", "192.0.2.2"),
            ("prim_tfcclass", "0x68"),
            ("prim_hoplim", "64"),
            ("prim_sl", "3"),
            ("prim_subnetlocal", "1"),
            ("prim_localacktout", "17"),
            ("alt_locallid", "0x1234"),
            ("alt_remotelid", "0x5678"),
            ("alt_tfcclass", "0x69"),
            ("alt_hoplim", "65"),
            ("alt_sl", "9"),
            ("alt_subnetlocal", "0"),
            ("alt_localacktout", "18"),
            ("ip_cm.majv", "0"),
            ("ip_cm.minv", "0"),
            ("ip_cm.ipv", "4"),
            ("ip_cm.sport", "45678"),
            ("ip_cm.sip4", "192.0.2.1"),
            ("ip_cm.dip4", "192.0.2.2"),
        ],
    );
    fields.push(("infiniband.cm.req", 0x1122_3344.to_string()));
    fields
}

fn rep_fields() -> Vec<(&'static str, String)> {
    let mut fields = named(
        "rep",
        &[
            ("remotecommid", "287454020"),
            ("localqkey", "0x80010204"),
            ("localqpn", "0xfedcba"),
            ("localeecn", "0x070809"),
            ("startpsn", "0x654321"),
            ("respres", "21"),
            ("initdepth", "22"),
            ("tgtackdelay", "15"),
            ("failoveracc", "1"),
            ("e2eflowctrl", "1"),
            ("rnrretrcount", "3"),
            ("srq", "1"),
            ("localcaguid", "0x025345000a0b0c0e"),
        ],
    );
    fields.push(("infiniband.cm.rep", 0x5566_7788.to_string()));
    fields
}

fn as_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn same(shown: &str, meant: &str) -> bool {
    match (as_number(shown), as_number(meant)) {
        (Some(shown), Some(meant)) => shown == meant,
        _ => shown == meant,
    }
}

/// What tshark shows of `fields` in the only packet of `file`.
fn dissect(file: &std::path::Path, fields: &[(&str, String)]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.args(["-T", "fields", "-E", "separator=|", "-r"]).arg(file);
    for (field, _) in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark was there a moment ago");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text.trim_end_matches('\n').split('|').map(str::to_owned).collect()
}

#[test]
fn tshark_reads_what_was_written() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("tshark is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for mad in vectors::messages() {
        let path = dir.path().join("cm.pcap");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&capture(&[packet(&mad)])).unwrap();
        let fields = expected(&mad);
        let shown = dissect(&path, &fields);
        assert_eq!(shown.len(), fields.len(), "{shown:?}");
        let wrong = fields.iter().zip(&shown).filter(|((_, meant), shown)| !same(shown, meant));
        let wrong: Vec<_> = wrong.collect();
        assert!(wrong.is_empty(), "field, written, shown by tshark: {wrong:#?}");
    }
}
