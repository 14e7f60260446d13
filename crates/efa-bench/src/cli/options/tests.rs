//! Every option of every benchmark: it changes what is measured, or it is refused by its name.

use std::collections::BTreeSet;

use bench_engine::client::Wish;
use clap::{Args, Command as ClapCommand};

use super::*;
use crate::cli::{Cli, Command, MeasureArgs};

/// An option with a value that is not the usual one; what else it takes to be of use.
const VALUES: [(&str, &[&str]); 53] = [
    ("fabric", &["--fabric", "udp", "--endpoint", "dgram"]),
    ("provider", &["--provider", "shm"]),
    ("domain", &["--domain", "lo"]),
    ("endpoint", &["--endpoint", "dgram"]),
    ("threads", &["--threads", "3"]),
    ("endpoints", &["--endpoints", "3"]),
    ("cpu", &["--cpu", "0"]),
    ("server_cpu", &["--server-cpu", "0"]),
    ("numa", &["--numa", "0"]),
    ("server_numa", &["--server-numa", "0"]),
    ("op", &["--op", "tagged"]),
    ("sizes", &["--sizes", "48"]),
    ("depth", &["--depth", "33"]),
    ("rx_depth", &["--rx-depth", "4096"]),
    ("window", &["--window", "refill"]),
    ("complete_every", &["--complete-every", "3", "--depth", "33"]),
    ("memory", &["--memory", "1G"]),
    ("post_list", &["--post-list", "3", "--depth", "33"]),
    ("order", &["--order", "numbered", "--sizes", "48"]),
    ("rate", &["--rate", "77"]),
    ("arrivals", &["--arrivals", "fixed", "--rate", "77"]),
    ("load_size", &["--load-size", "77"]),
    ("validate", &["--validate"]),
    ("duration", &["--duration", "0.7"]),
    ("iterations", &["--iterations", "77"]),
    ("warmup", &["--warmup", "0.7"]),
    ("blocks", &["--blocks", "7"]),
    ("until", &["--until", "ci=7%"]),
    ("runs", &["--runs", "7"]),
    ("seed", &["--seed", "7"]),
    ("timeout", &["--timeout", "77"]),
    ("no_counters", &["--no-counters"]),
    ("no_histogram", &["--no-histogram"]),
    ("name", &["--name", "mine"]),
    ("request", &["--request", "77"]),
    ("keys", &["--keys", "77"]),
    ("gets", &["--gets", "7"]),
    ("zipf", &["--zipf", "0.7"]),
    ("records", &["--records", "7"]),
    ("flush_us", &["--flush-us", "7", "--rate", "77"]),
    ("way", &["--way", "hybrid"]),
    ("kept", &["--kept", "2", "--way", "read"]),
    ("chunk", &["--chunk", "800"]),
    ("buffer", &["--buffer", "800"]),
    ("from", &["--from", "page-cache"]),
    ("locks", &["--locks"]),
    ("link_gbit", &["--link-gbit", "7"]),
    ("group", &["--group", "7"]),
    ("commit", &["--commit", "majority"]),
    ("ack", &["--ack", "completion", "--provider", "efa"]),
    ("persistent", &["--persistent"]),
    ("interval_ms", &["--interval-ms", "7", "--persistent"]),
    ("algorithm", &["--algorithm", "doubling"]),
];

/// What changes where results go, not what is measured, and what `local` alone reads.
const ELSEWHERE: [&str; 8] =
    ["assertions", "json", "csv", "html", "quiet", "no_doubts", "until_stdin_closes", "no_pin"];

fn wish(name: Name, words: &[&str]) -> Result<Wish, Failure> {
    let text = name.text();
    let first = ["efa-bench", "run", &text, "--host", "h"];
    // The one thing that is another each time.
    let seed: &[&str] = if words.contains(&"--seed") { &[] } else { &["--seed", "1"] };
    let all = first.iter().chain(words).chain(seed).map(Into::into);
    let cli = Cli::parse_words(all.collect()).map_err(|e| Failure::Usage(e.to_string()))?;
    let Command::Run { measure, .. } = cli.command else { panic!("another command") };
    measure.given.check(&[name])?;
    measure.wish(name, name.preset().nodes)
}

#[test]
fn every_option_changes_what_is_measured_or_is_refused_by_name() {
    for name in Name::value_variants() {
        let plain = format!("{:?}", wish(*name, &[]).expect("without options"));
        for (option, words) in VALUES {
            // Its usual one is another.
            let is_usual = option == "op" && *name == Name::Tagged;
            let words = if is_usual { &["--op", "inject"][..] } else { words };
            let (text, long) = (name.text(), long(option));
            match wish(*name, words) {
                Ok(changed) => {
                    assert!(reads(*name, option), "{text}: {long} is accepted");
                    let without = words.get(2..).filter(|more| words.len() > 2 && !more.is_empty());
                    // What the companions change does not count.
                    let base = match without.map(|more| wish(*name, more)) {
                        Some(Ok(base)) => format!("{base:?}"),
                        Some(Err(_)) | None => plain.clone(),
                    };
                    assert_ne!(format!("{changed:?}"), base, "{text}: {long} does nothing");
                }
                Err(refusal) => {
                    let line = refusal.to_string();
                    assert_eq!(refusal.exit_code(), 2, "{text} {long}: {line}");
                    assert_eq!(line.trim().lines().count(), 1, "{text} {long}: {line}");
                    if !reads(*name, option) {
                        let is_named = words.iter().any(|word| line.contains(word));
                        assert!(is_named, "{text}: {long} is not named in: {line}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_option_there_is_has_a_row_and_a_value() {
    let command = MeasureArgs::augment_args(ClapCommand::new("run"));
    let known = |id: &str| {
        ROWS.iter().any(|(option, _)| *option == id)
            || BY_NAME.iter().any(|(option, ..)| *option == id)
    };
    let mut all = BTreeSet::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        assert!(known(id), "--{id} has no row: who reads it?");
        let is_walked = VALUES.iter().any(|(option, _)| *option == id);
        assert_ne!(is_walked, ELSEWHERE.contains(&id), "--{id}: give it a value");
        all.insert(id.to_owned());
    }
    for (option, _) in ROWS {
        assert!(all.contains(option), "{option} is a row of no option");
    }
}

#[test]
fn what_does_nothing_without_or_with_another_option_is_refused() {
    for (name, words, refusal) in [
        (Name::Latency, &["-d", "4"][..], "latency: --depth is not for this benchmark"),
        (Name::Rpc, &["--arrivals", "fixed"], "--arrivals does nothing without --rate"),
        (Name::Piggyback, &["--flush-us", "5"], "--flush-us does nothing without --rate"),
        (Name::Latency, &["-n", "9", "-w", "1"], "--warmup does nothing with --iterations"),
        (Name::Barrier, &["--sizes", "8"], "--sizes is not for this benchmark"),
        (Name::Bcast, &["--algorithm", "ring"], "it is for allreduce"),
        (Name::SatLatency, &["--arrivals", "fixed"], "--arrivals is not for this benchmark"),
        (Name::Index, &["--kept", "1"], "--kept"),
    ] {
        let error = wish(name, words).expect_err(refusal).to_string();
        assert!(error.contains(refusal), "{error}");
    }
    assert!(wish(Name::OpenLoop, &["--arrivals", "fixed"]).is_ok(), "it has rates of its own");
}
