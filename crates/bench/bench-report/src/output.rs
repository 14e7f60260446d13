//! Results as JSON, CSV and a table on the terminal.

use std::path::Path;

use bench_record::failure::Failure;
use bench_record::spec::Window;
use bench_record::workload::Figures;
use bench_record::{
    Bandwidth, CountedAt, FabricRecord, Point, Results, Run, SCHEMA, SCHEMA_BEFORE,
};
use report::{Table, significant};

mod atomics;
mod collective;
mod connections;
mod counted;
mod csv;
mod incast;
mod shuffle;
mod terminal;
mod work;

pub use self::csv::csv;
pub use self::terminal::{for_terminal, text};

/// Reads a result file.
pub fn read(path: &Path) -> Result<Results, Failure> {
    let failed = |reason: String| Failure::Input { path: path.display().to_string(), reason };
    let text =
        std::fs::read_to_string(path).map_err(|e| failed(bench_record::failure::plain(&e)))?;
    parse(&text).map_err(failed)
}

/// Reads the text of a result file.
///
/// # Errors
/// Why it is none.
pub fn parse(text: &str) -> Result<Results, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|e| {
        format!(
            "it is not JSON ({e}), nor the output of a tool that can be imported: give a file that \
             --json wrote, or name the tool to `efa-bench import --as`"
        )
    })?;
    match value.get("schema").and_then(|s| s.as_str()) {
        Some(SCHEMA | SCHEMA_BEFORE) => {}
        Some(other) => {
            return Err(format!("its schema is {other}, this efa-bench reads {SCHEMA}"));
        }
        None => return Err("it is no efa-bench result: it has no schema".to_owned()),
    }
    serde_json::from_value(value).map_err(|e| format!("it is damaged: {e}"))
}

/// The JSON text of a result file.
pub fn json(results: &Results) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(results)
        .map_err(|e| Failure::Check(format!("cannot encode the results: {e}")))?;
    Ok(text + "\n")
}

/// The files that results go to.
#[derive(Debug, Clone, Copy)]
pub struct Outputs<'a> {
    /// The result file.
    pub json: Option<&'a Path>,
    /// Its points as a table.
    pub csv: Option<&'a Path>,
    /// A report.
    pub html: Option<&'a Path>,
    /// No tables on the terminal.
    pub quiet: bool,
}

/// Prints the tables, unless standard output is one of the files, and writes the files.
pub fn deliver(results: &Results, outputs: &Outputs<'_>) -> Result<(), Failure> {
    let to_stdout = |path: Option<&Path>| path == Some(Path::new("-"));
    if !outputs.quiet && !to_stdout(outputs.json) && !to_stdout(outputs.csv) {
        let texts: Vec<String> = results.runs.iter().map(text).collect();
        print(&texts.join("\n"))?;
    }
    if let Some(path) = outputs.json {
        write(path, &json(results)?)?;
    }
    if let Some(path) = outputs.csv {
        write(path, &csv(&results.runs))?;
    }
    if let Some(path) = outputs.html {
        write(path, &report::html(&crate::page::page(results, Vec::new(), None)))?;
    }
    Ok(())
}

/// Writes a file whole or not at all; "-" is standard output.
pub fn write(path: &Path, content: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print(content);
    }
    report::write_atomic(path, content.as_bytes())
        .map_err(|e| Failure::Output { path: e.path.display().to_string(), reason: e.reason })
}

/// Prints to standard output; a closed pipe is no failure, a full disk is one.
pub fn print(text: &str) -> Result<(), Failure> {
    report::print(text).map_err(|error| Failure::Output {
        path: "standard output".to_owned(),
        reason: bench_record::failure::plain(&error),
    })
}

/// The table of one run; the unit is in every heading.
pub fn table(run: &Run) -> Table {
    match run.benchmark.about().figures {
        Figures::RoundTrips => latency_table(run),
        Figures::Responses => open_loop_table(run),
        Figures::Stream => bandwidth_table(run),
        Figures::Atomics => atomics::table(run),
        Figures::Calls | Figures::Lookups | Figures::Records | Figures::Files => work::table(run),
        Figures::Connections => connections::table(run),
        Figures::Incast => incast::table(run),
        Figures::Shuffle => shuffle::table(run),
        Figures::Collective => collective::table(run),
    }
}

/// The first row of each point in the table of its run; `None`: it has none.
pub(crate) fn first_rows(run: &Run) -> Vec<Option<usize>> {
    let mut alone = Run { points: Vec::new(), ..run.clone() };
    let mut rows = 0;
    let first = |point: &Point| {
        alone.points = vec![point.clone()];
        let own = table(&alone).rows.len();
        rows += own;
        (own > 0).then(|| rows - own)
    };
    run.points.iter().map(first).collect()
}

