//! C programs against the system's headers and libraries, run on this library by preloading it.
//!
//! The programs check what they see and exit with 1 at the first error. Programs that send must
//! also have moved the device's packet counters.

mod common;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use common::{Run, library};

/// Compiles a program that uses both libraries as usual.
fn compile(name: &str) -> PathBuf {
    common::compile(name, &["-lefa", "-libverbs", "-lpthread", "-ldl"])
        .unwrap_or_else(|error| panic!("{error}"))
}

fn run(name: &str, env: &[(&str, &str)]) -> Run {
    let preload = ("LD_PRELOAD", library().as_os_str());
    let env = env.iter().map(|(name, value)| (*name, OsStr::new(*value))).chain([preload]);
    common::run(&compile(name), &[], &env.collect::<Vec<_>>())
}

/// Runs a program that must succeed silently.
fn check(name: &str, env: &[(&str, &str)]) -> Run {
    let run = run(name, env);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        run.output.status.success() && run.output.stderr.is_empty(),
        "{name}: {}\n{}{}",
        run.output.status,
        text(&run.output.stdout),
        text(&run.output.stderr),
    );
    run
}

fn check_with_packets(name: &str) {
    let run = check(name, &[]);
    assert!(run.counter("tx_pkts") > 0, "{name} never touched the device");
}

/// Like [`check_with_packets`], for a program whose children use what they inherited.
fn check_telling_children(name: &str) {
    let run = run(name, &[]);
    let said = String::from_utf8_lossy(&run.output.stderr);
    assert!(run.output.status.success(), "{}\n{said}", run.output.status);
    assert!(said.lines().all(|line| line.starts_with("softefa: process")), "{said}");
    assert!(run.counter("tx_pkts") > 0, "{name} never touched the device");
}

#[test]
fn layouts_are_those_of_the_headers() {
    compile("layout");
}

#[test]
fn device_says_what_an_efa_says() {
    check("attributes", &[("SOFTEFA_PROFILE", "efa0"), ("EXPECT_PART", "0xefa0")]);
    check("attributes", &[("SOFTEFA_PROFILE", "efa2"), ("EXPECT_PART", "0xefa2")]);
}

#[test]
fn device_file_is_there_for_who_asks() {
    check("devnode", &[]);
}

/// NCCL, UCX, Mooncake and UCCL open files of sysfs by their literal names.
#[test]
fn sysfs_is_read_by_its_literal_paths() {
    check("paths", &[]);
}

/// libdat2 reads its configuration in its constructor, which runs before this library's, and
/// libnuma reads the machine's nodes: both must find their files.
#[test]
fn libraries_may_open_files_in_their_constructors() {
    let early = common::compile("early", &["-shared", "-fPIC"]).unwrap_or_else(|e| panic!("{e}"));
    // The linker runs the constructors of what it loaded last first.
    let preload = [library().as_os_str(), early.as_os_str()].join(OsStr::new(":"));
    let output = common::run(Path::new("true"), &[], &[("LD_PRELOAD", &preload)]).output;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}\n{said}", output.status);
}

/// When the library is unloaded, its signal handlers must not stay behind.
#[test]
fn a_library_that_is_closed_leaves_no_handler_behind() {
    let program = compile("unload");
    let path = library().to_str().expect("a path in UTF-8");
    let output = common::run(&program, &[path], &[]).output;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}\n{said}", output.status);
}

