//! Delivery of messages in the order in which they were posted, as a system must do that needs
//! their order on a fabric that lets them overtake each other.
//!
//! A message that comes early is copied aside, so that its buffer can be posted again at once: a
//! message that kept its buffer could keep the very message away that all others wait for. Room for
//! the copies is reserved before anything is measured. The room that was used last is used first,
//! so that only as much memory is touched as messages wait.

use bench_record::failure::Failure;

use crate::refusal::Refusal;

/// The most numbers by which a message may be ahead of the next one. SRD's engine lets no message
/// be overtaken by more than 8192 later ones, and libfabric gives up at 16384.
const AHEAD_MAX: usize = 1 << 14;
/// The mark of a place where no message waits.
const NOBODY: u32 = u32::MAX;

/// The messages that wait for their turn.
pub(super) struct Reorder {
    size_bytes: usize,
    /// The number of the next message in order.
    next: u64,
    /// The room of each message that waits, at its number modulo the length of this table.
    waiting: Vec<u32>,
    /// The copies of messages, as far as room was ever used.
    room: Vec<u8>,
    /// The numbers of free rooms.
    free: Vec<u32>,
    /// The number of messages that had to wait.
    pub(super) held: u64,
    /// The most messages that waited at the same time.
    pub(super) held_most: u64,
    pub(super) duplicates: u64,
}

impl Reorder {
    /// Makes room for as many messages of this size as may wait.
    pub(super) fn new(size_bytes: usize) -> Result<Self, Refusal> {
        // Reserved memory costs nothing until it is written.
        let mut room = Vec::new();
        room.try_reserve_exact(AHEAD_MAX.saturating_mul(size_bytes)).map_err(|_| {
            let what = "messages that wait for earlier ones: use --sizes below that, or no --order";
            Refusal::Memory(format!("{AHEAD_MAX} times {size_bytes} bytes of {what} kept"))
        })?;
        Ok(Self {
            size_bytes,
            next: 0,
            waiting: vec![NOBODY; AHEAD_MAX],
            room,
            free: (0..AHEAD_MAX as u32).rev().collect(),
            held: 0,
            held_most: 0,
            duplicates: 0,
        })
    }

    /// Takes message `number`. Returns how many messages may be handed on now: 0, or this one and
    /// those that waited for it.
    #[inline]
    pub(super) fn take(&mut self, number: u64, payload: &[u8]) -> Result<u64, Failure> {
        if number != self.next {
            return self.put_aside(number, payload).map(|()| 0);
        }
        self.next += 1;
        let mut count = 1;
        loop {
            let place = place_of(self.next);
            let room = self.waiting[place];
            if room == NOBODY {
                return Ok(count);
            }
            self.waiting[place] = NOBODY;
            self.free.push(room);
            self.next += 1;
            count += 1;
        }
    }

    #[cold]
    fn put_aside(&mut self, number: u64, payload: &[u8]) -> Result<(), Failure> {
        let Some(ahead) = number.checked_sub(self.next) else {
            self.duplicates += 1;
            return Ok(());
        };
        let place = place_of(number);
        if ahead < AHEAD_MAX as u64 && self.waiting[place] != NOBODY {
            self.duplicates += 1;
            return Ok(());
        }
        // There are as many rooms as numbers that may wait, so that one is free.
        let free = if ahead < AHEAD_MAX as u64 { self.free.pop() } else { None };
        let Some(room) = free else {
            return Err(Failure::Data(format!(
                "message {number} came while message {} was missing: more than {AHEAD_MAX} messages \
                 would have to wait",
                self.next
            )));
        };
        self.waiting[place] = room;
        let start = room as usize * self.size_bytes;
        let len = payload.len().min(self.size_bytes);
        if start == self.room.len() {
            // The room was never used before: the memory grows within its reservation.
            self.room.extend_from_slice(&payload[..len]);
            self.room.resize(start + self.size_bytes, 0);
        } else {
            self.room[start..start + len].copy_from_slice(&payload[..len]);
        }
        self.held += 1;
        self.held_most = self.held_most.max((AHEAD_MAX - self.free.len()) as u64);
        Ok(())
    }

