//! One direction of a cable: the queue of the port that feeds it, its rate, its delay, its faults.
//!
//! A first-in first-out queue in front of a constant rate needs no list of packets: when the port
//! will be idle says how much is queued, when a packet leaves, and whether it fits. So a hop
//! costs one event. When the rate changes, what is queued leaves at the old rate. Ports that can be
//! paused need the list and keep it elsewhere (`pfc`): here they have one packet at a time.

use crate::rng::Rng;
use crate::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// The condition of a link at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Inverse of the rate, in picoseconds per byte.
    pub(crate) ps_per_byte: u32,
    /// Packets that vanish without a trace, in parts of a million.
    pub(crate) loss_ppm: u32,
    pub(crate) up: bool,
}

/// The reason why a packet did not get through.
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

/// The fate of a packet offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// The last bit arrives at this time; `mark` says whether the queue was above the threshold.
    Arrives {
        at: Time,
        mark: bool,
    },
    Lost(LossCause),
}

/// The packets that a port marks, by the queue they meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marking {
    /// Queue up to which no packet is marked.
    pub(crate) above_bytes: u32,
    /// Queue above which all packets are marked; in between it is a share that rises evenly.
    pub(crate) all_above_bytes: u32,
    /// Largest share below that, in parts of a million.
    pub(crate) most_ppm: u32,
}

impl Marking {
    /// The marking of a port that marks no packet.
    pub(crate) const NONE: Self =
        Self { above_bytes: u32::MAX, all_above_bytes: u32::MAX, most_ppm: 0 };

    #[inline]
    fn marks(&self, queued_bytes: u32, rng: &mut Rng) -> bool {
        queued_bytes > self.above_bytes
            && (queued_bytes > self.all_above_bytes || rng.chance_ppm(self.ppm_at(queued_bytes)))
    }

    /// Returns the share of packets that are marked at a queue on the slope, in parts of a million.
    fn ppm_at(&self, queued_bytes: u32) -> u32 {
        let far = u64::from(queued_bytes - self.above_bytes);
        let slope_bytes = u64::from(self.all_above_bytes - self.above_bytes);
        (u64::from(self.most_ppm) * far / slope_bytes) as u32
    }
}

/// A link. It takes half a cache line: there are tens of thousands, and every hop is another one's.
#[derive(Clone, Debug)]
#[repr(align(32))]
pub(crate) struct Link {
    /// Time at which the last bit of what is queued leaves.
    idle_at: Time,
    /// Number of bytes taken so far.
    carried_bytes: u64,
    /// Longest queue so far.
    peak_bytes: u32,
    /// Bytes that wait elsewhere to be offered.
    held_bytes: u32,
    /// Properties of the port. Links that are alike share it, until a fault makes one different.
    port: Arc<Port>,
}

/// Properties of a link and of the port that feeds it.
#[derive(Clone, Debug)]
struct Port {
    delay_ps: u32,
    ps_per_byte: u32,
    buffer_bytes: u32,
    marking: Marking,
    /// Effects of faults; most links never have any.
    damage: Option<Damage>,
}

/// Present and past effects of faults on a link.
#[derive(Clone, Debug, Default)]
struct Damage {
    is_cut: bool,
    cuts: u16,
    loss_ppm: u32,
    /// Queues at earlier rates: the time until which each leaves, and its picoseconds per byte, in
    /// the order of time.
    earlier: VecDeque<(Time, u32)>,
}

impl Damage {
    /// Ends a rate: it holds only for what leaves until `idle_at`.
    fn change_rate(&mut self, now: Time, idle_at: Time, ps_per_byte: u32) {
        self.earlier.retain(|&(until, _)| until > now);
        if self.earlier.back().map_or(now, |&(until, _)| until) < idle_at {
            self.earlier.push_back((idle_at, ps_per_byte));
        }
    }

