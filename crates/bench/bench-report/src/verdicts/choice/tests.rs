use bench_record::cores::Cores;
use bench_record::spec::{Arrivals, Benchmark};
use bench_record::{Distribution, Results};

use super::super::tests::calls;
use super::*;
use crate::held;

const NAMES: [&str; 3] = ["mine", "yours", "theirs"];

/// Returns calls with this many outstanding, at these rates of three fabrics.
fn runs(depth: usize, rates: [f64; 3]) -> Vec<Run> {
    let one = |(name, rate): (&str, f64)| {
        let mut run = calls(name, rate, 500.0);
        run.points[0].depth = depth;
        run.setup_us = vec![("open".to_owned(), 40.0)];
        run.cold_start_us = Some(60.0);
        run.command = format!("/opt/softefa run -- /bin/efa-bench run rpc --fabric {name} -t 1");
        run
    };
    NAMES.into_iter().zip(rates).map(one).collect()
}

/// Returns calls by the clock, with this p99 at each of these rates.
fn by_the_clock(name: &str, steps: &[(u64, f64)]) -> Run {
    let mut run = calls(name, 0.1, 500.0);
    let point = run.points.remove(0);
    let step = |&(rate_per_s, p99_us): &(u64, f64)| {
        let mut point = Point { rate_per_s, ..point.clone() };
        point.operation_time = Some(Distribution { p99_us, ..Distribution::default() });
        point.work.as_mut().expect("calls").arrivals = Some(Arrivals::Poisson);
        point
    };
    run.points = steps.iter().map(step).collect();
    run
}

fn found(runs: &[Run]) -> Section {
    let sections = super::super::sections(runs, &NAMES);
    let own = sections.into_iter().find(|own| own.title == "For who chooses a network");
    own.expect("a section")
}

fn row<'a>(table: &'a Table, start: &str) -> &'a [String] {
    table.rows.iter().find(|row| row[0].starts_with(start)).unwrap_or_else(|| panic!("{table:?}"))
}

#[test]
fn the_best_is_named_and_ties_are_called_ties() {
    let section = found(&runs(8, [2.0, 1.0, 1.0]));
    let own = row(&section.tables[0], "has many small calls under way");
    assert_eq!(own[0], "has many small calls under way (rpc 32 B, depth 8)");
    assert_eq!(own[1..3], ["mine", "▲ 2.000 M ops/s, p99 9.000 µs"]);
    assert_eq!(own[3], "1.000 M ops/s, p99 9.000 µs");
    let section = found(&runs(8, [2.0, 1.98, 1.0]));
    let own = row(&section.tables[0], "has many small calls under way");
    assert_eq!(own[1], "near tie: mine; yours");
    assert!(own[2].starts_with("= 2") && own[3].starts_with("= 1.98") && own[4].starts_with('1'));
    let section = found(&runs(8, [2.0, 1.98, 1.97]));
    let own = row(&section.tables[0], "has many small calls under way");
    assert_eq!(own[1], "any: a near tie of all");
}

#[test]
fn what_blocks_do_not_tell_apart_is_undecided() {
    let mut all = runs(8, [2.0, 1.0, 0.5]);
    all[1].points[0].blocks = vec![0.4, 0.9, 1.0, 2.5, 4.0];
    let section = found(&all);
    let own = row(&section.tables[0], "has many small calls under way");
    assert_eq!(own[1], "undecided: mine; yours");
    assert!(own[2].starts_with("? 2") && own[3].starts_with("? 1") && own[4].starts_with('0'));
    // So it is of connections.
    let mut all = [runs(8, [2.0; 3]), runs(1, [2.0; 3])].concat();
    (all[0].cold_start_us, all[3].cold_start_us) = (Some(10.0), Some(900.0));
    all[2].cold_start_us = Some(8_000.0);
    all[5].cold_start_us = Some(9_000.0);
    let section = found(&all);
    let own = row(&section.tables[0], "opens connections often");
    assert_eq!(own[1], "undecided: yours; mine");
    assert!(own[4].starts_with("9040 µs (8040 to 9040 in 2 sessions)"), "{own:?}");
}

