//! Tables.

use std::fmt::Write;

use crate::escape::escape;

/// Where a column's cells are set.
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
}

/// A table; rows shorter than the columns are filled with empty cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table whose first `text_columns` columns are text and whose others are numbers.
    #[must_use]
    pub fn new(caption: &str, titles: &[&str], text_columns: usize) -> Self {
        let columns = titles.iter().enumerate().map(|(index, title)| Column {
            title: (*title).to_owned(),
            align: if index < text_columns { Align::Left } else { Align::Right },
        });
        Self { caption: caption.to_owned(), columns: columns.collect(), rows: Vec::new() }
    }

    /// The same table with sentences in a column.
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

    /// The table in aligned plain text, for terminals.
    #[must_use]
    pub fn text(&self) -> String {
        let count = |text: &str| text.chars().count();
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
        let mut out = line(&|index| self.columns[index].title.clone());
        out.push_str(&line(&|index| "-".repeat(widths[index])));
        for row in &self.rows {
            out.push_str(&line(&|index| Self::cell(row, index).to_owned()));
        }
        out
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
        for row in &self.rows {
            out.push_str("<tr>");
            for (index, column) in self.columns.iter().enumerate() {
                let cell = toned(Self::cell(row, index));
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
        let safe = |text: &str| text.replace('|', "\\|").replace('\n', " ");
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
        for row in &self.rows {
            out.push_str("\n|");
            for index in 0..self.columns.len() {
                let _ = write!(out, " {} |", safe(Self::cell(row, index)));
            }
        }
        out.push('\n');
        out
    }
}

/// Escaped; a verdict has the colour of its sign, which says the same.
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
