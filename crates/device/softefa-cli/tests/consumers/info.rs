//! The properties of the device that programs can query.

use crate::harness::{Launcher, Outcome, exclusive, has};

/// Returns the values of `key: value` lines, in order.
fn values<'a>(outcome: &'a Outcome, key: &str) -> Vec<&'a str> {
    let lines = outcome.stdout.lines().map(str::trim);
    lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim).collect()
}

fn fi_info(options: &str, args: &str) -> Outcome {
    let _one = exclusive();
    let outcome = Launcher::new(options).run(&format!("fi_info -p efa {args}"));
    outcome.assert_clean();
    let opened = outcome.counters["processes"].as_array().is_some_and(|all| !all.is_empty());
    assert!(opened, "no process opened our device\n{outcome}");
    outcome
}

#[test]
fn libfabric_finds_reliable_and_datagram_endpoints() {
    if !has("fi_info") {
        return;
    }
    let outcome = fi_info("", "-v");
    assert_eq!(values(&outcome, "type"), ["FI_EP_RDM", "FI_EP_DGRAM"], "{outcome}");
    let names = values(&outcome, "name");
    assert!(names.contains(&"rdmap0s6-rdm") && names.contains(&"rdmap0s6-dgrm"), "{outcome}");
    // The second of each pair is the PCI slot.
    assert_eq!(values(&outcome, "device_id"), ["0xefa2", "0", "0xefa2", "0"], "{outcome}");
    assert_eq!(values(&outcome, "driver"), ["efa", "efa"], "{outcome}");
}

/// The expected values are those of the thesis for a c5n instance.
#[test]
fn first_generation_looks_like_the_hardware() {
    if !has("fi_info") {
        return;
    }
    let outcome = fi_info("--profile efa0", "-t FI_EP_RDM -v");
    assert_eq!(values(&outcome, "mtu"), ["8760"], "{outcome}");
    assert_eq!(values(&outcome, "size"), ["4096", "8192"], "transmit, receive\n{outcome}");
    let inject = values(&outcome, "inject_size");
    assert!(["3928", "8760"].contains(&inject[0]), "{outcome}");
    assert_eq!(values(&outcome, "device_id")[0], "0xefa0", "{outcome}");
}

#[test]
fn every_device_is_listed() {
    if !has("fi_info") || !has("ibv_devinfo") {
        return;
    }
    let options = "--device rdmap0s6=127.0.0.1 --device rdmap1s6=127.0.0.2";
    let outcome = fi_info(options, "-t FI_EP_RDM");
    assert_eq!(values(&outcome, "domain"), ["rdmap0s6-rdm", "rdmap1s6-rdm"], "{outcome}");
    let outcome = Launcher::new(options).run("ibv_devinfo");
    outcome.assert_clean();
    assert_eq!(values(&outcome, "hca_id"), ["rdmap0s6", "rdmap1s6"], "{outcome}");
    assert_eq!(values(&outcome, "state"), ["PORT_ACTIVE (4)"; 2], "{outcome}");
}
