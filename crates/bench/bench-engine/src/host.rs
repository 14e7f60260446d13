//! Facts about this machine and process.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bench_record::fabric_name::FabricName;
use bench_record::wire::Wire;
use bench_record::{Host, Machine};

/// Reads the facts. A fact that cannot be read is empty.
pub fn describe() -> Host {
    Host {
        name: name(),
        kernel: format!(
            "{} {}",
            line("/proc/sys/kernel/ostype"),
            line("/proc/sys/kernel/osrelease")
        ),
        cpu: cpu_model(),
        cores: cores(),
        numa_nodes: crate::numa::nodes().len(),
        clock_read_ns: clock_read_ns(),
        environment: std::env::vars().filter(|(name, _)| is_told(name)).collect::<BTreeMap<_, _>>(),
    }
}

/// Returns the wire that the software device of this process was told to use; `None` if there is no
/// such device, or it was told nothing.
pub(crate) fn wire(fabric: &FabricName) -> Option<Wire> {
    let named = std::env::var("SOFTEFA_WIRE").ok().filter(|_| fabric.is_rdma())?;
    Wire::ALL.into_iter().find(|wire| wire.name() == named)
}

/// Returns true if the value of a variable belongs in the record. A result file goes to other
/// people: the variables that let a process talk to the other processes of a run must stay secret.
fn is_told(name: &str) -> bool {
    const SECRET: [&str; 2] = ["SOFTEFA_LOCAL_KEY", "SOFTEFA_RUN_DIR"];
    (name.starts_with("FI_") || name.starts_with("SOFTEFA_")) && !SECRET.contains(&name)
}

/// Returns the facts that tell this machine from others.
pub fn machine() -> Machine {
    Machine { name: name(), cpu: cpu_model(), cores: cores() }
}

/// Returns the name of this host.
pub fn name() -> String {
    line("/proc/sys/kernel/hostname")
}

/// Returns the number of processors that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the number of processors of this machine, also those that a launcher keeps from this
/// process.
pub fn cores_online() -> usize {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines().filter(|line| line.starts_with("processor")).count().max(cores())
}

fn line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        text.lines()
            .find(|l| l.starts_with(name))
            .and_then(|l| l.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
    };
    field("model name").or_else(|| field("CPU implementer")).unwrap_or_default()
}

/// Returns the mean cost of reading the clock in ns, over enough reads for two digits.
fn clock_read_ns() -> f64 {
    const READS: u32 = 20_000;
    let start = Instant::now();
    for _ in 0..READS {
        black_box(Instant::now());
    }
    (start.elapsed().as_nanos() as f64 / f64::from(READS) * 10.0).round() / 10.0
}

/// Finds what makes figures of this machine or this program worse than they could be, if both sides
/// have `cores` processors; takes a fifth of a second. Must be called before measuring.
pub fn doubts(cores: usize) -> Vec<String> {
    let mut doubts = Vec::new();
    if cfg!(debug_assertions) {
        doubts.push("efa-bench is a debug build: use --release for figures that count".to_owned());
    }
    if cores < 2 {
        doubts.push(
            "one core for two busy-polling sides: the figures are bound by scheduling".to_owned(),
        );
    }
    if let Some(percent) = busy_percent(BUSY_SAMPLE).filter(|p| *p > BUSY_PERCENT_MAX) {
        doubts.push(format!(
            "other programs used {percent:.0} % of the {cores} cores just before the measurement: \
             the figures are bound by scheduling"
        ));
    }
    doubts
}

/// The share of processor time above which a machine is not quiet, in percent.
const BUSY_PERCENT_MAX: f64 = 15.0;
const BUSY_SAMPLE: Duration = Duration::from_millis(200);

/// Returns the share of all processor time that was used within `sample`, in percent.
fn busy_percent(sample: Duration) -> Option<f64> {
    let before = processor_ticks()?;
    std::thread::sleep(sample);
    let after = processor_ticks()?;
    let (busy, all) = (after.0.checked_sub(before.0)?, after.1.checked_sub(before.1)?);
    (all > 0).then(|| busy as f64 * 100.0 / all as f64)
}

/// Returns the busy and the total ticks of all processors since the start of the machine.
fn processor_ticks() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let numbers: Vec<u64> = text
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|n| n.parse().ok())
        .collect();
    let all: u64 = numbers.iter().sum();
    // user nice system idle iowait irq softirq steal: the fourth and fifth are not busy.
    let idle = numbers.get(3)? + numbers.get(4)?;
    Some((all - idle, all))
}

/// Returns a seed that was not chosen.
pub fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // The seed is short enough to be typed again.
    RandomState::new().build_hasher().finish() >> 32
}

/// Returns the present time in UTC, as ISO 8601.
pub fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    iso_date(seconds)
}

/// Formats seconds since 1970 as a date (proleptic Gregorian calendar).
fn iso_date(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let leap = |y: u64| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let mut year = 1970;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}

/// Returns this process's command line, quoted for a shell.
pub fn command_line() -> String {
    std::env::args().map(|a| report::shell_word(&a)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of a run must not be published.
    #[test]
    fn secrets_are_not_in_a_result_file() {
        let told = ["FI_EFA_IFACE", "SOFTEFA_WIRE"].map(is_told);
        let kept = ["SOFTEFA_LOCAL_KEY", "SOFTEFA_RUN_DIR", "HOME"].map(is_told);
        assert_eq!((told, kept), ([true; 2], [false; 3]));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(iso_date(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(iso_date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(iso_date(4_102_444_800), "2100-01-01T00:00:00Z");
    }
}
