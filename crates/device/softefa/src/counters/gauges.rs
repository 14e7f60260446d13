//! The state that each queue pair publishes for readers in other processes: words of the counters
//! file, which it updates ten times a second while something arrives.

use std::sync::atomic::Ordering;

use srd::Instant;

use crate::generation::Generation;
use crate::mapped::Words;

/// The most paths of a queue pair that are published.
pub const GAUGE_PATHS_MAX: usize = 16;
/// The most queue pairs of a device that are published.
const SLOTS: usize = 32;
/// The time between two updates.
const INTERVAL_NS: u64 = 100_000_000;

/// Positions of the words of a queue pair.
mod place {
    /// The number, the kind, and a mark that the slot is taken.
    pub(super) const NAME: usize = 0;
    pub(super) const PEERS: usize = 1;
    pub(super) const SENT_BYTES: usize = 2;
    pub(super) const RECEIVED_BYTES: usize = 3;
    pub(super) const REPEATED: usize = 4;
    /// Two words for each path.
    pub(super) const PATHS: usize = 5;
}

const SLOT_WORDS: usize = place::PATHS + 2 * GAUGE_PATHS_MAX;
/// The number of words of a device.
pub(super) const WORDS: usize = SLOTS * SLOT_WORDS;

const TAKEN: u64 = 1 << 63;
const KIND_SHIFT: u32 = 32;
const AVOIDED: u64 = 1 << 63;
/// Names of transports by their numbers in a word.
const KINDS: [&str; 6] = ["SRD", "UD", "RC", "UC", "XRC", "XRC target"];

/// The gauges that a queue pair publishes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gauge {
    /// Number of peers.
    pub peers: u64,
    /// Number of payload bytes sent, each counted once.
    pub sent_bytes: u64,
    /// Number of payload bytes received and accepted.
    pub received_bytes: u64,
    /// Number of packets sent again.
    pub repeated_pkts: u64,
    /// The first [`GAUGE_PATHS_MAX`] paths, by their numbers.
    pub paths: Vec<PathGauge>,
}

/// The gauges that a queue pair publishes of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathGauge {
    /// Number of packets with payload sent over the path. It decreases when a peer is forgotten.
    pub sent_pkts: u64,
    /// The latest round-trip time; 0 before the first.
    pub rtt_ns: u64,
    /// The path is avoided at present because it lost packets.
    pub is_avoided: bool,
}

/// A queue pair as other processes see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePairGauge {
    /// The number of the queue pair.
    pub qpn: u32,
    /// The name of its transport, for example `SRD`.
    pub kind: &'static str,
    /// The gauge that it published last.
    pub gauge: Gauge,
}

impl QueuePairGauge {
    /// Reads the words of one slot; `None` if it is not taken.
    #[expect(clippy::cast_possible_truncation, reason = "the parts of a word")]
    fn of_words(words: &[u64]) -> Option<Self> {
        let name = words[place::NAME];
        let kind = KINDS.get((name >> KIND_SHIFT & 0xff) as usize)?;
        let path = |words: &[u64]| PathGauge {
            sent_pkts: words[0] & !AVOIDED,
            rtt_ns: words[1],
            is_avoided: words[0] & AVOIDED != 0,
        };
        let paths = words[place::PATHS..SLOT_WORDS].chunks_exact(2);
        let count = (words[place::PEERS] >> 32).min(GAUGE_PATHS_MAX as u64) as usize;
        let gauge = Gauge {
            peers: words[place::PEERS] & 0xffff_ffff,
            sent_bytes: words[place::SENT_BYTES],
            received_bytes: words[place::RECEIVED_BYTES],
            repeated_pkts: words[place::REPEATED],
            paths: paths.take(count).map(path).collect(),
        };
        (name & TAKEN != 0).then_some(Self { qpn: name as u32, kind, gauge })
    }

    /// Returns the queue pairs in the words of a device.
    pub(super) fn all(words: &[u64]) -> Vec<Self> {
        words.chunks_exact(SLOT_WORDS).filter_map(Self::of_words).collect()
    }
}

/// The gauges of a device's queue pairs in this process.
#[derive(Debug, Clone)]
pub(crate) struct Gauges(Words);

/// The slot of a queue pair, which is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    /// `None` if there were too many queue pairs.
    words: Option<Words>,
    begin: usize,
    next: Instant,
    made: Generation,
}

impl Gauges {
    /// Makes slots that no other process sees.
    pub(crate) fn private() -> Self {
        Self(Words::own(WORDS))
    }

