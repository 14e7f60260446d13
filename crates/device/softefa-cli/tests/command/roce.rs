//! RoCE devices from the command line.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::fail;
use crate::harness::{LIMIT, Launcher, has, wait_until};

/// Returns the standard output of `softefa` with `args`, which must succeed.
fn output(launcher: &Launcher, args: &[&str]) -> String {
    let output = launcher.command().args(args).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_short_form_makes_one_device_or_one_more() {
    if !has("ibv_devices") {
        return;
    }
    let launcher = Launcher::new("");
    let names = |args: &[&str]| -> Vec<String> {
        let text = output(&launcher, &[&["run"], args, &["--", "ibv_devices"]].concat());
        let rows = text.lines().skip(2).filter_map(|line| line.split_whitespace().next());
        rows.map(str::to_owned).collect()
    };
    assert_eq!(names(&[]), ["rdmap0s6"]);
    assert_eq!(names(&["--roce"]), ["roce0"]);
    assert_eq!(names(&["--device", "rdmap0s6=127.0.0.1", "--roce"]), ["rdmap0s6", "roce0"]);
    assert_eq!(names(&["--profile", "rxe"]), ["roce0"]);
}

#[test]
fn info_says_what_kind_a_device_is() {
    let launcher = Launcher::new("");
    let devices = ["--device", "a=127.0.0.1", "--device", "b=127.0.0.2,profile=roce,mtu=2048"];
    let text = output(&launcher, &[&["info"], &devices[..]].concat());
    let kinds: Vec<_> = text.lines().filter(|line| line.trim().starts_with("kind ")).collect();
    assert_eq!(kinds.len(), 2, "{text}");
    assert!(kinds[0].ends_with("EFA") && kinds[1].ends_with("RoCE v2"), "{text}");
    assert!(text.contains("025345") && text.contains("::ffff:127.0.0.2"), "{text}");
    let json = output(&launcher, &[&["info", "--json"], &devices[..]].concat());
    let info: Value = serde_json::from_str(&json).unwrap();
    let [efa, roce] = [0, 1].map(|at| &info["devices"][at]);
    assert_eq!((&efa["kind"], &efa["limits"]["max_srq"]), (&"EFA".into(), &Value::Null));
    assert_eq!((&roce["kind"], &roce["interface"]), (&"RoCE v2".into(), &"lo".into()));
    assert_eq!(roce["limits"]["path_mtu_bytes"], 2048);
    assert_eq!(roce["limits"]["max_srq"], 960);
    assert_eq!(roce["capabilities"].as_object().map(serde_json::Map::len), Some(3));
}

#[test]
fn top_says_what_kind_a_device_is() {
    if !has("ibv_asyncwatch") {
        return;
    }
    let launcher = Launcher::new("--device a=127.0.0.1 --device roce0=127.0.0.2,profile=roce");
    let watching = ["a", "roce0"].map(|device| {
        let words = format!("ibv_asyncwatch -d {device}");
        launcher.start(device, &words)
    });
    let look = || output(&launcher, &["top", "--once", "--interval", "0.1"]);
    wait_until("both devices are open", || look().matches("ibv_asyncwatch").count() == 2);
    let text = look();
    let is_row = |line: &&str, start: &[&str]| {
        line.split_whitespace().zip(start).filter(|(word, start)| word == *start).count()
            == start.len()
    };
    for start in [&["a", "EFA", "127.0.0.1"][..], &["roce0", "RoCE", "v2", "127.0.0.2"]] {
        assert!(text.lines().any(|line| is_row(&line, start)), "no {start:?} in\n{text}");
    }
    let json = output(&launcher, &["top", "--once", "--json", "--interval", "0.1"]);
    assert!(json.contains("\"kind\":\"RoCE v2\"") && json.contains("\"kind\":\"EFA\""), "{json}");
    for running in watching {
        kill_process(running.pid(), Signal::TERM).unwrap();
        assert_eq!(running.wait(LIMIT).code, 143);
    }
}

#[test]
fn what_a_roce_device_cannot_be_is_one_line() {
    let cases: [(&str, &[&str]); 8] = [
        ("mlx5_0=127.0.0.1,profile=roce", &["mlx5_0", "another vendor's", "roce0"]),
        ("rdmap0s6=127.0.0.1,profile=rxe", &["rdmap0s6", "another vendor's"]),
        ("r=127.0.0.1,profile=roce,mtu=1500", &["1500", "1024", "4096"]),
        ("r=127.0.0.1,profile=roce,rate=99", &["99", "100", "Gb/s"]),
        ("r=127.0.0.1,mtu=1024", &["device r", "profile=roce"]),
        ("r=127.0.0.1,profile=roce,gid=1", &["profile=, mtu=, rate=, gids= and gateway="]),
        ("r=127.0.0.1,profile=roce,gids=17", &["gids '17'", "1 to 16"]),
        ("r=127.0.0.1,profile=roce,mtu=256,mtu=256", &["twice"]),
    ];
    for (device, words) in cases {
        let (code, text) = fail(&["run", "--device", device, "--", "true"]);
        assert_eq!((code, text.lines().count()), (125, 1), "{device}: {text}");
        for word in words {
            assert!(text.contains(word), "{device} does not say {word}: {text}");
        }
    }
}

#[test]
fn a_gateway_does_not_go_with_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, [7; 32]).unwrap();
    let key = key.to_str().unwrap();
    let device = "r=127.0.0.1,profile=roce,gateway=4791";
    let (code, text) = fail(&["run", "--key-file", key, "--device", device, "--", "true"]);
    assert_eq!(code, 125, "{text}");
    for word in ["device r", "gateway", "key"] {
        assert!(text.contains(word), "{text}");
    }
}
