//! The record of cases shown with each consumer: one line of JSON per case, appended to the file
//! that `SOFTEFA_RECORD` names. `cargo xtask consumers` makes `docs/CONSUMERS.md` of them.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use super::{Launcher, Outcome, wire};

/// The mix of faults that no consumer of a reliable queue pair may notice.
pub(crate) const FAULTS: &str = "loss=1%,reorder=20%,dup=1%,seed=1";

/// The faults that a reliable connection must hide, each by itself.
pub(crate) const EACH_FAULT: [&str; 3] =
    ["loss=1%,seed=1", "loss=10%,seed=1", "reorder=20%,dup=1%,seed=1"];

/// The faults of these mixes, and the counters that show that they were dealt.
const PROVOKED: [(&str, &str); 3] =
    [("loss=", "fault_lost"), ("reorder=", "fault_reordered"), ("dup=", "fault_duplicated")];

/// An unmodified program or library that uses the device.
#[derive(Debug, Clone)]
pub(crate) struct Consumer {
    name: String,
    version: String,
    origin: String,
}

impl Consumer {
    /// Makes the consumer of a package of the distribution, in its installed version.
    pub(crate) fn debian(package: &str) -> Self {
        let query = ["-W", "-f", "${Version}", package];
        let found = Command::new("dpkg-query").args(query).output().ok();
        let found = found.filter(|output| output.status.success());
        let version = found.map_or_else(
            || "unknown".to_owned(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        );
        Self::new(package, &version, "Debian")
    }

    /// Makes a consumer of any other origin.
    pub(crate) fn new(name: &str, version: &str, origin: &str) -> Self {
        let [name, version, origin] = [name, version, origin].map(str::to_owned);
        Self { name, version, origin }
    }

    /// Records a case that cannot be shown, and the reason.
    pub(crate) fn not_run(&self, what: &str, why: &str) {
        let mut case = Case::new(self, what, "");
        case.note = why.to_owned();
        case.end("not run");
    }
}

/// One activity of a consumer on the device. A case that is dropped without [`Case::pass`] has
/// failed.
#[must_use]
pub(crate) struct Case {
    consumer: Consumer,
    what: String,
    faults: String,
    note: String,
    started: Instant,
    counters: BTreeMap<String, u64>,
    is_open: bool,
}

impl Case {
    /// Makes a case. `faults` is in the form of `--fault`; empty for none. The same `what` with and
    /// without faults becomes one row, and each of [`EACH_FAULT`] one more.
    pub(crate) fn new(consumer: &Consumer, what: &str, faults: &str) -> Self {
        let is_row = EACH_FAULT.contains(&faults);
        Self {
            consumer: consumer.clone(),
            what: if is_row { format!("{what}, {faults}") } else { what.to_owned() },
            faults: faults.to_owned(),
            note: String::new(),
            started: Instant::now(),
            counters: BTreeMap::new(),
            is_open: true,
        }
    }

    /// Makes a launcher with the faults of this case and `options` of `softefa run`.
    pub(crate) fn launcher(&self, options: &str) -> Launcher {
        if self.faults.is_empty() {
            return Launcher::new(options);
        }
        Launcher::new(&format!("{options} --fault {}", self.faults))
    }

    /// Adds the counters of a run.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        let counters = outcome.counters["counters"].as_object().into_iter().flatten();
        for (name, value) in counters.filter_map(|(name, value)| Some((name, value.as_u64()?))) {
            *self.counters.entry(name.clone()).or_default() += value;
        }
    }

    /// Returns the sum of a counter over the runs added so far.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }

    /// Adds a note on the result, which the document shows beside it.
    pub(crate) fn note(&mut self, note: &str) {
        note.clone_into(&mut self.note);
    }

    /// Records that the case has succeeded.
    ///
    /// # Panics
    /// The device did not move a packet, or moved one through memory though the wire is UDP, or
    /// [`FAULTS`] or [`EACH_FAULT`] provoked nothing.
    #[track_caller]
    pub(crate) fn pass(mut self) {
        assert!(self.counter("tx_pkts") > 0, "{}: the device sent nothing", self.what);
        if wire() == "udp" {
            assert_eq!(self.counter("tx_memory_pkts"), 0, "{}: not over UDP", self.what);
        }
        if self.faults == FAULTS || EACH_FAULT.contains(&self.faults.as_str()) {
            for (_, name) in PROVOKED.iter().filter(|(key, _)| self.faults.contains(key)) {
                assert!(self.counter(name) > 0, "{}: {name} stayed 0 under faults", self.what);
            }
        }
        self.end("passed");
    }

    /// Records that a case in which nothing is sent has succeeded.
    ///
    /// # Panics
    /// No process used the device.
    #[track_caller]
    pub(crate) fn pass_without_traffic(mut self) {
        assert!(self.counter("submitted_cmds") > 0, "{}: the device was not used", self.what);
        self.end("passed");
    }

    fn end(&mut self, result: &str) {
        self.is_open = false;
        let Some(path) = std::env::var_os("SOFTEFA_RECORD").filter(|path| !path.is_empty()) else {
            return;
        };
        let moved = self.counters.iter().filter(|(_, value)| **value > 0);
        let line = json!({
            "consumer": self.consumer.name,
            "version": self.consumer.version,
            "origin": self.consumer.origin,
            "what": self.what,
            "faults": self.faults,
            "wire": wire(),
            "result": result,
            "note": self.note,
            "seconds": self.started.elapsed().as_secs_f64(),
            "counters": moved.collect::<BTreeMap<_, _>>(),
        });
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            eprintln!("SOFTEFA_RECORD={}: {error}", Path::new(&path).display());
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if self.is_open {
            self.end("failed");
        }
    }
}
