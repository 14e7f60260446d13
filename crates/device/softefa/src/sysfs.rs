//! The private sysfs tree of a run.
//!
//! libfabric's efa provider disappears without `class/infiniband_verbs/abi_version`, and reads the
//! PCI address and driver name of a device from where its links point (libfabric 1.17,
//! `efa_device.c`). UCX looks at the PCI directory two levels above the device.

mod roce;

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::{Adapter, Config, Profile};
use crate::identity::Identity;
use crate::mapped;

/// Writes the tree for the devices of `config` below `root`, which becomes `SYSFS_PATH`, and what
/// programs find in `/dev/infiniband`: files of that name, for those who list them. What exists
/// stays.
///
/// # Errors
/// A file or link cannot be made.
pub fn create(root: &Path, config: &Config) -> io::Result<()> {
    // A longer file than the program may write would end it. None is longer than a page.
    mapped::check_size(4096)?;
    let verbs = root.join("class/infiniband_verbs");
    let class = root.join("class/infiniband");
    let files = root.join("dev/infiniband");
    for dir in [&verbs, &class, &files] {
        fs::create_dir_all(dir)?;
    }
    put(&verbs.join("abi_version"), "6")?;
    for (index, device) in config.devices.iter().enumerate() {
        // The machine has no such function, and MPICH aborts when it does not find one it looks
        // for; it looks for none when the first has the null address (5.0.2, `mpir_hwtopo.c`).
        let pci = root.join(format!("devices/pci0000:00/0000:{index:02x}:00.0"));
        let ib = pci.join("infiniband").join(&device.name);
        fs::create_dir_all(&ib)?;
        let (profile, identity) = (config.profile_of(device), Identity::of(config, device));
        let driver = root.join("bus/pci/drivers").join(driver_of(profile));
        fs::create_dir_all(&driver)?;
        link(&driver, &pci.join("driver"))?;
        link(&pci, &ib.join("device"))?;
        link(&ib, &class.join(&device.name))?;
        match profile.adapter() {
            Adapter::Efa => {
                write_pci(&pci, profile)?;
                write_node(&ib, identity)?;
            }
            Adapter::Roce => {
                roce::write_pci(&pci, profile, device)?;
                roce::write_node(&ib, profile, device, identity)?;
                roce::write_manager(root)?;
                put(&files.join("rdma_cm"), "10:58")?;
            }
        }
        let name = format!("uverbs{index}");
        let numbers = format!("231:{}", 192 + index);
        put(&files.join(&name), &numbers)?;
        let uverbs = verbs.join(name);
        fs::create_dir_all(&uverbs)?;
        put(&uverbs.join("ibdev"), &device.name)?;
        put(&uverbs.join("abi_version"), "1")?;
        put(&uverbs.join("dev"), &numbers)?;
        link(&pci, &uverbs.join("device"))?;
    }
    Ok(())
}

/// Name of the driver that a device of this profile has.
fn driver_of(profile: Profile) -> &'static str {
    match profile.adapter() {
        Adapter::Efa => "efa",
        Adapter::Roce => "softefa",
    }
}

/// Writes what an EFA and its port say of themselves, as the kernel does it
/// (`drivers/infiniband/core/sysfs.c`). NCCL, UCX, Mooncake and scripts read it.
fn write_node(ib: &Path, identity: Identity) -> io::Result<()> {
    let (gid, guid) = (groups(&identity.gid.0), groups(&identity.node_guid));
    write_all(
        ib,
        &[
            ("node_type", "0: unspecified"),
            ("node_guid", guid.as_str()),
            ("sys_image_guid", guid.as_str()),
            ("fw_ver", "0.0.0.0"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/phys_state", "5: LinkUp"),
            ("ports/1/rate", "100 Gb/sec (4X EDR)"),
            ("ports/1/link_layer", "Unknown"),
            ("ports/1/lid", "0x0"),
            ("ports/1/lid_mask_count", "1"),
            ("ports/1/sm_lid", "0x0"),
            ("ports/1/sm_sl", "0"),
            ("ports/1/cap_mask", "0x00000000"),
            ("ports/1/gids/0", gid.as_str()),
            ("ports/1/gid_attrs/types/0", "IB/RoCE v1"),
            ("ports/1/pkeys/0", "0xffff"),
        ],
    )
}

/// Writes files of one line, and makes the directories that they are in.
fn write_all(dir: &Path, files: &[(&str, &str)]) -> io::Result<()> {
    for (file, text) in files {
        let path = dir.join(file);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        put(&path, text)?;
    }
    Ok(())
}

/// Writes a file of one line. Each process of a run makes the tree, and others read it at any
/// moment: a file is there whole or not at all, and one that says the same is left alone.
fn put(path: &Path, line: &str) -> io::Result<()> {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let text = format!("{line}\n");
    if fs::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let fresh = path.with_file_name(format!(".{}-{number}", std::process::id()));
    fs::write(&fresh, text)?;
    fs::rename(&fresh, path)
}

/// Groups of four digits.
fn groups(bytes: &[u8]) -> String {
    let groups = bytes.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]));
    groups.collect::<Vec<_>>().join(":")
}

