//! The information on a device that other processes can see while an unmodified program uses it.
#![expect(clippy::unwrap_used, reason = "a step that fails must fail the test")]

mod browser;
mod capture;
mod dissector;
mod fault;
mod goes_on;
#[path = "../harness/mod.rs"]
mod harness;
mod hw_counters;
mod live;
mod rdmacm;
mod roce;
mod sealed;
mod timeline;
mod top;
mod trace;
mod wires;
mod wireshark;

/// A stream of messages that takes longer than a test, which ends it.
const STREAM: &str = "ib_send_bw -c SRD -x 0 -F -s 4096 -D 60 -f 0";
const PORTS: [&str; 2] = ["-p", "-p"];
