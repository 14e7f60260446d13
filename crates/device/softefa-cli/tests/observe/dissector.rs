//! Datagrams that no adapter sends, of which the dissector must report what is wrong.

use std::fs;
use std::process::Command;

use crate::harness::has;
use crate::wireshark::tshark;

/// Source and destination port: a path, and a queue pair with number 0x4010.
const PORTS: &str = "10240,16400";

/// Returns what the dissector shows of the datagram `hex`: protocol, and `fields`.
fn dissect(hex: &str, fields: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let (text, file) = (dir.path().join("hex"), dir.path().join("one.pcapng"));
    // The input of text2pcap: offset, then bytes.
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes: Vec<String> = digits.chunks(2).map(|pair| pair.iter().collect()).collect();
    fs::write(&text, format!("0000 {}\n", bytes.join(" "))).unwrap();
    let output = Command::new("text2pcap")
        .args(["-q", "-4", "127.0.0.1,127.0.0.2", "-u", PORTS])
        .args([&text, &file])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let fields = ["_ws.col.Protocol"].iter().chain(fields).flat_map(|field| ["-e", field]);
    let args: Vec<&str> = ["-T", "fields"].into_iter().chain(fields).collect();
    tshark(&file, &args).trim_end_matches('\n').split('\t').map(str::to_owned).collect()
}

/// Returns a common header with these first two bytes, to queue pair 0x4010, with a wrong check.
fn header(kind_and_flags: &str) -> String {
    format!("{kind_and_flags} 0003 4011 4010 deadbeef")
}

/// Returns a data block of operation `op` for `len` bytes, `oldest` ahead.
fn data(op: &str, len: &str, oldest: &str) -> String {
    format!("0102030405060708 00000007 00000001 {oldest} 0000 {op} 00 {len} 11111111 00000000")
}

#[test]
fn a_reset_and_a_wrong_check_are_seen() {
    if !has("tshark") {
        return;
    }
    let hex = header("1100") + "0123456789abcdef";
    let fields = ["srd.path", "srd.src_qpn", "srd.reset.conn", "srd.check.status"];
    assert_eq!(dissect(&hex, &fields), ["SRD", "3", "16401", "0x0123456789abcdef", "0"]);
    let damaged = dissect(&hex, &["_ws.expert.message"]);
    assert!(damaged[1].contains("check does not fit"), "{damaged:?}");
}

#[test]
fn answers_to_strangers_are_seen() {
    if !has("tshark") {
        return;
    }
    let refused = header("1300") + "0123456789abcdef 00000007 0003 09 00";
    let fields = ["conn", "psn", "count", "status"].map(|field| format!("srd.refused.{field}"));
    let said = dissect(&refused, &fields.each_ref().map(String::as_str));
    assert_eq!(said, ["SRD", "0x0123456789abcdef", "7", "3", "9"]);
    let challenge = header("1400") + "0123456789abcdef fedcba9876543210";
    let said = dissect(&challenge, &["srd.challenge.conn", "srd.cookie"]);
    assert_eq!(said, ["SRD", "0x0123456789abcdef", "0xfedcba9876543210"]);
    let opening = header("1011") + &data("00", "0000", "0000") + "fedcba9876543210";
    assert_eq!(dissect(&opening, &["srd.psn", "srd.cookie"]), ["SRD", "7", "0xfedcba9876543210"]);
}

#[test]
fn contradictions_are_named() {
    if !has("tshark") {
        return;
    }
    for (hex, why) in [
        (header("1000"), "neither acknowledgement nor data"),
        (header("1008") + "0000", "acknowledgement cut off"),
        (header("1010") + "0000", "data block cut off"),
        (header("1010") + &data("00", "0000", "2000"), "further ahead"),
        (header("1010") + &data("00", "0001", "0000"), "longer than its datagram"),
        (header("1010") + &data("01", "0001", "0000") + "00", "shorter than an RDMA block"),
        (header("1200") + "00", "unreliable datagram cut off"),
        (header("1300") + "00", "REFUSED cut off"),
        (header("1300") + "0123456789abcdef 00000007 0000 0900", "as no window has"),
        (header("1400") + "00", "CHALLENGE cut off"),
        // A second datagram of another version follows the first.
        (header("1010") + &data("00", "0000", "0000") + &header("2010"), "another version"),
    ] {
        let said = dissect(&hex, &["_ws.expert.message"]);
        assert_eq!(said[0], "SRD", "{hex}");
        assert!(said[1].contains(why), "{hex}: {said:?}, not {why}");
    }
}

