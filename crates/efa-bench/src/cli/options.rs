//! Which benchmark reads which option. An option that does nothing for a benchmark is refused: whoever
//! gives it believes that it does something.

use bench_record::failure::Failure;
use bench_record::names::Name;
use bench_record::spec::Benchmark;
use clap::parser::ValueSource;
use clap::{ArgMatches, ValueEnum};

/// The options that were given, by their names in [`ROWS`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Given(Vec<String>);

/// Who reads an option.
#[derive(Debug, Clone, Copy)]
enum Readers {
    All,
    Only(&'static [Benchmark]),
    AllBut(&'static [Benchmark]),
}

use Benchmark::{
    Bandwidth, Collective, FileGet, Incast, Index, Kv, Latency, Log, OpenLoop, Piggyback, PingPong,
    Rma, Rpc, SatLatency, Shuffle, TwoPhase,
};
use Readers::{All, AllBut, Only};

const STREAMS: Readers = Only(&[Bandwidth, Rma]);
const CLOCKED: &[Benchmark] = &[Rpc, Kv, Piggyback, Index, FileGet, Log, TwoPhase];

/// Every option of a measurement, and who reads it.
const ROWS: [(&str, Readers); 61] = [
    // Where.
    ("fabric", All),
    ("provider", All),
    ("domain", All),
    ("endpoint", All),
    ("threads", AllBut(&[Collective, Incast])),
    ("endpoints", Only(&[Bandwidth, Rma, Rpc, Kv, Piggyback, Index, FileGet, Log, Incast])),
    ("cpu", All),
    ("server_cpu", All),
    ("numa", All),
    ("server_numa", All),
    ("no_pin", All),
    // What.
    ("op", All),
    ("sizes", All),
    ("depth", AllBut(&[Latency, PingPong, Collective])),
    ("rx_depth", AllBut(&[Latency, PingPong, Rma, OpenLoop, FileGet, Collective])),
    ("window", STREAMS),
    ("complete_every", STREAMS),
    ("memory", STREAMS),
    ("post_list", Only(&[Bandwidth, Rma, Rpc, Kv, Index, Log, TwoPhase])),
    ("order", Only(&[Bandwidth])),
    ("rate", Only(&[OpenLoop, SatLatency, Rpc, Kv, Piggyback, Index, FileGet, Log, TwoPhase])),
    ("arrivals", Only(&[OpenLoop, Rpc, Kv, Piggyback, Index, FileGet, Log, TwoPhase])),
    ("load_size", Only(&[SatLatency])),
    ("validate", AllBut(&[OpenLoop, Rma])),
    // How long.
    ("duration", All),
    ("iterations", AllBut(&[OpenLoop])),
    ("warmup", All),
    ("blocks", All),
    ("until", All),
    ("runs", All),
    ("seed", All),
    ("timeout", All),
    // What becomes of it.
    ("assertions", All),
    ("no_counters", All),
    ("no_histogram", Only(&[Latency, SatLatency, Rma, OpenLoop, Incast, Collective])),
    ("name", All),
    ("json", All),
    ("csv", All),
    ("html", All),
    ("quiet", All),
    ("no_doubts", All),
    ("until_stdin_closes", All),
    // Of workloads.
    ("request", Only(&[Rpc])),
    ("keys", Only(&[Rpc, Kv, TwoPhase, Shuffle])),
    ("gets", Only(&[Kv])),
    ("zipf", Only(&[Rpc, Kv, Index, TwoPhase, Shuffle])),
    ("records", Only(&[Piggyback])),
    ("flush_us", Only(&[Piggyback])),
    ("way", Only(&[Index])),
    ("kept", Only(&[Index])),
    ("chunk", Only(&[FileGet, Incast, Collective])),
    ("buffer", Only(&[Shuffle])),
    ("from", Only(&[FileGet])),
    ("locks", Only(&[TwoPhase])),
    ("link_gbit", Only(&[Incast, Shuffle])),
    ("group", Only(&[Log])),
    ("commit", Only(&[Log])),
    ("ack", Only(&[Log])),
    ("persistent", Only(&[Incast])),
    ("interval_ms", Only(&[Incast])),
    ("algorithm", Only(&[Collective])),
];

/// What not all names of a benchmark read: option, and who does.
const BY_NAME: [(&str, Benchmark, &[Name]); 3] = [
    ("algorithm", Collective, &[Name::Allreduce]),
    ("chunk", Collective, &[Name::Allgather, Name::Allreduce, Name::Bcast]),
    ("sizes", Collective, &[Name::Allgather, Name::Allreduce, Name::Bcast]),
];

/// An option that does nothing for some benchmarks without another one.
const NEEDS: [(&str, &[Benchmark], &str); 2] =
    [("arrivals", CLOCKED, "rate"), ("flush_us", &[Piggyback], "rate")];

/// Options of which the second makes the first do nothing, and why.
const REPLACED: [(&str, &str, &str); 1] =
    [("warmup", "iterations", "a tenth of the iterations, at least 100, is the warm-up")];

/// `--rx-depth` of `rx_depth`.
fn long(option: &str) -> String {
    match option {
        "assertions" => "--assert".to_owned(),
        option => format!("--{}", option.replace('_', "-")),
    }
}

fn reads(name: Name, option: &str) -> bool {
    let benchmark = name.preset().benchmark;
    let own = BY_NAME.iter().find(|(own, of, _)| *own == option && *of == benchmark);
    if let Some((_, _, names)) = own {
        return names.contains(&name);
    }
    // What has no row is none of ours: the host, say.
    ROWS.iter().find(|(own, _)| *own == option).is_none_or(|(_, readers)| match readers {
        All => true,
        Only(readers) => readers.contains(&benchmark),
        AllBut(others) => !others.contains(&benchmark),
    })
}

/// Who reads an option, where that is few.
fn readers(option: &str) -> String {
    const FEW: usize = 6;
    let all = Name::value_variants().iter().filter(|name| reads(**name, option));
    let names: Vec<String> = all.map(|name| name.text()).collect();
    if names.len() > FEW { String::new() } else { format!(": it is for {}", names.join(", ")) }
}

impl Given {
    /// Of a command's words.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let given = matches.ids().map(clap::Id::as_str).filter(|id| {
            // Groups are in the list, too.
            let is_option = matches.try_contains_id(id).is_ok();
            is_option && matches.value_source(id) == Some(ValueSource::CommandLine)
        });
        Self(given.map(str::to_owned).collect())
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.0.iter().any(|own| own == option)
    }

    /// Refuses what none of `names` reads.
    pub(crate) fn check(&self, names: &[Name]) -> Result<(), Failure> {
        let what = names.iter().map(|name| name.text()).collect::<Vec<_>>().join(", ");
        let wrong = |text: String| Err(Failure::Usage(format!("{what}: {text}")));
        for option in &self.0 {
            if !names.iter().any(|name| reads(*name, option)) {
                let (option, readers) = (long(option), readers(option));
                return wrong(format!("{option} is not for this benchmark{readers}"));
            }
        }
        let all = |of: &[Benchmark]| names.iter().all(|name| of.contains(&name.preset().benchmark));
        for (option, of, other) in NEEDS {
            if self.has(option) && all(of) && !self.has(other) {
                return wrong(format!("{} does nothing without {}", long(option), long(other)));
            }
        }
        for (option, other, why) in REPLACED {
            if self.has(option) && self.has(other) {
                let (option, other) = (long(option), long(other));
                return wrong(format!("{option} does nothing with {other}: {why}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
