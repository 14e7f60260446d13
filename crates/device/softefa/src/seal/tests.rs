//! Tests of sealer and opener together, and of datagrams that must be refused.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use proptest::prelude::*;

use super::super::replay::WINDOW;
use super::super::{ENVELOPE_BYTES, Notice, Reader, SealError, Sealer, TAG_BYTES};
use super::*;

const A: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 16_400);
const B: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 17_000);
const SESSION: u64 = 0x5e55_1011;

fn key(byte: u8) -> SealKey {
    SealKey::new(Path::new("/key"), &[byte; 32])
}

fn sealer() -> Sealer {
    Sealer::new(&key(1), A, SESSION)
}

fn opener() -> Opener {
    Opener::new(&key(1), B)
}

/// Returns a datagram from `src` to `dst` with `payload` behind its common header, and room around
/// it.
fn plain((src, dst): (SocketAddr, SocketAddr), payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ENVELOPE_BYTES];
    bytes.extend([0x10, 0x10, 0, 3]);
    bytes.extend(src.port().to_be_bytes());
    bytes.extend(dst.port().to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes.extend([0; TAG_BYTES]);
    bytes
}

fn seal(sealer: &mut Sealer, payload: &[u8]) -> Vec<u8> {
    let mut bytes = plain((A, B), payload);
    sealer.seal(B, &mut bytes).unwrap();
    bytes
}

fn open(opener: &mut Opener, datagram: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut bytes = datagram.to_vec();
    let inner = opener.open(A.ip(), &mut bytes)?;
    Ok(bytes[inner].to_vec())
}

/// SRD-11.1.
#[test]
fn what_is_sealed_is_opened() {
    let (mut sealer, mut opener) = (sealer(), opener());
    for len in [0, 1, 15, 16, 17, 1000, 8928, 65_000] {
        let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let sealed = seal(&mut sealer, &payload);
        let clear = plain((A, B), &payload);
        let inner = &clear[ENVELOPE_BYTES..clear.len() - TAG_BYTES];
        assert_eq!(open(&mut opener, &sealed).unwrap(), inner, "{len} bytes");
        let is_visible = sealed.windows(12).any(|window| window == &inner[..12]);
        assert!(!is_visible, "the header is in the clear");
    }
    assert!(opener.has_opened_from(A) && !opener.has_opened_from(B));
    assert!(opener.has_opened_from_host(A.ip()) && !opener.has_opened_from_host(B.ip()));
}

/// SRD-11.2: nothing of a datagram can be altered, the envelope no more than the rest.
#[test]
fn every_flipped_bit_is_refused() {
    let (mut sealer, mut opener) = (sealer(), opener());
    let sealed = seal(&mut sealer, b"payload");
    for warm in [false, true] {
        if warm {
            assert!(open(&mut opener, &seal(&mut sealer, b"first")).is_ok());
        }
        for bit in 0..sealed.len() * 8 {
            let mut bent = sealed.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&mut opener, &bent).is_err(), "bit {bit}");
        }
        assert_eq!(opener.senders.len(), usize::from(warm), "nothing is kept of them");
    }
    assert!(open(&mut opener, &sealed).is_ok(), "nor did they use up the counter");
}

/// SRD-11.6.
#[test]
fn a_datagram_is_taken_once() {
    let (mut sealer, mut opener) = (sealer(), opener());
    let first = seal(&mut sealer, b"first");
    let second = seal(&mut sealer, b"second");
    assert!(open(&mut opener, &second).is_ok());
    assert!(open(&mut opener, &first).is_ok(), "late, and within the window");
    for again in [&first, &second] {
        assert_eq!(open(&mut opener, again), Err(Refusal::Replayed));
    }
    let held_back = seal(&mut sealer, b"held back");
    for _ in 0..WINDOW {
        assert!(open(&mut opener, &seal(&mut sealer, b"")).is_ok());
    }
    assert_eq!(open(&mut opener, &held_back), Err(Refusal::Late));
}

