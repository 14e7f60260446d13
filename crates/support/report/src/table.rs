//! Tables.

use std::fmt::Write;

use crate::escape::{escape, escape_markdown};

/// The alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
    /// Sentences: on a page they break into lines.
    Prose,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading, with the unit.
    pub title: String,
    /// Alignment.
    pub align: Align,
    /// A narrow table lacks it before those with a higher number, and those without one.
    pub least: Option<u8>,
}

/// A table; rows shorter than the columns are filled with empty cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// The caption: what the table shows.
    pub caption: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
    /// Rows that links lead to: their number and their name, which is unique on the page.
    pub anchors: Vec<(usize, String)>,
    /// Cells that lead to a row of this page: row and column of the cell, name of the other row.
    pub links: Vec<(usize, usize, String)>,
}

impl Table {
    /// Creates a table whose first `text_columns` columns are text and whose others are numbers.
    #[must_use]
    pub fn new(caption: &str, titles: &[&str], text_columns: usize) -> Self {
        let columns = titles.iter().enumerate().map(|(index, title)| Column {
            title: (*title).to_owned(),
            align: if index < text_columns { Align::Left } else { Align::Right },
            least: None,
        });
        Self { caption: caption.to_owned(), columns: columns.collect(), ..Self::default() }
    }

    /// Returns the table with sentences in a column.
    #[must_use]
    pub fn with_prose(mut self, column: usize) -> Self {
        if let Some(column) = self.columns.get_mut(column) {
            column.align = Align::Prose;
        }
        self
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    fn cell(row: &[String], index: usize) -> &str {
        row.get(index).map_or("", String::as_str)
    }

    /// Returns the name of a row that has one.
    fn anchor(&self, row: usize) -> Option<&str> {
        self.anchors.iter().find(|(own, _)| *own == row).map(|(_, name)| name.as_str())
    }

    /// Returns the target of a cell's link.
    fn link(&self, row: usize, column: usize) -> Option<&str> {
        let own = self.links.iter().find(|(r, c, _)| (*r, *c) == (row, column));
        own.map(|(_, _, name)| name.as_str())
    }

    /// Renders the table as aligned plain text, for terminals.
    #[must_use]
    pub fn text(&self) -> String {
        let count = |text: &str| text.chars().count();
        // A cell is one line, and tells a terminal nothing.
        let plain = |text: &str| text.replace(char::is_control, "\u{fffd}");
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let cells = self.rows.iter().map(|row| count(Self::cell(row, index)));
                cells.chain([count(&column.title)]).max().unwrap_or(0)
            })
            .collect();
        let line = |cells: &dyn Fn(usize) -> String| {
            let mut out = String::new();
            for (index, column) in self.columns.iter().enumerate() {
                let cell = cells(index);
                let pad = " ".repeat(widths[index].saturating_sub(count(&cell)));
                let gap = if index == 0 { "" } else { "  " };
                let _ = match column.align {
                    Align::Left | Align::Prose => write!(out, "{gap}{cell}{pad}"),
                    Align::Right => write!(out, "{gap}{pad}{cell}"),
                };
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
            out
        };
        let mut out = line(&|index| plain(&self.columns[index].title));
        out.push_str(&line(&|index| "-".repeat(widths[index])));
        for row in &self.rows {
            out.push_str(&line(&|index| plain(Self::cell(row, index))));
        }
        out
    }

    /// Returns the table no wider than `chars` where that is possible, and the headings of the
    /// columns that it lacks: first those that say nothing (empty, "-" or "0" in every row), then
    /// those with a number (`least`), then from the right. The first column and one more stay.
    #[must_use]
    pub fn within(&self, chars: usize) -> (Self, Vec<String>) {
        let (mut own, mut lacks) = (self.clone(), Vec::new());
        own.links.clear();
        while own.chars() > chars && own.columns.len() > 2 {
            let says_nothing = |index: &usize| {
                let cell = |row: &Vec<String>| Self::cell(row, *index).to_owned();
                own.rows.iter().all(|row| ["", "-", "0"].contains(&cell(row).as_str()))
            };
            let all = || (1..own.columns.len()).rev();
            let least = || all().filter_map(|index| Some((own.columns[index].least?, index))).min();
            let least = || least().map(|(_, index)| index);
            let index = all().find(says_nothing).or_else(least).unwrap_or(own.columns.len() - 1);
            lacks.push(own.columns.remove(index).title);
            for row in own.rows.iter_mut().filter(|row| row.len() > index) {
                row.remove(index);
            }
        }
        (own, lacks)
    }

