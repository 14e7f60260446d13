//! Counters of an RDMA device, if the kernel shows them: `hw_counters` of the device and of its
//! ports, and the ports' `counters` (`Documentation/ABI/stable/sysfs-class-infiniband`).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench_record::counted::Counts;

/// The file beside the counters that says how old they may be in ms (`struct rdma_hw_stats`).
const LIFESPAN: &str = "lifespan";
/// The age of counters without such a file in ms.
const LIFESPAN_MS: u64 = 10;
/// The most readings until two are alike. The counters of a device that others use never rest.
const READINGS_MAX: u32 = 8;

/// A device of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    name: String,
    folders: Vec<PathBuf>,
}

/// The root of the sysfs tree, where the verbs libraries look for it.
pub(super) fn sysfs() -> PathBuf {
    std::env::var_os("SYSFS_PATH").map_or_else(|| PathBuf::from("/sys"), PathBuf::from)
}

/// Returns the names in a folder; none if it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the folder of the device that a domain belongs to; libfabric's name of a domain is the
/// name of the device and a suffix.
pub(super) fn folder(sysfs: &Path, domain: &str) -> Option<PathBuf> {
    let class = sysfs.join("class/infiniband");
    let is_it = |name: &String| domain.starts_with(name.as_str());
    let name = names(&class).into_iter().filter(is_it).max_by_key(String::len)?;
    Some(class.join(name))
}

impl Device {
    /// Finds the device that a domain belongs to; `None` if there is none or it has no counters.
    pub(super) fn find(sysfs: &Path, domain: &str) -> Option<Self> {
        let device = folder(sysfs, domain)?;
        let name = device.file_name()?.to_str()?.to_owned();
        let mut folders = vec![device.join("hw_counters")];
        for port in names(&device.join("ports")) {
            let port = device.join("ports").join(port);
            folders.extend([port.join("hw_counters"), port.join("counters")]);
        }
        folders.retain(|folder| folder.is_dir());
        (!folders.is_empty()).then_some(Self { name, folders })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Reads all counters; those of several ports are added.
    fn read(&self) -> Counts {
        let mut counts = Counts::new();
        for folder in &self.folders {
            for name in names(folder).into_iter().filter(|name| name != LIFESPAN) {
                if let Some(count) = number(&folder.join(&name)) {
                    *counts.entry(name).or_default() += count;
                }
            }
        }
        counts
    }

    /// Returns how old a shown count may be.
    fn lifespan(&self) -> Duration {
        let told = self.folders.iter().filter_map(|folder| number(&folder.join(LIFESPAN)));
        Duration::from_millis(told.max().unwrap_or(LIFESPAN_MS))
    }

    /// Reads all counters when they have come to rest: shown counts may be as old as the tree says.
    pub(super) fn settled(&self) -> Counts {
        let lifespan = self.lifespan();
        let mut counts = self.read();
        for _ in 0..READINGS_MAX {
            std::thread::sleep(lifespan);
            let before = std::mem::replace(&mut counts, self.read());
            if before == counts {
                break;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().expect("tempdir");
        for (path, text) in [
            ("rdma0/hw_counters/submitted_cmds", "3\n"),
            ("rdma0/ports/1/hw_counters/tx_bytes", "100\n"),
            ("rdma0/ports/1/hw_counters/lifespan", "1\n"),
            ("rdma0/ports/2/hw_counters/tx_bytes", "20\n"),
            ("rdma0/ports/1/counters/port_xmit_data", "9\n"),
            ("rdma0/ports/1/counters/broken", "N/A (no PMA)\n"),
            ("rdma0s1/hw_counters/other", "1\n"),
            ("silent/node_type", "0\n"),
        ] {
            let path = tree.path().join("class/infiniband").join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
            fs::write(path, text).expect("file");
        }
        tree
    }

    #[test]
    fn a_domain_finds_its_device_and_all_its_counters() {
        let tree = tree();
        let device = Device::find(tree.path(), "rdma0-rdm").expect("a device");
        assert_eq!((device.name(), device.lifespan()), ("rdma0", Duration::from_millis(1)));
        let counts = device.settled();
        let wanted = [("port_xmit_data", 9), ("submitted_cmds", 3), ("tx_bytes", 120)];
        let wanted = wanted.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counts, Counts::from(wanted));
        let longer = Device::find(tree.path(), "rdma0s1-rdm").expect("a device");
        assert_eq!((longer.name(), longer.lifespan()), ("rdma0s1", Duration::from_millis(10)));
    }

    #[test]
    fn what_counts_nothing_is_no_source() {
        let tree = tree();
        for domain in ["silent", "eth0", ""] {
            assert_eq!(Device::find(tree.path(), domain), None, "{domain}");
        }
        assert_eq!(Device::find(&tree.path().join("nowhere"), "rdma0"), None);
    }
}
