//! Messages and their bytes.
//!
//! `CM_CASES=100000 CM_SEED=5 cargo test -p cm --test all mad` goes on for longer.

use crate::common::{Rng, number, vectors};
use cm::mad::{MAD_LEN, Mad, Message, ParseError};

/// A common header with random bytes behind it.
fn random_mad(rng: &mut Rng, attribute: u16) -> [u8; MAD_LEN] {
    let mut bytes = [0; MAD_LEN];
    rng.fill(&mut bytes);
    bytes[..8].copy_from_slice(&[1, 7, 2, 3, 0, 0, 0, 0]);
    bytes[16..24].copy_from_slice(&(u64::from(attribute) << 48).to_be_bytes());
    bytes
}

#[test]
fn emit_is_the_inverse_of_parse() {
    let (cases, seed) = (number("CM_CASES", 300), number("CM_SEED", 1));
    println!("CM_SEED={seed} CM_CASES={cases} cargo test -p cm --test all mad");
    let mut rng = Rng::new(seed);
    for _ in 0..cases {
        for attribute in 0x10..=0x18 {
            let bytes = random_mad(&mut rng, attribute);
            let mad = Mad::parse(&bytes).unwrap();
            let again = mad.emit();
            assert_eq!(Mad::parse(&again), Ok(mad), "overlapping fields");
            let added = (0..MAD_LEN).find(|&at| again[at] & !bytes[at] != 0);
            assert_eq!(added, None, "emit sets a bit that was not there");
        }
    }
}

/// What of each message is in no field: a bit of every one of these changes nothing.
#[test]
fn reserved_bits_are_as_many_as_the_specification_has() {
    for (mad, reserved) in vectors::messages().iter().zip(RESERVED_BITS) {
        let bytes = mad.emit();
        let flipped = |bit: usize| {
            let mut bent = bytes;
            bent[bit / 8] ^= 1 << (bit % 8);
            Mad::parse(&bent)
        };
        let silent = (24 * 8..MAD_LEN * 8).filter(|&bit| flipped(bit) == Ok(*mad)).count();
        assert_eq!(silent, reserved, "{:#x}", mad.message.attribute());
    }
}

/// REQ: bytes 4 to 7 and 24 to 27, and of each path 6 bits behind the flow label, 3 behind
/// "subnet local" and 3 (alternate: 2) behind the timeout. The others count likewise.
const RESERVED_BITS: [usize; 9] =
    [64 + 6 + 3 + 3 + 6 + 3 + 2, 6 + 3, 6 + 1, 8 + 8 + 8 + 4, 0, 8, 0, 16, 16 + 8];

/// tshark has no fields for these, or reads them wrongly: their places, written down a second time.
#[test]
fn what_tshark_cannot_read_is_where_the_specification_has_it() {
    for mad in vectors::messages() {
        let bytes = mad.emit();
        let body = &bytes[24..];
        match mad.message {
            Message::Req(_) => {
                assert_eq!(body[88..92], [0x98, 0x76, 0x50, 13]);
                assert_eq!(body[132..136], [0xAB, 0xCD, 0xE0, 7]);
            }
            Message::Mra(_) => {
                assert_eq!(
                    body[..10],
                    [0x55, 0x66, 0x77, 0x88, 0x11, 0x22, 0x33, 0x44, 0x40, 0xC0]
                );
                assert_eq!(body[10..12], [1, 2]);
            }
            Message::SidrReq(_) => {
                assert_eq!(body[..8], [0x0B, 0xAD, 0xCA, 0xFE, 0xFF, 0xFF, 0, 0]);
                assert_eq!(body[8..18], [0, 0, 0, 0, 1, 0x11, 0x22, 0x33, 3, 4]);
            }
            Message::SidrRep(_) => {
                assert_eq!(body[..12], [0x0B, 0xAD, 0xCA, 0xFE, 2, 5, 0, 0, 0, 0x80, 1, 0]);
                assert_eq!(body[12..24], [0, 0, 0, 0, 1, 0x11, 0x22, 0x33, 1, 0x23, 0x45, 0x67]);
                assert_eq!((body[24], body[96]), (4, 5));
            }
            _ => {}
        }
    }
}

#[test]
fn what_is_no_message_of_ours_is_named() {
    let good = vectors::messages()[0].emit();
    let with = |at: usize, value: u8| {
        let mut bent = good;
        bent[at] = value;
        Mad::parse(&bent).unwrap_err()
    };
    assert_eq!(Mad::parse(&good[..255]), Err(ParseError::Length(255)));
    assert_eq!(Mad::parse(&[]), Err(ParseError::Length(0)));
    assert_eq!(with(0, 2), ParseError::Version(2, 2));
    assert_eq!(with(1, 4), ParseError::Class(4));
    assert_eq!(with(2, 1), ParseError::Version(1, 1));
    assert_eq!(with(3, 0x83), ParseError::Method(0x83));
    assert_eq!(with(17, 0x19), ParseError::Unsupported(0x19));
    assert_eq!(with(17, 0x1A), ParseError::Unsupported(0x1A));
    assert_eq!(with(17, 1), ParseError::Unsupported(1));
    assert_eq!(with(17, 0x1D), ParseError::Attribute(0x1D));
    assert_eq!(with(16, 1), ParseError::Attribute(0x110));
}

#[test]
fn random_bytes_never_panic() {
    let (cases, seed) = (number("CM_CASES", 300) * 100, number("CM_SEED", 1));
    let mut rng = Rng::new(seed);
    for _ in 0..cases {
        let mut bytes = vec![0; rng.below(300) as usize];
        rng.fill(&mut bytes);
        if bytes.len() >= 24 && rng.permille(800) {
            bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
            bytes[16] = 0;
            bytes[17] = 0x10 + rng.below(13) as u8;
        }
        let _ = Mad::parse(&bytes);
        let _ = cm::mad::IpHeader::parse(&bytes);
    }
}

#[test]
fn bytes_are_those_on_record() {
    for (mad, hex) in vectors::messages().iter().zip(vectors::BYTES) {
        let emitted: String = mad.emit().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(emitted, hex, "{:#x}", mad.message.attribute());
    }
}
