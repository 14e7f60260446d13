//! The software device under programs that are started here: the `softefa` command, and the
//! counters that say what went through the device.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bench_record::fabric_name::FabricName;
use bench_record::failure::{Failure, plain};
use bench_record::wire::Wire;
use serde::Deserialize;

/// Finds the `softefa` command: the one that is named, else the one beside this program or in
/// `PATH`.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = match named {
        Some(path) => Some(path.to_owned()).filter(|path| path.is_file()),
        None => beside_or_in_path(),
    };
    path.ok_or_else(|| {
        Failure::Usage(match named {
            Some(path) => format!("--softefa {}: there is no such program", path.display()),
            None => "no softefa command beside efa-bench or in PATH: build it (`cargo build -p \
                     softefa-cli`), name it with --softefa=PATH, or choose another fabric"
                .to_owned(),
        })
    })
}

fn beside_or_in_path() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name("softefa");
    if beside.is_file() {
        return Some(beside);
    }
    in_path("softefa")
}

/// Finds the file of a program by its name or path; `None` if it is not installed.
pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|p| p.is_file())
}

/// Returns the options that give a program a device on which `fabric` runs: an EFA by default.
///
/// libfabric's verbs provider leaves out devices of loopback.
pub(crate) fn options(fabric: &FabricName) -> &'static [&'static str] {
    match fabric {
        FabricName::Libfabric(_) if fabric.needs_roce() => &["--roce"],
        _ if fabric.needs_roce() => &["--device", "roce0=127.0.0.1,profile=roce"],
        _ => &[],
    }
}

/// Returns the words that stand before a command that is to run on the device.
pub(crate) fn prefix(
    softefa: &Path,
    fabric: Option<&FabricName>,
    wire: Option<Wire>,
    counters: &Path,
) -> Vec<String> {
    let (softefa, counters) = (softefa.display().to_string(), counters.display().to_string());
    let mut words = [&softefa, "run", "--counters", &counters].map(str::to_owned).to_vec();
    words.extend(fabric.into_iter().flat_map(options).map(|word| (*word).to_owned()));
    words.extend(Wire::words(wire));
    words.push("--".to_owned());
    words
}

/// The counters that `softefa run --counters` wrote.
#[derive(Debug, Deserialize)]
pub(crate) struct Counters {
    /// The sums over all processes.
    #[serde(rename = "counters")]
    pub(crate) values: BTreeMap<String, u64>,
    #[serde(default)]
    processes: Vec<Process>,
}

#[derive(Debug, Deserialize)]
struct Process {
    counters: BTreeMap<String, u64>,
}

impl Counters {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |reason: String| Failure::Check(format!("no device counters ({reason})"));
        let bytes = std::fs::read(path).map_err(|e| failed(plain(&e)))?;
        serde_json::from_slice(&bytes).map_err(|e| failed(e.to_string()))
    }

    /// Checks that `ranks` processes have sent through the device, and together no less than
    /// `bytes`.
    pub(crate) fn check_ranks(&self, ranks: usize, bytes: u64) -> Result<(), Failure> {
        let sent = |one: &&Process| one.counters.get("tx_pkts").is_some_and(|&packets| packets > 0);
        let senders = self.processes.iter().filter(sent).count();
        let carried: u64 = ["send_bytes", "rdma_read_bytes", "rdma_write_bytes"]
            .iter()
            .filter_map(|name| self.values.get(*name))
            .sum();
        if senders == ranks && carried >= bytes {
            return Ok(());
        }
        Err(Failure::Check(format!(
            "{senders} of {ranks} ranks sent through the device, {carried} bytes of at least {bytes}: \
             the traffic did not go through Soft-EFA"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_beside_the_device_is_noticed() {
        let text = r#"{"counters":{"send_bytes":60,"rdma_read_bytes":40,"tx_pkts":9},"processes":[
            {"counters":{"tx_pkts":5}},{"counters":{"tx_pkts":4}},{"counters":{"tx_pkts":0}}]}"#;
        let counters: Counters = serde_json::from_str(text).expect("counters");
        assert!(counters.check_ranks(2, 100).is_ok());
        for (ranks, bytes) in [(2, 101), (3, 100), (1, 100)] {
            let error = counters.check_ranks(ranks, bytes).unwrap_err();
            assert_eq!(error.exit_code(), 11, "{error}");
        }
    }
}
