//! `softefa fault` and `--fault-script` on unmodified programs.

use std::fs;
use std::process::{Command, Output};
use std::time::SystemTime;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{LIMIT, Launcher, Running, exclusive, has, wait_until};
use crate::{PORTS, STREAM};

const RC_STREAM: &str = "ib_send_bw -c RC -d roce0 -x 0 -F -s 4096 -D 60 -f 0";

/// The time after the start of its command within which a fault is in force, as the median of all
/// tries, because other programs use the machine, too.
const IN_FORCE_NS: u64 = 50_000_000;
/// Number of changes of the fault after the first one.
const CHANGES: usize = 6;

/// The times at which the commands of a test began or ended, by the clock of traces.
struct Moments {
    /// The times at which commands that set a fault were started.
    asked: Vec<u64>,
    /// The time at which the first of them returned.
    set: u64,
    /// The time at which the command that clears the fault returned.
    cleared: u64,
}

fn fault(launcher: &Launcher, words: &str) -> Output {
    launcher.command().arg("fault").args(words.split_whitespace()).output().unwrap()
}

#[track_caller]
fn fault_ok(launcher: &Launcher, words: &str) -> String {
    let output = fault(launcher, words);
    assert!(output.status.success(), "{words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn show(launcher: &Launcher) -> Value {
    serde_json::from_str(&fault_ok(launcher, "show --json")).unwrap()
}

/// Returns how often the devices of all runs have dealt the fault in force.
fn dealt(launcher: &Launcher, name: &str) -> u64 {
    let shown = show(launcher);
    let devices = |run: &Value| run["devices"].as_array().cloned().unwrap_or_default();
    let runs = shown["runs"].as_array().cloned().unwrap_or_default();
    let of = |device: &Value| device["dealt"][name].as_u64().unwrap_or_default();
    runs.iter().flat_map(|run| devices(run).iter().map(of).collect::<Vec<_>>()).sum()
}

/// Returns how often all devices have dealt all faults.
fn total(launcher: &Launcher, name: &str) -> u64 {
    let output = launcher.command().args(["info", "--json"]).output().unwrap();
    let info: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let runs = info["running"].as_array().cloned().unwrap_or_default();
    runs.iter().filter_map(|run| run["counters"][name].as_u64()).sum()
}

fn epoch_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

/// Returns the program of a run. The kernel's list of children may be incomplete for a moment while
/// others end.
fn program(running: &Running) -> Pid {
    let mut found = None;
    wait_until("the program is there", || {
        found = running.program_pid();
        found.is_some()
    });
    found.unwrap()
}

fn end(pair: (Running, Running)) {
    for running in [&pair.1, &pair.0] {
        kill_process(program(running), Signal::KILL).unwrap();
    }
    assert_eq!((pair.1.wait(LIMIT).code, pair.0.wait(LIMIT).code), (137, 137));
}

/// Checks that sends go on: twice as many packets as now are soon reached.
fn goes_on(launcher: &Launcher) {
    let now = launcher.live_tx_pkts();
    wait_until("the transfer goes on", || launcher.live_tx_pkts() > now + 2_000);
}

/// Checks, by the time stamps of the programs themselves, that `softefa fault` acts on packets that
/// are sent from its return on, and on none that are sent after `clear` has returned.
fn acts_under_load(options: &str, stream: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace");
    let trace = format!("--trace {} --trace-events transmit,fault", file.display());
    let launcher = Launcher::new(&format!("{options} {trace}"));
    let pair = launcher.start_pair(stream, PORTS);
    wait_until("the transfer is under way", || launcher.live_tx_pkts() > 2_000);
    let mut asked = vec![epoch_ns()];
    let said = fault_ok(&launcher, "set loss=5% seed=3");
    let set = epoch_ns();
    assert_eq!(said.matches(": loss=5%,seed=3\n").count(), 2, "{said}");
    wait_until("packets are lost", || dealt(&launcher, "fault_lost") > 20);
    goes_on(&launcher);
    for change in 0..CHANGES {
        asked.push(epoch_ns());
        fault_ok(&launcher, &format!("set loss={}% seed=3", 1 + change % 2));
        goes_on(&launcher);
    }
    fault_ok(&launcher, "clear");
    let cleared = epoch_ns();
    goes_on(&launcher);
    let lost = total(&launcher, "fault_lost");
    goes_on(&launcher);
    assert_eq!(total(&launcher, "fault_lost"), lost);
    end(pair);
    let text = fs::read_to_string(&file).unwrap();
    check(&text, &Moments { asked, set, cleared });
}

/// Checks that each queue pair sends nothing between the end of the command and the line that
/// reports the fault, and deals nothing once the fault is cleared; and that a fault is soon in
/// force.
fn check(text: &str, moments: &Moments) {
    let Moments { asked, set, cleared } = moments;
    let (mut found, mut delays_ns) = (0, Vec::new());
    let lines: Vec<(u64, Vec<&str>)> = text
        .lines()
        .map(|line| line.splitn(5, ' ').collect::<Vec<_>>())
        .filter(|columns| columns.len() == 5)
        .map(|columns| (columns[0].parse().unwrap(), columns))
        .collect();
    let mut queue_pairs: Vec<&str> = lines.iter().map(|(_, columns)| columns[2]).collect();
    queue_pairs.sort_unstable();
    queue_pairs.dedup();
    for queue_pair in queue_pairs {
        let own: Vec<_> = lines.iter().filter(|(_, columns)| columns[2] == queue_pair).collect();
        let begins = own.iter().position(|(_, columns)| columns[4].contains("is=set by=command"));
        let Some(begins) = begins else { continue };
        found += 1;
        let (at, columns) = own[begins];
        assert!(*at >= asked[0], "{columns:?}");
        eprintln!("in force: {}", columns[4]);
        let late =
            own[..begins].iter().filter(|(at, columns)| columns[1] == "transmit" && at > set);
        // One burst may have been under way.
        assert!(late.count() <= 128, "{queue_pair} sends on without the fault");
        let ends = own.iter().rposition(|(_, columns)| columns[4].contains("is=set by=start"));
        let ends = ends.unwrap_or_else(|| panic!("{queue_pair} was not cleared"));
        assert!(own[begins..ends].iter().any(|(_, columns)| columns[4].contains("is=dealt")));
        let after = own[ends..].iter().filter(|(_, columns)| columns[4].contains("is=dealt"));
        assert_eq!(after.count(), 0, "{queue_pair}");
        let late =
            own[..ends].iter().filter(|(at, columns)| columns[1] == "transmit" && at > cleared);
        assert!(late.count() <= 128, "{queue_pair} sends on with the fault");
        let set_by_command =
            own.iter().filter(|(_, columns)| columns[4].contains("is=set by=command"));
        let set_by_command: Vec<u64> = set_by_command.map(|(at, _)| *at).collect();
        for asked in asked {
            let at = set_by_command.iter().find(|at| *at >= asked);
            delays_ns.push(at.map_or(u64::MAX, |at| at - asked));
        }
    }
    assert_eq!(found, 2, "queue pairs with a fault");
    delays_ns.sort_unstable();
    eprintln!(
        "in force after (us): {:?}",
        delays_ns.iter().map(|ns| ns / 1_000).collect::<Vec<_>>()
    );
    assert!(delays_ns[delays_ns.len() / 2] <= IN_FORCE_NS, "in force after (ns): {delays_ns:?}");
}

#[test]
fn a_fault_acts_on_a_running_transfer_and_is_cleared() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    for wire in ["", "--wire udp"] {
        acts_under_load(wire, STREAM);
        acts_under_load(&format!("--roce {wire}"), RC_STREAM);
    }
}

