//! Queue pairs: their traffic and the paths that it takes.

use std::time::Duration;

use serde_json::{Value, json};
use softefa::counters::{PathGauge, QueuePairGauge};

use super::history::{Activity, History};
use super::table::{columns, figure};

/// The width of a picture of the last minute in characters.
const PICTURE: usize = 20;
const GIGABIT_PER_BYTE: f64 = 8e-9;

/// The activity of a queue pair between two samples.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueuePair {
    pub(super) pid: u32,
    /// The device and the number.
    pub(super) name: String,
    kind: &'static str,
    peers: u64,
    sent_bytes_per_s: f64,
    received_bytes_per_s: f64,
    repeated_per_s: f64,
    paths: Vec<Path>,
}

#[derive(Debug, Clone, PartialEq)]
struct Path {
    /// The share of the packets sent between two samples.
    share: f64,
    rtt_ns: u64,
    is_avoided: bool,
}

impl QueuePair {
    /// Returns the activity of the queue pair since the sample `before`, if it existed then.
    pub(super) fn between(
        pid: u32,
        device: &str,
        before: Option<&QueuePairGauge>,
        now: &QueuePairGauge,
        interval: Duration,
    ) -> Self {
        let seconds = interval.as_secs_f64().max(1e-9);
        let old = before.map(|before| before.gauge.clone()).unwrap_or_default();
        let rate = |now: u64, old: u64| now.saturating_sub(old) as f64 / seconds;
        let grown = |(at, path): (usize, &PathGauge)| {
            let old = old.paths.get(at).map_or(0, |old| old.sent_pkts);
            path.sent_pkts.saturating_sub(old) as f64
        };
        let gauge = &now.gauge;
        let sent: Vec<f64> = gauge.paths.iter().enumerate().map(grown).collect();
        let all = sent.iter().sum::<f64>().max(1.0);
        let path = |(path, sent): (&PathGauge, &f64)| Path {
            share: sent / all,
            rtt_ns: path.rtt_ns,
            is_avoided: path.is_avoided,
        };
        Self {
            pid,
            name: format!("{device}:{}", now.qpn),
            kind: now.kind,
            peers: gauge.peers,
            sent_bytes_per_s: rate(gauge.sent_bytes, old.sent_bytes),
            received_bytes_per_s: rate(gauge.received_bytes, old.received_bytes),
            repeated_per_s: rate(gauge.repeated_pkts, old.repeated_pkts),
            paths: gauge.paths.iter().zip(&sent).map(path).collect(),
        }
    }

    /// Returns the activity for the history.
    pub(super) fn activity(&self) -> Activity {
        Activity { carried: self.traffic(), repeated: self.repeated_per_s }
    }

    /// Returns the payload of both directions in bytes per second.
    pub(super) fn traffic(&self) -> f64 {
        self.sent_bytes_per_s + self.received_bytes_per_s
    }

    /// Returns the queue pair in the form of `softefa top --json`.
    pub(super) fn to_json(&self) -> Value {
        let path = |(at, path): (usize, &Path)| {
            let Path { share, rtt_ns, is_avoided } = path;
            json!({ "path": at, "share": share, "rtt_ns": rtt_ns, "is_avoided": is_avoided })
        };
        json!({
            "queue_pair": self.name,
            "kind": self.kind,
            "pid": self.pid,
            "peers": self.peers,
            "sent_gbit_per_s": self.sent_bytes_per_s * GIGABIT_PER_BYTE,
            "received_gbit_per_s": self.received_bytes_per_s * GIGABIT_PER_BYTE,
            "retransmits_per_s": self.repeated_per_s,
            "paths": self.paths.iter().enumerate().map(path).collect::<Vec<Value>>(),
        })
    }

    fn cells(&self, history: &History) -> Vec<String> {
        let key = (self.pid, self.name.as_str());
        let picture = |of| history.picture(key, PICTURE, of);
        let gigabits = |bytes: f64| figure(bytes * GIGABIT_PER_BYTE);
        vec![
            self.name.clone(),
            self.kind.to_owned(),
            self.pid.to_string(),
            self.peers.to_string(),
            gigabits(self.sent_bytes_per_s),
            gigabits(self.received_bytes_per_s),
            figure(self.repeated_per_s),
            picture(|activity| activity.carried),
            picture(|activity| activity.repeated),
        ]
    }

    /// Returns the paths in as many lines of `width` as they need. A queue pair that sends nothing
    /// has none to show.
    fn path_lines(&self, width: usize) -> Vec<String> {
        if self.paths.iter().all(|path| path.rtt_ns == 0 && path.share == 0.0) {
            return Vec::new();
        }
        let cells = self.paths.iter().enumerate().map(|(at, path)| path.cell(at));
        let mut lines: Vec<String> = Vec::new();
        for cell in cells {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 2 + cell.chars().count() <= width => {
                    *line += "  ";
                    *line += &cell;
                }
                _ => lines.push(format!("  {cell}")),
            }
        }
        lines
    }
}