    /// Uses these [`WORDS`] as slots.
    pub(super) fn at(words: Words) -> Self {
        Self(words)
    }

    /// Takes a slot for a queue pair whose transport has the number `kind` in the list of all.
    pub(crate) fn take(&self, qpn: u32, kind: u8) -> Slot {
        let name = TAKEN | u64::from(kind) << KIND_SHIFT | u64::from(qpn);
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        let is_taken =
            |begin: &usize| self.0[*begin].compare_exchange(0, name, order.0, order.1).is_ok();
        let begin = (0..WORDS).step_by(SLOT_WORDS).find(is_taken);
        let made = Generation::current();
        let words = begin.map(|_| self.0.clone());
        let slot = Slot { words, begin: begin.unwrap_or_default(), next: Instant::ZERO, made };
        // This overwrites what another queue pair published there.
        slot.write(&Gauge::default());
        slot
    }
}

impl Slot {
    /// Returns true if it is time for an update.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next && self.words.is_some()
    }

    /// Publishes a gauge.
    pub(crate) fn set(&mut self, now: Instant, gauge: &Gauge) {
        self.next = now.plus_ns(INTERVAL_NS);
        self.write(gauge);
    }

    fn write(&self, gauge: &Gauge) {
        // A child shares the file with its parent.
        let Some(words) = self.words.as_ref().filter(|_| self.made.is_current()) else { return };
        let store = |at: usize, value| words[self.begin + at].store(value, Ordering::Relaxed);
        let paths = &gauge.paths[..gauge.paths.len().min(GAUGE_PATHS_MAX)];
        store(place::PEERS, gauge.peers | (paths.len() as u64) << 32);
        store(place::SENT_BYTES, gauge.sent_bytes);
        store(place::RECEIVED_BYTES, gauge.received_bytes);
        store(place::REPEATED, gauge.repeated_pkts);
        for (index, path) in paths.iter().enumerate() {
            let avoided = if path.is_avoided { AVOIDED } else { 0 };
            store(place::PATHS + 2 * index, path.sent_pkts | avoided);
            store(place::PATHS + 2 * index + 1, path.rtt_ns);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(words) = self.words.as_ref().filter(|_| self.made.is_current()) {
            words[self.begin].store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(gauges: &Gauges) -> Vec<QueuePairGauge> {
        let words: Vec<u64> = gauges.0.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        QueuePairGauge::all(&words)
    }

    #[test]
    fn what_a_queue_pair_says_is_seen_until_it_ends() {
        let gauges = Gauges::private();
        let mut slot = gauges.take(0xff_ffff, 2);
        let path = PathGauge { sent_pkts: 7, rtt_ns: 1 << 40, is_avoided: true };
        let gauge = Gauge {
            peers: 3,
            sent_bytes: u64::MAX,
            received_bytes: 5,
            repeated_pkts: 6,
            paths: vec![path; GAUGE_PATHS_MAX + 1],
        };
        assert!(slot.is_due(Instant::ZERO));
        slot.set(Instant::ZERO, &gauge);
        assert!(!slot.is_due(Instant::ZERO.plus_ns(INTERVAL_NS - 1)));
        assert!(slot.is_due(Instant::ZERO.plus_ns(INTERVAL_NS)));
        let told = Gauge { paths: vec![path; GAUGE_PATHS_MAX], ..gauge };
        assert_eq!(seen(&gauges), [QueuePairGauge { qpn: 0xff_ffff, kind: "RC", gauge: told }]);
        drop(slot);
        assert_eq!(seen(&gauges), []);
        let _next = gauges.take(1, 0);
        assert_eq!(seen(&gauges)[0].gauge, Gauge::default(), "nothing is left of the other one");
    }

    #[test]
    fn one_too_many_is_not_seen() {
        let gauges = Gauges::private();
        let mut slots: Vec<Slot> = (0..=SLOTS as u32).map(|qpn| gauges.take(qpn, 0)).collect();
        assert_eq!(seen(&gauges).len(), SLOTS);
        let last = slots.last_mut().unwrap();
        assert!(!last.is_due(Instant::ZERO));
        last.set(Instant::ZERO, &Gauge { peers: 9, ..Gauge::default() });
        assert!(seen(&gauges).iter().all(|seen| seen.gauge.peers == 0));
    }

    #[test]
    fn words_that_make_no_sense_are_borne() {
        assert_eq!(QueuePairGauge::all(&[u64::MAX; WORDS]), []);
    }
}
