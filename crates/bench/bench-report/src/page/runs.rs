//! The sections about runs beside their figures: fabrics, methods, blocks, and the plan.

use bench_record::cores::Cores;
use bench_record::spec::{Benchmark, Order, Window};
use bench_record::{CountedAt, Method, PlanRecord, Point, Results, Run};
use report::{Section, Table, distinct, significant};

use crate::{kinds, output};

/// Returns the name of a point's row among all measurements, made of the numbers of its run and of
/// the point in the run.
pub(crate) fn row_name(run: usize, point: usize) -> String {
    format!("m{run}-{point}")
}

/// Returns the name of the first row of a run's set-up.
pub(crate) fn set_up_name(run: usize) -> String {
    format!("u{run}")
}

/// Renders every run with all its figures.
pub(super) fn all_measurements(runs: &[Run]) -> Section {
    let data = runs.iter().enumerate().map(|(number, run)| {
        let mut table = output::table(run);
        let rows = output::first_rows(run).into_iter().enumerate();
        table.anchors =
            rows.filter_map(|(point, row)| Some((row?, row_name(number, point)))).collect();
        let mut span = |name: &str, value: fn(&Point) -> usize| {
            let values = || run.points.iter().map(value);
            let (low, high) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
            table.caption += &match low == high {
                true => format!(", {name} {low}"),
                false => format!(", {name} {low} to {high}"),
            };
        };
        span("size", |p| p.size_bytes);
        if run.benchmark == Benchmark::Bandwidth {
            span("depth", |p| p.depth);
        }
        for line in (kinds::of(run.benchmark).notes)(run) {
            table.caption += &format!("; {line}");
        }
        if !run.complete {
            table.caption = format!("INCOMPLETE: {}", table.caption);
        }
        table
    });
    let mut data: Vec<Table> = data.collect();
    data.extend([blocks(runs), set_up(runs)].into_iter().filter(|table| !table.rows.is_empty()));
    Section { title: "All measurements".to_owned(), data, ..Section::default() }
}

/// Renders what the library of each fabric says about it, first round trips, and device counters.
pub(super) fn fabrics(runs: &[Run]) -> Section {
    let titles = ["run", "benchmark", "provider", "domain", "MTU B", "first round trip µs"];
    let mut table = Table::new("Fabrics measured", &titles, 4);
    let mut details = Vec::new();
    for run in runs {
        let Some(fabric) = &run.fabric else { continue };
        table.push(vec![
            run.name.clone(),
            run.benchmark.name().to_owned(),
            fabric.provider.clone(),
            fabric.domain.clone(),
            fabric.mtu_bytes.map_or_else(|| "-".to_owned(), |m| m.to_string()),
            run.cold_start_us.map_or_else(|| "-".to_owned(), significant),
        ]);
        let info = (format!("fi_info of {}", run.name), fabric.text.clone());
        if !details.contains(&info) {
            details.push(info);
        }
        for (side, counters) in &run.counters {
            let lines: Vec<String> =
                counters.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let title =
                format!("Device counters of the {side}, {} {}", run.name, run.benchmark.name());
            details.push((title, lines.join("\n")));
        }
    }
    Section {
        title: "Fabrics".to_owned(),
        tables: if table.rows.is_empty() { Vec::new() } else { vec![table] },
        details,
        ..Section::default()
    }
}

/// Returns the name by which a run was asked for.
pub(super) fn test(run: &Run) -> &str {
    if run.test.is_empty() { run.benchmark.name() } else { &run.test }
}

/// Describes the plan in a line.
pub(super) fn plan_fact(plan: &PlanRecord) -> String {
    let scale = if plan.scale == 1.0 { String::new() } else { format!(", scale {}", plan.scale) };
    let state = if plan.complete { "complete" } else { "INCOMPLETE" };
    let (name, done, steps) = (&plan.name, plan.steps_done, plan.steps);
    format!("{name}{scale}: {done} of {steps} steps done, {state}")
}

