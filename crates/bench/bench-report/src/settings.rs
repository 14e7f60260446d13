//! The settings that identify a measurement: everything that was requested, as names and values.
//! Two points with the same settings measured the same; plots show the settings in which points
//! differ.
//!
//! The seed, processors, warm-up and duration do not identify a measurement. The number of posted
//! receives does, unless it equals the depth, which is the default; a record without this number
//! (published, or of another tool) counts as one with the default.

use std::fmt;

use bench_record::spec::{
    Arrivals, Benchmark, EndpointKind, Flow, Operation, Order, PING_PONG_RECEIVES, Window,
};
use bench_record::workload::{
    Ack, Algorithm, Commit, IncastSpec, LogSpec, LookupMethod, OwnSpec, Source, WorkSpec,
};
use bench_record::{CountedAt, Method, Point, Run};

/// A requested setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Setting {
    /// The name; "NAME VALUE" can be read if [`SAID`] has nothing better.
    pub(crate) name: &'static str,
    pub(crate) value: Value,
    /// Whether this is the default, which need not be mentioned.
    pub(crate) is_usual: bool,
    pub(crate) level: Level,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Word(&'static str),
}

/// Whether the points of one run may differ in a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Point,
    Run,
}

/// The name of the setting that every point has.
pub(crate) const SIZE: &str = "size B";
pub(crate) const DEPTH: &str = "depth";
pub(crate) const OPERATION: &str = "op";
pub(crate) const THREADS: &str = "threads";
pub(crate) const ENDPOINTS: &str = "endpoints";
pub(crate) const WINDOW: &str = "window";
pub(crate) const RATE: &str = "asked/s";
pub(crate) const LOAD: &str = "load B";
pub(crate) const ENDPOINT: &str = "endpoint";
pub(crate) const WAY: &str = "way";
/// The number of posted receives, if it differs from the depth of each point.
pub const RX_DEPTH: &str = "rx depth";

/// The words before and behind a number, if its name alone does not make a phrase.
const SAID: [(&str, &str, &str); 10] = [
    (SIZE, "", " B"),
    (RATE, "", "/s per thread"),
    (LOAD, "load of ", " B"),
    ("chunk B", "chunks of ", " B"),
    ("records/msg", "", " records/msg"),
    ("request B", "requests of ", " B"),
    ("memory B", "memory of ", " B"),
    ("gets %", "", " % gets"),
    ("flush µs", "flush after ", " µs"),
    ("group", "groups of ", ""),
];

const MIB: f64 = 1024.0 * 1024.0;

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = match self.value {
            Value::Number(number) => number,
            Value::Word(word) => return write!(f, "{} {word}", self.name),
        };
        match SAID.iter().find(|(name, ..)| *name == self.name) {
            Some((_, before, " B")) if number >= MIB && number % MIB == 0.0 => {
                write!(f, "{before}{} MiB", number / MIB)
            }
            Some((_, before, behind)) => write!(f, "{before}{number}{behind}"),
            None => write!(f, "{} {number}", self.name),
        }
    }
}

impl Setting {
    const fn number(level: Level, name: &'static str, number: usize, usual: usize) -> Self {
        let value = Value::Number(number as f64);
        Self { name, value, is_usual: number == usual, level }
    }

    const fn word(name: &'static str, word: &'static str, is_usual: bool) -> Self {
        Self { name, value: Value::Word(word), is_usual, level: Level::Run }
    }

    pub(crate) const fn as_number(&self) -> Option<f64> {
        match self.value {
            Value::Number(number) => Some(number),
            Value::Word(_) => None,
        }
    }
}

/// Returns all settings of a point, in the same order for all points of a benchmark.
pub(crate) fn of(run: &Run, point: &Point) -> Vec<Setting> {
    let mut all = of_point(run, point);
    all.push(Setting::word(OPERATION, run.operation.name(), run.operation == Operation::Send));
    let endpoint = match run.endpoint {
        EndpointKind::Rdm => "rdm",
        EndpointKind::Dgram => "dgram",
    };
    all.push(Setting::word(ENDPOINT, endpoint, run.endpoint == EndpointKind::Rdm));
    all.extend(of_method(run.benchmark, &run.method));
    all.push(of_receives(run, point));
    all
}

