//! A wire that injects faults around another one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};

use srd::Instant;

use super::batch::{Impossible, Packet, Via};
use super::tap::Tap;
use super::{Batch, Run, Sent, Sleep, Wire};
use crate::fault::{Blackholes, Dice, Fate, InForce};
use crate::framing::{Framing, Layout};
use crate::memory::Piece;
use crate::status::Status;

/// The bytes of a datagram that are copied into the batch that it leaves in; the rest is short,
/// too, or referenced.
const HEAD_BYTES: usize = 320;

/// A copy that leaves later. Copies are ordered by time, then by arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DelayedDatagram {
    due: Instant,
    serial: u64,
    to: SocketAddr,
    via: Via,
    bytes: Vec<u8>,
}

/// The faults that decide the fate of a queue pair's datagrams.
pub(crate) struct DatagramFaults {
    dice: Dice,
    blackholes: Blackholes,
    peer: Option<IpAddr>,
}

impl DatagramFaults {
    /// Makes the datagram faults of `fault`, if it has any; `stream` is that of [`Dice::new`].
    pub(crate) fn new(fault: &InForce, stream: u64) -> Option<Self> {
        fault.spec.is_on_the_wire().then(|| Self {
            dice: Dice::new(&fault.spec, stream),
            blackholes: Blackholes::new(fault.spec.blackholes.clone(), fault.from),
            peer: fault.peer,
        })
    }

    /// Decides the fate of one datagram; returns true if a path drops it.
    fn decide(&mut self, now: Instant, to: IpAddr, via: Via) -> (Fate, bool) {
        if self.peer.is_some_and(|peer| peer != to) {
            return (Fate::UNHARMED, false);
        }
        let fate = self.dice.throw();
        let is_swallowed = |path| self.blackholes.swallow(now, path);
        (fate, fate.copies > 0 && via.path().is_some_and(is_swallowed))
    }
}

/// A wire that drops, duplicates, delays and damages datagrams.
pub(crate) struct Faulty {
    inner: Box<dyn Wire>,
    tap: Tap,
    /// The faults; `None` if they are over.
    faults: Option<DatagramFaults>,
    layout: Layout,
    held: BinaryHeap<Reverse<DelayedDatagram>>,
    serial: u64,
    /// The datagrams that leave together, so that the wire below can keep their order.
    outgoing: Batch,
    leaving: Vec<Leaving>,
    impossible: Vec<Impossible>,
}

/// A datagram of [`Faulty::outgoing`].
struct Leaving {
    /// Its place in the batch that it came in; `None` for a copy and for a delayed datagram.
    place: Option<usize>,
    /// The batch refers to them.
    _bytes: Vec<u8>,
}

impl Faulty {
    /// Wraps `inner`, whose datagrams have this `layout`.
    pub(crate) fn new(
        inner: Box<dyn Wire>,
        tap: Tap,
        layout: Layout,
        faults: DatagramFaults,
    ) -> Self {
        Self {
            inner,
            tap,
            faults: Some(faults),
            layout,
            held: BinaryHeap::new(),
            serial: 0,
            outgoing: Batch::new(&Framing::Done, HEAD_BYTES, 0),
            leaving: Vec::new(),
            impossible: Vec::new(),
        }
    }

    /// Sends one copy of a datagram soon, or delays it. If it cannot be sent, that is reported by
    /// its place, if it has one.
    fn pass(
        &mut self,
        now: Instant,
        (packet, place): (&Packet, Option<usize>),
        bytes: Vec<u8>,
        delay_ns: u64,
        sent: &mut Sent,
    ) {
        let Packet { to, via, .. } = *packet;
        if delay_ns == 0 {
            self.forward(now, (to, via), place, bytes, sent);
            return;
        }
        sent.held += 1;
        self.serial += 1;
        let due = now.plus_ns(delay_ns);
        self.held.push(Reverse(DelayedDatagram { due, serial: self.serial, to, via, bytes }));
    }

    /// Adds a datagram to those that leave together.
    fn forward(
        &mut self,
        now: Instant,
        (to, via): (SocketAddr, Via),
        place: Option<usize>,
        bytes: Vec<u8>,
        sent: &mut Sent,
    ) {
        if self.outgoing.is_full() {
            self.flush(now, sent);
        }
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
        let piece = Piece { addr: rest.as_ptr() as usize as u64, len: rest.len() };
        let pushed = self.outgoing.push(&mut Framing::Done, to, via, head, [piece].into_iter());
        assert!(pushed.is_ok(), "the bytes are a copy of ours");
        self.leaving.push(Leaving { place, _bytes: bytes });
    }

