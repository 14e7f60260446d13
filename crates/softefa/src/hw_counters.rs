//! Counters as files in the sysfs tree, where monitoring programs and libfabric's tests look for
//! those of the kernel driver: `hw_counters/` and `ports/1/hw_counters/` below the device.
//!
//! Hardware counts for all processes, so these files hold sums over the processes of a run. They
//! are written by somebody who has time (`softefa run`), never by a program that sends: it only
//! counts in memory that is shared anyway ([`crate::counters`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::DeviceSpec;
use crate::counters::{Counter, ProcessCounters};

/// What the kernel driver counts per device (`efa_verbs.c`), and our counter for it; `None` for
/// what cannot happen to a device without a kernel.
const DEVICE: [(&str, Option<Counter>); 12] = [
    ("submitted_cmds", Some(Counter::SubmittedCmds)),
    // Each command is answered at once, and all are.
    ("completed_cmds", Some(Counter::SubmittedCmds)),
    ("cmds_err", Some(Counter::CmdsErr)),
    ("no_completion_cmds", None),
    ("keep_alive_rcvd", None),
    ("alloc_pd_err", Some(Counter::AllocPdErr)),
    ("create_qp_err", Some(Counter::CreateQpErr)),
    ("create_cq_err", Some(Counter::CreateCqErr)),
    ("reg_mr_err", Some(Counter::RegMrErr)),
    ("alloc_ucontext_err", None),
    ("create_ah_err", Some(Counter::CreateAhErr)),
    ("mmap_err", None),
];

#[derive(Debug)]
struct CounterFile {
    device: String,
    path: PathBuf,
    counter: Option<Counter>,
    /// What it says.
    value: u64,
}

/// The counter files of the devices of a run.
#[derive(Debug)]
pub struct HwCounters {
    files: Vec<CounterFile>,
}

impl HwCounters {
    /// Makes the files of `devices`, all zero, in the tree at `root` (`SYSFS_PATH`).
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn create(root: &Path, devices: &[DeviceSpec]) -> io::Result<Self> {
        let mut files = Vec::new();
        for DeviceSpec { name, .. } in devices {
            let device_dir = root.join("class/infiniband").join(name);
            let port = Counter::PORT.iter().map(|counter| (counter.name(), Some(*counter)));
            let dirs = [
                (device_dir.join("hw_counters"), DEVICE.to_vec()),
                (device_dir.join("ports/1/hw_counters"), port.collect()),
            ];
            for (dir, counters) in dirs {
                fs::create_dir_all(&dir)?;
                for (file_name, counter) in counters {
                    let (device, path) = (name.clone(), dir.join(file_name));
                    write_whole(&path, 0)?;
                    files.push(CounterFile { device, path, counter, value: 0 });
                }
            }
        }
        Ok(Self { files })
    }

    /// Writes what changed since the last call; each file holds its old value or its new one,
    /// never a part of either.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn publish(&mut self, processes: &[ProcessCounters]) -> io::Result<()> {
        for file in &mut self.files {
            let Some(counter) = file.counter else { continue };
            let mine = processes.iter().filter(|process| process.device == file.device);
            let value = mine.fold(0u64, |sum, process| sum.wrapping_add(process.get(counter)));
            if value != file.value {
                write_whole(&file.path, value)?;
                file.value = value;
            }
        }
        Ok(())
    }
}

/// Replaces the file, so that no reader sees half of a number.
fn write_whole(path: &Path, value: u64) -> io::Result<()> {
    // Beside the directory and not in it, or `cat hw_counters/*` would find it.
    let parent = path.parent().unwrap_or(path);
    let partial = parent.with_extension("next");
    fs::write(&partial, format!("{value}\n"))?;
    fs::rename(&partial, path)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::counters::{Counters, read_dir};

    #[test]
    fn files_hold_the_sum_of_their_device() {
        let dir = tempfile::tempdir().unwrap();
        let devices = ["a=127.0.0.1".parse().unwrap(), "b=127.0.0.2".parse().unwrap()];
        let mut files = HwCounters::create(dir.path(), &devices).unwrap();
        let read = |path: &str| {
            let path = dir.path().join("class/infiniband").join(path);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        assert_eq!(read("a/ports/1/hw_counters/tx_pkts"), "0\n");
        let (counters, _) = Counters::in_dir(dir.path(), "a", Ipv4Addr::LOCALHOST).unwrap();
        counters.add(Counter::TxPkts, 12);
        counters.command(Err::<(), ()>(()), Some(Counter::CreateQpErr)).unwrap_err();
        let mut processes = read_dir(dir.path()).unwrap();
        processes.push(processes[0].clone());
        files.publish(&processes).unwrap();
        assert_eq!(read("a/ports/1/hw_counters/tx_pkts"), "24\n");
        assert_eq!(read("b/ports/1/hw_counters/tx_pkts"), "0\n");
        for (name, value) in [("submitted_cmds", 2), ("completed_cmds", 2), ("create_qp_err", 2)] {
            assert_eq!(read(&format!("a/hw_counters/{name}")), format!("{value}\n"), "{name}");
        }
        let listed = fs::read_dir(dir.path().join("class/infiniband/a/ports/1/hw_counters"));
        assert_eq!(listed.unwrap().count(), Counter::PORT.len());
    }
}
