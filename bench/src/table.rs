//! Rows of figures beside what they are compared with, as text and as JSON.

use serde_json::{Value, json};

use crate::block;
use crate::comparison::{Bound, Comparison};

const COLUMNS: usize = 11;

type Cells = [String; COLUMNS];

/// The table as aligned text; medians over the rounds. `heads` are those of the two figures.
pub(crate) fn to_text([ours, reference]: [&str; 2], rows: &[Comparison]) -> String {
    let head =
        ["", ours, "spread", reference, "spread", "ratio", "of rounds", "cores", "must", "aim", ""];
    let head = head.map(String::from);
    let cells: Vec<Cells> = rows.iter().map(cells).collect();
    let width = |column: usize| {
        let widest = cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        // A column that no row has is left out.
        if widest == 0 { 0 } else { widest.max(head[column].chars().count()) }
    };
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let line = |row: &Cells| {
        let shown = row.iter().zip(&widths).filter(|(_, width)| **width > 0);
        let padded = shown.map(|(cell, &width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&head);
    let mut section = "";
    for (row, cells) in rows.iter().zip(&cells) {
        if row.section != section {
            section = row.section;
            text += &format!("{section}\n");
        }
        text += &line(cells);
    }
    let blocks = rows.iter().flat_map(|row| row.ours.iter().chain(&row.reference));
    text + &block::cores(&blocks) + "\n"
}

fn cells(row: &Comparison) -> Cells {
    let found = row.found();
    let beside = match row.reference_name {
        "" => String::new(),
        name => format!("{} {name}", significant(found.reference)),
    };
    let ratio = if row.has_ratio() { significant(row.ratio()) } else { String::new() };
    [
        row.what.to_owned(),
        match found.ours.is_nan() {
            true => "-".to_owned(),
            false => format!("{} {}", significant(found.ours), row.unit),
        },
        found.ours_spread.map_or_else(String::new, percent),
        beside,
        found.reference_spread.map_or_else(String::new, percent),
        ratio,
        row.ratio_range().map_or_else(String::new, |(low, high)| {
            format!("{}..{}", significant(low), significant(high))
        }),
        row.cores(),
        must(row.wanted),
        row.aim.map_or_else(String::new, |aim| aim.to_string()),
        row.verdict().to_owned(),
    ]
}

fn must(wanted: Bound) -> String {
    match wanted {
        Bound::RatioAtMost(limit) => format!("<= {limit} x"),
        Bound::RatioAtLeast(limit) => format!(">= {limit} x"),
        Bound::AtLeast(limit) => format!(">= {limit}"),
        Bound::RatioWithin(limit) => format!("within {:.0} %", limit * 100.0),
        Bound::Nothing => String::new(),
    }
}

fn percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}

/// Three digits that mean something.
fn significant(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "-".to_owned(),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// All rounds of all rows.
pub(crate) fn to_json(rows: &[Comparison]) -> Value {
    json!({ "version": 2, "rows": rows.iter().map(row_to_json).collect::<Vec<_>>() })
}

fn row_to_json(row: &Comparison) -> Value {
    let figures =
        |blocks: &[block::Block]| -> Vec<f64> { blocks.iter().map(|b| b.figure).collect() };
    let cores =
        |blocks: &[block::Block]| -> Vec<&str> { blocks.iter().map(|b| b.phase.name()).collect() };
    let found = row.found();
    json!({
        "section": row.section,
        "what": row.what,
        "unit": row.unit,
        "ours": figures(&row.ours),
        "ours_cores": cores(&row.ours),
        "ours_median": found.ours,
        "ours_spread": found.ours_spread,
        "reference_name": row.reference_name,
        "reference": figures(&row.reference),
        "reference_cores": cores(&row.reference),
        "reference_median": found.reference,
        "reference_spread": found.reference_spread,
        "cores": found.phase.map(|phase| phase.name()),
        "ratio": row.ratio(),
        "ratios": row.ratios(),
        "must": must(row.wanted),
        "aim": row.aim,
        "verdict": row.verdict(),
        "passes": row.passes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use crate::floor::Phase;

    fn row(ours: &[f64], wanted: Bound) -> Comparison {
        let blocks = |figures: &[f64]| figures.iter().map(|f| Block::at(*f, Phase::Near)).collect();
        let row = Comparison::new("latency", "us", "UDP", wanted);
        Comparison { ours: blocks(ours), reference: blocks(&[2.0]), ..row }
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let text = to_text(["ours", "theirs"], &[row(&[3.0], Bound::RatioAtMost(1.6))]);
        let lines: Vec<&str> = text.lines().collect();
        let at = |line: &str, word: &str| line.find(word).expect(word);
        assert_eq!(at(lines[0], "must"), at(lines[1], "<= 1.6 x"));
        assert!(!text.contains("aim") && lines[1].ends_with("pass"), "{text}");
        let aimed = Comparison { aim: Some(1.5), ..row(&[3.0], Bound::RatioAtMost(1.6)) };
        let text = to_text(["ours", "theirs"], &[aimed]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(at(lines[0], "aim"), at(lines[1], "1.5  "), "{text}");
    }

    #[test]
    fn sections_are_named_once() {
        let named = |section| Comparison { section, ..row(&[3.0], Bound::Nothing) };
        let text = to_text(["ours", "theirs"], &[named("memory"), named("memory"), named("UDP:")]);
        let heads: Vec<&str> = text.lines().filter(|line| !line.contains(' ')).collect();
        assert_eq!(heads, ["memory", "UDP:"], "{text}");
    }

    #[test]
    fn a_row_of_the_longest_cells_fits_120_columns() {
        let mut widest = Comparison {
            reference_name: "UDP ping-pong",
            what: "ib_send_bw 8 KiB",
            unit: "Gbit/s",
            aim: Some(0.85),
            ..row(&[0.5, 133.3, 200.0], Bound::RatioAtMost(1.35))
        };
        widest.reference = [50.0, 133.3, 200.0].map(|f| Block::at(f, Phase::Near)).to_vec();
        widest.ours.push(Block::at(1.0, Phase::Far));
        widest.reference.push(Block::at(1.0, Phase::Far));
        let text = to_text(["Soft-EFA", "beside"], &[widest]);
        for line in text.lines() {
            assert!(line.chars().count() <= 120, "{}: {line}", line.chars().count());
        }
    }

    #[test]
    fn three_digits_are_shown() {
        let shown = [0.6234, 9.999, 33.33, 99.96, 1234.5].map(significant);
        assert_eq!(shown, ["0.62", "10.0", "33.3", "100", "1234"]);
        assert_eq!(significant(f64::NAN), "-");
    }

    #[test]
    fn json_has_what_the_text_shows() {
        let json =
            to_json(&[Comparison { aim: Some(1.2), ..row(&[3.0], Bound::RatioAtMost(1.6)) }]);
        let row = &json["rows"][0];
        assert_eq!((&json["version"], &row["must"]), (&2.into(), &"<= 1.6 x".into()));
        assert_eq!((&row["ratio"], &row["aim"]), (&1.5.into(), &1.2.into()));
        assert_eq!((&row["cores"], &row["verdict"]), (&"near".into(), &"pass".into()));
        // What could not be measured is null, not a number that is none.
        let json = to_json(&[self::row(&[], Bound::AtLeast(1.0))]);
        assert!(json["rows"][0]["ours_median"].is_null(), "{json}");
    }
}
