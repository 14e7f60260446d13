//! The connection manager's device as C programs and an unmodified librdmacm see it.

mod common;

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Run, library};
use softefa::gateway::Server;

const DEVICE: &str = "roce0=127.0.0.1,profile=roce";

fn run(name: &str, devices: &str, arguments: &[&str]) -> Run {
    run_with(name, devices, arguments, "")
}

/// Runs with `other` preloaded behind the library.
fn run_with(name: &str, devices: &str, arguments: &[&str], other: &str) -> Run {
    let mut preload = library().as_os_str().to_owned();
    preload.push(other);
    let program = common::compile(name, &["-lrdmacm", "-libverbs", "-lpthread"]);
    let program = program.unwrap_or_else(|error| panic!("{error}"));
    let env = [("LD_PRELOAD", &*preload), ("SOFTEFA_DEVICES", OsStr::new(devices))];
    common::run(&program, arguments, &env)
}

/// Runs a program that must succeed, and returns its standard error.
fn check(name: &str, devices: &str, arguments: &[&str]) -> String {
    let run = run(name, devices, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = (text(&run.output.stdout), text(&run.output.stderr));
    assert!(run.output.status.success(), "{name}: {}\n{said}{errors}", run.output.status);
    errors
}

/// CM-4.4: the message that the requester is ready may be lost.
#[test]
fn the_first_data_establishes_a_connection() {
    assert_eq!(check("rdmacm_rtu", DEVICE, &[]), "");
}

/// `SOFTEFA_SEED` chooses what is written; a failure prints it.
#[test]
fn the_device_is_a_file_that_takes_commands() {
    let said = check("rdmacm_file", DEVICE, &[]);
    let is_told = |line: &str| line.starts_with("softefa: process") && line.contains("forked");
    assert!(said.lines().all(is_told) && said.lines().count() == 1, "{said}");
}

#[test]
fn processes_connect_and_part_through_librdmacm() {
    assert_eq!(check("rdmacm_connect", DEVICE, &[]), "");
}

/// Every address is that of each RoCE device; an EFA has no connections to manage.
#[test]
fn each_roce_device_is_a_host_of_its_own() {
    let devices = "one=127.0.0.2,profile=roce,two=127.0.0.3,profile=roce,rdmap0s6=127.0.0.4";
    for ip in ["127.0.0.2", "127.0.0.3"] {
        assert_eq!(check("rdmacm_connect", devices, &[ip, "127.0.0.4"]), "", "{ip}");
    }
}

/// The gateway answers for processes that are gone, and where there is no listener.
#[test]
fn processes_connect_and_part_behind_a_gateway() {
    let at = IpAddr::from([127, 0, 0, 5]);
    let port = std::net::UdpSocket::bind((at, 0)).unwrap().local_addr().unwrap().port();
    let mut gateway = Server::open(&[at], port, false).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    let serving = std::thread::spawn(move || {
        while !told.load(Ordering::Relaxed) {
            gateway.turn(Duration::from_millis(10)).unwrap();
        }
        gateway.counts()
    });
    let device = format!("roce0={at},profile=roce,gateway={port}");
    let said = check("rdmacm_connect", &device, &[&at.to_string()]);
    is_over.store(true, Ordering::Relaxed);
    let counts = serving.join().unwrap();
    assert_eq!(said, "", "{counts:?}");
    // Three processes were killed. The others notified their peers themselves.
    assert!(counts.farewells >= 3 && counts.answered > 0, "{counts:?}");
}

#[test]
fn without_a_roce_device_there_is_no_connection_manager() {
    let run = run("rdmacm_file", "rdmap0s6=127.0.0.1,profile=efa2", &[]);
    let said = String::from_utf8_lossy(&run.output.stderr).into_owned();
    let has_none = std::fs::exists("/dev/infiniband/rdma_cm").is_ok_and(|is_there| !is_there);
    if has_none {
        assert!(said.contains("fds[i] >= 0") && said.contains("No such file"), "{said}");
    }
}

/// Noise, damaged messages and forged requests do not keep others from connecting; `SOFTEFA_SEED`
/// chooses them.
#[test]
fn connections_are_made_from_threads_and_under_attack() {
    assert_eq!(check("rdmacm_storm", DEVICE, &[]), "");
}

/// rsockets, by the library of librdmacm that puts them in the place of TCP.
#[test]
fn programs_of_tcp_take_the_device() {
    const RSPRELOAD: &str = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so";
    if !Path::new(RSPRELOAD).exists() {
        println!("SKIPPED, NOT TESTED: {RSPRELOAD} is missing (librdmacm1)");
        return;
    }
    let run = run_with("rdmacm_tcp", DEVICE, &[], &format!(" {RSPRELOAD}"));
    let said = String::from_utf8_lossy(&run.output.stderr);
    assert!(run.output.status.success() && said.is_empty(), "{}\n{said}", run.output.status);
    assert!(run.counter("recv_wrs") > 0 && run.counter("cm_tx_msgs") >= 4, "not the device");
}
