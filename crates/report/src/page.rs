//! A page and its HTML.

use std::fmt::Write;

use crate::chart::Chart;
use crate::escape::escape;
use crate::style::CSS;
use crate::svg::svg;
use crate::table::Table;

/// Pages of so many sections have a list of them.
const CONTENTS_MIN: usize = 8;

/// A whole report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Title of the document.
    pub title: String,
    /// What the reader should take away, one paragraph each.
    pub summary: Vec<String>,
    /// What limits the meaning of the figures.
    pub warnings: Vec<String>,
    /// Name and value pairs: machine, date, versions.
    pub facts: Vec<(String, String)>,
    /// The body.
    pub sections: Vec<Section>,
}

/// One part of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Paragraphs above the chart.
    pub text: Vec<String>,
    /// The chart.
    pub chart: Option<Chart>,
    /// Tables that are always shown.
    pub tables: Vec<Table>,
    /// Further tables, folded; the chart's own numbers come by themselves before them.
    pub data: Vec<Table>,
    /// Commands that make these figures again.
    pub commands: Vec<String>,
    /// Long texts, folded, each with its heading.
    pub details: Vec<(String, String)>,
}

/// Renders a page into one self-contained HTML document.
#[must_use]
pub fn html(page: &Page) -> String {
    let title = escape(&page.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{CSS}</style></head>\n<body><main><h1>{title}</h1>\n"
    );
    paragraphs(&mut out, &page.summary);
    if !page.warnings.is_empty() {
        out.push_str("<div class=\"warn\" role=\"note\">");
        paragraphs(&mut out, &page.warnings);
        out.push_str("</div>\n");
    }
    if !page.facts.is_empty() {
        out.push_str("<dl>");
        for (name, value) in &page.facts {
            let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        out.push_str("</dl>\n");
    }
    contents(&mut out, &page.sections);
    for (index, section) in page.sections.iter().enumerate() {
        section_html(&mut out, section, index);
    }
    out.push_str("</main></body></html>\n");
    out
}

/// Links to the sections, where there are more than one sees at once.
fn contents(out: &mut String, sections: &[Section]) {
    if sections.len() < CONTENTS_MIN {
        return;
    }
    out.push_str("<nav aria-label=\"Contents\"><details><summary>Contents</summary><ul>");
    for (index, section) in sections.iter().enumerate() {
        let _ = write!(out, "<li><a href=\"#s{index}\">{}</a></li>", escape(&section.title));
    }
    out.push_str("</ul></details></nav>\n");
}

fn paragraphs(out: &mut String, texts: &[String]) {
    for text in texts {
        let _ = writeln!(out, "<p>{}</p>", escape(text));
    }
}

fn section_html(out: &mut String, section: &Section, index: usize) {
    let _ = writeln!(
        out,
        "<section aria-labelledby=\"s{index}\"><h2 id=\"s{index}\">{}</h2>",
        escape(&section.title)
    );
    paragraphs(out, &section.text);
    if let Some(chart) = &section.chart {
        let _ = writeln!(
            out,
            "<figure><figcaption>{}</figcaption>{}</figure>",
            escape(&chart.title),
            svg(chart, &format!("c{index}"))
        );
    }
    for table in &section.tables {
        out.push_str(&table.html());
    }
    let chart_data = section.chart.as_ref().map(Chart::table);
    for table in chart_data.iter().chain(&section.data) {
        let summary = escape(&table.caption);
        let _ =
            writeln!(out, "<details><summary>Data: {summary}</summary>{}</details>", table.html());
    }
    if !section.commands.is_empty() {
        out.push_str("<details><summary>Commands that measure this again</summary>");
        let _ = write!(out, "<pre>{}</pre></details>", escape(&section.commands.join("\n")));
    }
    for (name, text) in &section.details {
        let _ = write!(
            out,
            "<details><summary>{}</summary><pre>{}</pre></details>",
            escape(name),
            escape(text)
        );
    }
    out.push_str("</section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::{Axis, Scale};
    use crate::chart::{Series, Stroke};

    fn page() -> Page {
        let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Log2 };
        let chart = Chart {
            title: "Latency".to_owned(),
            description: "Rises with size.".to_owned(),
            x: axis("size"),
            y: axis("µs"),
            series: vec![Series {
                name: "one".to_owned(),
                look: 0,
                stroke: Stroke::Solid,
                points: vec![(1.0, 2.0), (2.0, 3.0)],
            }],
        };
        let mut table = Table::new("numbers", &["size", "µs"], 0);
        table.push(vec!["1".to_owned(), "2".to_owned()]);
        Page {
            title: "A <report>".to_owned(),
            summary: vec!["sum & total".to_owned()],
            warnings: vec!["beware".to_owned()],
            facts: vec![("kernel".to_owned(), "6.1".to_owned())],
            sections: vec![Section {
                title: "L".to_owned(),
                chart: Some(chart),
                data: vec![table],
                commands: vec!["run --x \"y\"".to_owned()],
                details: vec![("fi_info".to_owned(), "a<b".to_owned())],
                ..Section::default()
            }],
        }
    }

    #[test]
    fn the_document_stands_alone() {
        let text = html(&page());
        for forbidden in ["http:", "https:", "<script", "<link", "@import", "url("] {
            assert!(!text.contains(forbidden), "{forbidden}");
        }
        for needed in ["<title>A &lt;report&gt;</title>", "prefers-color-scheme", "lang=\"en\""] {
            assert!(text.contains(needed), "{needed}");
        }
    }

    #[test]
    fn every_chart_has_title_description_table_and_command() {
        let text = html(&page());
        for needed in [
            "aria-labelledby=\"c0-t c0-d\"",
            "<desc id=\"c0-d\">Rises with size.</desc>",
            "<caption>numbers</caption>",
            "run --x &quot;y&quot;",
            "a&lt;b",
        ] {
            assert!(text.contains(needed), "{needed}");
        }
    }
}
