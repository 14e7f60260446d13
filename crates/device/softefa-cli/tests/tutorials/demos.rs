//! The recorded demos: their script still works, and the pictures that are checked in show its
//! commands.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{exclusive, has, softefa};

/// The demos, each with text that must appear in it.
const DEMOS: [(&str, &[&str]); 2] = [
    (
        "live-faults",
        &["hca_id:", "BW average[MB/sec]", "loss=10%,seed=0", "fault_lost", "blackhole=path:1"],
    ),
    ("top", &["QUEUE PAIR", "GOODPUT, 60 s", "path 1", "blackhole=path:1", "loss=5%", "█"]),
];

/// Returns the commands that a picture says it shows.
fn commands(picture: &str) -> &str {
    let rest = picture.split_once("<desc").unwrap().1;
    rest.split_once("</desc>").unwrap().0
}

#[test]
fn the_demos_can_be_recorded_again() {
    let _one = exclusive();
    if !["python3", "ib_send_bw", "ibv_devinfo"].iter().all(|program| has(program)) {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/demos");
    let out = tempfile::tempdir().unwrap();
    let programs = softefa().parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("python3")
        .args(["-B", "record.py", "--quick", "--into"])
        .arg(out.path())
        .current_dir(&folder)
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (name, seen) in DEMOS {
        let file = format!("{name}.svg");
        let again = fs::read_to_string(out.path().join(&file)).unwrap();
        let kept = fs::read_to_string(folder.join(&file)).unwrap();
        assert_eq!(commands(&again), commands(&kept), "{file} is old: make demos records it again");
        for what in seen {
            assert!(again.contains(what), "{file}: {what} was not seen");
            assert!(kept.contains(what), "{file} as it is checked in: {what} is not seen");
        }
        assert!(kept.len() < 100_000 && !kept.contains("<script"), "{file}: {}", kept.len());
        // Every XML parser must accept it.
        let parse = "import sys, xml.dom.minidom as d; d.parse(sys.argv[1])";
        let parsed = Command::new("python3").args(["-c", parse]).arg(folder.join(&file)).status();
        assert!(parsed.unwrap().success(), "{file}");
    }
    let demos = fs::read_dir(&folder).unwrap().filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "demo")
    });
    assert_eq!(demos.count(), DEMOS.len(), "each demo is listed here");
}
