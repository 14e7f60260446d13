//! Any text as a scenario file, and what follows a line `#data` as the data file beside it
//! (`data.csv`). What is accepted and small is run: no rule of a run may break, and looking at it
//! must not change it.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use netsim::Scenario;

const HOSTS_MAX: u32 = 64;
const FLOWS_MAX: usize = 256;
const BYTES_MAX: u64 = 1 << 20;
const LIMIT_MS_MAX: u32 = 50;
const SAMPLE_US: u32 = 500;

/// Where the data file is.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("netsim-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the data file");
    folder
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (text, data) = text.split_once("\n#data\n").unwrap_or((text, ""));
    let file = FOLDER.join("data.csv");
    if !data.is_empty() {
        std::fs::write(&file, data).expect("the data file is written");
    }
    let scenario = Scenario::parse_in(text, &FOLDER);
    if !data.is_empty() {
        std::fs::remove_file(&file).expect("the data file is there");
    }
    match scenario {
        Ok(scenario) => run(&scenario),
        Err(error) => assert!(!error.to_string().contains('\n'), "more than a line: {error}"),
    }
});

fn run(scenario: &Scenario) {
    let (hosts, flows) = scenario.size();
    let is_small = hosts <= HOSTS_MAX
        && flows <= FLOWS_MAX
        && scenario.bytes() <= BYTES_MAX
        && scenario.limit_ms() <= LIMIT_MS_MAX;
    if !is_small {
        return;
    }
    assert!(!scenario.network().is_empty());
    let seed = scenario.seeds()[0];
    let outcome = scenario.run(seed).expect("every run keeps the rules");
    let (seen, _) = scenario.run_sampled(seed, SAMPLE_US).expect("every run keeps the rules");
    assert_eq!(seen, outcome, "looking at a run changes it");
    let _ = scenario.missed(&[outcome]);
}