/// A fabric with the cores near is not recommended before those with the cores far.
#[test]
fn what_nobody_may_compare_is_undecided() {
    let at = |ns| Some(Cores::between(ns, ns));
    let mut all = runs(8, [2.0, 1.0, 0.5]);
    for (run, ns) in all.iter_mut().zip([110.0, 530.0, 110.0]) {
        run.points[0].cores = at(ns);
    }
    // Better at p99, where the cores were elsewhere.
    all[1].points[0].operation_time.as_mut().expect("times").p99_us = 1.0;
    let section = found(&all);
    let own = row(&section.tables[0], "has many small calls under way");
    let apart = ". Not to be compared, the cores were elsewhere: yours";
    assert_eq!(own[1], format!("undecided: mine; yours{apart}"));
    assert!(own[2].starts_with("? 2") && own[3].starts_with("? 1") && own[4].starts_with('0'));
    // So it is of costs.
    let own = row(&section.tables[0], "has little processor time for its messages");
    assert!(own[1].ends_with(apart) && own[1].contains("ndecided: "), "{own:?}");
    let own = row(&section.tables[0], "opens connections often");
    assert!(own[1].ends_with(apart), "{own:?}");
    // And of rates.
    let mut clock = [
        by_the_clock("mine", &[(1_000, 9.0), (2_000, 9.0)]),
        by_the_clock("yours", &[(1_000, 9.0), (2_000, 9_999.0)]),
    ];
    for (run, ns) in clock.iter_mut().zip([110.0, 530.0]) {
        run.points.iter_mut().for_each(|point| point.cores = at(ns));
    }
    let section = found(&[all, clock.to_vec()].concat());
    let own = row(&section.tables[0], "must answer by the clock");
    assert_eq!(own[1], "undecided: these rates do not tell them apart");
}

#[test]
fn one_block_says_that_nobody_knows_how_certain() {
    let mut all = runs(8, [2.0, 1.0, 1.0]);
    all[1].points[0].blocks.truncate(1);
    let section = found(&all);
    let own = row(&section.tables[0], "has many small calls under way");
    assert_eq!(own[1], "mine. How certain is not known: some have one block");
}

#[test]
fn a_better_tail_of_another_is_said() {
    let mut all = runs(8, [2.0, 1.0, 1.0]);
    all[2].points[0].operation_time.as_mut().expect("times").p99_us = 3.0;
    let section = found(&all);
    let own = row(&section.tables[0], "has many small calls under way");
    assert_eq!(own[1], "mine. Better at p99: theirs");
}

#[test]
fn what_was_not_measured_is_named_once_with_its_command() {
    let mut all = runs(8, [2.0, 1.0, 1.0]);
    all.extend(runs(1, [2.0, 1.0, 1.0]).drain(..2));
    let section = found(&all);
    let own = row(&section.tables[0], "makes one small call after the other");
    assert_eq!(own[4], "-");
    let (title, text) = &section.details[0];
    assert!(title.starts_with("Not measured here: "), "{title}");
    let line = "makes one small call after the other, theirs: softefa run -- efa-bench local rpc -d 1 --fabric theirs";
    assert_eq!(text.lines().filter(|own| *own == line).count(), 1, "{text}");
    assert!(!text.contains("makes one small call after the other, mine"), "{text}");
    let line = "moves files or other long blocks: softefa run -- efa-bench local fileget -s 16M --fabric mine";
    assert!(text.lines().any(|own| own == line), "{text}");
}