    /// Returns the width of its text.
    fn chars(&self) -> usize {
        self.text().lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    pub(crate) fn html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\" tabindex=\"0\" role=\"region\"");
        let _ = write!(out, " aria-label=\"{}\"><table>", escape(&self.caption));
        let _ = write!(out, "<caption>{}</caption><thead><tr>", escape(&self.caption));
        for column in &self.columns {
            let _ = write!(
                out,
                "<th scope=\"col\"{}>{}</th>",
                class(column.align),
                escape(&column.title)
            );
        }
        out.push_str("</tr></thead><tbody>");
        for (number, row) in self.rows.iter().enumerate() {
            let _ = match self.anchor(number) {
                Some(name) => write!(out, "<tr id=\"{}\">", escape(name)),
                None => write!(out, "<tr>"),
            };
            for (index, column) in self.columns.iter().enumerate() {
                let mut cell = toned(Self::cell(row, index));
                if let Some(name) = self.link(number, index) {
                    cell = format!("<a href=\"#{}\">{cell}</a>", escape(name));
                }
                let _ = if index == 0 {
                    write!(out, "<th scope=\"row\"{}>{cell}</th>", class(column.align))
                } else {
                    write!(out, "<td{}>{cell}</td>", class(column.align))
                };
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        out
    }

    pub(crate) fn markdown(&self) -> String {
        let safe = |text: &str| escape_markdown(text).replace('|', "\\|").replace('\n', " ");
        let mut out = String::from("|");
        for column in &self.columns {
            let _ = write!(out, " {} |", safe(&column.title));
        }
        out.push_str("\n|");
        for column in &self.columns {
            out.push_str(match column.align {
                Align::Left | Align::Prose => "---|",
                Align::Right => "---:|",
            });
        }
        for (number, row) in self.rows.iter().enumerate() {
            out.push_str("\n|");
            for index in 0..self.columns.len() {
                let cell = safe(Self::cell(row, index));
                let anchor = self.anchor(number).filter(|_| index == 0);
                let anchor = anchor.map_or_else(String::new, |own| format!("<a id=\"{own}\"></a>"));
                let _ = match self.link(number, index) {
                    Some(name) => write!(out, " {anchor}[{cell}](#{name}) |"),
                    None => write!(out, " {anchor}{cell} |"),
                };
            }
        }
        out.push('\n');
        out
    }
}

/// Escapes a cell; a verdict has the colour of its sign, which says the same.
fn toned(cell: &str) -> String {
    let text = escape(cell);
    let class = match cell.chars().next() {
        Some('▲') => "good",
        Some('▼') => "bad",
        Some('◆') => "both",
        _ => return text,
    };
    format!("<span class=\"{class}\">{text}</span>")
}

const fn class(align: Align) -> &'static str {
    match align {
        Align::Left => "",
        Align::Right => " class=\"n\"",
        Align::Prose => " class=\"p\"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("C", &["name", "µs"], 1);
        table.push(vec!["a|b".to_owned(), "1.5".to_owned()]);
        table.push(vec!["<long name>".to_owned()]);
        table
    }

    #[test]
    fn text_is_aligned() {
        let expected = "name          µs\n-----------  ---\na|b          1.5\n<long name>\n";
        assert_eq!(table().text(), expected);
    }

    #[test]
    fn cells_lead_to_rows_that_have_names() {
        let mut table = table();
        table.anchors.push((1, "m0-1".to_owned()));
        table.links.push((0, 1, "m0-1".to_owned()));
        let html = table.html();
        assert!(html.contains("<td class=\"n\"><a href=\"#m0-1\">1.5</a></td>"), "{html}");
        assert!(html.contains("<tr id=\"m0-1\"><th scope=\"row\">&lt;long name&gt;"), "{html}");
        let text = table.markdown();
        assert!(text.contains("| a\\|b | [1.5](#m0-1) |"), "{text}");
        assert!(text.contains("| <a id=\"m0-1\"></a>&lt;long name> |"), "{text}");
    }

    #[test]
    fn narrow_tables_lack_what_tells_least() {
        let mut table = Table::new("C", &["size", "p50", "p99", "lost", "mean"], 0);
        table.push(["64", "5.651", "9.121", "0", "5.800"].map(str::to_owned).to_vec());
        table.columns[4].least = Some(1);
        let titles = |chars| {
            let (own, lacks) = table.within(chars);
            let left: Vec<String> = own.columns.into_iter().map(|column| column.title).collect();
            (left.join(" "), lacks.join(" "))
        };
        let of = |left: &str, lacks: &str| (left.to_owned(), lacks.to_owned());
        assert_eq!(titles(100), of("size p50 p99 lost mean", ""));
        assert_eq!(titles(28), of("size p50 p99 mean", "lost"));
        assert_eq!(titles(20), of("size p50 p99", "lost mean"));
        assert_eq!(titles(12), of("size p50", "lost mean p99"));
        // The columns that are left are not torn.
        assert_eq!(titles(1), of("size p50", "lost mean p99"));
        assert_eq!(table.within(20).0.rows[0], ["64", "5.651", "9.121"]);
    }

    #[test]
    fn verdicts_have_the_colour_of_their_sign() {
        assert_eq!(toned("▲ 2 < 3"), "<span class=\"good\">▲ 2 &lt; 3</span>");
        assert_eq!(toned("▼ slow"), "<span class=\"bad\">▼ slow</span>");
        assert_eq!((toned("= as fast"), toned("")), ("= as fast".to_owned(), String::new()));
    }

    #[test]
    fn short_rows_and_markup_are_safe() {
        let html = table().html();
        assert!(html.contains("&lt;long name&gt;") && html.contains("<td class=\"n\"></td>"));
        assert!(table().markdown().contains("a\\|b"));
        let html = table().with_prose(1).html();
        assert!(html.contains("<td class=\"p\">1.5</td>"));
    }
}