#[test]
fn a_fault_ends_in_time_though_its_command_was_killed() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let launcher = Launcher::new("");
    let pair = launcher.start_pair(STREAM, PORTS);
    wait_until("the transfer is under way", || launcher.live_tx_pkts() > 2_000);
    let mut command: Command = launcher.command();
    command.args(["fault", "set", "loss=5%", "--for", "1s"]);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until("packets are lost", || total(&launcher, "fault_lost") > 0);
    // The process has ended by itself, or is ended now, which no result depends on.
    let _ = kill_process(Pid::from_child(&child), Signal::KILL);
    child.wait().unwrap();
    wait_until("it is over", || show(&launcher)["runs"][0]["command"].is_null());
    goes_on(&launcher);
    let lost = total(&launcher, "fault_lost");
    goes_on(&launcher);
    assert_eq!(total(&launcher, "fault_lost"), lost);
    end(pair);
}

#[test]
fn what_is_wrong_is_one_line_and_changes_nothing() {
    let _one = exclusive();
    let launcher = Launcher::new("--device a=127.0.0.1 --device b=127.0.0.2");
    let refused = |words: &str, expected: &str| {
        let output = fault(&launcher, words);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{words}: {text}");
        assert!(text.lines().count() == 1 && text.contains(expected), "{words}: {text}");
        assert!(output.stdout.is_empty(), "{words}");
    };
    refused("set loss=5%", "softefa run --");
    let running = launcher.start_words("sleeper", &["sleep", "60"]);
    wait_until("it runs", || fault(&launcher, "show").status.success());
    fault_ok(&launcher, "set loss=1% --device a");
    for (words, expected) in [
        ("set", "SPEC"),
        ("set lose=5%", "unknown fault 'lose'"),
        ("set loss=5", "loss='5'"),
        ("set loss=500%", "loss='500%'"),
        ("set ,", "no fault given"),
        ("set mtu=1400", "softefa run --fault"),
        ("set loss=5% qpn-reuse", "softefa run --fault"),
        ("set peer-kill@1s", "softefa run --fault"),
        ("set loss=5% --for 3", "time '3'"),
        ("set loss=5% --for 0s", "--for 0"),
        ("set loss=5% --peer somebody", "somebody"),
        ("set loss=5% --device c", "a, b"),
        ("set loss=5% --run 1", "process 1"),
        ("set loss=5% --run 1 --all", "--all"),
        ("broken", "broken"),
    ] {
        refused(words, expected);
        let command = &show(&launcher)["runs"][0]["command"];
        assert_eq!((&command["spec"], &command["device"]), (&"loss=1%,seed=0".into(), &"a".into()));
    }
    fault_ok(&launcher, "clear");
    assert!(show(&launcher)["runs"][0]["command"].is_null());
    kill_process(program(&running), Signal::TERM).unwrap();
    running.wait(LIMIT);
}

