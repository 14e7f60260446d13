//! A network that misbehaves on request, around a real one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddrV4;

use srd::Instant;

use super::batch::{Impossible, Via};
use super::tap::Tap;
use super::{Batch, Run, Sent, Wire};
use crate::fault::{Blackholes, Dice, Fate};
use crate::framing::{Framing, Layout};
use crate::memory::Piece;
use crate::status::Status;

/// Bytes of a datagram that are copied into the batch it leaves in; the rest is short, too, or named.
const HEAD_BYTES: usize = 320;

/// A copy that leaves later. Ordered by time, then by the order of arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    due: Instant,
    serial: u64,
    to: SocketAddrV4,
    via: Via,
    bytes: Vec<u8>,
}

/// Loses, doubles, holds back and damages what is sent through it.
pub(crate) struct Faulty {
    inner: Box<dyn Wire>,
    tap: Tap,
    dice: Dice,
    blackholes: Blackholes,
    layout: Layout,
    held: BinaryHeap<Reverse<Held>>,
    serial: u64,
    outgoing: Batch,
    impossible: Vec<Impossible>,
}

impl Faulty {
    /// Around `inner`, whose datagrams are laid out as `layout` says.
    pub(crate) fn new(
        inner: Box<dyn Wire>,
        tap: Tap,
        layout: Layout,
        dice: Dice,
        blackholes: Blackholes,
    ) -> Self {
        let held = BinaryHeap::new();
        let outgoing = Batch::new(&Framing::Done, HEAD_BYTES, 0);
        let impossible = Vec::new();
        Self { inner, tap, dice, blackholes, layout, held, serial: 0, outgoing, impossible }
    }

    /// Damages what leaves, as `fate` says.
    fn alter(&mut self, bytes: &mut [u8], fate: Fate, sent: &mut Sent) {
        if !(fate.mangled || fate.corrupted) {
            return;
        }
        let split = self.layout.headers_len(bytes);
        let (headers, payload) = bytes.split_at_mut(split);
        if fate.mangled {
            sent.mangled += 1;
            self.dice.damage(headers);
        }
        if fate.corrupted && !payload.is_empty() {
            sent.corrupted += 1;
            self.dice.damage(payload);
        }
    }

    fn forward(&mut self, now: Instant, to: SocketAddrV4, via: Via, bytes: &[u8], sent: &mut Sent) {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
        let piece = Piece { addr: rest.as_ptr() as usize as u64, len: rest.len() };
        let pushed = self.outgoing.push(&mut Framing::Done, to, via, head, [piece].into_iter());
        assert!(pushed.is_ok(), "the bytes are a copy of ours");
        sent.add(&self.inner.send(now, &mut self.outgoing));
    }
}

impl Wire for Faulty {
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent {
        let mut sent = Sent::default();
        for packet in batch.packets() {
            let fate = self.dice.throw();
            let is_swallowed = |path| self.blackholes.swallow(now, path);
            let swallowed = fate.copies > 0 && packet.via.path().is_some_and(is_swallowed);
            sent.lost += u64::from(fate.copies == 0);
            sent.blackholed += u64::from(swallowed);
            if fate.copies == 0 || swallowed {
                if self.tap.is_on() {
                    self.tap.lost(batch, packet);
                }
                continue;
            }
            let Some(mut bytes) = batch.copy(packet) else {
                let status = Status::LocalInvalidLkey;
                self.impossible.push(Impossible { place: packet.place, status });
                sent.errors += 1;
                continue;
            };
            sent.duplicated += u64::from(fate.copies == 2);
            sent.reordered += u64::from(fate.reordered);
            self.alter(&mut bytes, fate, &mut sent);
            for _ in 0..fate.copies {
                if fate.delay_ns == 0 {
                    self.forward(now, packet.to, packet.via, &bytes, &mut sent);
                } else {
                    self.serial += 1;
                    self.held.push(Reverse(Held {
                        due: now.plus_ns(fate.delay_ns),
                        serial: self.serial,
                        to: packet.to,
                        via: packet.via,
                        bytes: bytes.clone(),
                    }));
                }
            }
        }
        batch.clear();
        batch.report(&mut self.impossible);
        sent
    }