    /// Checks that no message waits when all have come.
    pub(super) fn check_end(&self) -> Result<(), Failure> {
        let waiting = AHEAD_MAX - self.free.len();
        if waiting == 0 {
            return Ok(());
        }
        Err(Failure::Data(format!(
            "{waiting} messages still waited for message {} when all had come",
            self.next
        )))
    }
}

const fn place_of(number: u64) -> usize {
    number as usize % AHEAD_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Random;

    fn payload(number: u64) -> [u8; 8] {
        number.to_le_bytes()
    }

    fn reorder() -> Reorder {
        Reorder::new(8).expect("room for 8 B")
    }

    fn take(reorder: &mut Reorder, number: u64) -> u64 {
        reorder.take(number, &payload(number)).expect("in bounds")
    }

    #[test]
    fn early_messages_wait_for_the_missing_one() {
        let mut reorder = reorder();
        let counts = [0, 2, 3, 1, 4, 6, 6, 0, 5].map(|number| take(&mut reorder, number));
        assert_eq!(counts, [1, 0, 0, 3, 1, 0, 0, 0, 2]);
        assert_eq!((reorder.held, reorder.held_most, reorder.duplicates), (3, 2, 2));
        reorder.check_end().expect("nothing waits");
        take(&mut reorder, 9);
        let error = reorder.check_end().unwrap_err().to_string();
        assert!(error.contains("1 messages still waited for message 7"), "{error}");
    }

    #[test]
    fn every_order_within_the_bound_is_put_right() {
        let mut random = Random::new(3);
        let (mut reorder, mut in_order) = (reorder(), 0);
        for start in (0..10 * AHEAD_MAX as u64).step_by(AHEAD_MAX) {
            let mut numbers: Vec<u64> = (start..start + AHEAD_MAX as u64).collect();
            random.shuffle(&mut numbers);
            in_order += numbers.iter().map(|number| take(&mut reorder, *number)).sum::<u64>();
            assert_eq!(in_order, start + AHEAD_MAX as u64);
        }
        reorder.check_end().expect("nothing waits");
        assert_eq!(reorder.duplicates, 0);
    }

    #[test]
    fn what_waits_keeps_its_bytes() {
        let mut reorder = reorder();
        take(&mut reorder, 3);
        take(&mut reorder, 1);
        let room = reorder.waiting[3] as usize * 8;
        assert_eq!(reorder.room[room..room + 8], payload(3));
    }

    /// A lack of memory must not end the server.
    #[test]
    fn messages_that_no_memory_can_hold_are_refused() {
        for size_bytes in [1 << 48, usize::MAX] {
            let refusal = Reorder::new(size_bytes).err().expect("no room").to_string();
            assert!(refusal.contains("no memory for") && refusal.contains("--order"), "{refusal}");
        }
    }

    #[test]
    fn memory_is_used_for_what_waits_only() {
        let mut reorder = reorder();
        let reserved = reorder.room.capacity();
        assert!(reserved >= AHEAD_MAX * 8 && reorder.room.is_empty());
        for number in [2, 1, 0, 4, 5, 3] {
            take(&mut reorder, number);
        }
        assert_eq!((reorder.room.len(), reorder.room.capacity()), (2 * 8, reserved));
    }

    #[test]
    fn what_comes_much_too_early_is_an_error() {
        let mut reorder = reorder();
        let number = AHEAD_MAX as u64;
        take(&mut reorder, number - 1);
        let error = reorder.take(number, &payload(number)).unwrap_err();
        assert_eq!(error.exit_code(), 9);
        assert!(error.to_string().contains("message 0 was missing"), "{error}");
    }
}
