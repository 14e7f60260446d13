//! Published figures of EFA hardware, to stand beside what is measured here.

use bench_record::spec::Benchmark;
use bench_record::{Bandwidth, Latency, Point, Run};
use published::{CITATION, Fabric, Measurement, Unit, rows};

/// Name of the published EFA hardware in tables and plots.
pub const EFA: &str = "paper:efa-c5n";
/// Name of the published RDMA over InfiniBand figures.
pub const RC: &str = "paper:cx5-rc";
/// Name of the published TCP figures.
pub const TCP: &str = "paper:tcp";

/// Returns the name that a column of the published tables has in tables and plots.
pub(crate) const fn name(fabric: Fabric) -> &'static str {
    match fabric {
        Fabric::Efa => EFA,
        Fabric::Rc => RC,
        Fabric::Tcp => TCP,
    }
}

/// Returns the published runs of the plain benchmarks: latency over size, one stream over size and
/// depth.
pub fn runs() -> Vec<Run> {
    let rows = rows();
    let run = |table: &str, fabric: Fabric, benchmark, point: fn(&Measurement) -> Option<Point>| {
        let own = rows.iter().filter(|r| r.table == table && r.fabric == fabric);
        Run {
            source: "published".to_owned(),
            citation: Some(format!("{CITATION}, table {}", table.to_uppercase())),
            ..Run::new(name(fabric), benchmark, own.filter_map(point).collect())
        }
    };
    vec![
        run("c1", Fabric::Efa, Benchmark::Latency, latency),
        run("c1", Fabric::Rc, Benchmark::Latency, latency),
        run("c1", Fabric::Tcp, Benchmark::Latency, latency),
        run("c3.3", Fabric::Efa, Benchmark::Bandwidth, bandwidth),
        run("c3.1", Fabric::Rc, Benchmark::Bandwidth, bandwidth),
    ]
}

fn point(row: &Measurement) -> Point {
    Point::new(row.size_bytes as usize, row.depth as usize)
}

fn latency(row: &Measurement) -> Option<Point> {
    let latency = Latency { round_trips: None, mean_us: row.value, distribution: None };
    (row.unit == Unit::MeanUs).then(|| Point { latency: Some(latency), ..point(row) })
}

/// Returns the point of a published bandwidth. The message rate is computed from it, because the
/// printed rates have only two decimals.
fn bandwidth(row: &Measurement) -> Option<Point> {
    let (mmsg_per_s, gbit_per_s) = (row.mmsg_per_s(row.value)?, row.gbit_per_s(row.value)?);
    let mb_per_s = gbit_per_s * 1e3 / 8.0;
    let bandwidth = Bandwidth { messages: None, seconds: None, mb_per_s, gbit_per_s, mmsg_per_s };
    Some(Point { bandwidth: Some(bandwidth), ..point(row) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_have_the_right_units() {
        let runs = runs();
        assert_eq!(runs.iter().map(|r| r.points.len()).collect::<Vec<_>>(), [10, 10, 10, 52, 52]);
        let srd = &runs[0].points[2];
        assert_eq!((srd.size_bytes, srd.latency.map(|l| l.mean_us)), (64, Some(20.68)));
        let best = runs[3].points.iter().find(|p| p.size_bytes == 8192 && p.depth == 256);
        let best = best.and_then(|p| p.bandwidth).expect("the row of table C.3");
        assert!((best.gbit_per_s - 93.49).abs() < 0.01, "{best:?}");
        assert!((best.mmsg_per_s - 1.4265).abs() < 0.0001, "{best:?}");
    }
}
