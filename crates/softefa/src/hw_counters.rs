//! Counters as files in the sysfs tree, where monitoring programs and libfabric's tests look for
//! those of the kernel driver: `hw_counters/` and `ports/1/hw_counters/` below the device.
//!
//! Hardware counts for all processes, so these files hold sums over the processes of a run. They
//! are written by somebody who has time (`softefa run`), never by a program that sends: it only
//! counts in memory that is shared anyway ([`crate::counters`]).

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
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

/// How old the files may be in ms, as far as whoever publishes them can help it.
pub const LIFESPAN_MS: u64 = 100;
/// The file that says so, as the kernel's do.
const LIFESPAN: &str = "lifespan";

/// A directory of counter files that is replaced as a whole: a link to one of two directories, of
/// which the other is being written. So whoever reads sees all files, each of them whole, and
/// all of the same moment.
#[derive(Debug)]
struct CounterDir {
    device: String,
    link: PathBuf,
    counters: Vec<(&'static str, Option<Counter>)>,
    /// What the two directories say.
    values: [Vec<u64>; 2],
    /// Which one is seen.
    shown: usize,
}

impl CounterDir {
    fn create(
        device: &str,
        link: PathBuf,
        counters: Vec<(&'static str, Option<Counter>)>,
    ) -> io::Result<Self> {
        let zeros = vec![0; counters.len()];
        let values = [zeros.clone(), zeros];
        let dir = Self { device: device.to_owned(), link, counters, values, shown: 0 };
        for side in 0..2 {
            fs::create_dir_all(dir.side(side))?;
            dir.counters.iter().try_for_each(|(name, _)| dir.write(side, name, 0))?;
            dir.write(side, LIFESPAN, LIFESPAN_MS)?;
        }
        dir.show(0)?;
        Ok(dir)
    }

    fn publish(&mut self, processes: &[ProcessCounters]) -> io::Result<()> {
        let mine = |process: &&ProcessCounters| process.device == self.device;
        let sum = |counter: Option<Counter>| {
            let counts = processes.iter().filter(mine).map(|p| counter.map_or(0, |c| p.get(c)));
            counts.fold(0u64, u64::wrapping_add)
        };
        let values: Vec<u64> = self.counters.iter().map(|(_, counter)| sum(*counter)).collect();
        if values == self.values[self.shown] {
            return Ok(());
        }
        let next = 1 - self.shown;
        for (at, (name, _)) in self.counters.iter().enumerate() {
            if values[at] != self.values[next][at] {
                self.write(next, name, values[at])?;
            }
        }
        self.values[next] = values;
        self.show(next)?;
        self.shown = next;
        Ok(())
    }

    fn side(&self, side: usize) -> PathBuf {
        self.link.with_file_name(format!(".hw_counters.{side}"))
    }

    fn write(&self, side: usize, name: &str, value: u64) -> io::Result<()> {
        // Not truncated, which costs more than all the rest: counters only grow, so the new text
        // covers the old one.
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(false).open(self.side(side).join(name))?;
        file.write_all(format!("{value}\n").as_bytes())
    }

    fn show(&self, side: usize) -> io::Result<()> {
        let next = self.link.with_file_name(".hw_counters.next");
        // One may be left from a time when it could not be moved.
        let _ = fs::remove_file(&next);
        symlink(format!(".hw_counters.{side}"), &next)?;
        fs::rename(&next, &self.link)
    }
}

/// The counter files of the devices of a run.
#[derive(Debug)]
pub struct HwCounters {
    dirs: Vec<CounterDir>,
}

impl HwCounters {
    /// Makes the files of `devices`, all zero, in the tree at `root` (`SYSFS_PATH`).
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn create(root: &Path, devices: &[DeviceSpec]) -> io::Result<Self> {
        let mut dirs = Vec::new();
        for DeviceSpec { name, .. } in devices {
            let device = root.join("class/infiniband").join(name);
            let port = Counter::PORT.iter().map(|counter| (counter.name(), Some(*counter)));
            let device_dir = device.join("hw_counters");
            dirs.push(CounterDir::create(name, device_dir, DEVICE.to_vec())?);
            let port_dir = device.join("ports/1/hw_counters");
            dirs.push(CounterDir::create(name, port_dir, port.collect())?);
        }
        Ok(Self { dirs })
    }

    /// Shows what the processes have counted since the last call.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn publish(&mut self, processes: &[ProcessCounters]) -> io::Result<()> {
        self.dirs.iter_mut().try_for_each(|dir| dir.publish(processes))
    }
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
        counters.add(Counter::TxPkts, 1);
        for _ in 0..3 {
            files.publish(&read_dir(dir.path()).unwrap()).unwrap();
            assert_eq!(read("a/ports/1/hw_counters/tx_pkts"), "13\n");
        }
        files.publish(&processes).unwrap();
        for (name, value) in [("submitted_cmds", 2), ("completed_cmds", 2), ("create_qp_err", 2)] {
            assert_eq!(read(&format!("a/hw_counters/{name}")), format!("{value}\n"), "{name}");
        }
        let listed = fs::read_dir(dir.path().join("class/infiniband/a/ports/1/hw_counters"));
        assert_eq!(listed.unwrap().count(), Counter::PORT.len() + 1);
        assert_eq!(read("a/hw_counters/lifespan"), "100\n");
    }
}
