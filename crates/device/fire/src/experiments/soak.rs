//! A long run at full rate while queue pairs, regions and address handles are created and
//! destroyed: no resource may grow.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::Context;
use super::traffic::{faults, losses, number};
use crate::interrupt;
use crate::process::{Location, Peer, Role, STEP_LIMIT};
use crate::record::{Line, Plot, Record};

/// Growth that is not judged, because it is the allocator's.
const RSS_SLACK_KB: f64 = 4096.0;
/// A receiver remembers the queue pairs of others until they have been silent for 30 s (SRD-3.6).
/// Growth after this time is judged.
const SETTLED_S: f64 = 45.0;
/// Memory that a remote queue pair costs until then.
const PEER_KB: f64 = 2.0;
/// Descriptors may vary with the guests by at most this.
const DESCRIPTORS_SLACK: f64 = 8.0;
/// Threads may vary with the guests by at most this.
const THREADS_SLACK: f64 = 1.0;

/// The name of a figure, the figure, and by how much it may grow.
type Bound = (&'static str, fn(&Sample) -> f64, f64);

/// The resources of a process at one time.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at_s: f64,
    rss_kb: f64,
    descriptors: f64,
    threads: f64,
}

pub(super) fn run(context: &Context) -> Result<Vec<Record>> {
    let seconds = soak_seconds(context);
    let mut record = Record::new("full rate, both ways, with create and destroy", "seconds");
    record.times = seconds;
    let role = |source| Role { source, churn: true, polite: false, depth: 64, ..Role::default() };
    let mut ends =
        [Peer::start(Location::Loopback, &role(1))?, Peer::start(Location::Loopback, &role(2))?];
    let [a, b] = &mut ends;
    a.connect_to(b)?;
    b.connect_to(a)?;
    a.send_command("go")?;
    b.send_command("go")?;
    let samples = collect_samples(&ends, seconds)?;
    for end in &mut ends {
        end.send_command("stop")?;
    }
    for end in &mut ends {
        end.wait_for("ended", STEP_LIMIT)?;
    }
    interrupt::sleep(Duration::from_millis(200))?;
    let [a, b] = &mut ends;
    let (from_a, from_b) = (a.quit()?, b.quit()?);
    let mut failures = faults(&from_a);
    failures.extend(faults(&from_b));
    let (mut messages, mut guests, mut late) = (0, 0, 0);
    for (source, sender, receiver) in [(1u64, &from_a, &from_b), (2, &from_b, &from_a)] {
        let of_guests = number(&sender["guests"]["sent"]);
        for (name, sent) in [(source, number(&sender["begun"])), ((1u64 << 32) + source, of_guests)]
        {
            let numbers = &receiver["sources"][name.to_string()];
            let taken = number(&numbers["taken"]);
            failures.extend(losses(sent, taken).map(|losses| format!("source {name}: {losses}")));
            late = late.max(number(&numbers["late_max"]));
        }
        messages += number(&sender["begun"]);
        guests += of_guests;
        if number(&sender["guests"]["failed"]) > 0 {
            failures.push(format!("{} messages of guests failed", sender["guests"]["failed"]));
        }
    }
    failures.extend(samples.iter().flat_map(|samples| growth(samples, guests)));
    failures.into_iter().for_each(|failure| record.fail(failure));
    record.set_figure("messages", messages as f64);
    record.set_figure("guests", guests as f64);
    describe(&mut record, &samples, late);
    record.plots = plots(&samples);
    Ok(vec![record])
}

/// Returns the length in seconds: an hour, unless `FIRE_SOAK_SECONDS` sets another.
fn soak_seconds(context: &Context) -> u64 {
    let asked = std::env::var("FIRE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| context.pick(8, 3600))
}

fn collect_samples(ends: &[Peer; 2], seconds: u64) -> Result<[Vec<Sample>; 2]> {
    let started = Instant::now();
    let every = Duration::from_millis((seconds * 1000 / 600).max(200));
    let mut samples = [Vec::new(), Vec::new()];
    while started.elapsed() < Duration::from_secs(seconds) {
        interrupt::sleep(every)?;
        for (end, samples) in ends.iter().zip(&mut samples) {
            samples.push(take_sample(end.pid(), started.elapsed().as_secs_f64())?);
        }
    }
    Ok(samples)
}

fn take_sample(pid: u32, at_s: f64) -> Result<Sample> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("an end is gone")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
    };
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as f64;
    Ok(Sample { at_s, rss_kb: field("VmRSS:"), descriptors, threads: field("Threads:") })
}

