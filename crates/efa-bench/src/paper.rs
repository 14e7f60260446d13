//! Published figures of EFA hardware, to stand beside what is measured here.

use crate::record::{Bandwidth, Latency, Point, Run};
use crate::spec::Benchmark;

const DATA: &str = include_str!("../data/efa-c5n.csv");
const CITATION: &str = "Dwarakanandan B.M, Elastic Fabric Adapter: A Viable Alternative to RDMA \
    over InfiniBand for DBMS?, master thesis, TU Darmstadt 2022, appendix C, tables C.1 and C.3";
const MIB: f64 = 1_048_576.0;

/// Name of the published EFA hardware in tables and plots.
pub(crate) const EFA: &str = "EFA hardware (thesis)";
/// Name of the published RDMA over InfiniBand figures.
pub(crate) const RC: &str = "InfiniBand RC (thesis)";
/// Name of the published TCP figures.
pub(crate) const TCP: &str = "TCP on AWS (thesis)";

struct Row {
    series: &'static str,
    size_bytes: usize,
    depth: usize,
    unit: &'static str,
    value: f64,
}

fn rows() -> Vec<Row> {
    let parse = |line: &'static str| {
        let mut cells = line.split(',');
        Some(Row {
            series: cells.next()?,
            size_bytes: cells.next()?.parse().ok()?,
            depth: cells.next()?.parse().ok()?,
            unit: cells.next()?,
            value: cells.next()?.parse().ok()?,
        })
    };
    DATA.lines().filter(|l| !l.starts_with('#')).filter_map(parse).collect()
}

/// All published runs.
pub(crate) fn runs() -> Vec<Run> {
    let rows = rows();
    let mut runs: Vec<Run> = [("efa", EFA), ("rc", RC), ("tcp", TCP)]
        .into_iter()
        .map(|(series, name)| {
            let own = |r: &&Row| r.series == series && r.unit == "latency_us";
            let points = rows.iter().filter(own).map(latency_point).collect();
            new_run(name, Benchmark::Latency, points)
        })
        .collect();
    let bandwidth = rows.iter().filter(|r| r.unit == "mib_per_s");
    let points = bandwidth.map(|r| bandwidth_point(r, &rows)).collect();
    runs.push(new_run(EFA, Benchmark::Bandwidth, points));
    runs
}

fn new_run(name: &str, benchmark: Benchmark, points: Vec<Point>) -> Run {
    Run {
        source: "published".to_owned(),
        citation: Some(CITATION.to_owned()),
        ..Run::new(name, benchmark, points)
    }
}

fn latency_point(row: &Row) -> Point {
    let latency = Latency { round_trips: 0, mean_us: row.value, distribution: None };
    Point { latency: Some(latency), ..Point::new(row.size_bytes, row.depth) }
}

/// Bandwidth as printed (MiB/s). The message rate follows from it: the printed rates have only two
/// decimals.
fn bandwidth_point(row: &Row, rows: &[Row]) -> Point {
    let bytes_per_s = row.value * MIB;
    let mmsg_per_s = bytes_per_s / row.size_bytes as f64 / 1e6;
    debug_assert!(
        rows.iter()
            .filter(|r| r.unit == "mmsg_per_s")
            .filter(|r| r.size_bytes == row.size_bytes && r.depth == row.depth)
            .all(|r| (r.value - mmsg_per_s).abs() < 0.011),
        "the two tables disagree"
    );
    let bandwidth = Bandwidth {
        messages: 0,
        seconds: 0.0,
        mb_per_s: bytes_per_s / 1e6,
        gbit_per_s: bytes_per_s * 8.0 / 1e9,
        mmsg_per_s,
    };
    Point { bandwidth: Some(bandwidth), ..Point::new(row.size_bytes, row.depth) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_have_the_right_units() {
        let runs = runs();
        assert_eq!(runs.iter().map(|r| r.points.len()).collect::<Vec<_>>(), [10, 10, 10, 52]);
        let srd = &runs[0].points[2];
        assert_eq!((srd.size_bytes, srd.latency.map(|l| l.mean_us)), (64, Some(20.68)));
        let best = runs[3].points.iter().find(|p| p.size_bytes == 8192 && p.depth == 256);
        let best = best.and_then(|p| p.bandwidth).expect("the row of table C.3");
        assert!((best.gbit_per_s - 93.49).abs() < 0.01, "{best:?}");
        assert!((best.mmsg_per_s - 1.4265).abs() < 0.0001, "{best:?}");
    }

    #[test]
    fn every_line_of_the_data_file_is_read() {
        let lines = DATA.lines().filter(|l| !l.starts_with('#')).count();
        assert_eq!(rows().len(), lines);
    }
}
