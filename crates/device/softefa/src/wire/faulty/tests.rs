//! What is dealt, and what arrives all the same.

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

/// Counts how often something was sent, and can send nothing.
struct Broken(Arc<Mutex<usize>>);

impl Wire for Broken {
    fn send(&mut self, _: Instant, batch: &mut Batch) -> Sent {
        *self.0.lock().unwrap() += 1;
        let status = Status::LocalBadLength;
        let impossible = batch.packets().iter().map(|it| Impossible { place: it.place, status });
        let mut impossible: Vec<_> = impossible.collect();
        batch.clear();
        batch.report(&mut impossible);
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

/// Datagrams that arrive together are sent together: sent one by one, a request through memory
/// could overtake the acknowledgement before it, which found no room there.
#[test]
fn what_came_together_leaves_together_and_is_told_of_by_its_place() {
    let times = Arc::new(Mutex::new(0));
    let inner = Box::new(Broken(Arc::clone(&times)));
    let faults = faults("dup=100%", None).unwrap();
    let mut wire = Faulty::new(inner, Tap::deaf(), Layout::Srd, faults);
    let mut batch = Batch::new(&Framing::Done, 4, 0);
    for number in 0..3u16 {
        let (to, bytes) = ("127.0.0.1:1".parse().unwrap(), number.to_be_bytes());
        let nothing = std::iter::empty();
        batch.push(&mut Framing::Done, to, Via::Path(0), &bytes, nothing).unwrap();
    }
    let sent = wire.send(Instant::ZERO, &mut batch);
    assert_eq!((sent.duplicated, *times.lock().unwrap()), (3, 1));
    let places = std::iter::from_fn(|| batch.take_impossible().map(|it| it.place));
    let mut places: Vec<_> = places.collect();
    places.sort_unstable();
    assert_eq!(places, [0, 1, 2]);
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
