//! A network that misbehaves on request, around a real one.

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

/// Bytes of a datagram that are copied into the batch it leaves in; the rest is short, too, or
/// named.
const HEAD_BYTES: usize = 320;

/// A copy that leaves later. Ordered by time, then by the order of arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DelayedDatagram {
    due: Instant,
    serial: u64,
    to: SocketAddr,
    via: Via,
    bytes: Vec<u8>,
}

/// What is to become of the datagrams of a queue pair.
pub(crate) struct DatagramFaults {
    dice: Dice,
    blackholes: Blackholes,
    peer: Option<IpAddr>,
}

impl DatagramFaults {
    /// Those of `fault`, if it has any; `stream` as for [`Dice::new`].
    pub(crate) fn new(fault: &InForce, stream: u64) -> Option<Self> {
        fault.spec.is_on_the_wire().then(|| Self {
            dice: Dice::new(&fault.spec, stream),
            blackholes: Blackholes::new(fault.spec.blackholes.clone(), fault.from),
            peer: fault.peer,
        })
    }

    /// Decides about one; whether a path swallows it.
    fn decide(&mut self, now: Instant, to: IpAddr, via: Via) -> (Fate, bool) {
        if self.peer.is_some_and(|peer| peer != to) {
            return (Fate::UNHARMED, false);
        }
        let fate = self.dice.throw();
        let is_swallowed = |path| self.blackholes.swallow(now, path);
        (fate, fate.copies > 0 && via.path().is_some_and(is_swallowed))
    }
}

