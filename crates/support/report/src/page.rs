//! A page and its HTML.

use std::fmt::Write;

use crate::chart::Chart;
use crate::dots::Dots;
use crate::escape::{address, escape};
use crate::style::{CSS, REVEAL, SORT};
use crate::svg::svg;
use crate::table::Table;

/// Minimum number of sections of a page that lists them.
const CONTENTS_MIN: usize = 8;
/// Number of warnings above which they are folded.
const WARNINGS_MAX: usize = 2;

/// A whole report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Title of the document.
    pub title: String,
    /// The lessons that the reader should take away, one paragraph each.
    pub summary: Vec<String>,
    /// The warnings that limit the meaning of the figures.
    pub warnings: Vec<String>,
    /// Name and value pairs: machine, date, versions.
    pub facts: Vec<(String, String)>,
    /// The body.
    pub sections: Vec<Section>,
}

/// The place of a section on the page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layout {
    /// In sequence, over the whole width.
    #[default]
    Body,
    /// On the first screen, before warnings and facts; a page with such sections is wide, and folds
    /// its facts.
    Lead,
    /// Beside another one of this kind, where there is room; its text, data and commands are
    /// folded.
    Half,
    /// Behind its title, until it is opened.
    Folded,
}

/// One part of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// Heading; on the first screen it may be empty.
    pub title: String,
    /// The place of the section on the page.
    pub layout: Layout,
    /// Paragraphs above the chart.
    pub text: Vec<String>,
    /// HTML that the caller made, with a style and a script of its own; it stands in front of the
    /// chart as it is.
    pub markup: String,
    /// The chart.
    pub chart: Option<Chart>,
    /// Tables that are always shown.
    pub tables: Vec<Table>,
    /// Small charts, side by side, with the text below.
    pub panels: Vec<Dots>,
    /// Further tables, folded; the chart's own numbers come by themselves before them.
    pub data: Vec<Table>,
    /// Commands that make these figures again.
    pub commands: Vec<String>,
    /// Long texts, folded, each with its heading.
    pub details: Vec<(String, String)>,
    /// Links to other pages: titles and files.
    pub links: Vec<(String, String)>,
}

/// Renders a page into one self-contained HTML document.
#[must_use]
pub fn html(page: &Page) -> String {
    let title = escape(&page.title);
    let (lead, body): (Vec<_>, Vec<_>) =
        (0..).zip(&page.sections).partition(|(_, section)| section.layout == Layout::Lead);
    let class = if lead.is_empty() { "" } else { " class=\"wide\"" };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{CSS}</style></head>\n<body><main{class}><h1>{title}</h1>\n"
    );
    paragraphs(&mut out, &page.summary);
    lead.iter().for_each(|(index, section)| section_html(&mut out, section, *index));
    warnings(&mut out, &page.warnings);
    facts(&mut out, &page.facts, !lead.is_empty());
    contents(&mut out, &body);
    let is_half = |(_, section): &(usize, &Section)| section.layout == Layout::Half;
    for group in body.chunk_by(|one, other| is_half(one) && is_half(other)) {
        let are_halves = group.first().is_some_and(is_half);
        out.push_str(if are_halves { "<div class=\"halves\">\n" } else { "" });
        group.iter().for_each(|(index, section)| section_html(&mut out, section, *index));
        out.push_str(if are_halves { "</div>\n" } else { "" });
    }
    let _ = writeln!(out, "</main><script>{SORT}{REVEAL}</script></body></html>");
    out
}

fn warnings(out: &mut String, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let (first, rest) = warnings.split_at(warnings.len().min(WARNINGS_MAX));
    out.push_str("<div class=\"warn\" role=\"note\">");
    paragraphs(out, first);
    if !rest.is_empty() {
        let _ = write!(out, "<details><summary>{} more</summary>", rest.len());
        paragraphs(out, rest);
        out.push_str("</details>");
    }
    out.push_str("</div>\n");
}

fn facts(out: &mut String, facts: &[(String, String)], are_folded: bool) {
    if facts.is_empty() {
        return;
    }
    out.push_str(if are_folded { "<details><summary>Machine and command</summary>" } else { "" });
    out.push_str("<dl>");
    for (name, value) in facts {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    out.push_str(if are_folded { "</dl></details>\n" } else { "</dl>\n" });
}

/// Writes links to the sections, where there are more than one sees at once.
fn contents(out: &mut String, sections: &[(usize, &Section)]) {
    if sections.len() < CONTENTS_MIN {
        return;
    }
    out.push_str("<nav aria-label=\"Contents\"><details><summary>Contents</summary><ul>");
    for (index, section) in sections {
        let _ = write!(out, "<li><a href=\"#s{index}\">{}</a></li>", escape(&section.title));
    }
    out.push_str("</ul></details></nav>\n");
}

/// Writes texts as paragraphs; what stands between backticks is code.
fn paragraphs(out: &mut String, texts: &[String]) {
    for text in texts {
        let _ = writeln!(out, "<p>{}</p>", with_code(text));
    }
}

/// Escapes a text, with what stands between backticks as code.
fn with_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len() % 2 == 0 {
        // One of them has no partner: nobody knows which.
        return escape(text);
    }
    let part = |(number, text): (usize, &&str)| match number % 2 {
        0 => escape(text),
        _ => format!("<code>{}</code>", escape(text)),
    };
    parts.iter().enumerate().map(part).collect()
}

