//! Every option of every benchmark: it changes what is measured, or it is refused by its name.

use std::collections::BTreeSet;

use bench_engine::client::MeasureRequest;
use bench_record::spec::Benchmark;
use clap::{Args, Command as ClapCommand};

use super::*;
use crate::cli::{Cli, Command, MeasureArgs};

/// An option with a value that is not the usual one; what else it takes to be of use.
const VALUES: [(&str, &[&str]); 56] = [
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
    ("events", &["--events"]),
    ("post_list", &["--post-list", "3", "--depth", "33"]),
    ("order", &["--order", "numbered", "--sizes", "48"]),
    ("rate", &["--rate", "77"]),
    ("ramp", &["--ramp", "p99<2ms"]),
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
    ("watch", &["--watch", "0.1"]),
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
const ELSEWHERE: [&str; 8] = [
    "assertions",
    "json",
    "csv",
    "html",
    "quiet",
    "no_host_checks",
    "until_stdin_closes",
    "no_pin",
];

fn name(text: &str) -> Name {
    Name::from_str(text, false).expect("a benchmark")
}

fn request(name: Name, words: &[&str]) -> Result<MeasureRequest, Failure> {
    let text = name.text();
    let first = ["efa-bench", "run", &text, "--host", "h"];
    // The one thing that is another each time.
    let seed: &[&str] = if words.contains(&"--seed") { &[] } else { &["--seed", "1"] };
    let all = first.iter().chain(words).chain(seed).map(Into::into);
    let cli = Cli::parse_words(all.collect()).map_err(|e| Failure::Usage(e.to_string()))?;
    let Command::Run { measure, .. } = cli.command else { panic!("another command") };
    measure.given.check(&[name])?;
    measure.request(name, name.preset().nodes)
}

#[test]
fn every_option_changes_what_is_measured_or_is_refused_by_name() {
    for name in Name::value_variants() {
        let plain = format!("{:?}", request(*name, &[]).expect("without options"));
        for (option, words) in VALUES {
            // Its usual one is another.
            let is_usual = option == "op" && *name == self::name("tagged");
            let words = if is_usual { &["--op", "inject"][..] } else { words };
            let (text, long) = (name.text(), long(option));
            match request(*name, words) {
                Ok(changed) => {
                    assert!(name.reads(option), "{text}: {long} is accepted");
                    let without = words.get(2..).filter(|more| words.len() > 2 && !more.is_empty());
                    // What the companions change does not count.
                    let base = match without.map(|more| request(*name, more)) {
                        Some(Ok(base)) => format!("{base:?}"),
                        Some(Err(_)) | None => plain.clone(),
                    };
                    assert_ne!(format!("{changed:?}"), base, "{text}: {long} does nothing");
                }
                Err(refusal) => {
                    let line = refusal.to_string();
                    assert_eq!(refusal.exit_code(), 2, "{text} {long}: {line}");
                    assert_eq!(line.trim().lines().count(), 1, "{text} {long}: {line}");
                    if !name.reads(option) {
                        let is_named = words.iter().any(|word| line.contains(word));
                        assert!(is_named, "{text}: {long} is not named in: {line}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_option_there_is_has_a_value_and_none_is_read_that_is_not_there() {
    let command = MeasureArgs::augment_args(ClapCommand::new("run"));
    let all: BTreeSet<&str> = command.get_arguments().map(|own| own.get_id().as_str()).collect();
    for id in &all {
        let is_walked = VALUES.iter().any(|(option, _)| option == id);
        assert_ne!(is_walked, ELSEWHERE.contains(id), "--{id}: give it a value");
    }
    for benchmark in Benchmark::ALL {
        let about = benchmark.about();
        let ignored = about.names.iter().flat_map(|name| name.ignores);
        for option in about.reads.iter().copied().flatten().chain(ignored) {
            assert!(all.contains(option), "{}: {option} is no option", about.name);
        }
    }
}

#[test]
fn what_does_nothing_without_or_with_another_option_is_refused() {
    for (name, words, refusal) in [
        (
            Name::of(Benchmark::Latency),
            &["-d", "4"][..],
            "latency: --depth is not for this benchmark",
        ),
        (
            Name::of(Benchmark::Rpc),
            &["--arrivals", "fixed"],
            "--arrivals does nothing without --rate",
        ),
        (
            Name::of(Benchmark::Piggyback),
            &["--flush-us", "5"],
            "--flush-us does nothing without --rate",
        ),
        (
            Name::of(Benchmark::Latency),
            &["-n", "9", "-w", "1"],
            "--warmup does nothing with --iterations",
        ),
        (name("barrier"), &["--sizes", "8"], "--sizes is not for this benchmark"),
        (name("bcast"), &["--algorithm", "ring"], "it is for allreduce"),
        (
            Name::of(Benchmark::SatLatency),
            &["--arrivals", "fixed"],
            "--arrivals is not for this benchmark",
        ),
        (Name::of(Benchmark::SatLatency), &["-n", "9"], "--iterations is not for this benchmark"),
        (Name::of(Benchmark::Index), &["--kept", "1"], "--kept"),
    ] {
        let error = request(name, words).expect_err(refusal).to_string();
        assert!(error.contains(refusal), "{error}");
    }
    assert!(
        request(Name::of(Benchmark::OpenLoop), &["--arrivals", "fixed"]).is_ok(),
        "it has rates of its own"
    );
}
