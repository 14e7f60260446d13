//! Plans: what they write, how they refuse, and that an interruption at any moment costs at most
//! the step that it hits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{
    Ended, Server, Words, alone, assert_fails, command, efa_bench, names_in, read_json, softefa,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Nothing here waits this long if all is well.
const PATIENCE: Duration = Duration::from_secs(120);

/// Short steps on two fabrics.
const PLAN: &str = "
[defaults]
blocks = 2
duration = 0.02
warmup = 0.01

[[fabric]]
fabric = 'tcp'

[[fabric]]
fabric = 'libfabric:shm'

[[step]]
benchmark = 'latency'
sizes = [8, 16]

[[step]]
benchmark = 'batch'
sizes = 64
depth = [2, 8]

[[step]]
benchmark = 'rpc'
keys = 1000
depth = 4
";
const STEPS: usize = 6;

fn plan_file(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("plan.toml");
    std::fs::write(&file, text).expect("write");
    file
}

fn words(plan: &Path, out: &Path) -> String {
    format!("run --plan {} --local --quiet --out {}", plan.display(), out.display())
}

/// Runs the plan.
fn go(plan: &Path, out: &Path) -> Ended {
    efa_bench(words(plan, out))
}

/// Returns name, benchmark, size and depth of every measured point, and how often it is there.
fn points(results: &Value) -> BTreeMap<String, usize> {
    let mut points = BTreeMap::new();
    for run in results["runs"].as_array().expect("runs") {
        if run["source"] == "published" {
            continue;
        }
        for point in run["points"].as_array().expect("points") {
            let (size, depth) = (&point["size_bytes"], &point["depth"]);
            *points
                .entry(format!("{} {} {size} {depth}", run["name"], run["test"]))
                .or_default() += 1;
        }
    }
    points
}

