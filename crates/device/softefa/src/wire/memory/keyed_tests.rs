//! Tests of rings between two devices that have the same key, or different keys (SRD-12.9).

use super::tests::{NOW, linked_with, send, take};
use super::*;
use crate::framing::{Framing, Sealed};
use crate::memory::Piece;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

fn key(byte: u8) -> SealKey {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [byte; 32]).unwrap();
    SealKey::read(file.path()).unwrap()
}

/// Sends one datagram that must not leave this machine. Returns its outcome, and whether its
/// receiver takes it for that of a peer with the same key.
fn send_in_clear(a: &mut MemoryWire, b: &mut MemoryWire, to: SocketAddr) -> (Sent, Option<bool>) {
    let sent = send(a, to, Via::Memory(0), 1, 64);
    b.runs_left = RUNS_MAX;
    (sent, b.receive(NOW).map(|run| run.is_proven))
}

#[test]
fn both_ends_with_the_key_trust_their_ring() {
    let key = key(1);
    let (mut a, mut b, to) = linked_with([Some(&key); 2]);
    assert!(a.ring_room_bytes(to, Via::Path(0)) > 1 << 20);
    let (sent, is_proven) = send_in_clear(&mut a, &mut b, to);
    assert_eq!((sent.memory_pkts, is_proven), (1, Some(true)));
}

#[test]
fn a_ring_between_different_keys_is_as_a_network() {
    let (ours, theirs) = (key(1), key(2));
    for keys in [[Some(&ours), Some(&theirs)], [Some(&ours), None], [None, Some(&ours)]] {
        let (mut a, mut b, to) = linked_with(keys);
        let has_room = a.ring_room_bytes(to, Via::Path(0)) > 0;
        assert_eq!(has_room, keys[0].is_none(), "who has no key has nothing to hide");
        let (_, is_proven) = send_in_clear(&mut a, &mut b, to);
        assert_eq!(is_proven, Some(false), "{keys:?}");
    }
}

/// A datagram that is not sealed is lost rather than given to the kernel.
#[test]
fn what_is_not_sealed_never_leaves_memory() {
    let key = key(1);
    let (mut a, mut b, to) = linked_with([Some(&key); 2]);
    b.leave_rings();
    assert_eq!(a.ring_room_bytes(to, Via::Stream(0)), 0);
    let sent = send(&mut a, to, Via::Memory(0), 1, 64);
    assert_eq!((sent.pkts, sent.syscalls, sent.errors), (0, 0, 1));
    assert_eq!(take(&mut b), []);
}

/// SRD-12.5: the kernel wakes a reader that waits on its socket, and the datagram that does so is
/// sealed.
#[test]
fn what_wakes_a_sleeper_is_sealed() {
    let key = key(1);
    let (mut a, mut b, to) = linked_with([Some(&key); 2]);
    b.sleep(Sleep::Sound);
    assert_eq!(a.ring_room_bytes(to, Via::Path(0)), 0);
    assert!(a.ring_room_bytes(to, Via::Stream(0)) > 0, "that calls it");
}

#[test]
fn only_what_passes_through_memory_is_not_sealed() {
    let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 20_000);
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 20_001);
    let sealed = Sealed::new(&key(1), local, 7);
    let mut framing = Framing::Sealed(Box::new(sealed));
    let payload = [0x5A; 4000];
    let piece = Piece { addr: payload.as_ptr() as usize as u64, len: payload.len() };
    for (via, is_clear) in [(Via::Path(0), false), (Via::Memory(0), true), (Via::Kernel(0), false)]
    {
        let mut batch = Batch::new(&framing, 100, 9000);
        batch.push(&mut framing, to, via, &[0; 12], [piece].into_iter()).unwrap();
        let packet = batch.packets()[0];
        let bytes = batch.copy(&packet).unwrap();
        assert_eq!(bytes.len(), packet.len);
        assert_eq!(bytes.windows(100).any(|some| some == &payload[..100]), is_clear, "{via:?}");
    }
}

/// A process that captures may not have the key.
#[test]
fn who_is_captured_is_sent_what_is_sealed() {
    let key = key(1);
    let (mut a, mut b, to) = linked_with([Some(&key); 2]);
    b.inbox.set_captured(true);
    assert_eq!(a.ring_room_bytes(to, Via::Path(0)), 0);
    assert_eq!(a.ring_room_bytes(to, Via::Stream(0)), 0);
    b.inbox.set_captured(false);
    assert!(a.ring_room_bytes(to, Via::Path(0)) > 1 << 20);
}

/// In a batch for several peers a packet after a repetition to the same peer is sent.
#[test]
fn what_is_not_sealed_is_not_lost_behind_a_repetition() {
    let key = key(1);
    let (mut a, mut b, to) = linked_with([Some(&key); 2]);
    let mut batch = Batch::new(&Framing::Done, 100, 0);
    for via in [Via::Kernel(0), Via::Memory(0)] {
        batch.push(&mut Framing::Done, to, via, &[0; 40], std::iter::empty()).unwrap();
    }
    let sent = a.send(NOW, &mut batch);
    assert_eq!((sent.pkts, sent.memory_pkts, sent.errors), (2, 1, 0));
    assert!(b.receive(NOW).is_some());
}
