//! One direction of a cable: the queue of the port that feeds it, its rate, its delay, its faults.
//!
//! A first-in first-out queue in front of a constant rate needs no list of packets: when the port
//! will be idle says how much is queued, when a packet leaves, and whether it fits. So a hop
//! costs one event. When the rate changes, what is queued leaves at the old rate.

use crate::rng::Rng;
use crate::time::Time;

/// What a link does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Picoseconds per byte.
    pub(crate) ps_per_byte: u32,
    /// Packets that vanish without a trace, in parts of a million.
    pub(crate) loss_ppm: u32,
    pub(crate) up: bool,
}

/// Why a packet did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LossCause {
    /// The queue was full.
    QueueFull = 0,
    /// The cable was cut.
    Cut = 1,
    /// The cable loses packets.
    GreyLoss = 2,
    /// Routing knew no way to the destination.
    NoRoute = 3,
}

impl LossCause {
    /// Number of causes.
    pub(crate) const COUNT: usize = 4;
}

/// What became of a packet offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Its last bit arrives then; `mark`: the queue was above the threshold.
    Arrives {
        at: Time,
        mark: bool,
    },
    Lost(LossCause),
}

#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// When the last bit of what is queued leaves.
    idle_at: Time,
    delay_ps: u32,
    condition: Condition,
    /// Buffer of the port in bytes.
    buffer_bytes: u32,
    /// Packets that meet a longer queue are marked.
    mark_above_bytes: u32,
    /// Where it leads.
    pub(crate) to: Node,
    cuts: u16,
    /// Longest queue so far.
    peak_bytes: u32,
    /// Bytes taken so far.
    carried_bytes: u64,
}

/// A host or a switch, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Host(u32),
    Switch(u32),
}

impl Link {
    pub(crate) fn new(to: Node, ps_per_byte: u32, delay_ps: u32) -> Self {
        Self {
            idle_at: Time::ZERO,
            delay_ps,
            condition: Condition { ps_per_byte, loss_ppm: 0, up: true },
            buffer_bytes: u32::MAX,
            mark_above_bytes: u32::MAX,
            to,
            cuts: 0,
            peak_bytes: 0,
            carried_bytes: 0,
        }
    }

    /// Gives the port a buffer, and a threshold above which it marks packets.
    pub(crate) fn with_queue(self, buffer_bytes: u32, mark_above_bytes: Option<u32>) -> Self {
        let mark_above_bytes = mark_above_bytes.unwrap_or(u32::MAX);
        Self { buffer_bytes, mark_above_bytes, ..self }
    }

    /// Queues a packet of `bytes` that has arrived at the port.
    #[inline]
    pub(crate) fn offer(&mut self, now: Time, bytes: u32, rng: &mut Rng) -> Offer {
        if !self.condition.up {
            return Offer::Lost(LossCause::Cut);
        }
        let ps_per_byte = u64::from(self.condition.ps_per_byte);
        let queued_bytes = self.queued_bytes(now);
        if queued_bytes.saturating_add(bytes) > self.buffer_bytes {
            return Offer::Lost(LossCause::QueueFull);
        }
        self.peak_bytes = self.peak_bytes.max(queued_bytes + bytes);
        self.carried_bytes += u64::from(bytes);
        self.idle_at = self.idle_at.max(now).plus_ps(u64::from(bytes) * ps_per_byte);
        if rng.chance_ppm(self.condition.loss_ppm) {
            return Offer::Lost(LossCause::GreyLoss);
        }
        let at = self.idle_at.plus_ps(u64::from(self.delay_ps));
        Offer::Arrives { at, mark: queued_bytes > self.mark_above_bytes }
    }

    /// When the port can take a packet without queueing it.
    pub(crate) fn idle_at(&self) -> Time {
        self.idle_at
    }

    /// Bytes that have not left yet.
    #[inline]
    pub(crate) fn queued_bytes(&self, now: Time) -> u32 {
        self.idle_at.ps_since(now).div_ceil(u64::from(self.condition.ps_per_byte)) as u32
    }

    pub(crate) fn cuts(&self) -> u16 {
        self.cuts
    }

    /// Changes what the link does. Being cut loses everything queued or under way.
    pub(crate) fn set_condition(&mut self, now: Time, condition: Condition) {
        if self.condition.up && !condition.up {
            self.cuts = self.cuts.wrapping_add(1);
            self.idle_at = now;
        }
        self.condition = condition;
    }

    /// Time a packet of `bytes` takes over an empty link.
    pub(crate) fn transit_ps(&self, bytes: u32) -> u64 {
        u64::from(self.delay_ps) + u64::from(bytes) * u64::from(self.condition.ps_per_byte)
    }

    pub(crate) fn peak_bytes(&self) -> u32 {
        self.peak_bytes
    }

    pub(crate) fn buffer_bytes(&self) -> u32 {
        self.buffer_bytes
    }

    pub(crate) fn carried_bytes(&self) -> u64 {
        self.carried_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEALTHY: Condition = Condition { ps_per_byte: 80, loss_ppm: 0, up: true };

    fn link() -> Link {
        Link::new(Node::Host(0), HEALTHY.ps_per_byte, 1_000_000).with_queue(10_000, Some(2000))
    }

    #[test]
    fn packets_follow_each_other_at_the_rate() {
        let (mut link, mut rng) = (link(), Rng::new(1));
        let now = Time::from_us(5);
        for n in 1..=10 {
            let at = now.plus_ps(n * 80_000 + 1_000_000);
            assert_eq!(link.offer(now, 1000, &mut rng), Offer::Arrives { at, mark: n > 3 });
        }
        assert_eq!(link.offer(now, 1, &mut rng), Offer::Lost(LossCause::QueueFull));
        assert_eq!((link.peak_bytes(), link.carried_bytes()), (10_000, 10_000));
        assert_eq!(link.queued_bytes(now.plus_ps(40_000)), 9500);
        let later = now.plus_ps(80_000);
        assert!(matches!(link.offer(later, 1000, &mut rng), Offer::Arrives { .. }));
    }

    #[test]
    fn a_cut_empties_the_queue_and_a_slow_link_is_slow() {
        let (mut link, mut rng) = (link(), Rng::new(1));
        link.offer(Time::ZERO, 5000, &mut rng);
        link.set_condition(Time::ZERO, Condition { up: false, ..HEALTHY });
        assert_eq!(link.cuts(), 1);
        assert_eq!(link.offer(Time::ZERO, 1, &mut rng), Offer::Lost(LossCause::Cut));
        link.set_condition(Time::ZERO, Condition { ps_per_byte: 320, ..HEALTHY });
        let at = Time::from_ps(320_000 + 1_000_000);
        assert_eq!(link.offer(Time::ZERO, 1000, &mut rng), Offer::Arrives { at, mark: false });
    }

    #[test]
    fn a_grey_link_loses_its_share() {
        let (mut link, mut rng) = (link(), Rng::new(1));
        link.set_condition(Time::ZERO, Condition { loss_ppm: 100_000, ..HEALTHY });
        let lost = (0..10_000).filter(|&us| {
            link.offer(Time::from_us(us), 100, &mut rng) == Offer::Lost(LossCause::GreyLoss)
        });
        assert!((850..1150).contains(&lost.count()));
    }
}
