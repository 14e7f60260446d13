use bench_record::spec::Benchmark;
use bench_record::{Bandwidth, Point};

use super::*;

fn run(name: &str, size_bytes: usize, depth: usize, mmsg_per_s: f64) -> Run {
    let messages = (mmsg_per_s * 1e6) as u64;
    let bandwidth = Some(Bandwidth::new(messages, messages * size_bytes as u64, 1.0));
    let point = Point { bandwidth, ..Point::new(size_bytes, depth) };
    let mut run = Run::new(name, Benchmark::Bandwidth, vec![point]);
    "efa-bench local bandwidth".clone_into(&mut run.command);
    run
}

fn section_of<'a>(sections: &'a [Section], title: &str) -> &'a Section {
    sections.iter().find(|s| s.title == title).unwrap_or_else(|| {
        panic!("no {title:?} in {:?}", sections.iter().map(|s| &s.title).collect::<Vec<_>>())
    })
}

#[test]
fn every_figure_shows_its_tables_and_says_how_to_measure_it() {
    let sections = sections(&[], None);
    for figure in [
        "2", "3", "4", "5", "6, upper", "6, lower", "7", "8, upper", "8, lower", "9, upper",
        "9, lower",
    ] {
        let title = format!("Figure {figure} (");
        assert!(sections.iter().any(|s| s.title.starts_with(&title)), "{figure}");
    }
    for section in &sections {
        assert!(section.text[0].starts_with("Not measured: run "), "{}", section.title);
        assert!(!section.commands.is_empty() && section.tables.is_empty(), "{}", section.title);
        // Figure 4 has no numbers.
        let has_numbers = section.chart.as_ref().is_some_and(|c| !c.series.is_empty());
        assert_eq!(has_numbers, !section.title.starts_with("Figure 4 ("), "{}", section.title);
    }
}

#[test]
fn every_table_belongs_to_a_figure() {
    for row in published::rows() {
        // The rates of C.3 follow from its bandwidths.
        let is_shown = FIGURES.iter().any(|f| f.tables.contains(&row.table));
        assert!(is_shown || ["c3.2", "c3.4"].contains(&row.table), "{}", row.table);
    }
}

#[test]
fn a_measured_point_stands_beside_the_published_one() {
    // Table C.3: 2.38 M msg/s of 16 B at depth 512 at best; at depth 1, 0.47 MiB/s = 0.0308 M
    // msg/s.
    let sections = sections(&[run("mine", 16, 1, 0.0616)], None);
    let section =
        section_of(&sections, "Figure 6, lower (thesis: 4.8): message rate over depth, 16 B");
    assert_eq!(section.commands, ["efa-bench local bandwidth"]);
    let [table] = section.tables.as_slice() else { panic!("{:?}", section.tables) };
    let [row] = table.rows.as_slice() else { panic!("{:?}", table.rows) };
    assert_eq!([&row[0], &row[2]], ["1", "0.06160"]);
    let ratio: f64 = row[3].parse().expect("a ratio");
    assert!((1.9..2.2).contains(&ratio), "{ratio}");
    // It is not a point of other sizes, nor of figures over queue pairs at depth 256.
    let measured = sections.iter().filter(|s| !s.text[0].starts_with("Not measured"));
    let titles: Vec<&str> = measured.map(|s| s.title.as_str()).collect();
    assert!(
        titles.iter().all(|t| t.contains("16 B")
            || t.contains("one at a time")
            || t.contains("one message")),
        "{titles:?}"
    );
}

#[test]
fn runs_of_another_kind_are_not_mixed_in() {
    let mut listed = run("mine", 16, 256, 9.0);
    listed.method.flow.post_list = 16;
    let mut refilled = run("mine", 16, 256, 9.0);
    refilled.method.flow.window = bench_record::spec::Window::Refill;
    let sections = sections(&[listed, refilled], None);
    assert!(sections.iter().all(|s| s.text[0].starts_with("Not measured")));
}

#[test]
fn counted_headers_are_taken_off() {
    // Table C.5.1: 99.00 MB/s of 72 counted bytes are 88 MB/s of payload.
    let sections = sections(&[], None);
    let section = section_of(
        &sections,
        "Figure 8, upper (thesis: 4.10): bandwidth over threads, 64 B, depth 100",
    );
    let chart = section.chart.as_ref().expect("a plot");
    let line = chart.series.iter().find(|s| s.name == paper::EFA).expect("EFA");
    assert!((line.points[0].1 - 0.704).abs() < 1e-9, "{:?}", line.points[0]);
}
