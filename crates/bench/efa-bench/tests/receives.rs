//! The number of posted receives: that of a point does not depend on what else its session
//! measures.

use crate::common::{assert_fails, efa_bench, points_of};

/// Returns size, depth and receives of each point.
fn receives(options: &str) -> Vec<(u64, u64)> {
    let usual = "bandwidth --fabric tcp -s 64 -t 0.02 -w 0.01";
    let points = points_of(format!("{usual} --blocks 1 {options}"));
    let number = |point: &serde_json::Value, name: &str| point[name].as_u64().expect("a number");
    points.iter().map(|point| (number(point, "depth"), number(point, "rx_depth"))).collect()
}

#[test]
fn a_point_of_a_sweep_has_the_receives_that_it_has_alone() {
    assert_eq!(receives("-d 2,8,64"), [(2, 2), (8, 8), (64, 64)]);
    assert_eq!(receives("-d 8"), [(8, 8)]);
    assert_eq!(receives("-d 2,8 --rx-depth 16"), [(2, 16), (8, 16)]);
    assert_fails(&efa_bench("local bandwidth --rx-depth 0"), 2, &["--rx-depth 0"]);
}
