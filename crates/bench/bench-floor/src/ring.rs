//! A ring in shared memory between two threads that copies every message twice, in and out. A wire
//! of memory that also copies twice cannot exceed its figures.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use bench_record::failure::Failure;

use crate::{Receiver, Sender};

/// The number of slots of a ring.
const SLOTS: usize = 64;
/// The length of the largest message in bytes.
pub(crate) const SLOT_BYTES: usize = 8192;
/// The number of slots that are given back at once: a divisor of [`SLOTS`], otherwise the last ones
/// would never be given back.
const GIVEN_BACK: u64 = 8;

/// A message, with a header on a separate cache line.
#[repr(C, align(64))]
struct Slot {
    /// The number of the message that is complete in this slot; the first one is 1.
    number: AtomicU64,
    bytes: AtomicU64,
    payload: Payload,
}

#[repr(align(64))]
struct Payload(UnsafeCell<[u8; SLOT_BYTES]>);

/// A counter that is alone on its cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Taken(AtomicU64);

/// Memory that one producer and one consumer share.
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    /// The number of messages whose slots are free again.
    taken: Taken,
}

// SAFETY: only payloads are not atomic. `ends` hands out one producer and one consumer at a time;
// the producer writes a payload before it stores its number with release and the consumer reads it
// after it has seen that number with acquire. Likewise the consumer has read a payload before it
// counts it as taken, and the producer writes there again only after it has seen that count.
#[expect(unsafe_code, reason = "payloads are shared between threads without a lock")]
unsafe impl Sync for Ring {}

impl Ring {
    pub(crate) fn new() -> Self {
        let slot = |_| Slot {
            number: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            payload: Payload(UnsafeCell::new([0; SLOT_BYTES])),
        };
        Self { slots: (0..SLOTS).map(slot).collect(), taken: Taken::default() }
    }

    /// Returns both ends of an empty ring, which use it as long as one of them lives.
    pub(crate) fn ends(&mut self) -> (Producer<'_>, Consumer<'_>) {
        for slot in &mut self.slots {
            *slot.number.get_mut() = 0;
        }
        *self.taken.0.get_mut() = 0;
        (Producer { ring: self, sent: 0, taken: 0 }, Consumer { ring: self, received: 0 })
    }

    /// Returns the slot of the message with this number, which is 1 or more.
    fn slot(&self, number: u64) -> &Slot {
        &self.slots[(number - 1) as usize % SLOTS]
    }
}

/// The sending end.
pub(crate) struct Producer<'a> {
    ring: &'a Ring,
    sent: u64,
    /// The number of messages taken by the consumer, as last seen.
    taken: u64,
}

impl Sender for Producer<'_> {
    fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
        Ok(self.put(message))
    }
}

impl Receiver for Consumer<'_> {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        Ok(self.take(buffer))
    }
}

impl Producer<'_> {
    /// Copies a message in. Returns false if the ring is full. A message longer than a slot is cut
    /// off.
    fn put(&mut self, message: &[u8]) -> bool {
        if self.sent - self.taken >= SLOTS as u64 {
            self.taken = self.ring.taken.0.load(Ordering::Acquire);
            if self.sent - self.taken >= SLOTS as u64 {
                return false;
            }
        }
        let number = self.sent + 1;
        let slot = self.ring.slot(number);
        let bytes = message.len().min(SLOT_BYTES);
        // SAFETY: the slot has room for `bytes`, `message` has as many, and the consumer has given
        // the slot back or never had it, so that nobody else looks at it.
        #[expect(unsafe_code, reason = "the consumer's thread reads what is written here")]
        unsafe {
            let from = black_box(message.as_ptr());
            ptr::copy_nonoverlapping(from, slot.payload.0.get().cast::<u8>(), bytes);
        }
        slot.bytes.store(bytes as u64, Ordering::Relaxed);
        slot.number.store(number, Ordering::Release);
        self.sent = number;
        true
    }
}

/// The receiving end.
pub(crate) struct Consumer<'a> {
    ring: &'a Ring,
    received: u64,
}

impl Consumer<'_> {
    /// Copies the next message out and returns its length; `None` if there is none. A message
    /// longer than `buffer` is cut off.
    fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let number = self.received + 1;
        let slot = self.ring.slot(number);
        if slot.number.load(Ordering::Acquire) != number {
            return None;
        }
        let bytes = (slot.bytes.load(Ordering::Relaxed) as usize).min(buffer.len()).min(SLOT_BYTES);
        // SAFETY: slot and `buffer` have `bytes`, and the producer leaves the slot alone until it
        // is given back.
        #[expect(unsafe_code, reason = "the producer's thread wrote what is read here")]
        unsafe {
            // The compiler must not see where the bytes go: otherwise it copies only those that are
            // used.
            let to = black_box(buffer.as_mut_ptr());
            ptr::copy_nonoverlapping(slot.payload.0.get().cast::<u8>(), to, bytes);
        }
        self.received = number;
        if number % GIVEN_BACK == 0 {
            self.ring.taken.0.store(number, Ordering::Release);
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_takes_no_more_until_slots_are_given_back() {
        let mut ring = Ring::new();
        let (mut producer, mut consumer) = ring.ends();
        let mut buffer = [0; 16];
        assert_eq!(consumer.take(&mut buffer), None);
        let sent = (0..200_u8).take_while(|number| producer.put(&[*number; 5])).count();
        assert_eq!(sent, SLOTS);
        for number in 0..GIVEN_BACK as u8 {
            assert!(!producer.put(&[0]), "{number}");
            assert_eq!(consumer.take(&mut buffer), Some(5));
            assert_eq!(buffer[..5], [number; 5]);
        }
        assert!(producer.put(&[9; 5]));
    }

    #[test]
    fn what_is_too_long_is_cut_off_on_either_side() {
        let mut ring = Ring::new();
        let (mut producer, mut consumer) = ring.ends();
        assert!(producer.put(&[1; SLOT_BYTES + 1]) && producer.put(&[2; 64]));
        assert_eq!(consumer.take(&mut [0; SLOT_BYTES + 1]), Some(SLOT_BYTES));
        assert_eq!(consumer.take(&mut [0; 3]), Some(3));
    }

    #[test]
    fn another_thread_finds_every_message_whole_and_in_order() {
        let mut ring = Ring::new();
        let (mut producer, mut consumer) = ring.ends();
        let messages = 20_000_u32;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..messages {
                    let message = number.to_le_bytes().repeat(16);
                    while !producer.put(&message) {
                        std::thread::yield_now();
                    }
                }
            });
            let mut buffer = [0; 64];
            for number in 0..messages {
                while consumer.take(&mut buffer).is_none() {
                    std::thread::yield_now();
                }
                assert_eq!(buffer.to_vec(), number.to_le_bytes().repeat(16), "message {number}");
            }
        });
    }

    #[test]
    fn a_ring_that_was_used_is_empty_for_its_next_ends() {
        let mut ring = Ring::new();
        let (mut producer, _) = ring.ends();
        assert!((0..3).all(|_| producer.put(&[1])));
        let (mut producer, mut consumer) = ring.ends();
        assert_eq!(consumer.take(&mut [0; 8]), None);
        assert!(producer.put(&[7, 7]));
        assert_eq!(consumer.take(&mut [0; 8]), Some(2));
    }
}
