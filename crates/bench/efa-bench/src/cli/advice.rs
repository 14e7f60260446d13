//! Pages advise commands for what was not measured: each is one that this program takes.

use clap::Parser;
use bench_record::{Bandwidth, Point, Results, Run};
use bench_record::spec::Benchmark;
use bench_report::{figures, lessons, page};

use super::Cli;

#[test]
fn every_command_of_a_figure_is_taken() {
    for command in figures::commands() {
        let own = command.trim_start_matches("softefa run -- ").split_whitespace();
        assert!(Cli::try_parse_from(own).is_ok(), "{command}");
    }
}

#[test]
fn every_command_for_who_chooses_a_network_is_taken() {
    let words = r#"{"calls":2,"seconds":1.0,"mcalls_per_s":1.0,"messages_per_call":2.0,
        "bytes_per_call":88.0,"client_cpu_ns":1.0,"server_cpu_ns":1.0,"actions":[]}"#;
    let work = serde_json::from_str(words).expect("calls");
    let point = Point { work: Some(work), ..Point::new(9, 2) };
    let run = Run::new("mine", Benchmark::Kv, vec![point]);
    let page = page::page(&Results::of(vec![run], Vec::new()), Vec::new(), None);
    let own = page.sections.iter().find(|own| own.title == "For who chooses a network");
    let text = &own.expect("a section").details[0].1;
    assert!(text.lines().count() > 10, "{text}");
    for line in text.lines() {
        let (_, command) = line.split_once(": ").expect("a command");
        assert!(Cli::try_parse_from(command.split(' ')).is_ok(), "{command}");
    }
}

#[test]
fn every_command_for_a_lesson_that_is_missing_is_taken() {
    let point = Point { bandwidth: Some(Bandwidth::new(100, 800, 1.0)), ..Point::new(8, 1) };
    let run = Run::new("mine", Benchmark::Bandwidth, vec![point]);
    let [section] = lessons::sections(&[run]).try_into().expect("one section");
    for line in section.details[0].1.lines() {
        let (_, command) = line.split_once(": ").expect("a command");
        // What comes after a comma and a blank is for people.
        let command = command.split(", ").next().unwrap_or_default();
        assert!(Cli::try_parse_from(command.split(' ')).is_ok(), "{command}");
    }
}
