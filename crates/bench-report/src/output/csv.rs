//! Results as CSV: one row per point.

use bench_record::counted::Counted;
use bench_record::spec::Order;
use bench_record::{Disorder, Point, Run, Shuffle};

const COLUMNS: [&str; 96] = [
    "name",
    "source",
    "benchmark",
    "provider",
    "endpoint",
    "operation",
    "size_bytes",
    "depth",
    "rx_depth",
    "round_trips",
    "mean_us",
    "min_us",
    "p50_us",
    "p90_us",
    "p99_us",
    "p999_us",
    "max_us",
    "messages",
    "seconds",
    "mb_per_s",
    "gbit_per_s",
    "mmsg_per_s",
    "lost",
    "validated",
    "cold_start_us",
    "complete",
    "warmup_ms",
    "error",
    "spread_percent",
    "test",
    "interval_low",
    "interval_high",
    "p9999_us",
    "operation_p50_us",
    "operation_p99_us",
    "window",
    "complete_every",
    "post_list",
    "threads",
    "endpoints",
    "rate_per_s",
    "offered_per_s",
    "answered_per_s",
    "response_p50_us",
    "response_p99_us",
    "service_p50_us",
    "service_p99_us",
    "load_gbit_per_s",
    "overtaken",
    "farthest",
    "mcalls_per_s",
    "behind_ms",
    "get_p99_us",
    "put_p99_us",
    "bytes_per_call",
    "client_cpu_ns_per_call",
    "server_cpu_ns_per_call",
    "parameter",
    "operation_p9999_us",
    "wait_p50_us",
    "wait_p99_us",
    "wait_p9999_us",
    "client_process_cpu_ns_per_call",
    "server_process_cpu_ns_per_call",
    "reads_per_call",
    "client_cpu_s_per_gb",
    "server_cpu_s_per_gb",
    "ranks",
    "bus_gbit_per_s",
    "wire_bytes_per_message",
    "packets_per_message",
    "retransmitted_packets",
    "order",
    "held",
    "held_most",
    "flows",
    "ideal_gbps",
    "ideal_us",
    "min_to_ideal",
    "mean_to_ideal",
    "max_to_ideal",
    "worst_to_ideal",
    "jain",
    "fair_gbps",
    "jain_worst",
    "min_to_fair",
    "max_to_fair",
    "mtuples_per_s",
    "node_gb_per_s",
    "node_gb_per_s_min",
    "node_gb_per_s_max",
    "link_percent",
    "cpu_ns_per_tuple",
    "fill",
    "load_max_to_mean",
    "time_max_to_mean",
];

/// Tidy CSV: one row per point, empty cells for what a point does not have.
pub fn csv(runs: &[Run]) -> String {
    let mut out = COLUMNS.join(",") + "\n";
    for run in runs {
        for point in &run.points {
            let cells = cells(run, point);
            debug_assert_eq!(cells.len(), COLUMNS.len());
            out.push_str(&report::csv_line(&cells));
        }
    }
    out
}

fn cells(run: &Run, point: &Point) -> Vec<String> {
    let latency = point.latency;
    let spread = latency.and_then(|l| l.distribution);
    let bandwidth = point.bandwidth;
    let number = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    let count = |v: Option<u64>| v.filter(|n| *n > 0).map_or_else(String::new, |v| v.to_string());
    let mut cells = vec![
        run.name.clone(),
        run.source.clone(),
        run.benchmark.name().to_owned(),
        run.fabric.as_ref().map(|f| f.provider.clone()).unwrap_or_default(),
        format!("{:?}", run.endpoint).to_lowercase(),
        run.operation.name().to_owned(),
        point.size_bytes.to_string(),
        count(Some(point.depth as u64)),
        count(Some(point.rx_depth as u64)),
        count(latency.and_then(|l| l.round_trips)),
        number(latency.map(|l| l.mean_us)),
        number(spread.map(|d| d.min_us)),
        number(spread.map(|d| d.p50_us)),
        number(spread.and_then(|d| d.p90_us)),
        number(spread.map(|d| d.p99_us)),
        number(spread.and_then(|d| d.p999_us)),
        number(spread.map(|d| d.max_us)),
        count(bandwidth.and_then(|b| b.messages)),
        number(bandwidth.and_then(|b| b.seconds).filter(|s| *s > 0.0)),
        number(bandwidth.map(|b| b.mb_per_s)),
        number(bandwidth.map(|b| b.gbit_per_s)),
        number(bandwidth.map(|b| b.mmsg_per_s)),
        point.lost.map_or_else(String::new, |lost| lost.to_string()),
        count(Some(point.validated)),
        number(run.cold_start_us),
        run.complete.to_string(),
        point.warmup_ms.to_string(),
        run.error.clone().unwrap_or_default(),
        number(point.spread_percent()),
        run.test.clone(),
        number(point.interval.map(|i| i.low)),
        number(point.interval.map(|i| i.high)),
        number(spread.and_then(|d| d.p9999_us)),
        number(point.operation_time.map(|d| d.p50_us)),
        number(point.operation_time.map(|d| d.p99_us)),
        format!("{:?}", run.method.flow.window).to_lowercase(),
        run.method.flow.complete_every.to_string(),
        run.method.flow.post_list.to_string(),
        run.method.threads.to_string(),
        run.method.endpoints.to_string(),
        count(Some(point.rate_per_s)),
        number(point.open_loop.map(|o| o.offered_per_s)),
        number(point.open_loop.map(|o| o.answered_per_s)),
        number(point.open_loop.and_then(|o| o.response).map(|t| t.p50_us)),
        number(point.open_loop.and_then(|o| o.response).map(|t| t.p99_us)),
        number(point.open_loop.and_then(|o| o.service).map(|t| t.p50_us)),
        number(point.open_loop.and_then(|o| o.service).map(|t| t.p99_us)),
        number(point.load.map(|l| l.gbit_per_s)),
        point.disorder.map_or_else(String::new, |d| d.overtaken.to_string()),
        point.disorder.map_or_else(String::new, |d| d.farthest.to_string()),
    ];
    cells.extend(work_cells(point));
    let collective = point.collective;
    cells.push(collective.map_or_else(String::new, |c| c.ranks.to_string()));
    cells.push(number(collective.and_then(|c| c.bus_gbit_per_s)));
    let counted = point.counted.as_ref();
    cells.push(number(counted.and_then(|c| c.per_message(c.wire_bytes()))));
    cells.push(number(counted.and_then(|c| c.per_message(c.packets()))));
    let again = counted.and_then(Counted::retransmitted);
    cells.push(again.map_or_else(String::new, |packets| packets.to_string()));
    cells.extend(order_cells(point));
    cells.extend(incast_cells(point));
    cells.extend(shuffle_cells(point));
    cells
}