/// Returns whether all settings but those named `special` have their usual values.
pub(crate) fn is_usual_but(run: &Run, point: &Point, special: &[&str]) -> bool {
    of(run, point).iter().all(|own| own.is_usual || special.contains(&own.name))
}

/// Returns the number of receives of all points of a run, if it differed from each point's depth. A
/// sweep with one such number for all its points is one thing, at its deepest point, too.
pub(crate) fn receives(run: &Run) -> Option<usize> {
    let has_own = match run.benchmark {
        // The ping-pong's, in older records; the streams' are what counts.
        Benchmark::SatLatency => |point: &Point| point.rx_depth == PING_PONG_RECEIVES,
        benchmark if !benchmark.has_depth() => |_: &Point| true,
        _ => |_: &Point| false,
    };
    let is_own = |point: &Point| [0, point.depth].contains(&point.rx_depth) || has_own(point);
    run.points.iter().find(|point| !is_own(point)).map(|point| point.rx_depth)
}

fn of_receives(run: &Run, point: &Point) -> Setting {
    match receives(run) {
        Some(_) => Setting::number(Level::Run, RX_DEPTH, point.rx_depth, usize::MAX),
        None => Setting::word(RX_DEPTH, "the depth", true),
    }
}

/// Renders the settings that need to be mentioned.
pub(crate) fn words(settings: &[Setting]) -> String {
    let said = settings.iter().filter(|setting| !setting.is_usual);
    said.map(Setting::to_string).collect::<Vec<_>>().join(", ")
}

fn of_point(run: &Run, point: &Point) -> Vec<Setting> {
    let number = |name, number, usual| Setting::number(Level::Point, name, number, usual);
    let work = point.work.as_ref().and_then(|work| work.arrivals);
    let connections = point.connections.as_ref().and_then(|own| own.arrivals);
    let arrivals = point.open_loop.map(|found| found.arrivals).or(work).or(connections);
    let ranks = point.collective.map_or(0, |collective| collective.ranks);
    // Not all tools print the depth.
    let usual_depth = if run.benchmark.has_depth() { 0 } else { point.depth };
    vec![
        number(SIZE, point.size_bytes, usize::MAX),
        number(DEPTH, point.depth, usual_depth),
        number(RATE, usize::try_from(point.rate_per_s).unwrap_or(usize::MAX), 0),
        number(run.benchmark.about().parameter.unwrap_or("parameter"), point.parameter, 0),
        number("ranks", ranks, 0),
        Setting::word(
            "arrivals",
            match arrivals {
                Some(Arrivals::Fixed) => "fixed",
                Some(Arrivals::Poisson) => "poisson",
                None => "none",
            },
            arrivals != Some(Arrivals::Fixed),
        ),
        Setting::word(
            "contents",
            if point.validated > 0 { "checked" } else { "not checked" },
            point.validated == 0,
        ),
        Setting {
            level: Level::Point,
            ..Setting::word("order", point.order.name(), point.order == Order::Any)
        },
    ]
}

fn of_method(benchmark: Benchmark, method: &Method) -> Vec<Setting> {
    // For a new field, decide here whether it identifies a measurement.
    let Method {
        flow: Flow { window, complete_every, post_list, events },
        nodes,
        threads,
        endpoints,
        directions,
        // More of the same.
        runs: _,
        memory_bytes,
        load_size_bytes,
        counted_at,
        // Follows from threads and machine.
        crowded: _,
        work,
        // A ramp chooses rates, which each point has.
        ramp: _,
        seed: _,
    } = method;
    let number = |name, number: &usize, usual| Setting::number(Level::Run, name, *number, usual);
    let window = match window {
        Window::Sliding => Setting::word(WINDOW, "sliding", true),
        Window::Refill => Setting::word(WINDOW, "refill", false),
    };
    let counted = match counted_at {
        CountedAt::Receiver => "receiver",
        CountedAt::Initiator => "initiator",
    };
    let mut all = vec![
        window,
        number("a completion of", complete_every, 1),
        number("lists of", post_list, 1),
        match events {
            true => Setting::word("completions", "slept for", false),
            false => Setting::word("completions", "polled for", true),
        },
        number("nodes", nodes, 2),
        number(THREADS, threads, 1),
        number(ENDPOINTS, endpoints, 1),
        number("directions", directions, 1),
        number("memory B", memory_bytes, 0),
        number(LOAD, load_size_bytes, 0),
        // Follows from the benchmark.
        Setting::word("counted at", counted, true),
    ];
    all.extend(work.iter().flat_map(|work| of_work(benchmark, work)));
    all
}