fn write_pci(pci: &Path, profile: Profile) -> io::Result<()> {
    let device_id = format!("0x{:04x}", profile.part_id());
    write_all(
        pci,
        &[
            ("vendor", "0x1d0f"),
            ("device", device_id.as_str()),
            ("current_link_width", "16"),
            ("current_link_speed", "32.0 GT/s PCIe"),
            ("numa_node", "-1"),
        ],
    )
}

fn link(target: &Path, at: &Path) -> io::Result<()> {
    match symlink(target, at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DeviceSpec;

    #[test]
    fn links_end_in_a_pci_address_and_a_driver() {
        let dir = tempfile::tempdir().unwrap();
        let devices = DeviceSpec::parse_list("a=127.0.0.1,b=127.0.0.2,profile=efa1").unwrap();
        let config = Config { devices, ..Config::default() };
        create(dir.path(), &config).unwrap();
        create(dir.path(), &config).unwrap();
        let device = fs::canonicalize(dir.path().join("class/infiniband/b/device")).unwrap();
        assert!(device.ends_with("0000:01:00.0"), "{}", device.display());
        let driver = fs::canonicalize(device.join("driver")).unwrap();
        assert!(driver.ends_with("efa"), "{}", driver.display());
        let id = fs::read_to_string(device.join("device")).unwrap();
        assert_eq!(id, "0xefa1\n");
        let gid = fs::read_to_string(dir.path().join("class/infiniband/b/ports/1/gids/0")).unwrap();
        assert_eq!(gid, "fe80:0000:0000:0000:0645:4641:7f00:0002\n");
        assert!(!dir.path().join("class/misc").exists(), "an EFA has no connection manager");
    }

    /// A process that starts beside a reader must not truncate the file: UCX takes a RoCE v2 device
    /// for v1 if the file is empty.
    #[test]
    fn who_reads_beside_a_writer_sees_whole_files() {
        let dir = tempfile::tempdir().unwrap();
        let devices = DeviceSpec::parse_list("roce0=127.0.0.1,profile=roce").unwrap();
        let config = Config { devices, ..Config::default() };
        create(dir.path(), &config).unwrap();
        let file = dir.path().join("class/infiniband/roce0/ports/1/gid_attrs/types/0");
        std::thread::scope(|scope| {
            let writer =
                scope.spawn(|| (0..200).for_each(|_| create(dir.path(), &config).unwrap()));
            while !writer.is_finished() {
                assert_eq!(fs::read_to_string(&file).unwrap(), "RoCE v2\n");
            }
        });
    }

    /// Every file there is with its contents, and every link with its target inside the tree.
    fn listing(root: &Path, dir: &Path, found: &mut Vec<String>) {
        let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if let Ok(target) = fs::read_link(&path) {
                let target = target.strip_prefix(root).unwrap().display().to_string();
                found.push(format!("{name} -> {target}"));
            } else if path.is_dir() {
                listing(root, &path, found);
            } else {
                found.push(format!("{name}: {}", fs::read_to_string(&path).unwrap().trim_end()));
            }
        }
    }

    /// What an EFA shows is what the kernel's driver shows, whatever other devices there are.
    #[test]
    fn the_tree_of_an_efa_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path(), &Config::default()).unwrap();
        let mut found = Vec::new();
        listing(dir.path(), dir.path(), &mut found);
        assert_eq!(found.join("\n"), include_str!("sysfs/efa.txt").trim_end());
    }
}