/// Lists the steps without a result.
pub(super) fn plan(results: &Results) -> Option<Section> {
    let plan = results.plan.as_ref()?;
    let titles = ["step", "what", "why"];
    let mut table = Table::new("Steps without a whole result", &titles, 3).with_prose(2);
    for (what, steps) in [("left out", &plan.skipped), ("failed", &plan.failed)] {
        for one in steps {
            table.push(vec![one.step.clone(), what.to_owned(), one.reason.clone()]);
        }
    }
    let tables = if table.rows.is_empty() { Vec::new() } else { vec![table] };
    let text = vec![plan_fact(plan) + "."];
    Some(Section { title: "The plan".to_owned(), text, tables, ..Section::default() })
}

/// Renders how each run was measured.
pub(super) fn methods(runs: &[Run]) -> Section {
    let titles = [
        "run",
        "test",
        "endpoint",
        "operation",
        "state",
        "points",
        "threads",
        "endpoints each",
        "window",
        "list",
        "completion of",
        "memory MiB",
        "load B",
        "counted at",
        "CPU client, server",
        "seed",
    ];
    let mut table = Table::new("How each run was measured", &titles, 5);
    for run in runs.iter().filter(|run| run.source != "published") {
        table.push(method_cells(run));
    }
    let commands = runs.iter().map(|run| run.command.clone());
    let commands = distinct(commands.filter(|command| !command.is_empty()));
    let data = if table.rows.is_empty() { Vec::new() } else { vec![table] };
    Section { title: "Runs".to_owned(), data, commands, ..Section::default() }
}

fn method_cells(run: &Run) -> Vec<String> {
    let Method { flow, threads, endpoints, memory_bytes, load_size_bytes, seed, .. } = run.method;
    let some = |value: usize| if value == 0 { "-".to_owned() } else { value.to_string() };
    let cpu = |cpu: Option<usize>| cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    let is_measured = run.source == "measured";
    let if_measured = |words: String| if is_measured { words } else { "-".to_owned() };
    // Other tools print what was asked for, if at all.
    let if_asked =
        |count: usize| if is_measured || count > 1 { count.to_string() } else { "-".to_owned() };
    vec![
        run.name.clone(),
        test(run).to_owned(),
        format!("{:?}", run.endpoint).to_lowercase(),
        run.operation.name().to_owned(),
        match (run.complete, is_measured) {
            (false, _) => "INCOMPLETE".to_owned(),
            (true, true) => "complete".to_owned(),
            (true, false) => run.source.clone(),
        },
        run.points.len().to_string(),
        if_asked(threads),
        if_asked(endpoints),
        if_measured(match flow.window {
            Window::Sliding => "sliding".to_owned(),
            Window::Refill => "refill at 80 %".to_owned(),
        }),
        if_asked(flow.post_list),
        if_asked(flow.complete_every),
        some(memory_bytes >> 20),
        some(load_size_bytes),
        if_measured(match run.method.counted_at {
            CountedAt::Receiver => "receiver".to_owned(),
            CountedAt::Initiator => "initiator".to_owned(),
        }),
        if_measured(format!("{}, {}", cpu(run.client_cpu), cpu(run.server_cpu))),
        if_measured(seed.to_string()),
    ]
}