#[test]
fn a_train_is_cut_into_its_datagrams() {
    if !has("tshark") {
        return;
    }
    let one = header("1010") + &data("00", "0002", "0000") + "aaaa";
    let said = dissect(&format!("{one}{one}"), &["srd.psn", "srd.payload"]);
    assert_eq!(said, ["SRD", "7,7", "aaaa,aaaa"]);
}

/// Returns an envelope from 0x4011 to 0x4010, session 0x..77, with this length and counter.
fn envelope(len: &str, counter: &str) -> String {
    format!("1800 {len} 4011 4010 0011223344556677 00000000 000000{counter}")
}

#[test]
fn sealed_datagrams_show_their_envelope() {
    if !has("tshark") {
        return;
    }
    let one = |counter| envelope("0034", counter) + &"aa".repeat(12) + &"bb".repeat(16);
    let fields =
        ["srd.seal.session", "srd.seal.counter", "srd.seal.bytes", "srd.seal.tag", "srd.src_qpn"];
    let said = dissect(&(one("05") + &one("06")), &fields);
    let (bytes, tag) = ("aa".repeat(12), "bb".repeat(16));
    let twice = |text: &str| format!("{text},{text}");
    let session = twice("0x0011223344556677");
    assert_eq!(said, ["SRD", &session, "5,6", &twice(&bytes), &twice(&tag), &twice("16401")]);
    for (hex, why) in [
        (envelope("0033", "05") + &"aa".repeat(27), "shorter than a sealed datagram"),
        (one("05") + &envelope("0034", "06") + &"aa".repeat(27), "longer than its datagram"),
    ] {
        let said = dissect(&hex, &["_ws.expert.message"]);
        assert!(said[1].contains(why), "{said:?}, not {why}");
    }
}

#[test]
fn a_notice_shows_what_it_quotes() {
    if !has("tshark") {
        return;
    }
    let notice = |quote: &str| "1900 0020 4011 4010".to_owned() + quote;
    let fields = ["srd.kind", "srd.seal.counter", "_ws.col.Info"];
    let quote = envelope("0400", "05").replace("4011 4010", "4010 4011");
    let said = dissect(&notice(&quote), &fields);
    assert_eq!(said[..3], ["SRD", "9,8", "5"]);
    assert!(said[3].contains("16401 > 16400 NOTICE cannot open SEALED counter=5"), "{said:?}");
    let clear = header("1010").replace("4011 4010", "4010 4011") + "0102030405060708 00000007";
    let said = dissect(&notice(&clear), &fields);
    assert!(said[3].ends_with("NOTICE cannot open SRD"), "{said:?}");
}

/// A datagram that `softefa pcap --key-file` has opened has no check of its own (SRD-11.1).
#[test]
fn a_check_of_zero_is_not_taken_for_damage() {
    if !has("tshark") {
        return;
    }
    let opened = header("1010").replace("deadbeef", "00000000") + &data("00", "0000", "0000");
    assert_eq!(dissect(&opened, &["srd.check.status", "_ws.expert.message"]), ["SRD", "2", ""]);
}

#[test]
fn other_protocols_are_left_alone() {
    if !has("tshark") {
        return;
    }
    let reset = header("1100") + "0123456789abcdef";
    for other in [
        reset.replacen("4010", "4012", 1),
        reset.replacen("1100", "2100", 1),
        reset.replacen("1100", "1f00", 1),
        reset.replacen("0003", "0100", 1),
        envelope("0035", "05") + &"aa".repeat(28),
    ] {
        assert_ne!(dissect(&other, &[])[0], "SRD", "{other}");
    }
}