/// Loses, doubles, holds back and damages what is sent through it.
pub(crate) struct Faulty {
    inner: Box<dyn Wire>,
    tap: Tap,
    /// `None` when it did so once, and does not any more.
    faults: Option<DatagramFaults>,
    layout: Layout,
    held: BinaryHeap<Reverse<DelayedDatagram>>,
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
        faults: DatagramFaults,
    ) -> Self {
        let held = BinaryHeap::new();
        let outgoing = Batch::new(&Framing::Done, HEAD_BYTES, 0);
        let (faults, impossible) = (Some(faults), Vec::new());
        Self { inner, tap, faults, layout, held, serial: 0, outgoing, impossible }
    }

    /// Sends one copy of a datagram, or holds it back.
    fn pass(&mut self, now: Instant, packet: &Packet, bytes: &[u8], fate: Fate, sent: &mut Sent) {
        if fate.delay_ns == 0 {
            self.forward(now, packet.to, packet.via, bytes, sent);
            return;
        }
        self.serial += 1;
        self.held.push(Reverse(DelayedDatagram {
            due: now.plus_ns(fate.delay_ns),
            serial: self.serial,
            to: packet.to,
            via: packet.via,
            bytes: bytes.to_vec(),
        }));
    }

    fn forward(&mut self, now: Instant, to: SocketAddr, via: Via, bytes: &[u8], sent: &mut Sent) {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
        let piece = Piece { addr: rest.as_ptr() as usize as u64, len: rest.len() };
        let pushed = self.outgoing.push(&mut Framing::Done, to, via, head, [piece].into_iter());
        assert!(pushed.is_ok(), "the bytes are a copy of ours");
        sent.add(&self.inner.send(now, &mut self.outgoing));
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
            for _ in 0..fate.copies {
                self.pass(now, packet, &bytes, fate, &mut sent);
            }
        }
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
            self.forward(now, held.to, held.via, &held.bytes, &mut sent);
        }
        sent
    }

    fn release_all(&mut self, now: Instant) -> Sent {
        let mut sent = self.inner.release_all(now);
        while let Some(Reverse(held)) = self.held.pop() {
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

    fn look_everywhere(&mut self) {
        self.inner.look_everywhere();
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

/// Damages what leaves, as `fate` says.
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
mod tests {
    use super::*;
    use crate::counters::FaultSource;
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

    fn faults(spec: &str, peer: Option<IpAddr>) -> Option<DatagramFaults> {
        let (spec, source) = (spec.parse().unwrap(), FaultSource::Command);
        DatagramFaults::new(&InForce { spec, peer, source, from: Instant::ZERO }, 1)
    }

    fn send(wire: &mut Faulty, now: Instant, to: &str, number: u16) -> Sent {
        let mut batch = Batch::new(&Framing::Done, 4, 0);
        let (to, bytes) = (to.parse().unwrap(), number.to_be_bytes());
        let nothing = std::iter::empty();
        batch.push(&mut Framing::Done, to, Via::Path(0), &bytes, nothing).unwrap();
        wire.send(now, &mut batch)
    }

    fn run(spec: &str) -> (Vec<Vec<u8>>, Sent) {
        let log = Arc::new(Mutex::new(Vec::new()));
        let inner = Box::new(Log(Arc::clone(&log)));
        let faults = faults(spec, None).unwrap();
        let mut wire = Faulty::new(inner, Tap::deaf(), Layout::Srd, faults);
        let mut total = Sent::default();
        for i in 0..1000u16 {
            let now = Instant::from_ns(u64::from(i) * 1000);
            let sent = send(&mut wire, now, "127.0.0.1:1", i);
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
    fn what_is_held_back_at_the_end_of_a_process_leaves() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let inner = Box::new(Log(Arc::clone(&log)));
        let slow = faults("delay=3600s", None).unwrap();
        let mut wire = Faulty::new(inner, Tap::deaf(), Layout::Srd, slow);
        let at = Instant::from_ns;
        (0..10).for_each(|i| _ = send(&mut wire, at(i.into()), "127.0.0.1:1", i));
        assert_eq!((log.lock().unwrap().len(), wire.release(at(20))), (0, Sent::default()));
        wire.release_all(at(20));
        let log = log.lock().unwrap();
        assert_eq!((log.len(), log.is_sorted(), wire.next_release()), (10, true, None));
    }

    #[test]
    fn delay_keeps_the_order() {
        let (log, _) = run("delay=50us");
        assert_eq!(log.len(), 1000);
        assert!(log.is_sorted());
    }

    #[test]
    fn what_was_held_back_leaves_in_its_order_when_the_fault_ends() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let faults = |spec| faults(spec, None);
        let inner = Box::new(Log(Arc::clone(&log)));
        let slow = faults("delay=3600s").unwrap();
        let mut wire = Faulty::new(inner, Tap::deaf(), Layout::Srd, slow);
        let at = Instant::from_ns;
        for i in 0..100 {
            send(&mut wire, at(i.into()), "127.0.0.1:1", i);
        }
        assert!(wire.set_faults(at(200), &mut faults("seed=1")));
        assert_eq!(wire.next_release(), Some(at(200)));
        assert_eq!(send(&mut wire, at(201), "127.0.0.1:1", 999), Sent::default());
        wire.release(at(202));
        assert_eq!(wire.next_release(), None);
        let numbers: Vec<u16> =
            log.lock().unwrap().iter().map(|sent| u16::from_be_bytes([sent[0], sent[1]])).collect();
        assert_eq!(numbers, [999].into_iter().chain(0..100).collect::<Vec<_>>());
    }

    #[test]
    fn only_the_peer_that_is_meant_is_hit() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let inner = Box::new(Log(Arc::clone(&log)));
        let faults = faults("loss=100%", Some(IpAddr::from([127, 0, 0, 2]))).unwrap();
        let mut wire = Faulty::new(inner, Tap::deaf(), Layout::Srd, faults);
        let lost = |wire: &mut Faulty, to: &str| send(wire, Instant::ZERO, to, 7).lost;
        assert_eq!((lost(&mut wire, "127.0.0.2:9"), lost(&mut wire, "127.0.0.3:9")), (1, 0));
        assert_eq!(log.lock().unwrap().len(), 1);
    }
}