#[test]
fn a_rate_is_held_with_all_lower_ones() {
    let steps = [(8_000, 900.0), (1_000, 20.0), (2_000, 1_500.0), (4_000, 30.0)];
    let all = [by_the_clock("mine", &steps)];
    let [ladder] = held::ladders(&all, &NAMES, "rpc").try_into().expect("one place");
    assert_eq!(ladder.label, "rpc 32 B, depth 8");
    let own = &ladder.entries[0];
    assert_eq!(own.words(), "1,000/s, p99 20.00 µs");
    assert_eq!(own.beyond_words(), "2,000/s, p99 1500 µs");
    let words = |steps: &[(u64, f64)]| {
        let all = [by_the_clock("mine", steps)];
        let ladders = held::ladders(&all, &NAMES, "rpc");
        (ladders[0].entries[0].words(), ladders[0].entries[0].beyond_words())
    };
    let (best, beyond) = words(&[(1_000, 20.0), (20_000, 30.0)]);
    assert_eq!(best, "20,000/s, p99 30.00 µs: no higher rate was measured");
    assert_eq!(beyond, "not reached");
    let (best, beyond) = words(&[(1_000_000, 5_000.0)]);
    assert_eq!(
        (&*best, &*beyond),
        ("less than 1,000,000/s, the lowest measured", "1,000,000/s, p99 5000 µs")
    );
}

#[test]
fn only_who_holds_what_others_did_not_hold_is_chosen() {
    let closed = runs(8, [2.0, 1.0, 1.0]);
    let chosen = |mine: &[(u64, f64)], yours: &[(u64, f64)]| {
        let clock = [by_the_clock("mine", mine), by_the_clock("yours", yours)];
        let section = found(&[closed.clone(), clock.to_vec()].concat());
        let own = row(&section.tables[0], "must answer by the clock").to_vec();
        (own[1].clone(), own[4].clone())
    };
    let above = chosen(&[(1_000, 9.0), (2_000, 9.0)], &[(1_000, 9.0), (2_000, 9_999.0)]);
    assert_eq!(above, ("mine".to_owned(), "-".to_owned()));
    let alike = chosen(&[(1_000, 9.0), (2_000, 9.0)], &[(1_000, 90.0), (2_000, 90.0)]);
    assert_eq!(alike.0, "undecided: these rates do not tell them apart");
}

#[test]
fn costs_are_those_of_both_sides() {
    let section = found(&runs(8, [2.0, 1.0, 1.0]));
    let own = row(&section.tables[1], "rpc 32 B, depth 8");
    // 1000 ns for a call of 88 B and two messages.
    assert_eq!(own[4..], ["100.0", "11.36", "0.5000"]);
    let own = row(&section.tables[0], "opens connections often");
    assert_eq!(own[1..3], ["any: a near tie of all", "= 100.0 µs (one session)"]);
}

/// The processor time of all three replicas counts, not that of one.
#[test]
fn costs_are_those_of_all_replicas() {
    let mut run = calls("mine", 1.0, 100.0);
    run.benchmark = Benchmark::Log;
    run.points[0].work.as_mut().expect("calls").servers_per_call = 3;
    let sections = super::super::sections(std::slice::from_ref(&run), &NAMES);
    assert_eq!(sections[0].tables[0].rows[0][5], "400.0 CPU ns/op");
    // 400 ns for two messages.
    assert_eq!(cost::cpu_s_per_million(&run.points[0]), Some(0.2));
}

#[test]
fn every_figure_leads_to_a_row_of_the_page() {
    let mut all = runs(8, [2.0, 1.0, 1.0]);
    all.push(by_the_clock("mine", &[(1_000, 9.0), (2_000, 9_999.0)]));
    let section = found(&all);
    let linked: usize = section.tables.iter().map(|table| table.links.len()).sum();
    assert!(linked > 12, "{linked}");
    let html = report::html(&crate::page::page(&Results::of(all, Vec::new()), Vec::new(), None));
    let targets = html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
    let mut count = 0;
    for target in targets {
        assert_eq!(html.matches(&format!("id=\"{target}\"")).count(), 1, "{target}");
        count += 1;
    }
    assert!(count >= linked, "{count} of {linked}");
}

#[test]
fn plain_messages_are_no_choice() {
    let mut run = calls("mine", 1.0, 1.0);
    run.benchmark = Benchmark::Bandwidth;
    assert!(section(&[run], &[], &NAMES).is_none());
}