impl Path {
    /// Returns a cell of fixed width: number, share, round-trip time; `!` when the path is avoided.
    fn cell(&self, at: usize) -> String {
        let rtt = if self.rtt_ns == 0 { "-".to_owned() } else { micros(self.rtt_ns) };
        let avoided = if self.is_avoided { '!' } else { ' ' };
        format!("{avoided}path {at:<2} {:>3.0} % {rtt:>7}", 100.0 * self.share)
    }
}

/// Formats a time with its unit, in at most seven characters.
fn micros(ns: u64) -> String {
    match ns {
        0..100_000 => format!("{:.1} µs", ns as f64 / 1e3),
        100_000..1_000_000 => format!("{:.0} µs", ns as f64 / 1e3),
        1_000_000..100_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

const TITLES: [&str; 9] = [
    "QUEUE PAIR",
    "KIND",
    "PID",
    "PEERS",
    "TX Gb/s",
    "RX Gb/s",
    "RETX/s",
    "GOODPUT, 60 s",
    "RETX, 60 s",
];
/// The columns that are aligned to the left, which are those with text.
const LEFT: [usize; 4] = [0, 1, 7, 8];
/// The columns that are left out first if there is not enough room.
const DISPENSABLE: [usize; 4] = [2, 3, 1, 8];

/// Returns a heading and, for each queue pair, its line and those of its paths.
pub(super) fn lines(all: &[QueuePair], history: &History, width: usize) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let heading = TITLES.map(str::to_owned).to_vec();
    let rows = all.iter().map(|queue_pair| queue_pair.cells(history));
    let table: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
    let mut shown = columns(&table, &LEFT, &DISPENSABLE, width).into_iter();
    let mut lines: Vec<String> = shown.next().into_iter().collect();
    for (queue_pair, line) in all.iter().zip(shown) {
        lines.push(line);
        lines.extend(queue_pair.path_lines(width));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use softefa::counters::Gauge;

    use super::*;

    fn gauge(qpn: u32, sent_bytes: u64, sent_pkts: &[u64]) -> QueuePairGauge {
        let path = |sent_pkts: &u64| PathGauge {
            sent_pkts: *sent_pkts,
            rtt_ns: 31_250,
            is_avoided: *sent_pkts == 0,
        };
        let paths = sent_pkts.iter().map(path).collect();
        let gauge = Gauge { peers: 1, sent_bytes, received_bytes: 0, repeated_pkts: 4, paths };
        QueuePairGauge { qpn, kind: "SRD", gauge }
    }

    #[test]
    fn shares_and_rates_are_of_the_time_between() {
        let (before, now) =
            (gauge(7, 1_000, &[100, 100, 0]), gauge(7, 251_001_000, &[400, 200, 0]));
        let interval = Duration::from_secs(2);
        let seen = QueuePair::between(1, "rdmap0s6", Some(&before), &now, interval);
        let json = seen.to_json();
        assert_eq!(json["queue_pair"], "rdmap0s6:7");
        assert!((json["sent_gbit_per_s"].as_f64().unwrap() - 1.004).abs() < 1e-9, "{json}");
        assert_eq!(
            (&json["retransmits_per_s"], &json["paths"][0]["share"]),
            (&0.0.into(), &0.75.into())
        );
        assert_eq!(json["paths"][2]["is_avoided"], true);
        assert_eq!(
            seen.path_lines(80)[0],
            "   path 0   75 % 31.2 µs   path 1   25 % 31.2 µs  !path 2    0 % 31.2 µs"
        );
    }

    /// No line is wider than the terminal, down to the narrowest usual width.
    #[test]
    fn what_has_no_room_is_left_out_and_paths_take_more_lines() {
        let now = gauge(16_777_215, u64::MAX, &[u64::from(u32::MAX); 16]);
        let interval = Duration::from_secs(1);
        let all: Vec<QueuePair> = (0..3)
            .map(|pid| QueuePair::between(pid + 4_000_000, "rdmap0s6", None, &now, interval))
            .collect();
        let mut history = History::default();
        let activities: Vec<_> = all
            .iter()
            .map(|queue_pair| ((queue_pair.pid, queue_pair.name.as_str()), queue_pair.activity()))
            .collect();
        history.add(Instant::now(), &activities);
        for (width, lines_each) in [(80, 7), (100, 5), (132, 5), (400, 2)] {
            let lines = lines(&all, &history, width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:#?}");
            assert_eq!(lines.len(), 1 + 3 * lines_each, "{width}: {lines:#?}");
            assert!(lines[0].contains("GOODPUT"), "{width}: {}", lines[0]);
        }
        assert!(lines(&all, &history, 132)[0].contains("PEERS"));
        assert!(!lines(&all, &history, 80)[0].contains("PID"));
    }
}
