//! Results as CSV: one row per point.

use std::fmt::Debug;

use bench_record::counted::Counted;
use bench_record::spec::Order;
use bench_record::{Disorder, Incast, Point, Run, Work};

/// A column: its head, and its cell for a point; `None`: a point does not have it.
type Column = (&'static str, fn(&Run, &Point) -> Option<String>);

const COLUMNS: [Column; 103] = [
    ("name", |r, _| Some(r.name.to_string())),
    ("source", |r, _| Some(r.source.to_string())),
    ("benchmark", |r, _| Some(r.benchmark.name().to_string())),
    ("provider", |r, _| Some(r.fabric.as_ref()?.provider.to_string())),
    ("endpoint", |r, _| Some(lower(&r.endpoint))),
    ("operation", |r, _| Some(r.operation.name().to_string())),
    ("size_bytes", |_, p| Some(p.size_bytes.to_string())),
    ("depth", |_, p| above_0(p.depth as u64)),
    ("rx_depth", |_, p| above_0(p.rx_depth as u64)),
    ("round_trips", |_, p| above_0(p.latency?.round_trips?)),
    ("mean_us", |_, p| Some(p.latency?.mean_us.to_string())),
    ("min_us", |_, p| Some(p.latency?.distribution?.min_us.to_string())),
    ("p50_us", |_, p| Some(p.latency?.distribution?.p50_us.to_string())),
    ("p90_us", |_, p| Some(p.latency?.distribution?.p90_us?.to_string())),
    ("p99_us", |_, p| Some(p.latency?.distribution?.p99_us.to_string())),
    ("p999_us", |_, p| Some(p.latency?.distribution?.p999_us?.to_string())),
    ("max_us", |_, p| Some(p.latency?.distribution?.max_us.to_string())),
    ("messages", |_, p| above_0(p.bandwidth?.messages?)),
    ("seconds", |_, p| Some(p.bandwidth?.seconds.filter(|s| *s > 0.0)?.to_string())),
    ("mb_per_s", |_, p| Some(p.bandwidth?.mb_per_s.to_string())),
    ("gbit_per_s", |_, p| Some(p.bandwidth?.gbit_per_s.to_string())),
    ("mmsg_per_s", |_, p| Some(p.bandwidth?.mmsg_per_s.to_string())),
    ("lost", |_, p| Some(p.lost?.to_string())),
    ("validated", |_, p| above_0(p.validated)),
    ("cold_start_us", |r, _| Some(r.cold_start_us?.to_string())),
    ("complete", |r, _| Some(r.complete.to_string())),
    ("warmup_ms", |_, p| Some(p.warmup_ms.to_string())),
    ("error", |r, _| Some(r.error.as_ref()?.to_string())),
    ("spread_percent", |_, p| Some(p.spread_percent()?.to_string())),
    ("test", |r, _| Some(r.test.to_string())),
    ("interval_low", |_, p| Some(p.interval?.low.to_string())),
    ("interval_high", |_, p| Some(p.interval?.high.to_string())),
    ("p9999_us", |_, p| Some(p.latency?.distribution?.p9999_us?.to_string())),
    ("operation_p50_us", |_, p| Some(p.operation_time?.p50_us.to_string())),
    ("operation_p99_us", |_, p| Some(p.operation_time?.p99_us.to_string())),
    ("window", |r, _| Some(lower(&r.method.flow.window))),
    ("complete_every", |r, _| Some(r.method.flow.complete_every.to_string())),
    ("post_list", |r, _| Some(r.method.flow.post_list.to_string())),
    ("threads", |r, _| Some(r.method.threads.to_string())),
    ("endpoints", |r, _| Some(r.method.endpoints.to_string())),
    ("rate_per_s", |_, p| above_0(p.rate_per_s)),
    ("offered_per_s", |_, p| Some(p.open_loop?.offered_per_s.to_string())),
    ("answered_per_s", |_, p| Some(p.open_loop?.answered_per_s.to_string())),
    ("response_p50_us", |_, p| Some(p.open_loop?.response?.p50_us.to_string())),
    ("response_p99_us", |_, p| Some(p.open_loop?.response?.p99_us.to_string())),
    ("service_p50_us", |_, p| Some(p.open_loop?.service?.p50_us.to_string())),
    ("service_p99_us", |_, p| Some(p.open_loop?.service?.p99_us.to_string())),
    ("load_gbit_per_s", |_, p| Some(p.load?.gbit_per_s.to_string())),
    ("overtaken", |_, p| Some(p.disorder?.overtaken.to_string())),
    ("farthest", |_, p| Some(p.disorder?.farthest.to_string())),
    ("mcalls_per_s", |_, p| Some(work(p)?.mcalls_per_s.to_string())),
    ("behind_ms", |_, p| Some(work(p)?.behind_ms?.to_string())),
    ("get_p99_us", |_, p| Some(work(p)?.times("get")?.p99_us.to_string())),
    ("put_p99_us", |_, p| Some(work(p)?.times("put")?.p99_us.to_string())),
    ("bytes_per_call", |_, p| Some(work(p)?.bytes_per_call.to_string())),
    ("client_cpu_ns_per_call", |_, p| Some(work(p)?.client_cpu_ns.to_string())),
    ("server_cpu_ns_per_call", |_, p| Some(work(p)?.server_cpu_ns.to_string())),
    ("parameter", |_, p| above_0(p.parameter as u64)),
    ("operation_p9999_us", |_, p| Some(p.operation_time?.p9999_us?.to_string())),
    ("wait_p50_us", |_, p| Some(work(p)?.part("wait")?.p50_us.to_string())),
    ("wait_p99_us", |_, p| Some(work(p)?.part("wait")?.p99_us.to_string())),
    ("wait_p9999_us", |_, p| Some(work(p)?.part("wait")?.p9999_us?.to_string())),
    ("client_process_cpu_ns_per_call", |_, p| Some(work(p)?.client_process_cpu_ns.to_string())),
    ("server_process_cpu_ns_per_call", |_, p| Some(work(p)?.server_process_cpu_ns.to_string())),
    ("reads_per_call", |_, p| Some(work(p)?.reads_per_call.to_string())),
    ("client_cpu_s_per_gb", |_, p| Some(work(p)?.client_cpu_s_per_gb?.to_string())),
    ("server_cpu_s_per_gb", |_, p| Some(work(p)?.server_cpu_s_per_gb?.to_string())),
    ("ranks", |_, p| Some(p.collective?.ranks.to_string())),
    ("bus_gbit_per_s", |_, p| Some(p.collective?.bus_gbit_per_s?.to_string())),
    ("wire_bytes_per_message", |_, p| Some(counted(p, Counted::wire_bytes)?.to_string())),
    ("packets_per_message", |_, p| Some(counted(p, Counted::packets)?.to_string())),
    ("retransmitted_packets", |_, p| Some(p.counted.as_ref()?.retransmitted()?.to_string())),
    ("order", |_, p| Some(p.order.name().to_string())),
    ("held", |_, p| Some(kept(p)?.held.to_string())),
    ("held_most", |_, p| Some(kept(p)?.held_most.to_string())),
    ("flows", |_, p| Some(incast(p)?.flows.to_string())),
    ("ideal_gbps", |_, p| Some(incast(p)?.ideal_gbps.to_string())),
    ("ideal_us", |_, p| Some(incast(p)?.bursts?.ideal_us.to_string())),
    ("min_to_ideal", |_, p| Some(incast(p)?.bursts?.min_to_ideal.to_string())),
    ("mean_to_ideal", |_, p| Some(incast(p)?.bursts?.mean_to_ideal.to_string())),
    ("max_to_ideal", |_, p| Some(incast(p)?.bursts?.max_to_ideal.to_string())),
    ("worst_to_ideal", |_, p| Some(incast(p)?.bursts?.worst_to_ideal.to_string())),
    ("jain", |_, p| Some(jain(p)?.to_string())),
    ("fair_gbps", |_, p| Some(incast(p)?.shares.as_ref()?.fair_gbps.to_string())),
    ("jain_worst", |_, p| Some(incast(p)?.shares.as_ref()?.jain_worst.to_string())),
    ("min_to_fair", |_, p| Some(incast(p)?.shares.as_ref()?.min_to_fair.to_string())),
    ("max_to_fair", |_, p| Some(incast(p)?.shares.as_ref()?.max_to_fair.to_string())),
    ("mtuples_per_s", |_, p| Some(p.shuffle?.mtuples_per_s.to_string())),
    ("node_gb_per_s", |_, p| Some(p.shuffle?.gb_per_s.to_string())),
    ("node_gb_per_s_min", |_, p| Some(p.shuffle?.gb_per_s_min.to_string())),
    ("node_gb_per_s_max", |_, p| Some(p.shuffle?.gb_per_s_max.to_string())),
    ("link_percent", |_, p| Some(p.shuffle?.link_percent?.to_string())),
    ("cpu_ns_per_tuple", |_, p| Some(p.shuffle?.cpu_ns_per_tuple.to_string())),
    ("fill", |_, p| Some(p.shuffle?.fill.to_string())),
    ("load_max_to_mean", |_, p| Some(p.shuffle?.load_max_to_mean.to_string())),
    ("time_max_to_mean", |_, p| Some(p.shuffle?.time_max_to_mean.to_string())),
    ("to_server_gbit_per_s", |_, p| Some(p.both_ways?.to_server.gbit_per_s.to_string())),
    ("to_client_gbit_per_s", |_, p| Some(p.both_ways?.to_client.gbit_per_s.to_string())),
    ("events", |r, _| Some(r.method.flow.events.to_string())),
    ("client_cpu_us", |_, p| Some(p.client_cpu_us?.to_string())),
    ("overlap_percent", |_, p| Some(p.collective?.overlap_percent?.to_string())),
    ("connections", |_, p| Some(p.connections.as_ref()?.count.to_string())),
    ("connections_per_s", |_, p| Some(p.connections.as_ref()?.per_s.to_string())),
];

/// Tidy CSV: one row per point, empty cells for what a point does not have.
pub fn csv(runs: &[Run]) -> String {
    let mut out = COLUMNS.map(|(head, _)| head).join(",") + "\n";
    for run in runs {
        for point in &run.points {
            let cells = COLUMNS.map(|(_, cell)| cell(run, point).unwrap_or_default());
            out.push_str(&report::csv_line(&cells));
        }
    }
    out
}

/// A count; 0: it is not known.
fn above_0(count: u64) -> Option<String> {
    (count > 0).then(|| count.to_string())
}

/// The name of a variant in small letters.
fn lower(variant: &impl Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

const fn work(point: &Point) -> Option<&Work> {
    point.work.as_ref()
}

fn counted(point: &Point, what: fn(&Counted) -> Option<u64>) -> Option<f64> {
    let counted = point.counted.as_ref()?;
    counted.per_message(what(counted))
}

/// Of streams whose order was kept.
fn kept(point: &Point) -> Option<Disorder> {
    point.disorder.filter(|_| point.order == Order::Kept)
}

const fn incast(point: &Point) -> Option<&Incast> {
    point.incast.as_ref()
}

fn jain(point: &Point) -> Option<f64> {
    let incast = incast(point)?;
    incast.bursts.map(|own| own.jain).or_else(|| Some(incast.shares.as_ref()?.jain))
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