    /// Returns the number of bytes that still leave at earlier rates, and the time until which they
    /// do.
    fn leaving_bytes(&self, now: Time) -> (u64, Time) {
        let later = self.earlier.iter().filter(|&&(until, _)| until > now);
        later.fold((0, now), |(bytes, from), &(until, ps_per_byte)| {
            (bytes + until.ps_since(from).div_ceil(u64::from(ps_per_byte)), until)
        })
    }
}

impl Link {
    pub(crate) fn new(ps_per_byte: u32, delay_ps: u32) -> Self {
        let port = Port {
            delay_ps,
            ps_per_byte,
            buffer_bytes: u32::MAX,
            marking: Marking::NONE,
            damage: None,
        };
        Self {
            idle_at: Time::ZERO,
            carried_bytes: 0,
            peak_bytes: 0,
            held_bytes: 0,
            port: Arc::new(port),
        }
    }

    /// Gives the port a buffer, and says which packets it marks.
    pub(crate) fn with_queue(self, buffer_bytes: u32, marking: Marking) -> Self {
        let port = Port { buffer_bytes, marking, ..Port::clone(&self.port) };
        Self { port: Arc::new(port), ..self }
    }

    /// Queues a packet of `bytes` that has arrived at the port.
    #[inline]
    pub(crate) fn offer(&mut self, now: Time, bytes: u32, rng: &mut Rng) -> Offer {
        if !self.is_up() {
            return Offer::Lost(LossCause::Cut);
        }
        let queued_bytes = self.leaving_bytes(now);
        let port = &*self.port;
        if queued_bytes.saturating_add(bytes) > port.buffer_bytes {
            return Offer::Lost(LossCause::QueueFull);
        }
        self.peak_bytes = self.peak_bytes.max(queued_bytes + bytes);
        self.carried_bytes += u64::from(bytes);
        let transfer_ps = u64::from(bytes) * u64::from(port.ps_per_byte);
        self.idle_at = self.idle_at.max(now).plus_ps(transfer_ps);
        if port.damage.as_ref().is_some_and(|damage| rng.chance_ppm(damage.loss_ppm)) {
            return Offer::Lost(LossCause::GreyLoss);
        }
        let at = self.idle_at.plus_ps(u64::from(port.delay_ps));
        Offer::Arrives { at, mark: port.marking.marks(queued_bytes, rng) }
    }

    /// Takes note of a packet that is going to be offered. Returns whether it is to be marked.
    pub(crate) fn hold(&mut self, now: Time, bytes: u32, rng: &mut Rng) -> bool {
        let queued_bytes = self.queued_bytes(now);
        self.held_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(queued_bytes + bytes);
        self.port.marking.marks(queued_bytes, rng)
    }

    /// Takes note that a packet of `bytes` that was held is offered next, or lost.
    pub(crate) fn release(&mut self, bytes: u32) {
        self.held_bytes -= bytes;
    }

    /// Returns the time at which the port can take a packet without queueing it.
    pub(crate) fn idle_at(&self) -> Time {
        self.idle_at
    }

    /// Returns the number of bytes that wait here or elsewhere and have not left.
    #[inline]
    pub(crate) fn queued_bytes(&self, now: Time) -> u32 {
        self.held_bytes + self.leaving_bytes(now)
    }

