//! `docs/CONSUMERS.md` from the results that the consumer tests recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use report::{Page, Section, Table, wrapped};
use serde::Deserialize;

const SUMMARY: &str = "This page lists unmodified programs and libraries from other projects, run on the \
     device of `softefa run`. `make consumers` writes it; do not edit it.";
const LEGEND: &str = "Each case consists of two or more processes. It checks their output and exit codes, \
     and asserts that the device's own counters moved. Every case runs twice: on the \
     default wire, which is memory between processes of one machine, and over UDP. \
     *sent* is the payload of the posted SENDs, READs and WRITEs; *in memory* is the \
     share of the packets that went through memory instead of a socket; *repeated* is \
     the number of packets sent again.";

/// One case as `softefa-cli`'s tests record it, a line of JSON each.
#[derive(Debug, Clone, Deserialize)]
struct Record {
    consumer: String,
    version: String,
    origin: String,
    what: String,
    /// Faults in the form of `--fault`; empty for none.
    faults: String,
    /// Wire in the form of `--wire`; empty for the default.
    #[serde(default)]
    wire: String,
    /// Result: `passed`, `failed` or `not run`.
    result: String,
    note: String,
    seconds: f64,
    counters: BTreeMap<String, u64>,
}

impl Record {
    fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }

    fn sent_bytes(&self) -> u64 {
        ["send_bytes", "rdma_read_bytes", "rdma_write_bytes"]
            .map(|name| self.counter(name))
            .iter()
            .sum()
    }

    /// Returns the percentage of the packets sent that went through memory.
    fn percent_in_memory(&self) -> String {
        let [all, in_memory] = ["tx_pkts", "tx_memory_pkts"].map(|name| self.counter(name) as f64);
        if all > 0.0 { format!("{:.0}", 100.0 * in_memory / all) } else { String::new() }
    }

    fn verdict(&self) -> String {
        if self.result == "failed" { "**failed**".to_owned() } else { self.result.clone() }
    }
}

/// Reads the results and writes the document.
pub(crate) fn write(results: &Path, document: &Path) -> Result<()> {
    let text = fs::read_to_string(results)
        .with_context(|| format!("cannot read {}; `make consumers` makes it", results.display()))?;
    let records = parse(&text)?;
    ensure!(!records.is_empty(), "{} holds no result", results.display());
    report::write_atomic(document, render(&records, &system()).as_bytes())?;
    println!("{} results written to {}", records.len(), document.display());
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Record>> {
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("line {}: {line}", number + 1))
    };
    let mut records: Vec<Record> = Vec::new();
    for record in text.lines().enumerate().map(line) {
        let record: Record = record?;
        // A case that cannot be run cannot be run on either wire.
        let is_same = |other: &Record| other.result == "not run" && other.what == record.what;
        if record.result != "not run" || !records.iter().any(is_same) {
            records.push(record);
        }
    }
    records.sort_by_key(consumer);
    Ok(records)
}

/// Returns distribution, kernel and architecture of this machine.
fn system() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let name = name.unwrap_or("unknown").trim_matches('"');
    format!("{name}, Linux {}, {}", kernel.trim(), std::env::consts::ARCH)
}

fn render(records: &[Record], system: &str) -> String {
    let faults: Vec<&str> = distinct(records.iter().map(|record| record.faults.as_str()));
    let faults: Vec<&str> = faults.into_iter().filter(|faults| !faults.is_empty()).collect();
    let sections = distinct(records.iter().map(consumer)).into_iter().map(|of| {
        section(&of, &records.iter().filter(|record| consumer(record) == of).collect::<Vec<_>>())
    });
    let dealt = faults.iter().map(|faults| format!("`{faults}`")).collect::<Vec<_>>().join(", ");
    // The text is broken as it will stand in a list of facts.
    let bullet = "* --fault: ";
    let dealt = wrapped(&dealt, bullet, "  ").split_off(bullet.len());
    let page = Page {
        title: "Consumers".to_owned(),
        summary: vec![wrapped(SUMMARY, "", ""), wrapped(LEGEND, "", "")],
        facts: vec![
            ("system".to_owned(), system.to_owned()),
            ("--fault".to_owned(), dealt),
            ("failed".to_owned(), count(records, "failed")),
            ("passed".to_owned(), count(records, "passed")),
            ("not run".to_owned(), count(records, "not run")),
        ],
        sections: sections.collect(),
        ..Page::default()
    };
    report::markdown(&page)
}

fn consumer(record: &Record) -> String {
    format!("{} {} ({})", record.consumer, record.version, record.origin)
}

