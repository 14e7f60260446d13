//! Captures of programs that start, run and end during the capture.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{LIMIT, Launcher, exclusive, free_port, has, wait_until};
use crate::roce::tshark;

/// A `softefa pcap` that ends with the test, even if that fails.
pub(crate) struct Capture {
    child: Child,
    file: PathBuf,
}

impl Capture {
    /// Returns when packets are captured.
    pub(crate) fn begin(launcher: &Launcher, file: PathBuf, key: Option<&PathBuf>) -> Self {
        let mut command = launcher.command();
        command.args(["pcap", "--write"]).arg(&file).stderr(Stdio::null());
        if let Some(key) = key {
            command.arg("--key-file").arg(key);
        }
        let capture = Self { child: command.spawn().unwrap(), file };
        wait_until("it is captured", || capture.file.exists());
        capture
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends the capture, and returns the file once it is complete.
    pub(crate) fn end(mut self) -> PathBuf {
        self.signal(Signal::INT);
        assert!(self.child.wait().unwrap().success());
        std::mem::take(&mut self.file)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the number of connection requests that a captured program received `after` a time.
fn requests_received(file: &Path, after: SystemTime) -> usize {
    let after_s = after.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let request = "infiniband.mad.attributeid == 0x10 && frame.packet_flags_direction == 1";
    let filter = format!("{request} && frame.time_epoch > {after_s:.6}");
    tshark(file, &["-Y", &filter]).lines().count()
}

/// A capture that had no processor while a program ended, as on a busy machine, must still contain
/// the last packets of that program.
#[test]
fn what_a_program_sends_before_it_ends_is_captured() {
    let _one = exclusive();
    if !has("rping") || !has("tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let launcher = Launcher::new("--device roce0=127.0.0.1,profile=roce");
    let capture = Capture::begin(&launcher, dir.path().join("live.pcapng"), None);
    // Programs record for two seconds after the last look of any reader, and this reader keeps
    // looking.
    let other = Capture::begin(&launcher, dir.path().join("other.pcapng"), None);
    let port = free_port();
    let mut server = launcher.start("server", &format!("rping -s -P -a 127.0.0.1 -p {port}"));
    server.wait_until_bound(port);
    let client = |name: &str| {
        let line = format!("rping -c -a 127.0.0.1 -C 5 -p {port}");
        launcher.start(name, &line).wait(LIMIT).assert_clean();
    };
    let mut clients = 0;
    // The first requests may come before the capture has found the server.
    wait_until("the server is captured", || {
        clients += 1;
        client(&format!("client{clients}"));
        [&capture, &other].iter().all(|one| requests_received(&one.file, UNIX_EPOCH) > 0)
    });
    capture.signal(Signal::STOP);
    let stopped_at = SystemTime::now();
    client("last");
    kill_process(server.pid(), Signal::TERM).unwrap();
    assert_eq!(server.wait(LIMIT).code, 143);
    capture.signal(Signal::CONT);
    let file = capture.end();
    assert_eq!(requests_received(&file, stopped_at), 1, "of the last client");
}
