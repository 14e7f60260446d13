//! Any bytes: parsing them must not panic, and what parses must come out of `emit` unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use srd::wire::{Datagram, Extent, Header, Kind, control, ud::UdRepr};

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = Header::parse(bytes) else { return };
    let mut common = [0; Header::LEN];
    header.emit(&mut common);
    let before = ..Header::CHECK.start;
    assert_eq!(common[before], bytes[before], "the common header survives a round trip");
    if header.kind == Kind::Srd {
        let datagram = Datagram::parse(header, bytes, bytes.len());
        if let (Some(extent), Ok(datagram)) = (Extent::of(bytes), datagram) {
            assert_eq!(extent.headers_len, datagram.header_len, "two ways to the same length");
            assert_eq!(extent.datagram_len(), bytes.len());
        }
    }
    let _ = control::parse_reset(bytes, bytes.len());
    let mut out = [0; 28];
    if let Ok(refused) = control::Refused::parse(bytes, bytes.len()) {
        refused.emit(&header, &mut out);
        assert_eq!(control::Refused::parse(&out, out.len()), Ok(refused));
    }
    if let Ok(challenge) = control::Challenge::parse(bytes, bytes.len()) {
        challenge.emit(&header, &mut out);
        assert_eq!(control::Challenge::parse(&out, out.len()), Ok(challenge));
    }
    if let Ok(ud) = UdRepr::parse(bytes, bytes.len()) {
        assert_eq!(UdRepr::LEN + usize::from(ud.len), bytes.len());
    }
    let Ok(datagram) = Datagram::parse(header, bytes, bytes.len()) else { return };
    if let Some(ack) = &datagram.ack {
        assert!(ack.words().count() <= 16 && ack.ranges().all(|range| range.count > 0));
    }
    if let Some(data) = &datagram.data {
        let mut out = [0; 64];
        let len = data.emit(&mut out);
        assert_eq!(out[..len], bytes[datagram.header_len - len..datagram.header_len]);
    }
});