/// Renders how far messages came out of order, if that was counted.
pub(super) fn disorder(runs: &[Run]) -> Option<Section> {
    let titles = [
        "run",
        "order",
        "size B",
        "depth",
        "overtaken",
        "messages",
        "overtaken %",
        "farthest",
        "held",
        "held at once",
    ];
    let mut table = Table::new("Messages that came after a later one", &titles, 2);
    for (run, point) in each_point(runs) {
        let Some(found) = point.disorder else { continue };
        let if_kept = |count: u64| match point.order {
            Order::Kept => count.to_string(),
            Order::Any | Order::Numbered => "-".to_owned(),
        };
        table.push(vec![
            run.name.clone(),
            point.order.name().to_owned(),
            point.size_bytes.to_string(),
            point.depth.to_string(),
            found.overtaken.to_string(),
            found.messages.to_string(),
            significant(found.overtaken_percent()),
            found.farthest.to_string(),
            if_kept(found.held),
            if_kept(found.held_most),
        ]);
    }
    let text = "Where messages carry numbers (--order numbered or kept, --validate, log): how many a \
        later one of the same thread had overtaken, and by how many messages at most. Where order was \
        kept, those that came early were held until their turn."
        .to_owned();
    (!table.rows.is_empty()).then(|| Section {
        title: "Order of messages".to_owned(),
        text: vec![text],
        tables: vec![table],
        ..Section::default()
    })
}

fn each_point(runs: &[Run]) -> impl Iterator<Item = (&Run, &Point)> {
    runs.iter().flat_map(|run| run.points.iter().map(move |point| (run, point)))
}

/// Renders the interval, blocks, warm-up and checks of every measured point.
fn blocks(runs: &[Run]) -> Table {
    let titles = [
        "run",
        "test",
        "size B",
        "depth",
        "asked/s",
        "threads",
        "endpoints",
        "95 % from",
        "to",
        "warm-up ms",
        "checked",
        "lost",
        "cores",
        "blocks",
    ];
    let caption = "every point, its 95 % interval and all its blocks (µs, Gbit/s or M calls/s)";
    let mut table = Table::new(caption, &titles, 2);
    for (run, point) in each_point(runs).filter(|(run, _)| run.source == "measured") {
        let blocks: Vec<String> = point.blocks.iter().map(|block| significant(*block)).collect();
        let bound = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), significant);
        let some = |value: u64| if value == 0 { "-".to_owned() } else { value.to_string() };
        table.push(vec![
            run.name.clone(),
            test(run).to_owned(),
            point.size_bytes.to_string(),
            point.depth.to_string(),
            some(point.rate_per_s),
            run.method.threads.to_string(),
            run.method.endpoints.to_string(),
            bound(point.interval.map(|interval| interval.low)),
            bound(point.interval.map(|interval| interval.high)),
            point.warmup_ms.to_string(),
            some(point.validated),
            point.lost.map_or_else(|| "-".to_owned(), |lost| lost.to_string()),
            point.cores.as_ref().map_or_else(|| "-".to_owned(), Cores::words),
            blocks.join(" "),
        ]);
    }
    table
}

/// Renders the phases of the set-up of each run.
fn set_up(runs: &[Run]) -> Table {
    let titles = ["run", "test", "phase", "µs"];
    let mut table = Table::new("set-up of each client (µs)", &titles, 3);
    for (number, run) in runs.iter().enumerate() {
        if !run.setup_us.is_empty() {
            table.anchors.push((table.rows.len(), set_up_name(number)));
        }
        for (phase, time_us) in &run.setup_us {
            let (name, time) = (run.name.clone(), significant(*time_us));
            table.push(vec![name, test(run).to_owned(), phase.clone(), time]);
        }
        if let Some(first_us) = run.cold_start_us.filter(|_| !run.setup_us.is_empty()) {
            let (name, phase) = (run.name.clone(), "first round trip".to_owned());
            table.push(vec![name, test(run).to_owned(), phase, significant(first_us)]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Imported runs have no window, completions or place of counting that their tools do not
    /// state.
    #[test]
    fn no_method_is_made_up_for_other_tools() {
        let mut run = Run::new("perftest", Benchmark::Bandwidth, vec![Point::new(64, 1)]);
        assert_eq!(method_cells(&run)[8..11], ["sliding", "1", "1"]);
        "imported".clone_into(&mut run.source);
        run.method.endpoints = 4;
        let cells = method_cells(&run);
        assert_eq!(cells[6..8], ["-", "4"]);
        assert!(cells[8..].iter().all(|cell| cell == "-"), "{cells:?}");
    }
}
