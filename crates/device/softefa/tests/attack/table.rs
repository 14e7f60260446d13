//! The table of results.

use std::fs;
use std::time::Duration;

use crate::Counts;
use crate::attacker::Deeds;
use crate::victims::Victims;

/// The rate at which messages arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) bytes: u64,
    took: Duration,
}

impl Rate {
    pub(crate) fn of(victims: &mut Victims, run: impl FnOnce(&mut Victims) -> Duration) -> Self {
        let before = victims.bytes;
        let took = run(victims);
        Self { bytes: victims.bytes - before, took }
    }

    fn per_second(&self) -> f64 {
        self.bytes as f64 / self.took.as_secs_f64()
    }
}

#[derive(Debug)]
pub(crate) struct AttackResult {
    pub(crate) name: String,
    pub(crate) mode: &'static str,
    pub(crate) deeds: Deeds,
    pub(crate) counts: Counts,
    pub(crate) calm: Rate,
    pub(crate) attacked: Rate,
    pub(crate) rss: u64,
    pub(crate) rss_after: u64,
}

/// Prints a line for each attack. The number of accepted datagrams is 0, otherwise the run has
/// ended.
pub(crate) fn print(rows: &[AttackResult]) {
    println!(
        "| attack on | mode | datagrams | per second | received and dropped | lost, queue full | answered | left without an answer | \
         challenges answered by the attacker | accepted | sent again | goodput before, MB/s | during | ratio | RSS before, MiB | after |"
    );
    println!("|{}", "---|".repeat(16));
    for row in rows {
        let AttackResult { name, mode, deeds, counts, calm, attacked, .. } = row;
        let per_second = deeds.sent as f64 / attacked.took.as_secs_f64();
        let (before, during) = (calm.per_second() / 1e6, attacked.per_second() / 1e6);
        let [rss, rss_after] =
            [row.rss, row.rss_after].map(|bytes| bytes as f64 / f64::from(1 << 20));
        let ratio = match attacked.bytes {
            0 => "-".into(),
            _ => format!("{:.2}", during / before),
        };
        println!(
            "| {name} | {mode} | {} | {per_second:.0} | {} | {} | {} | {} | {} | 0 | {} | {before:.0} | {during:.0} | {ratio} | {rss:.1} | {rss_after:.1} |",
            deeds.sent,
            counts.dropped,
            counts.lost,
            counts.answered,
            counts.unanswered,
            deeds.challenges,
            counts.repeated
        );
    }
}

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("its memory");
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
    pages * 4096
}
