//! Collects the records of devices and sorts them by time.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use softefa::capture::{Attachment, Qpns, Record};
use softefa::counters::{self, ProcessCounters};

/// The interval at which new devices are looked for, and known ones are asked to continue.
const SCAN_INTERVAL: Duration = Duration::from_millis(50);
/// A record may appear this long after its time, because it is stamped before the system call that
/// sends it.
const LATENESS: Duration = Duration::from_millis(5);

/// The packets to collect.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    /// The names of devices; empty for all.
    pub(crate) devices: Vec<String>,
    /// The queue pairs, as sender or receiver; empty for all.
    pub(crate) qpns: Vec<u32>,
    /// The number of bytes of each datagram.
    pub(crate) snap_bytes: u32,
}

impl Filter {
    fn takes(&self, record: &Record) -> bool {
        let wanted = |qpn| self.qpns.contains(&qpn);
        // A packet without that information does not match.
        let is_wanted = |qpns: Qpns| qpns.src.is_some_and(wanted) || wanted(qpns.dst);
        self.qpns.is_empty() || record.qpns().is_some_and(is_wanted)
    }
}

/// A device that is or was recorded.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) device: ProcessCounters,
    /// `None` when its process has ended and everything is read.
    attachment: Option<Attachment>,
    lost: u64,
}

impl Source {
    /// Returns the number of records that were overwritten before they were read.
    pub(super) fn lost(&self) -> u64 {
        self.attachment.as_ref().map_or(self.lost, Attachment::lost)
    }

    /// Releases a device whose process has ended, when everything that it recorded has been read.
    fn let_go(&mut self) {
        self.lost = self.lost();
        self.attachment = None;
    }
}

/// The runs in scope.
#[derive(Debug)]
pub(super) enum Scope {
    /// The devices of one run, which record from their start.
    Run(PathBuf),
    /// All devices of this user.
    All,
}

impl Scope {
    fn run_dirs(&self) -> Vec<PathBuf> {
        match self {
            Self::Run(dir) => vec![dir.clone()],
            Self::All => crate::run_dir::live_runs().into_iter().map(|run| run.path).collect(),
        }
    }

    fn attach(&self, dir: &Path, device: &ProcessCounters, snap: u32) -> io::Result<Attachment> {
        match self {
            Self::Run(_) => Attachment::from_start(dir, device, snap),
            Self::All => Attachment::new(dir, device, snap),
        }
    }
}

/// Reads all devices of a scope.
#[derive(Debug)]
pub(super) struct Collector {
    scope: Scope,
    filter: Filter,
    sources: Vec<Source>,
    /// Records that wait, with the indices of their sources.
    waiting: Vec<(usize, Record)>,
    next_scan: Instant,
}

impl Collector {
    pub(super) fn new(scope: Scope, filter: Filter) -> Self {
        let (sources, waiting) = (Vec::new(), Vec::new());
        Self { scope, filter, sources, waiting, next_scan: Instant::now() }
    }

    /// Returns all devices seen so far.
    pub(super) fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Reads what is available and returns, in the order of time, the records that no earlier one
    /// can follow; with `all`, everything.
    ///
    /// # Errors
    /// A device's records exist but cannot be read.
    pub(super) fn collect(&mut self, all: bool) -> io::Result<Vec<(usize, Record)>> {
        let now = Instant::now();
        // Ended processes are found before their devices are read, so that what a process recorded
        // until its end is read below.
        let ended = if all || now >= self.next_scan {
            self.next_scan = now + SCAN_INTERVAL;
            self.scan()
        } else {
            Vec::new()
        };
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settled_ns = began.saturating_sub(LATENESS).as_nanos();
        for (place, source) in self.sources.iter_mut().enumerate() {
            let Some(attachment) = &mut source.attachment else { continue };
            while let Some(record) = attachment.read()? {
                // Bounded, because a device may record faster than this loop reads.
                let is_later = u128::from(record.time_ns) > began.as_nanos();
                if self.filter.takes(&record) {
                    self.waiting.push((place, record));
                }
                if is_later {
                    break;
                }
            }
        }
        for place in ended {
            self.sources[place].let_go();
        }
        self.waiting.sort_by_key(|(_, record)| record.time_ns);
        let is_settled = |(_, record): &(usize, Record)| u128::from(record.time_ns) <= settled_ns;
        let count = if all { self.waiting.len() } else { self.waiting.partition_point(is_settled) };
        Ok(self.waiting.drain(..count).collect())
    }

    /// Finds new devices and keeps the known ones recording; returns the indices of those whose
    /// process has ended, but none in the scope of one run.
    fn scan(&mut self) -> Vec<usize> {
        for dir in self.scope.run_dirs() {
            // A run may end and remove its directory meanwhile.
            for device in counters::read_dir(&dir).unwrap_or_default() {
                self.find(&dir, device);
            }
        }
        let mut ended = Vec::new();
        for (place, source) in self.sources.iter().enumerate() {
            let Some(attachment) = &source.attachment else { continue };
            if source.device.is_running() {
                attachment.renew();
            } else if !matches!(self.scope, Scope::Run(_)) {
                ended.push(place);
            }
        }
        ended
    }

    fn find(&mut self, dir: &Path, device: ProcessCounters) {
        let is_wanted =
            self.filter.devices.is_empty() || self.filter.devices.contains(&device.device);
        let is_known = self.sources.iter().any(|source| {
            let known = &source.device;
            (&known.device, known.pid, known.start_ticks)
                == (&device.device, device.pid, device.start_ticks)
        });
        if !is_wanted || is_known {
            return;
        }
        // A device whose process ended just now has nothing to read.
        if let Ok(attachment) = self.scope.attach(dir, &device, self.filter.snap_bytes) {
            self.sources.push(Source { device, attachment: Some(attachment), lost: 0 });
        }
    }
}
