//! Counters of a run: summed over its processes, written as JSON, printed as a table.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use report::Destination;
use serde_json::{Map, Value, json};
use softefa::counters::{Counter, ProcessCounters};

use crate::failure::Failure;

/// A file for the counters, opened before the program starts so that a mistake in its name does not
/// cost the results of a long run.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    file: File,
    /// Renamed to `path` when complete; `None` for devices and pipes, which are written directly.
    partial: Option<PathBuf>,
}

impl Output {
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        Self::try_open(path).map_err(|error| failure(path, &error))
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        let path = match Destination::of(path) {
            Destination::Stream => {
                let file = report::open_stream(path)?;
                return Ok(Self { path: path.to_path_buf(), file, partial: None });
            }
            Destination::File(path) => path,
        };
        let name = path.file_name().ok_or_else(|| io::Error::other("not a file name"))?;
        let partial = format!(".{}.{}", name.to_string_lossy(), std::process::id());
        let partial = path.with_file_name(partial);
        let file = report::create_new(&partial)?;
        Ok(Self { path, file, partial: Some(partial) })
    }

    /// Writes the document; the file appears complete or not at all.
    ///
    /// # Errors
    /// The file cannot be written, for example because the disk is full.
    pub(crate) fn write(mut self, document: &Value) -> Result<(), Failure> {
        self.try_write(document).map_err(|error| failure(&self.path, &error))
    }

    fn try_write(&mut self, document: &Value) -> io::Result<()> {
        self.file.write_all(format!("{document:#}\n").as_bytes())?;
        if let Some(partial) = &self.partial {
            self.file.sync_all()?;
            fs::rename(partial, &self.path)?;
            self.partial = None;
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // Nothing can be done about a partial file that cannot be removed.
            let _ = fs::remove_file(partial);
        }
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!(
        "counters cannot be written to {}: {error}; use --counters with another file",
        path.display()
    ))
}

/// Returns the sums over all processes and devices, in the order of
/// [`softefa::counters::Counter::ALL`].
pub(crate) fn sum(processes: &[ProcessCounters]) -> Vec<(&'static str, u64)> {
    let mut sums: Vec<(&'static str, u64)> = Vec::new();
    for &(name, value) in processes.iter().flat_map(|process| &process.values) {
        let counter = Counter::ALL.iter().find(|counter| counter.name() == name);
        match (sums.iter_mut().find(|(known, _)| *known == name), counter) {
            (Some((_, sum)), Some(counter)) => *sum = counter.combine(*sum, value),
            (Some((_, sum)), None) => *sum = sum.wrapping_add(value),
            (None, _) => sums.push((name, value)),
        }
    }
    sums
}

/// `{"counters": {NAME: SUM..}, "processes": [{"device", "pid", "through_memory", "counters"}..]}`.
pub(crate) fn to_json(processes: &[ProcessCounters]) -> Value {
    let each: Vec<Value> = processes
        .iter()
        .map(|process| {
            json!({
                "device": process.device,
                "pid": process.pid,
                "through_memory": links(process),
                "counters": object(&process.values),
            })
        })
        .collect();
    let mut sums = object(&sum(processes));
    // Readers find every counter even when no process opened a device.
    for counter in Counter::ALL {
        sums.entry(counter.name()).or_insert_with(|| json!(0));
    }
    json!({ "counters": sums, "processes": each })
}

/// `{NAME: VALUE..}`.
pub(crate) fn object(values: &[(&'static str, u64)]) -> Map<String, Value> {
    values.iter().map(|&(name, value)| (name.to_owned(), json!(value))).collect()
}

/// `[{"qpn", "to"}..]`: what is sent from one queue pair to another through memory; the rest is
/// UDP.
pub(crate) fn links(process: &ProcessCounters) -> Value {
    process.links.iter().map(|link| json!({ "qpn": link.qpn, "to": link.to.to_string() })).collect()
}

/// Returns which wire a process uses to which peers.
fn wires(process: &ProcessCounters) -> String {
    let to: Vec<_> =
        process.links.iter().map(|link| format!("{} to {}", link.qpn, link.to)).collect();
    if to.is_empty() {
        return "UDP to all".to_owned();
    }
    format!("memory from {}; UDP to all others", to.join(", "))
}

/// Returns a line per running process and device that says which wire it uses to which peers.
pub(crate) fn to_wire_lines(processes: &[ProcessCounters]) -> Vec<String> {
    let running = processes.iter().filter(|process| process.is_running());
    running
        .map(|process| format!("{} pid {}: wire {}", process.device, process.pid, wires(process)))
        .collect()
}

/// Returns one line per process and device with its counters; zeros are left out.
pub(crate) fn to_lines(processes: &[ProcessCounters]) -> Vec<String> {
    processes
        .iter()
        .map(|process| {
            let values: Vec<String> = process
                .values
                .iter()
                .filter(|(_, value)| *value > 0)
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            let values = if values.is_empty() { "idle".into() } else { values.join(", ") };
            format!("{} pid {}: {values}", process.device, process.pid)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, tx_pkts: u64) -> ProcessCounters {
        let values = vec![("tx_pkts", tx_pkts), ("rx_pkts", 0)];
        let addr = std::net::Ipv4Addr::LOCALHOST.into();
        ProcessCounters {
            device: "rdmap0s6".into(),
            addr,
            pid,
            start_ticks: 0,
            faults: softefa::counters::FaultStatus::default(),
            links: vec![],
            queue_pairs: vec![],
            values,
        }
    }

    #[test]
    fn processes_are_summed() {
        let document = to_json(&[process(7, 3), process(8, 4)]);
        assert_eq!(document["counters"]["tx_pkts"], 7);
        assert_eq!(document["processes"][1]["pid"], 8);
        assert_eq!(to_json(&[])["counters"]["rx_pkts"], 0);
    }

    #[test]
    fn of_maxima_the_largest_counts() {
        let name = Counter::OutOfSequenceMax.name();
        let processes = [7, 3]
            .map(|most| ProcessCounters { values: vec![(name, most)], ..process(most as u32, 0) });
        assert_eq!(sum(&processes), [(name, 7)]);
    }

    #[test]
    fn file_appears_complete_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("counters.json");
        drop(Output::open(&path).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        Output::open(&path).unwrap().write(&to_json(&[process(7, 3)])).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(serde_json::from_str::<Value>(&text).is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn full_disk_is_one_clear_line() {
        let output = Output::open(Path::new("/dev/full")).unwrap();
        let text = output.write(&json!({})).unwrap_err().to_string();
        assert!(text.contains("/dev/full") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn lines_leave_zeros_out() {
        assert_eq!(to_lines(&[process(7, 3)]), ["rdmap0s6 pid 7: tx_pkts 3"]);
        assert_eq!(to_lines(&[process(7, 0)]), ["rdmap0s6 pid 7: idle"]);
    }
}