    /// Returns the number of bytes that were offered and have not left.
    #[inline]
    fn leaving_bytes(&self, now: Time) -> u32 {
        let (earlier_bytes, from) = match &self.port.damage {
            None => (0, now),
            Some(damage) => damage.leaving_bytes(now),
        };
        let bytes = self.idle_at.ps_since(from).div_ceil(u64::from(self.port.ps_per_byte));
        (earlier_bytes + bytes) as u32
    }

    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.port.damage.as_ref().is_none_or(|damage| !damage.is_cut)
    }

    #[inline]
    pub(crate) fn cuts(&self) -> u16 {
        self.port.damage.as_ref().map_or(0, |damage| damage.cuts)
    }

    pub(crate) fn delay_ps(&self) -> u32 {
        self.port.delay_ps
    }

    pub(crate) fn ps_per_byte(&self) -> u32 {
        self.port.ps_per_byte
    }

    /// Changes the condition of the link. A cut loses everything queued or under way.
    pub(crate) fn set_condition(&mut self, now: Time, condition: Condition) {
        let was_up = self.is_up();
        let Condition { ps_per_byte, loss_ppm, up } = condition;
        let port = Arc::make_mut(&mut self.port);
        let damage = port.damage.get_or_insert_default();
        if was_up && !up {
            damage.cuts = damage.cuts.wrapping_add(1);
            damage.earlier.clear();
            self.idle_at = now;
        }
        if ps_per_byte != port.ps_per_byte {
            damage.change_rate(now, self.idle_at, port.ps_per_byte);
        }
        (damage.is_cut, damage.loss_ppm, port.ps_per_byte) = (!up, loss_ppm, ps_per_byte);
    }

    /// Returns the time that a packet of `bytes` takes over an empty link.
    pub(crate) fn transit_ps(&self, bytes: u32) -> u64 {
        u64::from(self.port.delay_ps) + u64::from(bytes) * u64::from(self.port.ps_per_byte)
    }

    pub(crate) fn peak_bytes(&self) -> u32 {
        self.peak_bytes
    }

    pub(crate) fn buffer_bytes(&self) -> u32 {
        self.port.buffer_bytes
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
        let step = Marking { above_bytes: 2000, all_above_bytes: 2000, most_ppm: 0 };
        Link::new(HEALTHY.ps_per_byte, 1_000_000).with_queue(10_000, step)
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
    fn what_is_queued_stays_so_long_when_the_rate_changes() {
        for (before, after) in [(80, 8000), (8000, 80)] {
            let (mut link, mut rng) = (link(), Rng::new(1));
            let at_rate = |ps_per_byte| Condition { ps_per_byte, ..HEALTHY };
            link.set_condition(Time::ZERO, at_rate(before));
            let rate = u64::from(before);
            link.offer(Time::ZERO, 6000, &mut rng);
            link.set_condition(Time::ZERO, at_rate(after));
            assert_eq!(link.queued_bytes(Time::ZERO), 6000, "{before} to {after}");
            assert_eq!(link.queued_bytes(Time::from_ps(4000 * rate)), 2000);
            let full = Offer::Lost(LossCause::QueueFull);
            assert_eq!(link.offer(Time::ZERO, 4001, &mut rng), full);
            assert!(matches!(link.offer(Time::ZERO, 4000, &mut rng), Offer::Arrives { .. }));
            assert_eq!(link.queued_bytes(Time::ZERO), 10_000);
            // And back, before any of it has left: in three parts.
            link.set_condition(Time::ZERO, at_rate(before));
            assert_eq!(link.queued_bytes(Time::from_ps(6000 * rate)), 4000);
            let old_ps = 6000 * rate + 4000 * u64::from(after);
            assert_eq!(link.queued_bytes(Time::from_ps(old_ps)), 0);
            let at = Time::from_ps(old_ps + 1000 * rate + 1_000_000);
            let later = Time::from_ps(6000 * rate);
            assert_eq!(link.offer(later, 1000, &mut rng), Offer::Arrives { at, mark: true });
            assert_eq!(link.queued_bytes(later), 5000);
        }
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

    #[test]
    fn marks_rise_along_the_slope() {
        let slope = Marking { above_bytes: 1000, all_above_bytes: 3000, most_ppm: 200_000 };
        let mut rng = Rng::new(1);
        let mut share = |bytes| (0..10_000).filter(|_| slope.marks(bytes, &mut rng)).count();
        assert_eq!((share(1000), share(3001)), (0, 10_000));
        assert!((850..1150).contains(&share(2000)), "a tenth in the middle");
        assert!((1850..2150).contains(&share(3000)));
        assert_eq!(size_of::<Link>(), 32, "half a cache line");
    }
}
