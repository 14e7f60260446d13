//! Counters as files in the sysfs tree, where monitoring programs and libfabric's tests look for
//! those of the kernel driver: `hw_counters/` and `ports/1/hw_counters/` below the device.
//!
//! Hardware counts for all processes, so these files hold sums over the processes of a run. They
//! are written by somebody who has time (`softefa run`), never by a program that sends: it only
//! counts in memory that is shared anyway ([`crate::counters`]).

mod tables;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::config::{Adapter, Config};
use crate::counters::ProcessCounters;
use tables::Shown;

/// The age in ms that the files may reach, as far as whoever publishes them can help it.
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
    files: Vec<Shown>,
    /// The values that the two directories have.
    values: [Vec<u64>; 2],
    /// The directory that is seen.
    shown: usize,
}

impl CounterDir {
    fn create(device: &str, link: PathBuf, files: Vec<Shown>) -> io::Result<Self> {
        let zeros = vec![0; files.len()];
        let values = [zeros.clone(), zeros];
        let dir = Self { device: device.to_owned(), link, files, values, shown: 0 };
        for side in 0..2 {
            fs::create_dir_all(dir.side(side))?;
            dir.files.iter().try_for_each(|file| dir.write(side, file.name, 0))?;
            dir.write(side, LIFESPAN, LIFESPAN_MS)?;
        }
        dir.show(0)?;
        Ok(dir)
    }

    fn publish(&mut self, processes: &[ProcessCounters]) -> io::Result<()> {
        let mine = |process: &&ProcessCounters| process.device == self.device;
        let sum = |file: &Shown| {
            let counts =
                processes.iter().filter(mine).map(|p| file.counter.map_or(0, |c| p.get(c)));
            counts.fold(0u64, u64::wrapping_add) / file.per_unit
        };
        let values: Vec<u64> = self.files.iter().map(sum).collect();
        if values == self.values[self.shown] {
            return Ok(());
        }
        let next = 1 - self.shown;
        for (at, file) in self.files.iter().enumerate() {
            if values[at] != self.values[next][at] {
                self.write(next, file.name, values[at])?;
            }
        }
        self.values[next] = values;
        self.show(next)?;
        self.shown = next;
        Ok(())
    }

    fn side(&self, side: usize) -> PathBuf {
        self.link.with_file_name(self.side_name(&side.to_string()))
    }

    /// Name of a directory beside the link.
    fn side_name(&self, side: &str) -> String {
        let name = self.link.file_name().unwrap_or_default();
        format!(".{}.{side}", name.to_string_lossy())
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
        let next = self.link.with_file_name(self.side_name("next"));
        // One may be left from a time when it could not be moved.
        let _ = fs::remove_file(&next);
        symlink(self.side_name(&side.to_string()), &next)?;
        fs::rename(&next, &self.link)
    }
}

/// The counter files of the devices of a run.
#[derive(Debug)]
pub struct HwCounters {
    dirs: Vec<CounterDir>,
}

impl HwCounters {
    /// Makes the files of the devices of `config`, all zero, in the tree at `root` (`SYSFS_PATH`).
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn create(root: &Path, config: &Config) -> io::Result<Self> {
        let mut dirs = Vec::new();
        for device in &config.devices {
            let path = root.join("class/infiniband").join(&device.name);
            let mut add = |dir: &str, files: Vec<Shown>| {
                dirs.push(CounterDir::create(&device.name, path.join(dir), files)?);
                Ok::<_, io::Error>(())
            };
            match config.adapter_of(device) {
                Adapter::Efa => {
                    add("hw_counters", tables::EFA_DEVICE.to_vec())?;
                    add("ports/1/hw_counters", tables::efa_port())?;
                }
                Adapter::Roce => {
                    add("ports/1/hw_counters", tables::ROCE_PORT.to_vec())?;
                    add("ports/1/counters", tables::IB_PORT.to_vec())?;
                }
            }
        }
        Ok(Self { dirs })
    }

    /// Brings the files up to date with what the processes have counted.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn publish(&mut self, processes: &[ProcessCounters]) -> io::Result<()> {
        self.dirs.iter_mut().try_for_each(|dir| dir.publish(processes))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::config::DeviceSpec;
    use crate::counters::{Counter, Counters, read_dir};

    fn config(devices: &str) -> Config {
        Config { devices: DeviceSpec::parse_list(devices).unwrap(), ..Config::default() }
    }

    #[test]
    fn files_hold_the_sum_of_their_device() {
        let dir = tempfile::tempdir().unwrap();
        let config = config("a=127.0.0.1,b=127.0.0.2");
        let mut files = HwCounters::create(dir.path(), &config).unwrap();
        let read = |path: &str| {
            let path = dir.path().join("class/infiniband").join(path);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        assert_eq!(read("a/ports/1/hw_counters/tx_pkts"), "0\n");
        let (counters, _) =
            Counters::in_dir(dir.path(), "a", IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
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

    #[test]
    fn a_roce_device_counts_as_rxe_and_as_any_port() {
        let dir = tempfile::tempdir().unwrap();
        let config = config("r=127.0.0.1,profile=roce");
        let mut files = HwCounters::create(dir.path(), &config).unwrap();
        let (counters, _) =
            Counters::in_dir(dir.path(), "r", IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        counters.add(Counter::TxPkts, 3);
        counters.add(Counter::TxBytes, 4003);
        files.publish(&read_dir(dir.path()).unwrap()).unwrap();
        let port = dir.path().join("class/infiniband/r/ports/1");
        let read = |path: &str| fs::read_to_string(port.join(path)).unwrap();
        assert_eq!(read("hw_counters/sent_pkts"), "3\n");
        assert_eq!(read("counters/port_xmit_packets"), "3\n");
        assert_eq!(read("counters/port_xmit_data"), "1000\n", "in words of four bytes");
        assert_eq!(read("counters/symbol_error"), "0\n");
        let names = |dir: &str| fs::read_dir(port.join(dir)).unwrap().count();
        assert_eq!((names("hw_counters"), names("counters")), (16, 22), "lifespan is one");
        assert!(!port.join("../../hw_counters").exists());
    }
}
