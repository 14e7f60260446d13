//! A page as Markdown with its plots as files beside it.

use crate::chart::Chart;
use crate::markdown::markdown_with;
use crate::page::Page;
use crate::style::CSS;
use crate::svg::{WIDTH, height, svg};

/// Returns the Markdown file `STEM.md` and, for each chart, `STEM-plots/N.svg`, which it shows:
/// names and contents.
#[must_use]
pub fn markdown_files(page: &Page, stem: &str) -> Vec<(String, String)> {
    let name = |index: usize| format!("{stem}-plots/{}.svg", index + 1);
    let mut files = vec![(format!("{stem}.md"), markdown_with(page, |index| Some(name(index))))];
    for (index, section) in page.sections.iter().enumerate() {
        files.extend(section.chart.iter().map(|chart| (name(index), svg_file(chart))));
    }
    files
}

/// Returns a chart as a file of its own, with its colours; readers without a style sheet see it
/// light or dark as they prefer.
fn svg_file(chart: &Chart) -> String {
    let inline = svg(chart, "c");
    let body = inline.trim_start_matches("<svg ");
    let (start, rest) = body.split_once('>').unwrap_or((body, ""));
    let height = height(chart);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" {start}>\
         <style>{CSS}svg{{background:var(--ground)}}</style>{rest}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::{Axis, Scale};
    use crate::page::Section;

    #[test]
    fn charts_are_files_that_the_text_shows() {
        let axis = || Axis { label: "x".to_owned(), scale: Scale::Linear };
        let (title, description) = ("A [plot]".to_owned(), "It rises.".to_owned());
        let chart = Chart { title, description, x: axis(), y: axis(), series: Vec::new() };
        let without = Section { title: "Text".to_owned(), ..Section::default() };
        let with = Section { chart: Some(chart), ..without.clone() };
        let page = Page { sections: vec![without, with], ..Page::default() };
        let files = markdown_files(&page, "index");
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["index.md", "index-plots/2.svg"]);
        assert!(files[0].1.contains("![A (plot). It rises.](index-plots/2.svg)"), "{}", files[0].1);
        assert!(files[1].1.starts_with("<svg xmlns=") && files[1].1.ends_with("</svg>\n"));
        assert!(files[1].1.contains(" width=\"760\" height=\"400\" "), "{}", files[1].1);
        assert_eq!(files[1].1.matches("<style>").count(), 1);
    }

    #[test]
    fn names_that_are_no_addresses_are_encoded_where_the_text_names_them() {
        let axis = || Axis { label: "x".to_owned(), scale: Scale::Linear };
        let (title, description) = ("A".to_owned(), "B".to_owned());
        let chart = Chart { title, description, x: axis(), y: axis(), series: Vec::new() };
        let links = vec![("Papers".to_owned(), "a b#1-paper.html".to_owned())];
        let section = Section { chart: Some(chart), links, ..Section::default() };
        let page = Page { sections: vec![section], ..Page::default() };
        let files = markdown_files(&page, "a b#1");
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a b#1.md", "a b#1-plots/1.svg"]);
        for needed in ["](a%20b%231-plots/1.svg)", "[Papers](a%20b%231-paper.md)"] {
            assert!(files[0].1.contains(needed), "{needed}: {}", files[0].1);
        }
        let html = crate::page::html(&page);
        assert!(html.contains("<a href=\"a%20b%231-paper.html\">Papers</a>"), "{html}");
    }
}
