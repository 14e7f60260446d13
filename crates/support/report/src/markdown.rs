//! A page as Markdown, without its long texts and the caller's markup. Plots are files beside it,
//! or their data tables stand in for them.

use std::fmt::Write;

use crate::escape::{address, escape_markdown as safe};
use crate::page::Page;

/// Width of prose in Markdown; pictures and tables may be wider.
pub const COLUMNS: usize = 100;

/// Breaks text into lines of at most [`COLUMNS`]. The first line begins with `first`, the others
/// with `rest`; a word that is longer than a line has one of its own.
#[must_use]
pub fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), first.to_owned());
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
        } else if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

/// Renders a page for places that show Markdown (pull requests, wikis).
#[must_use]
pub fn markdown(page: &Page) -> String {
    markdown_with(page, |_| None)
}

/// Renders a page with pictures; `image` names that of a section's chart.
pub(crate) fn markdown_with(page: &Page, image: impl Fn(usize) -> Option<String>) -> String {
    let mut out = format!("# {}\n", safe(&page.title));
    for text in &page.summary {
        let _ = write!(out, "\n{}\n", safe(text));
    }
    for text in &page.warnings {
        let _ = write!(out, "\n> {}\n", safe(text));
    }
    if !page.facts.is_empty() {
        out.push('\n');
    }
    for (name, value) in &page.facts {
        let _ = writeln!(out, "* {}: {}", safe(name), safe(value));
    }
    for (index, section) in page.sections.iter().enumerate() {
        if !section.title.is_empty() {
            let _ = write!(out, "\n## {}\n", safe(&section.title));
        }
        for text in &section.text {
            let _ = write!(out, "\n{}\n", safe(text));
        }
        if let (Some(chart), Some(file)) = (&section.chart, image(index)) {
            let words = format!("{}. {}", chart.title, chart.description);
            let words = safe(&words).replace('[', "(").replace(']', ")");
            let _ = write!(out, "\n![{words}]({})\n", address(&file));
        }
        let chart_data = section.chart.as_ref().map(crate::chart::Chart::table);
        let panels: Vec<_> = section.panels.iter().map(crate::dots::Dots::table).collect();
        let shown = section.tables.iter().chain(&panels);
        for table in shown.chain(&chart_data).chain(&section.data) {
            let _ = write!(out, "\n{}:\n\n{}", safe(&table.caption), table.markdown());
        }
        if !section.commands.is_empty() {
            let commands = section.commands.join("\n");
            let fence = fence(&commands);
            let _ = write!(out, "\n{fence}sh\n{commands}\n{fence}\n");
        }
        for (what, file) in &section.links {
            let file =
                file.strip_suffix(".html").map_or_else(|| file.clone(), |own| format!("{own}.md"));
            let _ = write!(out, "\n[{}]({})\n", safe(what), address(&file));
        }
    }
    out
}

/// Returns the fence for a text, longer than any line of backticks within it.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Section;
    use crate::table::Table;

    #[test]
    fn text_is_broken_into_lines() {
        let words = "µ234 ".repeat(20);
        let expected = format!("* {}\n  µ234", "µ234 ".repeat(19).trim_end());
        assert_eq!(wrapped(&words, "* ", "  "), expected);
        let line = words.trim_end();
        assert_eq!((line.chars().count(), wrapped(&words, "", "")), (99, line.to_owned()));
        let long = "x".repeat(101);
        assert_eq!(wrapped(&format!("a {long} b"), "", ""), format!("a\n{long}\nb"));
    }

    /// A name in a result file once was a program in every wiki that shows the page.
    #[test]
    fn strings_of_files_are_no_markup() {
        let evil = "<script>alert(1)</script>".to_owned();
        let mut table = Table::new(&evil, &["a"], 1);
        table.push(vec![evil.clone()]);
        let section = Section {
            title: evil.clone(),
            text: vec![evil.clone()],
            tables: vec![table],
            commands: vec!["a <b && c\n```\nd".to_owned()],
            links: vec![(evil.clone(), "a.html".to_owned())],
            ..Section::default()
        };
        let page = Page {
            title: evil.clone(),
            summary: vec![evil.clone()],
            warnings: vec![evil.clone()],
            facts: vec![(evil.clone(), evil)],
            sections: vec![section],
        };
        let text = markdown(&page);
        assert!(!text.contains("<script") && text.contains("&lt;script>"), "{text}");
        let code = "````sh\na <b && c\n```\nd\n````\n";
        assert!(text.contains(code), "code is as it is: {text}");
    }

    #[test]
    fn tables_and_commands_are_there() {
        let mut table = Table::new("numbers", &["a", "b"], 1);
        table.push(vec!["x".to_owned(), "1".to_owned()]);
        let section = Section {
            title: "S".to_owned(),
            tables: vec![table],
            commands: vec!["go".to_owned()],
            ..Section::default()
        };
        let page = Page { title: "P".to_owned(), sections: vec![section], ..Page::default() };
        let expected =
            "# P\n\n## S\n\nnumbers:\n\n| a | b |\n|---|---:|\n| x | 1 |\n\n```sh\ngo\n```\n";
        assert_eq!(markdown(&page), expected);
    }
}
