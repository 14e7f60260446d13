//! The command: its output, its refusals, and the files that it leaves alone.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{SCENARIO, netsim, with_file};
use netsim::Scenario;
use std::fs;

/// Returns the one line of a refusal.
fn refusal(text: &str) -> String {
    let folder = with_file(text);
    let output = netsim(folder.path(), &["run", "s.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

/// Asserts that a message has all these parts.
fn expect(message: &str, parts: &[&str]) {
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
}

#[test]
fn prints_a_row_per_seed_and_leaves_existing_files_alone() {
    let folder = with_file(SCENARIO);
    let output = netsim(folder.path(), &["run", "s.toml", "--json", "out.json"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("two racks\n") && text.lines().count() == 5, "{text}");
    assert_eq!(text.matches("4/4").count(), 2, "{text}");

    let file = folder.path().join("out.json");
    let page: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(page["points"][0]["runs"][1]["outcome"]["flows"].as_array().map(Vec::len), Some(4));
    fs::write(&file, "mine").unwrap();
    let output = netsim(folder.path(), &["run", "s.toml", "--json", "out.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--force"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let args = ["run", "s.toml", "--json", "out.json", "--force", "--seed", "9"];
    assert_eq!(netsim(folder.path(), &args).status.code(), Some(0));
    let page: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(page["points"][0]["runs"][0]["seed"], 9);
}

#[test]
fn a_run_that_does_not_end_well_says_so() {
    let fault = "[[fault]]\ntarget = \"host0\"\nat_us = 1\ncut = true\n";
    let folder = with_file(&format!("{SCENARIO}{fault}"));
    let output = netsim(folder.path(), &["run", "s.toml"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("2/4"), "the flows of the other hosts ended: {text}");
    assert!(text.contains("2 of 4 flows had not ended at limit_ms = 10"), "{text}");
    let row: Vec<&str> = text.lines().nth(3).unwrap().split_whitespace().collect();
    assert_eq!((row[6], row[8]), ("-", "-"), "the greatest is not known: {text}");
}

#[test]
fn results_that_cannot_be_written_are_refused_and_a_full_disk_swallows_no_table() {
    let folder = with_file(SCENARIO);
    for (args, part) in [
        (&["--html", "-"][..], "--html needs the name of a file"),
        (&["--json", "o", "--html", "o"], "o cannot be two results"),
        (&["--samples", "5"], "add --json FILE"),
    ] {
        let output = netsim(folder.path(), &[&["run", "s.toml"], args].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(part) && stderr.lines().count() == 1, "{stderr}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was written");
    let output = netsim(folder.path(), &["run", "s.toml", "--json", "/dev/full"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stdout).unwrap().contains("4/4"));
}

/// The command once panicked when its tables could not be printed.
#[test]
fn a_terminal_that_takes_nothing_costs_a_line_and_no_file() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for words in
        [&["run", "s.toml", "--json", "r.json"][..], &["check", "s.toml", "--html", "c.html"]]
    {
        let folder = with_file(SCENARIO);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_netsim"));
        command.args(words).arg("--force").current_dir(folder.path()).stdout(full());
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        let last = stderr.lines().last().unwrap();
        assert!(last.contains("standard output: No space left"), "{stderr}");
        assert!(folder.path().join(words[3]).is_file(), "the file is written all the same");
        fs::remove_file(folder.path().join(words[3])).unwrap();
        // Nobody hears why; it ends as it should all the same.
        assert_eq!(command.stderr(full()).status().unwrap().code(), Some(2));
        assert!(folder.path().join(words[3]).is_file());
    }
}

#[test]
fn runs_that_miss_what_is_expected_say_so() {
    let folder = with_file(&format!("{SCENARIO}[expect]\nmax_to_ideal = 9.0\n"));
    assert_eq!(netsim(folder.path(), &["run", "s.toml"]).status.code(), Some(0));
    let bounds = "[expect]\nmax_to_ideal = 0.5\nmin_to_ideal = 99.0\n";
    let folder = with_file(&format!("{SCENARIO}{bounds}"));
    let output = netsim(folder.path(), &["run", "s.toml"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("at most 0.5") && stderr.contains("at least 99"), "{stderr}");
}

#[test]
fn wrong_files_are_refused_with_line_field_and_what_is_allowed() {
    let with = |from: &str, to: &str| refusal(&SCENARIO.replace(from, to));
    expect(&with("gbps = 100", "gbps = 30"), &["line 9", "gbps = 30", "25, 32"]);
    expect(&with("racks = 2", "racks = 0"), &["line 5", "racks = 0", "1 to 4096"]);
    expect(&with("spines = 2", "spins = 2"), &["line 7", "spins", "spines"]);
    expect(&with("leaf_spine", "torus"), &["line 4", "torus", "leaf_spine", "clos3"]);
    expect(&with("[1, 2]", "[]"), &["line 2", "seeds", "at least one"]);
    expect(&with("[1, 2]", "[2, 1, 2]"), &["line 2", "seeds", "2 is there twice"]);
    expect(&with("[1, 2]", "[-1]"), &["line 2", "-1 is not allowed"]);
    expect(&with("limit_ms = 10\n", ""), &["limit_ms: missing"]);
    expect(&with("limit_ms = 10", "limit_ms = 1.5"), &["line 3", "a whole number, 1 to 60000"]);
    expect(&with("gbps = 100", "gbps = \"1\""), &["line 9", "a whole number of Gbit/s"]);
    let two = "[topology.ring]\nswitches = 2\nhosts_per_switch = 1\n[network]";
    expect(&with("[network]", two), &["one of leaf_spine, clos3 and ring"]);
    let many = "incast]]\nservers = 2\nprocesses = 1000\nrounds = 10_000";
    expect(
        &with("permutation]]", many),
        &["line 12", "workload.incast", "20000000 transfers", "at most 2000000"],
    );
    let long = "poisson]]\nload_percent = 100\nuntil_us = 60_000_000\nsizes = [[1000, 100.0]]";
    expect(
        &with("permutation]]\nbytes = 50_000", long),
        &["line 12", "workload.poisson", "at most 2000000"],
    );
    let late = "persistent_incast]]\nservers = 1\nprocesses = 1\nuntil_ms = 2\ninterval_ms = 5";
    expect(&with("permutation]]\nbytes = 50_000", late), &["interval_ms", "longer than until_ms"]);
    expect(
        &with("100_000\n", "100_000\nmark_most_percent = 5\n"),
        &["line 12", "mark_most_percent", "mark_all_above_bytes"],
    );
    expect(
        &with("100_000\n", "100_000\nmark_above_bytes = 100_000\n"),
        &["line 12", "mark_above_bytes", "buffer_bytes is 100000"],
    );
    let idle = "100_000\n[transport.roce]\nhyper_mbps = 9\n";
    expect(&with("100_000\n", idle), &["line 13", "hyper_mbps", "congestion = \"dcqcn\""]);
    expect(&with("permutation", "stencil"), &["line 12", "stencil", "permutation"]);
    let incast = "incast]]\nservers = 3\nprocesses = 1";
    expect(&with("permutation]]", incast), &["line 12", "incast.servers", "3 servers", "2 hosts"]);
    let dctcp = "permutation]]\ntransport = \"dctcp\"";
    expect(&with("permutation]]", dctcp), &["line 12", "transport", "mark_above_bytes"]);
    let kind = "permutation]]\ntransport = \"sctp\"";
    expect(&with("permutation]]", kind), &["line 13", "sctp", "srd", "tcp", "dctcp"]);
    let huge = "racks = 4096\nhosts_per_rack = 1024";
    expect(&with("racks = 2\nhosts_per_rack = 2", huge), &["line 4", "4194304 hosts", "65536"]);
    let pfc = |body: &str| with("100_000\n", &format!("100_000\n[network.pfc]\n{body}"));
    expect(
        &pfc("xoff_bytes = 99_000\n"),
        &["line 12", "pfc.xoff_bytes", "at most 74986", "headroom"],
    );
    expect(&pfc("xon_bytes = 80_000\n"), &["line 12", "pfc.xon_bytes", "not less than"]);
    expect(&with("100_000\n", "20_000\n[network.pfc]\n"), &["network.buffer_bytes", "25014"]);
    expect(&with("100_000\n", "100_000\nmark_all_above_bytes = 9\n"), &["line 12", "mark_above"]);
    let dcqcn = "100_000\n[transport.roce]\ncongestion = \"dcqcn\"\n";
    expect(&with("100_000\n", dcqcn), &["line 13", "roce.congestion", "mark_above_bytes"]);
}

/// A port's queue was once counted in 32 bits, and overflowed.
#[test]
fn paused_queues_that_are_too_long_to_count_are_refused() {
    let pfc = SCENARIO.replace("100_000\n", "1_000_000_000\n[network.pfc]\n");
    assert!(Scenario::parse(&pfc).is_ok(), "4 links into a switch");
    let leaf_spine = "leaf_spine]\nracks = 2\nhosts_per_rack = 2\nspines = 2";
    for topology in [
        "leaf_spine]\nracks = 2\nhosts_per_rack = 3\nspines = 2",
        "leaf_spine]\nracks = 5\nhosts_per_rack = 1\nspines = 1",
        "clos3]\npods = 5\nedges_per_pod = 1\naggs_per_pod = 1\nhosts_per_edge = 1\n\
         cores_per_agg = 1",
        "ring]\nswitches = 2\nhosts_per_switch = 4",
    ] {
        let message = refusal(&pfc.replace(leaf_spine, topology));
        expect(&message, &["network.buffer_bytes", "1000000000 for each of the 5 links"]);
        expect(&message, &["at most 858993459"]);
    }
}

/// The messages of a flow were once counted in 32 bits, and the rest of them was left out.
#[test]
fn flows_of_more_messages_than_can_be_counted_are_refused() {
    let incast = "persistent_incast]]\nservers = 1\nprocesses = 1\nuntil_ms = 60_000\n\
        interval_ms = 1000\n[transport]\npacket_bytes = 256";
    let text = SCENARIO.replace("permutation]]\nbytes = 50_000", incast);
    expect(&refusal(&text), &["line 12", "persistent_incast.until_ms", "messages", "4294967295"]);
    let longer = text.replace("packet_bytes = 256", "packet_bytes = 4150");
    assert!(Scenario::parse(&longer).is_ok());
}

#[test]
fn bounds_that_cannot_be_judged_are_refused() {
    let expect_srd = "[expect]\ntransport = \"srd\"\nrepeated_percent = 1.0\n";
    assert!(Scenario::parse(&format!("{SCENARIO}{expect_srd}")).is_ok());
    let tcp = "[[workload.permutation]]\nbytes = 9\ntransport = \"tcp\"\n";
    let message = refusal(&format!("{SCENARIO}{tcp}{expect_srd}"));
    expect(&message, &["line 19", "expect.repeated_percent", "some flows use tcp"]);
}

/// The bound was once missed, "flows did not end", though all did.
#[test]
fn expectations_of_a_transport_that_no_flow_uses_are_refused() {
    let text = format!("{SCENARIO}[expect]\ntransport = \"tcp\"\nmax_to_ideal = 9\n");
    expect(&refusal(&text), &["line 15", "expect.transport", "no flow uses tcp", "only srd"]);
}

#[test]
fn faults_that_cannot_be_are_refused_with_line_and_field() {
    let fault = |body: &str| refusal(&format!("{SCENARIO}[[fault]]\nat_us = 5\n{body}"));
    expect(&fault("target = \"leaf0-leaf1\"\ncut = true"), &["line 16", "leaf0..leaf1", "spine1"]);
    expect(&fault("target = \"spine0\""), &["line 16", "cut = true", "loss_ppm"]);
    expect(
        &fault("target = \"spine0\"\ngbps = 200"),
        &["line 16", "fault.gbps", "faster than leaf0-spine0, which has 100 Gbit/s"],
    );
    expect(&fault("target = \"spine0\"\ncut = true\nuntil_us = 5"), &["until_us", "not after"]);
    let flap = "flap = { down_us = 1, up_us = 1 }";
    let spine = "target = \"spine0\"";
    expect(&fault(&format!("{spine}\n{flap}")), &["line 16", "until_us", "a flap needs an end"]);
    let long = format!("{spine}\n{flap}\nuntil_us = 60_000_000");
    expect(&fault(&long), &["line 16", "fault.flap", "cuts", "at most 100000"]);
    let cut = format!("{spine}\n{flap}\nuntil_us = 9\ncut = true");
    expect(&fault(&cut), &["line 16", "fault.flap", "cut = true"]);
    let lossy = format!("{spine}\n{flap}\nuntil_us = 9\nloss_ppm = 9");
    let lossy = format!("{lossy}\nrepair = {{ detect_us = 5, converge_us = 5 }}");
    expect(&fault(&lossy), &["line 16", "fault.flap", "two faults"]);
    let repair = format!("{spine}\ncut = true\nrepair = {{ detect_us = 5 }}");
    expect(&fault(&repair), &["line 18", "converge_us"]);
}

/// These faults were once accepted, and broke nothing.
#[test]
fn faults_that_are_none_are_refused() {
    let fault = |body: &str| refusal(&format!("{SCENARIO}[[fault]]\ntarget = \"spine0\"\n{body}"));
    let none = "is the rate of every link of spine0: that is no fault";
    expect(&fault("at_us = 5\ngbps = 100"), &["line 15", "fault.gbps", none]);
    let late = "10000 is not before limit_ms = 10, when a run ends";
    expect(&fault("at_us = 10_000\ncut = true"), &["line 15", "fault.at_us", late]);
    // Its uplinks become slower, and its hosts' links do not.
    let slow = SCENARIO.replace("100_000\n", "100_000\n[network.host_links]\ngbps = 25\n");
    let leaf = "[[fault]]\ntarget = \"leaf0\"\nat_us = 9_999\ngbps = 25\n";
    assert!(Scenario::parse(&format!("{slow}{leaf}")).is_ok());
}

#[test]
fn wrong_tiers_and_starts_are_refused_in_the_same_way() {
    let with = |from: &str, to: &str| refusal(&SCENARIO.replace(from, to));
    let tier = |text: &str| with("100_000\n", &format!("100_000\n{text}\n"));
    expect(&tier("[network.rack_links]\ngbps = 30"), &["line 13", "gbps = 30", "25, 32"]);
    expect(&tier("[network.core_links]\ngbps = 25"), &["line 12", "core_links", "only clos3"]);
    expect(&tier("[network.host_links]"), &["line 12", "host_links", "without gbps or hop_ns"]);
    expect(&tier("[network.pod_links]"), &["line 12", "pod_links", "rack_links"]);
    let thin = "[network.pfc]\n[network.rack_links]\nhop_ns = 9000";
    expect(&tier(thin), &["line 12", "network.buffer_bytes", "headroom"]);
    expect(&with("bytes = 50_000", "bytes = 50_000\njitter_us = 0"), &["line 14", "1 to 1000000"]);
    let slow = SCENARIO.replace("100_000\n", "100_000\n[network.host_links]\ngbps = 25\n");
    let fault_of = |target: &str| {
        refusal(&format!(
            "{slow}[[fault]]\nat_us = 5\ntarget = \"{target}\"\ngbps = 50\nuntil_us = 1"
        ))
    };
    expect(&fault_of("host1"), &["fault.gbps", "faster than host1-leaf0, which has 25 Gbit/s"]);
    expect(&fault_of("spine0"), &["until_us", "not after"]);
}

#[test]
fn a_deadlock_of_pauses_is_named() {
    let ring = SCENARIO
        .replace(
            "leaf_spine]\nracks = 2\nhosts_per_rack = 2\nspines = 2",
            "ring]\nswitches = 4\nhosts_per_switch = 2",
        )
        .replace("100_000\n", "60_000\n[network.pfc]\n")
        .replace("permutation]]\nbytes = 50_000", "all_to_all]]\nhosts = 8\nbytes = 2_000_000");
    let folder = with_file(&ring);
    let output = netsim(folder.path(), &["run", "s.toml", "--seed", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for i in 0..4 {
        let links = format!("switch{i}-switch{} waits for", (i + 1) % 4);
        assert!(stderr.contains(&links) && stderr.contains("--seed 1"), "{stderr}");
    }
}

#[test]
fn transfers_come_from_a_file_beside_the_scenario() {
    let text = SCENARIO.replace("permutation]]\nbytes = 50_000", "trace]]\nfile = \"flows.csv\"");
    let folder = with_file(&text);
    let run = |flows: &str| {
        fs::write(folder.path().join("flows.csv"), flows).unwrap();
        // From elsewhere: the file is looked for beside the scenario.
        let scenario = folder.path().join("s.toml");
        netsim(&std::env::temp_dir(), &["run", scenario.to_str().unwrap(), "--json", "-"])
    };
    let output = run("start_ns,src,dst,bytes,transport\n5000,0,3,9000,\n0,3,1,100,tcp\n");
    assert_eq!(output.status.code(), Some(0));
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let flow = &page["points"][0]["runs"][0]["outcome"]["flows"][0];
    assert_eq!((&flow["dst_host"], &flow["start_ps"]), (&3.into(), &5_000_000.into()));
    for (flows, parts) in [
        (
            "start_ns,src,dst,bytes\n0,0,4,9\n",
            ["line 12, workload.trace.file: flows.csv line 2", "0 to 3"],
        ),
        ("start_ns,src,dst,bytes\n0,1,1,9\n", ["flows.csv line 2, dst", "the sender"]),
        ("src,dst,bytes\n", ["flows.csv: the first row", "start_ns,src,dst,bytes,transport"]),
    ] {
        let stderr = String::from_utf8(run(flows).stderr).unwrap();
        assert!(parts.iter().all(|part| stderr.contains(part)), "{stderr}");
    }
    let stderr = refusal(&text.replace("flows.csv", "none.csv"));
    assert!(stderr.contains("line 12") && stderr.contains("none.csv: No such file"), "{stderr}");
}

#[test]
fn slowdown_by_size_is_shown_where_sizes_differ() {
    let sizes =
        "poisson]]\nload_percent = 40\nuntil_us = 100\nsizes = [[500, 40.0], [90_000, 100.0]]";
    let folder = with_file(&SCENARIO.replace("permutation]]\nbytes = 50_000", sizes));
    let args = ["run", "s.toml", "--html", "p.html", "--json", "r.json"];
    let output = netsim(folder.path(), &args);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let row = text.lines().find(|line| line.contains("30 KB to 100 KB")).unwrap_or_default();
    let json = fs::read(folder.path().join("r.json")).unwrap();
    let results: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let runs = results["points"][0]["runs"].as_array().unwrap();
    let classes = || runs.iter().flat_map(|run| run["by_size"].as_array().unwrap());
    let long = || classes().filter(|class| class["up_to_bytes"] == 100_000);
    let flows: u64 = long().map(|class| class["flows"].as_u64().unwrap()).sum();
    assert!(flows > 10 && row.contains(&format!(" {flows} ")), "{flows}: {text}");
    assert!(long().all(|class| class["p99_to_ideal"].as_f64() >= Some(1.0)), "{text}");
    let page = fs::read_to_string(folder.path().join("p.html")).unwrap();
    assert!(page.contains(">Slowdown by size</h2>") && page.contains("30 KB to 100 KB"));
}

#[test]
fn a_missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = netsim(folder.path(), &["run", "none.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("none.toml"));
}
