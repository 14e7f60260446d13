//! Multicast groups: `mckey` of rdmacm-utils, unmodified.

use std::net::{IpAddr, Ipv6Addr};
use std::{fs, process};

use rustix::process::{Signal, kill_process};

use crate::harness::record::{Case, Consumer};
use crate::harness::{LIMIT, Launcher, Outcome, Running, exclusive, has, wait_until};
use crate::netns::{CLIENT, CLIENT_V6, Hosts, SERVER, SERVER_V6};

const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";
/// The UDP port of all groups.
const PORT: u16 = 4791;
const MESSAGES: u64 = 20;

fn group(last: u8) -> IpAddr {
    let [.., high, low] = process::id().to_be_bytes();
    IpAddr::from([239, high, low, last])
}

/// Returns the number of sockets that are members of `group` in the network namespace of `process`.
fn members(process: i32, group: IpAddr) -> usize {
    let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
    let (file, addr) = match group {
        IpAddr::V4(group) => ("udp", word(group.octets())),
        IpAddr::V6(group) => {
            let words = group.octets();
            let words = words.chunks_exact(4).filter_map(<[u8]>::first_chunk);
            ("udp6", words.map(|bytes| word(*bytes)).collect())
        }
    };
    let local = format!("{addr}:{PORT:04X}");
    let table = fs::read_to_string(format!("/proc/{process}/net/{file}")).unwrap_or_default();
    table.lines().filter(|line| line.split_whitespace().nth(1) == Some(&local)).count()
}

fn wait_for_members(of: &Running, group: IpAddr, count: usize) {
    let process = of.pid().as_raw_nonzero().get();
    wait_until(&format!("{count} members"), || members(process, group) == count);
}

fn mckey(launcher: &Launcher, name: &str, group: IpAddr, more: &str) -> Running {
    launcher.start(name, &format!("mckey -m {group} -C {MESSAGES} -S 1000 {more}"))
}

/// Checks that the receivers got each message once.
fn check(case: &mut Case, sender: &Outcome, receivers: &[Outcome]) {
    for side in receivers {
        side.assert_clean();
        assert!(side.stdout.contains("data transfers complete"), "{side}");
        assert_eq!(side.counter("rx_pkts"), MESSAGES, "{side}");
        assert_eq!((side.counter("rx_drops"), side.counter("recv_wrs")), (0, MESSAGES), "{side}");
        case.add(side);
    }
    sender.assert_clean();
    assert_eq!(sender.counter("tx_pkts"), MESSAGES, "{sender}");
    case.add(sender);
}

#[test]
fn mckey_reaches_every_member_on_a_machine() {
    let _one = exclusive();
    if !has("mckey") {
        return;
    }
    let consumer = Consumer::debian("rdmacm-utils");
    let mut case = Case::new(&consumer, "mckey, a sender and two receivers", "");
    let (launcher, group) = (case.launcher(DEVICE), group(1));
    let names = ["first", "second"];
    let receivers = names.map(|name| mckey(&launcher, name, group, "-b 127.0.0.1"));
    // A process that is killed meanwhile is no longer a member.
    let killed = mckey(&launcher, "killed", group, "-b 127.0.0.1");
    wait_for_members(&killed, group, 3);
    kill_process(killed.program_pid().unwrap(), Signal::KILL).unwrap();
    // The table is read through a process that lives, because one that has ended has none.
    wait_for_members(&receivers[0], group, 2);
    let sender = mckey(&launcher, "sender", group, "-s -b 127.0.0.1").wait(LIMIT);
    check(&mut case, &sender, &receivers.map(|one| one.wait(LIMIT)));
    case.pass();
}

/// The members join as a full member that only sends, in the port space of IPoIB, as one that does
/// not want to hear itself, and without an address of its own.
#[test]
fn mckey_joins_in_other_ways() {
    let _one = exclusive();
    if !has("mckey") {
        return;
    }
    let consumer = Consumer::debian("rdmacm-utils");
    for (index, more) in ["-o", "-p 0x2", "-l"].into_iter().enumerate() {
        let mut case = Case::new(&consumer, &format!("mckey {more}"), "");
        let (launcher, group) = (case.launcher(DEVICE), group(10 + index as u8));
        let space = more.strip_prefix("-o").unwrap_or(more);
        let receiver = mckey(&launcher, "receiver", group, space);
        wait_for_members(&receiver, group, 1);
        let sender = mckey(&launcher, "sender", group, &format!("-s {more}")).wait(LIMIT);
        if more == "-o" {
            assert_eq!(sender.counter("rx_pkts"), 0, "it only sends\n{sender}");
        }
        check(&mut case, &sender, &[receiver.wait(LIMIT)]);
        case.pass();
    }
}

#[test]
fn mckey_reaches_members_on_two_hosts() {
    let _one = exclusive();
    if !has("mckey") || !has("ip") {
        return;
    }
    let Some(hosts) = Hosts::new() else { return };
    let what = "mckey, receivers on the sender's host and another";
    reach_two_hosts(what, &hosts, [SERVER, CLIENT], group(20));
}

#[test]
fn mckey_reaches_members_over_ipv6() {
    let _one = exclusive();
    if !has("mckey") || !has("ip") {
        return;
    }
    let Some(hosts) = Hosts::new().filter(Hosts::add_ipv6) else { return };
    let [.., high, low] = process::id().to_be_bytes();
    let last = u16::from_be_bytes([high, low]);
    let group = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, last, 20).into();
    let what = "mckey over IPv6, receivers on the sender's host and another";
    reach_two_hosts(what, &hosts, [SERVER_V6, CLIENT_V6], group);
}

fn reach_two_hosts(what: &str, hosts: &Hosts, [server, client]: [&str; 2], group: IpAddr) {
    let mut case = Case::new(&Consumer::debian("rdmacm-utils"), what, "");
    let device = |addr| format!("--device roce0={addr},profile=roce");
    let [there, here] = [server, client].map(|addr| case.launcher(&device(addr)));
    let there = there.in_namespace(&hosts.names[0]);
    let here = here.in_namespace(&hosts.names[1]);
    let far = mckey(&there, "far", group, &format!("-b {server}"));
    let near = mckey(&here, "near", group, &format!("-b {client}"));
    wait_for_members(&far, group, 1);
    wait_for_members(&near, group, 1);
    let sender = mckey(&here, "sender", group, &format!("-s -b {client}")).wait(LIMIT);
    check(&mut case, &sender, &[near.wait(LIMIT), far.wait(LIMIT)]);
    case.pass();
}
