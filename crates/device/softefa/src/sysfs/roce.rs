//! The tree of a RoCE device. Programs read more of it than of an EFA's: NCCL, UCX, Mooncake, UCCL,
//! eRPC, tools and exporters of counters.

use std::fs;
use std::io;
use std::path::Path;

use super::{groups, link, write_all};
use crate::config::{DeviceSpec, Profile};
use crate::identity::Identity;
use crate::interface::{self, Interface};

/// Class of an Ethernet controller.
const PCI_CLASS: &str = "0x020000";
/// The directory in which the kernel shows network interfaces.
const NET: &str = "/sys/class/net";

/// Writes what the device and its port say of themselves.
pub(super) fn write_node(
    ib: &Path,
    profile: Profile,
    device: &DeviceSpec,
    identity: Identity,
) -> io::Result<()> {
    let (gid, guid) = (groups(&identity.gid.0), groups(&identity.node_guid));
    let rate = device.port.rate.unwrap_or_default().to_string();
    let hca_type = format!("softefa {profile}");
    let node_desc = format!("{} {}", device.name, device.addr);
    let gids = device.port.gids.unwrap_or_default().get();
    write_all(
        ib,
        &[
            ("node_type", "1: CA"),
            ("node_guid", guid.as_str()),
            ("sys_image_guid", guid.as_str()),
            ("node_desc", node_desc.as_str()),
            ("fw_ver", profile.fw_ver()),
            ("hw_rev", "0x0"),
            ("hca_type", hca_type.as_str()),
            ("board_id", profile.name()),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/phys_state", "5: LinkUp"),
            ("ports/1/rate", rate.as_str()),
            ("ports/1/link_layer", "Ethernet"),
            ("ports/1/lid", "0x0"),
            ("ports/1/lid_mask_count", "0"),
            ("ports/1/sm_lid", "0x0"),
            ("ports/1/sm_sl", "0"),
            // Communication management, and GIDs that are addresses.
            ("ports/1/cap_mask", "0x04010000"),
            ("ports/1/pkeys/0", "0xffff"),
        ],
    )?;
    let netdev = interface::of(device.addr);
    for index in 0..gids {
        write_all(ib, &[(&format!("ports/1/gids/{index}"), &gid)])?;
        netdev.as_ref().map_or(Ok(()), |netdev| write_gid_attrs(ib, index, netdev))?;
    }
    Ok(())
}

/// Both files or neither: UCX calls every peer unreachable that has a type and no network device.
fn write_gid_attrs(ib: &Path, index: u8, netdev: &Interface) -> io::Result<()> {
    write_all(
        ib,
        &[
            (&format!("ports/1/gid_attrs/types/{index}"), "RoCE v2"),
            (&format!("ports/1/gid_attrs/ndevs/{index}"), netdev.name.as_str()),
        ],
    )
}