fn section_html(out: &mut String, section: &Section, index: usize) {
    let title = escape(&section.title);
    match section.layout {
        Layout::Folded => {
            let _ = writeln!(
                out,
                "<section aria-labelledby=\"s{index}\"><details class=\"part\"><summary><h2 id=\"s{index}\">{title}\
                 </h2></summary>"
            );
        }
        _ if title.is_empty() => out.push_str("<section>\n"),
        _ => {
            let _ = writeln!(
                out,
                "<section aria-labelledby=\"s{index}\"><h2 id=\"s{index}\">{title}</h2>"
            );
        }
    }
    let is_half = section.layout == Layout::Half;
    if !is_half && section.panels.is_empty() {
        paragraphs(out, &section.text);
    }
    out.push_str(&section.markup);
    chart(out, section, index);
    section.tables.iter().for_each(|table| out.push_str(&table.html()));
    panels(out, section, index);
    if is_half {
        out.push_str("<details><summary>Meaning, data, commands</summary>");
        paragraphs(out, &section.text);
        rest(out, section);
        out.push_str("</details>");
    } else {
        rest(out, section);
    }
    out.push_str(if section.layout == Layout::Folded {
        "</details></section>\n"
    } else {
        "</section>\n"
    });
}

fn chart(out: &mut String, section: &Section, index: usize) {
    let Some(chart) = &section.chart else { return };
    let _ = writeln!(
        out,
        "<figure><figcaption>{}</figcaption>{}</figure>",
        escape(&chart.title),
        svg(chart, &format!("c{index}"))
    );
}

/// Writes small charts side by side, and the legend of their marks.
fn panels(out: &mut String, section: &Section, index: usize) {
    if section.panels.is_empty() {
        return;
    }
    out.push_str("<div class=\"panels\">");
    for (number, panel) in section.panels.iter().enumerate() {
        let picture = panel.svg(&format!("p{index}-{number}"));
        let title = escape(&panel.title);
        let _ = writeln!(out, "<figure><figcaption>{title}</figcaption>{picture}</figure>");
    }
    out.push_str("</div><div class=\"soft\">");
    paragraphs(out, &section.text);
    out.push_str("</div>");
}

/// Writes data, commands, long texts and other pages.
fn rest(out: &mut String, section: &Section) {
    let of_chart = section.chart.iter().map(Chart::table);
    let of_panels = section.panels.iter().map(Dots::table);
    let all: Vec<Table> = of_chart.chain(of_panels).chain(section.data.iter().cloned()).collect();
    // The tables of small charts belong together.
    let are_together = section.panels.len() > 1;
    out.push_str(if are_together {
        "<details><summary>Data of these charts</summary>"
    } else {
        ""
    });
    for table in &all {
        if are_together {
            out.push_str(&table.html());
            continue;
        }
        let summary = escape(&table.caption);
        let _ =
            writeln!(out, "<details><summary>Data: {summary}</summary>{}</details>", table.html());
    }
    out.push_str(if are_together { "</details>" } else { "" });
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
    for (what, file) in &section.links {
        let file = escape(&address(file));
        let _ = writeln!(out, "<p><a href=\"{file}\">{}</a></p>", escape(what));
    }
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
        for forbidden in ["http:", "https:", "<script ", "src=", "<link", "@import", "url("] {
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

    #[test]
    fn the_first_screen_comes_before_warnings_and_facts() {
        let mut page = page();
        let lead =
            Section { layout: Layout::Lead, text: vec!["First.".to_owned()], ..Section::default() };
        page.sections.push(lead);
        page.warnings.extend(["two".to_owned(), "three".to_owned()]);
        let text = html(&page);
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}"));
        assert!(at("First.") < at("beware") && at("beware") < at("<summary>1 more"), "{text}");
        assert!(at("<summary>1 more") < at("Machine and command") && at("three") < at("6.1"));
        assert!(text.contains("<main class=\"wide\">") && !text.contains("<h2 id=\"s1\"></h2>"));
    }

    #[test]
    fn charts_that_stand_side_by_side_fold_what_is_about_them() {
        let mut page = page();
        let half = Section { layout: Layout::Half, ..page.sections[0].clone() };
        page.sections =
            vec![half.clone(), half, Section { title: "After".to_owned(), ..Section::default() }];
        let text = html(&page);
        assert_eq!(text.matches("class=\"halves\"").count(), 1);
        let (halves, rest) = text.split_once("</div>\n<section").expect("the end of the halves");
        assert_eq!((halves.matches("<figure>").count(), rest.contains("After")), (2, true));
        page.sections[2].layout = Layout::Folded;
        assert!(html(&page).contains("<summary><h2 id=\"s2\">After"));
    }

    #[test]
    fn commands_in_sentences_are_code() {
        assert_eq!(
            with_code("run `a <b>` & `c`"),
            "run <code>a &lt;b&gt;</code> &amp; <code>c</code>"
        );
        assert_eq!(with_code("a ` alone"), "a ` alone");
    }
}
