//! `softefa gateway` from the command line.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use softefa::gateway::{Gateway, GatewayError, RegisteredSocket, SocketKind};

use crate::fail;
use crate::harness::{Launcher, has, is_root, softefa, wait_until};

const ADDR: &str = "127.0.93.1";

/// Returns a UDP port that is free at [`ADDR`].
fn free() -> String {
    let socket = UdpSocket::bind((ADDR, 0)).unwrap();
    socket.local_addr().unwrap().port().to_string()
}

#[test]
fn what_cannot_be_served_is_one_line() {
    let holder = UdpSocket::bind((ADDR, 0)).unwrap();
    let taken = holder.local_addr().unwrap().port().to_string();
    let free = free();
    let behind = format!("roce0={ADDR},profile=roce,gateway={free}");
    let efa = format!("rdmap0s6={ADDR},gateway={free}");
    let cases: [(&[&str], &[&str]); 9] = [
        (&["gateway", "--address", ADDR, "--port", &taken], &[&taken, ADDR, "taken", "rxe"]),
        (&["gateway", "--address", "192.0.2.1", "--port", &free], &["192.0.2.1", "ip addr"]),
        (&["gateway", "--address", "2001:db8::1", "--port", &free], &["2001:db8::1", "ip addr"]),
        (&["gateway", "--address", "localhost"], &["localhost", "--address"]),
        (&["gateway", "--port", "0"], &["0", "--port"]),
        (
            &["gateway", "--address", ADDR, "--port", &free, "--counters", "/nonexistent/c"],
            &["/nonexistent/c"],
        ),
        (&["run", "--device", &behind, "--", "true"], &["roce0", &free, "softefa gateway"]),
        (&["run", "--device", &efa, "--", "true"], &["rdmap0s6", "gateway=", "profile=roce"]),
        (
            &["run", "--device", "r=127.0.0.1,profile=roce,gateway=x", "--", "true"],
            &["'x'", "4791"],
        ),
    ];
    for (args, words) in cases {
        let (code, text) = fail(args);
        assert_eq!((code, text.lines().count()), (125, 1), "{args:?}: {text}");
        for word in words {
            assert!(text.contains(word), "{args:?} does not say {word}: {text}");
        }
    }
}

/// Neither a full disk nor a directory that another user removes ends the connections of programs,
/// and root does not replace a device by a file.
#[test]
fn counters_that_cannot_be_written_any_more_end_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let device = dir.path().join("device");
    symlink("/dev/null", &device).unwrap();
    let (code, text) = {
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let mut child = start(&folder, &[], &free());
        fs::remove_dir_all(&folder).unwrap();
        let said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let lines: Vec<_> = said.take(2).collect();
        fs::create_dir(&folder).unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        (child.wait().unwrap().code(), lines.join("\n"))
    };
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("gateway.json") && text.contains("goes on"), "{text}");
    let mut command = Command::new(softefa());
    command.args(["gateway", "--address", ADDR, "--port", &free(), "--counters"]);
    let mut child = command.arg(&device).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines().next();
    assert!(said.unwrap().unwrap().contains("gateway"), "it serves");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read_link(&device).unwrap(), Path::new("/dev/null"));
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

/// A pipe that is not read neither stops the packets of programs nor delays SIGTERM.
#[test]
fn who_does_not_read_the_counters_holds_up_nothing() {
    let (dir, port) = (tempfile::tempdir().unwrap(), free());
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = Command::new(softefa());
    command.args(["gateway", "--stats", "--address", ADDR, "--port", &port, "--counters"]);
    let child = command.arg(&pipe).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a program is served", || admitted(&port).is_ok());
    let told = end(child);
    assert!(told.contains("pipe; the gateway goes on"), "{told}");
}

