//! Scripts and programs that read `/sys/class/infiniband` and `/dev/infiniband` by their names.

use crate::harness::{Session, has};

/// What `words` print in a run of two devices; nothing is complained about.
fn output(words: &[&str]) -> String {
    let session = Session::new("");
    let mut command = session.command();
    command.args(["run", "--device", "a=127.0.0.1", "--device", "b=127.0.0.2,profile=efa1", "--"]);
    let output = command.args(words).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn scripts_see_the_devices_of_a_run() {
    assert_eq!(output(&["ls", "/sys/class/infiniband"]), "a\nb\n");
    assert_eq!(output(&["ls", "-l", "/sys/class/infiniband/"]).lines().count(), 3);
    assert_eq!(output(&["cat", "/sys/class/infiniband/b/ports/1/state"]), "4: ACTIVE\n");
    // The files of the shell's own, of its children, and of what it expands itself.
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