/// If commands come together, the last one takes effect, completely and in all runs.
#[test]
fn of_two_at_once_one_wins_everywhere() {
    let _one = exclusive();
    let launcher = Launcher::new("");
    let runs: Vec<Running> =
        ["a", "b", "c"].map(|name| launcher.start_words(name, &["sleep", "60"])).into();
    wait_until("they run", || {
        show_maybe(&launcher).is_some_and(|shown| shown["runs"].as_array().unwrap().len() == 3)
    });
    for _ in 0..10 {
        let specs = ["loss=1%", "dup=2% --for 100s", "rnr=3% --peer 127.0.0.9"];
        std::thread::scope(|scope| {
            for spec in specs {
                let launcher = &launcher;
                scope.spawn(move || fault_ok(launcher, &format!("set {spec}")));
            }
        });
        let shown = show(&launcher);
        let commands: Vec<&Value> =
            shown["runs"].as_array().unwrap().iter().map(|run| &run["command"]).collect();
        assert!(commands.iter().all(|command| *command == commands[0]), "{shown}");
        let whole = ["loss=1%,seed=0", "dup=2%,seed=0", "rnr=3%,seed=0"]
            .iter()
            .position(|spec| commands[0]["spec"] == *spec);
        let has = (!commands[0]["for_ns"].is_null(), !commands[0]["peer"].is_null());
        assert_eq!(has, [(false, false), (true, false), (false, true)][whole.unwrap()], "{shown}");
    }
    for running in runs {
        kill_process(program(&running), Signal::TERM).unwrap();
        running.wait(LIMIT);
    }
}