fn events(out: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(out.join("events.ndjson")).expect("events");
    text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

const FILES: [&str; 6] =
    ["events.ndjson", "index-plots", "index.html", "index.md", "results.csv", "results.json"];

#[test]
fn the_quick_plan_writes_its_files() {
    let folder = tempfile::tempdir().expect("tempdir");
    let out = folder.path().join("report");
    let out_text = out.to_str().expect("utf-8");
    let words = "plan quick --fabric libfabric:tcp --scale 0.1 -q --out";
    let output = efa_bench(format!("{words} {out_text}"));
    output.assert_done();
    let text = output.text();
    for words in ["vs paper:efa-c5n", "latency 64 B", "message rate 16 B", "report: ", "by 0.1"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    assert_eq!(names_in(&out), FILES);
    let results = read_json(out.join("results.json"));
    let runs = results["runs"].as_array().expect("runs");
    let measured = runs.iter().filter(|r| r["source"] == "measured").count();
    assert_eq!((measured, runs.len()), (4, 9));
    let plan = &results["plan"];
    assert_eq!((&plan["complete"], &plan["steps_done"]), (&true.into(), &4.into()), "{plan}");
}

#[test]
fn a_fabric_that_fails_is_reported_once_beside_the_others() {
    let folder = tempfile::tempdir().expect("tempdir");
    let plan = plan_file(folder.path(), PLAN);
    let out = folder.path().join("out");
    let fabrics = ["--fabric", "libfabric:tcp=no-such-command --", "--fabric", "tcp"];
    let words = words(&plan, &out);
    let words = [&words.words()[..], &fabrics].concat();
    let output = efa_bench(&words);
    assert_fails(&output, 11, &["no-such-command"]);
    assert_eq!(names_in(&out), FILES);
    let results = read_json(out.join("results.json"));
    let count = |what: &str| results["plan"][what].as_array().map_or(0, Vec::len);
    assert_eq!((count("failed"), count("skipped")), (1, 2), "{}", results["plan"]);
    assert_eq!(results["plan"]["steps_done"], 3);
    // The same again: what failed is tried once more, what is done is not.
    assert_fails(&efa_bench(&words), 11, &["no-such-command"]);
    let done = events(&out).iter().filter(|event| event["event"] == "step_done").count();
    assert_eq!(done, 3);
}

#[test]
fn tools_are_steps_and_missing_ones_are_left_out_with_a_reason() {
    let folder = tempfile::tempdir().expect("tempdir");
    let sample =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../bench-report/tests/samples/ib_send_lat.txt");
    let tool = |tool: &str, client: &str| {
        format!(
            "[[fabric]]\nfabric = 'tcp'\n[[step]]\ntool = '{tool}'\npackage = 'warp-utils'\n\
             name = 'Warp'\nclient = '{client}'\niterations = 1000\nseconds = 0.1\n"
        )
    };
    let plan = plan_file(folder.path(), &tool("cat", &format!("cat {sample}")));
    let out = folder.path().join("cat");
    let output = go(&plan, &out);
    output.assert_done();
    let run = &read_json(out.join("results.json"))["runs"][0];
    assert_eq!((&run["name"], &run["source"]), (&"Warp".into(), &"imported".into()));
    let plan = plan_file(folder.path(), &tool("warp_lat", "warp_lat -x"));
    let out = folder.path().join("warp");
    let output = go(&plan, &out);
    output.assert_done();
    let page = std::fs::read_to_string(out.join("index.html")).expect("page");
    let text = "warp_lat is not installed: apt-get install warp-utils brings it";
    assert!(page.contains(text) && output.text().contains(text));
    let plan = plan_file(folder.path(), &tool("false", "false"));
    let output = go(&plan, &folder.path().join("false"));
    assert_fails(&output, 11, &["false on TCP sockets", "exit status: 1"]);
}

/// A plan says the size to every tool.
#[test]
fn a_tool_that_prints_its_size_is_a_step_with_sizes() {
    let folder = tempfile::tempdir().expect("tempdir");
    let sample = include_str!("../../bench-report/tests/samples/ib_send_lat.txt");
    let is_of_other_size = |line: &str| {
        let first = line.split_whitespace().next();
        first.is_some_and(|word| word.parse::<usize>().is_ok_and(|size| size != 64))
    };
    let one: Vec<&str> = sample.lines().filter(|line| !is_of_other_size(line)).collect();
    let file = folder.path().join("ib_send_lat.txt");
    std::fs::write(&file, one.join("\n")).expect("a file");
    for (size, code) in [(64, 0), (65, 11)] {
        let plan = format!(
            "[[fabric]]\nfabric = 'tcp'\n[[step]]\ntool = 'cat'\npackage = 'coreutils'\n\
             name = 'Sized'\nclient = 'cat {}'\nsizes = {size}\niterations = 1000\nseconds = 0.1\n",
            file.display()
        );
        let out = folder.path().join(size.to_string());
        let output = go(&plan_file(folder.path(), &plan), &out);
        let said = output.errors();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(said.contains("prints the message size, 64 B"), code > 0, "{said}");
    }
}

#[test]
fn what_a_plan_would_do_is_shown_and_what_it_cannot_is_told() {
    let folder = tempfile::tempdir().expect("tempdir");
    let plan = plan_file(folder.path(), PLAN);
    let out = folder.path().join("out");
    let output = efa_bench(format!("{} --dry-run", words(&plan, &out)));
    let text = output.text();
    assert!(output.status.success() && !out.exists(), "{output:?}");
    assert_eq!(text.matches("efa-bench local").count(), STEPS, "{text}");
    assert!(text.contains("6 steps, about") && text.contains("--fabric libfabric:shm"), "{text}");
    let output = efa_bench("plan --list");
    let text = output.text();
    assert!(["quick", "paper", "dbms"].iter().all(|name| text.contains(name)), "{text}");
    assert_fails(&efa_bench("plan speed"), 2, &["`speed` is no plan", "quick, paper, dbms"]);
    let broken = plan_file(folder.path(), "[[step]]\nbenchmark = 'latency'\nsise = 8\n");
    let output = go(&broken, &out);
    assert_fails(&output, 2, &["plan.toml:3", "`sise`", "sizes"]);
    assert_fails(&efa_bench("plan quick -H h"), 2, &["--fabric"]);
    assert_fails(&efa_bench("plan quick --scale 0"), 2, &["--scale 0"]);
}

#[test]
fn another_plan_does_not_go_on_in_the_folder_of_an_unfinished_one() {
    let folder = tempfile::tempdir().expect("tempdir");
    let plan = plan_file(folder.path(), &PLAN.replace("duration = 0.02", "duration = 0.5"));
    let out = folder.path().join("out");
    let mut child = start(&plan, &out);
    // Its first step has begun.
    wait_for(|| {
        std::fs::read_to_string(out.join("events.ndjson")).is_ok_and(|t| t.contains("step_started"))
    });
    assert_fails(&go(&plan, &out), 2, &["another efa-bench", "--out"]);
    signal(&child, Signal::INT);
    assert_eq!(end_of(&mut child), Some(130));
    let output = efa_bench(format!("{} --fabric tcp", words(&plan, &out)));
    assert_fails(&output, 2, &["did not end", "--force", "--out"]);
    let output = efa_bench(format!("{} --fabric tcp --force", words(&plan, &out)));
    output.assert_done();
    assert_eq!(read_json(out.join("results.json"))["plan"]["steps"], 3);
}

/// A plan against a server does not publish commands that start a server of their own.
#[test]
fn the_commands_of_a_plan_against_a_server_go_there() {
    let folder = tempfile::tempdir().expect("tempdir");
    let plan = plan_file(folder.path(), PLAN);
    let (server, out) = (Server::start(), folder.path().join("out"));
    let host = format!("127.0.0.1:{}", server.port);
    let (plan, out_text) = (plan.to_str().expect("utf-8"), out.to_str().expect("utf-8"));
    let words = format!("plan {plan} -q -o {out_text} -H {host} --fabric tcp");
    let output = efa_bench(&words);
    output.assert_done();
    let results = read_json(out.join("results.json"));
    let runs = results["runs"].as_array().expect("runs");
    let measured: Vec<&Value> = runs.iter().filter(|run| run["source"] == "measured").collect();
    assert_eq!(measured.len(), STEPS / 2);
    for run in measured {
        let command = run["command"].as_str().expect("a command");
        let (is_run, goes_there) = (command.starts_with("efa-bench run "), format!(" -H {host} "));
        assert!(is_run && command.contains(&goes_there), "{command}");
        // This server is on this machine.
        assert_eq!(run["is_loopback"], true, "{command}");
    }
}

fn start(plan: &Path, out: &Path) -> Child {
    let mut command = command(words(plan, out));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("efa-bench starts")
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
    // The process may have ended, but it is not reaped.
    let _ = kill_process(pid, signal);
}

/// Returns the exit code; `None` if a signal ended the process.
fn end_of(child: &mut Child) -> Option<i32> {
    let mut code = None;
    wait_for(|| {
        let status = child.try_wait().expect("a child");
        code = status.and_then(|status| status.code());
        status.is_some()
    });
    code
}

#[track_caller]
fn wait_for(mut is_there: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < deadline, "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Random numbers from a seed that is printed and may be given (splitmix64).
struct Random(u64);

impl Random {
    fn new() -> Self {
        let given =
            std::env::var("EFA_BENCH_SEED").ok().map(|s| s.parse().expect("EFA_BENCH_SEED"));
        let now = || Instant::now().elapsed().subsec_nanos() ^ std::process::id();
        let seed: u64 = given.unwrap_or_else(|| u64::from(now()));
        eprintln!("to repeat: EFA_BENCH_SEED={seed} cargo test -p efa-bench --test all plans::");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: Duration) -> Duration {
        let limit_us = u64::try_from(limit.as_micros()).expect("short").max(1);
        Duration::from_micros(self.next() % limit_us)
    }
}

/// EFA_BENCH_MOMENTS (6 by default) interruptions come at random moments: by Ctrl-C, by SIGTERM,
/// and by a signal that nobody can catch.
#[test]
fn an_interrupted_plan_is_valid_and_goes_on_to_the_same_points() {
    let moments = std::env::var("EFA_BENCH_MOMENTS").map_or(6, |n| n.parse().expect("a number"));
    let mut random = Random::new();
    let folder = tempfile::tempdir().expect("tempdir");
    let plan = plan_file(folder.path(), PLAN);
    let whole = folder.path().join("whole");
    let started = Instant::now();
    let output = go(&plan, &whole);
    let took = started.elapsed();
    output.assert_done();
    let expected = points(&read_json(whole.join("results.json")));
    assert_eq!(expected.len(), 10, "{expected:?}");
    let (mut round, mut seen) = (0, 0);
    while seen < moments {
        let out = folder.path().join(format!("round-{round}"));
        round += 1;
        // The last round is left alone after its last moment.
        while seen < moments && !interrupted_once(&plan, &out, &mut random, took) {
            seen += 1;
        }
        seen += 1;
        finish_and_compare(&plan, &out, &expected);
    }
}

/// Returns all files of a folder, which may not be there.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = files.map(|entry| entry.path()).filter(|path| path.is_file());
    files.map(|path| (path.clone(), std::fs::read(&path).expect("a file"))).collect()
}

/// Starts the plan and interrupts it; returns true if it was done before.
fn interrupted_once(plan: &Path, out: &Path, random: &mut Random, took: Duration) -> bool {
    let by = [Signal::INT, Signal::TERM, Signal::KILL][(random.next() % 3) as usize];
    let after = random.below(took);
    let before = contents(out);
    let mut child = start(plan, out);
    // The moment is what is random here; nothing waits for it.
    std::thread::sleep(after);
    signal(&child, by);
    let code = end_of(&mut child);
    let what = format!("{by:?} after {after:?} of {took:?}: {code:?}");
    let results = out.join("results.json");
    match code {
        Some(0) => return true,
        Some(130) => {
            assert!(by != Signal::KILL, "{what}");
            assert_eq!(read_json(&results)["plan"]["complete"], false, "{what}");
            let last = events(out).pop().expect("an event");
            assert_eq!(last["event"], "plan_interrupted", "{what}");
        }
        // libpsm, which libfabric brings, ends the process by `exit(1)` until the handler that it
        // installs when it is loaded is taken away: that early there is nothing to keep.
        Some(1) if by != Signal::KILL => assert!(contents(out) == before, "{what}"),
        Some(_) => panic!("{what}"),
        // Before it could catch anything it had written nothing.
        None => assert!(by == Signal::KILL || contents(out) == before, "{what}"),
    }
    if results.exists() {
        for run in read_json(&results)["runs"].as_array().expect("runs") {
            let is_marked = run["complete"] == true || run["error"].is_string();
            assert!(is_marked, "{what}: {run}");
        }
    }
    false
}

/// Continues by the same command to the end, and compares with what an uninterrupted plan finds.
fn finish_and_compare(plan: &Path, out: &Path, expected: &BTreeMap<String, usize>) {
    let was_done = out.join("events.ndjson").exists()
        && events(out).last().is_some_and(|event| event["event"] == "plan_done");
    if !was_done {
        let output = go(plan, out);
        output.assert_done();
    }
    let results = read_json(out.join("results.json"));
    assert_eq!(&points(&results), expected);
    assert_eq!(results["plan"]["complete"], true);
    assert_eq!(names_in(out), FILES);
    let mut steps: Vec<u64> = events(out)
        .iter()
        .filter(|event| event["event"] == "step_done")
        .map(|event| event["step"].as_u64().expect("a step"))
        .collect();
    steps.sort_unstable();
    assert_eq!(steps, (0..STEPS as u64).collect::<Vec<_>>(), "each step is done once");
}

/// The blocks of a step are measured in turn with those of the same step on other fabrics.
#[test]
fn fabrics_take_turns_block_by_block() {
    let folder = tempfile::tempdir().expect("tempdir");
    let plan = plan_file(folder.path(), &PLAN.replace("blocks = 2", "blocks = 3"));
    let out = folder.path().join("out");
    let output = go(&plan, &out);
    output.assert_done();
    let number = |event: &Value, what: &str| event[what].as_u64().expect("a number");
    let events = events(&out);
    let rounds = events.iter().filter(|event| event["event"] == "round_done");
    let turns: Vec<(u64, u64)> =
        rounds.map(|event| (number(event, "round"), number(event, "step"))).collect();
    // More rounds follow where the processors were in other places.
    let first: Vec<_> = turns.iter().filter(|turn| turn.0 < 3 && turn.1 < 2).copied().collect();
    assert_eq!(first, [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)], "{turns:?}");
    let results = read_json(out.join("results.json"));
    for run in results["runs"].as_array().expect("runs") {
        if run["source"] == "published" {
            continue;
        }
        assert_eq!(run["is_loopback"], true, "{}", run["name"]);
        for point in run["points"].as_array().expect("points") {
            let left_out = point["cores"]["left_out"].as_array().map_or(0, Vec::len);
            let blocks = point["blocks"].as_array().expect("blocks").len();
            assert!((3..=5).contains(&(blocks + left_out)), "{point}");
        }
    }
}

/// Returns the text of a fabric of a plan: SRD on Soft-EFA over that wire.
fn fabric(name: &str, wire: &str) -> String {
    format!("[[fabric]]\nname = '{name}'\nfabric = 'verbs:srd'\non = 'softefa'\nwire = '{wire}'\n")
}

/// Returns what a plan on Soft-EFA prints, and its results.
fn measured(folder: &Path, plan: &str) -> (String, Value) {
    let (plan, out) = (plan_file(folder, plan), folder.join("out"));
    let softefa = softefa().to_str().expect("utf-8");
    let _alone = alone();
    let output = efa_bench(format!("{} --softefa {softefa}", words(&plan, &out)));
    output.assert_done();
    let text = output.text();
    (text, read_json(out.join("results.json")))
}

/// Fewer packets than messages do not mean that the messages took another route.
#[test]
fn short_messages_that_share_packets_have_gone_through_the_device() {
    let folder = tempfile::tempdir().expect("tempdir");
    let step =
        "[[step]]\nbenchmark = 'bandwidth'\nsizes = 16\ndepth = 256\nblocks = 2\nduration = 0.05\n";
    let fabrics = fabric("memory", "shm") + &fabric("UDP", "udp");
    let (_, results) = measured(folder.path(), &(fabrics + step));
    let own = results["runs"].as_array().expect("runs").iter().take(2);
    let is_shared = |run: &Value| {
        let counted = |name| run["counters"]["client"][name].as_u64().expect("a counter");
        counted("tx_pkts") < counted("send_wrs")
    };
    assert!(own.clone().all(is_shared), "no packet was shared, and nothing was tried: {results}");
}

/// Each wire has its name, and no figure stands under the name of the other.
#[test]
fn soft_efa_is_measured_on_both_wires() {
    let folder = tempfile::tempdir().expect("tempdir");
    let step = "[[step]]\nbenchmark = 'latency'\nsizes = 64\nblocks = 2\nduration = 0.02\n";
    let fabrics = fabric("Soft-EFA, memory", "shm") + &fabric("Soft-EFA, UDP", "udp");
    let (text, results) = measured(folder.path(), &(fabrics + step));
    let runs = results["runs"].as_array().expect("runs");
    let own: Vec<(&Value, &Value)> =
        runs.iter().map(|run| (&run["name"], &run["wire"])).take(2).collect();
    let (shm, udp) = ("shm".into(), "udp".into());
    assert_eq!(own, [(&"Soft-EFA, memory".into(), &shm), (&"Soft-EFA, UDP".into(), &udp)]);
    for run in &runs[..2] {
        let wire = run["wire"].as_str().expect("a wire");
        assert!(run["command"].as_str().is_some_and(|c| c.contains(&format!("--wire {wire}"))));
    }
    assert!(text.contains("shared memory beside loopback"), "{text}");
    assert!(!text.contains("vs Soft-EFA, memory"), "adapters stand beside UDP: {text}");
}
