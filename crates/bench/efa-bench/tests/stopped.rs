//! Sessions that are stopped, as by a shell's job control or with a container.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::{Server, command};
use rustix::process::{Pid, Signal, kill_process};

/// The silence that is tolerated, in seconds.
const PATIENCE_S: &str = "3";
const STOPPED: Duration = Duration::from_secs(5);
/// Longer than a client takes to look whether there is an answer. One that is slower passes, too.
const A_WHILE: Duration = Duration::from_millis(300);

fn tell(program: &Child, signal: Signal) {
    kill_process(Pid::from_child(program), signal).expect("it is there");
}

/// The time in which a program does not run is no silence of its peer.
#[test]
fn a_session_that_was_stopped_for_longer_than_its_patience_goes_on() {
    let server = Server::start();
    let line = format!("run latency -H 127.0.0.1 --port {} --fabric tcp -s 8,16", server.port);
    let manner = format!("-t 1.5 --blocks 1 --timeout {PATIENCE_S} --no-host-checks");
    let mut client = command(format!("{line} {manner}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("client starts");
    let mut lines = BufReader::new(client.stderr.take().expect("piped")).lines();
    let first = lines.next().expect("a progress line").expect("text");
    assert!(first.starts_with("[1/2]"), "{first}");
    // The second point runs soon. The client is stopped while it waits for an answer.
    std::thread::sleep(A_WHILE);
    tell(&server.child, Signal::STOP);
    std::thread::sleep(A_WHILE);
    tell(&client, Signal::STOP);
    std::thread::sleep(STOPPED);
    tell(&client, Signal::CONT);
    std::thread::sleep(A_WHILE);
    tell(&server.child, Signal::CONT);
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let status = client.wait().expect("client ends");
    assert!(status.success(), "{status}: {rest:?}");
}