fn show_maybe(launcher: &Launcher) -> Option<Value> {
    let output = fault(launcher, "show --json");
    serde_json::from_slice(&output.stdout).ok()
}

/// A program of the run changes the faults of its own run only; one that starts later is subject to
/// them, too.
#[test]
fn inside_a_run_it_is_about_that_run() {
    let _one = exclusive();
    if !has("ib_send_lat") {
        return;
    }
    let launcher = Launcher::new("");
    let other = launcher.start_words("other", &["sleep", "60"]);
    wait_until("it runs", || fault(&launcher, "show").status.success());
    let port = crate::harness::free_port();
    let softefa = crate::harness::softefa().display();
    let line = format!("ib_send_lat -c SRD -x 0 -F -s 64 -n 2000 -p {port}");
    let script =
        format!("{softefa} fault set loss=5% seed=1 && ({line} & sleep 1; {line} 127.0.0.1; wait)");
    let outcome = launcher.start_words("inner", &["sh", "-c", &script]).wait(LIMIT);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.counter("fault_lost") > 0, "{outcome}");
    assert!(show(&launcher)["runs"][0]["command"].is_null(), "the other run");
    kill_process(program(&other), Signal::TERM).unwrap();
    other.wait(LIMIT);
}

#[test]
fn a_script_breaks_and_mends_in_time() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (script, trace) = (dir.path().join("script.toml"), dir.path().join("%p.trace"));
    fs::write(
        &script,
        "seed = 7\n[[step]]\nat = \"300ms\"\nfault = \"loss=10%\"\n\n\
         [[step]]\nat = \"600ms\"\nfault = \"delay=50us\"\nfor = \"200ms\"\n\n\
         [[step]]\nat = \"1s\"\nfault = \"blackhole=all\"\n\n[[step]]\nat = \"1200ms\"\nfault = \"none\"\n",
    )
    .unwrap();
    let trace_option = format!("--trace {} --trace-events fault", trace.display());
    let launcher = Launcher::new(&format!("--fault-script {} {trace_option}", script.display()));
    let pair = launcher.start_pair(STREAM, PORTS);
    let over = |shown: &Value| {
        let runs = shown["runs"].as_array().cloned().unwrap_or_default();
        let of = |run: &Value| run["devices"].as_array().cloned().unwrap_or_default();
        let devices: Vec<Value> = runs.iter().flat_map(of).collect();
        devices.len() == 2
            && devices.iter().all(|device| {
                let is_last = device["spec"] == "none" && device["source"] == "script";
                is_last && device["is_taken"] == true
            })
    };
    wait_until("it is over", || show_maybe(&launcher).is_some_and(|shown| over(&shown)));
    let pid = program(&pair.1).as_raw_nonzero();
    end(pair);
    let text = fs::read_to_string(dir.path().join(format!("{pid}.trace"))).unwrap();
    let set: Vec<String> = text
        .lines()
        .filter_map(|line| {
            line.split_once("is=set ")?.1.split_once(" late_ns=").map(|it| it.0.to_owned())
        })
        .collect();
    assert_eq!(
        set,
        [
            "by=script spec=loss=10%,seed=7",
            "by=script spec=delay=50us..50us,seed=7",
            "by=start spec=none",
            "by=script spec=blackhole=all@0ns,seed=7",
            "by=script spec=none",
        ],
        "{text}"
    );
    assert!(text.contains("fault_lost=") && text.contains("fault_blackholed="), "{text}");
}

#[test]
fn a_script_with_a_mistake_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script.toml");
    fs::write(&script, "[[step]]\nat = \"1s\"\nfault = \"loss=5\"\n").unwrap();
    let launcher = Launcher::new("");
    let run = |path: &std::path::Path| {
        let mut command = launcher.command();
        command.args(["run", "--fault-script"]).arg(path).args(["--", "echo", "started"]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let text = run(&script);
    assert!(text.contains("script.toml, line 3: fault: ") && text.contains("loss='5'"), "{text}");
    assert!(run(dir.path()).contains("cannot be read"));
}