fn count(records: &[Record], result: &str) -> String {
    records.iter().filter(|record| record.result == result).count().to_string()
}

/// Returns each value once, in the order of first appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut seen, value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
        seen
    })
}

/// Returns one row per case and wire: its counters without faults, and with them.
fn section(title: &str, records: &[&Record]) -> Section {
    let columns = [
        "case",
        "wire",
        "result",
        "with faults",
        "note",
        "s",
        "sent, MB",
        "in memory, %",
        "s with faults",
        "repeated",
    ];
    let mut table = Table::new("cases", &columns, 5);
    for what in distinct(records.iter().map(|record| record.what.as_str())) {
        let of_case: Vec<&Record> =
            records.iter().filter(|record| record.what == what).copied().collect();
        for wire in distinct(of_case.iter().map(|record| record.wire.as_str())) {
            let with = |faulty: bool| {
                let mut cases = of_case.iter().filter(|record| record.wire == wire);
                cases.rfind(|record| record.faults.is_empty() != faulty).copied()
            };
            table.push(row(what, wire, with(false), with(true)));
        }
    }
    Section { title: title.to_owned(), tables: vec![table], ..Section::default() }
}

fn row(what: &str, wire: &str, plain: Option<&Record>, faulty: Option<&Record>) -> Vec<String> {
    let cell = |record: Option<&Record>, of: &dyn Fn(&Record) -> String| {
        record.filter(|record| record.result != "not run").map(of).unwrap_or_default()
    };
    let seconds = |record: &Record| format!("{:.1}", record.seconds);
    let notes = [plain, faulty].into_iter().flatten().map(|record| record.note.as_str());
    let notes = distinct(notes.filter(|note| !note.is_empty()));
    let wire = if wire.is_empty() { "auto" } else { wire };
    vec![
        what.to_owned(),
        cell(plain.or(faulty), &|_| wire.to_owned()),
        plain.map(Record::verdict).unwrap_or_default(),
        faulty.map(Record::verdict).unwrap_or_default(),
        notes.join("; "),
        cell(plain, &seconds),
        cell(plain, &|record| format!("{:.1}", record.sent_bytes() as f64 / 1e6)),
        cell(plain, &Record::percent_in_memory),
        cell(faulty, &seconds),
        cell(faulty, &|record| record.counter("retrans_pkts").to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(what: &str, faults: &str, result: &str) -> String {
        record_of_wire(what, faults, result, "")
    }

    fn record_of_wire(what: &str, faults: &str, result: &str, wire: &str) -> String {
        let in_memory = if wire == "udp" { 0 } else { 30 };
        let counters = serde_json::json!({
            "send_bytes": 2_500_000, "retrans_pkts": 7, "tx_pkts": 40, "tx_memory_pkts": in_memory,
        });
        let record = serde_json::json!({
            "consumer": "perftest", "version": "4.5", "origin": "Debian", "what": what,
            "faults": faults, "wire": wire, "result": result, "note": "", "seconds": 1.25, "counters": counters,
        });
        record.to_string()
    }

    #[test]
    fn a_case_with_and_without_faults_is_one_row() {
        let lines = [record("a", "", "passed"), record("a", "loss=1%", "failed")];
        let text = render(&parse(&lines.join("\n")).unwrap(), "here");
        assert!(text.contains("## perftest 4.5 (Debian)"), "{text}");
        assert!(
            text.contains("| a | auto | passed | **failed** |  | 1.2 | 2.5 | 75 | 1.2 | 7 |"),
            "{text}"
        );
        assert!(text.contains("* failed: 1\n* passed: 1\n"), "{text}");
    }

    #[test]
    fn each_wire_has_a_row() {
        let records = ["auto", "udp"].map(|wire| record_of_wire("a", "", "passed", wire));
        let text = render(&parse(&records.join("\n")).unwrap(), "here");
        assert!(text.contains("| a | auto | passed |  |  | 1.2 | 2.5 | 75 |  |  |"), "{text}");
        assert!(text.contains("| a | udp | passed |  |  | 1.2 | 2.5 | 0 |  |  |"), "{text}");
    }

    #[test]
    fn what_was_not_run_has_no_figures() {
        let records = ["auto", "udp"].map(|wire| record_of_wire("b", "", "not run", wire));
        let text = render(&parse(&records.join("\n")).unwrap(), "here");
        let row = "| b |  | not run |  |  |  |  |  |  |  |";
        assert_eq!(text.matches(row).count(), 1, "{text}");
        assert!(text.contains("* not run: 1"), "{text}");
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = parse("{}").unwrap_err();
        assert!(error.to_string().starts_with("line 1"), "{error}");
    }
}