/// SRD-11.3: a datagram that is sent back to its sender, or to a third queue pair, counts as
/// forged.
#[test]
fn a_datagram_is_for_one_receiver() {
    let sealed = seal(&mut sealer(), b"payload");
    let send = |at: SocketAddr, from: SocketAddr| {
        let mut bytes = sealed.clone();
        Opener::new(&key(1), at).open(from.ip(), &mut bytes).map(|_| ())
    };
    assert_eq!(send(B, A), Ok(()));
    let other_host = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)), B.port());
    let other_qpn = SocketAddr::new(B.ip(), B.port() + 1);
    let our_number_there = SocketAddr::new(A.ip(), B.port());
    assert_eq!(send(A, A), Err(Refusal::OtherQueuePair));
    assert_eq!(send(A, B), Err(Refusal::OtherQueuePair), "reflected");
    assert_eq!(send(our_number_there, B), Err(Refusal::Tag), "reflected, and the number fits");
    assert_eq!(send(other_host, A), Err(Refusal::Tag));
    assert_eq!(send(other_qpn, A), Err(Refusal::OtherQueuePair));
    assert_eq!(send(B, other_host), Err(Refusal::Tag), "another source");
}

/// Both ends have the same number, as two hosts may draw it.
#[test]
fn two_queue_pairs_of_one_number_do_not_take_their_own() {
    let b = SocketAddr::new(B.ip(), A.port());
    let mut bytes = plain((A, b), b"to b");
    sealer().seal(b, &mut bytes).unwrap();
    let mut at_a = Opener::new(&key(1), A);
    for from in [A, b] {
        let mut bytes = bytes.clone();
        assert_eq!(at_a.open(from.ip(), &mut bytes), Err(Refusal::Tag));
    }
    assert!(Opener::new(&key(1), b).open(A.ip(), &mut bytes).is_ok());
}

#[test]
fn without_the_key_nothing_gets_in() {
    let mut opener = opener();
    let sealed = seal(&mut Sealer::new(&key(2), A, SESSION), b"payload");
    assert_eq!(open(&mut opener, &sealed), Err(Refusal::Tag));
    let clear = plain((A, B), b"payload");
    let clear = &clear[ENVELOPE_BYTES..clear.len() - TAG_BYTES];
    assert_eq!(open(&mut opener, clear), Err(Refusal::NotSealed));
    assert!(!opener.has_opened_from(A) && opener.senders.len() == 0);
}