    fn receive(&mut self, now: Instant) -> Option<Run<'_>> {
        self.inner.receive(now)
    }

    fn release(&mut self, now: Instant) -> Sent {
        let mut sent = self.inner.release(now);
        while self.held.peek().is_some_and(|Reverse(held)| held.due <= now) {
            let Some(Reverse(held)) = self.held.pop() else { break };
            self.forward(now, held.to, held.via, &held.bytes, &mut sent);
        }
        sent
    }

    fn next_release(&self) -> Option<Instant> {
        let held = self.held.peek().map(|Reverse(held)| held.due);
        [held, self.inner.next_release()].into_iter().flatten().min()
    }

    fn is_blocked(&self) -> bool {
        self.inner.is_blocked()
    }

    fn sleep(&mut self) -> bool {
        self.inner.sleep()
    }

    fn was_called(&self) -> bool {
        self.inner.was_called()
    }

    fn wake(&mut self) {
        self.inner.wake();
    }

    fn has_rings(&self) -> bool {
        self.inner.has_rings()
    }

    fn has_ring_to(&self, to: SocketAddrV4) -> bool {
        self.inner.has_ring_to(to)
    }

    fn look_everywhere(&mut self) {
        self.inner.look_everywhere();
    }

    fn leave_rings(&mut self) {
        self.inner.leave_rings();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultSpec;
    use std::sync::{Arc, Mutex};

    /// Remembers what was sent.
    struct Log(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Wire for Log {
        fn send(&mut self, _: Instant, batch: &mut Batch) -> Sent {
            let mut log = self.0.lock().unwrap();
            log.extend(batch.packets().iter().filter_map(|packet| batch.copy(packet)));
            batch.clear();
            Sent::default()
        }
        fn receive(&mut self, _: Instant) -> Option<Run<'_>> {
            None
        }
        fn release(&mut self, _: Instant) -> Sent {
            Sent::default()
        }
        fn next_release(&self) -> Option<Instant> {
            None
        }
    }

    fn run(spec: &str) -> (Vec<Vec<u8>>, Sent) {
        let log = Arc::new(Mutex::new(Vec::new()));
        let spec: FaultSpec = spec.parse().unwrap();
        let dice = Dice::new(&spec, 1);
        let holes = Blackholes::new(spec.blackholes, Instant::ZERO);
        let inner = Box::new(Log(Arc::clone(&log)));
        let mut wire = Faulty::new(inner, Tap::deaf(), Layout::Srd, dice, holes);
        let mut total = Sent::default();
        for i in 0..1000u16 {
            let mut batch = Batch::new(&Framing::Done, 4, 0);
            let to = "127.0.0.1:1".parse().unwrap();
            batch
                .push(&mut Framing::Done, to, Via::Path(0), &i.to_be_bytes(), std::iter::empty())
                .unwrap();
            let now = Instant::from_ns(u64::from(i) * 1000);
            let sent = wire.send(now, &mut batch);
            total.lost += sent.lost;
            total.duplicated += sent.duplicated;
            total.reordered += sent.reordered;
            wire.release(now);
        }
        wire.release(Instant::from_ns(u64::MAX));
        assert!(wire.next_release().is_none(), "everything held was released");
        let log = log.lock().unwrap().clone();
        (log, total)
    }

    #[test]
    fn everything_is_sent_as_often_as_the_dice_say() {
        let (log, sent) = run("loss=10%,dup=5%,reorder=20%,seed=4");
        assert_eq!(log.len() as u64, 1000 - sent.lost + sent.duplicated);
        assert!(sent.lost > 50 && sent.duplicated > 20 && sent.reordered > 100, "{sent:?}");
        assert!(!log.is_sorted(), "something came late");
    }

    #[test]
    fn delay_keeps_the_order() {
        let (log, _) = run("delay=50us");
        assert_eq!(log.len(), 1000);
        assert!(log.is_sorted());
    }
}
