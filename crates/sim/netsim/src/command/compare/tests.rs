//! Tests of what counts as a change, and of what is compared with what.

use super::*;

fn point(title: &str, max_to_ideal: &[f64]) -> Point {
    let run = |(seed, &max_to_ideal): (u64, &f64)| Run {
        flows: 4,
        done: 4,
        summary: Some(Summary { max_to_ideal, ..summary() }),
        ..Run::failed(seed, String::new())
    };
    let runs = (1..).zip(max_to_ideal).map(run).map(|run| Run { error: None, ..run });
    Point { title: title.to_owned(), runs: runs.collect(), ..Point::default() }
}

fn summary() -> Summary {
    let text = "{\"done\":4,\"min_us\":1,\"mean_us\":1,\"p50_us\":1,\"p99_us\":1,\"max_us\":1,\
        \"min_to_ideal\":1,\"mean_to_ideal\":1,\"max_to_ideal\":1,\"repeated_percent\":0,\"jain\":1}";
    serde_json::from_str(text).unwrap()
}

fn changes(base: &Point, new: &Point, threshold: Option<f64>) -> Vec<Change> {
    rows(base, new, threshold).iter().map(|row| row.change).collect()
}

#[test]
fn changes_beyond_the_noise_are_told() {
    let base = point("a", &[1.0, 1.1, 1.2]);
    let all_same = changes(&base, &base, None);
    assert_eq!(all_same, [Change::Same; 6]);
    let worse = point("a", &[1.1, 1.21, 1.32]);
    assert_eq!(changes(&base, &worse, None)[1], Change::Regressed);
    assert_eq!(changes(&worse, &base, None)[1], Change::Improved);
    assert_eq!(changes(&base, &worse, Some(11.0))[1], Change::Same);
    let noisy = point("a", &[1.3, 0.9, 1.4]);
    assert_eq!(changes(&base, &noisy, None)[1], Change::Inconclusive, "the seeds disagree");
}

#[test]
fn a_flow_that_does_not_end_is_a_regression() {
    let base = point("a", &[1.0]);
    let mut new = base.clone();
    new.runs[0].done = 3;
    assert_eq!(changes(&base, &new, Some(50.0))[0], Change::Regressed);
    new.runs[0] = Run::failed(1, "broken".to_owned());
    assert_eq!(changes(&base, &new, Some(50.0)), [Change::Regressed]);
}

#[test]
fn points_pair_by_what_they_are() {
    let results = |points| Results::new(points);
    let (a, b) =
        (results(vec![point("x", &[1.0]), point("y", &[1.0])]), results(vec![point("y", &[1.0])]));
    let found: Vec<bool> = pairs(&a, &b).iter().map(|(_, new)| new.is_some()).collect();
    assert_eq!(found, [false, true]);
    let other = results(vec![point("z", &[1.0])]);
    assert!(pairs(&b, &other)[0].1.is_some(), "one point each");
}

/// All points were once paired with the first.
#[test]
fn points_that_look_alike_pair_by_file_and_then_by_order() {
    let results = |files: &[&str]| {
        let of = |file: &&str| Point { file: (*file).to_owned(), ..point("x", &[1.0]) };
        Results::new(files.iter().map(of).collect())
    };
    let found = |base: &[&str], new: &[&str]| -> Vec<String> {
        let (base, new) = (results(base), results(new));
        let name = |point: Option<&Point>| point.map_or_else(String::new, |p| p.file.clone());
        pairs(&base, &new).into_iter().map(|(_, new)| name(new)).collect()
    };
    assert_eq!(found(&["a", "b"], &["b", "a"]), ["a", "b"]);
    assert_eq!(found(&["a", "b"], &["x/a", "x/b"]), ["x/a", "x/b"]);
    assert_eq!(found(&["b", "a", "d"], &["a", "c"]), ["c", "a", ""]);
    let mut twice = results(&["a", "a"]);
    twice.points[1].runs[0].done = 3;
    let pairs = pairs(&twice, &twice);
    assert!(pairs.iter().all(|(base, new)| Some(*base) == *new), "{pairs:?}");
}