/// The exit code is not that of a failure to serve, and `--stats` prints its table.
#[test]
fn counters_that_cannot_be_written_at_the_end_do_not_hide_the_others() {
    let (dir, port) = (tempfile::tempdir().unwrap(), free());
    let folder = dir.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let gateway = start(&folder, &[], &port);
    let peer = UdpSocket::bind((ADDR, 0)).unwrap();
    peer.send_to(b"no packet", format!("{ADDR}:{port}")).unwrap();
    wait_until("it is counted", || {
        let text = fs::read_to_string(folder.join("gateway.json")).unwrap();
        text.contains("\"drop_malformed\":1")
    });
    fs::remove_dir_all(&folder).unwrap();
    let told = end(gateway);
    assert!(told.contains("softefa: drop_malformed 1\n"), "{told}");
    assert_eq!(told.matches("cannot be written").count(), 1, "{told}");
}

/// Starts a gateway by `within`, which writes its counters to `gateway.json` in `dir` when it
/// serves.
fn start(dir: &Path, within: &[&str], port: &str) -> Child {
    let counters = dir.join("gateway.json");
    let mut command = Command::new("env");
    command.args(within).arg(softefa());
    command.args(["gateway", "--stats", "--address", ADDR, "--port", port, "--counters"]);
    let child = command.arg(&counters).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the gateway serves", || counters.exists());
    child
}

fn end(child: Child) -> String {
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_was_dropped_is_counted_and_told() {
    let (dir, port) = (tempfile::tempdir().unwrap(), free());
    let gateway = start(dir.path(), &[], &port);
    let peer = UdpSocket::bind((ADDR, 0)).unwrap();
    peer.send_to(b"no packet", format!("{ADDR}:{port}")).unwrap();
    let counters = || -> Value {
        let text = fs::read_to_string(dir.path().join("gateway.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    wait_until("it is counted", || counters()["counters"]["drop_malformed"] == 1);
    assert_eq!(counters()["addresses"], serde_json::json!([ADDR]));
    let told = end(gateway);
    assert!(told.contains("softefa: drop_malformed 1\n"), "{told}");
    assert!(told.contains(&format!("gateway of UDP port {port} at {ADDR}\n")), "{told}");
    assert_eq!(counters()["counters"]["rx_bytes"], 9);
}

/// Admits a program with a socket of its own.
fn admitted(port: &str) -> Result<(UdpSocket, RegisteredSocket), GatewayError> {
    let gateway = Gateway::connect(ADDR.parse().unwrap(), port.parse().unwrap())?;
    let socket = UdpSocket::bind((ADDR, 0)).unwrap();
    let at = socket.local_addr().unwrap();
    let registered = gateway.register(at, socket.as_fd(), SocketKind::QueuePair)?;
    Ok((socket, registered))
}

/// A refusal must name the lack of descriptors, not an unbound socket.
#[test]
fn descriptors_are_used_up_before_a_program_is_refused() {
    const PROGRAMS: usize = 80;
    for (limit, expected) in [("-Sn 40", None), ("-n 40", Some("no file descriptor left"))] {
        let (dir, port) = (tempfile::tempdir().unwrap(), free());
        let script = format!("ulimit {limit}; exec \"$@\"");
        let gateway = start(dir.path(), &["sh", "-c", &script, "-"], &port);
        let (mut served, mut refused) = (Vec::new(), None);
        while served.len() < PROGRAMS && refused.is_none() {
            match admitted(&port) {
                Ok(program) => served.push(program),
                Err(error) => refused = Some(error.to_string()),
            }
        }
        match (&refused, expected) {
            (None, None) => {}
            (Some(why), Some(words)) => assert!(why.contains(words), "{why}"),
            _ => panic!("ulimit {limit}: {} are served, then {refused:?}", served.len()),
        }
        end(gateway);
    }
}

#[test]
fn nobody_trusts_another_users_gateway() {
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    if !has("setpriv") || !is_root("processes of another user") {
        return;
    }
    // The directory of the gateway is writable for everyone.
    let (launcher, port) = (Launcher::new("").within("env"), free());
    let gateway = start(launcher.runtime_dir(), &nobody, &port);
    let device = format!("roce0={ADDR},profile=roce,gateway={port}");
    let (code, text) = fail(&["run", "--device", &device, "--", "true"]);
    assert_eq!((code, text.lines().count()), (125, 1), "{text}");
    assert!(text.contains("65534") && text.contains(&port), "{text}");
    end(gateway);
}
