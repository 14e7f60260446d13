//! Processes of one machine that must not share memory reach each other over UDP without any
//! option.

use std::process::Command;

use crate::harness::{
    Directions, LIMIT, Launcher, exclusive, free_port, has, is_root, is_sealed, softefa,
};

/// The words that run a command like a container on the network of its host, with its own users,
/// processes, files and names.
const CONTAINER: &str =
    "unshare --user --map-root-user --pid --fork --mount --mount-proc --ipc --uts";
const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

/// Returns the packets of both ends that took memory, and the packets that were sent at all.
fn exchange(there: &str, here: &str) -> [u64; 2] {
    let [there, here] = [there, here].map(|within| match within {
        "" => Launcher::new("--wire auto"),
        within => Launcher::new("--wire auto").within(within),
    });
    let port = free_port();
    let line = format!("ib_send_lat -c SRD -x 0 -F -s 64 -n 2000 -p {port}");
    let mut server = there.start("server", &line);
    server.wait_until_listening(port);
    let client = here.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
    let sides = [server.wait(LIMIT), client];
    for side in &sides {
        side.assert_clean();
        side.assert_moved(Directions::Both);
    }
    ["tx_memory_pkts", "tx_pkts"].map(|name| sides.iter().map(|side| side.counter(name)).sum())
}

/// Returns true if `within` can start the program under test here; otherwise reports a skip.
fn can_start(within: &str) -> bool {
    let words: Vec<&str> = within.split_whitespace().collect();
    let tried = Command::new(words[0]).args(&words[1..]).arg(softefa()).arg("--version").output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("SKIPPED, NOT TESTED: `{within} {}` does not start", softefa().display());
    }
    can
}

#[test]
fn two_containers_and_a_container_and_its_host_take_udp() {
    let _one = exclusive();
    if !has("ib_send_lat") || !is_root("namespaces of users") || !can_start(CONTAINER) {
        return;
    }
    for there in [CONTAINER, ""] {
        let [in_memory, all] = exchange(there, CONTAINER);
        assert!(in_memory == 0 && all > 4000, "{in_memory} of {all}");
    }
}

#[test]
fn two_users_take_udp() {
    let _one = exclusive();
    // Another user cannot read the key of this one.
    if is_sealed()
        || !has("ib_send_lat")
        || !is_root("processes of another user")
        || !can_start(NOBODY)
    {
        return;
    }
    let [in_memory, all] = exchange("", NOBODY);
    assert!(in_memory == 0 && all > 4000, "{in_memory} of {all}");
    // The same program runs twice as that user, and uses memory.
    let [in_memory, all] = exchange(NOBODY, NOBODY);
    assert!(in_memory > all / 2, "{in_memory} of {all}");
}
