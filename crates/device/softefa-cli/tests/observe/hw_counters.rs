//! The kernel driver's counters as files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Launcher, exclusive, has, wait_until};
use crate::{PORTS, STREAM};

/// Returns the directories of the device of each run of the launcher.
fn devices(launcher: &Launcher) -> Vec<PathBuf> {
    let runs = fs::read_dir(launcher.runtime_dir().join("softefa")).into_iter().flatten().flatten();
    let device = |run: PathBuf| run.join("sysfs/class/infiniband/rdmap0s6");
    let is_made = |device: &PathBuf| device.join("ports/1/hw_counters").is_dir();
    runs.map(|run| device(run.path())).filter(is_made).collect()
}

/// Returns the contents of all files, by name, as another process reads them with `cat`.
fn cat(dir: &str, device: &Path) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    for entry in fs::read_dir(device.join(dir)).unwrap() {
        let path = entry.unwrap().path();
        let output = Command::new("cat").arg(&path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let value = text.strip_suffix('\n').and_then(|text| text.parse().ok());
        let value = value.unwrap_or_else(|| panic!("{}: {text:?}", path.display()));
        values.insert(path.file_name().unwrap().to_string_lossy().into_owned(), value);
    }
    values
}

#[test]
fn another_process_reads_them_while_the_program_runs() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let launcher = Launcher::new("");
    let (_server, _client) = launcher.start_pair(STREAM, PORTS);
    let moving = |name: &str, floor: u64| {
        let all = devices(&launcher);
        let values = all.iter().map(|device| cat("ports/1/hw_counters", device)[name]);
        all.len() == 2 && values.max() > Some(floor)
    };
    wait_until("the sender counts", || moving("send_wrs", 1000));
    wait_until("the receiver counts", || moving("recv_wrs", 1000));
    let sent = devices(&launcher).iter().map(|d| cat("ports/1/hw_counters", d)["tx_bytes"]).max();
    wait_until("the count goes on", || moving("tx_bytes", sent.unwrap()));
}

#[test]
fn in_the_end_they_are_what_the_run_counted() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let launcher = Launcher::new("--keep --fault loss=1%,seed=1");
    let (server, client) = launcher.run_pair("ib_send_bw -c SRD -x 0 -F -s 1024 -n 5000", PORTS);
    assert_eq!((server.code, client.code), (0, 0), "{client}");
    let devices = devices(&launcher);
    assert_eq!(devices.len(), 2);
    let total = |name: &str| server.counter(name) + client.counter(name);
    let shown: Vec<_> = devices.iter().map(|device| cat("ports/1/hw_counters", device)).collect();
    assert_eq!(shown[0].len(), 23, "those of the driver, lifespan: {:?}", shown[0]);
    for name in shown[0].keys().filter(|name| *name != "lifespan") {
        assert_eq!(shown.iter().map(|values| values[name]).sum::<u64>(), total(name), "{name}");
    }
    assert!(total("retrans_pkts") > 0 && total("send_wrs") >= 5000, "{client}");
    let commands: Vec<_> = devices.iter().map(|device| cat("hw_counters", device)).collect();
    for values in &commands {
        assert_eq!(values.len(), 13, "{values:?}");
        assert!(values["submitted_cmds"] >= 4, "domain, region, queues: {values:?}");
        assert_eq!(values["submitted_cmds"], values["completed_cmds"]);
        assert_eq!(values["create_qp_err"], 0);
    }
}
