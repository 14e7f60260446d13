//! An unmodified librdmacm writes its commands to `Ids`: a preloaded file descriptor stands in for
//! `/dev/infiniband/rdma_cm`, and verbs that do nothing for a device. What its program sees is kept
//! in `librdmacm/transcript.txt` (release 44); `CM_BLESS=1` writes it anew.

use crate::common::process::World;
use cm::ids::ChannelId;
use cm::ucma::Errno;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/librdmacm");
/// How long a program waits for an event, in time that costs nothing.
const PATIENCE: Duration = Duration::from_secs(100);

/// The test's end of what stands in for the device.
struct Device {
    socket: UnixStream,
    world: World,
    channels: BTreeMap<u32, ChannelId>,
}

impl Device {
    fn number(&mut self) -> Option<u32> {
        let mut bytes = [0; 4];
        self.socket.read_exact(&mut bytes).ok()?;
        Some(u32::from_ne_bytes(bytes))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.number()? as usize];
        self.socket.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// One request of the program; `None` when it has ended.
    fn serve(&mut self) -> Option<()> {
        let mut kind = [0];
        self.socket.read_exact(&mut kind).ok()?;
        let fd = self.number()?;
        let bytes = self.bytes()?;
        let process = &mut self.world.processes[0];
        match &kind {
            b"o" => {
                let channel = process.ids.open();
                process.host.channels.resize(fd as usize + 1, channel);
                process.host.channels[fd as usize] = channel;
                self.channels.insert(fd, channel);
            }
            b"c" => {
                let channel = self.channels.remove(&fd).expect("an open descriptor");
                process.ids.close(self.world.now, &mut process.host, channel);
            }
            _ => {
                self.world.processes[0].host.value = self.bytes()?;
                self.command(self.channels[&fd], &bytes);
            }
        }
        Some(())
    }

    fn command(&mut self, channel: ChannelId, bytes: &[u8]) {
        let until = self.world.now + PATIENCE;
        let answer = loop {
            let process = &mut self.world.processes[0];
            let answer = process.ids.write(self.world.now, &mut process.host, channel, bytes);
            if answer != Err(Errno::EAGAIN) || self.world.now > until {
                break answer;
            }
            self.world.run(Duration::from_millis(100));
        };
        let (error, reply) = match answer {
            Ok(reply) => (0, reply),
            Err(errno) => (errno.0, None),
        };
        let (at, bytes) = reply.map(|reply| (reply.at, reply.bytes)).unwrap_or_default();
        let len = bytes.len() as u32;
        let parts = [&error.to_ne_bytes()[..], &at.to_ne_bytes(), &len.to_ne_bytes(), &bytes];
        self.socket.write_all(&parts.concat()).expect("the program waits for its answer");
    }
}

/// Compiles both C files; `None` when the machine has not what it takes.
fn compile(dir: &Path) -> Option<()> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let has = |file: &str| Path::new(file).exists();
    if !has("/usr/include/rdma/rdma_cma.h") || Command::new(&compiler).arg("-v").output().is_err() {
        println!("librdmacm-dev or the C compiler {compiler} is not installed");
        return None;
    }
    let build = |arguments: &[&str], source: &str, output: &str, libraries: &[&str]| {
        let mut command = Command::new(&compiler);
        command
            .args(["-std=gnu11", "-Wall", "-O1"])
            .args(arguments)
            .arg("-o")
            .arg(dir.join(output));
        command.arg(Path::new(SOURCES).join(source)).args(libraries);
        let done = command.output().expect("a compiler that was there");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    build(&["-shared", "-fPIC"], "preload.c", "preload.so", &["-ldl"]);
    build(&[], "program.c", "program", &["-lrdmacm", "-libverbs"]);
    Some(())
}

#[test]
fn librdmacm_takes_the_answers_for_the_kernels() {
    let dir = tempfile::tempdir().unwrap();
    if compile(dir.path()).is_none() {
        return;
    }
    let (socket, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new(dir.path().join("program"));
    command.env("LD_PRELOAD", dir.path().join("preload.so"));
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    let mut device = Device { socket, world: World::new(1), channels: BTreeMap::new() };
    while device.serve().is_some() {}
    let output = child.wait_with_output().unwrap();
    let transcript = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{transcript}");

    let record = Path::new(SOURCES).join("transcript.txt");
    if std::env::var_os("CM_BLESS").is_some() {
        std::fs::write(&record, transcript.as_bytes()).unwrap();
    }
    assert_eq!(transcript, std::fs::read_to_string(record).unwrap(), "CM_BLESS=1 takes it over");
    device.world.run(PATIENCE);
    let process = &device.world.processes[0];
    assert_eq!((process.ids.count(), process.ids.groups()), (0, 0));
    assert_eq!((process.ids.agent().connections(), process.ids.agent().listeners()), (0, 0));
    assert!(process.host.ports.is_empty());
}
