//! Scripts and programs that read `/sys/class/infiniband` and `/dev/infiniband` by their names.

use crate::harness::{Launcher, has};

/// Returns the output of `words` in a run of two devices, without any complaint.
fn output(words: &[&str]) -> String {
    output_with(["a=127.0.0.1", "b=127.0.0.2,profile=efa1"], words)
}

/// Returns the output in a run in which one of the devices is a RoCE device.
fn output_with_roce(words: &[&str]) -> String {
    output_with(["rdmap0s6=127.0.0.1", "roce0=127.0.0.2,profile=roce,rate=50"], words)
}

fn output_with(devices: [&str; 2], words: &[&str]) -> String {
    let launcher = Launcher::new("");
    let mut command = launcher.command();
    command.arg("run").args(devices.map(|device| format!("--device={device}"))).arg("--");
    let output = command.args(words).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn scripts_see_the_devices_of_a_run() {
    assert_eq!(output(&["ls", "/sys/class/infiniband"]), "a\nb\n");
    assert_eq!(output(&["ls", "-l", "/sys/class/infiniband/"]).lines().count(), 3);
    assert_eq!(output(&["cat", "/sys/class/infiniband/b/ports/1/state"]), "4: ACTIVE\n");
    // The files are opened by the shell itself, by its children, and by its expansions.
    let script = "read gid < /sys/class/infiniband/b/ports/1/gids/0; echo $gid; \
        for device in /sys/class/infiniband/*; do cat $device/device/device; done; \
        test -c /dev/infiniband/uverbs1 && test ! -e /dev/infiniband/uverbs2 && echo devices; \
        test -d /sys/class/net/lo && test ! -e /sys/class/infiniband/c && echo others";
    let expected = "fe80:0000:0000:0000:0645:4641:7f00:0002\n0xefa2\n0xefa1\ndevices\nothers\n";
    for shell in ["sh", "bash"] {
        assert_eq!(output(&[shell, "-c", script]), expected, "{shell}");
    }
}

#[test]
fn python_sees_the_devices_of_a_run() {
    if !has("python3") {
        return;
    }
    let script = "import os, glob, pathlib\n\
        top = '/sys/class/infiniband'\n\
        assert sorted(os.listdir(top)) == ['a', 'b'] == sorted(e.name for e in os.scandir(top))\n\
        assert len(glob.glob(top + '/*/ports/1/gids/*')) == 2\n\
        assert pathlib.Path(top, 'b', 'ports', '1', 'state').read_text() == '4: ACTIVE\\n'\n\
        assert os.path.realpath(top + '/b/device').endswith('/0000:01:00.0')\n\
        print('seen')";
    assert_eq!(output(&["python3", "-c", script]), "seen\n");
}

#[test]
fn scripts_see_what_a_roce_device_shows() {
    let script = "cd /sys/class/infiniband/roce0; cat node_type ports/1/rate ports/1/link_layer \
        ports/1/gid_attrs/types/0 ports/1/gid_attrs/ndevs/0 ports/1/pkeys/0 ports/1/hw_counters/rdma_sends \
        ports/1/counters/port_xmit_data; ls device/net; cat device/vendor device/numa_node";
    let expected =
        "1: CA\n50 Gb/sec (2X EDR)\nEthernet\nRoCE v2\nlo\n0xffff\n0\n0\nlo\n0x5345\n-1\n";
    assert_eq!(output_with_roce(&["sh", "-c", script]), expected);
    let manager = "/sys/class/misc/rdma_cm/abi_version";
    assert_eq!(output_with_roce(&["cat", manager]), "4\n");
    let verbs = ["cat", "/sys/class/infiniband_verbs/uverbs1/ibdev"];
    assert_eq!(output_with_roce(&verbs), "roce0\n");
    let script = format!("test ! -e {manager} && test -d /sys/class/misc && echo none");
    assert_eq!(output(&["sh", "-c", &script]), "none\n", "no device needs it");
}

/// eRPC, 3FS and the tests of pyverbs find the network device of a device in this way.
#[test]
fn python_finds_the_network_device_of_a_roce_device() {
    if !has("python3") {
        return;
    }
    let script = "import os, pathlib\n\
        device = pathlib.Path('/sys/class/infiniband/roce0')\n\
        assert os.listdir(device / 'device' / 'net') == ['lo']\n\
        assert os.listdir('/sys/class/infiniband/roce0/device/net/') == ['lo']\n\
        assert (device / 'ports/1/gid_attrs/types/0').read_text() == 'RoCE v2\\n'\n\
        assert (device / 'ports/1/gids/0').read_text().endswith(':ffff:7f00:0002\\n')\n\
        assert not (device / 'ports/1/gids/1').exists()\n\
        print('seen')";
    assert_eq!(output_with_roce(&["python3", "-c", script]), "seen\n");
}

/// Two tools of infiniband-diags: one in C over libibumad, one a script.
#[test]
fn ibstat_and_ibstatus_show_a_roce_device() {
    if !has("ibstat") || !has("ibstatus") {
        return;
    }
    let text = output_with_roce(&["ibstat", "roce0"]);
    for line in ["State: Active", "Physical state: LinkUp", "Rate: 50", "Link layer: Ethernet"] {
        assert!(text.lines().any(|shown| shown.trim() == line), "no '{line}' in\n{text}");
    }
    let text = output_with_roce(&["ibstatus", "roce0"]);
    for word in ["4: ACTIVE", "50 Gb/sec (2X EDR)", "0000:0000:0000:0000:0000:ffff:7f00:0002"] {
        assert!(text.contains(word) && !text.contains("unknown"), "{text}");
    }
}
