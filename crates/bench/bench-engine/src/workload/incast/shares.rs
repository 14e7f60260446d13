//! The shares of flows that send all the time: the bytes of each, interval by interval.

use std::time::{Duration, Instant};

use bench_record::Shares as Summary;
use report::jain;

/// The bytes of each flow in each interval of the window.
pub(super) struct Meter {
    interval: Duration,
    /// The time at which the interval began; `None`: the window is not open yet.
    since: Option<Instant>,
    /// The bytes of each flow in the present interval.
    bytes: Vec<u64>,
    /// The bytes of each flow in whole intervals, interval by interval.
    rows: Vec<u64>,
    /// The length of each whole interval in s.
    seconds: Vec<f64>,
}

impl Meter {
    /// Makes a meter with room for all intervals of a window.
    pub(super) fn new(flows: usize, interval: Duration, window: Duration) -> Self {
        let interval = interval.min(window);
        let intervals = (window.as_nanos() / interval.as_nanos().max(1)) as usize + 1;
        Self {
            interval,
            since: None,
            bytes: vec![0; flows],
            rows: Vec::with_capacity(flows * intervals),
            seconds: Vec::with_capacity(intervals),
        }
    }

    /// Notes that bytes of a flow have come.
    #[inline]
    pub(super) fn note(&mut self, flow: usize, bytes: u64) {
        self.bytes[flow] += bytes;
    }

    /// Ends an interval if it is time; the window must be open.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) {
        let Some(since) = self.since else {
            self.since = Some(now);
            self.bytes.fill(0);
            return;
        };
        let took = now - since;
        if took >= self.interval && self.seconds.len() < self.seconds.capacity() {
            self.rows.extend_from_slice(&self.bytes);
            self.seconds.push(took.as_secs_f64());
            self.bytes.fill(0);
            self.since = Some(now);
        }
    }

    /// Returns the number of whole intervals.
    pub(super) fn intervals(&self) -> usize {
        self.seconds.len()
    }

    /// Returns the figures; `None` if no interval has ended, or nothing has come.
    pub(super) fn summary(&self) -> Option<Summary> {
        let flows = self.bytes.len();
        let gbps = |flow: usize| -> Vec<f64> {
            let bytes = self.rows.iter().skip(flow).step_by(flows);
            bytes.zip(&self.seconds).map(|(bytes, s)| *bytes as f64 * 8.0 / 1e9 / s).collect()
        };
        let flows_gbps: Vec<Vec<f64>> = (0..flows).map(gbps).collect();
        let intervals = self.intervals();
        let mean = |rates: &Vec<f64>| rates.iter().sum::<f64>() / intervals as f64;
        let fair_gbps = flows_gbps.iter().map(mean).sum::<f64>() / flows as f64;
        if intervals == 0 || fair_gbps <= 0.0 {
            return None;
        }
        let at = |interval: usize| flows_gbps.iter().map(move |rates| rates[interval]);
        let all = || flows_gbps.iter().flatten().copied();
        let least = |rates: &mut dyn Iterator<Item = f64>| rates.fold(f64::INFINITY, f64::min);
        Some(Summary {
            interval_ms: self.seconds.iter().sum::<f64>() * 1e3 / intervals as f64,
            fair_gbps,
            jain: jain(flows_gbps.iter().map(mean)),
            jain_worst: least(&mut (0..intervals).map(|interval| jain(at(interval)))),
            flow_min_to_fair: least(&mut flows_gbps.iter().map(mean)) / fair_gbps,
            min_to_fair: least(&mut all()) / fair_gbps,
            max_to_fair: all().fold(0.0, f64::max) / fair_gbps,
            flows_gbps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_whole_intervals() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut meter = Meter::new(2, ms(10), ms(25));
        // Bytes before the window do not count.
        meter.note(0, 999);
        meter.advance(start);
        for (at_ms, bytes) in [(10, [12_500, 12_500]), (20, [25_000, 0]), (25, [7, 7])] {
            (0..2).for_each(|flow| meter.note(flow, bytes[flow]));
            meter.advance(start + ms(at_ms));
        }
        assert_eq!(meter.intervals(), 2);
        let found = meter.summary().expect("two intervals");
        // 12.5 kB in 10 ms are 10 Mbit/s.
        assert!((found.fair_gbps - 0.01).abs() < 1e-12 && (found.interval_ms - 10.0).abs() < 1e-9);
        // The rates are 15 and 5: 400 / (2 x 250); in the second interval one flow has all.
        assert!((found.jain - 0.8).abs() < 1e-9 && (found.jain_worst - 0.5).abs() < 1e-9);
        assert!((found.flow_min_to_fair - 0.5).abs() < 1e-9);
        assert!(found.min_to_fair.abs() < 1e-12 && (found.max_to_fair - 2.0).abs() < 1e-9);
        assert_eq!(found.flows_gbps.len(), 2);
    }

    #[test]
    fn nothing_is_no_share() {
        let ms = Duration::from_millis;
        let mut meter = Meter::new(1, ms(10), ms(5));
        assert!(meter.summary().is_none());
        let start = Instant::now();
        meter.advance(start);
        meter.advance(start + ms(5));
        assert_eq!((meter.intervals(), meter.summary()), (1, None));
    }
}