/// Describes what grew beyond its bound between two tenths of the run: the first after peers are
/// forgotten as fast as they are created, and the last. A run that ends before that may keep all
/// its `guests`.
fn growth(samples: &[Sample], guests: u64) -> Vec<String> {
    let tenth = (samples.len() / 10).max(1);
    let settled = samples.iter().position(|sample| sample.at_s > SETTLED_S);
    let (from, kept_kb) = match settled.filter(|from| from + 3 * tenth <= samples.len()) {
        Some(from) => (from, 0.0),
        None => (0, PEER_KB * guests as f64),
    };
    let (Some(early), Some(late)) =
        (samples.get(from..from + tenth), samples.get(samples.len().saturating_sub(tenth)..))
    else {
        return Vec::new();
    };
    let highest = |part: &[Sample], of: fn(&Sample) -> f64| part.iter().map(of).fold(0.0, f64::max);
    let bounds: [Bound; 3] = [
        ("resident memory (KiB)", |s| s.rss_kb, RSS_SLACK_KB + kept_kb),
        ("descriptors", |s| s.descriptors, DESCRIPTORS_SLACK),
        ("threads", |s| s.threads, THREADS_SLACK),
    ];
    let grown = bounds.into_iter().filter_map(|(name, of, slack)| {
        let (before, after) = (highest(early, of), highest(late, of));
        (after > before + slack).then(|| format!("{name} grew from {before} to {after}"))
    });
    grown.collect()
}

fn describe(record: &mut Record, samples: &[Vec<Sample>; 2], late: u64) {
    let settled = |samples: &[Sample]| samples.iter().position(|sample| sample.at_s > SETTLED_S);
    let ends = samples
        .each_ref()
        .map(|samples| (samples.get(settled(samples).unwrap_or_default()), samples.last()));
    let mut words = Vec::new();
    for (name, (early, last)) in ["one end", "the other"].into_iter().zip(ends) {
        if let (Some(early), Some(last)) = (early, last) {
            words.push(format!(
                "{name}: {:.1} to {:.1} MiB, {} to {} descriptors, {} to {} threads",
                early.rss_kb / 1024.0,
                last.rss_kb / 1024.0,
                early.descriptors,
                last.descriptors,
                early.threads,
                last.threads
            ));
        }
    }
    record.result = format!(
        "{} messages and {} queue pairs, regions and address handles made and destroyed; every message once, overtaken by {late} at most; {}",
        record.figures["messages"],
        record.figures["guests"],
        words.join("; ")
    );
}

fn plots(samples: &[Vec<Sample>; 2]) -> Vec<Plot> {
    let line = |name: &str, of: &dyn Fn(&Sample) -> f64, samples: &[Sample]| Line {
        name: name.to_owned(),
        is_mark: false,
        points: samples
            .iter()
            .map(|sample| ((sample.at_s * 10.0).round() / 10.0, of(sample)))
            .collect(),
    };
    let plot = |title: &str, y: &str, lines| Plot {
        title: title.to_owned(),
        description: "Of both ends, while they send to each other and make and destroy objects."
            .to_owned(),
        x: "time (s)".to_owned(),
        y: y.to_owned(),
        lines,
    };
    let mib = |sample: &Sample| (sample.rss_kb / 102.4).round() / 10.0;
    let [a, b] = samples;
    vec![
        plot(
            "Resident memory in a soak",
            "resident memory (MiB)",
            vec![line("one end", &mib, a), line("the other", &mib, b)],
        ),
        plot(
            "Descriptors and threads in a soak",
            "open descriptors, threads",
            vec![line("descriptors", &|s| s.descriptors, a), line("threads", &|s| s.threads, a)],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_found_and_noise_is_not() {
        let samples = |per_s: f64| -> Vec<Sample> {
            let sample = |at: u32| {
                let at_s = f64::from(at);
                let rss_kb = 50_000.0 + per_s * at_s + f64::from(at % 7) * 100.0;
                Sample { at_s, rss_kb, descriptors: 20.0 + f64::from(at % 3), threads: 2.0 }
            };
            (0..600).map(sample).collect()
        };
        assert!(growth(&samples(0.0), 0).is_empty());
        assert_eq!(growth(&samples(10.0), 10_000).len(), 1);
        assert!(growth(&[], 0).is_empty());
        let short = &samples(200.0)[..40];
        assert_eq!((growth(short, 0).len(), growth(short, 10_000).len()), (1, 0));
    }
}