/// The function of PCI that the device would be, with its network interface.
pub(super) fn write_pci(pci: &Path, profile: Profile, device: &DeviceSpec) -> io::Result<()> {
    // PCI has 16 bits for a vendor.
    let vendor = format!("0x{:04x}", profile.vendor_id() & 0xffff);
    let part = format!("0x{:04x}", profile.part_id());
    let cpus = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = if cpus.is_empty() { "0" } else { cpus.trim_end() };
    write_all(
        pci,
        &[
            ("vendor", vendor.as_str()),
            ("device", part.as_str()),
            ("subsystem_vendor", vendor.as_str()),
            ("subsystem_device", part.as_str()),
            ("class", PCI_CLASS),
            ("revision", "0x00"),
            ("max_link_width", "16"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("current_link_width", "16"),
            ("current_link_speed", "32.0 GT/s PCIe"),
            ("numa_node", "-1"),
            ("local_cpulist", cpus),
        ],
    )?;
    interface::of(device.addr).map_or(Ok(()), |netdev| write_net(&pci.join("net"), &netdev))
}

/// Programs list the directory, and some go on into it.
fn write_net(net: &Path, netdev: &Interface) -> io::Result<()> {
    fs::create_dir_all(net)?;
    let known = Path::new(NET).join(&netdev.name);
    if known.exists() {
        return link(&known, &net.join(&netdev.name));
    }
    fs::create_dir_all(net.join(&netdev.name))
}

/// Version of the connection manager's interface, which librdmacm asks for.
pub(super) fn write_manager(root: &Path) -> io::Result<()> {
    write_all(&root.join("class/misc/rdma_cm"), &[("abi_version", "4")])
}

#[cfg(test)]
mod tests {
    use super::super::create;
    use crate::config::Config;

    use super::*;

    #[test]
    fn every_file_that_programs_read_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let text = "a=127.0.0.1,roce0=127.0.0.2,profile=roce,rate=25,b=127.0.0.3,profile=rxe";
        let devices = DeviceSpec::parse_list(text).unwrap();
        create(dir.path(), &Config { devices, ..Config::default() }).unwrap();
        let read = |path: &str| {
            let text = fs::read_to_string(dir.path().join("class").join(path));
            text.unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        for (path, text) in [
            ("infiniband/roce0/node_type", "1: CA"),
            ("infiniband/roce0/board_id", "roce"),
            ("infiniband/roce0/hca_type", "softefa roce"),
            ("infiniband/roce0/ports/1/rate", "25 Gb/sec (1X EDR)"),
            ("infiniband/roce0/ports/1/link_layer", "Ethernet"),
            ("infiniband/roce0/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:7f00:0002"),
            ("infiniband/roce0/ports/1/gid_attrs/types/0", "RoCE v2"),
            ("infiniband/roce0/ports/1/gid_attrs/ndevs/0", "lo"),
            ("infiniband/roce0/device/vendor", "0x5345"),
            ("infiniband/roce0/device/numa_node", "-1"),
            ("infiniband/b/device/vendor", "0xffff"),
            ("infiniband/b/ports/1/rate", "100 Gb/sec (4X EDR)"),
            ("infiniband/a/node_type", "0: unspecified"),
            ("infiniband_verbs/uverbs1/ibdev", "roce0"),
            ("misc/rdma_cm/abi_version", "4"),
        ] {
            assert_eq!(read(path), format!("{text}\n"), "{path}");
        }
        let net = fs::read_dir(dir.path().join("class/infiniband/roce0/device/net")).unwrap();
        let names: Vec<_> = net.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["lo"]);
        let guid = read("infiniband/roce0/node_guid");
        assert!(guid.starts_with("0253:45") && guid.ends_with("7f00:0002\n"), "{guid}");
        assert_eq!(read("infiniband/roce0/sys_image_guid"), guid);
    }

    #[test]
    fn every_entry_of_the_table_holds_the_address() {
        let dir = tempfile::tempdir().unwrap();
        let devices = DeviceSpec::parse_list("r=127.0.0.2,profile=roce,gids=4").unwrap();
        create(dir.path(), &Config { devices, ..Config::default() }).unwrap();
        let port = dir.path().join("class/infiniband/r/ports/1");
        let read = |path: &str, index: u8| fs::read_to_string(port.join(format!("{path}/{index}")));
        for index in 0..4 {
            let gid = read("gids", index).unwrap();
            assert_eq!(gid, "0000:0000:0000:0000:0000:ffff:7f00:0002\n", "{index}");
            assert_eq!(read("gid_attrs/types", index).unwrap(), "RoCE v2\n", "{index}");
        }
        assert!(read("gids", 4).is_err());
    }

    #[test]
    fn an_address_of_nobody_has_neither_type_nor_network_device() {
        let dir = tempfile::tempdir().unwrap();
        let devices = DeviceSpec::parse_list("r=198.51.100.9,profile=roce").unwrap();
        create(dir.path(), &Config { devices, ..Config::default() }).unwrap();
        let device = dir.path().join("class/infiniband/r");
        assert!(device.join("ports/1/gids/0").exists());
        assert!(!device.join("ports/1/gid_attrs").exists() && !device.join("device/net").exists());
    }
}
