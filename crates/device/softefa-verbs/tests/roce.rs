//! RoCE devices: C programs against the system's headers, and the tools of distributions.

mod common;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Output;

use common::library;

/// A device with the default attributes of a port.
const PLAIN: &str = "roce0=127.0.0.3,profile=roce";

/// Runs a program with these devices.
fn run(program: &Path, args: &[&str], devices: &str, env: &[(&str, &str)]) -> Output {
    let ours = [("LD_PRELOAD", library().as_os_str()), ("SOFTEFA_DEVICES", OsStr::new(devices))];
    let theirs = env.iter().map(|(name, value)| (*name, OsStr::new(*value)));
    common::run(program, args, &theirs.chain(ours).collect::<Vec<_>>()).output
}

/// Returns the output of a program that must succeed without warnings.
fn text_of(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && complained.is_empty(),
        "{}\n{said}{complained}",
        output.status
    );
    said
}

/// Compiles and runs a C program.
fn check(name: &str, devices: &str, env: &[(&str, &str)]) {
    let libraries = ["-lefa", "-libverbs", "-lpthread", "-ldl"];
    let program = common::compile(name, &libraries).unwrap_or_else(|error| panic!("{error}"));
    text_of(&run(&program, &[], devices, env));
}

#[test]
fn a_roce_device_says_what_it_is() {
    let expect = |gids, vendor, part, mtu, width, speed| {
        [
            ("EXPECT_GIDS", gids),
            ("EXPECT_VENDOR", vendor),
            ("EXPECT_PART", part),
            ("EXPECT_MTU_CODE", mtu),
            ("EXPECT_WIDTH", width),
            ("EXPECT_SPEED", speed),
        ]
    };
    check("roce", PLAIN, &expect("1", "0x025345", "1", "5", "2", "32"));
    let chosen = "roce0=127.0.0.3,profile=rxe,mtu=1024,rate=25,gids=4";
    check("roce", chosen, &expect("4", "0xffffff", "0", "3", "1", "32"));
}

#[test]
fn registrations_windows_and_queues_change_as_programs_ask() {
    check("regions", PLAIN, &[]);
    check("regions", "rdmap0s6=127.0.0.3", &[]);
}

#[test]
fn a_word_of_the_peer_is_written_in_one_step() {
    check("atomic_write", PLAIN, &[]);
    check("atomic_write", PLAIN, &[("SOFTEFA_WIRE", "udp")]);
}

#[test]
fn bytes_of_a_region_may_have_other_names_than_their_addresses() {
    check("iova", PLAIN, &[]);
    check("iova", PLAIN, &[("SOFTEFA_WIRE", "udp")]);
}

#[test]
fn sends_end_while_their_receiver_calls_something_else() {
    for env in [&[][..], &[("SOFTEFA_WIRE", "udp")]] {
        check("held", PLAIN, env);
        let on_efa: Vec<_> = env.iter().copied().chain([("IS_EFA", "1")]).collect();
        check("held", "rdmap0s6=127.0.0.3", &on_efa);
    }
}

#[test]
fn members_of_groups_get_messages_and_say_when() {
    check("groups", PLAIN, &[]);
    check("groups", "rdmap0s6=127.0.0.3", &[]);
}

#[test]
fn shared_receive_queues_tell_of_their_limit() {
    check("srq", PLAIN, &[]);
    check("srq", "rdmap0s6=127.0.0.3", &[]);
}

/// Runs `mistakes` with SOFTEFA_LINT set to `lint`, and returns the lines.
fn mistakes(lint: &str) -> Vec<String> {
    let program =
        common::compile("mistakes", &["-lefa", "-libverbs"]).unwrap_or_else(|e| panic!("{e}"));
    let output = run(&program, &[], PLAIN, &[("SOFTEFA_LINT", lint)]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{said}", output.status);
    said.lines().map(str::to_owned).collect()
}

#[test]
fn mistakes_are_named_once_to_who_wants_to_know() {
    let lines = mistakes("1");
    for expected in [
        "ibv_modify_qp was refused: the address vector has no global routing header; set is_global",
        "min_rnr_timer = 0 means 655.36 ms",
        "timeout = 0 means for ever",
        "sgid_index = 0 is RoCE v2 here, but often RoCE v1",
        "more sends in a row without IBV_SEND_SIGNALED than the 8 that its queue holds",
        "a message of 127.0.0.3 found no receive",
        "(vendor_err 10): the peer had no receive posted",
        "the peer may not write 8 bytes at",
        "its access flags do not permit",
        "the peer fills packets with 1024 bytes, and path_mtu here is 512",
        "a completion queue of 1 entries holds",
    ] {
        assert!(lines.iter().any(|line| line.contains(expected)), "no '{expected}' in {lines:#?}");
    }
    for (at, line) in lines.iter().enumerate() {
        assert!(line.starts_with("softefa: lint: "), "{line}");
        assert!(!lines[..at].contains(line), "said twice: {line}");
    }
    assert_eq!(mistakes("0"), [""; 0], "nobody asked");
}

/// With `SOFTEFA_FAULT` packets in the queues are repeated, and the program sees the same results,
/// including the reason of a refusal (RC-6.3).
#[test]
fn xrc_domains_queues_and_targets_are_those_of_the_headers() {
    check("xrc", PLAIN, &[]);
    for seed in 1..=8 {
        check("xrc", PLAIN, &[("SOFTEFA_FAULT", &format!("loss=20%,seed={seed}"))]);
    }
    check("xrc", "rdmap0s6=127.0.0.3", &[]);
}

#[test]
fn debians_ibv_devinfo_sees_a_roce_device() {
    let output = run(Path::new("ibv_devinfo"), &["-v"], PLAIN, &[]);
    let text = text_of(&output);
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "hca_id: roce0",
        "transport: InfiniBand (0)",
        "vendor_id: 0x25345",
        "vendor_part_id: 1",
        "max_qp: 65535",
        "atomic_cap: ATOMIC_GLOB (2)",
        "phys_port_cnt: 1",
        "state: PORT_ACTIVE (4)",
        "max_mtu: 4096 (5)",
        "active_mtu: 4096 (5)",
        "link_layer: Ethernet",
        "max_msg_sz: 0x80000000",
        "active_width: 4X (2)",
        "active_speed: 25.0 Gbps (32)",
        "phys_state: LINK_UP (5)",
        "GID[ 0]: ::ffff:127.0.0.3, RoCE v2",
    ] {
        assert!(lines.iter().any(|line| line == expected), "no '{expected}' in\n{text}");
    }
    // The tool of rdma-core 44 does not know ATOMIC WRITE and FLUSH.
    let known: String =
        lines.iter().filter(|line| !line.contains("0x14000000000")).cloned().collect();
    for word in ["Unknown", "invalid"] {
        assert!(!known.contains(word), "{text}");
    }
}

#[test]
fn an_efa_and_a_roce_device_stand_in_one_list() {
    let both = "rdmap0s6=127.0.0.1,roce0=127.0.0.1,profile=roce";
    let text = text_of(&run(Path::new("ibv_devices"), &[], both, &[]));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let guid_of = |name: &str| rows.iter().find(|row| row.first() == Some(&name)).map(|row| row[1]);
    assert_eq!(guid_of("rdmap0s6"), Some("064546417f000001"), "{text}");
    assert_eq!(guid_of("roce0"), Some("025345557f000001"), "{text}");
    let again = text_of(&run(Path::new("ibv_devices"), &[], both, &[]));
    assert_eq!(again, text, "the same after every start");
}
