//! Samples of the counters, and the differences between them.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use softefa::Adapter;
use softefa::counters::{self, Counter, ProcessCounters, QueuePairGauge};

use super::history::{Activity, Key};
use super::queue_pairs::QueuePair;
use crate::fault;
use crate::process::name;
use crate::run_dir;

/// The counters of all devices at one time.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    processes: Vec<Seen>,
}

/// The counters of a device in a process.
#[derive(Debug)]
struct Seen {
    adapter: Adapter,
    counters: ProcessCounters,
    /// The faults in force; empty when there are none.
    fault: String,
}

impl Seen {
    fn is_same(&self, other: &Self) -> bool {
        let key = |seen: &Self| (seen.counters.pid, seen.counters.start_ticks);
        key(self) == key(other) && self.counters.device == other.counters.device
    }

    /// Returns the activity of the device's queue pairs since `before`.
    fn queue_pairs(&self, before: &Sample, interval: Duration) -> Vec<QueuePair> {
        let old = before.processes.iter().find(|old| old.is_same(self));
        let process = &self.counters;
        let of = |now: &QueuePairGauge| {
            let old = old.into_iter().flat_map(|old| &old.counters.queue_pairs);
            let old = { old }.find(|old| (old.qpn, old.kind) == (now.qpn, now.kind));
            QueuePair::between(process.pid, &process.device, old, now, interval)
        };
        process.queue_pairs.iter().map(of).collect()
    }
}

impl Sample {
    /// Takes a sample of every device whose process is alive.
    pub(super) fn take() -> Self {
        let at = Instant::now();
        let mut processes = Vec::new();
        for run in run_dir::live_runs() {
            // A run may end and remove its directory meanwhile.
            let all = counters::read_dir(&run.path).unwrap_or_default();
            let running = all.into_iter().filter(ProcessCounters::is_running);
            processes.extend(running.map(|counters| Seen {
                adapter: run_dir::adapter_of(&run.path, &counters.device),
                fault: fault::in_force_text(&run, &counters.device),
                counters,
            }));
        }
        Self { at, processes }
    }
}

/// The activity of one device in one process.
#[derive(Debug, Clone)]
pub(super) struct DeviceRates {
    pub(super) device: String,
    pub(super) adapter: Adapter,
    pub(super) addr: IpAddr,
    pub(super) pid: u32,
    pub(super) program: String,
    /// The fault in force; empty when nothing is.
    pub(super) fault: String,
    /// The values at the end.
    pub(super) totals: Vec<(&'static str, u64)>,
    /// The growth per second, in the order of [`Counter::ALL`].
    per_second: Vec<f64>,
}

impl DeviceRates {
    fn new(seen: &Seen, before: Option<&Seen>, interval: Duration) -> Self {
        let process = &seen.counters;
        let seconds = interval.as_secs_f64().max(1e-9);
        let growth = |counter: &Counter| {
            let old = before.map_or(0, |before| before.counters.get(*counter));
            process.get(*counter).saturating_sub(old) as f64 / seconds
        };
        Self {
            device: process.device.clone(),
            adapter: seen.adapter,
            addr: process.addr,
            pid: process.pid,
            program: name(process.pid),
            fault: seen.fault.clone(),
            totals: process.values.clone(),
            per_second: Counter::ALL.iter().map(growth).collect(),
        }
    }

    /// Returns the growth of a counter per second.
    pub(super) fn rate(&self, counter: Counter) -> f64 {
        self.per_second.get(counter as usize).copied().unwrap_or_default()
    }

    /// Returns the value of a counter at the end.
    pub(super) fn total(&self, counter: Counter) -> u64 {
        self.totals.get(counter as usize).map_or(0, |(_, value)| *value)
    }

    /// Returns the key of the device's history.
    pub(super) fn key(&self) -> Key<'_> {
        (self.pid, &self.device)
    }

    fn traffic(&self) -> f64 {
        self.rate(Counter::TxBytes) + self.rate(Counter::RxBytes)
    }
}

/// The activity between two samples, the busiest device first.
#[derive(Debug, Default)]
pub(super) struct Rates {
    pub(super) interval: Duration,
    pub(super) rows: Vec<DeviceRates>,
    /// The queue pairs of all devices, the busiest first.
    pub(super) queue_pairs: Vec<QueuePair>,
}

impl Rates {
    /// Returns the activity between two samples. A device that did not exist before counts from
    /// zero.
    pub(super) fn between(before: &Sample, now: &Sample) -> Self {
        let interval = now.at - before.at;
        let row = |seen: &Seen| {
            let old = before.processes.iter().find(|old| old.is_same(seen));
            DeviceRates::new(seen, old, interval)
        };
        let mut rows: Vec<DeviceRates> = now.processes.iter().map(row).collect();
        rows.sort_by(|a, b| {
            let by_traffic = b.traffic().total_cmp(&a.traffic());
            by_traffic.then_with(|| (&a.device, a.pid).cmp(&(&b.device, b.pid)))
        });
        let mut queue_pairs: Vec<QueuePair> =
            now.processes.iter().flat_map(|seen| seen.queue_pairs(before, interval)).collect();
        queue_pairs.sort_by(|a, b| {
            let by_traffic = b.traffic().total_cmp(&a.traffic());
            by_traffic.then_with(|| (&a.name, a.pid).cmp(&(&b.name, b.pid)))
        });
        Self { interval, rows, queue_pairs }
    }

    /// Returns the activities for the history.
    pub(super) fn activities(&self) -> Vec<(Key<'_>, Activity)> {
        let of_device = |row: &DeviceRates| Activity {
            carried: row.traffic(),
            repeated: row.rate(Counter::RetransPkts),
        };
        let devices = self.rows.iter().map(|row| (row.key(), of_device(row)));
        let queue_pairs = self.queue_pairs.iter();
        let queue_pairs = queue_pairs.map(|qp| ((qp.pid, qp.name.as_str()), qp.activity()));
        devices.chain(queue_pairs).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn process(pid: u32, tx_bytes: u64) -> Seen {
        let value = |counter: &Counter| match counter {
            Counter::TxBytes => tx_bytes,
            _ => 0,
        };
        let counters = ProcessCounters {
            device: "rdmap0s6".into(),
            addr: IpAddr::V4(Ipv4Addr::LOCALHOST),
            pid,
            start_ticks: 1,
            links: vec![],
            queue_pairs: vec![],
            faults: counters::FaultStatus::default(),
            values: Counter::ALL.iter().map(|c| (c.name(), value(c))).collect(),
        };
        Seen { adapter: Adapter::Efa, counters, fault: String::new() }
    }

    #[test]
    fn rates_are_growth_per_second_and_the_busiest_is_first() {
        let at = Instant::now();
        let before = Sample { at, processes: vec![process(1, 100), process(2, 100)] };
        let now = Sample {
            at: at + Duration::from_secs(2),
            processes: vec![process(1, 200), process(2, 700), process(3, 60)],
        };
        let rates = Rates::between(&before, &now);
        let seen: Vec<_> = rates.rows.iter().map(|r| (r.pid, r.rate(Counter::TxBytes))).collect();
        assert_eq!(seen, [(2, 300.0), (1, 50.0), (3, 30.0)]);
    }
}