/// Of streams that were asked for their order.
fn order_cells(point: &Point) -> [String; 3] {
    let kept = point.disorder.filter(|_| point.order == Order::Kept);
    let count = |of: fn(&Disorder) -> u64| kept.map_or_else(String::new, |d| of(&d).to_string());
    [point.order.name().to_owned(), count(|d| d.held), count(|d| d.held_most)]
}

/// Of a workload's operations.
fn work_cells(point: &Point) -> Vec<String> {
    let number = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    let work = point.work.as_ref();
    let wait = work.and_then(|w| w.part("wait"));
    let p99 = |action: &str| work.and_then(|w| w.times(action)).map(|d| d.p99_us);
    vec![
        number(work.map(|w| w.mcalls_per_s)),
        number(work.and_then(|w| w.behind_ms)),
        number(p99("get")),
        number(p99("put")),
        number(work.map(|w| w.bytes_per_call)),
        number(work.map(|w| w.client_cpu_ns)),
        number(work.map(|w| w.server_cpu_ns)),
        if point.parameter == 0 { String::new() } else { point.parameter.to_string() },
        number(point.operation_time.and_then(|d| d.p9999_us)),
        number(wait.map(|d| d.p50_us)),
        number(wait.map(|d| d.p99_us)),
        number(wait.and_then(|d| d.p9999_us)),
        number(work.map(|w| w.client_process_cpu_ns)),
        number(work.map(|w| w.server_process_cpu_ns)),
        number(work.map(|w| w.reads_per_call)),
        number(work.and_then(|w| w.client_cpu_s_per_gb)),
        number(work.and_then(|w| w.server_cpu_s_per_gb)),
    ]
}

/// Of flows that meet at one node.
fn incast_cells(point: &Point) -> Vec<String> {
    let number = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    let incast = point.incast.as_ref();
    let bursts = incast.and_then(|own| own.bursts);
    let shares = incast.and_then(|own| own.shares.as_ref());
    vec![
        incast.map_or_else(String::new, |own| own.flows.to_string()),
        number(incast.map(|own| own.ideal_gbps)),
        number(bursts.map(|own| own.ideal_us)),
        number(bursts.map(|own| own.min_to_ideal)),
        number(bursts.map(|own| own.mean_to_ideal)),
        number(bursts.map(|own| own.max_to_ideal)),
        number(bursts.map(|own| own.worst_to_ideal)),
        number(bursts.map(|own| own.jain).or_else(|| shares.map(|own| own.jain))),
        number(shares.map(|own| own.fair_gbps)),
        number(shares.map(|own| own.jain_worst)),
        number(shares.map(|own| own.min_to_fair)),
        number(shares.map(|own| own.max_to_fair)),
    ]
}

/// Of tuples that went to the owners of their partitions.
fn shuffle_cells(point: &Point) -> [String; 9] {
    let found = point.shuffle;
    let number = |of: fn(&Shuffle) -> Option<f64>| {
        found.as_ref().and_then(of).map_or_else(String::new, |value| value.to_string())
    };
    [
        number(|own| Some(own.mtuples_per_s)),
        number(|own| Some(own.gb_per_s)),
        number(|own| Some(own.gb_per_s_min)),
        number(|own| Some(own.gb_per_s_max)),
        number(|own| own.link_percent),
        number(|own| Some(own.cpu_ns_per_tuple)),
        number(|own| Some(own.fill)),
        number(|own| Some(own.load_max_to_mean)),
        number(|own| Some(own.time_max_to_mean)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_one_row_per_point_and_equal_columns() {
        let runs = crate::paper::runs();
        let text = csv(&runs);
        let points: usize = runs.iter().map(|r| r.points.len()).sum();
        assert_eq!(text.lines().count(), points + 1);
        assert!(text.lines().all(|l| l.matches(',').count() == COLUMNS.len() - 1));
    }
}