#[test]
fn cut_or_prolonged_datagrams_are_refused() {
    let sealed = seal(&mut sealer(), b"payload");
    for len in 0..sealed.len() {
        let refusal = open(&mut opener(), &sealed[..len]).unwrap_err();
        assert!(matches!(refusal, Refusal::NotSealed | Refusal::Length), "{len}: {refusal}");
    }
    let longer = [&sealed[..], &[0]].concat();
    assert_eq!(open(&mut opener(), &longer), Err(Refusal::Length));
    // The length in the envelope is altered along with that of the datagram.
    for len in 52..sealed.len() {
        let mut shorter = sealed[..len].to_vec();
        shorter[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        assert_eq!(open(&mut opener(), &shorter), Err(Refusal::Tag), "{len}");
    }
}

#[test]
fn what_is_no_datagram_is_not_sealed() {
    for len in [0, 51, 65_536] {
        assert_eq!(sealer().seal(B, &mut vec![0; len]), Err(SealError::Length { len }));
    }
}

/// A holder of the key sends an inner datagram that names other queue pairs than its envelope.
#[test]
fn inside_and_outside_must_agree() {
    let mut bytes = plain((B, A), b"payload");
    sealer().seal(B, &mut bytes).unwrap();
    assert_eq!(open(&mut opener(), &bytes), Err(Refusal::Contradiction));
}

/// SRD-11.5.
#[test]
fn a_counter_is_never_used_twice() {
    let mut sealer = sealer().at_counter(COUNTER_MAX - 1);
    let mut opener = opener();
    let mut seen = HashSet::new();
    for _ in 0..4 {
        let sealed = seal(&mut sealer, b"payload");
        let envelope = Envelope::parse(&sealed).unwrap();
        assert!(seen.insert((envelope.session, envelope.counter)));
        assert!((1..=COUNTER_MAX).contains(&envelope.counter), "{envelope:?}");
        assert!(open(&mut opener, &sealed).is_ok());
    }
    assert_eq!(opener.senders.len(), 2, "the session changed");
}

#[test]
fn counters_out_of_range_are_refused() {
    for counter in [0, COUNTER_MAX + 1, u64::MAX] {
        let (mut bytes, len) = (plain((A, B), b""), 52);
        let (src_qpn, dst_qpn) = (A.port(), B.port());
        let envelope = Envelope { len, src_qpn, dst_qpn, session: SESSION, counter };
        let direction = Direction { src: A, dst: B };
        assert!(key(1).derive(SESSION, &direction).seal(&envelope, &mut bytes));
        assert_eq!(open(&mut opener(), &bytes), Err(Refusal::Counter));
    }
}

/// SRD-11.7: the counter of a sender whose entry was evicted is remembered.
#[test]
fn an_entry_that_made_room_cannot_be_replayed_into() {
    let mut opener = Opener::bounded(&key(1), B, 2, 5);
    let mut sealers: Vec<_> = (0..6).map(|session| Sealer::new(&key(1), A, session)).collect();
    let (skipped, first) = (seal(&mut sealers[0], b"1"), seal(&mut sealers[0], b"2"));
    assert!(open(&mut opener, &first).is_ok());
    for sealer in &mut sealers[1..5] {
        assert!(open(&mut opener, &seal(sealer, b"")).is_ok());
    }
    assert_eq!((opener.senders.len(), opener.parked.len()), (2, 3));
    assert_eq!(open(&mut opener, &first), Err(Refusal::Replayed));
    assert_eq!(open(&mut opener, &skipped), Err(Refusal::Replayed), "it cannot be told apart");
    assert!(open(&mut opener, &seal(&mut sealers[0], b"3")).is_ok(), "it goes on");
    assert_eq!(open(&mut opener, &first), Err(Refusal::Replayed));
    assert_eq!((opener.senders.len(), opener.parked.len()), (2, 3));
    let one_more = seal(&mut sealers[5], b"");
    assert_eq!(open(&mut opener, &one_more), Err(Refusal::TooManySenders));
    assert!(open(&mut opener, &seal(&mut sealers[1], b"")).is_ok(), "the known ones go on");
}

/// SRD-11.8.
#[test]
fn a_quote_is_ours_when_we_sent_it() {
    let mut sealer = sealer();
    let other = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)), B.port());
    let first = seal(&mut sealer, b"first");
    sealer.seal(other, &mut plain((A, other), b"second")).unwrap();
    let of = |quote: &[u8], host: SocketAddr| sealer.destination_of(quote, host.ip());
    assert_eq!(of(&first[..24], B), Some(B));
    assert_eq!(of(&first, B), Some(B));
    assert_eq!(of(&first[..23], B), None);
    let bent = |at: usize| {
        let mut bent = first[..24].to_vec();
        bent[at] ^= 1;
        bent
    };
    assert_eq!(of(&bent(5), B), None, "another queue pair of ours");
    assert_eq!(of(&bent(7), B), None, "nobody we sent to");
    assert_eq!(of(&bent(8), B), None, "another session");
    assert_eq!(of(&bent(22), B), None, "a counter we have not used");
    assert_eq!(of(&bent(23), B), None, "counter 0");
    let unknown = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 4)), B.port());
    assert_eq!(of(&first, unknown), None);
    // The session has used counter 2, but for another destination.
    let mut of_other = first[..24].to_vec();
    of_other[23] = 2;
    assert_eq!((of(&of_other, B), of(&of_other, other)), (None, Some(other)));
}

/// SRD-11.10.
#[test]
fn a_notice_ends_what_never_was_answered_and_nothing_else() {
    let mut sealer = sealer();
    let sealed = seal(&mut sealer, b"payload");
    let notice = Notice::about(&sealed).unwrap();
    let mut back = Opener::new(&key(1), A);
    assert_eq!(sealer.refused_by(&notice, B.ip(), &back), Some(B));
    assert_eq!(sealer.refused_by(&notice, A.ip(), &back), None, "it comes from elsewhere");
    let mut answer = plain((B, A), b"answer");
    Sealer::new(&key(1), B, 7).seal(A, &mut answer).unwrap();
    back.open(B.ip(), &mut answer).unwrap();
    assert_eq!(sealer.refused_by(&notice, B.ip(), &back), None, "it has answered");
}