fn latency_table(run: &Run) -> Table {
    let mut caption =
        format!("{}: half round trip, ping-pong ({})", run.name, run.operation.name());
    if run.method.flow.events {
        caption += ", completions slept for";
    }
    let is_loaded = run.method.load_size_bytes > 0;
    if is_loaded {
        let (streams, size) = (run.method.threads - 1, run.method.load_size_bytes);
        caption += &format!(" beside {streams} streams of {size} B");
    }
    let mut titles = vec![
        "size B",
        "min µs",
        "p50 µs",
        "p90 µs",
        "p99 µs",
        "p99.9 µs",
        "p99.99 µs",
        "max µs",
        "mean µs",
        "round trips",
        "lost",
        "spread %",
        "± %",
    ];
    let has_cpu = run.points.iter().any(|point| point.client_cpu_us.is_some());
    titles.extend(has_cpu.then_some("CPU µs"));
    if is_loaded {
        titles.extend(["load Gbit/s", "asked msg/s"]);
    }
    let has_counts = counted::titles(run, &mut titles);
    let mut table = Table::new(&caption, &titles, 0);
    for point in &run.points {
        let latency = point.latency;
        let text = |value: Option<f64>| value.map_or_else(dash, us);
        let mut row = vec![point.size_bytes.to_string()];
        match latency.and_then(|latency| latency.distribution) {
            Some(d) => {
                let (min, p50, p99, max) = (d.min_us, d.p50_us, d.p99_us, d.max_us);
                let all =
                    [Some(min), Some(p50), d.p90_us, Some(p99), d.p999_us, d.p9999_us, Some(max)];
                row.extend(all.map(text));
            }
            None => row.extend(std::iter::repeat_n("-".to_owned(), 7)),
        }
        let trips = latency.and_then(|latency| latency.round_trips);
        row.extend([text(latency.map(|latency| latency.mean_us)), count(trips), count(point.lost)]);
        row.extend([spread(point), doubt(point)]);
        row.extend(has_cpu.then(|| text(point.client_cpu_us)));
        if is_loaded {
            row.push(point.load.map_or_else(|| "-".to_owned(), |l| significant(l.gbit_per_s)));
            row.push(match point.rate_per_s {
                0 => "-".to_owned(),
                rate => rate.to_string(),
            });
        }
        if has_counts {
            row.extend(counted::cells(point));
        }
        table.push(row);
    }
    table
}

/// Response times, and the service times that a closed loop would have shown.
fn open_loop_table(run: &Run) -> Table {
    let arrivals = run.points.iter().find_map(|p| p.open_loop).map(|found| found.arrivals);
    let arrivals = arrivals.map_or_else(String::new, |a| format!("{a:?}").to_lowercase());
    let caption = format!(
        "{}: whole round trips, open loop, {arrivals} arrivals ({})",
        run.name,
        run.operation.name()
    );
    let titles = [
        "size B",
        "offered/s",
        "answered/s",
        "unposted",
        "response p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "service p50 µs",
        "p99 µs",
        "lost",
        "± %",
    ];
    let mut table = Table::new(&caption, &titles, 0);
    for point in &run.points {
        let Some(found) = point.open_loop else { continue };
        let text = |value: Option<f64>| value.map_or_else(dash, us);
        let (response, service) = (found.response, found.service);
        table.push(vec![
            point.size_bytes.to_string(),
            format!("{:.0}", found.offered_per_s),
            format!("{:.0}", found.answered_per_s),
            found.unposted.to_string(),
            text(response.map(|times| times.p50_us)),
            text(response.map(|times| times.p99_us)),
            text(response.and_then(|times| times.p999_us)),
            text(response.map(|times| times.max_us)),
            text(service.map(|times| times.p50_us)),
            text(service.map(|times| times.p99_us)),
            count(point.lost),
            doubt(point),
        ]);
    }
    table
}