/// Only the number of flows that had ended was once compared.
#[test]
fn seeds_that_only_one_point_has_are_named() {
    let (base, mut new) = (point("a", &[1.0, 1.0, 1.0]), point("a", &[1.0]));
    assert_eq!(lone_seeds(&base, &base), None);
    assert_eq!(lone_seeds(&base, &new).unwrap(), "seeds 2, 3 only in the first");
    new.runs[0].seed = 9;
    assert!(both(&base, &new).is_empty());
    let lone = "seeds 1, 2, 3 only in the first, seed 9 only in the second";
    assert_eq!(lone_seeds(&base, &new).unwrap(), lone);
}

/// A run that lost its slowest flows once counted as an improvement.
#[test]
fn figures_of_all_flows_are_those_of_runs_that_ended() {
    let base = point("a", &[4.0, 4.0]);
    let mut new = point("a", &[4.0, 1.0]);
    new.runs[1].done = 3;
    let of = |rows: &[FigureChange], figure: &str| {
        rows.iter().find(|row| row.figure == figure).map(|row| (row.base, row.new))
    };
    let both_ended = rows(&base, &new, None);
    assert_eq!(of(&both_ended, "max/ideal"), Some((4.0, 4.0)), "of the first seed");
    new.runs[0].done = 3;
    let none_ended = rows(&base, &new, None);
    let figures: Vec<&str> = none_ended.iter().map(|row| row.figure).collect();
    assert_eq!(figures, ["flows done", "sent/needed"]);
}

/// Seeds that only one file has were once counted with the others.
#[test]
fn flows_that_ended_are_those_of_the_seeds_that_both_have() {
    let (mut base, new) = (point("a", &[1.0, 1.0, 1.0]), point("a", &[1.0, 1.0]));
    base.runs[2].done = 3;
    assert_eq!(changes(&base, &new, None)[0], Change::Same, "it looked like an improvement");
    assert_eq!(changes(&new, &base, None)[0], Change::Same, "it looked like a regression");
    base.runs[2] = Run::failed(3, "broken".to_owned());
    assert_eq!(changes(&new, &base, None)[0], Change::Same);
    base.runs[1].done = 3;
    assert_eq!(changes(&new, &base, None)[0], Change::Regressed, "of seed 2, which both have");
}

/// The interval of up to five seeds is their range, and that of more leaves out the outermost: one
/// seed that had not changed once disarmed the gate.
#[test]
fn seeds_that_did_not_change_hide_no_regression() {
    let of = |base: &[f64], new: &[f64]| changes(&point("a", base), &point("a", new), None)[1];
    assert_eq!(of(&[1.0; 3], &[300.0, 300.0, 1.0]), Change::Regressed);
    assert_eq!(of(&[1.0; 3], &[1.5, 1.0, 1.01]), Change::Regressed, "none got better");
    assert_eq!(of(&[1.0; 3], &[1.02, 1.0, 1.0]), Change::Same, "less than the threshold");
    assert_eq!(of(&[1.0; 3], &[1.5, 1.5, 0.9]), Change::Inconclusive, "one got better");
    assert_eq!(of(&[1.0; 3], &[3.0, 0.9, 0.9]), Change::Regressed, "one is twice as bad");
    let mut ten = [1.0; 10];
    ten[6] = 1.5;
    assert_eq!(of(&[1.0; 10], &ten), Change::Regressed);
    ten[7] = 0.5;
    assert_eq!(of(&[1.0; 10], &ten), Change::Same, "as much better as worse");
    ten[6] = 300.0;
    assert_eq!(of(&[1.0; 10], &ten), Change::Regressed);
    let base = point("a", &[1.0; 3]);
    assert_eq!(changes(&base, &point("a", &[3.0, 1.0, 1.0]), Some(500.0))[1], Change::Same);
}