#[test]
fn captures_are_read_in_any_order_and_again() {
    let mut sealer = sealer();
    let datagrams = [seal(&mut sealer, b"first"), seal(&mut sealer, b"second")];
    let mut reader = Reader::new(&key(1));
    for datagram in [&datagrams[1], &datagrams[0], &datagrams[0]] {
        let mut bytes = datagram.clone();
        let inner = reader.open(A.ip(), B.ip(), &mut bytes).unwrap();
        assert_eq!(inner, ENVELOPE_BYTES..bytes.len() - TAG_BYTES);
    }
    let mut cut = datagrams[0][..40].to_vec();
    assert_eq!(reader.open(A.ip(), B.ip(), &mut cut), Err(Refusal::Length));
    let mut other_way = datagrams[0].clone();
    assert_eq!(reader.open(B.ip(), A.ip(), &mut other_way), Err(Refusal::Tag));
}

proptest! {
    /// Strangers may send any bytes, also behind a valid envelope.
    #[test]
    fn any_bytes_are_refused_and_nothing_is_kept(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), is_plausible: bool, counter: u64)
    {
        if is_plausible && bytes.len() >= 52 {
            let (len, src_qpn, dst_qpn) = (bytes.len() as u16, A.port(), B.port());
            let envelope = Envelope { len, src_qpn, dst_qpn, session: SESSION, counter };
            bytes[..ENVELOPE_BYTES].copy_from_slice(&envelope.emit());
        }
        let _ = (Notice::parse(&bytes), Notice::about(&bytes), envelope::datagram_len(&bytes));
        prop_assert_eq!(sealer().destination_of(&bytes, B.ip()), None);
        let mut opener = opener();
        prop_assert!(opener.open(A.ip(), &mut bytes).is_err());
        prop_assert!(opener.senders.len() == 0 && opener.parked.is_empty());
        prop_assert!(Reader::new(&key(1)).open(A.ip(), B.ip(), &mut bytes).is_err());
    }

    /// Two senders' datagrams are lost, duplicated, altered and reordered: only sealed datagrams
    /// are opened, each once, and no genuine one within the window is refused the first time.
    #[test]
    fn each_is_opened_once_in_any_order(
        picks in prop::collection::vec((0usize..2, 0usize..120, any::<bool>(), 0usize..56), 1..300))
    {
        let mut opener = Opener::bounded(&key(1), B, 1, 8);
        let mut sealers = [Sealer::new(&key(1), A, 1), Sealer::new(&key(1), A, 2)];
        let sealed: Vec<Vec<Vec<u8>>> = sealers.iter_mut()
            .map(|sealer| (0u32..120).map(|n| seal(sealer, &n.to_be_bytes())).collect())
            .collect();
        let (mut seen, mut last, mut floor, mut highest) = (HashSet::new(), None, [0; 2], [0; 2]);
        for (who, number, is_bent, at) in picks {
            let mut bytes = sealed[who][number].clone();
            if is_bent {
                bytes[at] ^= 0x10;
            }
            // The opener remembers one sender; the other one's highest number is its floor.
            let is_new = number + 1 > floor[who] && !seen.contains(&(who, number));
            let is_new = is_new && (last == Some(who) || number + 1 > highest[who]);
            let result = opener.open(A.ip(), &mut bytes);
            prop_assert_eq!(result.is_ok(), is_new && !is_bent, "{} {} {:?}", who, number, result);
            if let Ok(inner) = result {
                prop_assert_eq!(&bytes[inner][12..], &(number as u32).to_be_bytes());
                if last != Some(who) {
                    floor[who] = highest[who];
                }
                seen.insert((who, number));
                highest[who] = highest[who].max(number + 1);
                last = Some(who);
            }
        }
    }
}