fn bandwidth_table(run: &Run) -> Table {
    let counted = match run.method.counted_at {
        _ if run.source == "imported" => "as the tool counts it",
        CountedAt::Receiver => "goodput at the receiver",
        CountedAt::Initiator => "completed at the initiator",
    };
    let caption = format!("{}: {counted}, {} ({})", run.name, manner(run), run.operation.name());
    let has_times = run.points.iter().any(|p| p.operation_time.is_some());
    let has_means = run.points.iter().any(|p| p.operation_mean_us.is_some());
    let mut titles = vec![
        "size B", "depth", "rx depth", "MB/s", "Gbit/s", "M msg/s", "messages", "seconds", "lost",
        "spread %", "± %",
    ];
    if has_times {
        titles.extend(["p50 µs", "p99 µs"]);
    }
    titles.extend(has_means.then_some("mean µs"));
    let has_ways = run.points.iter().any(|point| point.both_ways.is_some());
    if has_ways {
        titles.extend(["to server Gbit/s", "to client Gbit/s"]);
    }
    let has_counts = counted::titles(run, &mut titles);
    let has_order = run.points.iter().any(|point| !point.order.is_any());
    titles.extend(has_order.then_some("order"));
    let mut table = Table::new(&caption, &titles, 0);
    for point in &run.points {
        let found = point.bandwidth;
        let rate = |of: fn(Bandwidth) -> f64| found.map_or_else(dash, |b| significant(of(b)));
        let mut row = vec![
            point.size_bytes.to_string(),
            if point.depth == 0 { dash() } else { point.depth.to_string() },
            if point.rx_depth == 0 { dash() } else { point.rx_depth.to_string() },
            rate(|b| b.mb_per_s),
            rate(|b| b.gbit_per_s),
            rate(|b| b.mmsg_per_s),
            count(found.and_then(|b| b.messages)),
            found.and_then(|b| b.seconds).map_or_else(dash, |seconds| format!("{seconds:.2}")),
            count(point.lost),
            spread(point),
            doubt(point),
        ];
        if has_times {
            let time = point.operation_time;
            let text = |value: Option<f64>| value.map_or_else(dash, us);
            row.extend([text(time.map(|t| t.p50_us)), text(time.map(|t| t.p99_us))]);
        }
        row.extend(has_means.then(|| point.operation_mean_us.map_or_else(dash, us)));
        if has_ways {
            let ways = point.both_ways.map(|ways| [ways.to_server, ways.to_client]);
            let text = |own: Bandwidth| significant(own.gbit_per_s);
            row.extend(ways.map_or_else(|| [dash(), dash()], |ways| ways.map(text)));
        }
        if has_counts {
            row.extend(counted::cells(point));
        }
        row.extend(has_order.then(|| point.order.name().to_owned()));
        table.push(row);
    }
    table
}

/// How a stream was kept up, in words.
fn manner(run: &Run) -> String {
    let method = &run.method;
    let mut words = vec![match method.flow.window {
        Window::Sliding => "sliding window".to_owned(),
        Window::Refill => "window refilled at 80 %".to_owned(),
    }];
    words.extend(unusual(run));
    if method.memory_bytes > 0 {
        words.push(format!("{} MiB at random", method.memory_bytes >> 20));
    }
    words.join(", ")
}

/// What is not as it usually is, in words.
fn unusual(run: &Run) -> Vec<String> {
    let method = &run.method;
    let counts = [
        (method.flow.complete_every, "a completion of every"),
        (method.flow.post_list, "in lists of"),
        (method.threads, "threads:"),
        (method.endpoints, "endpoints per thread:"),
    ];
    let counts = counts.iter().filter(|(n, _)| *n > 1);
    let mut words: Vec<String> = counts.map(|(n, what)| format!("{what} {n}")).collect();
    if method.flow.events {
        words.push("completions slept for".to_owned());
    }
    if method.directions > 1 {
        words.push("both directions together".to_owned());
    }
    words
}

/// Half of the 95 % interval.
pub(crate) fn doubt(point: &Point) -> String {
    let both = point.interval.zip(point.figure());
    let half = both.map(|(interval, figure)| interval.half_width_percent(figure));
    half.map_or_else(|| "-".to_owned(), |p| format!("{p:.1}"))
}

/// Distance of the best and the worst block.
pub(crate) fn spread(point: &Point) -> String {
    point.spread_percent().map_or_else(|| "-".to_owned(), |p| format!("{p:.0}"))
}

/// What is not known.
fn dash() -> String {
    "-".to_owned()
}

/// A number, where it is known.
fn count(number: Option<u64>) -> String {
    number.map_or_else(dash, |number| number.to_string())
}

/// Microseconds with two decimals.
pub(crate) fn us(value: f64) -> String {
    format!("{value:.2}")
}

/// A fabric for the terminal.
pub fn fabric(found: &FabricRecord) -> String {
    let mtu = found.mtu_bytes.map_or_else(|| "not told".to_owned(), |m| format!("{m} B"));
    let longest = match found.max_message_bytes {
        usize::MAX => "any length".to_owned(),
        bytes => format!("{bytes} B"),
    };
    format!(
        "provider {}, domain {}\nMTU {mtu}, messages up to {longest}, inject up to {} B, depth {} and \
         {}\n\n{}\n",
        found.provider,
        found.domain,
        found.inject_bytes,
        found.tx_depth,
        found.rx_depth,
        found.text.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_survive_their_own_json() {
        let folder = tempfile::tempdir().expect("tempdir");
        let path = folder.path().join("r.json");
        // The published latencies have few digits and survive exactly.
        let runs: Vec<Run> = crate::paper::runs().into_iter().take(3).collect();
        let results = Results::of(runs, Vec::new());
        write(&path, &json(&results).expect("encode")).expect("write");
        let again = read(&path).expect("read");
        assert!(json(&again).expect("encode") == json(&results).expect("encode"));
    }

    #[test]
    fn foreign_files_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().expect("tempdir");
        let path = folder.path().join("r.json");
        for (content, reason) in [
            ("nonsense", "not JSON"),
            ("{}", "no schema"),
            ("{\"schema\":\"efa-bench/99\"}", "efa-bench/99"),
            ("{\"schema\":\"efa-bench/1\"}", "damaged"),
        ] {
            std::fs::write(&path, content).expect("write");
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(reason), "{content}: {error}");
        }
    }
}