fn of_work(benchmark: Benchmark, work: &WorkSpec) -> Vec<Setting> {
    let WorkSpec {
        request_bytes,
        keys,
        gets_percent,
        zipf_hundredths,
        // Each point has its own.
        parameter_max: _,
        flush_us,
        way,
        source,
        // Follows from the benchmark.
        transactions: _,
        locks,
        link_mbit_per_s,
        own,
    } = *work;
    let number = |name, number, usual| Setting::number(Level::Run, name, number, usual);
    // A zero and the default need not be mentioned.
    let usual_or_none = |number: usize, usual| if number == 0 { 0 } else { usual };
    let usual_request = usual_or_none(request_bytes, benchmark.usual_request_bytes());
    let usual_keys = usual_or_none(keys, benchmark.usual_keys());
    // Without keys there are no gets.
    let usual_gets = if request_bytes == 0 { gets_percent as usize } else { 100 };
    let mut all = vec![
        number("request B", request_bytes, usual_request),
        number("keys", keys, usual_keys),
        number("gets %", gets_percent as usize, usual_gets),
        Setting {
            value: Value::Number(f64::from(zipf_hundredths) / 100.0),
            ..number("Zipf", zipf_hundredths as usize, 0)
        },
        number("flush µs", usize::try_from(flush_us).unwrap_or(usize::MAX), 0),
        Setting::word(WAY, way.name(), way == LookupMethod::Rpc),
        Setting::word("from", source.name(), source == Source::Memory),
        Setting::word("rows", if locks { "locked" } else { "not locked" }, !locks),
    ];
    let mbit_per_s = usize::try_from(link_mbit_per_s).unwrap_or(usize::MAX);
    all.push(number("link Mbit/s", mbit_per_s, 0));
    match own {
        OwnSpec::Nothing => {}
        OwnSpec::Incast(IncastSpec { interval_ms }) => {
            let interval_ms = usize::try_from(interval_ms.unwrap_or(0)).unwrap_or(usize::MAX);
            all.push(number("all the time, interval ms", interval_ms, 0));
        }
        OwnSpec::Collective(collective) => {
            let is_usual = collective.algorithm == Algorithm::default();
            all.push(Setting::word("algorithm", collective.algorithm_name(), is_usual));
        }
        OwnSpec::Log(LogSpec { group, commit, ack }) => {
            let commit = match commit {
                Commit::All => Setting::word("commit at", "all", true),
                Commit::Majority => Setting::word("commit at", "a majority", false),
            };
            let ack = match ack {
                Ack::Message => Setting::word("ack by", "message", true),
                Ack::Completion => Setting::word("ack by", "completion", false),
            };
            all.extend([number("group", group, 1), commit, ack]);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::spec::Benchmark;

    #[test]
    fn only_what_is_not_usual_is_said() {
        let mut run = Run::new("mine", Benchmark::Bandwidth, Vec::new());
        let point = Point::new(64, 256);
        assert_eq!(words(&of(&run, &point)), "64 B, depth 256");
        (run.method.threads, run.method.flow.window) = (4, Window::Refill);
        let point = Point { rate_per_s: 1000, ..point };
        let text = words(&of(&run, &point));
        assert_eq!(text, "64 B, depth 256, 1000/s per thread, window refill, threads 4");
        let ping_pong = Run::new("mine", Benchmark::Latency, Vec::new());
        assert_eq!(words(&of(&ping_pong, &Point::new(8, 1))), "8 B");
    }

    #[test]
    fn settings_read_as_phrases() {
        let mut run = Run::new("mine", Benchmark::Kv, Vec::new());
        let zipf =
            WorkSpec { request_bytes: 16, gets_percent: 95, zipf_hundredths: 99, ..WorkSpec::NONE };
        run.method.work = Some(WorkSpec { keys: 1 << 20, ..zipf });
        let said = words(&of(&run, &Point::new(32, 32)));
        assert!(said.ends_with("95 % gets, Zipf 0.99"), "{said}");
        let run = Run::new("mine", Benchmark::FileGet, Vec::new());
        let point = Point { parameter: 8000, ..Point::new(1 << 20, 64) };
        assert_eq!(words(&of(&run, &point)), "1 MiB, depth 64, chunks of 8000 B");
    }

    #[test]
    fn receives_are_named_where_they_are_not_the_depth() {
        let run = |receives: [usize; 2]| {
            let point = |depth, rx_depth| Point { rx_depth, ..Point::new(64, depth) };
            let points = vec![point(16, receives[0]), point(256, receives[1])];
            Run::new("mine", Benchmark::Bandwidth, points)
        };
        let last = |run: &Run| words(&of(run, &run.points[1]));
        assert_eq!(last(&run([16, 256])), "64 B, depth 256");
        assert_eq!(last(&run([0, 0])), "64 B, depth 256");
        // A sweep of an older version: its deepest point is of the same kind as the others.
        assert_eq!(last(&run([256, 256])), "64 B, depth 256, rx depth 256");
        let latency = Point { rx_depth: PING_PONG_RECEIVES, ..Point::new(64, 1) };
        assert_eq!(receives(&Run::new("mine", Benchmark::Latency, vec![latency])), None);
    }

    #[test]
    fn nobody_is_said_to_get_what_he_has_no_keys_for() {
        let mut run = Run::new("mine", Benchmark::Shuffle, Vec::new());
        run.method.work = Some(WorkSpec::NONE);
        assert_eq!(words(&of(&run, &Point::new(64, 8))), "64 B, depth 8");
        run.method.work = Some(WorkSpec { request_bytes: 16, gets_percent: 95, ..WorkSpec::NONE });
        assert_eq!(words(&of(&run, &Point::new(64, 8))), "64 B, depth 8, 95 % gets");
        let mut barrier = Run::new("mine", Benchmark::Collective, Vec::new());
        barrier.method.work = Some(WorkSpec::NONE);
        let point = Point { parameter: 8192, ..Point::new(0, 1) };
        assert_eq!(words(&of(&barrier, &point)), "0 B, chunks of 8192 B");
    }

    /// Requests of 32 B are not compared with those of 4 KiB.
    #[test]
    fn requests_and_keys_are_named_where_they_are_not_the_usual_ones() {
        let said = |benchmark, request_bytes, keys| {
            let mut run = Run::new("mine", benchmark, Vec::new());
            let work = WorkSpec { request_bytes, keys, gets_percent: 100, ..WorkSpec::NONE };
            run.method.work = Some(work);
            words(&of(&run, &Point::new(64, 8)))
        };
        for (benchmark, request_bytes, keys, special) in [
            (Benchmark::Rpc, 32, 1 << 20, ""),
            (Benchmark::Rpc, 4096, 1 << 20, ", requests of 4096 B"),
            (Benchmark::Rpc, 16, 1000, ", requests of 16 B, keys 1000"),
            (Benchmark::Kv, 16, 1 << 20, ""),
            (Benchmark::Kv, 16, 1000, ", keys 1000"),
            (Benchmark::Shuffle, 16, 1 << 20, ""),
            (Benchmark::TwoPhase, 16, 1 << 16, ""),
            (Benchmark::TwoPhase, 16, 1 << 20, ", keys 1048576"),
            // Its keys follow from its values.
            (Benchmark::Index, 16, 0, ""),
            (Benchmark::Piggyback, 0, 0, ""),
        ] {
            assert_eq!(said(benchmark, request_bytes, keys), format!("64 B, depth 8{special}"));
        }
    }

    #[test]
    fn every_setting_has_a_name_of_its_own() {
        let mut run = Run::new("mine", Benchmark::Log, Vec::new());
        let log = LogSpec { group: 8, commit: Commit::Majority, ack: Ack::Completion };
        run.method.work = Some(WorkSpec { own: OwnSpec::Log(log), ..WorkSpec::NONE });
        let all = of(&run, &Point::new(64, 1));
        let mut names: Vec<&str> = all.iter().map(|setting| setting.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(words(&all).ends_with("groups of 8, commit at a majority, ack by completion"));
    }
}
