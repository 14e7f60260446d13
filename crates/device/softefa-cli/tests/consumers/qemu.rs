//! A virtual machine of QEMU that moves from one process to another by RDMA while it runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::record::{Case, Consumer, EACH_FAULT};
use crate::harness::{
    Directions, LIMIT, Launcher, Running, exclusive, free_port, has, is_long, wait_until,
};

const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";
const MACHINE: &str = "qemu-system-x86_64 -machine q35,accel=tcg -m 64 -display none -nodefaults";
const MEMORY_BYTES: usize = 64 << 20;
/// The guest, which writes numbers over 448 KiB from 128 KiB on, one higher in each round, for
/// ever.
const GUEST: &[u8] = &[
    0x31, 0xC0, // xor ax, ax
    0xBA, 0x00, 0x20, // again: mov dx, 0x2000
    0x8E, 0xC2, // segment: mov es, dx
    0x31, 0xFF, // xor di, di
    0xB9, 0x00, 0x80, // mov cx, 0x8000
    0xF3, 0xAB, // rep stosw
    0x81, 0xC2, 0x00, 0x10, // add dx, 0x1000
    0x81, 0xFA, 0x00, 0x90, // cmp dx, 0x9000
    0x72, 0xED, // jb segment
    0x40, // inc ax
    0xEB, 0xE7, // jmp again
];
const WRITTEN_AT: usize = 0x20000;

/// The monitor of QEMU.
struct Monitor(BufReader<UnixStream>);

impl Monitor {
    fn open(path: &Path) -> Self {
        // The monitor accepts one connection at a time.
        let mut stream = None;
        wait_until("QEMU has its monitor", || {
            stream = UnixStream::connect(path).ok();
            stream.is_some()
        });
        let mut monitor = Self(BufReader::new(stream.unwrap()));
        monitor.next();
        monitor.ask("qmp_capabilities", &json!({}));
        monitor
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, command: &str, arguments: &Value) -> Value {
        let mut line = json!({"execute": command, "arguments": arguments}).to_string();
        line.push('\n');
        self.0.get_mut().write_all(line.as_bytes()).unwrap();
        loop {
            let said = self.next();
            if said.get("event").is_none() {
                let answer = said.get("return");
                return answer.unwrap_or_else(|| panic!("{command}: {said}")).clone();
            }
        }
    }

    /// Returns all of the memory of the machine.
    fn memory(&mut self, file: &Path) -> Vec<u8> {
        self.ask("pmemsave", &json!({"val": 0, "size": MEMORY_BYTES, "filename": file}));
        fs::read(file).unwrap()
    }
}

/// A machine with its monitor.
struct Host {
    process: Running,
    monitor: Monitor,
}

impl Host {
    fn start(launcher: &Launcher, name: &str, options: &str) -> Self {
        let path = launcher.runtime_dir().join(format!("{name}.monitor"));
        let monitor = format!("-qmp unix:{},server=on,wait=off", path.display());
        let process = launcher.start(name, &format!("{MACHINE} {monitor} {options}"));
        Self { process, monitor: Monitor::open(&path) }
    }

    fn end(mut self, case: &mut Case) {
        self.monitor.ask("quit", &json!({}));
        let outcome = self.process.wait(LIMIT);
        outcome.assert_clean();
        outcome.assert_moved(Directions::Both);
        case.add(&outcome);
    }
}

/// Writes a disk that starts [`GUEST`].
fn write_disk(path: &Path) {
    // A disk of a single sector is not booted.
    let mut disk = vec![0; 1 << 20];
    disk[..GUEST.len()].copy_from_slice(GUEST);
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    fs::write(path, disk).unwrap();
}

fn run(faults: &str, is_pinned: bool) {
    let pinned = if is_pinned { ", all memory registered" } else { "" };
    let what = format!("QEMU: a running machine moves{pinned}");
    let mut case = Case::new(&Consumer::debian("qemu-system-x86"), &what, faults);
    let launcher = case.launcher(DEVICE);
    let [disk, data, before, after]: [PathBuf; 4] =
        ["disk", "data", "before", "after"].map(|name| launcher.runtime_dir().join(name));
    write_disk(&disk);
    fs::write(&data, (0..4_000_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    let disk = format!("-drive file={},format=raw,if=ide,file.locking=off", disk.display());
    let address = format!("rdma:127.0.0.1:{}", free_port());
    let mut to = Host::start(&launcher, "to", &format!("{disk} -S -incoming {address}"));
    let loader = format!("-device loader,file={},addr=0x1000000,force-raw=on", data.display());
    let mut from = Host::start(&launcher, "from", &format!("{disk} {loader}"));
    let pin = json!([{"capability": "rdma-pin-all", "state": is_pinned}]);
    for host in [&mut to, &mut from] {
        host.monitor.ask("migrate-set-capabilities", &json!({"capabilities": pin}));
    }
    let written = launcher.runtime_dir().join("written");
    wait_until("the machine runs", || {
        let part = json!({"val": WRITTEN_AT, "size": 2, "filename": &written});
        from.monitor.ask("pmemsave", &part);
        fs::read(&written).unwrap() != [0, 0]
    });
    from.monitor.ask("migrate", &json!({"uri": address}));
    wait_until("the machine has moved", || {
        let moved = from.monitor.ask("query-migrate", &json!({}));
        assert_ne!(moved["status"], "failed", "{moved}");
        moved["status"] == "completed"
    });
    assert!(from.monitor.memory(&before) == to.monitor.memory(&after), "memory differs");
    from.end(&mut case);
    to.end(&mut case);
    case.pass();
}

#[test]
fn a_running_machine_moves() {
    let _one = exclusive();
    if is_long() && has("qemu-system-x86_64") {
        run("", true);
        run("", false);
        EACH_FAULT.iter().for_each(|faults| run(faults, false));
    }
}