/// The service thread must not spin on a processor.
#[test]
fn who_closes_all_descriptors_is_told_and_nobody_spins() {
    let run = run("closed", &[]);
    let said = String::from_utf8_lossy(&run.output.stderr);
    assert!(run.output.status.success(), "{}\n{said}", run.output.status);
    assert!(said.contains("closed descriptors that are not its own"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// UCX's unit tests count descriptors, and create 2,000 queue pairs one after the other.
#[test]
fn destroyed_queue_pairs_and_closed_devices_give_descriptors_back() {
    check_with_packets("descriptors");
}

/// Unmapped memory must not crash the program: as source or target of a message, or of RDMA.
#[test]
fn registered_memory_that_is_not_there_is_refused_or_survived() {
    check_with_packets("holes");
}

#[test]
fn names_and_rates_are_those_of_libibverbs() {
    check("strings", &[]);
}

#[test]
fn translations_are_those_of_libibverbs() {
    check("marshall", &[]);
}

#[test]
fn legacy_calls_move_messages() {
    check_with_packets("legacy");
}

#[test]
fn extended_calls_move_messages() {
    check_with_packets("extended");
}

#[test]
fn rdma_reads_and_writes_remote_memory() {
    check_with_packets("rdma");
}

#[test]
fn unsolicited_writes_consume_no_receive() {
    check_with_packets("unsolicited");
    check("unsolicited", &[("SOFTEFA_PROFILE", "efa1")]);
}

#[test]
fn what_libfabric_2_6_asks_for_is_there() {
    check_with_packets("newest");
    check("newest", &[("SOFTEFA_PROFILE", "efa0")]);
    check("newest", &[("SOFTEFA_PROFILE", "efa1")]);
}

#[test]
fn completions_can_be_read_after_the_poll() {
    check_with_packets("afterwards");
}

#[test]
fn bad_keys_addresses_and_states_change_no_byte() {
    check_with_packets("protection");
    check("protection", &[("SOFTEFA_STRICT", "1")]);
}

#[test]
fn rdma_crosses_processes_while_the_target_sleeps() {
    check_with_packets("processes");
    let key = "00112233445566778899aabbccddeeff";
    let run = check("processes", &[("SOFTEFA_LOCAL_KEY", key)]);
    assert_eq!(run.counter("rdma_local_bytes"), 2 * 900_000, "one READ and one WRITE");
}

/// `SOFTEFA_SEED` chooses the calls; a failure prints it.
#[test]
fn random_calls_keep_every_promise() {
    let first = std::env::var("SOFTEFA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let ways = [
        ("SOFTEFA_STRICT", "0"),
        ("SOFTEFA_STRICT", "1"),
        ("SOFTEFA_FAULT", "loss=2%,dup=2%,seed=1"),
    ];
    for (seed, way) in (first..).zip(ways) {
        println!("SOFTEFA_SEED={seed} {}={}", way.0, way.1);
        let run = check("random", &[("SOFTEFA_SEED", &u64::to_string(&seed)), way]);
        assert!(run.counter("tx_pkts") > 0, "never touched the device");
    }
}

#[test]
fn datagrams_arrive_behind_a_routing_header() {
    check_with_packets("datagram");
}

#[test]
fn mistakes_are_answered_as_on_the_device() {
    check_with_packets("errors");
}

#[test]
fn posting_and_polling_from_two_threads() {
    check_with_packets("threads");
}

#[test]
fn address_handles_come_and_go_while_three_threads_post_and_poll() {
    check_with_packets("posters");
}

/// The program has a bug, which is reported: `softefa: two threads ...`.
#[test]
fn thread_in_the_session_of_another_one_breaks_nothing() {
    for _ in 0..3 {
        let run = run("intruder", &[]);
        let said = String::from_utf8_lossy(&run.output.stderr);
        assert!(run.output.status.success(), "{}\n{said}", run.output.status);
        assert!(said.lines().all(|line| line.starts_with("softefa: two threads")), "{said}");
        assert!(said.lines().count() <= 1, "{said}");
    }
}

#[test]
fn use_of_a_destroyed_address_handle_is_told_and_harmless() {
    check("ghosts", &[]);
}

#[test]
fn completions_wake_who_sleeps() {
    check_with_packets("events");
}

#[test]
fn every_queue_pair_the_device_has() {
    check_with_packets("crowd");
}

#[test]
fn contexts_are_strangers_to_each_other() {
    check("contexts", &[]);
}

/// Peers may do with memory what the device can do for them.
#[test]
fn access_that_the_profile_has_not_is_refused() {
    for (profile, rights) in [("efa0", "0"), ("efa1", "r"), ("efa2", "rw")] {
        check("rights", &[("SOFTEFA_PROFILE", profile), ("EXPECT_RIGHTS", rights)]);
    }
}

#[test]
fn thread_domains_change_nothing() {
    check_with_packets("domains");
}

#[test]
fn forked_child_leaves_the_device_alone() {
    check_telling_children("fork");
}

#[test]
fn forked_child_waits_for_nobody() {
    check_telling_children("children");
}

#[test]
fn cancelled_threads_hold_nothing_and_end_nothing() {
    check_with_packets("cancel");
}

#[test]
fn signal_handlers_may_poll() {
    check_with_packets("signals");
}

/// Eight children, a grandchild and a daemon: each gets one warning about what it inherited.
#[test]
fn children_open_the_device_anew() {
    let run = run("anew", &[]);
    let said = String::from_utf8_lossy(&run.output.stderr);
    assert!(run.output.status.success(), "{}\n{said}", run.output.status);
    let is_told =
        |line: &str| line.starts_with("softefa: process") && line.contains("open the device anew");
    assert!(said.lines().all(is_told) && said.lines().count() == 10, "{said}");
    assert_eq!(run.devices(), 11, "each process counts for itself");
}

#[test]
fn memory_is_copied_between_parent_and_child() {
    let run = check("copies", &[("SOFTEFA_LOCAL_KEY", "00112233445566778899aabbccddeeff")]);
    assert!(run.counter("rdma_local_bytes") > 2 * 200_000, "sent instead of copied");
}

#[test]
fn children_do_not_keep_the_ports_of_their_parent() {
    check_with_packets("ports");
}

#[test]
fn library_works_in_destructors() {
    check_with_packets("destructor");
}

#[test]
fn two_devices_reach_each_other() {
    let devices = "first=127.0.0.1,second=127.0.0.2";
    let run = check("devices", &[("SOFTEFA_DEVICES", devices)]);
    assert!(run.counter("tx_pkts") > 0, "the devices never sent anything");
}

#[test]
fn foreign_address_is_said_and_the_device_does_not_open() {
    let run = run("legacy", &[("SOFTEFA_DEVICES", "rdmap0s6=192.0.2.1")]);
    assert!(!run.output.status.success());
    let said = String::from_utf8_lossy(&run.output.stderr);
    assert!(said.contains("softefa: ") && said.contains("192.0.2.1"), "{said}");
}

#[test]
fn unknown_profile_is_said_once_and_no_device_is_listed() {
    let run = run("attributes", &[("SOFTEFA_PROFILE", "efa9")]);
    assert!(!run.output.status.success());
    let said = String::from_utf8_lossy(&run.output.stderr);
    assert!(said.contains("softefa: ") && said.contains("efa9"), "{said}");
}