    /// Sends what leaves together.
    fn flush(&mut self, now: Instant, sent: &mut Sent) {
        if self.outgoing.is_empty() {
            return;
        }
        sent.add(&self.inner.send(now, &mut self.outgoing));
        while let Some(Impossible { place, status }) = self.outgoing.take_impossible() {
            let place = self.leaving.get(place).and_then(|leaving| leaving.place);
            self.impossible.extend(place.map(|place| Impossible { place, status }));
        }
        self.leaving.clear();
    }
}

impl Wire for Faulty {
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent {
        let Some(mut faults) = self.faults.take() else { return self.inner.send(now, batch) };
        let mut sent = Sent::default();
        for packet in batch.packets() {
            let (fate, swallowed) = faults.decide(now, packet.to.ip(), packet.via);
            sent.lost += u64::from(fate.copies == 0);
            sent.blackholed += u64::from(swallowed);
            if fate.copies == 0 || swallowed {
                if self.tap.is_on() {
                    // A capture has what came before it in front of it.
                    self.flush(now, &mut sent);
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
            alter(&mut faults.dice, self.layout, &mut bytes, fate, &mut sent);
            for _ in 1..fate.copies {
                self.pass(now, (packet, None), bytes.clone(), fate.delay_ns, &mut sent);
            }
            self.pass(now, (packet, Some(packet.place)), bytes, fate.delay_ns, &mut sent);
        }
        self.flush(now, &mut sent);
        self.faults = Some(faults);
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
            self.forward(now, (held.to, held.via), None, held.bytes, &mut sent);
        }
        self.flush(now, &mut sent);
        sent
    }

    fn release_all(&mut self, now: Instant) -> Sent {
        let mut sent = self.inner.release_all(now);
        while let Some(Reverse(held)) = self.held.pop() {
            self.forward(now, (held.to, held.via), None, held.bytes, &mut sent);
        }
        self.flush(now, &mut sent);
        sent
    }

    fn next_release(&self) -> Option<Instant> {
        let held = self.held.peek().map(|Reverse(held)| held.due);
        [held, self.inner.next_release()].into_iter().flatten().min()
    }

    fn is_blocked(&self) -> bool {
        self.inner.is_blocked()
    }

    fn sleep(&mut self, sleep: Sleep) -> bool {
        self.inner.sleep(sleep)
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

    fn has_trains_to(&self, now: Instant, to: SocketAddr) -> bool {
        // A fault is for each packet.
        let is_idle = self.faults.is_none() && self.held.is_empty();
        is_idle && self.inner.has_trains_to(now, to)
    }

    fn has_ring_to(&self, to: SocketAddr) -> bool {
        self.inner.has_ring_to(to)
    }

    fn ring_room_bytes(&mut self, to: SocketAddr, via: Via) -> usize {
        // A fault is for each packet.
        let is_idle = self.faults.is_none() && self.held.is_empty();
        if is_idle { self.inner.ring_room_bytes(to, via) } else { 0 }
    }

    fn poll_everything(&mut self) {
        self.inner.poll_everything();
    }

    /// A delayed datagram has left, and is late.
    fn forget_unsent(&mut self) {
        self.inner.forget_unsent();
    }

    fn leave_rings(&mut self) {
        self.inner.leave_rings();
    }

    fn set_faults(&mut self, now: Instant, faults: &mut Option<DatagramFaults>) -> bool {
        self.faults = faults.take();
        // What was held back for longer than the fault has lasted would come when nobody thinks of
        // it any more.
        let held = std::mem::take(&mut self.held).into_sorted_vec();
        let hurried = held.into_iter().rev().zip(0..).map(|(Reverse(held), serial)| {
            let due = held.due.min(now);
            Reverse(DelayedDatagram { due, serial, ..held })
        });
        self.held = hurried.collect();
        self.serial = self.held.len() as u64;
        true
    }
}

/// Damages a datagram as `fate` says.
fn alter(dice: &mut Dice, layout: Layout, bytes: &mut [u8], fate: Fate, sent: &mut Sent) {
    if !(fate.mangled || fate.corrupted) {
        return;
    }
    let split = layout.headers_len(bytes);
    let (headers, payload) = bytes.split_at_mut(split);
    if fate.mangled {
        sent.mangled += 1;
        dice.damage(headers);
    }
    if fate.corrupted && !payload.is_empty() {
        sent.corrupted += 1;
        dice.damage(payload);
    }
}

#[cfg(test)]
mod tests;
