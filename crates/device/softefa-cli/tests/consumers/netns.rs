//! Two hosts with a link between them: network namespaces that a test makes and removes.

use std::process::Command;

use crate::harness::{Directions, LIMIT, Launcher, exclusive, has, has_ipv6, is_root, wait_until};

pub(crate) const SERVER: &str = "10.77.0.1";
pub(crate) const CLIENT: &str = "10.77.0.2";
/// The IPv6 addresses of the same two hosts.
pub(crate) const SERVER_V6: &str = "fd77::1";
pub(crate) const CLIENT_V6: &str = "fd77::2";
/// A port of the hosts, all of whose ports are free, because they are the test's own.
const PORT: u16 = 18515;

/// Two hosts on a 1,500-byte link.
pub(crate) struct Hosts {
    pub(crate) names: [String; 2],
}

impl Hosts {
    /// Makes the hosts; returns `None`, and reports a skip, without root.
    pub(crate) fn new() -> Option<Self> {
        if !is_root("network namespaces") {
            return None;
        }
        let names = ["a", "b"].map(|side| format!("softefa-{}-{side}", std::process::id()));
        let [server, client] = &names;
        ip(&format!("netns add {server}"));
        // From here on, dropping removes what exists.
        let hosts = Self { names: names.clone() };
        ip(&format!("netns add {client}"));
        ip(&format!(
            "link add eth0 netns {server} mtu 1500 type veth peer name eth0 netns {client} mtu 1500"
        ));
        for (name, addr) in [(server, SERVER), (client, CLIENT)] {
            ip(&format!("-n {name} addr add {addr}/24 dev eth0"));
            ip(&format!("-n {name} link set eth0 up"));
            ip(&format!("-n {name} link set lo up"));
        }
        Some(hosts)
    }

    /// Adds IPv6 addresses to the hosts; returns false, and reports a skip, if the machine has no
    /// IPv6.
    pub(crate) fn add_ipv6(&self) -> bool {
        if !has_ipv6() {
            return false;
        }
        for (name, addr) in self.names.iter().zip([SERVER_V6, CLIENT_V6]) {
            // No other host can have the address, which the kernel would check for a second.
            ip(&format!("-n {name} addr add {addr}/64 dev eth0 nodad"));
        }
        true
    }

    fn launchers(&self) -> [Launcher; 2] {
        let launcher = |name: &String, addr| {
            Launcher::new(&format!("--device rdmap0s6={addr}")).in_namespace(name)
        };
        [launcher(&self.names[0], SERVER), launcher(&self.names[1], CLIENT)]
    }

    fn cut_link(&self) {
        ip(&format!("-n {} link set eth0 down", self.names[0]));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            // A namespace that was never made cannot be removed, which does not matter.
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn ip(line: &str) {
    let status = Command::new("ip").args(line.split_whitespace()).status().unwrap();
    assert!(status.success(), "ip {line}");
}

#[test]
fn messages_fit_a_1500_byte_link() {
    let _one = exclusive();
    if !has("ib_send_bw") || !has("ip") {
        return;
    }
    let Some(hosts) = Hosts::new() else { return };
    let [there, here] = hosts.launchers();
    let line = format!("ib_send_bw -c SRD -x 0 -F -s 1024 -n 20000 -p {PORT}");
    let mut server = there.start("server", &line);
    server.wait_until_listening(PORT);
    let client = here.start("client", &format!("{line} {SERVER}")).wait(LIMIT);
    for side in [&client, &server.wait(LIMIT)] {
        assert_eq!(side.code, 0, "{side}");
        side.assert_moved(Directions::Both);
        assert_eq!(side.counter("tx_errors"), 0, "a datagram was too long for the link\n{side}");
    }
}

/// The link carries 1,500 bytes, but the route behind it fewer, so that the message must end with
/// an error.
#[test]
fn a_message_too_long_for_the_way_is_an_error() {
    let _one = exclusive();
    if !has("ib_send_bw") || !has("ip") {
        return;
    }
    let Some(hosts) = Hosts::new() else { return };
    let route = format!("-n {} route change 10.77.0.0/24 dev eth0 mtu lock 1000", hosts.names[1]);
    ip(&route);
    let [there, here] = hosts.launchers();
    let line = format!("ib_send_bw -c SRD -x 0 -F -s 1024 -n 1000 -p {PORT}");
    let mut server = there.start("server", &line);
    server.wait_until_listening(PORT);
    let client = here.start("client", &format!("{line} {SERVER}")).wait(LIMIT);
    assert_ne!(client.code, 0, "{client}");
    let told = format!("{}{}", client.stdout, client.stderr);
    assert!(told.contains("syndrom 0x6"), "not told that the length is the reason\n{client}");
}

#[test]
fn a_link_that_is_cut_ends_the_sender() {
    let _one = exclusive();
    if !has("ib_send_bw") || !has("ip") {
        return;
    }
    let Some(hosts) = Hosts::new() else { return };
    let [there, here] = hosts.launchers();
    let line = format!("ib_send_bw -c SRD -x 0 -F -s 1024 -D 600 -p {PORT}");
    let mut server = there.start("server", &line);
    server.wait_until_listening(PORT);
    let client = here.start("client", &format!("{line} {SERVER}"));
    wait_until("the transfer is under way", || here.live_tx_pkts() > 2_000);
    hosts.cut_link();
    // The device gives up a silent peer after 8 s.
    let client = client.wait(LIMIT);
    assert_ne!(client.code, 0, "the client took a dead link for a success\n{client}");
    assert_eq!(client.counter("unresponsive_remote_events"), 1, "{client}");
}
