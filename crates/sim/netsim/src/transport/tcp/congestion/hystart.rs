//! The early end of slow start (HyStart++, RFC 9406): a queue that grows shows in round-trip times
//! before it overflows. The window then grows at a quarter of the pace, and slow start ends if that
//! goes on for some rounds. The RFC's thresholds are those of the Internet: a queue of less than 4
//! ms is none.

use super::Flight;

const PS_PER_MS: u64 = 1_000_000_000;
/// Rise of the round-trip time below which there is no queue.
const RISE_MIN_PS: u64 = 4 * PS_PER_MS;
/// Rise of the round-trip time that always means a queue.
const RISE_MAX_PS: u64 = 16 * PS_PER_MS;
/// Divisor of the round-trip time: between the two bounds, a rise by this part means a queue.
const RISE_DIVISOR: u64 = 8;
/// Number of samples that a round needs to say anything.
const SAMPLES: u32 = 8;
/// Number of rounds of conservative slow start.
const CONSERVATIVE_ROUNDS: u32 = 5;
/// Divisor of the window's growth in them.
pub(super) const GROWTH_DIVISOR: f64 = 4.0;
/// Maximum number of segments of an acknowledgement that count without pacing (`L`).
pub(super) const LIMIT_PACKETS: u32 = 8;

/// The pace of slow start from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Full,
    /// Conservative slow start.
    Conservative,
    /// The end of slow start.
    End,
}

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// Round-trip time that began it; a shorter one ends it.
    baseline_ps: u64,
    /// Rounds that have ended since.
    rounds: u32,
}

#[derive(Debug)]
pub(super) struct HyStart {
    /// Segment below which all has to be acknowledged for the round to end; `None` before the
    /// first.
    round_end: Option<u32>,
    /// Shortest round-trip time of the round before.
    last_ps: Option<u64>,
    /// Shortest round-trip time of this round.
    current_ps: u64,
    /// Number of samples of this round.
    samples: u32,
    conservative: Option<Conservative>,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            round_end: None,
            last_ps: None,
            current_ps: u64::MAX,
            samples: 0,
            conservative: None,
        }
    }

    /// Takes note of an acknowledgement of new data that came after `rtt_ps`.
    pub(super) fn note(&mut self, rtt_ps: u64, flight: Flight) -> Pace {
        self.current_ps = self.current_ps.min(rtt_ps);
        self.samples += 1;
        if self.samples >= SAMPLES {
            self.judge();
        }
        if flight.una >= *self.round_end.get_or_insert(flight.next) {
            self.end_round(flight.next);
        }
        match self.conservative {
            None => Pace::Full,
            Some(Conservative { rounds, .. }) if rounds >= CONSERVATIVE_ROUNDS => Pace::End,
            Some(_) => Pace::Conservative,
        }
    }

    fn judge(&mut self) {
        if let Some(Conservative { baseline_ps, .. }) = self.conservative {
            if self.current_ps < baseline_ps {
                self.conservative = None;
            }
            return;
        }
        let rises = self.last_ps.is_some_and(|last_ps| {
            let rise_ps = (last_ps / RISE_DIVISOR).clamp(RISE_MIN_PS, RISE_MAX_PS);
            self.current_ps >= last_ps + rise_ps
        });
        if rises {
            self.conservative = Some(Conservative { baseline_ps: self.current_ps, rounds: 0 });
        }
    }

    fn end_round(&mut self, next: u32) {
        self.round_end = Some(next);
        self.last_ps = Some(self.current_ps);
        (self.current_ps, self.samples) = (u64::MAX, 0);
        if let Some(conservative) = &mut self.conservative {
            conservative.rounds += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a round of `acks` acknowledgements that take `ms`; returns the pace after each.
    fn round(hystart: &mut HyStart, sent: &mut u32, acks: u32, ms: u64) -> Vec<Pace> {
        let first = *sent;
        *sent += acks;
        let next = |n| if n == acks { first + 2 * acks } else { first + acks };
        (1..=acks)
            .map(|n| hystart.note(ms * PS_PER_MS, Flight { una: first + n, next: next(n) }))
            .collect()
    }

    #[test]
    fn a_rise_slows_it_down_and_five_rounds_end_it() {
        let (mut hystart, mut sent) = (HyStart::new(), 0);
        for ms in [20, 22, 23] {
            assert_eq!(round(&mut hystart, &mut sent, 16, ms), [Pace::Full; 16], "{ms} ms");
        }
        let rising = round(&mut hystart, &mut sent, 16, 28);
        assert_eq!(rising[..7], [Pace::Full; 7], "too few samples");
        assert_eq!(rising[7..], [Pace::Conservative; 9]);
        let later: Vec<Pace> =
            (0..5).flat_map(|_| round(&mut hystart, &mut sent, 16, 30)).collect();
        let end = later.iter().position(|&pace| pace == Pace::End).unwrap();
        assert!((4 * 16 - 1..5 * 16).contains(&end), "the part of a round counts as one: {end}");
    }

    #[test]
    fn a_shorter_round_trip_time_takes_it_back() {
        let (mut hystart, mut sent) = (HyStart::new(), 0);
        round(&mut hystart, &mut sent, 16, 20);
        assert_eq!(round(&mut hystart, &mut sent, 16, 30)[15], Pace::Conservative);
        assert_eq!(round(&mut hystart, &mut sent, 16, 25)[15], Pace::Full);
    }

    #[test]
    fn small_queues_and_short_rounds_say_nothing() {
        let (mut hystart, mut sent) = (HyStart::new(), 0);
        for ms in [1, 2, 3, 6, 9] {
            assert_eq!(round(&mut hystart, &mut sent, 16, ms), [Pace::Full; 16], "below 4 ms");
        }
        assert_eq!(round(&mut hystart, &mut sent, 7, 50), [Pace::Full; 7]);
    }
}
